/* plan.c - makes layout plans, keeps them in a table, and describes them as text (plan.h). */
#include "layout/plan.h"

#include "base/error.h"
#include "base/lock.h"
#include "base/options.h"
#include "base/strbuf.h"
#include "layout/sectors.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

/* ---- the class of a copy ---- */

/*
 * A run of at least this size is long. GPUs access memory in sectors of 32 bytes, and DRAM in pairs of sectors.
 * Processors access memory in lines of 64 bytes. Long runs use most of what is accessed, so they can be copied one
 * by one in any order. Shorter runs should be copied together with their neighbours on both sides, as ND tiles do.
 */
#define LONG_RUN_BYTES 64

/*
 * A dense dimension of at least this size is long enough for square tiles, whose sides are 64 bytes on processors
 * and 128 bytes on GPUs. With a shorter dimension a part of each tile would be empty.
 */
#define LONG_SIDE_BYTES 64

static uint64_t bytes_of(const struct leati_canonical *canonical, unsigned dim)
{
    return canonical->size[dim] * canonical->unit_bytes;
}

/* Dimension 1 follows dimension 0 on the destination. Returns true if another dimension follows it on the source,
 * because it has a smaller stride there than dimension 1. */
static bool src_has_another_order(const struct leati_canonical *canonical)
{
    int64_t next = llabs((long long)canonical->src_stride[1]);

    for (unsigned i = 2; i < canonical->dims; i++)
        if (canonical->src_stride[i] && llabs((long long)canonical->src_stride[i]) < next)
            return true;
    return false;
}

static leat_layout_class classify_run(const struct leati_canonical *canonical)
{
    if (canonical->dims == 1)
        return LEAT_LAYOUT_CLASS_COPY;
    if (bytes_of(canonical, 0) >= LONG_RUN_BYTES)
        return LEAT_LAYOUT_CLASS_ROWS;
    if (!canonical->src_stride[1])
        return LEAT_LAYOUT_CLASS_FILL;
    return src_has_another_order(canonical) ? LEAT_LAYOUT_CLASS_ND_TILE : LEAT_LAYOUT_CLASS_ROWS;
}

leat_layout_class leati_layout_classify(const struct leati_canonical *canonical)
{
    int64_t unit = (int64_t)canonical->unit_bytes, src_unit = leati_src_unit_bytes(canonical);
    int dense_src;

    if (canonical->empty)
        return LEAT_LAYOUT_CLASS_NOTHING;
    if (canonical->index_dim >= 0)
        return LEAT_LAYOUT_CLASS_GATHER;
    if (canonical->dims == 0)
        return LEAT_LAYOUT_CLASS_COPY;
    if (canonical->dst_stride[0] != unit)
        return LEAT_LAYOUT_CLASS_ELEMENTS;
    if (canonical->src_stride[0] == src_unit)
        return classify_run(canonical);
    if (canonical->src_stride[0] == 0)
        return LEAT_LAYOUT_CLASS_FILL;
    dense_src = leati_canonical_dense_src(canonical);
    if (dense_src < 0)
        return LEAT_LAYOUT_CLASS_ELEMENTS;
    return bytes_of(canonical, 0) >= LONG_SIDE_BYTES && bytes_of(canonical, (unsigned)dense_src) >= LONG_SIDE_BYTES
               ? LEAT_LAYOUT_CLASS_TRANSPOSE
               : LEAT_LAYOUT_CLASS_ND_TILE;
}

/* ---- the table ---- */

/* The table has room for 2048 plans of some kilobytes each. */
#define SETS 512u
#define WAYS 4u

/* A set of the table, which is organized as a set-associative cache. The clock algorithm replaces plans. */
struct set {
    struct leati_layout_plan *_Atomic ways[WAYS];
    _Atomic bool used[WAYS]; /* the plan was used since the clock hand passed it; only a hint, so relaxed */
    unsigned turn;           /* position of the clock hand; guarded by table_lock */
};

static struct set table[SETS];

