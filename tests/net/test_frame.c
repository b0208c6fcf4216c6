/* test_frame.c - tests that frames of links are encoded, decoded and checked (net/frame.h). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

#include "frame.h"

static const struct leatn_frame good[] = {
    {.type = LEATN_FRAME_WANT, .receive = 1, .tag = UINT64_MAX, .bytes = INT64_MAX, .credit = 1},
    {.type = LEATN_FRAME_WANT, .receive = 2, .tag = 1, .bytes = 9},
    {.type = LEATN_FRAME_CREDIT, .receive = UINT64_MAX, .credit = INT64_MAX},
    {.type = LEATN_FRAME_DATA, .receive = 7, .offset = 1 << 20, .tail_bytes = LEATN_FRAGMENT_MAX},
    {.type = LEATN_FRAME_UNWANT, .receive = 5},
    {.type = LEATN_FRAME_GONE, .receive = 5},
    {.type = LEATN_FRAME_STOP, .receive = 5, .status = LEAT_ERROR_RANGE},
    {.type = LEATN_FRAME_GET, .receive = 5, .offset = 3, .bytes = 9, .credit = 9, .tail_bytes = LEATN_NAME_MAX},
    {.type = LEATN_FRAME_PUT, .put = 5, .offset = 3, .bytes = 9, .tail_bytes = 1},
    {.type = LEATN_FRAME_WANT_PUT, .receive = 3, .put = 5, .credit = 9},
    {.type = LEATN_FRAME_PUT_DONE, .put = 5},
    {.type = LEATN_FRAME_PUT_DONE, .put = 5, .status = LEAT_ERROR_NOT_FOUND},
    {.type = LEATN_FRAME_ALIVE},
    {.type = LEATN_FRAME_BYE},
    {.type = LEATN_FRAME_ADDRESS, .tail_bytes = 200},
    {.type = LEATN_FRAME_CARRIED, .receive = 7, .offset = 1, .bytes = 5},
};

static void test_round_trip(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        unsigned char bytes[LEATN_HEADER_BYTES];
        struct leatn_frame frame;

        leatn_frame_encode(&good[i], bytes);
        assert_null(leatn_frame_decode(bytes, &frame));
        assert_memory_equal(&frame, &good[i], sizeof frame);
    }
}

static void test_layout(void **state)
{
    /* The bytes that other versions of leat must understand. */
    static const unsigned char expected[LEATN_HEADER_BYTES] = {1, 0, 0, 0, 0, 0, 0, 0, 2, 1, 0, 0, 0, 0,
                                                               0, 0, 3, 0, 0, 0, 0, 0, 0, 0, 9, 0, 0, 0,
                                                               0, 0, 0, 0, 8, 0, 0, 0, 0, 0, 0, 0};
    unsigned char bytes[LEATN_HEADER_BYTES];

    (void)state;
    leatn_frame_encode(
        &(struct leatn_frame){.type = LEATN_FRAME_WANT, .receive = 258, .tag = 3, .bytes = 9, .credit = 8}, bytes);
    assert_memory_equal(bytes, expected, sizeof bytes);
}

/* Encodes the frame, without any check, and expects that it is refused with these words. */
static void refuse(struct leatn_frame frame, const char *words)
{
    unsigned char bytes[LEATN_HEADER_BYTES];
    struct leatn_frame decoded;
    const char *wrong;

    leatn_frame_encode(&frame, bytes);
    wrong = leatn_frame_decode(bytes, &decoded);
    assert_non_null(wrong);
    assert_non_null(strstr(wrong, words));
}

static void test_bad_frames(void **state)
{
    unsigned char bytes[LEATN_HEADER_BYTES] = {0};
    struct leatn_frame frame;

    (void)state;
    assert_non_null(strstr(leatn_frame_decode(bytes, &frame), "type"));
    bytes[0] = LEATN_FRAME_TYPES;
    assert_non_null(strstr(leatn_frame_decode(bytes, &frame), "type"));
    bytes[0] = LEATN_FRAME_ALIVE;
    bytes[39] = 1;
    assert_non_null(strstr(leatn_frame_decode(bytes, &frame), "must be 0"));
    refuse((struct leatn_frame){.type = LEATN_FRAME_WANT, .bytes = 1, .credit = 1}, "number");
    refuse((struct leatn_frame){.type = LEATN_FRAME_WANT, .receive = 1, .credit = 1}, "no bytes");
    refuse((struct leatn_frame){.type = LEATN_FRAME_CREDIT, .receive = 1}, "credit is 0");
    refuse((struct leatn_frame){.type = LEATN_FRAME_WANT, .receive = 1, .bytes = 1, .credit = 2}, "larger");
    refuse((struct leatn_frame){.type = LEATN_FRAME_WANT, .receive = 1, .bytes = 1ull << 63, .credit = 2},
           "large");
    refuse((struct leatn_frame){.type = LEATN_FRAME_WANT, .receive = 1, .bytes = 1, .credit = 1, .tail_bytes = 1},
           "length");
    refuse((struct leatn_frame){.type = LEATN_FRAME_DATA, .receive = 1}, "length");
    refuse((struct leatn_frame){.type = LEATN_FRAME_DATA, .receive = 1, .tail_bytes = LEATN_FRAGMENT_MAX + 1},
           "length");
    refuse((struct leatn_frame){.type = LEATN_FRAME_DATA, .receive = 1, .offset = INT64_MAX, .tail_bytes = 1},
           "large");
    refuse((struct leatn_frame){.type = LEATN_FRAME_DATA, .receive = 1, .offset = UINT64_MAX, .tail_bytes = 1},
           "large");
    refuse((struct leatn_frame){.type = LEATN_FRAME_STOP, .receive = 1}, "without a reason");
    refuse((struct leatn_frame){.type = LEATN_FRAME_STOP, .receive = 1, .status = LEAT_ERROR_DEVICE_LOST},
           "status");
    refuse((struct leatn_frame){.type = LEATN_FRAME_STOP, .receive = 1, .status = LEAT_NOT_READY}, "status");
    refuse((struct leatn_frame){.type = LEATN_FRAME_PUT, .put = 1, .bytes = 1}, "length");
    refuse((struct leatn_frame){.type = LEATN_FRAME_PUT, .put = 1, .bytes = 1, .tail_bytes = LEATN_NAME_MAX + 1},
           "length");
    refuse(
        (struct leatn_frame){
            .type = LEATN_FRAME_PUT, .put = 1, .bytes = 2, .offset = INT64_MAX - 1, .tail_bytes = 3},
        "range");
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(test_round_trip),
    cmocka_unit_test(test_layout),
    cmocka_unit_test(test_bad_frames),
};

int main(void)
{
    return cmocka_run_group_tests(tests, NULL, NULL) ? 1 : 0;
}
