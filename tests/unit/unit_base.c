/* unit_base.c - tests parts of src/base one by one: strings, options, messages, address ranges, handles. */
#include "harness.h"

#include "base/error.h"
#include "base/fault_handler.h"
#include "base/handles.h"
#include "base/options.h"
#include "base/ranges.h"
#include "base/strbuf.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

/* ---- texts ------------------------------------------------------------------------------------- */

/* Encodes a code point as UTF-8 with the given number of bytes, also where UTF-8 does not allow it. */
static void encode(uint32_t point, unsigned bytes, char text[5])
{
    static const unsigned char first[] = {0, 0, 0xc0, 0xe0, 0xf0};

    for (unsigned i = bytes; --i; point >>= 6)
        text[i] = (char)(0x80 | (point & 0x3f));
    text[0] = (char)(first[bytes] | point);
    text[bytes] = '\0';
}

static void characters_are_those_of_utf8(void **state)
{
    char text[5];

    (void)state;
    assert_int_equal(leati_utf8_length(""), 0);
    assert_int_equal(leati_utf8_length("x"), 1);
    for (uint32_t point = 0; point < 0x200000; point++) {
        unsigned right = point < 0x80 ? 1 : point < 0x800 ? 2 : point < 0x10000 ? 3 : 4;
        bool allowed = point <= 0x10ffff && (point < 0xd800 || point > 0xdfff);

        for (unsigned bytes = 2; bytes <= 4; bytes++) {
            if (point >> (bytes == 2 ? 11 : bytes == 3 ? 16 : 21))
                continue;
            encode(point, bytes, text);
            if (leati_utf8_length(text) != (allowed && bytes == right ? bytes : 0))
                fail_msg("U+%X in %u bytes: %zu", point, bytes, leati_utf8_length(text));
            /* The character is truncated, or another byte follows in the middle of it. */
            text[bytes - 1] = '\0';
            assert_int_equal(leati_utf8_length(text), 0);
            text[bytes - 1] = 'x';
            assert_int_equal(leati_utf8_length(text), 0);
        }
    }
    for (int byte = 0x80; byte < 0x100; byte++)
        assert_int_equal(leati_utf8_length((char[]){(char)byte, '\0'}), 0);
}

static void texts_are_cut_between_characters(void **state)
{
    char to[6];

    (void)state;
    leati_utf8_copy(to, sizeof to, "a\xc3\xa9\xe2\x82\xac");
    assert_string_equal(to, "a\xc3\xa9");
    leati_utf8_copy(to, sizeof to,
                    "ab\xe2\x82\xac"
                    "c");
    assert_string_equal(to, "ab\xe2\x82\xac");
    /* Bytes that are not UTF-8 are copied unchanged. */
    leati_utf8_copy(to, sizeof to,
                    "\xff\xc3\xff\xe2\x82"
                    "c");
    assert_string_equal(to, "\xff\xc3\xff\xe2\x82");
    leati_utf8_copy(to, 1, "a");
    assert_string_equal(to, "");
}

static void append(void *argument, const char *piece, size_t bytes)
{
    strncat(argument, piece, bytes);
}

static void json_strings_are_utf8(void **state)
{
    char json[200] = "";

    (void)state;
    leati_json_string("a\"b\\c\n\x01\xc3\xa9\xff\xc3|\xed\xa0\x80\x7f", append, json);
    assert_string_equal(
        json,
        "\"a\\\"b\\\\c\\u000a\\u0001\xc3\xa9\xef\xbf\xbd\xef\xbf\xbd|\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\x7f\"");
}

/* ---- options, with the values that main() has set ----------------------------------------------- */

