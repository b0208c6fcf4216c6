/* blocks.c - see blocks.h. */
#include "core/blocks.h"

#include "base/addresses.h"
#include "base/lock.h"
#include "base/quick.h"

#include <string.h>
#include <sys/mman.h>

#define LEAF_PAGES 8192u /* pages in a leaf, together 16 GiB */
#define ROOT_SHIFT 34
#define ROOTS 8192u /* 128 TiB: the user address space with 4-level page tables */
#define PAGE_GRANULES (LEATI_PAGE_BYTES / LEATI_GRANULE_BYTES)
#define RECORDS_MAX ((size_t)1 << 27)
#define RECORDS_STEP ((size_t)1 << 12)

/* The record number for each granule of a page; 0: none. */
struct granules {
    _Atomic uint32_t record[PAGE_GRANULES];
};

/* The entry of one page of 2 MiB. It has 32 bytes, so that a lookup touches a single cache line. */
struct table_page {
    _Atomic(struct leat_pool *) pool;
    _Atomic(struct granules *) granules;
    _Atomic uint32_t start[2]; /* for each of the two windows: the record of the block that starts in it */
    _Atomic uint64_t
        cover; /* for each window 32 bits: the record of the block that continues into it from below */
};

struct leaf {
    struct table_page page[LEAF_PAGES];
};

static _Atomic(struct leaf *) roots[ROOTS];

_Atomic(const struct leati_guard_hooks *) leati_guard_hooks;

/* Guards the variables below and the creation of leaves. */
static struct leati_lock lock = LEATI_LOCK_INITIALIZER;
static uint16_t covered_pages[ROOTS]; /* for each root entry, how many of the leaf's pages belong to pools */
static _Atomic(struct leati_block *) records;
static size_t records_most LEATI_GUARDED_BY(lock), records_accessible LEATI_GUARDED_BY(lock);
static size_t records_used LEATI_GUARDED_BY(lock) = 1;
static struct leati_block *free_records LEATI_GUARDED_BY(lock);
static struct granules *free_granules LEATI_GUARDED_BY(lock);

/* The first bytes of a free struct granules hold this link. */
struct free_granules {
    struct granules *next;
};

_Static_assert(offsetof(struct leati_block, pool) == 64, "what the fast path writes is one line of the cache");

