/*
 * bench_copy_gaps.c - measures pageable copies as programs make them, by leat and by the driver: with idle gaps
 * between copies, with several buffers in turns, and with buffers that are in the processor's caches or not.
 *
 * Blocks of a few copies of one side alternate with blocks of the other side, so that drift of the machine affects
 * both. Each buffer, on the host and on the device, belongs to one side only, so that the bytes of a measured copy
 * can still be verified when the case is over.
 */
#include "bench_copy.h"
#include "bench_side.h"
#include "bench_verify.h"
#include "text.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

const char *const gap_timing_words[GAP_TIMING_COUNT] = {"done", "sync", "turns", "first"};
const char *const gap_cache_words[GAP_CACHE_COUNT] = {"warm", "cold"};
const char *const gap_direction_words[GAP_DIRECTION_COUNT] = {"in", "out"};

enum {
    PAGE = 4096,
    LINE = 64,
    SLOT_ALIGN = 256,
    SAMPLES_MAX = 1000,
    COLD_POSITIONS_MAX = SAMPLES_MAX * 6 / 5, /* so many buffers that each small one is used only once */
    WARM_POSITIONS = 3,
    LARGE_POSITIONS = 2,
    ROUNDS_MIN = 2
};

/* From this size on a case has only LARGE_POSITIONS buffers. */
static const size_t large_bytes = 16 * MIB;

/* Above this size no cold case is measured, because two buffers of each side exceed the caches anyway. */
static const size_t cold_bytes_max = 16 * MIB;

static const size_t check_bytes = 16 * MIB;

static const size_t main_sizes[] = {4,       4 * KIB, 16 * KIB, 64 * KIB, 256 * KIB, MIB, 2 * MIB,
                                    4 * MIB, 8 * MIB, 16 * MIB, 64 * MIB, 256 * MIB, GIB};
static const size_t few_sizes[] = {4 * KIB, 64 * KIB, MIB, 8 * MIB, 64 * MIB};
static const size_t quick_sizes[] = {4 * KIB, 64 * KIB, MIB, 8 * MIB};
static const size_t first_sizes[] = {4 * KIB, MIB, 64 * MIB};
static const double usual_gaps_ms[] = {0, 0.2, 2, 20};
static const double quick_gaps_ms[] = {0, 2};

/* State shared by all cases. */
struct gaps {
    struct bench *bench;
    const size_t *sizes;
    unsigned size_count;
    const double *gaps_ms;
    unsigned gap_count;
    size_t room; /* limit in bytes for all host buffers, and also for all device buffers */
    struct copy_host host;
    char *device;
    char *check;         /* check_bytes of pinned memory, to which device memory is copied for checks */
    char *evict;         /* reading it evicts other memory from the caches; NULL if no case is cold */
    size_t evict_bytes;  /* more than the last-level cache holds */
    double unit_seconds; /* time for a case of weight 1 */
};

struct gap_case {
    struct gaps *gaps;
    enum gap_timing timing;
    enum gap_cache cache;
    enum copy_direction direction;
    size_t bytes;
    double gap;   /* seconds */
    bool touched; /* the gap begins with a write to the buffer of the next copy */
    /* Buffer i of side s has number 2 * i + s on the host and on the device. */
    unsigned positions; /* number of buffers of each side */
    size_t stride;      /* distance in bytes from one host buffer to the next */
    size_t slot;        /* distance in bytes from one device buffer to the next; a multiple of 8 */
    uint64_t seed;
    unsigned used[2]; /* number of copies of each side, measured or not */
    double last_end;  /* end of the latest copy, on the clock of bench_now() */
    double *times[2]; /* the samples of each side in seconds, with room for SAMPLES_MAX */
    unsigned count[2];
    bool warming;   /* the copies do not count, and have no gaps between them */
    double longest; /* seconds of the second copy of the slower side, which is not a sample */
};

/* ---- choice of cases ---- */

static bool is_cpu(const struct gaps *gaps)
{
    return !strcmp(gaps->bench->info.driver, "cpu");
}

static bool is_among(size_t bytes, const size_t *sizes, size_t count)
{
    size_t i;

    for (i = 0; i < count; i++)
        if (sizes[i] == bytes)
            return true;
    return false;
}

