/*
 * shared_block.c - frees a block that two streams use, while one of them still reads it.
 *
 *     cc shared_block.c -o shared_block $(pkg-config --cflags --libs leat)
 *     ./shared_block [device]
 *
 * One stream writes data, another reads it. The block belongs to the stream on which it was allocated: once it
 * is freed, the next block of that stream may get the same memory. The pool cannot know that the other stream
 * still reads the block, so the program reports the use:
 *
 *     leat_block_use(reader, block)          all work submitted to reader before the free may use the block
 *     leat_block_use_until(event, block)     only work of reader before the event may use the block
 *
 * Without one of the two calls, the next round could overwrite data that is still being read. Neither call waits.
 * No stream waits either, as long as the pool has other memory for the next block.
 */
#include <leat/leat.h>

#include <stdio.h>

#define ROUNDS 16
#define COUNT ((size_t)1 << 20) /* numbers in each block, 4 MiB */
#define BYTES (COUNT * sizeof(uint32_t))

struct work {
    leat_device *device;
    leat_stream *maker, *reader;
    leat_event *made, *was_read;
    uint32_t *host; /* pinned memory: the bytes that the reader copied in each round */
};

static int failed(const char *step)
{
    fprintf(stderr, "shared_block: cannot %s: %s\n", step, leat_last_error());
    return 1;
}

static int prepare(struct work *w)
{
    void *memory;

    if (leat_stream_create(w->device, &w->maker) != LEAT_OK ||
        leat_stream_create(w->device, &w->reader) != LEAT_OK)
        return failed("create the streams");
    if (leat_event_create(w->device, &w->made) != LEAT_OK || leat_event_create(w->device, &w->was_read) != LEAT_OK)
        return failed("create the events");
    if (leat_memory_alloc(w->device, LEAT_KIND_PINNED, ROUNDS * BYTES, &memory) != LEAT_OK)
        return failed("allocate pinned memory");
    w->host = memory;
    return 0;
}

/* Fills the block with value on one stream; after that the reader copies it to the host. */
static int make_and_read(struct work *w, void *block, uint32_t value, uint32_t *host)
{
    if (leat_fill_pattern(w->maker, block, &value, sizeof value, BYTES) != LEAT_OK)
        return failed("make the data");
    /* The reader must wait for the data. The program needs this order with or without a pool. */
    if (leat_event_record(w->maker, w->made) != LEAT_OK || leat_stream_wait(w->reader, w->made) != LEAT_OK)
        return failed("let one stream wait for the other");
    if (leat_copy(w->reader, host, block, BYTES) != LEAT_OK)
        return failed("read the data");
    return 0;
}

/* Tells the pool that the reader's work, up to the free, uses the block. */
static int share_with_stream(struct work *w, void *block)
{
    if (leat_block_use(w->reader, block) != LEAT_OK)
        return failed("tell the pool of the second stream");
    return 0;
}

/* Tells the pool that the reader does not use the block after this event. The program may record the event again
 * for the next block at once. */
static int share_until_event(struct work *w, void *block)
{
    if (leat_event_record(w->reader, w->was_read) != LEAT_OK)
        return failed("mark the end of reading");
    if (leat_block_use_until(w->was_read, block) != LEAT_OK)
        return failed("tell the pool of the event");
    return 0;
}

static int check(const struct work *w, uint32_t first_value)
{
    for (size_t i = 0; i < ROUNDS * COUNT; i++)
        if (w->host[i] != first_value + (uint32_t)(i / COUNT)) {
            fprintf(stderr, "shared_block: round %zu read %u at %zu, not %u\n", i / COUNT, w->host[i], i % COUNT,
                    first_value + (uint32_t)(i / COUNT));
            return 1;
        }
    return 0;
}

static int run_rounds(struct work *w, uint32_t first_value, int (*share)(struct work *w, void *block))
{
    for (uint32_t round = 0; round < ROUNDS; round++) {
        void *block;

        if (leat_alloc(w->maker, BYTES, &block) != LEAT_OK)
            return failed("allocate a block");
        if (make_and_read(w, block, first_value + round, w->host + round * COUNT) || share(w, block))
            return 1;
        /* Free the block at once, although the copy above may not have begun. */
        if (leat_free(w->maker, block) != LEAT_OK)
            return failed("free the block");
    }
    /* The host waits only here, for the last copy. */
    if (leat_stream_synchronize(w->reader) != LEAT_OK)
        return failed("finish the work");
    return check(w, first_value);
}

static int run(struct work *w)
{
    if (prepare(w))
        return 1;
    if (run_rounds(w, 1000, share_with_stream))
        return 1;
    printf("leat_block_use: %d blocks, each freed while it was being read, all read right\n", ROUNDS);
    if (run_rounds(w, 2000, share_until_event))
        return 1;
    printf("leat_block_use_until: the same with an event, all read right\n");
    if (leat_memory_free(w->host) != LEAT_OK)
        return failed("free the pinned memory");
    return 0;
}

int main(int argc, char **argv)
{
    struct work w = {0};
    int wrong;

    if (leat_device_open(argc > 1 ? argv[1] : NULL, &w.device) != LEAT_OK)
        return failed("open the device");
    wrong = run(&w);
    /* Closing destroys the streams and events, and frees what a failed step left behind. */
    if (leat_device_close(w.device) != LEAT_OK)
        wrong = failed("close the device");
    return wrong;
}
