/*
 * many.c - leat_copy_many(): many copies by one launch.
 *
 * All pairs are checked and sorted (pairs.h) before anything is done. Then each range goes one of five ways:
 *
 *   KERNEL  the device reaches both ends: leat_copy_pieces copies it, among the others
 *   IN      a pageable source: packed into pinned memory, where the same launch takes it from. The caller's thread
 *           packs where the source may be read at once, else a host function of the stream
 *   OUT     a pageable destination: the launch brings it to pinned memory, a host function to its place
 *   HOST    host memory on both sides, one of them pageable: by that host function
 *   SINGLE  large ranges, memory of other devices, and whatever is too few for the above: as leat_copy()
 *
 * Where packed ranges continue one another on the device's side as well, DMAs move them and not the kernel. All
 * that the stream needs lies in one block of pinned memory, which goes back to its pool in stream order.
 */
#include "base/options.h"
#include "base/text.h"
#include "copy/copy.h"
#include "copy/pairs.h"
#include "copy/scratch.h"

#include <leat/copy.h>
#include <leat/pool.h>

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PIECE_BYTES                                                                                               \
    ((size_t)16 << 10)          /* what a warp copies at a time, so that unequal ranges share out evenly          \
                                 */
#define WORD_BYTES ((size_t)16) /* ends that lie alike in words of this size are copied in such words */
#define TOGETHER_BYTES ((size_t)512 << 10)     /* from here on the workers pack, too */
#define TOGETHER_PART_BYTES ((size_t)64 << 10) /* about as much at a time */
#define BLOCK_THREADS 256u
#define BLOCK_PIECES (BLOCK_THREADS / 32)
#define BLOCKS_MOST 2048u
#define CPU_BLOCKS_MOST 256u

enum way { WAY_KERNEL, WAY_IN, WAY_OUT, WAY_HOST, WAY_SINGLE, WAYS };

/*
 * When ranges go together. A GPU: a copy of the driver's takes some 2.5 us, a launch and what belongs to it 10 to
 * 20, and from 128 KiB on a DMA is as fast as the link (../bench/results and docs/copies.md have the figures). The
 * CPU device: a copy of its own costs a queued work, and from 1 MiB on it is spread over the threads by itself.
 */
struct limits {
    unsigned few;        /* ranges; fewer go one by one */
    size_t single_bytes; /* larger ranges do */
};
static const struct limits gpu_limits = {.few = 16, .single_bytes = (size_t)128 << 10};
static const struct limits cpu_limits = {.few = 4, .single_bytes = (size_t)1 << 20};

struct many {
    leat_stream *stream;
    struct leati_pairs pairs;
    struct limits limits;
    leat_kernel *kernel;
    size_t counts[WAYS], bytes[WAYS]; /* of ranges */
    const char *why_single;
};

/* ---- choosing ---- */

static leat_status get_limits(const leat_stream *stream, struct limits *limits)
{
    const char *chosen = leati_option(LEATI_OPTION_COPY_MANY);

    *limits = stream->device->is_cpu ? cpu_limits : gpu_limits;
    if (!chosen || !strcmp(chosen, "auto"))
        return LEAT_OK;
    if (!strcmp(chosen, "kernel"))
        *limits = (struct limits){.few = 1, .single_bytes = SIZE_MAX};
    else if (!strcmp(chosen, "single"))
        *limits = (struct limits){.few = UINT_MAX, .single_bytes = SIZE_MAX};
    else
        return leati_fail(LEAT_ERROR_INVALID, "LEAT_COPY_MANY is set to '%s'; it may be auto, kernel or single",
                          chosen);
    return LEAT_OK;
}

