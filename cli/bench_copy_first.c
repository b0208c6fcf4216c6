/*
 * bench_copy_first.c - measures the first pageable copy of a process, by leat and by the driver. Each sample is a
 * new process that opens the device, makes a stream and copies once.
 */
#include "bench_child.h"
#include "bench_copy.h"
#include "cli.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { CHILDREN = 5, SEED = 1, DEVICE_BYTE = 0x5a };

static const char *const side_words[] = {"leat", "driver"};

/* ---- the child process ---- */

/* The one copy of a child process. */
struct first {
    enum bench_side side;
    bool in;
    size_t bytes;
    leat_device *device;
    leat_device_info info;
    leat_stream *stream;
    void *native_stream;
    struct bench_workers *workers;
    struct bench_peer *peer;
    unsigned char *host;
    void *memory; /* device memory */
};

static bool check(leat_status status)
{
    if (status != LEAT_OK)
        cli_complain("bench: %s", leat_last_error());
    return status == LEAT_OK;
}

static bool check_peer(int result)
{
    if (result)
        cli_complain("bench: the driver's own call for comparison failed: error %d", result);
    return result == 0;
}

/* Reads --first, such as "in,leat", and --bytes. */
static bool parse_first(const struct bench_options *options, struct first *first)
{
    unsigned direction, side;

    for (direction = 0; direction < GAP_DIRECTION_COUNT; direction++)
        for (side = 0; side < 2; side++) {
            char text[32];

            snprintf(text, sizeof text, "%s,%s", gap_direction_words[direction], side_words[side]);
            if (strcmp(text, options->first) != 0)
                continue;
            first->in = direction == COPY_IN;
            first->side = (enum bench_side)side;
            if (options->size_count == 1) {
                first->bytes = options->sizes[0];
                return true;
            }
        }
    cli_complain("bench: --first takes in,leat or in,driver or out,leat or out,driver, and one size by --bytes");
    return false;
}

static bool make_peer(struct first *first)
{
    const char *why = "leat bench knows no calls of this driver to compare with";
    long online = sysconf(_SC_NPROCESSORS_ONLN);

    if (!strcmp(first->info.driver, "cpu")) {
        first->workers =
            bench_workers_create(first->info.compute_units ? first->info.compute_units : (unsigned)online);
        if (first->workers)
            first->peer = bench_peer_cpu(first->workers, &first->info, &why);
        else
            why = "threads cannot be started";
    } else if (!strcmp(first->info.driver, "cuda")) {
        first->peer = bench_peer_cuda(first->device, false, &why);
    }
    if (!first->peer)
        cli_complain("bench: no driver figures: %s", why);
    return first->peer && check(leat_stream_native(first->stream, &first->native_stream));
}

/* Writes the source's pattern to ptr and returns true. With compare, writes nothing and returns true if ptr
 * contains the pattern. */
static bool walk_source(unsigned char *ptr, size_t bytes, bool compare)
{
    bool same = true;
    size_t i;

    for (i = 0; i < bytes; i += sizeof(uint64_t)) {
        uint64_t value = leat_pattern_value(i, SEED);
        size_t length = bytes - i < sizeof value ? bytes - i : sizeof value;

        if (compare)
            same = same && memcmp(ptr + i, &value, length) == 0;
        else
            memcpy(ptr + i, &value, length);
    }
    return same;
}

/* Opens the device and fills both sides. It makes no copy, because the sample must be the first copy of the
 * process. Therefore it fills the device memory with one byte value. */
static bool prepare(struct first *first, const struct bench_options *options)
{
    first->info = (leat_device_info)LEAT_DEVICE_INFO_INIT;
    if (!check(leat_device_open(options->device, &first->device)) ||
        !check(leat_device_get_info(first->device, &first->info)) ||
        !check(leat_stream_create(first->device, &first->stream)) ||
        !check(leat_memory_alloc(first->device, LEAT_KIND_DEVICE, first->bytes, &first->memory)) ||
        !check(leat_fill(first->stream, first->memory, DEVICE_BYTE, first->bytes)) ||
        !check(leat_stream_synchronize(first->stream)))
        return false;
    first->host = malloc(first->bytes);
    if (!first->host) {
        cli_complain("bench: out of host memory");
        return false;
    }
    walk_source(first->host, first->bytes, false);
    return first->side == BENCH_LEAT || make_peer(first);
}

static bool copy_by_driver(struct first *first)
{
    struct bench_peer *peer = first->peer;

    if (!first->in)
        return check_peer(peer->copy_plain(peer, BENCH_TO_HOST, first->host, first->memory, first->bytes));
    return check_peer(peer->copy(peer, first->native_stream, BENCH_TO_DEVICE, first->memory, first->host,
                                 first->bytes)) &&
           check_peer(peer->wait(peer, first->native_stream));
}