/* A thread holds this lock while it writes ways of the table. The lock also guards the free list of plans. */
static struct leati_lock table_lock = LEATI_LOCK_INITIALIZER;
static struct leati_layout_plan *waiting LEATI_GUARDED_BY(table_lock);

static uint64_t mix(uint64_t hash, uint64_t value)
{
    __uint128_t product = (__uint128_t)(hash ^ value) * 0x9e3779b97f4a7c15u;

    return (uint64_t)product ^ (uint64_t)(product >> 64);
}

/* Returns the known alignment of the first unit, at most LEATI_CANONICAL_MAX_UNIT_BYTES. */
static uint32_t align_of_start(size_t align, int64_t start)
{
    uint64_t bits = LEATI_CANONICAL_MAX_UNIT_BYTES | align | (uint64_t)start;

    return (uint32_t)(bits & (0 - bits));
}

/* Copies the strides to the key, flipped as in the canonical layout, and computes *start. The sums may overflow,
 * but only for layouts of which no plan can be made. */
static void turn_round(const leat_layout *dst, const leat_layout *src, struct leati_layout_key *key,
                       struct leati_layout_start *start)
{
    uint64_t to = (uint64_t)dst->offset_bytes, from = (uint64_t)src->offset_bytes;

    for (uint32_t i = 0; i < key->dims; i++) {
        uint64_t dst_stride = (uint64_t)dst->stride_bytes[i], src_stride = (uint64_t)src->stride_bytes[i];

        if (leati_canonical_turns(dst, src, i)) {
            to += dst_stride * ((uint64_t)dst->size[i] - 1);
            from += src_stride * ((uint64_t)dst->size[i] - 1);
            dst_stride = 0 - dst_stride;
            src_stride = 0 - src_stride;
        }
        key->dst_stride[i] = (int64_t)dst_stride;
        key->src_stride[i] = (int64_t)src_stride;
    }
    *start = (struct leati_layout_start){(int64_t)to, (int64_t)from};
}

static uint64_t mix_convert(uint64_t hash, const struct leati_layout_key *key)
{
    const struct leati_convert *convert = &key->convert;

    hash = mix(hash, (uint64_t)convert->dst_bytes << 32 | convert->src_bytes);
    hash = mix(hash, (uint64_t)convert->dst_number << 32 | convert->src_number);
    hash = mix(hash, (uint64_t)convert->flags << 32 | key->channels_turned);
    return mix(hash, (uint64_t)convert->channels << 32 | convert->channel_dim);
}

/* Makes the key of a plan. The layouts must have passed leati_layout_check() and leati_canonical_check_same(). */
static void make_key(const leat_layout *dst, size_t dst_align, const leat_layout *src, size_t src_align,
                     const struct leati_convert *convert, uint32_t copies, struct leati_layout_key *key,
                     struct leati_layout_start *start)
{
    const leat_layout *with_list = dst->index ? dst : src->index ? src : NULL;
    uint64_t hash = 1;

    leati_assert(dst->dims == src->dims && (convert->src_bytes || dst->element_bytes == src->element_bytes));
    key->convert = *convert;
    key->other_copies = copies - 1;
    key->channels_turned = convert->channels && leati_canonical_turns(dst, src, convert->channel_dim);
    key->dims = dst->dims;
    key->element_bytes = dst->element_bytes;
    turn_round(dst, src, key, start);
    key->dst_align = align_of_start(dst_align, start->dst);
    key->src_align = align_of_start(src_align, start->src);
    key->index_on = dst->index ? 1 : src->index ? 2 : 0;
    key->index_dim = with_list ? with_list->index_dim : 0;
    key->index_bytes = with_list ? with_list->index_bytes : 0;
    key->index_bound = with_list ? with_list->index_bound : 0;
    leati_assert(LEATI_IS_POWER_OF_TWO(key->dst_align) && LEATI_IS_POWER_OF_TWO(key->src_align));
    memcpy(key->size, dst->size, key->dims * sizeof key->size[0]);
    hash = mix(hash, (uint64_t)key->dims << 32 | key->element_bytes);
    hash = mix(hash, (uint64_t)key->dst_align << 32 | key->src_align);
    hash = mix(hash, (uint64_t)key->index_dim << 32 | key->index_bytes << 2 | key->index_on);
    hash = mix(hash, (uint64_t)key->index_bound);
    if (convert->src_bytes)
        hash = mix_convert(hash, key);
    if (key->other_copies)
        hash = mix(hash, key->other_copies);
    for (uint32_t i = 0; i < key->dims; i++)
        hash = mix(mix(mix(hash, (uint64_t)key->size[i]), (uint64_t)key->dst_stride[i]),
                   (uint64_t)key->src_stride[i]);
    key->hash = hash;
}