static inline enum way choose_way(const struct many *many, const struct leati_pair *pair)
{
    const struct leati_pairs *pairs = &many->pairs;
    enum leati_side to = pairs->areas[pair->to].side, from = pairs->areas[pair->from].side;

    if (pair->bytes > many->limits.single_bytes || to == LEATI_SIDE_FAR || from == LEATI_SIDE_FAR)
        return WAY_SINGLE;
    if ((to != LEATI_SIDE_PAGEABLE && from != LEATI_SIDE_PAGEABLE) || pairs->direct)
        return WAY_KERNEL;
    if (!pairs->staged)
        return WAY_SINGLE;
    if (to == LEATI_SIDE_NEAR)
        return WAY_IN;
    return from == LEATI_SIDE_NEAR ? WAY_OUT : WAY_HOST;
}

static void all_single(struct many *many, const char *why)
{
    memset(many->counts, 0, sizeof many->counts);
    memset(many->bytes, 0, sizeof many->bytes);
    many->counts[WAY_SINGLE] = many->pairs.count;
    many->bytes[WAY_SINGLE] = many->pairs.bytes;
    for (size_t i = 0; i < many->pairs.count; i++)
        many->pairs.list[i].way = WAY_SINGLE;
    many->why_single = why;
}

/* Without the kernel there are still the single copies. */
static bool find_kernel(struct many *many)
{
    struct leati_sentence before;

    leati_error_keep(&before);
    if (leati_kernel_own(many->stream->device, LEATI_BUILTIN_BASIC, "leat_copy_pieces", &many->kernel) == LEAT_OK)
        return true;
    leati_error_restore(LEAT_ERROR_DRIVER, &before);
    return false;
}

static void choose_ways(struct many *many)
{
    memset(many->counts, 0, sizeof many->counts);
    memset(many->bytes, 0, sizeof many->bytes);
    many->why_single = "";
    for (size_t i = 0; i < many->pairs.count; i++) {
        struct leati_pair *pair = &many->pairs.list[i];

        pair->way = choose_way(many, pair);
        many->counts[pair->way]++;
        many->bytes[pair->way] += pair->bytes;
    }
    if (many->counts[WAY_SINGLE] == many->pairs.count)
        return;
    if (many->pairs.count - many->counts[WAY_SINGLE] < many->limits.few)
        all_single(many, "they are few");
    else if (!find_kernel(many))
        all_single(many, "the device has no kernel for it");
}

/* Only packing finds out by itself whether a source is there. What is not packed was perhaps not looked at, and
 * what leat_copy() refuses must be known before anything is done. */
static leat_status check_unread(struct many *many)
{
    struct leati_pairs *pairs = &many->pairs;
    struct leati_driver *driver = many->stream->device->driver;
    struct leati_target target;

    if (!pairs->unread || many->counts[WAY_SINGLE] + many->counts[WAY_HOST] == 0)
        return LEAT_OK;
    for (size_t i = 0; i < pairs->count; i++) {
        const struct leati_pair *pair = &pairs->list[i];
        leat_status status;

        if (pair->from || pair->way == WAY_IN)
            continue;
        status = leati_pointers_find_range(driver, "src", (void *)pair->src, pair->bytes, false, &target);
        if (status != LEAT_OK)
            return leati_fail_in(status, "pair %u", pair->number);
    }
    return LEAT_OK;
}

static leat_status plan(struct many *many, leat_stream *stream, const leat_copy_pair *given, size_t count,
                        bool asking)
{
    many->stream = stream;
    LEATI_TRY(leati_pairs_read(&many->pairs, stream, given, count, asking));
    LEATI_TRY(get_limits(stream, &many->limits));
    choose_ways(many);
    return check_unread(many);
}

/* ---- guard mode ---- */

static leat_status may_use_end(struct many *many, const char *name, uint32_t area, uintptr_t ptr,
                               const struct leati_pair *pair, struct leati_access *use)
{
    struct leati_target target = leati_pairs_target(&many->pairs, area, ptr);
    leat_status status = leati_may_use(use, many->stream, name, &target, pair->bytes, *name == 'd');

    return status == LEAT_OK ? status : leati_fail_in(status, "pair %u", pair->number);
}

