/*
 * fuzz_link.c - feeds a link, which has copies under way, with changed frames, or with any bytes.
 *
 * The decoder must refuse a header, or encoding what it read must give the same bytes. The link must take all
 * bytes or fail, all its copies must end, and no byte around a destination may change.
 *
 * A build for libFuzzer gets its inputs from libFuzzer. The test program makes conversations that a good other end
 * could hold, and changes them at random: fuzz_link [--seed N] [--rounds N] [--seconds N].
 */
#include "hostile.h"

#include "seed.h"

#include <inttypes.h>
#include <time.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct hostile hostile;

static void check_decoder(const uint8_t *data, size_t size)
{
    unsigned char encoded[LEATN_HEADER_BYTES];
    struct leatn_frame frame;

    for (size_t i = 0; i + LEATN_HEADER_BYTES <= size && i < 400; i += 8)
        if (!leatn_frame_decode(data + i, &frame)) {
            leatn_frame_encode(&frame, encoded);
            assert_memory_equal(encoded, data + i, sizeof encoded);
        }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static bool opened;

    if (!opened)
        hostile_open(&hostile);
    opened = true;
    check_decoder(data, size);
    hostile_begin(&hostile);
    hostile_send(&hostile, data, size, true);
    hostile_end(&hostile);
    return 0;
}

#ifndef LEAT_LIBFUZZER

/* ---- conversations ---- */

static uint64_t random_state;

static uint64_t draw(uint64_t below)
{
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return (random_state >> 11) % below;
}

enum { FRAMES = 40, BYTES_MOST = 1 << 20 };

#define F(type) LEATN_FRAME_##type

/* What a good other end could send; its order may change, except for frames that need an earlier one. */
static const struct leatn_frame conversation[] = {
    {.type = F(DATA), .receive = 1, .tail_bytes = 100},
    {.type = F(DATA), .receive = 2, .tail_bytes = 30000},
    {.type = F(WANT), .receive = 1, .tag = 3, .bytes = 1000, .credit = 1000},
    {.type = F(WANT), .receive = 2, .tag = 4, .bytes = 300000, .credit = 65536},
    {.type = F(CREDIT), .receive = 2, .credit = 131072},
    {.type = F(DATA), .receive = 3, .tail_bytes = 5000},
    {.type = F(WANT_PUT), .receive = 3, .put = 1, .credit = 5000},
    {.type = F(ALIVE)},
    {.type = F(GET), .receive = 4, .offset = 90, .bytes = 4006, .credit = 4006, .tail_bytes = 1},
    {.type = F(PUT), .put = 1, .offset = 4000, .bytes = 96, .tail_bytes = 1},
    {.type = F(DATA), .receive = 4, .tail_bytes = 96},
    {.type = F(PUT), .put = 2, .offset = 0, .bytes = 4096, .tail_bytes = 1},
    {.type = F(DATA), .receive = 2, .offset = 30000, .tail_bytes = 30000},
    {.type = F(CREDIT), .receive = 2, .credit = 300000},
    {.type = F(UNWANT), .receive = 2},
    {.type = F(WANT), .receive = 7, .tag = 50, .bytes = 5, .credit = 5},
    {.type = F(UNWANT), .receive = 7},
    {.type = F(STOP), .receive = 2, .status = LEAT_ERROR_LINK},
    {.type = F(PUT_DONE), .put = 1},
    {.type = F(GET), .receive = 8, .offset = 4096, .bytes = 1, .credit = 1, .tail_bytes = 1},
    {.type = F(BYE)},
};
enum { CONVERSATION = sizeof conversation / sizeof conversation[0] };

static uint64_t edge(uint64_t value)
{
    static const uint64_t edges[] = {0,      1,       2,         3,          99,        100,
                                     101,    65535,   65536,     65537,      199999,    200000,
                                     200001, 1 << 20, INT64_MAX, 1ull << 63, UINT64_MAX};

    switch (draw(4)) {
    case 0:
        return value + draw(3) - 1;
    case 1:
        return draw(1000000);
    default:
        return edges[draw(sizeof edges / sizeof edges[0])];
    }
}