static bool same_key(const struct leati_layout_key *a, const struct leati_layout_key *b)
{
    size_t bytes = a->dims * sizeof a->size[0];

    return a->hash == b->hash && a->dims == b->dims && a->element_bytes == b->element_bytes &&
           a->dst_align == b->dst_align && a->src_align == b->src_align && a->index_on == b->index_on &&
           a->index_dim == b->index_dim && a->index_bytes == b->index_bytes && a->index_bound == b->index_bound &&
           a->channels_turned == b->channels_turned && a->other_copies == b->other_copies &&
           !memcmp(&a->convert, &b->convert, sizeof a->convert) && !memcmp(a->size, b->size, bytes) &&
           !memcmp(a->dst_stride, b->dst_stride, bytes) && !memcmp(a->src_stride, b->src_stride, bytes);
}

void leati_layout_plan_hold(struct leati_layout_plan *plan)
{
    leati_assert(atomic_load_explicit(&plan->holders, memory_order_relaxed));
    atomic_fetch_add_explicit(&plan->holders, 1, memory_order_relaxed);
}

/* Takes a reference to a plan. Returns false if the plan has no reference any more. Acquire: the contents of the
 * plan are visible afterwards. */
static bool try_hold(struct leati_layout_plan *plan)
{
    uint32_t holders = atomic_load_explicit(&plan->holders, memory_order_relaxed);

    while (holders)
        if (atomic_compare_exchange_weak_explicit(&plan->holders, &holders, holders + 1, memory_order_acquire,
                                                  memory_order_relaxed))
            return true;
    return false;
}

/* Drops a reference. If it was the last one, puts the plan into the free list. Call with table_lock held. */
static void drop_locked(struct leati_layout_plan *plan) LEATI_REQUIRES(table_lock)
{
    leati_assert_locked(&table_lock);
    leati_assert(atomic_load_explicit(&plan->holders, memory_order_relaxed) && !plan->next);
    /* Release and acquire: all reads of the plan happen before the plan is reused. */
    if (atomic_fetch_sub_explicit(&plan->holders, 1, memory_order_acq_rel) > 1)
        return;
    plan->next = waiting;
    waiting = plan;
}

void leati_layout_plan_drop(struct leati_layout_plan *plan)
{
    uint32_t holders = atomic_load_explicit(&plan->holders, memory_order_relaxed);

    leati_assert(holders);
    /* Nearly always the table has a reference too, so this reference is not the last and no lock is needed. */
    while (holders > 1)
        if (atomic_compare_exchange_weak_explicit(&plan->holders, &holders, holders - 1, memory_order_release,
                                                  memory_order_relaxed))
            return;
    leati_lock(&table_lock);
    drop_locked(plan);
    leati_unlock(&table_lock);
}

/* Returns the plan for this key, with a reference for the caller. Returns NULL if the table has no such plan. */
static struct leati_layout_plan *find(const struct leati_layout_key *key)
{
    struct set *set = &table[key->hash % SETS];

    for (unsigned i = 0; i < WAYS; i++) {
        struct leati_layout_plan *plan = atomic_load_explicit(&set->ways[i], memory_order_acquire);

        if (!plan || !try_hold(plan))
            continue;
        /* Compare the keys only with a reference, because without one the plan may be reused for another key. */
        if (same_key(&plan->key, key)) {
            if (!atomic_load_explicit(&set->used[i], memory_order_relaxed))
                atomic_store_explicit(&set->used[i], true, memory_order_relaxed);
            return plan;
        }
        leati_layout_plan_drop(plan);
    }
    return NULL;
}