static void *map(size_t bytes, int protection)
{
    void *memory = mmap(NULL, bytes, protection, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

    return memory == MAP_FAILED ? NULL : memory;
}

/* Makes more records accessible. Reserves the array on first use. Call under lock. */
static bool more_records(void) LEATI_REQUIRES(lock)
{
    struct leati_block *base = atomic_load_explicit(&records, memory_order_relaxed);

    leati_assert_locked(&lock);
    if (!base) {
        records_most =
            leati_addresses_share(RECORDS_MAX * sizeof *base, 32, RECORDS_STEP * sizeof *base) / sizeof *base;
        base = map(records_most * sizeof *base, PROT_NONE);
        if (!base)
            return false;
        /* Release: pairs with the acquire in record(). */
        atomic_store_explicit(&records, base, memory_order_release);
    }
    leati_assert(records_accessible <= records_most && records_used >= 1);
    if (records_accessible + RECORDS_STEP > records_most ||
        mprotect(base + records_accessible, RECORDS_STEP * sizeof *base, PROT_READ | PROT_WRITE))
        return false;
    records_accessible += RECORDS_STEP;
    return true;
}

struct leati_block *leati_block_new(void)
{
    struct leati_block *block = NULL;

    leati_lock(&lock);
    if (free_records) {
        block = free_records;
        free_records = block->link;
    } else if (records_used < records_accessible || more_records()) {
        block = atomic_load_explicit(&records, memory_order_relaxed) + records_used++;
    }
    leati_unlock(&lock);
    if (!block)
        return NULL;
    leati_assert(atomic_load_explicit(&block->state, memory_order_relaxed) == LEATI_BLOCK_UNUSED);
    /* Clear the fields one by one, because stale readers may still read the atomic fields. */
    block->tag = 0;
    block->link = block->back = block->before = block->after = NULL;
    block->cache = NULL;
    atomic_store_explicit(&block->magazine, NULL, memory_order_relaxed);
    block->uses = NULL;
    block->note = NULL;
    block->stitch = NULL;
    block->planned = NULL;
    block->seq = block->idle_since_ns = block->serial = 0;
    atomic_store_explicit(&block->front_bytes, 0, memory_order_relaxed);
    block->heap = block->whole = 0;
    atomic_store_explicit(&block->requested_bytes, 0, memory_order_relaxed);
    return block;
}

void leati_block_give_back(struct leati_block *block)
{
    leati_assert(atomic_load_explicit(&block->state, memory_order_relaxed) != LEATI_BLOCK_UNUSED);
    leati_assert(!block->cache || !block->uses);
    /* Release: a stale reader that sees a later change of the record also sees that the block is not LIVE. */
    atomic_store_explicit(&block->state, LEATI_BLOCK_UNUSED, memory_order_release);
    leati_lock(&lock);
    block->link = free_records;
    free_records = block;
    leati_unlock(&lock);
}

static uint32_t number_of(const struct leati_block *block)
{
    leati_assert(block > atomic_load_explicit(&records, memory_order_relaxed));
    return (uint32_t)(block - atomic_load_explicit(&records, memory_order_relaxed));
}

static struct leati_block *record(uint32_t number)
{
    /* Acquire: pairs with the release in more_records(). */
    return number ? atomic_load_explicit(&records, memory_order_acquire) + number : NULL;
}

/* ---- the table ---- */

static struct leaf *leaf_of(uintptr_t address)
{
    size_t root = address >> ROOT_SHIFT;

    /* Acquire: pairs with the release in make_leaf(). */
    return root < ROOTS ? atomic_load_explicit(&roots[root], memory_order_acquire) : NULL;
}

static struct table_page *page_of(struct leaf *leaf, uintptr_t address)
{
    return &leaf->page[address / LEATI_PAGE_BYTES % LEAF_PAGES];
}

/* Returns the leaf for address, and creates it if there is none. Call under lock. */
static struct leaf *make_leaf(uintptr_t address)
{
    struct leaf *leaf = leaf_of(address);

    leati_assert_locked(&lock);
    if (leaf || address >> ROOT_SHIFT >= ROOTS)
        return leaf;
    leaf = map(sizeof *leaf, PROT_READ | PROT_WRITE);
    if (leaf)
        atomic_store_explicit(&roots[address >> ROOT_SHIFT], leaf, memory_order_release);
    return leaf;
}

/* Returns cleared granules, from the free list or newly mapped. Call under lock. */
static struct granules *make_granules(void) LEATI_REQUIRES(lock)
{
    struct granules *made = free_granules;
    struct free_granules link;

    leati_assert_locked(&lock);
    if (!made)
        return map(sizeof *made, PROT_READ | PROT_WRITE);
    memcpy(&link, made, sizeof link);
    free_granules = link.next;
    for (size_t i = 0; i < sizeof link / sizeof made->record[0]; i++)
        atomic_store_explicit(&made->record[i], 0, memory_order_relaxed);
    return made;
}

/* Creates the leaf and, for small blocks, the granules of one page. Call under lock. */
static bool prepare_page(uintptr_t at, bool small) LEATI_REQUIRES(lock)
{
    struct leaf *leaf = make_leaf(at);
    struct table_page *page = leaf ? page_of(leaf, at) : NULL;
    struct granules *made;

    leati_assert_locked(&lock);
    if (!leaf)
        return false;
    if (!small || atomic_load_explicit(&page->granules, memory_order_relaxed))
        return true;
    made = make_granules();
    /* Release: a reader that sees the pointer sees the granules cleared. */
    atomic_store_explicit(&page->granules, made, memory_order_release);
    return made != NULL;
}

/* Detaches a page's granules, if it has any, clears them and puts them into the free list. Call under lock. */
static void recycle(struct table_page *page) LEATI_REQUIRES(lock)
{
    struct granules *old = atomic_exchange_explicit(&page->granules, NULL, memory_order_relaxed);
    struct free_granules link = {.next = free_granules};

    leati_assert_locked(&lock);
    if (!old)
        return;
    for (size_t i = 0; i < PAGE_GRANULES; i++)
        atomic_store_explicit(&old->record[i], 0, memory_order_relaxed);
    memcpy(old, &link, sizeof link);
    free_granules = old;
}

/* Prepares all pages of [base, end). If that fails for one page, undoes the others. Call under lock. */
static bool prepare(uintptr_t base, uintptr_t end, bool small) LEATI_REQUIRES(lock)
{
    uintptr_t at = base;

    leati_assert(base % LEATI_PAGE_BYTES == 0 && base < end);
    leati_assert_locked(&lock);
    while (at < end && prepare_page(at, small))
        at += LEATI_PAGE_BYTES;
    if (at >= end)
        return true;
    /* Undo the preparation, because granules left behind would misdirect lookups when a later pool has large
     * blocks here. */
    for (; at > base; at -= LEATI_PAGE_BYTES) {
        struct table_page *page = page_of(leaf_of(at - LEATI_PAGE_BYTES), at - LEATI_PAGE_BYTES);

        if (!atomic_load_explicit(&page->pool, memory_order_relaxed))
            recycle(page);
    }
    return false;
}

bool leati_blocks_cover(struct leat_pool *pool, uintptr_t base, size_t bytes, bool small)
{
    bool ready;

    leati_assert(pool && bytes && base % LEATI_PAGE_BYTES == 0 && bytes % LEATI_PAGE_BYTES == 0);
    leati_lock(&lock);
    ready = prepare(base, base + bytes, small);
    for (uintptr_t at = base; ready && at < base + bytes; at += LEATI_PAGE_BYTES) {
        struct table_page *page = page_of(leaf_of(at), at);

        leati_assert(!atomic_load_explicit(&page->pool, memory_order_relaxed) ||
                     atomic_load_explicit(&page->pool, memory_order_relaxed) == pool);
        if (!atomic_load_explicit(&page->pool, memory_order_relaxed))
            covered_pages[at >> ROOT_SHIFT]++;
        atomic_store_explicit(&page->pool, pool, memory_order_release);
    }
    leati_unlock(&lock);
    return ready;
}

/* Subtracts one page from the leaf's count of pages. When no page is left, the leaf is all zeros, so this releases
 * its memory. Otherwise every leaf that was ever used would keep its memory, and chunks get ever new addresses.
 * Call under lock. */
static void let_go(struct leaf *leaf, uintptr_t at)
{
    leati_assert_locked(&lock);
    leati_assert(covered_pages[at >> ROOT_SHIFT]);
    if (--covered_pages[at >> ROOT_SHIFT] == 0)
        (void)madvise(leaf, sizeof *leaf, MADV_DONTNEED);
}

void leati_blocks_uncover(uintptr_t base, size_t bytes)
{
    leati_assert(base % LEATI_PAGE_BYTES == 0 && bytes % LEATI_PAGE_BYTES == 0);
    leati_lock(&lock);
    for (uintptr_t at = base; at < base + bytes;) {
        struct leaf *leaf = leaf_of(at);
        struct table_page *page;

        if (!leaf) {
            at = (at | (LEAF_PAGES * LEATI_PAGE_BYTES - 1)) + 1;
            continue;
        }
        page = page_of(leaf, at);
        if (atomic_load_explicit(&page->pool, memory_order_relaxed)) {
            recycle(page);
            for (int i = 0; i < 2; i++)
                atomic_store_explicit(&page->start[i], 0, memory_order_relaxed);
            atomic_store_explicit(&page->cover, 0, memory_order_relaxed);
            atomic_store_explicit(&page->pool, NULL, memory_order_relaxed);
            let_go(leaf, at);
        }
        at += LEATI_PAGE_BYTES;
    }
    leati_unlock(&lock);
}

static void set_granules(uintptr_t base, size_t bytes, uint32_t number)
{
    leati_assert(base % LEATI_GRANULE_BYTES == 0 && bytes % LEATI_GRANULE_BYTES == 0);
    for (uintptr_t at = base; at < base + bytes;) {
        struct granules *granules =
            atomic_load_explicit(&page_of(leaf_of(at), at)->granules, memory_order_relaxed);
        uintptr_t end = (at | (LEATI_PAGE_BYTES - 1)) + 1;

        leati_assert(granules);
        for (end = end < base + bytes ? end : base + bytes; at < end; at += LEATI_GRANULE_BYTES)
            /* Release: pairs with the acquire in leati_block_find(). */
            atomic_store_explicit(&granules->record[at % LEATI_PAGE_BYTES / LEATI_GRANULE_BYTES], number,
                                  memory_order_release);
    }
}

/* Sets the half of page->cover that belongs to one window. Uses compare-and-swap, because planned blocks are
 * entered without the pool's lock, so another thread may set the other half at the same time. */
static void set_cover(uintptr_t address, uint32_t number)
{
    struct table_page *page = page_of(leaf_of(address), address);
    unsigned shift = address / LEATI_WINDOW_BYTES % 2 * 32;
    uint64_t mask = UINT64_C(0xFFFFFFFF) << shift, mine = (uint64_t)number << shift;
    uint64_t both = atomic_load_explicit(&page->cover, memory_order_relaxed);

    leati_assert(address % LEATI_WINDOW_BYTES == 0);
    while (!atomic_compare_exchange_weak_explicit(&page->cover, &both, (both & ~mask) | mine, memory_order_release,
                                                  memory_order_relaxed))
        continue;
}

/* Enters a large block: as start in the window where it begins, and as cover in each window that it continues
 * into. All stores release; they pair with the acquires in leati_block_find(). */
static void set_windows(uintptr_t base, size_t bytes, uint32_t number)
{
    uintptr_t at = (base | (LEATI_WINDOW_BYTES - 1)) + 1, end = base + bytes;
    uint64_t both = (uint64_t)number << 32 | number;

    leati_assert(bytes >= LEATI_WINDOW_BYTES);
    atomic_store_explicit(&page_of(leaf_of(base), base)->start[base / LEATI_WINDOW_BYTES % 2], number,
                          memory_order_release);
    if (at < end && at % LEATI_PAGE_BYTES) {
        set_cover(at, number);
        at += LEATI_WINDOW_BYTES;
    }
    while (at + LEATI_PAGE_BYTES <= end) {
        struct leaf *leaf = leaf_of(at);
        size_t first = at / LEATI_PAGE_BYTES % LEAF_PAGES, count = (end - at) / LEATI_PAGE_BYTES;

        count = count < LEAF_PAGES - first ? count : LEAF_PAGES - first;
        for (size_t i = first; i < first + count; i++)
            atomic_store_explicit(&leaf->page[i].cover, both, memory_order_release);
        at += count * LEATI_PAGE_BYTES;
    }
    for (; at < end; at += LEATI_WINDOW_BYTES)
        set_cover(at, number);
}

void leati_blocks_enter(struct leati_block *block, bool small)
{
    uintptr_t base = atomic_load_explicit(&block->base, memory_order_relaxed);
    size_t bytes = atomic_load_explicit(&block->bytes, memory_order_relaxed);

    leati_assert(bytes && leaf_of(base));
    (small ? set_granules : set_windows)(base, bytes, number_of(block));
}

/* Returns the record of this number if its extent contains address; else NULL. Also returns NULL for a planned
 * block that is not in use, because planned blocks may share addresses. */
static struct leati_block *around(uint32_t number, uintptr_t address)
{
    struct leati_block *block = record(number);
    uint32_t state;

    if (!block || address - atomic_load_explicit(&block->base, memory_order_relaxed) >=
                      atomic_load_explicit(&block->bytes, memory_order_relaxed))
        return NULL;
    state = atomic_load_explicit(&block->state, memory_order_acquire);
    return state != LEATI_BLOCK_UNUSED && state != LEATI_BLOCK_DORMANT ? block : NULL;
}

LEATI_HOT struct leati_block *leati_block_find(const void *ptr, struct leat_pool **pool)
{
    uintptr_t address = (uintptr_t)ptr;
    struct leaf *leaf = leaf_of(address);
    struct leati_block *block;
    struct granules *granules;
    struct table_page *page;
    size_t window;

    *pool = NULL;
    if (!leaf)
        return NULL;
    page = page_of(leaf, address);
    *pool = atomic_load_explicit(&page->pool, memory_order_acquire);
    if (!*pool)
        return NULL;
    granules = atomic_load_explicit(&page->granules, memory_order_acquire);
    if (granules)
        return around(atomic_load_explicit(&granules->record[address % LEATI_PAGE_BYTES / LEATI_GRANULE_BYTES],
                                           memory_order_acquire),
                      address);
    /* A large block that contains the address either starts in this window or continues into it. */
    window = address / LEATI_WINDOW_BYTES % 2;
    block = around(atomic_load_explicit(&page->start[window], memory_order_acquire), address);
    return block ? block
                 : around((uint32_t)(atomic_load_explicit(&page->cover, memory_order_acquire) >> window * 32),
                          address);
}