static unsigned positions_of(const struct gaps *gaps, size_t bytes, enum gap_cache cache)
{
    size_t stride = (bytes + PAGE - 1) / PAGE * PAGE + LINE;
    size_t count = bytes < large_bytes ? WARM_POSITIONS : LARGE_POSITIONS;

    if (cache == GAP_COLD && gaps->evict_bytes / stride / 2 > count)
        count = gaps->evict_bytes / stride / 2;
    return count < COLD_POSITIONS_MAX ? (unsigned)count : COLD_POSITIONS_MAX;
}

static bool wants_size(const struct gaps *gaps, enum gap_timing timing, enum gap_cache cache, size_t bytes)
{
    const struct bench_options *options = gaps->bench->options;
    bool usual = timing == GAP_DONE && cache == GAP_WARM;

    if ((bytes + 2 * (size_t)PAGE) * 2 * positions_of(gaps, bytes, cache) > gaps->room)
        return false;
    if (options->size_count)
        return true;
    if (bytes > 64 * MIB)
        return usual && !is_cpu(gaps);
    if (cache == GAP_COLD && bytes > cold_bytes_max)
        return false;
    return usual || options->full || is_among(bytes, few_sizes, sizeof few_sizes / sizeof few_sizes[0]);
}

static bool wants(const struct gaps *gaps, enum gap_timing timing, enum gap_cache cache,
                  enum copy_direction direction, size_t bytes, double gap_ms)
{
    const struct bench_options *options = gaps->bench->options;

    if (options->gap_timings ? !(options->gap_timings & 1u << timing) : options->quick && timing != GAP_DONE)
        return false;
    if (options->gap_caches ? !(options->gap_caches & 1u << cache)
                            : cache == GAP_COLD && ((timing != GAP_DONE && !options->full) || options->quick))
        return false;
    if (options->gap_directions && !(options->gap_directions & 1u << direction))
        return false;
    if (timing == GAP_TURNS && !gaps->bench->peer)
        return false;
    if (bytes > 64 * MIB && gap_ms > 0 && !options->size_count)
        return false;
    return wants_size(gaps, timing, cache, bytes);
}

/* Returns the weight of a case, by which the total time is divided among the cases. A longer gap gets more time,
 * but not in proportion to the gap. */
static double weight_of(double gap_ms)
{
    return 1 + 2 * sqrt(gap_ms);
}

static void call_for_each(struct gaps *gaps, size_t bytes, enum gap_cache cache, enum copy_direction direction,
                          void (*work)(struct gaps *gaps, struct gap_case *c, void *argument), void *argument)
{
    unsigned timing, gap;

    for (timing = 0; timing < GAP_FIRST; timing++)
        for (gap = 0; gap < gaps->gap_count; gap++)
            if (wants(gaps, (enum gap_timing)timing, cache, direction, bytes, gaps->gaps_ms[gap])) {
                struct gap_case c = {.gaps = gaps,
                                     .timing = (enum gap_timing)timing,
                                     .cache = cache,
                                     .direction = direction,
                                     .bytes = bytes,
                                     .gap = gaps->gaps_ms[gap] * 1e-3};

                work(gaps, &c, argument);
            }
}

/* ---- one copy ---- */

static char *host_of(const struct gap_case *c, unsigned number)
{
    return c->gaps->host.ptr + c->stride * number;
}

static char *device_of(const struct gap_case *c, unsigned number)
{
    return c->gaps->device + c->slot * number;
}

/* Writes one byte of each cache line and leaves the contents as they are. */
static void touch(char *ptr, size_t bytes)
{
    size_t i;

    for (i = 0; i < bytes; i += LINE) {
        volatile char *byte = ptr + i;

        *byte = *byte;
    }
}

static void wait_until(double when, bool spin)
{
    struct timespec until = {.tv_sec = (time_t)when, .tv_nsec = (long)((when - floor(when)) * 1e9)};

    if (!spin)
        while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL) != 0)
            ;
    else
        while (bench_now() < when)
            ;
}