/* Chooses a way for a new plan: a free way, or one whose plan was not used recently. */
static unsigned choose_way(struct set *set)
{
    for (unsigned i = 0; i < WAYS; i++)
        if (!atomic_load_explicit(&set->ways[i], memory_order_relaxed))
            return i;
    /* The clock algorithm: the hand goes round at most twice, and skips each way with a used plan once. */
    for (unsigned i = 0; i < 2 * WAYS; i++)
        if (!atomic_exchange_explicit(&set->used[++set->turn % WAYS], false, memory_order_relaxed))
            break;
    leati_assert_locked(&table_lock);
    return set->turn % WAYS;
}

/* Puts the caller's plan into the table, and returns it. If another thread has put a plan for the same key there
 * first, drops the caller's plan, and returns the other plan. */
static struct leati_layout_plan *keep(struct leati_layout_plan *plan)
{
    struct set *set = &table[plan->key.hash % SETS];
    struct leati_layout_plan *there;
    unsigned way;

    leati_assert(atomic_load_explicit(&plan->holders, memory_order_relaxed) == 1);
    leati_lock(&table_lock);
    for (unsigned i = 0; i < WAYS; i++) {
        there = atomic_load_explicit(&set->ways[i], memory_order_relaxed);
        if (there && same_key(&there->key, &plan->key)) {
            leati_layout_plan_hold(there);
            drop_locked(plan);
            leati_unlock(&table_lock);
            return there;
        }
    }
    way = choose_way(set);
    there = atomic_load_explicit(&set->ways[way], memory_order_relaxed);
    leati_layout_plan_hold(plan);
    atomic_store_explicit(&set->ways[way], plan, memory_order_release);
    atomic_store_explicit(&set->used[way], true, memory_order_relaxed);
    if (there)
        drop_locked(there);
    leati_unlock(&table_lock);
    return plan;
}

/* ---- making plans ---- */

static struct leati_layout_plan *take_memory(void)
{
    struct leati_layout_plan *plan;

    leati_lock(&table_lock);
    plan = waiting;
    if (plan)
        waiting = plan->next;
    leati_unlock(&table_lock);
    if (!plan)
        plan = malloc(sizeof *plan);
    if (plan)
        plan->next = NULL;
    return plan;
}

/* Returns the same layout, but with its offset relative to the first unit. */
static leat_layout move_to_start(const leat_layout *layout, int64_t start)
{
    leat_layout moved = *layout;

    moved.offset_bytes = (int64_t)((uint64_t)moved.offset_bytes - (uint64_t)start);
    return moved;
}

/* Checks LEAT_LAYOUT_KERNEL. Some of its words are for the kernels of processors, the others for the kernels of
 * GPUs. A device for which the word is not meant behaves as with "auto". */
static leat_status check_chosen_kernel(void)
{
    static const char *const words[] = {"auto",           "naive",         "blocked",           "vectors",
                                        "elements",       "rows",          "strided",           "pixels",
                                        "triples",        "nd-tile",       "transpose",         "transpose-small",
                                        "transpose-wide", "transpose-odd", "transpose-wide-odd"};
    const char *chosen = leati_option(LEATI_OPTION_LAYOUT_KERNEL);

    if (!chosen)
        return LEAT_OK;
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
        if (!strcmp(chosen, words[i]))
            return LEAT_OK;
    return leati_fail(
        LEAT_ERROR_INVALID,
        "LEAT_LAYOUT_KERNEL is set to '%s'; it may be auto, naive, blocked, vectors, elements, rows, strided, pixels, triples, nd-tile, or transpose with nothing, -small, -wide, -odd or -wide-odd behind it",
        chosen);
}

