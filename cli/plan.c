/*
 * plan.c - "leat plan": reads from a trace how long each block lives, and assigns an address to each large block.
 *
 * It places the blocks by size, the largest first. Each block gets the lowest offset that is free during its whole
 * life. Blocks of all streams share one arena.
 */
#include "cli.h"
#include "text.h"
#include "trace_read.h"

#include <assert.h>
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { GRANULE_BYTES = 512, LARGE_BYTES = 1 << 20, STREAMS_MAX = 8, BUCKETS = 4096, PARSE_GO_ON = -1 };

const char cli_plan_help[] = "Usage: leat plan [OPTION]... TRACE -o PLAN\n\n"
                             "Places the large blocks (1 MiB and more) of a recorded run so that they take as "
                             "little memory as possible, and\n"
                             "writes where each one goes. A pool that is given the plan (LEAT_POOL_PLAN=PLAN, or "
                             "leat_pool_options.plan) puts\n"
                             "the blocks of a program that repeats the run there. What the program does "
                             "differently goes the ordinary way: a\n"
                             "wrong plan costs memory, and nothing else. A plan has the first eight streams of "
                             "the run. TRACE: as for leat replay.\n\n"
                             "Options:\n"
                             "  -o, --output PLAN  the file to write\n"
                             "  --help             this text\n";

/* A large block of the trace. It lives from event number begin until just before event number end. */
struct planned {
    uint64_t bytes, offset;
    size_t begin, end;
    uint32_t block; /* index of the trace's blocks */
    uint16_t stream;
};

struct plan {
    struct planned *blocks;
    size_t count, left_out;   /* left_out: unplanned blocks, of the host or of streams beyond STREAMS_MAX */
    uint64_t bytes;           /* size of the arena */
    uint64_t small_bytes;     /* the most bytes of small blocks that live at once */
    uint64_t requested_bytes; /* the most bytes of all blocks that live at once */
};

/* The blocks that already have an offset and live in one of BUCKETS periods of the run. A new block is compared
 * only with the blocks of its own periods. */
struct bucket {
    uint32_t *blocks;
    size_t count, room;
};

/* ---- reading the trace ---- */

static uint64_t rounded(uint64_t bytes)
{
    return (bytes + GRANULE_BYTES - 1) / GRANULE_BYTES * GRANULE_BYTES;
}

/* Returns true if a block's memory can be reused after the event. This is its free, or, if other streams used the
 * block, the moment when these streams have finished with it. */
static bool ends_at(const struct trace *trace, const struct trace_event *event)
{
    bool late = trace->has_freed && trace->blocks[event->block].used_elsewhere;

    return event->op == (late ? TRACE_FREED : TRACE_FREE);
}

static bool collect(const struct trace *trace, struct plan *plan)
{
    uint32_t *numbers = malloc(trace->block_count * sizeof *numbers);
    uint64_t small = 0;

    plan->blocks = malloc((trace->block_count + 1) * sizeof *plan->blocks);
    for (size_t i = 0; i < trace->event_count && numbers && plan->blocks; i++) {
        const struct trace_event *event = &trace->events[i];
        const struct trace_block *block = &trace->blocks[event->block];
        bool large = block->bytes >= LARGE_BYTES;

        if (large && block->stream >= STREAMS_MAX) {
            plan->left_out += event->op == TRACE_ALLOC;
        } else if (event->op == TRACE_ALLOC && large) {
            numbers[event->block] = (uint32_t)plan->count;
            plan->blocks[plan->count++] = (struct planned){.bytes = rounded(block->bytes),
                                                           .begin = i,
                                                           .end = trace->event_count,
                                                           .block = event->block,
                                                           .stream = block->stream};
        } else if (event->op == TRACE_ALLOC) {
            small += rounded(block->bytes);
            plan->small_bytes = small > plan->small_bytes ? small : plan->small_bytes;
        } else if (ends_at(trace, event) && large) {
            plan->blocks[numbers[event->block]].end = i;
        } else if (ends_at(trace, event)) {
            small -= rounded(block->bytes);
        }
    }
    free(numbers);
    return numbers && plan->blocks;
}

/* ---- placing ---- */

static int by_size(const void *a, const void *b)
{
    const struct planned *x = a, *y = b;

    if (x->bytes != y->bytes)
        return (x->bytes < y->bytes) - (x->bytes > y->bytes);
    return (x->begin > y->begin) - (x->begin < y->begin);
}

static int by_begin(const void *a, const void *b)
{
    const struct planned *x = a, *y = b;

    return (x->begin > y->begin) - (x->begin < y->begin);
}

struct taken {
    uint64_t begin, end;
};

static int by_offset(const void *a, const void *b)
{
    const struct taken *x = a, *y = b;

    return (x->begin > y->begin) - (x->begin < y->begin);
}

/* Returns the lowest offset at which a block of this size does not overlap the taken ranges. */
static uint64_t lowest_gap(struct taken *taken, size_t count, uint64_t bytes)
{
    uint64_t offset = 0;

    qsort(taken, count, sizeof *taken, by_offset);
    for (size_t i = 0; i < count; i++) {
        if (taken[i].begin >= offset + bytes)
            break;
        offset = taken[i].end > offset ? taken[i].end : offset;
    }
    return offset;
}

static bool put(struct bucket *bucket, uint32_t block)
{
    if (bucket->count == bucket->room) {
        size_t room = bucket->room ? bucket->room * 2 : 16;
        uint32_t *grown = realloc(bucket->blocks, room * sizeof *grown);

        if (!grown)
            return false;
        bucket->blocks = grown;
        bucket->room = room;
    }
    bucket->blocks[bucket->count++] = block;
    return true;
}