static bool copy_by_leat(struct gap_case *c, void *dst, const void *src)
{
    struct bench *bench = c->gaps->bench;
    leat_stream *stream = bench->streams[0];

    if (c->timing == GAP_SYNC)
        return bench_check(bench, leat_copy_sync(stream, dst, src, c->bytes));
    return bench_check(bench, leat_copy(stream, dst, src, c->bytes)) &&
           bench_check(bench, leat_stream_synchronize(stream));
}

static bool copy_by_driver(struct gap_case *c, void *dst, const void *src)
{
    struct bench *bench = c->gaps->bench;
    struct bench_peer *peer = bench->peer;
    enum bench_direction direction = c->direction == COPY_IN ? BENCH_TO_DEVICE : BENCH_TO_HOST;

    if (c->timing == GAP_SYNC || direction == BENCH_TO_HOST)
        return bench_check_peer(bench, "copy", peer->copy_plain(peer, direction, dst, src, c->bytes));
    return bench_side_copy(bench, BENCH_DRIVER, 0, direction, dst, src, c->bytes) &&
           bench_side_wait(bench, BENCH_DRIVER, 0);
}

/* Waits for the duration of the gap and copies the side's next buffer. The driver's context is current during the
 * gap too, as it is in programs. */
static bool copy_next(struct gap_case *c, enum bench_side side, bool measured)
{
    struct bench *bench = c->gaps->bench;
    unsigned number = 2 * (c->used[side]++ % c->positions) + (unsigned)side;
    char *host = host_of(c, number);
    char *device = device_of(c, number);
    void *dst = c->direction == COPY_IN ? device : host;
    const void *src = c->direction == COPY_IN ? host : device;
    double begin;
    bool fine;

    if (!bench_side_enter(bench, side))
        return false;
    if (c->gap > 0 && !c->warming) {
        if (c->touched)
            touch(host, c->bytes);
        wait_until(c->last_end + c->gap, bench->options->spin);
    }
    begin = bench_now();
    fine = side == BENCH_LEAT ? copy_by_leat(c, dst, src) : copy_by_driver(c, dst, src);
    c->last_end = bench_now();
    if (fine && measured && c->count[side] < SAMPLES_MAX)
        c->times[side][c->count[side]++] = c->last_end - begin;
    c->longest = fmax(c->longest, c->last_end - begin);
    return bench_side_leave(bench, side) && fine;
}

/* ---- a case ---- */

/*
 * Prepares a block of copies. For a case without gaps, it first sleeps for 0.5 ms, so that leat's threads become
 * idle and do not disturb the driver's block, and then makes copies that do not count. With cold buffers it makes
 * only two of them, because a buffer is cold only once. A case with gaps needs no preparation, because each copy
 * has the same gap before it.
 */
static bool begin_block(struct gap_case *c, enum bench_side side)
{
    double begin;
    unsigned i;

    if (c->gap > 0)
        return true;
    wait_until(bench_now() + 0.0005, false);
    begin = bench_now();
    for (i = 0; i < 2 || (c->cache == GAP_WARM && bench_now() - begin < 50e-6); i++)
        if (!copy_next(c, side, false))
            return false;
    return true;
}

static bool run_block(struct gap_case *c, enum bench_side side, unsigned copies)
{
    unsigned i;

    if (!begin_block(c, side))
        return false;
    for (i = 0; i < copies; i++)
        if (!copy_next(c, side, true))
            return false;
    return true;
}

/* Alternates copies of both sides in one loop. */
static bool run_turns(struct gap_case *c, unsigned copies)
{
    unsigned i;

    for (i = 0; i < copies; i++)
        if (!copy_next(c, BENCH_LEAT, true) || !copy_next(c, BENCH_DRIVER, true))
            return false;
    return true;
}

static unsigned samples_wanted(const struct gap_case *c)
{
    unsigned repeat = c->gaps->bench->options->repeat;

    return repeat ? repeat : SAMPLES_MAX;
}

/* Returns the number of copies in a block. It is so small that the time is enough for ROUNDS_MIN blocks of each
 * side. */
static unsigned block_of(const struct gap_case *c, double seconds)
{
    unsigned most = c->gap >= 0.01 || c->bytes >= 64 * MIB ? 4 : c->gap > 0 || c->bytes >= MIB ? 10 : 20;
    double wanted = seconds / (2 * ROUNDS_MIN * (c->gap + c->longest));
    unsigned block = wanted < 2 ? 2 : wanted < most ? (unsigned)wanted : most;
    unsigned half = (samples_wanted(c) + 1) / 2;

    return block < half ? block : half;
}