static leat_status make(const leat_layout *dst, const leat_layout *src, const struct leati_layout_start *start,
                        const struct leati_layout_key *key, struct leati_layout_plan **made)
{
    leat_layout moved_dst = move_to_start(dst, start->dst), moved_src = move_to_start(src, start->src);
    struct leati_layout_plan *plan;
    struct leati_canonical canonical;

    LEATI_TRY(check_chosen_kernel());
    if (key->convert.src_bytes)
        LEATI_TRY(leati_canonical_make_convert(&moved_dst, key->dst_align, &moved_src, key->src_align,
                                               &key->convert, &canonical));
    else
        LEATI_TRY(leati_canonical_make(&moved_dst, key->dst_align, &moved_src, key->src_align, &canonical));
    canonical.other_copies = key->other_copies;
    plan = take_memory();
    if (!plan)
        return leati_fail(LEAT_ERROR_HOST_MEMORY, "no memory for a plan of %zu bytes", sizeof *plan);
    leati_assert(canonical.dst_offset == 0 && canonical.src_offset == 0);
    plan->key = *key;
    plan->canonical = canonical;
    plan->class_of_plan = leati_layout_classify(&canonical);
    leati_host_layout_make(&canonical, plan->class_of_plan, &plan->host);
    leati_gpu_layout_make(&canonical, plan->class_of_plan, &plan->gpu);
    leati_assert(canonical.empty == (plan->class_of_plan == LEAT_LAYOUT_CLASS_NOTHING));
    leati_assert(canonical.empty || (plan->host.parts && (plan->gpu.kernel || canonical.src_unit_bytes)));
    /* Release: from here on a thread that found an earlier plan at this address may take a reference, and then
     * sees the new plan. */
    atomic_store_explicit(&plan->holders, 1, memory_order_release);
    *made = plan;
    return LEAT_OK;
}

static leat_status check_start(const struct leati_canonical *canonical, const struct leati_layout_start *start)
{
    if (canonical->empty)
        return LEAT_OK;
    LEATI_TRY(leati_canonical_check_start("dst", start->dst, canonical->dst_low, canonical->dst_high));
    return leati_canonical_check_start("src", start->src, canonical->src_low, canonical->src_high);
}

leat_status leati_layout_plan_get_copies(const leat_layout *dst, size_t dst_align, const leat_layout *src,
                                         size_t src_align, const struct leati_convert *convert, uint32_t copies,
                                         struct leati_layout_plan **plan, struct leati_layout_start *start)
{
    struct leati_layout_start at;
    struct leati_layout_plan *found;
    struct leati_layout_key key;
    leat_status status;

    leati_assert(copies);
    /* Check here what the look-up by the key cannot check: whether the layouts are valid, and the fields of the
     * layouts that are not in the key. */
    LEATI_TRY(leati_layout_check("dst_layout", dst));
    LEATI_TRY(leati_layout_check("src_layout", src));
    LEATI_TRY(leati_canonical_check_same(dst, src, convert->src_bytes));
    LEATI_TRY(leati_canonical_check_align("dst", dst_align));
    LEATI_TRY(leati_canonical_check_align("src", src_align));
    make_key(dst, dst_align, src, src_align, convert, copies, &key, &at);
    found = find(&key);
    if (!found) {
        LEATI_TRY(make(dst, src, &at, &key, &found));
        found = keep(found);
    }
    status = check_start(&found->canonical, &at);
    if (status != LEAT_OK) {
        leati_layout_plan_drop(found);
        return status;
    }
    *plan = found;
    *start = at;
    return LEAT_OK;
}

leat_status leati_layout_plan_get_convert(const leat_layout *dst, size_t dst_align, const leat_layout *src,
                                          size_t src_align, const struct leati_convert *convert,
                                          struct leati_layout_plan **plan, struct leati_layout_start *start)
{
    return leati_layout_plan_get_copies(dst, dst_align, src, src_align, convert, 1, plan, start);
}

leat_status leati_layout_plan_get(const leat_layout *dst, size_t dst_align, const leat_layout *src,
                                  size_t src_align, struct leati_layout_plan **plan,
                                  struct leati_layout_start *start)
{
    static const struct leati_convert nothing;

    return leati_layout_plan_get_convert(dst, dst_align, src, src_align, &nothing, plan, start);
}

/* ---- the bound ---- */

uint64_t leati_layout_plan_reads(const struct leati_layout_plan *plan, const struct leati_layout_start *start)
{
    return leati_sectors(&plan->canonical, false, start->src);
}