static void set_options(void)
{
    setenv("LEAT_DEVICE", "cpu:1", 1);
    setenv("LEAT_CPU_MEMORY", "3G", 1);
    setenv("LEAT_CPU_DEVICES", "17", 1);
    setenv("LEAT_CPU_THREADS", "5x", 1);
    setenv("LEAT_COPY_RING", "1 ", 1);
    setenv("LEAT_COPY_MEMORY", "2MiB", 1);
    setenv("LEAT_IO_WORKERS", "many", 1);
    setenv("LEAT_STRICT", "off", 1);
    setenv("LEAT_SCRUB", "n", 1);
    setenv("LEAT_LEAKS", "True", 1);
    setenv("LEAT_CUDA_LIBRARY", "", 1);
    unsetenv("LEAT_DRIVERS");
}

static void options_are_read_once(void **state)
{
    (void)state;
    assert_string_equal(leati_option(LEATI_OPTION_DEVICE), "cpu:1");
    setenv("LEAT_DEVICE", "cpu:0", 1);
    assert_string_equal(leati_option(LEATI_OPTION_DEVICE), "cpu:1");
    assert_null(leati_option(LEATI_OPTION_DRIVERS));
    /* An empty variable counts as not set. */
    assert_null(leati_option(LEATI_OPTION_CUDA_LIBRARY));
}

static void numbers_have_suffixes_and_bounds(void **state)
{
    uint64_t number = 5;

    (void)state;
    OK(leati_option_number(LEATI_OPTION_CPU_MEMORY, 9, &number));
    assert_true(number == (uint64_t)3 << 30);
    OK(leati_option_number(LEATI_OPTION_COPY_MEMORY, 9, &number));
    assert_true(number == (uint64_t)2 << 20);
    /* If the variable is not set, the number is the default. */
    OK(leati_option_number(LEATI_OPTION_COPY_WORKERS, 4, &number));
    assert_int_equal(number, 4);
    /* If the value is out of range or not a number, the message names the allowed values, and *number is
     * unchanged. */
    assert_int_equal(leati_option_number(LEATI_OPTION_CPU_DEVICES, 2, &number), LEAT_ERROR_INVALID);
    assert_non_null(
        strstr(leat_last_error(), "LEAT_CPU_DEVICES is set to '17', and takes a whole number from 1 to 16"));
    assert_int_equal(leati_option_number(LEATI_OPTION_CPU_THREADS, 7, &number), LEAT_ERROR_INVALID);
    assert_non_null(strstr(leat_last_error(), "'5x'"));
    assert_int_equal(leati_option_number(LEATI_OPTION_COPY_RING, 7, &number), LEAT_ERROR_INVALID);
    assert_non_null(strstr(leat_last_error(), "'1 '"));
    assert_int_equal(leati_option_number(LEATI_OPTION_IO_WORKERS, 4, &number), LEAT_ERROR_INVALID);
    assert_int_equal(number, 4);
}

static void flags_have_words(void **state)
{
    (void)state;
    assert_false(leati_option_flag(LEATI_OPTION_STRICT));
    assert_false(leati_option_flag(LEATI_OPTION_POOL_BACKTRACES));
    assert_true(leati_option_flag(LEATI_OPTION_LEAKS));
    /* A value that means neither on nor off counts as off. */
    assert_false(leati_option_flag(LEATI_OPTION_SCRUB));
    /* leati_options_check() reports the first variable whose value is not allowed. */
    assert_int_equal(leati_options_check("a_call"), LEAT_ERROR_INVALID);
    assert_string_equal(leat_last_error(),
                        "a_call: LEAT_CPU_DEVICES is set to '17', and takes a whole number from "
                        "1 to 16 (K, M, G or T may follow)");
}

/* ---- messages --------------------------------------------------------------------------------- */

/* With --wrap the linker directs calls of calloc() in leat to __wrap_calloc(). */
void *__real_calloc(size_t count, size_t bytes);
void *__wrap_calloc(size_t count, size_t bytes);
static _Thread_local bool no_memory;

void *__wrap_calloc(size_t count, size_t bytes)
{
    return no_memory ? NULL : __real_calloc(count, bytes);
}

