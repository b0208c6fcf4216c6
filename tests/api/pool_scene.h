/* pool_scene.h - helpers for the tests of stream order in pools: work on a block that waits behind a closed
 * gate. */
#ifndef POOL_SCENE_H
#define POOL_SCENE_H

#include "test_pool.h"

enum { OLD = 0x11, LATE = 0x22, NEW = 0x33 };
#define BYTES (4 * MIB)

struct scene {
    struct test_state *t;
    leat_stream *s, *u; /* the test's two streams */
    leat_pool *pool;
    bool limited;         /* the pool's limit leaves no room for a second block */
    size_t between_bytes; /* live bytes that separate the block's pages, or 0 */
    unsigned char *kept;
    struct test_gate *gate;
};

/* Closes a gate on the stream and submits the first owner's work behind it: a read of the block, then an
 * overwrite. */
static inline void work_late(struct scene *x, leat_stream *stream, void *block)
{
    OK(leat_fill(stream, block, OLD, BYTES));
    x->gate = test_gate_close(stream);
    OK(leat_copy(stream, x->kept, block, BYTES));
    OK(leat_fill(stream, block, LATE, BYTES));
}

/* Waits up to 30 ms for a stream to become idle. If a gate holds the stream up, its work stays pending. */
static inline void give_a_chance(leat_stream *stream)
{
    for (int i = 0; i < 30 && leat_stream_query(stream) == LEAT_NOT_READY; i++)
        test_sleep_us(1000);
}

/* Fills the block for its new owner, then opens the gate. The first owner must have read OLD, and the new owner
 * must see NEW. If the new owner's stream does not wait for the gate, its fill runs too early and the checks
 * fail. */
static inline void both_are_right(struct scene *x, leat_stream *stream, void *block)
{
    OK(leat_fill(stream, block, NEW, BYTES));
    give_a_chance(stream);
    test_gate_open(x->gate);
    OK(leat_device_synchronize(x->t->device));
    EXPECT_BYTES(x->kept, BYTES, OLD);
    test_block_holds(stream, block, BYTES, NEW);
    OK(leat_free(stream, block));
    OK(leat_stream_synchronize(stream));
}

static inline void order(struct scene *x, leat_stream *earlier, leat_stream *later)
{
    test_order(x->t, earlier, later);
}

static inline leat_stream *new_stream(struct scene *x)
{
    leat_stream *stream;

    OK(leat_stream_create(x->t->device, &stream));
    return stream;
}

enum { DEFAULT_KIND, PLAIN, DEDICATED, PINNED, KINDS, STITCHED = KINDS, PLANNED, SCENE_KINDS };

/* Frees every second page, so that idle pages are not adjacent and the next block of BYTES must be stitched. */
static inline void take_every_second_page(struct scene *x, void *kept[2])
{
    void *freed[2];

    for (int i = 0; i < 2; i++) {
        freed[i] = test_block(x->pool, x->s, BYTES / 2);
        kept[i] = test_block(x->pool, x->s, BYTES / 2);
    }
    for (int i = 0; i < 2; i++)
        OK(leat_free(x->s, freed[i]));
    OK(leat_device_synchronize(x->t->device));
}

#endif
