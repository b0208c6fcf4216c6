/* unit_transfer_name.c - the names that "leat receive" accepts from another process, and the texts that it shows.
 */
#include "transfer_name.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static void good_names(void **state)
{
    static const char *const names[] = {"a",
                                        "model-00001-of-00002.safetensors",
                                        "with blanks and 'quotes'",
                                        "a..b",
                                        "-rf",
                                        "gr\xc3\xb6\xc3\x9f\x65",
                                        "\xe6\xa8\xa1\xe5\x9e\x8b",
                                        "\xf0\x9f\x98\x80"};
    char longest[TRANSFER_NAME_MAX + 1];

    (void)state;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (transfer_name_problem(names[i]))
            fail_msg("'%s' is refused: %s", names[i], transfer_name_problem(names[i]));
    memset(longest, 'a', sizeof longest - 1);
    longest[sizeof longest - 1] = '\0';
    assert_null(transfer_name_problem(longest));
}

static void bad_names(void **state)
{
    static const char *const names[] = {"",
                                        ".",
                                        "..",
                                        "../a",
                                        "/etc/passwd",
                                        "a/b",
                                        "a/",
                                        ".bashrc",
                                        "a\nb",
                                        "a\x1b[2J",
                                        "a\x7f",
                                        "\xc2\x9b"
                                        "2J",
                                        "\xff",
                                        "\xc3",
                                        "a\xc3",
                                        "\xe6\xa8",
                                        "\xc0\xae\xc0\xae",
                                        "\xe0\x80\xaf",
                                        "\xed\xa0\x80",
                                        "\xf4\x90\x80\x80",
                                        "a\xe2\x80\xae"
                                        "exe",
                                        "\xe2\x81\xa6",
                                        "\xe2\x80\xa8"};
    char longer[TRANSFER_NAME_MAX + 2];

    (void)state;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (!transfer_name_problem(names[i]))
            fail_msg("name %zu is accepted", i);
    memset(longer, 'a', sizeof longer - 1);
    longer[sizeof longer - 1] = '\0';
    assert_non_null(transfer_name_problem(longer));
}

static void shown_texts(void **state)
{
    char shown[16];

    (void)state;
    assert_string_equal(transfer_show(shown, sizeof shown, "a\x1b[2Jb\n"), "a?[2Jb?");
    assert_string_equal(transfer_show(shown, sizeof shown, "\xc3\xb6\xff"), "\xc3\xb6?");
    assert_string_equal(transfer_show(shown, sizeof shown, "0123456789abcdefghi"), "0123456789abcde");
    assert_string_equal(transfer_show(shown, 4, "ab\xc3\xb6"), "ab?");
    assert_string_equal(transfer_show(shown, 1, "ab"), "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(good_names), cmocka_unit_test(bad_names),
                                       cmocka_unit_test(shown_texts)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
