/* rows.c - copies bytes between pitched rows. See rows.h. */
#include "staging/rows.h"

#include "base/assert.h"
#include "base/fault_handler.h"
#include "base/stream_copy.h"

#include <string.h>

#define SHORT_BYTES 32                /* rows up to this size are copied without calling memcpy() */
#define STREAMED_BYTES ((size_t)4096) /* shorter rows have too many partial cache lines for streaming stores */

size_t leati_rows_reach(const struct leati_rows *rows, size_t bytes)
{
    size_t slices = bytes / rows->width / rows->height;

    leati_assert(slices && slices * rows->width * rows->height == bytes);
    return (slices - 1) * rows->slice + (rows->height - 1) * rows->pitch + rows->width;
}

/* A position in rows. */
struct row_place {
    const struct leati_rows *rows;
    char *at;
    size_t left; /* bytes left in the row */
    size_t y, z;
};

static struct row_place place_at(const struct leati_rows *rows, size_t offset)
{
    size_t row = offset / rows->width, in = offset % rows->width;
    struct row_place place = {
        .rows = rows, .left = rows->width - in, .y = row % rows->height, .z = row / rows->height};

    place.at = rows->base + place.z * rows->slice + place.y * rows->pitch + in;
    leati_assert(place.left && place.left <= rows->width);
    return place;
}

static inline void go_on(struct row_place *place, size_t bytes)
{
    const struct leati_rows *rows = place->rows;

    leati_assert(bytes <= place->left);
    place->at += bytes;
    place->left -= bytes;
    if (place->left)
        return;
    place->left = rows->width;
    if (++place->y < rows->height) {
        place->at += rows->pitch - rows->width;
        return;
    }
    place->y = 0;
    place->z++;
    place->at = rows->base + place->z * rows->slice;
}

/* Returns how many bytes one memcpy() can move: up to the next end of a row on either side, at most left. */
static inline size_t step_of(const struct row_place *to, const struct row_place *from, size_t left)
{
    size_t step = to->left < from->left ? to->left : from->left;

    leati_assert(step && left);
    return step < left ? step : left;
}

/* Copies bytes bytes, one to two words, as their first and their last word, which may overlap. */
#define COPY_ENDS(word_bytes)                                                                                     \
    do {                                                                                                          \
        char first_[word_bytes], last_[word_bytes];                                                               \
        memcpy(first_, src, word_bytes);                                                                          \
        memcpy(last_, src + bytes - (word_bytes), word_bytes);                                                    \
        memcpy(dst, first_, word_bytes);                                                                          \
        memcpy(dst + bytes - (word_bytes), last_, word_bytes);                                                    \
    } while (0)

/* Copies up to SHORT_BYTES without memcpy(), whose call would take longer than the copy. */
static inline void copy_short(char *dst, const char *src, size_t bytes)
{
    leati_assert(bytes && bytes <= SHORT_BYTES);
    if (bytes >= 16)
        COPY_ENDS(16);
    else if (bytes >= 8)
        COPY_ENDS(8);
    else if (bytes >= 4)
        COPY_ENDS(4);
    else if (bytes >= 2)
        COPY_ENDS(2);
    else
        *dst = *src;
}

struct rows_job {
    struct row_place to, from;
    size_t bytes;
    bool streaming;
};

static void all_at_once(void *context)
{
    const struct rows_job *job = context;
    struct row_place to = job->to, from = job->from;
    size_t left = job->bytes;

    while (left) {
        size_t step = step_of(&to, &from, left);

        if (step <= SHORT_BYTES)
            copy_short(to.at, from.at, step);
        else if (job->streaming && step >= STREAMED_BYTES)
            leati_stream_copy(to.at, from.at, step);
        else
            memcpy(to.at, from.at, step);
        left -= step;
        go_on(&to, step);
        go_on(&from, step);
    }
}

static size_t step_by_step(const struct rows_job *job, uintptr_t *fault)
{
    struct row_place to = job->to, from = job->from;
    size_t done = 0;

    while (done < job->bytes) {
        size_t step = step_of(&to, &from, job->bytes - done);
        size_t copied = leati_staging_copy_guarded(to.at, from.at, step, LEATI_STORE_POLICY_CACHED, fault);

        done += copied;
        if (copied != step)
            return done;
        go_on(&to, step);
        go_on(&from, step);
    }
    return done;
}

/* Returns the address range from the first byte of a copy to its last, gaps included. */
static struct leati_fault_range range_of(const struct leati_rows *rows, const struct row_place *start,
                                         size_t offset, size_t bytes)
{
    struct row_place last = place_at(rows, offset + bytes - 1);

    leati_assert(last.at >= start->at);
    return (struct leati_fault_range){(uintptr_t)start->at, (size_t)(last.at - start->at) + 1};
}

size_t leati_staging_copy_rows(const struct leati_rows *dst, size_t dst_offset, const struct leati_rows *src,
                               size_t src_offset, size_t bytes, enum leati_store_policy policy, uintptr_t *fault)
{
    struct rows_job job = {.bytes = bytes, .streaming = policy == LEATI_STORE_POLICY_STREAMING};
    struct leati_fault_range ranges[2];
    uintptr_t where;

    if (!bytes)
        return 0;
    leati_assert(fault && dst->width && dst->height && src->width && src->height);
    job.to = place_at(dst, dst_offset);
    job.from = place_at(src, src_offset);
    ranges[0] = range_of(src, &job.from, src_offset, bytes);
    ranges[1] = range_of(dst, &job.to, dst_offset, bytes);
    if (leati_fault_handler_run(ranges, all_at_once, &job, &where))
        return bytes;
    leati_stream_fence();
    /* An access has faulted. Copy again in order to find out how many bytes can be copied. */
    return step_by_step(&job, fault);
}