/* Fills *use with the mark that was_used() needs; its hooks are NULL where guard mode is off. */
static leat_status may_use(struct many *many, struct leati_access *use)
{
    struct leati_access one;

    /* Acquire: pairs with the release of the pool that set them. */
    use->hooks = atomic_load_explicit(&leati_guard_hooks, memory_order_acquire);
    use->tick = 0;
    if (!use->hooks)
        return LEAT_OK;
    use->tick = leati_order_now(many->stream->order);
    for (size_t i = 0; i < many->pairs.count; i++) {
        const struct leati_pair *pair = &many->pairs.list[i];

        LEATI_TRY(may_use_end(many, "dst", pair->to, pair->dst, pair, &one));
        LEATI_TRY(may_use_end(many, "src", pair->from, pair->src, pair, &one));
    }
    return LEAT_OK;
}

static void end_was_used(struct many *many, const struct leati_access *use, uint32_t area, uintptr_t ptr,
                         size_t bytes, bool write)
{
    struct leati_target target = leati_pairs_target(&many->pairs, area, ptr);
    struct leati_access one = {.hooks = target.block ? use->hooks : NULL, .tick = use->tick};

    leati_was_used(&one, many->stream, &target, bytes, write);
}

/* Of the ranges from first to end - 1 that went together. */
static void was_used(struct many *many, const struct leati_access *use, size_t first, size_t end)
{
    for (size_t i = first; i < end && use->hooks; i++) {
        const struct leati_pair *pair = &many->pairs.list[i];

        if (pair->way == WAY_SINGLE)
            continue;
        end_was_used(many, use, pair->to, pair->dst, pair->bytes, true);
        end_was_used(many, use, pair->from, pair->src, pair->bytes, false);
    }
}

/* ---- a round: as many ranges as there is pinned memory to pack ---- */

/* As the kernel reads it. */
struct piece {
    uint64_t dst, src; /* addresses of the device */
    uint32_t bytes, number;
};

/* Copies pieces in the kernel's place, on the CPU device's threads, where one side may be pageable. */
struct copier {
    void (*copy)(struct copier *copier, const struct piece *piece);
    struct leati_order *order;
};

/* A copy by the host. */
struct part {
    char *dst;
    const char *src;
    size_t bytes;
    uint32_t number;
};

/* A copy by the driver, of packed memory. */
struct dma {
    struct leati_end dst, src;
    size_t bytes;
};

/* What a host function of the stream does. */
struct host_parts {
    struct leati_order *order;
    struct part *list;
    size_t count;
};

/* The one block of a round; in it lies everything that the stream or its host functions look at. */
struct block {
    struct host_parts in, out;
    struct copier copier;
    struct piece *pieces;
    size_t piece_count;
    char *pack;
    uintptr_t pack_shift; /* to the address for kernels */
    size_t packed_bytes;
    struct dma *dmas;
    size_t dma_count;
};

/* A run of packed ranges that continue one another in pinned memory and on the device. */
struct run {
    enum way way;
    uint32_t area;
    uintptr_t near, packed;
    size_t bytes; /* 0: none */
};

static size_t align_up(size_t bytes, size_t to)
{
    return (bytes + to - 1) / to * to;
}

/* What a range of so many bytes, or several of them, takes at most. */
static void add_needs(struct block *needs, enum way way, size_t count, size_t bytes)
{
    if (way == WAY_IN || way == WAY_OUT)
        needs->packed_bytes += bytes + count * 2 * WORD_BYTES;
    if (way == WAY_IN)
        needs->in.count += count;
    if (way == WAY_OUT || way == WAY_HOST)
        needs->out.count += count;
    if (way < WAY_HOST)
        needs->piece_count += bytes / PIECE_BYTES + count;
}