static bool copy_by_leat(struct first *first)
{
    void *dst = first->in ? first->memory : first->host;
    const void *src = first->in ? first->host : first->memory;

    return check(leat_copy(first->stream, dst, src, first->bytes)) &&
           check(leat_stream_synchronize(first->stream));
}

static bool copy_timed(struct first *first, double *seconds)
{
    double begin;
    bool fine;

    if (first->side == BENCH_DRIVER && !check_peer(first->peer->enter(first->peer)))
        return false;
    begin = bench_now();
    fine = first->side == BENCH_LEAT ? copy_by_leat(first) : copy_by_driver(first);
    *seconds = bench_now() - begin;
    if (first->side == BENCH_DRIVER)
        fine = check_peer(first->peer->leave(first->peer)) && fine;
    return fine;
}

/* Verifies the copy. To verify a copy in, it first copies the bytes back to the host. */
static bool verify(struct first *first, bool *right)
{
    size_t i;

    if (first->in) {
        memset(first->host, 0, first->bytes);
        if (!check(leat_copy(first->stream, first->host, first->memory, first->bytes)) ||
            !check(leat_stream_synchronize(first->stream)))
            return false;
        *right = walk_source(first->host, first->bytes, true);
        return true;
    }
    for (i = 0; i < first->bytes && first->host[i] == DEVICE_BYTE; i++)
        ;
    *right = i == first->bytes;
    return true;
}

int bench_copy_first_child(const struct bench_options *options)
{
    struct first first = {.side = BENCH_LEAT};
    double seconds = 0;
    bool right = false, fine;

    if (!parse_first(options, &first))
        return CLI_USAGE;
    fine = prepare(&first, options) && copy_timed(&first, &seconds) && verify(&first, &right);
    if (fine)
        printf("{\"seconds\": %.9f, \"verified\": %s}\n", seconds, right ? "true" : "false");
    if (first.peer)
        first.peer->destroy(first.peer);
    bench_workers_destroy(first.workers);
    leat_memory_free(first.memory);
    if (first.device)
        fine = check(leat_device_close(first.device)) && fine;
    free(first.host);
    return fine ? CLI_OK : CLI_FAILED;
}

/* ---- rows ---- */

static bool run_child(struct bench *bench, unsigned direction, enum bench_side side, size_t bytes, double *seconds,
                      bool *verified)
{
    char what[32], size[24];
    struct bench_child child = {
        .words = {"bench", "copy", "--first", what, "--bytes", size, "--device", bench->info.name}};
    json_t *result;

    snprintf(what, sizeof what, "%s,%s", gap_direction_words[direction], side_words[side]);
    snprintf(size, sizeof size, "%zu", bytes);
    result = bench_child_run(bench, &child);
    *seconds = json_number_value(json_object_get(result, "seconds"));
    *verified = json_is_true(json_object_get(result, "verified")) && *verified;
    json_decref(result);
    return result != NULL;
}

static bool measure(struct bench *bench, unsigned direction, size_t bytes, struct bench_rows *rows)
{
    static const char *const names[] = {"first copy of a process, in", "first copy of a process, out"};
    unsigned children =
        bench->options->repeat && bench->options->repeat < CHILDREN ? bench->options->repeat : CHILDREN;
    double times[2][CHILDREN];
    bool verified = true, with_driver = bench->peer != NULL;
    struct bench_row *row;
    unsigned i;

    bench_progress(bench, "copy", names[direction], bytes);
    for (i = 0; i < children; i++)
        if (!run_child(bench, direction, BENCH_LEAT, bytes, &times[BENCH_LEAT][i], &verified) ||
            (with_driver && !run_child(bench, direction, BENCH_DRIVER, bytes, &times[BENCH_DRIVER][i], &verified)))
            return false;
    row = bench_row_add(rows, "copy", names[direction], bytes, BENCH_US);
    row->part = "pageable, the first copy of a process";
    row->verified = verified;
    row->with_driver = with_driver;
    row->result.repeats = children;
    row->result.leat = bench_summarise(times[BENCH_LEAT], children);
    if (with_driver)
        row->result.driver = bench_summarise(times[BENCH_DRIVER], children);
    bench_row_extra(row, "mean", row->result.leat.mean * 1e6);
    if (with_driver)
        bench_row_extra(row, "driver_mean", row->result.driver.mean * 1e6);
    return true;
}

void bench_copy_first(struct bench *bench, unsigned directions, const size_t *sizes, unsigned size_count)
{
    struct bench_rows rows = {.count = 0};
    unsigned direction, i;

    for (direction = 0; direction < GAP_DIRECTION_COUNT; direction++)
        for (i = 0; i < size_count && i < BENCH_SIZES_MAX; i++)
            if (directions & 1u << direction && sizes[i] <= bench->largest &&
                !measure(bench, direction, sizes[i], &rows))
                bench_case_failed(bench, "copy", "first copy of a process", sizes[i]);
    bench_rows_commit(bench, &rows);
}