/* Runs in a thread that has no memory for the messages of its first failures. */
static void *fail_without_memory(void *argument)
{
    const char *constant = "a leat call failed, and there was no host memory for the message that says why";
    struct leati_message kept;
    bool *fine = argument;

    *fine = !*leat_last_error();
    no_memory = true;
    /* This failure is not reported to the caller, so leati_error_restore() brings the earlier message back. */
    leati_error_keep(&kept);
    (void)leati_fail(LEAT_ERROR_BUSY, "not seen");
    *fine = *fine && leati_error_restore(LEAT_OK, &kept) == LEAT_OK && !*leat_last_error();
    *fine = *fine && leati_fail(LEAT_ERROR_BUSY, "the inner part") == LEAT_ERROR_BUSY;
    *fine = *fine && !strcmp(leat_last_error(), constant);
    leati_error_keep(&kept);
    no_memory = false;
    (void)leati_fail_in(LEAT_ERROR_BUSY, "the call");
    *fine = *fine && !strncmp(leat_last_error(), "the call: ", 10) && !strcmp(leat_last_error() + 10, constant);
    (void)leati_error_restore(LEAT_ERROR_BUSY, &kept);
    *fine = *fine && !strcmp(leat_last_error(), constant);
    (void)leati_fail(LEAT_ERROR_BUSY, "said");
    *fine = *fine && !strcmp(leat_last_error(), "said");
    return NULL;
}

