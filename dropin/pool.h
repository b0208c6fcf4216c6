/*
 * pool.h - what the files of --pool share: records of the program's device memory, captures, and the calls between
 * the files.
 *
 * Two kinds of memory are served, in different ways:
 *
 * kept.c: cuMemAlloc() and cuMemAllocPitch(). Other processes (cuIpcGetMemHandle), other GPUs
 * (cuCtxEnablePeerAccess) and network cards may use this memory, each allocation by itself, which no part of a
 * larger allocation can promise. So the memory is the driver's, one allocation for each of the program's. leat
 * keeps it when it is freed, and returns it for the next request of the same size.
 *
 * pool.c: cuMemAllocAsync(). The driver promises none of that for its own pool, so the memory is a block of a pool
 * of leat's (leat/pool.h).
 *
 * blocks.c has the records of both kinds; captures.c knows which streams capture, and sees the end of streams;
 * pool_queries.c changes the driver's answers about this memory.
 */
#ifndef DROPIN_POOL_H
#define DROPIN_POOL_H

#include "dropin.h"
#include "engine.h"

#define DROPIN_DEVICES_MOST 64

/* What a program has asked for. Rows: of cuMemAllocPitch(); 0 for ranges. */
struct dropin_shape {
    size_t bytes, rows; /* bytes: of the range or of a row */
    unsigned element_bytes;
};

enum dropin_block_state {
    DROPIN_LIVE,
    DROPIN_FREEING, /* one thread decides what becomes of it */
    DROPIN_KEPT     /* freed by the program, and kept for another request */
};

struct dropin_block {
    cu_address ptr;
    struct dropin_shape shape;
    size_t pitch;       /* of rows */
    cu_context context; /* the primary context of device */
    cu_device device;
    uint64_t id; /* unique among the blocks of leat's pool */
    bool pooled; /* of leat's pool; otherwise an allocation of the driver's */
    bool shared; /* must not be kept: other processes may use it, or it has attributes of its own */

    /* Of blocks.c. */
    enum dropin_block_state state;
    struct dropin_block *next;            /* with the same hash of the address */
    struct dropin_block *alike;           /* kept, with the same hash of the shape */
    struct dropin_block *older, *younger; /* kept, of the same device */
};

/* Returns the bytes of a block. */
static inline size_t dropin_block_bytes(const struct dropin_block *block)
{
    return block->shape.rows ? block->pitch * block->shape.rows : block->shape.bytes;
}

/* ---- blocks.c: thread-safe ---- */

/* Records a live block. Returns false when out of host memory. */
bool dropin_block_add(const struct dropin_block *block);

/* Claims the live block that starts at ptr: only one of several threads gets it. Returns NULL if there is none;
 * *known: there is a block, but another thread is freeing it, or it is kept, so that the program must not free
 * it. */
struct dropin_block *dropin_block_claim(cu_address ptr, bool *known);

/* What becomes of a claimed block: it is live again; its record is deleted; it is kept. */
void dropin_block_restore(struct dropin_block *block);
void dropin_block_forget(struct dropin_block *block);
void dropin_block_keep(struct dropin_block *block);

/* Makes a kept block of this shape live, the one that was freed last. Returns false if there is none. */
bool dropin_block_reuse(cu_context context, cu_device device, const struct dropin_shape *shape,
                        struct dropin_block *found);

/* Claims the block that has been kept longest, if the device keeps more than that many bytes. Returns NULL if it
 * does not. */
struct dropin_block *dropin_block_claim_oldest(cu_device device, size_t keep_bytes);

size_t dropin_block_kept_bytes(cu_device device);

/* Copies the record of the live block that starts at ptr. Returns false if there is none. */
bool dropin_block_get(cu_address ptr, struct dropin_block *copy);

/* Notes that a live block must not be kept. */
void dropin_block_share(cu_address ptr);

/* Deletes all records of a device, whose context ends. */
void dropin_block_forget_all(cu_device device);

/* ---- captures.c ---- */

/* Held for reading during work of leat's pool, and for writing where a capture begins, or a stream or a context
 * ends. So the pool never touches a stream that captures or is gone. */
void dropin_pool_enter(void);
void dropin_pool_leave(void);

/* Returns true while some stream of the process captures. */
bool dropin_is_any_capturing(void);

/* Before and after leat's device is closed. */
void dropin_pool_closing(cu_device device);
void dropin_pool_closed(void);

/* ---- kept.c ---- */

/* Finds the current context. Returns RUN_OUTCOME_LEAT if it is the primary one of a device that leat can serve. */
enum run_outcome dropin_pool_place(cu_context *context, cu_device *device);

/* Returns to the driver what leat keeps of a device. Returns false if that was nothing. */
bool dropin_release_idle(cu_device device);

/* ---- pool.c ---- */

/* cuMemFree() of a claimed block of leat's pool. */
cu_result dropin_pool_free(struct dropin_block *block);

/* Returns the block of leat's pool that contains an address. Returns false if there is none. */
bool dropin_pool_find(cu_address ptr, struct dropin_block *block);

/* Returns true if a pool is the device's default one, in whose place leat's is. */
bool dropin_is_default_pool(cu_pool pool, cu_device *device);

/* serve.c: what the engine's failure means. Keeps its message. */
enum run_outcome dropin_engine_failed(enum engine_result result, const char *message);

#endif