/* Ends before the range that does not fit any more. */
static size_t find_round(const struct many *many, size_t first, size_t most_packed, struct block *needs)
{
    size_t i = many->pairs.count;

    memset(needs, 0, sizeof *needs);
    for (enum way way = 0; way < WAYS && first == 0; way++)
        add_needs(needs, way, many->counts[way], many->bytes[way]);
    if (first || needs->packed_bytes > most_packed) {
        memset(needs, 0, sizeof *needs);
        for (i = first; i < many->pairs.count; i++) {
            const struct leati_pair *pair = &many->pairs.list[i];

            if (needs->packed_bytes && needs->packed_bytes + pair->bytes + 2 * WORD_BYTES > most_packed)
                break;
            add_needs(needs, (enum way)pair->way, 1, pair->bytes);
        }
    }
    /* Each of them is larger than any range that went into it. */
    needs->dma_count = needs->packed_bytes / many->limits.single_bytes;
    return i;
}

static struct block *take_block(struct many *many, const struct block *needs)
{
    size_t in_bytes = align_up(needs->in.count * sizeof(struct part), 64);
    size_t out_bytes = align_up(needs->out.count * sizeof(struct part), 64);
    size_t piece_bytes = align_up(needs->piece_count * sizeof(struct piece), 64);
    size_t dma_bytes = align_up(needs->dma_count * sizeof(struct dma), 64);
    size_t head_bytes = align_up(sizeof(struct block), 64);
    struct block *block = leati_scratch_take(
        many->stream->device, head_bytes + in_bytes + out_bytes + piece_bytes + dma_bytes + needs->packed_bytes);
    char *at;

    if (!block)
        return NULL;
    memset(block, 0, sizeof *block);
    at = (char *)block + head_bytes;
    block->in.list = (struct part *)(void *)at;
    block->out.list = (struct part *)(void *)(at += in_bytes);
    block->pieces = (struct piece *)(void *)(at += out_bytes);
    block->dmas = (struct dma *)(void *)(at += piece_bytes);
    block->pack = at + dma_bytes;
    return block;
}

static void add_pieces(struct block *block, uintptr_t dst, uintptr_t src, size_t bytes, uint32_t number)
{
    for (size_t at = 0; at < bytes; at += PIECE_BYTES)
        block->pieces[block->piece_count++] =
            (struct piece){.dst = dst + at,
                           .src = src + at,
                           .bytes = (uint32_t)(bytes - at < PIECE_BYTES ? bytes - at : PIECE_BYTES),
                           .number = number};
}

static leat_status end_run(struct many *many, struct block *block, struct run *run)
{
    struct leati_area *area = &many->pairs.areas[run->area];
    struct leati_end near = area->target.end, pinned = {.ptr = (void *)run->packed, .kind = LEAT_KIND_PINNED};
    uintptr_t device_near, device_packed = run->packed + block->pack_shift;

    if (!run->bytes)
        return LEAT_OK;
    near.ptr = (void *)run->near;
    if (run->bytes > many->limits.single_bytes) {
        block->dmas[block->dma_count++] =
            run->way == WAY_IN ? (struct dma){near, pinned, run->bytes} : (struct dma){pinned, near, run->bytes};
    } else {
        LEATI_TRY(leati_pairs_map(&many->pairs, area));
        device_near = run->near + (uintptr_t)area->shift;
        if (run->way == WAY_IN)
            add_pieces(block, device_near, device_packed, run->bytes, 0);
        else
            add_pieces(block, device_packed, device_near, run->bytes, 0);
    }
    run->bytes = 0;
    return LEAT_OK;
}

/* Packed memory for a range of the device's, behind that of the range before where it continues that one. */
static leat_status pack(struct many *many, struct block *block, struct run *run, enum way way, uint32_t area,
                        uintptr_t near, size_t bytes, char **packed)
{
    if (run->bytes && (run->way != way || run->area != area || run->near + run->bytes != near))
        LEATI_TRY(end_run(many, block, run));
    if (!run->bytes) {
        block->packed_bytes = align_up(block->packed_bytes, WORD_BYTES) + near % WORD_BYTES;
        *run = (struct run){
            .way = way, .area = area, .near = near, .packed = (uintptr_t)block->pack + block->packed_bytes};
    }
    *packed = block->pack + block->packed_bytes;
    block->packed_bytes += bytes;
    run->bytes += bytes;
    return LEAT_OK;
}

