/* copy_waits.h - shared by the tests of the waits of staged copies: two threads that copy on one stream, and the
 * settings for staging. */
#ifndef COPY_WAITS_H
#define COPY_WAITS_H

#include "held.h"

#include "copy/eager.h"
#include "copy/rails.h"
#include "copy/staged.h"
#include "driver/fault/fault.h"

#include <leat/copy.h>
#include <leat/layout.h>

#include <pthread.h>
#include <stdlib.h>

/* ---- short copies ---- */

/* One of two threads that copy on one stream. The second thread starts while the first one is in the middle of its
 * copy. */
struct half {
    leat_stream *stream;
    unsigned char *dst, *src;
    size_t bytes;
    unsigned char *stop; /* the first thread stops before it copies to this address */
    leat_status status;
    atomic_int entered, done;
};
static struct half halves[2];

static inline void let_the_other_go_first(void *stream, struct leati_location dst, struct leati_location src,
                                          size_t bytes)
{
    (void)stream;
    (void)src;
    (void)bytes;
    if (dst.ptr != halves[0].stop || atomic_exchange(&halves[0].entered, 1))
        return;
    /* Wait only for a moment, because the second thread may itself have to wait for this one. */
    for (int i = 0; i < HELD_MOMENT_MS && !atomic_load(&halves[1].done); i++)
        test_sleep_us(1000);
}

static inline void *copy_half(void *argument)
{
    struct half *half = argument;

    if (half == &halves[1])
        (void)test_wait_for(&halves[0].entered, 1);
    half->status = leat_copy(half->stream, half->dst, half->src, half->bytes);
    atomic_store(&half->done, 1);
    return NULL;
}

static inline void copy_halves(void)
{
    pthread_t threads[2];

    for (int i = 0; i < 2; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, copy_half, &halves[i]), 0);
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    for (int i = 0; i < 2; i++)
        assert_int_equal(halves[i].status, LEAT_OK);
}

/* ---- objects that end with their device ---- */

static bool freed_early;

/* Makes leat stage pageable copies as on a GPU, and puts the driver that holds work up (held.h) in place. */
static inline void begin_with_staging(void)
{
    setenv("LEAT_COPY_STAGE", "1", 1);
    setenv("LEAT_COPY_RING", "1M", 1);
    setenv("LEAT_COPY_WORKERS", "3", 1);
    setenv("LEAT_COPY_MEMORY", "4M", 1);
    setenv("LEAT_LAYOUT_AS_GPU", "1", 1);
    held_begin();
    test_keep_handlers();
}

#endif