static void failures_without_memory_have_a_message(void **state)
{
    bool fine = false;
    pthread_t thread;

    (void)state;
    assert_int_equal(pthread_create(&thread, NULL, fail_without_memory, &fine), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_true(fine);
}

static void messages_grow_at_the_front(void **state)
{
    struct leati_message kept;

    (void)state;
    assert_int_equal(leati_fail(LEAT_ERROR_RANGE, "%d is too many", 7), LEAT_ERROR_RANGE);
    assert_int_equal(leati_fail_in(LEAT_ERROR_RANGE, "counting %s", "sheep"), LEAT_ERROR_RANGE);
    assert_string_equal(leat_last_error(), "counting sheep: 7 is too many");
    leati_error_keep(&kept);
    leati_fail(LEAT_ERROR_SYSTEM, "something else");
    assert_int_equal(leati_error_restore(LEAT_ERROR_RANGE, &kept), LEAT_ERROR_RANGE);
    assert_string_equal(leat_last_error(), "counting sheep: 7 is too many");
}

static void long_messages_are_cut(void **state)
{
    char *words = test_buffer(10000);

    (void)state;
    memset(words, 'x', 9999);
    words[9999] = '\0';
    leati_fail(LEAT_ERROR_SYSTEM, "%s", words);
    assert_true(strlen(leat_last_error()) < 9999 && strlen(leat_last_error()) > 1000);
    leati_fail_in(LEAT_ERROR_SYSTEM, "%s", words);
    assert_true(strlen(leat_last_error()) < 9999);
    leati_fail_in(LEAT_ERROR_SYSTEM, "front");
    assert_true(!strncmp(leat_last_error(), "front: xxx", 10));
    free(words);
}

static leat_status fail_twice(void)
{
    return leati_fail_in(leati_fail(LEAT_ERROR_RANGE, "the inner part"), "the outer part");
}

static void quiet_failures_write_nothing(void **state)
{
    unsigned quiet;

    (void)state;
    leati_fail(LEAT_ERROR_BUSY, "the caller's");
    assert_int_equal(LEATI_QUIETLY(fail_twice()), LEAT_ERROR_RANGE);
    assert_int_equal(LEATI_QUIETLY(LEAT_OK), LEAT_OK);
    assert_int_equal(LEATI_QUIETLY(LEATI_DECLINED), LEATI_DECLINED);
    assert_string_equal(leat_last_error(), "the caller's");
    /* Quiet regions nest: the outer region stays quiet after the inner one has ended. */
    leati_error_quiet_begin();
    assert_int_equal(LEATI_QUIETLY(LEATI_QUIETLY(fail_twice())), LEAT_ERROR_RANGE);
    assert_int_equal(leati_error_quiet_depth, 1);
    fail_twice();
    assert_string_equal(leat_last_error(), "the caller's");
    /* In a callback of the program, failures set the message although the caller is quiet. */
    quiet = leati_error_loud_begin();
    fail_twice();
    assert_string_equal(leat_last_error(), "the outer part: the inner part");
    leati_error_loud_end(quiet);
    leati_fail(LEAT_ERROR_BUSY, "not seen");
    leati_error_quiet_end();
    assert_int_equal(leati_error_quiet_depth, 0);
    assert_string_equal(leat_last_error(), "the outer part: the inner part");
    leati_fail(LEAT_ERROR_BUSY, "heard again");
    assert_string_equal(leat_last_error(), "heard again");
}

static void heard_failures_leave_the_message(void **state)
{
    struct leati_hearing hearing;

    (void)state;
    leati_fail(LEAT_ERROR_BUSY, "the caller's");
    for (unsigned quiet = 0; quiet < 2; quiet++) {
        leati_error_quiet_depth = quiet;
        leati_error_hear_begin(&hearing);
        fail_twice();
        assert_string_equal(leat_last_error(), "the outer part: the inner part");
        leati_error_hear_end(&hearing);
        assert_int_equal(leati_error_quiet_depth, quiet);
        assert_string_equal(leat_last_error(), "the caller's");
    }
    leati_error_quiet_depth = 0;
}

/* Fails in another thread, where the message is set although this thread is quiet. */
static void *fail_elsewhere(void *argument)
{
    fail_twice();
    return strcmp(leat_last_error(), "the outer part: the inner part") ? NULL : argument;
}

static void quiet_is_of_one_thread(void **state)
{
    pthread_t thread;
    void *heard;

    leati_error_quiet_begin();
    assert_int_equal(pthread_create(&thread, NULL, fail_elsewhere, &state), 0);
    assert_int_equal(pthread_join(thread, &heard), 0);
    leati_error_quiet_end();
    assert_ptr_equal(heard, &state);
}

static void fault_quietly(void *page)
{
    leati_error_quiet_begin();
    *(volatile char *)page = 1;
    leati_error_quiet_end();
}

static void faults_end_quiet_regions(void **state)
{
    size_t bytes = 4096;
    void *page = mmap(NULL, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    struct leati_fault_range ranges[2] = {{(uintptr_t)page, bytes}, {0, 0}};
    uintptr_t fault;

    (void)state;
    assert_true(page != MAP_FAILED);
    for (unsigned quiet = 0; quiet < 2; quiet++) {
        leati_error_quiet_depth = quiet;
        assert_false(leati_fault_handler_run(ranges, fault_quietly, page, &fault));
        assert_int_equal(leati_error_quiet_depth, quiet);
    }
    leati_error_quiet_depth = 0;
    munmap(page, bytes);
}

/* ---- ranges, compared with a plain array -------------------------------------------------------------------- */

enum { PLACES = 200 };

static void ranges_agree_with_a_plain_array(void **state)
{
    struct leati_ranges ranges = {0};
    /* owner[i] is 0 if place i is free. Otherwise it is 1 + the start of the range that contains place i. */
    size_t owner[PLACES] = {0}, length[PLACES] = {0};
    uint64_t seed = 12345;

    (void)state;
    print_message("           seed %d\n", (int)seed);
    for (uint64_t step = 0; step < 20000; step++) {
        size_t base = leat_pattern_value(2 * step, seed) % PLACES;
        size_t bytes = 1 + leat_pattern_value(2 * step + 1, seed) % 12, taken = 0;
        const struct leati_range *range = leati_ranges_find(&ranges, 1000 + base);

        assert_int_equal(range != NULL, owner[base] != 0);
        if (range) {
            assert_int_equal(range->base, 1000 + owner[base] - 1);
            assert_int_equal(range->bytes, length[owner[base] - 1]);
            assert_ptr_equal(range->value, &owner[owner[base] - 1]);
        }
        if (base + bytes > PLACES)
            bytes = PLACES - base;
        for (size_t i = base; i < base + bytes; i++)
            taken += owner[i] != 0;
        assert_int_equal(leati_ranges_overlap(&ranges, 1000 + base, bytes) != NULL, taken != 0);
        if (!taken) {
            assert_true(leati_ranges_insert(&ranges, 1000 + base, bytes, &owner[base]));
            length[base] = bytes;
            for (size_t i = base; i < base + bytes; i++)
                owner[i] = base + 1;
        } else {
            bool starts = owner[base] == base + 1;

            assert_int_equal(leati_ranges_remove(&ranges, 1000 + base), starts);
            for (size_t i = base; starts && i < base + length[base]; i++)
                owner[i] = 0;
        }
    }
    leati_ranges_clear(&ranges);
    assert_int_equal(ranges.count, 0);
}

enum { UNIT = 1 << 12, LOW = 16 * UNIT, UNITS = 64, HIGH = LOW + UNIT * UNITS };

/* Returns true if there are wanted free units at a multiple of step, with gap free units on both sides. */
static bool has_room(const bool *used, size_t wanted, size_t step, size_t gap)
{
    for (size_t first = 0; first + wanted + gap <= UNITS; first += step) {
        size_t i = first < gap ? 0 : first - gap;

        while (i < first + wanted + gap && !used[i])
            i++;
        if (i == first + wanted + gap)
            return true;
    }
    return false;
}

/* step and gap are numbers of units. leati_ranges_room() starts at the cursor and wraps around many times. */
static void check_room(size_t step, size_t gap)
{
    struct leati_ranges ranges = {0};
    bool used[UNITS] = {false};
    size_t units[UNITS] = {0};
    uintptr_t cursor = LOW;

    for (uint64_t round = 0; round < 20000; round++) {
        size_t wanted = 1 + leat_pattern_value(round, 7) % 9;
        bool has = has_room(used, wanted, step, gap);
        uintptr_t found = leati_ranges_room(&ranges, LOW, HIGH, &cursor, wanted * UNIT, step * UNIT, gap * UNIT);

        /* The search must find every room, even if the cursor is inside it. */
        assert_int_equal(found != 0, has);
        if (found) {
            size_t first = (found - LOW) / UNIT, behind = first + wanted + gap;

            assert_true(found >= LOW && found % (step * UNIT) == 0 && behind <= UNITS);
            assert_int_equal(cursor, LOW + (behind + step - 1) / step * step * UNIT);
            for (size_t i = first < gap ? 0 : first - gap; i < behind; i++)
                assert_false(used[i]);
            memset(used + first, true, wanted);
            units[first] = wanted;
            assert_true(leati_ranges_insert(&ranges, found, wanted * UNIT, NULL));
        } else {
            size_t start;

            for (start = leat_pattern_value(round, 9) % UNITS; !units[start]; start = (start + 1) % UNITS)
                continue;
            assert_true(leati_ranges_remove(&ranges, LOW + start * UNIT));
            memset(used + start, 0, units[start]);
            units[start] = 0;
        }
    }
    leati_ranges_clear(&ranges);
}

static void room_is_found_when_there_is_some(void **state)
{
    (void)state;
    check_room(1, 0);
    check_room(1, 1);
    check_room(4, 0);
    check_room(4, 1);
    check_room(2, 3);
}

static void ranges_reach_the_end_of_addresses(void **state)
{
    struct leati_ranges ranges = {0};

    (void)state;
    assert_true(leati_ranges_insert(&ranges, UINTPTR_MAX - 10, 10, NULL));
    assert_non_null(leati_ranges_find(&ranges, UINTPTR_MAX - 1));
    assert_null(leati_ranges_find(&ranges, UINTPTR_MAX));
    assert_null(leati_ranges_find(&ranges, UINTPTR_MAX - 11));
    assert_non_null(leati_ranges_overlap(&ranges, UINTPTR_MAX - 20, 15));
    assert_null(leati_ranges_overlap(&ranges, UINTPTR_MAX - 20, 10));
    assert_null(leati_ranges_overlap(&ranges, 0, 100));
    leati_ranges_clear(&ranges);
}

/* ---- handles ------------------------------------------------------------------------------------ */

struct thing {
    struct leati_handle handle;
    uint64_t number;
};

static struct leati_handles things = LEATI_HANDLES(struct thing);

static struct thing *make_thing(uint64_t number)
{
    struct thing *thing = leati_handle_new(&things);

    assert_non_null(thing);
    assert_int_equal(thing->number, 0);
    assert_false(leati_handle_live(&things, thing));
    thing->number = number;
    leati_handle_publish(thing);
    return thing;
}

static void handles_live_from_publish_to_retire(void **state)
{
    struct thing *thing = make_thing(5);
    int elsewhere;

    (void)state;
    assert_true(leati_handle_live(&things, thing));
    assert_false(leati_handle_live(&things, NULL));
    assert_false(leati_handle_live(&things, &elsewhere));
    assert_false(leati_handle_live(&things, (char *)thing + 1));
    assert_false(leati_handle_live(&things, (char *)thing + 8));
    assert_false(leati_handle_live(&things, (char *)thing - (1 << 20)));
    assert_true(leati_handle_retire(&things, thing));
    assert_int_equal(thing->number, 5);
    assert_false(leati_handle_live(&things, thing));
    assert_false(leati_handle_retire(&things, thing));
    leati_handle_free(&things, thing);
    assert_false(leati_handle_live(&things, thing));
    /* A handle's object is cleared when it is freed, so that leak checkers find no pointers in it. */
    assert_int_equal(thing->number, 0);
}

static void dead_handles_rest(void **state)
{
    struct thing *dead = make_thing(1);

    (void)state;
    assert_true(leati_handle_retire(&things, dead));
    leati_handle_free(&things, dead);
    for (uint64_t i = 0; i < LEATI_HANDLES_QUARANTINE - 1; i++) {
        struct thing *younger = make_thing(i + 2);

        assert_ptr_not_equal(younger, dead);
        assert_false(leati_handle_live(&things, dead));
        assert_true(leati_handle_retire(&things, younger));
        leati_handle_free(&things, younger);
    }
}

static void *make_and_end(void *argument)
{
    atomic_int *wrong = argument;

    for (uint64_t i = 0; i < 3000; i++) {
        struct thing *thing = leati_handle_new(&things);

        if (!thing) {
            atomic_fetch_add(wrong, 1);
            break;
        }
        thing->number = (uint64_t)(uintptr_t)thing;
        leati_handle_publish(thing);
        if (!leati_handle_live(&things, thing) || thing->number != (uint64_t)(uintptr_t)thing ||
            !leati_handle_retire(&things, thing))
            atomic_fetch_add(wrong, 1);
        leati_handle_free(&things, thing);
    }
    return NULL;
}

static void threads_share_the_table(void **state)
{
    pthread_t threads[4];
    atomic_int wrong = 0;

    (void)state;
    for (int i = 0; i < 4; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, make_and_end, &wrong), 0);
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    assert_int_equal(wrong, 0);
}

static struct leati_handles visited = LEATI_HANDLES(struct thing);

/* Destroys the objects with even numbers. */
static void visit(void *object, void *argument)
{
    struct thing *thing = object;
    int *seen = argument;

    seen[thing->number]++;
    if (thing->number % 2)
        return;
    assert_true(leati_handle_retire(&visited, thing));
    leati_handle_free(&visited, thing);
}

static void each_live_object_is_visited(void **state)
{
    int seen[4] = {0};

    (void)state;
    leati_handles_each(&visited, visit, seen);
    for (uint64_t i = 0; i < 4; i++) {
        struct thing *thing = leati_handle_new(&visited);

        assert_non_null(thing);
        thing->number = i;
        if (i < 3)
            leati_handle_publish(thing);
    }
    leati_handles_each(&visited, visit, seen);
    leati_handles_each(&visited, visit, seen);
    assert_int_equal(seen[0], 1);
    assert_int_equal(seen[1], 2);
    assert_int_equal(seen[2], 1);
    assert_int_equal(seen[3], 0);
}

static void *retire_one(void *argument)
{
    return leati_handle_retire(&things, argument) ? argument : NULL;
}

static void one_thread_wins_the_end(void **state)
{
    (void)state;
    for (int round = 0; round < 100; round++) {
        struct thing *thing = make_thing(3);
        pthread_t threads[4];
        int winners = 0;

        for (int i = 0; i < 4; i++)
            assert_int_equal(pthread_create(&threads[i], NULL, retire_one, thing), 0);
        for (int i = 0; i < 4; i++) {
            void *won;

            pthread_join(threads[i], &won);
            winners += won != NULL;
        }
        assert_int_equal(winners, 1);
        leati_handle_free(&things, thing);
    }
}

static void libraries_above_set_messages(void **state)
{
    char text[5000];

    (void)state;
    assert_int_equal(leat_error_set(LEAT_ERROR_FILE, "a message"), LEAT_ERROR_FILE);
    assert_string_equal(leat_last_error(), "a message");
    assert_int_equal(leat_error_set(LEAT_ERROR_RANGE, leat_last_error() + 2), LEAT_ERROR_RANGE);
    assert_string_equal(leat_last_error(), "message");
    memset(text, 'x', sizeof text);
    text[sizeof text - 1] = '\0';
    assert_int_equal(leat_error_set(LEAT_ERROR_FILE, text), LEAT_ERROR_FILE);
    assert_true(strlen(leat_last_error()) >= 2000 && strlen(leat_last_error()) < sizeof text - 1);
    assert_int_equal(leat_error_set(LEAT_ERROR_FILE, NULL), LEAT_ERROR_FILE);
    assert_string_equal(leat_last_error(), "");
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(libraries_above_set_messages),
        cmocka_unit_test(characters_are_those_of_utf8),
        cmocka_unit_test(texts_are_cut_between_characters),
        cmocka_unit_test(json_strings_are_utf8),
        cmocka_unit_test(options_are_read_once),
        cmocka_unit_test(numbers_have_suffixes_and_bounds),
        cmocka_unit_test(flags_have_words),
        cmocka_unit_test(failures_without_memory_have_a_message),
        cmocka_unit_test(messages_grow_at_the_front),
        cmocka_unit_test(long_messages_are_cut),
        cmocka_unit_test(quiet_failures_write_nothing),
        cmocka_unit_test(heard_failures_leave_the_message),
        cmocka_unit_test(quiet_is_of_one_thread),
        cmocka_unit_test(faults_end_quiet_regions),
        cmocka_unit_test(ranges_agree_with_a_plain_array),
        cmocka_unit_test(room_is_found_when_there_is_some),
        cmocka_unit_test(ranges_reach_the_end_of_addresses),
        cmocka_unit_test(handles_live_from_publish_to_retire),
        cmocka_unit_test(dead_handles_rest),
        cmocka_unit_test(each_live_object_is_visited),
        cmocka_unit_test(threads_share_the_table),
        cmocka_unit_test(one_thread_wins_the_end),
    };

    set_options();
    return cmocka_run_group_tests(tests, NULL, NULL) ? 1 : 0;
}
