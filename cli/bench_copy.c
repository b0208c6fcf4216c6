/*
 * bench_copy.c - the group "copy": host to device, device to host and both at once, pinned and pageable.
 */
#include "bench_copy.h"
#include "bench_verify.h"

bool copy_case_init(struct copy_case *c, struct bench *bench, enum copy_direction direction, bool pinned,
                    size_t bytes)
{
    *c = (struct copy_case){.bench = bench, .direction = direction, .pinned = pinned, .bytes = bytes};
    c->in_src = bench_buffer(bench, pinned ? BENCH_PINNED_IN : BENCH_PAGEABLE_IN);
    c->out_dst = bench_buffer(bench, pinned ? BENCH_PINNED_OUT : BENCH_PAGEABLE_OUT);
    c->in_dst = bench_buffer(bench, BENCH_DEVICE_A);
    c->out_src = bench_buffer(bench, BENCH_DEVICE_B);
    return c->in_src && c->out_dst && c->in_dst && c->out_src;
}

/* Issues one direction on its own stream, by leat or by the driver. */
static bool issue(struct copy_case *c, enum bench_side side, bool in)
{
    struct bench *bench = c->bench;
    struct bench_peer *peer = bench->peer;
    unsigned stream = in ? 0 : 1;
    void *dst = in ? c->in_dst : c->out_dst;
    void *src = in ? c->in_src : c->out_src;

    if (side == BENCH_LEAT)
        return bench_check(bench, leat_copy(bench->streams[stream], dst, src, c->bytes));
    return bench_check_peer(
        bench, "copy",
        peer->copy(peer, bench->native_streams[stream], in ? BENCH_TO_DEVICE : BENCH_TO_HOST, dst, src, c->bytes));
}

static bool finish(struct copy_case *c, enum bench_side side, bool in)
{
    struct bench *bench = c->bench;
    unsigned stream = in ? 0 : 1;

    if (side == BENCH_LEAT)
        return bench_check(bench, leat_stream_synchronize(bench->streams[stream]));
    return bench_check_peer(bench, "wait", bench->peer->wait(bench->peer, bench->native_streams[stream]));
}

/* Both directions of pageable copies: a call holds its thread up, so each direction has a thread. */
struct pair_work {
    struct copy_case *c;
    enum bench_side side;
    bool fine[2];
};

static void copy_one_of_two(void *argument, unsigned index, unsigned count)
{
    struct pair_work *work = argument;
    struct bench_peer *peer = work->c->bench->peer;
    bool entered = false;

    (void)count;
    if (work->side == BENCH_DRIVER && index > 0) {
        entered = bench_check_peer(work->c->bench, "making the device current", peer->enter(peer));
        if (!entered)
            return;
    }
    work->fine[index] = issue(work->c, work->side, index == 0) && finish(work->c, work->side, index == 0);
    if (entered)
        peer->leave(peer);
}

static bool copy_by_two_threads(struct copy_case *c, enum bench_side side)
{
    struct pair_work work = {c, side, {false, false}};

    bench_team_run(c->bench->pair, copy_one_of_two, &work);
    return work.fine[0] && work.fine[1];
}

static bool copy_once(struct copy_case *c, enum bench_side side)
{
    struct bench_peer *peer = c->bench->peer;
    bool in = c->direction != COPY_OUT;
    bool out = c->direction != COPY_IN;

    if (!c->pinned && in && out && (side == BENCH_LEAT || peer->copies_block))
        return copy_by_two_threads(c, side);
    if (!c->pinned && !(in && out) && side == BENCH_DRIVER)
        return bench_check_peer(c->bench, "copy",
                                in ? peer->copy_at_once(peer, BENCH_TO_DEVICE, c->in_dst, c->in_src, c->bytes)
                                   : peer->copy_at_once(peer, BENCH_TO_HOST, c->out_dst, c->out_src, c->bytes));
    return (!in || issue(c, side, true)) && (!out || issue(c, side, false)) && (!in || finish(c, side, true)) &&
           (!out || finish(c, side, false));
}

bool copy_case_sample(void *state, enum bench_side side, double *seconds)
{
    double begin = bench_now();

    if (!copy_once(state, side))
        return false;
    *seconds = bench_now() - begin;
    return true;
}

/* Copies new bytes with leat and looks whether they arrived. */
static bool verify_copy(struct copy_case *c, bool *verified)
{
    struct bench *bench = c->bench;
    uint64_t in_seed = bench_new_seed(bench);
    uint64_t out_seed = bench_new_seed(bench);
    bool holds = true;

    if (c->direction != COPY_OUT)
        bench_fill_host(bench, c->in_src, c->bytes, in_seed);
    if (c->direction != COPY_IN && !bench_fill_device(bench, c->out_src, c->bytes, out_seed))
        return false;
    if (!copy_once(c, BENCH_LEAT))
        return false;
    if (c->direction != COPY_OUT && !bench_device_holds(bench, c->in_dst, c->bytes, in_seed, &holds))
        return false;
    *verified = holds && (c->direction == COPY_IN || bench_host_holds(bench, c->out_dst, c->bytes, out_seed));
    return true;
}

static const char *case_name(enum copy_direction direction, bool pinned)
{
    static const char *const names[][2] = {
        {"host to device, pageable", "host to device, pinned"},
        {"device to host, pageable", "device to host, pinned"},
        {"both directions, pageable", "both directions, pinned"},
    };

    return names[direction][pinned];
}

static void measure_case(struct bench *bench, struct bench_rows *rows, enum copy_direction direction, bool pinned,
                         size_t bytes)
{
    const char *name = case_name(direction, pinned);
    struct bench_result result;
    struct bench_row *row;
    struct copy_case c;
    bool verified = false;

    bench_progress(bench, "copy", name, bytes);
    if (!copy_case_init(&c, bench, direction, pinned, bytes) ||
        !bench_measure(bench, copy_case_sample, &c, bench->peer != NULL, &result) || !verify_copy(&c, &verified)) {
        bench_case_failed(bench, "copy", name, bytes);
        return;
    }
    row = bench_row_add(rows, "copy", name, bytes, BENCH_GB_S);
    row->moved_bytes = direction == COPY_BOTH ? 2.0 * (double)bytes : (double)bytes;
    row->result = result;
    row->with_driver = bench->peer != NULL;
    row->verified = verified;
}

static void measure_direction(struct bench *bench, struct bench_rows *rows, enum copy_direction direction)
{
    static const size_t full[] = {4, 4 * KIB, 64 * KIB, MIB, 16 * MIB, 64 * MIB, 256 * MIB, GIB};
    static const size_t quick[] = {4, 64 * KIB, MIB, 16 * MIB, 256 * MIB};
    const size_t *sizes = bench->options->quick ? quick : full;
    size_t count = bench->options->quick ? sizeof quick / sizeof quick[0] : sizeof full / sizeof full[0];
    unsigned begin = rows->count;
    unsigned pinned_end;
    size_t i;

    for (i = 0; i < count && sizes[i] <= bench->largest; i++)
        measure_case(bench, rows, direction, true, sizes[i]);
    pinned_end = rows->count;
    for (i = 0; i < count && sizes[i] <= bench->largest; i++)
        measure_case(bench, rows, direction, false, sizes[i]);
    bench_set_bounds(rows, begin, pinned_end);
}

void bench_copy_group(struct bench *bench)
{
    struct bench_rows rows = {.count = 0};

    measure_direction(bench, &rows, COPY_IN);
    measure_direction(bench, &rows, COPY_OUT);
    measure_direction(bench, &rows, COPY_BOTH);
    bench_rows_commit(bench, &rows);
}