static void add_part(struct host_parts *parts, char *dst, const char *src, const struct leati_pair *pair)
{
    parts->list[parts->count++] =
        (struct part){.dst = dst, .src = src, .bytes = pair->bytes, .number = pair->number};
}

static leat_status add_range(struct many *many, struct block *block, struct run *run,
                             const struct leati_pair *pair)
{
    struct leati_area *to = &many->pairs.areas[pair->to], *from = &many->pairs.areas[pair->from];
    enum way way = (enum way)pair->way;
    char *packed;

    switch (way) {
    case WAY_KERNEL:
        LEATI_TRY(leati_pairs_map(&many->pairs, to));
        LEATI_TRY(leati_pairs_map(&many->pairs, from));
        add_pieces(block, pair->dst + (uintptr_t)to->shift, pair->src + (uintptr_t)from->shift, pair->bytes,
                   pair->number);
        break;
    case WAY_IN:
        LEATI_TRY(pack(many, block, run, way, pair->to, pair->dst, pair->bytes, &packed));
        add_part(&block->in, packed, (const char *)pair->src, pair);
        break;
    case WAY_OUT:
        LEATI_TRY(pack(many, block, run, way, pair->from, pair->src, pair->bytes, &packed));
        add_part(&block->out, (char *)pair->dst, packed, pair);
        break;
    case WAY_HOST:
        add_part(&block->out, (char *)pair->dst, (const char *)pair->src, pair);
        break;
    default:
        break;
    }
    return LEAT_OK;
}

static leat_status fill_block(struct many *many, struct block *block, size_t first, size_t end)
{
    struct leati_driver *driver = many->stream->device->driver;
    struct run run = {.bytes = 0};
    void *device_pack = block->pack;

    if (driver->ops->host_device_pointer)
        LEATI_TRY(
            driver->ops->host_device_pointer(driver, many->stream->device->native, block->pieces, &device_pack));
    block->pack_shift = driver->ops->host_device_pointer ? (uintptr_t)device_pack - (uintptr_t)block->pieces : 0;
    for (size_t i = first; i < end; i++)
        LEATI_TRY(add_range(many, block, &run, &many->pairs.list[i]));
    return end_run(many, block, &run);
}

/* ---- the host's part ---- */

/* Returns how many parts were copied before the first that could not be read or written. */
static size_t copy_parts(const void *list, size_t first, size_t count, uintptr_t *fault)
{
    const struct part *parts = list;
    size_t i;

    for (i = first; i < first + count; i++)
        if (leati_staging_copy_guarded(parts[i].dst, parts[i].src, parts[i].bytes, LEATI_STORES_CACHED, fault) !=
            parts[i].bytes)
            break;
    return i - first;
}

static void describe_fault(uint32_t number, uintptr_t fault, char *text, size_t bytes)
{
    snprintf(
        text, bytes,
        "pair %u: the pageable memory at %p could not be reached (unmapped, protected, or its file shrank); keep "
        "it until the stream has got past the copies",
        number, (void *)fault);
}

static void fail_order(struct leati_order *order, uint32_t number, uintptr_t fault)
{
    char sentence[256];

    describe_fault(number, fault, sentence, sizeof sentence);
    leati_order_failed(order, LEAT_ERROR_POINTER, sentence);
}

static void copy_piece(struct copier *copier, const struct piece *piece)
{
    uintptr_t fault;

    if (leati_staging_copy_guarded((void *)piece->dst, (const void *)piece->src, piece->bytes, LEATI_STORES_CACHED,
                                   &fault) != piece->bytes)
        fail_order(copier->order, piece->number, fault);
}

/* The host function. What it copies stays until the stream has got past it. */
static void run_parts(void *argument)
{
    const struct host_parts *parts = argument;
    struct leati_order *order = parts->order;
    uintptr_t fault = 0;
    size_t copied = copy_parts(parts->list, 0, parts->count, &fault);

    if (copied < parts->count)
        fail_order(order, parts->list[copied].number, fault);
    leati_order_let_go(order);
}

