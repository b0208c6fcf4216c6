/* blocks.c - the records of the device memory that leat serves with --pool (pool.h). */
#include "pool.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#define ADDRESS_BUCKETS 4096u
#define SHAPE_BUCKETS 1024u

/* What is kept of one device, in the order of the frees. */
struct kept {
    struct dropin_block *oldest, *youngest;
    size_t bytes;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* guards all below */
static struct dropin_block *by_address[ADDRESS_BUCKETS], *by_shape[SHAPE_BUCKETS];
static struct kept kept[DROPIN_DEVICES_MOST];
static uint64_t last_id;

static void begin_child(void)
{
    pthread_mutex_t fresh = PTHREAD_MUTEX_INITIALIZER;

    /* CUDA does not work in a child, so its calls must fail there as without leat. */
    memcpy(&lock, &fresh, sizeof fresh);
    memset(by_address, 0, sizeof by_address);
    memset(by_shape, 0, sizeof by_shape);
    memset(kept, 0, sizeof kept);
}

static struct dropin_block **address_bucket(cu_address ptr)
{
    return &by_address[(ptr >> 9) * UINT64_C(0x9e3779b97f4a7c15) >> 52];
}

static struct dropin_block **shape_bucket(const struct dropin_shape *shape)
{
    uint64_t key = (shape->bytes * 31 + shape->rows) * 31 + shape->element_bytes;

    return &by_shape[key * UINT64_C(0x9e3779b97f4a7c15) >> 54];
}

static bool is_same(const struct dropin_shape *one, const struct dropin_shape *other)
{
    return one->bytes == other->bytes && one->rows == other->rows && one->element_bytes == other->element_bytes;
}

/* The functions below are called with the lock held. */

static struct dropin_block *find(cu_address ptr)
{
    struct dropin_block *block = *address_bucket(ptr);

    while (block && block->ptr != ptr)
        block = block->next;
    return block;
}

static void take_out(struct dropin_block *block)
{
    struct dropin_block **place = address_bucket(block->ptr);

    while (*place != block)
        place = &(*place)->next;
    *place = block->next;
}

static void take_out_kept(struct dropin_block *block)
{
    struct kept *of = &kept[block->device];
    struct dropin_block **place = shape_bucket(&block->shape);

    while (*place != block)
        place = &(*place)->alike;
    *place = block->alike;
    *(block->older ? &block->older->younger : &of->oldest) = block->younger;
    *(block->younger ? &block->younger->older : &of->youngest) = block->older;
    of->bytes -= dropin_block_bytes(block);
}

/* ---- live blocks ---- */

bool dropin_block_add(const struct dropin_block *block)
{
    static bool watched; /* guarded by lock */
    struct dropin_block *made = malloc(sizeof *made), **bucket = address_bucket(block->ptr), *before;

    if (!made)
        return false;
    *made = *block;
    made->state = DROPIN_LIVE;
    pthread_mutex_lock(&lock);
    if (!watched)
        watched = !pthread_atfork(NULL, NULL, begin_child);
    /* A record of memory that the driver has freed without leat, such as that of a context that has ended. */
    before = find(block->ptr);
    if (before) {
        if (before->state == DROPIN_KEPT)
            take_out_kept(before);
        take_out(before);
        if (before->state != DROPIN_FREEING)
            free(before);
    }
    made->id = ++last_id;
    made->next = *bucket;
    *bucket = made;
    pthread_mutex_unlock(&lock);
    return true;
}

struct dropin_block *dropin_block_claim(cu_address ptr, bool *known)
{
    struct dropin_block *found;

    pthread_mutex_lock(&lock);
    found = find(ptr);
    *known = found;
    if (found && found->state == DROPIN_LIVE)
        found->state = DROPIN_FREEING;
    else
        found = NULL;
    pthread_mutex_unlock(&lock);
    return found;
}

void dropin_block_restore(struct dropin_block *block)
{
    pthread_mutex_lock(&lock);
    block->state = DROPIN_LIVE;
    pthread_mutex_unlock(&lock);
}

void dropin_block_forget(struct dropin_block *block)
{
    pthread_mutex_lock(&lock);
    if (find(block->ptr) == block)
        take_out(block);
    pthread_mutex_unlock(&lock);
    free(block);
}

bool dropin_block_get(cu_address ptr, struct dropin_block *copy)
{
    const struct dropin_block *found;

    pthread_mutex_lock(&lock);
    found = find(ptr);
    if (found && found->state == DROPIN_LIVE)
        *copy = *found;
    else
        found = NULL;
    pthread_mutex_unlock(&lock);
    return found;
}

void dropin_block_share(cu_address ptr)
{
    struct dropin_block *found;

    pthread_mutex_lock(&lock);
    found = find(ptr);
    if (found)
        found->shared = true;
    pthread_mutex_unlock(&lock);
}

void dropin_block_forget_all(cu_device device)
{
    struct dropin_block **place, *block;

    pthread_mutex_lock(&lock);
    for (unsigned i = 0; i < ADDRESS_BUCKETS; i++)
        for (place = &by_address[i]; (block = *place);) {
            /* The thread that has claimed a block deletes its record. */
            if (block->device != device || block->state == DROPIN_FREEING) {
                place = &block->next;
                continue;
            }
            if (block->state == DROPIN_KEPT)
                take_out_kept(block);
            *place = block->next;
            free(block);
        }
    pthread_mutex_unlock(&lock);
}

/* ---- kept blocks ---- */

void dropin_block_keep(struct dropin_block *block)
{
    struct dropin_block **bucket = shape_bucket(&block->shape);
    struct kept *of = &kept[block->device];

    pthread_mutex_lock(&lock);
    block->state = DROPIN_KEPT;
    block->alike = *bucket;
    *bucket = block;
    block->older = of->youngest;
    block->younger = NULL;
    *(of->youngest ? &of->youngest->younger : &of->oldest) = block;
    of->youngest = block;
    of->bytes += dropin_block_bytes(block);
    pthread_mutex_unlock(&lock);
}

bool dropin_block_reuse(cu_context context, cu_device device, const struct dropin_shape *shape,
                        struct dropin_block *found)
{
    struct dropin_block *block;

    pthread_mutex_lock(&lock);
    for (block = *shape_bucket(shape); block; block = block->alike)
        if (block->context == context && block->device == device && is_same(&block->shape, shape))
            break;
    if (block) {
        take_out_kept(block);
        block->state = DROPIN_LIVE;
        *found = *block;
    }
    pthread_mutex_unlock(&lock);
    return block;
}

struct dropin_block *dropin_block_claim_oldest(cu_device device, size_t keep_bytes)
{
    struct dropin_block *block = NULL;

    pthread_mutex_lock(&lock);
    if (kept[device].bytes > keep_bytes) {
        block = kept[device].oldest;
        take_out_kept(block);
        block->state = DROPIN_FREEING;
    }
    pthread_mutex_unlock(&lock);
    return block;
}

size_t dropin_block_kept_bytes(cu_device device)
{
    size_t bytes;

    pthread_mutex_lock(&lock);
    bytes = kept[device].bytes;
    pthread_mutex_unlock(&lock);
    return bytes;
}