static void change_frame(struct leatn_frame *frame)
{
    switch (draw(8)) {
    case 0:
        frame->receive = draw(2) ? draw(10) : edge(frame->receive);
        break;
    case 1:
        frame->put = draw(4);
        break;
    case 2:
        frame->offset = edge(frame->offset);
        break;
    case 3:
        frame->bytes = edge(frame->bytes);
        break;
    case 4:
        frame->credit = edge(frame->credit);
        break;
    case 5:
        frame->tail_bytes = (uint32_t)edge(frame->tail_bytes);
        break;
    case 6:
        frame->type = (enum leatn_frame_type)(1 + draw(LEATN_FRAME_TYPES - 1));
        break;
    default:
        frame->tag = draw(5);
        break;
    }
}

/* Writes frames as bytes. The tail of a frame may be shorter than the frame claims. */
static size_t write_frames(uint8_t *bytes, const struct leatn_frame *frames, size_t count)
{
    size_t size = 0;

    for (size_t i = 0; i < count; i++) {
        size_t tail = frames[i].tail_bytes;

        if (size + LEATN_HEADER_BYTES + LEATN_FRAGMENT_MAX / 8 > BYTES_MOST)
            break;
        tail = tail < LEATN_FRAGMENT_MAX / 8 ? tail : draw(100);
        leatn_frame_encode(&frames[i], bytes + size);
        memset(bytes + size + LEATN_HEADER_BYTES, frames[i].type == LEATN_FRAME_DATA ? 0x11 : 'a', tail);
        size += LEATN_HEADER_BYTES + tail;
    }
    return size;
}

/* Makes one conversation: a part of the good one, with frames that were moved, repeated, left out or changed. */
static size_t make_input(uint8_t *bytes)
{
    struct leatn_frame frames[FRAMES];
    size_t count = 0, size;

    for (size_t i = 0; i < CONVERSATION && count < FRAMES - 2; i++) {
        if (!draw(12))
            continue;
        frames[count++] = conversation[i];
        if (!draw(20))
            frames[count++] = conversation[i];
    }
    for (uint64_t changes = draw(4); changes && count; changes--) {
        size_t one = draw(count), other = draw(count);
        struct leatn_frame kept = frames[one];

        if (draw(2)) {
            change_frame(&frames[one]);
        } else {
            frames[one] = frames[other];
            frames[other] = kept;
        }
    }
    size = write_frames(bytes, frames, count);
    for (uint64_t flips = draw(3) ? 0 : draw(5); flips && size; flips--)
        bytes[draw(size)] ^= (uint8_t)(1u << draw(8));
    if (!draw(10) && size)
        size = draw(size);
    return size;
}

static uint64_t seconds_now(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec;
}

static uint64_t seed, rounds = 1000, seconds;

static void test_fuzz(void **state)
{
    uint8_t *bytes = test_buffer(BYTES_MOST);
    uint64_t end = seconds_now() + seconds, round = 0;

    (void)state;
    for (; seconds ? seconds_now() < end : round < rounds; round++) {
        random_state = (seed + round + 1) * 0x9e3779b97f4a7c15u | 1;
        (void)draw(2);
        (void)LLVMFuzzerTestOneInput(bytes, make_input(bytes));
    }
    printf("fuzz_link: %" PRIu64 " rounds\n", round);
    hostile_close(&hostile);
    free(bytes);
}

int main(int argc, char **argv)
{
    static const struct CMUnitTest tests[] = {cmocka_unit_test(test_fuzz)};

    seed = test_seed();
    for (int i = 1; i + 1 < argc; i += 2) {
        uint64_t value = strtoull(argv[i + 1], NULL, 0);

        if (!strcmp(argv[i], "--seed"))
            seed = value;
        else if (!strcmp(argv[i], "--rounds"))
            rounds = value;
        else if (!strcmp(argv[i], "--seconds"))
            seconds = value;
    }
    printf("fuzz_link: --seed %" PRIu64 "\n", seed);
    fflush(stdout);
    if (!test_device_there())
        return 77;
    return cmocka_run_group_tests(tests, NULL, NULL) ? 1 : 0;
}

#endif