static leat_status launch_parts(struct many *many, struct host_parts *parts)
{
    struct leati_driver *driver = many->stream->device->driver;
    leat_status status;

    leati_order_hold(many->stream->order);
    parts->order = many->stream->order;
    status = driver->ops->launch_host(driver, many->stream->native, run_parts, parts);
    if (status != LEAT_OK)
        leati_order_let_go(many->stream->order);
    return status;
}

/* ---- giving it to the stream ---- */

static leat_status launch_pieces(struct many *many, struct block *block)
{
    bool cpu = many->stream->device->is_cpu;
    uint64_t pieces = (uintptr_t)block->pieces + block->pack_shift, count = block->piece_count;
    size_t blocks = cpu ? (count + 3) / 4 : (count + BLOCK_PIECES - 1) / BLOCK_PIECES;
    size_t most = cpu ? CPU_BLOCKS_MOST : BLOCKS_MOST;
    struct copier *copier = many->pairs.direct ? &block->copier : NULL;
    void *args[] = {&pieces, &count, &copier};

    return leat_launch(many->stream, many->kernel, leat_dim((uint32_t)(blocks < most ? blocks : most), 1, 1),
                       leat_dim(cpu ? 1 : BLOCK_THREADS, 1, 1), 0, args, 3);
}

static leat_status issue(struct many *many, struct block *block)
{
    struct leati_driver *driver = many->stream->device->driver;
    struct leati_order *order = many->stream->order;
    leat_status status;

    if (block->in.count && !many->pairs.early)
        LEATI_TRY(launch_parts(many, &block->in));
    for (size_t i = 0; i < block->dma_count; i++)
        LEATI_TRY(driver->ops->copy(driver, many->stream->native, block->dmas[i].dst, block->dmas[i].src,
                                    block->dmas[i].bytes));
    if (!many->pairs.direct) {
        if (block->piece_count)
            LEATI_TRY(launch_pieces(many, block));
        return block->out.count ? launch_parts(many, &block->out) : LEAT_OK;
    }
    /* The kernel reads and writes pageable memory by itself. The host function behind it has no parts: the
     * stream's order, to which a failure is told, is kept until it runs. */
    leati_order_hold(order);
    block->copier = (struct copier){.copy = copy_piece, .order = order};
    status = block->piece_count ? launch_pieces(many, block) : LEAT_OK;
    if (status == LEAT_OK)
        status = launch_parts(many, &block->out);
    leati_order_let_go(order);
    return status;
}

/* The pair whose source could not be read there. It need not be the first that is missing: a thread leaves its
 * part out when it sees that another one has failed further on. */
static uint32_t number_at(const struct host_parts *parts, uintptr_t fault)
{
    size_t i = 0;

    while (i + 1 < parts->count && fault - (uintptr_t)parts->list[i].src >= parts->list[i].bytes)
        i++;
    return parts->list[i].number;
}

/* Packs what may be read at once. NOT_READY: a source cannot be read, and drivers were not asked what it is. */
static leat_status pack_now(struct many *many, struct block *block, bool first)
{
    const struct host_parts *in = &block->in;
    struct leati_list list = {.copy = copy_parts, .list = in->list, .count = in->count};
    struct leati_stager *stager = many->pairs.stager;
    char sentence[256];
    uintptr_t fault = 0;
    size_t packed;

    if (!in->count || !many->pairs.early)
        return LEAT_OK;
    if (block->packed_bytes < TOGETHER_BYTES)
        packed = copy_parts(in->list, 0, in->count, &fault);
    else
        packed = leati_stager_copy_now(stager, &list, block->packed_bytes, TOGETHER_PART_BYTES, &fault);
    if (packed == in->count)
        return LEAT_OK;
    if (!first) { /* others are under way: told as leat's threads tell theirs */
        fail_order(many->stream->order, number_at(in, fault), fault);
        return LEAT_OK;
    }
    if (!many->pairs.asking)
        return LEATI_DECLINED;
    describe_fault(number_at(in, fault), fault, sentence, sizeof sentence);
    return leati_fail(LEAT_ERROR_POINTER, "%s", sentence);
}

