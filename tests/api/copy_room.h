/* copy_room.h - what the tests of copies of pageable memory share: memory of every kind, and sizes. */
#ifndef COPY_ROOM_H
#define COPY_ROOM_H

#include "harness.h"

#include <stdlib.h>
#include <string.h>

#define KIB ((size_t)1 << 10)
#define MIB ((size_t)1 << 20)

/* Around the smallest chunk, and up to many chunks. */
static const size_t sizes[] = {1, 64 * KIB - 1, 64 * KIB, 64 * KIB + 1, MIB, 5 * MIB + 3, 40 * MIB};
#define SIZES (sizeof sizes / sizeof sizes[0])
#define MOST (40 * MIB)

/* What most tests copy between. */
struct room {
    unsigned char *in, *out;        /* pageable */
    unsigned char *pinned, *memory; /* of the device */
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

/* What device memory holds, read without pageable memory, by work behind all that the stream has. */
static inline void read_memory(leat_stream *stream, struct room *room, size_t bytes)
{
    memset(room->pinned, 0xee, bytes);
    OK(leat_copy(stream, room->pinned, room->memory, bytes));
}

#endif