static bool run_round(struct gap_case *c, unsigned round, unsigned copies)
{
    enum bench_side side = round % 2 ? BENCH_DRIVER : BENCH_LEAT;
    enum bench_side other = side == BENCH_LEAT ? BENCH_DRIVER : BENCH_LEAT;
    bool with_driver = c->gaps->bench->peer != NULL;

    if (c->count[BENCH_LEAT] + copies > samples_wanted(c))
        copies = samples_wanted(c) - c->count[BENCH_LEAT];
    if (c->timing == GAP_TURNS)
        return run_turns(c, copies);
    return (!(with_driver || side == BENCH_LEAT) || run_block(c, side, copies)) &&
           (!(with_driver || other == BENCH_LEAT) || run_block(c, other, copies));
}

/* Returns true if the case has enough samples, or if another round would exceed the time by more than half a
 * round. */
static bool is_enough(const struct gap_case *c, unsigned rounds, double elapsed, double seconds)
{
    if (c->count[BENCH_LEAT] >= samples_wanted(c))
        return true;
    return !c->gaps->bench->options->repeat && rounds >= ROUNDS_MIN && elapsed + elapsed / rounds / 2 >= seconds;
}

static bool run_rounds(struct gap_case *c)
{
    double seconds = c->gaps->unit_seconds * weight_of(c->gap * 1e3), begin = bench_now();
    bool with_driver = c->gaps->bench->peer != NULL;
    unsigned round, copies, i;

    /* Make copies that do not count, because the first copy of a size may allocate memory. The timing "first"
     * measures that cost. */
    c->warming = true;
    for (i = 0; i < 2; i++) {
        c->longest = 0;
        if (!copy_next(c, BENCH_LEAT, false) || (with_driver && !copy_next(c, BENCH_DRIVER, false)))
            return false;
    }
    c->warming = false;
    copies = block_of(c, seconds);
    for (round = 0; !is_enough(c, round, bench_now() - begin, seconds); round++)
        if (!run_round(c, round, copies))
            return false;
    return true;
}

/* Reads one thread's share of gaps->evict, which evicts the buffers from the caches. */
static void read_share(void *argument, unsigned index, unsigned count)
{
    const struct gaps *gaps = argument;
    size_t share = gaps->evict_bytes / count, i;
    const char *from = gaps->evict + share * index;

    for (i = 0; i < share; i += LINE)
        (void)*(const volatile char *)(from + i);
}

/* Fills the device's buffers with new bytes, which copies out will read, or which copies in must overwrite. */
static bool prepare(struct gap_case *c)
{
    struct gaps *gaps = c->gaps;
    struct bench *bench = gaps->bench;
    uint64_t seed = bench_new_seed(bench);

    if (c->direction == COPY_OUT)
        c->seed = seed;
    if (!bench_fill_device(bench, gaps->device, c->slot * 2 * c->positions, seed))
        return false;
    if (c->cache == GAP_COLD)
        bench_workers_run(bench->workers, read_share, gaps);
    return true;
}

/* ---- verification ---- */

/* Checks a part of the device's buffers: the bytes bytes from offset on, of which gaps->check contains a copy.
 * Returns true if they are right in every buffer that was a destination. */
static bool checked_part_holds(const struct gap_case *c, size_t offset, size_t bytes)
{
    unsigned number;

    for (number = (unsigned)(offset / c->slot); number * c->slot < offset + bytes; number++) {
        size_t begin = number * c->slot;
        size_t end = begin + c->bytes;

        if (number / 2 >= c->used[number % 2])
            continue;
        if (begin < offset)
            begin = offset;
        if (end > offset + bytes)
            end = offset + bytes;
        if (begin < end && !bench_host_part_holds(c->gaps->bench, c->gaps->check + (begin - offset), end - begin,
                                                  begin / 8, c->seed))
            return false;
    }
    return true;
}