static leat_status copy_single(struct many *many, const struct leati_pair *pair)
{
    struct leati_plan single;
    leat_status status =
        leati_plan_copy(many->stream, (void *)pair->dst, (const void *)pair->src, pair->bytes, false, &single);

    if (status == LEAT_OK)
        status = leati_run_copy(many->stream, &single, 0, NULL);
    return status == LEAT_OK ? status : leati_fail_in(status, "pair %u", pair->number);
}

/* The ranges from first to end - 1 that go, or do not go, together. */
static leat_status copy_singles(struct many *many, size_t first, size_t end, bool together)
{
    for (size_t i = first; i < end; i++)
        if ((many->pairs.list[i].way != WAY_SINGLE) == together)
            LEATI_TRY(copy_single(many, &many->pairs.list[i]));
    return LEAT_OK;
}

static leat_status copy_round(struct many *many, const struct block *needs, size_t first, size_t end)
{
    struct block *block = take_block(many, needs);
    leat_status status;

    if (!block)
        return copy_singles(many, first, end, true);
    status = fill_block(many, block, first, end);
    if (status == LEAT_OK)
        status = pack_now(many, block, first == 0);
    if (status != LEAT_OK) {
        /* Nobody uses it yet. */
        (void)leat_memory_free(block);
        return status;
    }
    status = issue(many, block);
    if (block->out.count || many->pairs.direct)
        leati_stream_writes_host(many->stream);
    leati_order_given(many->stream->order);
    return leati_scratch_release(many->stream, block, status);
}

/* Packed memory is counted, so that a stream that is held up does not make it endless. */
static leat_status copy_together(struct many *many, const struct leati_access *use)
{
    struct leati_driver *driver = many->stream->device->driver;
    struct leati_stager *stager = many->pairs.stager;
    size_t most = many->pairs.staged ? (size_t)stager->ring_bytes : 0, held = 0;

    for (size_t first = 0, end; first < many->pairs.count; first = end) {
        struct block needs;

        end = find_round(many, first, most, &needs);
        if (held && held + needs.packed_bytes > stager->limit_bytes) {
            LEATI_TRY(driver->ops->stream_synchronize(driver, many->stream->native));
            held = 0;
        }
        held += needs.packed_bytes;
        LEATI_TRY(copy_round(many, &needs, first, end));
        was_used(many, use, first, end);
    }
    return LEAT_OK;
}

/* NOT_READY: to be done again, with drivers asked about every address. */
static leat_status copy_many(struct many *many, leat_stream *stream, const leat_copy_pair *given, size_t count,
                             bool asking)
{
    struct leati_access use;

    LEATI_TRY(plan(many, stream, given, count, asking));
    LEATI_TRY(may_use(many, &use));
    if (many->counts[WAY_SINGLE] < many->pairs.count)
        LEATI_TRY(copy_together(many, &use));
    return many->counts[WAY_SINGLE] ? copy_singles(many, 0, many->pairs.count, false) : LEAT_OK;
}

/* ---- the public calls ---- */

static leat_status check(const char *what, leat_stream *stream, const leat_copy_pair *pairs, size_t count)
{
    LEATI_TRY(leati_check_permitted(what));
    LEATI_TRY(leati_check_stream(what, stream));
    return count ? leati_check_not_null(what, "pairs", pairs) : LEAT_OK;
}

leat_status leat_copy_many(leat_stream *stream, const leat_copy_pair *pairs, size_t count)
{
    leat_status status = LEATI_DECLINED;

    LEATI_TRY(check("leat_copy_many", stream, pairs, count));
    if (!count)
        return LEAT_OK;
    for (int asking = 0; asking < 2 && status == LEATI_DECLINED; asking++) {
        struct many many;

        status = copy_many(&many, stream, pairs, count, asking);
        leati_pairs_end(&many.pairs);
    }
    return status == LEAT_OK
               ? status
               : leati_fail_in(status, "leat_copy_many of %zu pairs on %s", count, stream->device->name);
}