/* Chooses the offsets of all blocks, the largest first. */
static bool place_all(struct plan *plan, size_t events)
{
    struct bucket *buckets = calloc(BUCKETS + 1, sizeof *buckets);
    struct taken *taken = malloc((plan->count + 1) * sizeof *taken);
    uint32_t *seen = calloc(plan->count + 1, sizeof *seen); /* for each block, 1 + the latest block that was
                                                             * compared with it, since a block may be in several
                                                             * buckets */
    bool fine = buckets && taken && seen;

    qsort(plan->blocks, plan->count, sizeof *plan->blocks, by_size);
    for (uint32_t i = 0; i < plan->count && fine; i++) {
        struct planned *block = &plan->blocks[i];
        size_t first = block->begin * BUCKETS / events, last = block->end * BUCKETS / events, count = 0;

        for (size_t bucket = first; bucket <= last; bucket++)
            for (size_t k = 0; k < buckets[bucket].count; k++) {
                uint32_t number = buckets[bucket].blocks[k];
                const struct planned *other = &plan->blocks[number];

                if (seen[number] == i + 1 || other->begin >= block->end || block->begin >= other->end)
                    continue;
                seen[number] = i + 1;
                taken[count++] = (struct taken){other->offset, other->offset + other->bytes};
            }
        block->offset = lowest_gap(taken, count, block->bytes);
        if (block->offset + block->bytes > plan->bytes)
            plan->bytes = block->offset + block->bytes;
        for (size_t bucket = first; bucket <= last && fine; bucket++)
            fine = put(&buckets[bucket], i);
    }
    for (size_t i = 0; buckets && i <= BUCKETS; i++)
        free(buckets[i].blocks);
    free(buckets);
    free(taken);
    free(seen);
    return fine;
}

/* ---- writing ---- */

static bool write_plan(struct plan *plan, const struct trace *trace, const char *path)
{
    FILE *file = fopen(path, "we");
    unsigned streams = trace->stream_count < STREAMS_MAX ? trace->stream_count : STREAMS_MAX;
    bool fine = file != NULL;

    qsort(plan->blocks, plan->count, sizeof *plan->blocks, by_begin);
    if (fine)
        fprintf(file, "leat-plan 1\nbytes %" PRIu64 "\n", plan->bytes);
    for (unsigned stream = 0; stream < streams && fine; stream++) {
        size_t count = 0;

        for (size_t i = 0; i < plan->count; i++)
            count += plan->blocks[i].stream == stream;
        fprintf(file, "stream %zu\n", count);
        for (size_t i = 0; i < plan->count; i++)
            if (plan->blocks[i].stream == stream)
                fprintf(file, "%" PRIu64 " %" PRIu64 "\n", plan->blocks[i].bytes, plan->blocks[i].offset);
    }
    fine = fine && !ferror(file);
    if (file && fclose(file))
        fine = false;
    if (!fine)
        cli_complain("plan: %s could not be written: %s", path, strerror(errno));
    return fine;
}

static void report(const struct plan *plan, const char *path)
{
    char arena[TEXT_MAX], small[TEXT_MAX], requested[TEXT_MAX];

    printf("%s: %zu blocks of 1 MiB and more in %s; smaller ones take %s at most.\n"
           "Together %.4f of the %s that the run requested at most.\n",
           path, plan->count, text_bytes(arena, plan->bytes), text_bytes(small, plan->small_bytes),
           plan->requested_bytes ? (double)(plan->bytes + plan->small_bytes) / (double)plan->requested_bytes : 0.0,
           text_bytes(requested, plan->requested_bytes));
    if (plan->left_out)
        printf("%zu blocks of the host and of streams beyond the first %d are not in the plan.\n", plan->left_out,
               STREAMS_MAX);
}

/* ---- the command ---- */

static int parse(int argc, char **argv, const char **trace, const char **output)
{
    static const struct option options[] = {
        {"output", required_argument, NULL, 'o'}, {"help", no_argument, NULL, 'h'}, {NULL, 0, NULL, 0}};
    int option;

    while ((option = getopt_long(argc, argv, ":o:h", options, NULL)) != -1)
        switch (option) {
        case 'o':
            *output = optarg;
            break;
        case 'h':
            fputs(cli_plan_help, stdout);
            return CLI_OK;
        default:
            return cli_bad_option(argc, argv, option);
        }
    if (optind + 1 != argc || !*output) {
        cli_complain("plan: give one TRACE, and -o with the file for the plan; see leat help plan");
        return CLI_USAGE;
    }
    *trace = argv[optind];
    return PARSE_GO_ON;
}

int cli_plan(int argc, char **argv)
{
    const char *path = NULL, *output = NULL;
    struct plan plan = {.blocks = NULL};
    char error[TRACE_ERROR_MAX];
    int status = parse(argc, argv, &path, &output);
    struct trace *trace;
    bool fine;

    if (status != PARSE_GO_ON)
        return status;
    assert(path && output);
    trace = trace_read(path, TRACE_ANY_DEVICE, error);
    if (!trace || !trace_choose(trace, LEAT_KIND_DEVICE, NULL, error)) {
        cli_complain("plan: %s", error);
        trace_destroy(trace);
        return CLI_FAILED;
    }
    plan.requested_bytes = trace_peak_bytes(trace, false, NULL);
    fine = collect(trace, &plan) && place_all(&plan, trace->event_count);
    if (!fine)
        cli_complain("plan: out of host memory");
    fine = fine && write_plan(&plan, trace, output);
    if (fine)
        report(&plan, output);
    free(plan.blocks);
    trace_destroy(trace);
    return fine ? CLI_OK : CLI_FAILED;
}