uint64_t leati_layout_plan_writes(const struct leati_layout_plan *plan, const struct leati_layout_start *start)
{
    return leati_sectors(&plan->canonical, true, start->dst);
}

/* ---- the text of plans ---- */

static void add_dims(struct leati_strbuf *text, const struct leati_canonical *canonical)
{
    if (canonical->src_unit_bytes)
        leati_strbuf_add(text, "canonical layout: elements of %u bytes on dst, %u on src", canonical->unit_bytes,
                         canonical->src_unit_bytes);
    else
        leati_strbuf_add(text, "canonical layout: units of %u byte%s", canonical->unit_bytes,
                         canonical->unit_bytes == 1 ? "" : "s");
    for (unsigned i = 0; i < canonical->dims; i++) {
        bool listed = (int)i == canonical->index_dim;
        bool counts = canonical->channels && i == canonical->channel_dim;

        leati_strbuf_add(text, "%s%llu%s (dst %+lld, src %+lld)",
                         i ? ", " : "; from the fastest on dst: ", (unsigned long long)canonical->size[i],
                         counts                    ? " channels"
                         : !listed                 ? ""
                         : canonical->index_on_dst ? " by a list on dst"
                                                   : " by a list on src",
                         (long long)canonical->dst_stride[i], (long long)canonical->src_stride[i]);
    }
    leati_strbuf_add(text, "\n");
}

static void add_conversion(struct leati_strbuf *text, const struct leati_convert *convert)
{
    static const char *const swaps[] = {"", ", bytes of src reversed", ", bytes of dst reversed",
                                        ", bytes of both reversed"};

    if (!convert->src_bytes)
        return;
    leati_strbuf_add(text, "conversion: %s to %s%s", leat_number_name(convert->src_number),
                     leat_number_name(convert->dst_number),
                     swaps[convert->flags & (LEAT_CONVERT_SWAP_SRC | LEAT_CONVERT_SWAP_DST)]);
    if (convert->channels)
        leati_strbuf_add(text, ", a scale and a bias for each of %u channels", convert->channels);
    leati_strbuf_add(text, "\n");
}

static void add_bound(struct leati_strbuf *text, const struct leati_layout_plan *plan,
                      const struct leati_layout_start *start)
{
    uint64_t read = leati_layout_plan_reads(plan, start), written = leati_layout_plan_writes(plan, start);
    uint64_t sectors = read + written;

    leati_strbuf_add(text, "bound: %llu sectors of %d bytes read, %llu written: ", (unsigned long long)read,
                     LEATI_SECTOR_BYTES, (unsigned long long)written);
    leati_strbuf_add_bytes(text, sectors * LEATI_SECTOR_BYTES);
    if (sectors)
        leati_strbuf_add(text, " of traffic, %.1f %% of it payload",
                         100.0 *
                             (double)(plan->canonical.payload_bytes + leati_src_payload_bytes(&plan->canonical)) /
                             ((double)sectors * LEATI_SECTOR_BYTES));
    leati_strbuf_add(text, "\n");
}

void leati_layout_plan_text(const struct leati_layout_plan *plan, const struct leati_layout_start *start,
                            bool on_gpu, char *text, size_t text_bytes)
{
    struct leati_strbuf all = {text, text_bytes};
    char way[256];

    if (!text_bytes)
        return;
    text[0] = '\0';
    leati_strbuf_add(&all, "class: %s, ", leat_layout_class_name(plan->class_of_plan));
    leati_strbuf_add_bytes(&all, plan->canonical.payload_bytes);
    leati_strbuf_add(&all, "\n");
    if (plan->canonical.empty)
        return;
    add_dims(&all, &plan->canonical);
    add_conversion(&all, &plan->key.convert);
    if (on_gpu)
        leati_gpu_layout_text(&plan->gpu, way, sizeof way);
    else
        leati_host_layout_text(&plan->host, way, sizeof way);
    leati_strbuf_add(&all, "kernel: %s\n", way);
    add_bound(&all, plan, start);
}