static bool check_device(struct gap_case *c, bool *right)
{
    struct gaps *gaps = c->gaps;
    struct bench *bench = gaps->bench;
    size_t total = c->slot * 2 * c->positions, offset;

    *right = true;
    for (offset = 0; offset < total && *right; offset += check_bytes) {
        size_t bytes = total - offset < check_bytes ? total - offset : check_bytes;

        if (!bench_check(bench, leat_copy(bench->streams[0], gaps->check, gaps->device + offset, bytes)) ||
            !bench_check(bench, leat_stream_synchronize(bench->streams[0])))
            return false;
        *right = checked_part_holds(c, offset, bytes);
    }
    return true;
}

static bool check_host(struct gap_case *c)
{
    unsigned number;

    for (number = 0; number < 2 * c->positions; number++)
        if (number / 2 < c->used[number % 2] &&
            !bench_host_part_holds(c->gaps->bench, host_of(c, number), c->bytes, c->slot * number / 8, c->seed))
            return false;
    return true;
}

/* Checks every buffer that was a destination of leat or of the driver. */
static bool verify(struct gap_case *c, bool *right)
{
    if (c->direction == COPY_IN)
        return check_device(c, right);
    *right = check_host(c);
    return true;
}

/* ---- rows ---- */

static bool describe(struct bench *bench, const struct gap_case *c)
{
    json_t *row = json_array_get(bench->rows, json_array_size(bench->rows) - 1);

    return json_object_set_new(row, "timing", json_string(gap_timing_words[c->timing])) == 0 &&
           json_object_set_new(row, "cache", json_string(gap_cache_words[c->cache])) == 0 &&
           json_object_set_new(row, "direction", json_string(gap_direction_words[c->direction])) == 0;
}

static void add_row(struct gap_case *c, const char *name, bool verified)
{
    struct bench *bench = c->gaps->bench;
    struct bench_rows rows = {.count = 0};
    struct bench_row *row = bench_row_add(&rows, "copy", name, c->bytes, BENCH_US);
    char part[128];

    snprintf(part, sizeof part, "pageable, idle gaps: %s, %s, %s", copy_direction_texts[c->direction],
             gap_timing_words[c->timing], gap_cache_words[c->cache]);
    row->part = part;
    row->verified = verified;
    row->with_driver = c->count[BENCH_DRIVER] > 0;
    row->result.repeats = c->count[BENCH_LEAT];
    row->result.leat = bench_summarise(c->times[BENCH_LEAT], c->count[BENCH_LEAT]);
    bench_row_extra(row, "gap_ms", c->gap * 1e3);
    bench_row_extra(row, "mean", row->result.leat.mean * 1e6);
    bench_row_extra(row, "p99", row->result.leat.p99 * 1e6);
    if (row->with_driver) {
        row->result.driver = bench_summarise(c->times[BENCH_DRIVER], c->count[BENCH_DRIVER]);
        bench_row_extra(row, "driver_mean", row->result.driver.mean * 1e6);
        bench_row_extra(row, "driver_p99", row->result.driver.p99 * 1e6);
    }
    bench_rows_commit(bench, &rows);
    if (!describe(bench, c))
        bench->failed = true;
}

static void measure(struct gaps *gaps, struct gap_case *c, void *seed)
{
    static const char *const timing_endings[GAP_TIMING_COUNT] = {"", ", sync", ", in turns", ""};
    static double times[2][SAMPLES_MAX]; /* too large for the stack */
    struct bench *bench = gaps->bench;
    bool verified = false;
    char name[128];

    snprintf(name, sizeof name, "%s, pageable, gap %g ms%s%s", copy_direction_texts[c->direction], c->gap * 1e3,
             timing_endings[c->timing], c->cache == GAP_COLD ? ", cold" : "");
    bench_progress(bench, "copy", name, c->bytes);
    c->times[0] = times[0];
    c->times[1] = times[1];
    c->positions = positions_of(gaps, c->bytes, c->cache);
    c->stride = (c->bytes + PAGE - 1) / PAGE * PAGE + LINE;
    c->slot = (c->bytes + SLOT_ALIGN - 1) / SLOT_ALIGN * SLOT_ALIGN;
    c->seed = *(uint64_t *)seed;
    c->touched = c->cache == GAP_WARM && (double)c->bytes / 10e9 <= c->gap / 2;
    if (!prepare(c) || !run_rounds(c) || !verify(c, &verified)) {
        bench_case_failed(bench, "copy", name, c->bytes);
        return;
    }
    add_row(c, name, verified);
}