/* ---- in words ---- */

static const char *plural(size_t count)
{
    return count == 1 ? "" : "s";
}

static const char *path_of(const struct many *many, enum way way)
{
    switch (way) {
    case WAY_KERNEL:
        return many->pairs.direct ? "one kernel, which reaches pageable memory as well"
                                  : "one kernel that gathers and scatters over mapped memory";
    case WAY_IN:
        return many->pairs.early
                   ? "packed into pinned memory by the caller and leat's threads, from there by DMA or by one "
                     "kernel that scatters"
                   : "packed into pinned memory by a host function of the stream, from there by DMA or by one "
                     "kernel";
    case WAY_OUT:
        return "gathered into pinned memory by DMA or by one kernel, from there by a host function of the stream";
    case WAY_HOST:
        return "by a host function of the stream";
    default:
        return "one by one, as leat_copy()";
    }
}

static const char *why_of(const struct many *many, enum way way)
{
    switch (way) {
    case WAY_KERNEL:
        return "they are many and small, and the device reaches both ends";
    case WAY_IN:
        return many->pairs.early
                   ? "the sources are pageable, and nothing before them on the stream writes host memory"
                   : "the sources are pageable, and earlier work of the stream may write them";
    case WAY_OUT:
        return "the destinations are pageable";
    case WAY_HOST:
        return "both ends are in host memory";
    default:
        break;
    }
    if (many->why_single[0])
        return many->why_single;
    return many->pairs.pageable && !many->pairs.staged && !many->pairs.direct
               ? "they are large, another device's, or pageable where nothing can be staged"
               : "they are large, or another device's";
}

static const char *bound_of(enum way way)
{
    switch (way) {
    case WAY_KERNEL:
        return "the link between host and device, or the memory of the device where both ends are there";
    case WAY_IN:
        return "the host's memory, or one thread that copies where earlier work may write the sources";
    case WAY_OUT:
    case WAY_HOST:
        return "one thread that copies";
    default:
        return "the time that one copy takes; leat_copy_explain() has more";
    }
}

static leat_status explain(struct many *many, leat_stream *stream, const leat_copy_pair *given, size_t count,
                           struct leati_text *text)
{
    const struct leati_pairs *pairs = &many->pairs;

    LEATI_TRY(plan(many, stream, given, count, true));
    leati_text_add(text, "%zu pair%s, %zu bytes, merged into %zu range%s\n", pairs->given_count,
                   plural(pairs->given_count), pairs->bytes, pairs->count, plural(pairs->count));
    for (enum way way = 0; way < WAYS; way++)
        if (many->counts[way])
            leati_text_add(text, "%zu range%s, %zu bytes\n  path   %s\n  why    %s\n  bound  %s\n",
                           many->counts[way], plural(many->counts[way]), many->bytes[way], path_of(many, way),
                           why_of(many, way), bound_of(way));
    return LEAT_OK;
}

leat_status leat_copy_many_explain(leat_stream *stream, const leat_copy_pair *pairs, size_t count, char *text,
                                   size_t text_bytes)
{
    struct leati_text out = {.at = text, .left = text_bytes};
    struct many many;
    leat_status status;

    LEATI_TRY(check("leat_copy_many_explain", stream, pairs, count));
    LEATI_TRY(leati_check_not_null("leat_copy_many_explain", "text", text));
    if (!text_bytes)
        return leati_fail(LEAT_ERROR_INVALID, "leat_copy_many_explain: text_bytes is 0; a thousand are enough");
    text[0] = '\0';
    if (!count) {
        leati_text_add(&out, "no pairs: nothing to do\n");
        return LEAT_OK;
    }
    status = explain(&many, stream, pairs, count, &out);
    leati_pairs_end(&many.pairs);
    return status == LEAT_OK
               ? status
               : leati_fail_in(status, "leat_copy_many_explain of %zu pairs on %s", count, stream->device->name);
}
