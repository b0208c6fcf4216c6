/* small.c - see small.h. */
#include "copy/small.h"

#include <stdlib.h>

#define FLAGS_BYTES ((size_t)4096)
#define QUARTERS 4
#define QUARTER_BYTES (2 * LEATI_SMALL_BYTES)
#define ALIGNMENT ((size_t)64)

/* What a stream has for its short copies. The stream writes the flag completed_chunks when it has got past a
 * quarter of the ring. */
struct leati_staging {
    struct leati_stager *stager;
    pthread_mutex_t lock; /* guards the rest, and is held while a copy is given to the stream */
    struct leati_flags *flags;
    char *ring;
    size_t quarter, used;       /* the quarter that is being filled, and how far */
    uint32_t marks;             /* written to completed_chunks so far, or on their way */
    uint32_t left_at[QUARTERS]; /* the mark after which a quarter is free */
    struct leati_job *leftover; /* what is left to do when the stream ends */
};

static struct leati_staging *new_staging(struct leati_stager *stager)
{
    struct leati_staging *staging = calloc(1, sizeof *staging);

    if (!staging)
        return NULL;
    staging->leftover = calloc(1, sizeof *staging->leftover);
    staging->flags = leati_stager_take(stager, FLAGS_BYTES + QUARTERS * QUARTER_BYTES);
    if (!staging->leftover || !staging->flags) {
        leati_stager_give_back(stager, staging->flags);
        free(staging->leftover);
        free(staging);
        return NULL;
    }
    atomic_init(&staging->flags->staged_chunks, 0);
    atomic_init(&staging->flags->completed_chunks, 0);
    atomic_init(&staging->leftover->holders, 1);
    staging->leftover->flags = staging->flags;
    staging->ring = (char *)staging->flags + FLAGS_BYTES;
    staging->stager = stager;
    pthread_mutex_init(&staging->lock, NULL);
    return staging;
}

static void drop_staging(struct leati_staging *staging)
{
    pthread_mutex_destroy(&staging->lock);
    free(staging);
}

/* The stream's, made at its first short copy; NULL when there is no memory. */
static struct leati_staging *staging_of(struct leati_stager *stager, leat_stream *stream)
{
    struct leati_staging *staging = atomic_load_explicit(&stream->staging, memory_order_acquire), *made;

    if (staging)
        return staging;
    made = new_staging(stager);
    if (!made)
        return NULL;
    /* Release and acquire: it is whole for whom finds it. */
    if (atomic_compare_exchange_strong_explicit(&stream->staging, &staging, made, memory_order_acq_rel,
                                                memory_order_acquire))
        return made;
    leati_stager_give_back(stager, made->flags);
    free(made->leftover);
    drop_staging(made);
    return staging;
}

static bool is_free(const struct leati_staging *staging, size_t quarter)
{
    uint32_t completed = atomic_load_explicit(&staging->flags->completed_chunks, memory_order_acquire);

    return (int32_t)(completed - staging->left_at[quarter]) >= 0;
}

/* Room for bytes in the quarter that is being filled: NOT_READY when the next quarter is still in use. */
static leat_status make_room(struct leati_staging *staging, leat_stream *stream, size_t bytes)
{
    struct leati_driver *driver = stream->device->driver;
    size_t next = (staging->quarter + 1) % QUARTERS;
    struct leati_value mark = {.word = &staging->flags->completed_chunks, .value = staging->marks + 1};

    if (staging->used + bytes <= QUARTER_BYTES)
        return LEAT_OK;
    if (!is_free(staging, next))
        return LEAT_NOT_READY;
    LEATI_TRY(driver->ops->stream_values(driver, stream->native, &mark, 1));
    staging->left_at[staging->quarter] = ++staging->marks;
    staging->quarter = next;
    staging->used = 0;
    return LEAT_OK;
}

static leat_status fail_read(const struct leati_target *from, uintptr_t fault)
{
    return leati_fail(LEAT_ERROR_POINTER, "src: %p cannot be read at %p: unmapped, protected, or its file shrank",
                      from->end.ptr, (void *)fault);
}

static leat_status copy_in(struct leati_staging *staging, leat_stream *stream, const struct leati_target *to,
                           const struct leati_target *from, size_t bytes)
{
    struct leati_driver *driver = stream->device->driver;
    struct leati_end slot = {.kind = LEAT_KIND_PINNED};
    leat_status status;
    uintptr_t fault;

    LEATI_TRY(make_room(staging, stream, bytes));
    slot.ptr = staging->ring + staging->quarter * QUARTER_BYTES + staging->used;
    if (leati_staging_copy_guarded(slot.ptr, from->end.ptr, bytes, LEATI_STORES_CACHED, &fault) != bytes)
        return fail_read(from, fault);
    leati_stream_piece_begins(stream);
    status = driver->ops->copy(driver, stream->native, to->end, slot, bytes);
    leati_stream_piece_ends(stream);
    LEATI_TRY(status);
    staging->used += (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    return LEAT_OK;
}

leat_status leati_small_in(struct leati_stager *stager, leat_stream *stream, const struct leati_target *to,
                           const struct leati_target *from, size_t bytes)
{
    struct leati_staging *staging = staging_of(stager, stream);
    leat_status status;

    if (!staging)
        return LEAT_NOT_READY;
    pthread_mutex_lock(&staging->lock);
    status = copy_in(staging, stream, to, from, bytes);
    pthread_mutex_unlock(&staging->lock);
    return status;
}

leat_status leati_small_out(struct leati_stager *stager, leat_stream *stream, const struct leati_target *to,
                            const struct leati_target *from, size_t bytes)
{
    struct leati_driver *driver = stream->device->driver;
    struct leati_end slot = {.ptr = leati_stager_take(stager, bytes), .kind = LEAT_KIND_PINNED};
    leat_status status;
    uintptr_t fault;

    if (!slot.ptr)
        return LEAT_NOT_READY;
    leati_stream_piece_begins(stream);
    status = driver->ops->copy(driver, stream->native, slot, from->end, bytes);
    leati_stream_piece_ends(stream);
    if (status != LEAT_OK) {
        leati_stager_give_back(stager, slot.ptr);
        return status;
    }
    status = driver->ops->stream_synchronize(driver, stream->native);
    if (status != LEAT_OK) {
        leati_stager_lose(stager, slot.ptr);
        return status;
    }
    if (leati_staging_copy_guarded(to->end.ptr, slot.ptr, bytes, LEATI_STORES_CACHED, &fault) != bytes)
        status = leati_fail(LEAT_ERROR_POINTER, "dst: %p cannot be written at %p: unmapped or protected",
                            to->end.ptr, (void *)fault);
    leati_stager_give_back(stager, slot.ptr);
    return status;
}

void leati_small_stream_ends(struct leat_stream *stream)
{
    struct leati_staging *staging = atomic_exchange_explicit(&stream->staging, NULL, memory_order_acquire);
    struct leati_driver *driver = stream->device->driver;
    struct leati_value mark;

    if (!staging)
        return;
    mark = (struct leati_value){.word = &staging->flags->completed_chunks, .value = staging->marks + 1};
    /* Where that fails the device is lost, and the ring stays until its close. */
    (void)driver->ops->stream_values(driver, stream->native, &mark, 1);
    staging->leftover->end = mark.value;
    leati_stager_keep(staging->stager, staging->leftover);
    drop_staging(staging);
}