/* The sums of the weights and of the memory that the cases need. */
struct demand {
    double weight;
    size_t host_bytes, device_bytes;
    bool cold;
};

static void count_case(struct gaps *gaps, struct gap_case *c, void *argument)
{
    struct demand *demand = argument;
    size_t count = 2 * positions_of(gaps, c->bytes, c->cache);
    size_t host_bytes = ((c->bytes + PAGE - 1) / PAGE * PAGE + LINE) * count;
    size_t device_bytes = (c->bytes + SLOT_ALIGN - 1) / SLOT_ALIGN * SLOT_ALIGN * count;

    demand->weight += weight_of(c->gap * 1e3);
    demand->cold = demand->cold || c->cache == GAP_COLD;
    if (host_bytes > demand->host_bytes)
        demand->host_bytes = host_bytes;
    if (device_bytes > demand->device_bytes)
        demand->device_bytes = device_bytes;
}

/* Measures all cases of one size. */
static void measure_size(struct gaps *gaps, size_t bytes, enum gap_cache cache)
{
    struct bench *bench = gaps->bench;
    size_t stride = (bytes + PAGE - 1) / PAGE * PAGE + LINE;
    size_t slot = (bytes + SLOT_ALIGN - 1) / SLOT_ALIGN * SLOT_ALIGN;
    unsigned number, count = 2 * positions_of(gaps, bytes, cache);
    uint64_t seed = bench_new_seed(bench);
    struct demand demand = {.weight = 0};

    call_for_each(gaps, bytes, cache, COPY_IN, count_case, &demand);
    call_for_each(gaps, bytes, cache, COPY_OUT, count_case, &demand);
    if (demand.weight == 0)
        return;
    for (number = 0; number < count; number++)
        bench_fill_host_part(bench, gaps->host.ptr + stride * number, bytes, slot * number / 8, seed);
    call_for_each(gaps, bytes, cache, COPY_IN, measure, &seed);
    call_for_each(gaps, bytes, cache, COPY_OUT, measure, &seed); /* overwrites the sources of the copies in */
}

/* ---- the part ---- */

static struct demand count_cases(struct gaps *gaps)
{
    struct demand demand = {.weight = 0};
    unsigned size, cache;

    for (size = 0; size < gaps->size_count; size++)
        for (cache = 0; cache < GAP_CACHE_COUNT; cache++) {
            call_for_each(gaps, gaps->sizes[size], (enum gap_cache)cache, COPY_IN, count_case, &demand);
            call_for_each(gaps, gaps->sizes[size], (enum gap_cache)cache, COPY_OUT, count_case, &demand);
        }
    return demand;
}

static void choose(struct gaps *gaps)
{
    const struct bench_options *options = gaps->bench->options;

    gaps->sizes = options->size_count ? options->sizes : options->quick ? quick_sizes : main_sizes;
    gaps->size_count = options->size_count ? options->size_count
                       : options->quick    ? sizeof quick_sizes / sizeof quick_sizes[0]
                                           : sizeof main_sizes / sizeof main_sizes[0];
    gaps->gaps_ms = options->gap_count ? options->gaps_ms : options->quick ? quick_gaps_ms : usual_gaps_ms;
    gaps->gap_count = options->gap_count ? options->gap_count
                      : options->quick   ? sizeof quick_gaps_ms / sizeof quick_gaps_ms[0]
                                         : sizeof usual_gaps_ms / sizeof usual_gaps_ms[0];
}

/* Returns twice the size of the last-level cache, but within fixed limits, because virtual machines may report a
 * wrong size. */
static size_t choose_evict_bytes(void)
{
    long cache = sysconf(_SC_LEVEL3_CACHE_SIZE);
    size_t bytes = cache > 0 ? 2 * (size_t)cache : 0;

    return bytes < 128 * MIB ? 128 * MIB : bytes > 512 * MIB ? 512 * MIB : bytes;
}

