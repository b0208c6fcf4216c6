/*
 * bench_peer_cpu.c - the peer of the CPU device: makes the calls of a program without leat, which are memcpy() on
 * several threads, and malloc().
 *
 * The peer postpones copies until the wait, so that two copies at once share the threads, as they do in leat's
 * streams.
 */
#include "bench_peer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    QUEUE_MAX = 8,
    SLICE_BYTES = 256 << 10, /* smallest share of a thread: for less, waking a thread takes longer than copying */
    SLICE_ALIGN = 4096
};

struct queued_copy {
    char *dst;
    const char *src;
    size_t bytes;
};

struct cpu_peer {
    struct bench_peer peer; /* must be the first member: a pointer to it is cast to the whole */
    struct bench_workers *workers;
    struct queued_copy queue[QUEUE_MAX];
    unsigned queued;
};

static int enter(struct bench_peer *peer)
{
    (void)peer;
    return 0;
}

/* Copies one thread's slice of every copy in the queue. */
static void copy_slices(void *argument, unsigned index, unsigned count)
{
    const struct cpu_peer *cpu = argument;
    unsigned i;

    for (i = 0; i < cpu->queued; i++) {
        const struct queued_copy *copy = &cpu->queue[i];
        size_t slice = (copy->bytes / count + SLICE_ALIGN) / SLICE_ALIGN * SLICE_ALIGN;
        size_t begin = slice * index;

        if (begin < copy->bytes)
            memcpy(copy->dst + begin, copy->src + begin,
                   copy->bytes - begin < slice ? copy->bytes - begin : slice);
    }
}

static int wait(struct bench_peer *peer, void *stream)
{
    struct cpu_peer *cpu = (struct cpu_peer *)peer;
    size_t bytes = 0;
    unsigned i;

    (void)stream;
    for (i = 0; i < cpu->queued; i++)
        bytes += cpu->queue[i].bytes;
    if (bytes < 2 * SLICE_BYTES)
        copy_slices(cpu, 0, 1);
    else
        bench_workers_run(cpu->workers, copy_slices, cpu);
    cpu->queued = 0;
    return 0;
}

static int copy(struct bench_peer *peer, void *stream, enum bench_direction direction, void *dst, const void *src,
                size_t bytes)
{
    struct cpu_peer *cpu = (struct cpu_peer *)peer;

    (void)direction;
    if (cpu->queued == QUEUE_MAX)
        wait(peer, stream);
    cpu->queue[cpu->queued].dst = dst;
    cpu->queue[cpu->queued].src = src;
    cpu->queue[cpu->queued].bytes = bytes;
    cpu->queued++;
    return 0;
}

static int copy_at_once(struct bench_peer *peer, enum bench_direction direction, void *dst, const void *src,
                        size_t bytes)
{
    copy(peer, NULL, direction, dst, src, bytes);
    return wait(peer, NULL);
}

static int alloc(struct bench_peer *peer, size_t bytes, void **ptr)
{
    (void)peer;
    *ptr = malloc(bytes);
    return *ptr ? 0 : 1;
}

static int free_memory(struct bench_peer *peer, void *ptr)
{
    (void)peer;
    free(ptr);
    return 0;
}

static void destroy(struct bench_peer *peer)
{
    free(peer);
}

struct bench_peer *bench_peer_cpu(struct bench_workers *workers, const leat_device_info *info, const char **why)
{
    struct cpu_peer *cpu;

    if (info->strict) {
        *why = "LEAT_STRICT keeps plain memcpy away from device memory, so there is nothing to compare with";
        return NULL;
    }
    cpu = calloc(1, sizeof *cpu);
    if (!cpu) {
        *why = "out of memory";
        return NULL;
    }
    cpu->workers = workers;
    snprintf(cpu->peer.text, sizeof cpu->peer.text, "memcpy by %u thread%s, malloc", bench_workers_count(workers),
             bench_workers_count(workers) == 1 ? "" : "s");
    cpu->peer.enter = enter;
    cpu->peer.leave = enter;
    cpu->peer.copy = copy;
    cpu->peer.copy_at_once = copy_at_once;
    cpu->peer.copy_plain = copy_at_once;
    cpu->peer.wait = wait;
    cpu->peer.alloc = alloc;
    cpu->peer.free = free_memory;
    cpu->peer.destroy = destroy;
    return &cpu->peer;
}
