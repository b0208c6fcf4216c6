/* copy_room.h - helpers for the tests of copies of pageable memory: memory of every kind, a list of sizes, and a
 * slow host function. */
#ifndef COPY_ROOM_H
#define COPY_ROOM_H

#include "harness.h"

#include <stdlib.h>
#include <string.h>

#define KIB ((size_t)1 << 10)
#define MIB ((size_t)1 << 20)

/* Sizes in bytes: below, at and above the smallest chunk of a staged copy, and up to many chunks. */
static const size_t sizes[] = {1, 64 * KIB - 1, 64 * KIB, 64 * KIB + 1, MIB, 5 * MIB + 3, 40 * MIB};
#define SIZES (sizeof sizes / sizeof sizes[0])
#define MOST (40 * MIB)

/* The memory that most tests copy between. */
struct room {
    unsigned char *in, *out;        /* pageable */
    unsigned char *pinned, *memory; /* pinned and device memory */
};

static inline struct room make_room(leat_device *device, size_t bytes)
{
    struct room room = {.in = test_buffer(bytes), .out = test_buffer(bytes)};

    room.pinned = test_alloc(device, LEAT_KIND_PINNED, bytes);
    room.memory = test_alloc(device, LEAT_KIND_DEVICE, bytes);
    memset(room.in, 0, bytes);
    memset(room.out, 0, bytes);
    memset(room.pinned, 0, bytes);
    return room;
}

static inline void end_room(struct room *room)
{
    OK(leat_memory_free(room->memory));
    OK(leat_memory_free(room->pinned));
    free(room->in);
    free(room->out);
}

/* Fills device memory with the pattern of seed and waits. The bytes come from pinned memory, so leat stages
 * nothing. */
static inline void write_memory(leat_stream *stream, struct room *room, size_t bytes, uint64_t seed)
{
    test_pattern(room->pinned, bytes, seed);
    OK(leat_copy(stream, room->memory, room->pinned, bytes));
    OK(leat_stream_synchronize(stream));
}

/* Submits a copy of device memory to room->pinned and does not wait for it. Both sides can be reached by DMA, so
 * leat stages nothing. */
static inline void read_memory(leat_stream *stream, struct room *room, size_t bytes)
{
    memset(room->pinned, 0xee, bytes);
    OK(leat_copy(stream, room->pinned, room->memory, bytes));
}

/* A host function that keeps its stream busy for 2 ms. */
static inline void be_slow(void *unused)
{
    (void)unused;
    test_sleep_us(2000);
}

#endif