static bool choose_room(struct gaps *gaps)
{
    uint64_t room = bench_available_memory() / (is_cpu(gaps) ? 8 : 4);
    uint64_t device_bytes;

    if (!bench_check(gaps->bench, leat_device_memory(gaps->bench->device, &device_bytes, NULL)))
        return false;
    gaps->room = !is_cpu(gaps) && room > device_bytes / 4 ? device_bytes / 4 : room;
    gaps->evict_bytes = choose_evict_bytes();
    return true;
}

/* Returns the seconds for a case of weight 1. Without a time from the user, a run of only a few cases takes less
 * than the default time. */
static double choose_unit_seconds(const struct bench_options *options, double weight)
{
    double usual = options->full ? 150 : options->quick ? 2.5 : 25;

    if (options->gap_seconds > 0)
        return options->gap_seconds / weight;
    return fmin(usual / weight, options->quick ? 0.03 : 0.1);
}

static bool make_memory(struct gaps *gaps, const struct demand *demand)
{
    struct bench *bench = gaps->bench;

    if (copy_host_make(bench, COPY_PAGEABLE, true, demand->host_bytes, &gaps->host) != COPY_HOST_READY ||
        !bench_check(bench, leat_memory_alloc(bench->device, LEAT_KIND_DEVICE, demand->device_bytes,
                                              (void **)&gaps->device)) ||
        !bench_check(bench,
                     leat_memory_alloc(bench->device, LEAT_KIND_PINNED, check_bytes, (void **)&gaps->check)))
        return false;
    if (!demand->cold)
        return true;
    gaps->evict = malloc(gaps->evict_bytes);
    if (!gaps->evict) {
        snprintf(bench->error, sizeof bench->error, "out of host memory");
        return false;
    }
    memset(gaps->evict, 1, gaps->evict_bytes); /* write to all pages: the kernel maps all pages that were only read
                                                * to one page of zeros */
    return true;
}

static void note_left_out(struct gaps *gaps)
{
    size_t least = SIZE_MAX;
    char size[TEXT_MAX];
    unsigned i;

    for (i = 0; i < gaps->size_count; i++)
        if ((gaps->bench->options->size_count || gaps->sizes[i] <= 64 * MIB || !is_cpu(gaps)) &&
            (gaps->sizes[i] + 2 * (size_t)PAGE) * 2 * positions_of(gaps, gaps->sizes[i], GAP_WARM) > gaps->room &&
            gaps->sizes[i] < least)
            least = gaps->sizes[i];
    if (least != SIZE_MAX)
        bench_note(
            gaps->bench,
            "copies with gaps: sizes from %s on are left out: there is not enough free memory for the buffers",
            text_bytes(size, least));
}

static void measure_first(struct gaps *gaps)
{
    const struct bench_options *options = gaps->bench->options;
    unsigned directions = options->gap_directions ? options->gap_directions : (1u << GAP_DIRECTION_COUNT) - 1;

    if (options->gap_timings ? !(options->gap_timings & 1u << GAP_FIRST)
                             : options->quick || options->gap_count || options->gap_caches)
        return;
    bench_copy_first(gaps->bench, directions, options->size_count ? options->sizes : first_sizes,
                     options->size_count ? options->size_count : sizeof first_sizes / sizeof first_sizes[0]);
}

void bench_copy_gaps(struct bench *bench)
{
    struct gaps gaps = {.bench = bench};
    struct demand demand;
    unsigned size, cache;

    choose(&gaps);
    if (!choose_room(&gaps)) {
        bench_case_failed(bench, "copy", "gaps", 0);
        return;
    }
    note_left_out(&gaps);
    demand = count_cases(&gaps);
    if (demand.weight > 0) {
        gaps.unit_seconds = choose_unit_seconds(bench->options, demand.weight);
        if (!make_memory(&gaps, &demand))
            bench_case_failed(bench, "copy", "buffers for copies with gaps", demand.host_bytes);
        else
            for (cache = 0; cache < GAP_CACHE_COUNT; cache++)
                for (size = 0; size < gaps.size_count; size++)
                    measure_size(&gaps, gaps.sizes[size], (enum gap_cache)cache);
        free(gaps.evict);
        copy_host_free(&gaps.host);
        leat_memory_free(gaps.check);
        leat_memory_free(gaps.device);
        copy_trim(bench, LEAT_KIND_PINNED);
        copy_trim(bench, LEAT_KIND_DEVICE);
    }
    measure_first(&gaps);
}
