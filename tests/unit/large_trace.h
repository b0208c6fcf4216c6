/*
 * large_trace.h - writes a trace of leat's format of any length: threads that copy, launch kernels, allocate and
 * wait, with ranges, on several streams of two devices. The device times of every second chunk come after the next
 * one.
 */
#ifndef LARGE_TRACE_H
#define LARGE_TRACE_H

#include "trace/trace_file.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

enum { LARGE_THREADS = 4, LARGE_LANES = 8, LARGE_OPS = 1000, LARGE_RANGE = 100 };

/* What the trace has. */
struct large_trace {
    uint64_t calls, work, ranges, copies, memory;
};

static inline void large_chunk(FILE *file, enum leati_trace_chunk_type type, uint32_t thread, uint64_t first,
                               const void *records, uint32_t count, size_t record_bytes)
{
    struct leati_trace_chunk chunk = {.magic = LEATI_TRACE_CHUNK_MAGIC,
                                      .type = type,
                                      .payload_bytes = count * (uint32_t)record_bytes,
                                      .count = count,
                                      .record_bytes = (uint32_t)record_bytes,
                                      .thread = thread,
                                      .first = first};

    fwrite(&chunk, sizeof chunk, 1, file);
    fwrite(records, record_bytes, count, file);
}

static inline void large_string(FILE *file, uint32_t id, const char *text)
{
    struct leati_trace_string string = {id, (uint32_t)strlen(text)};
    uint32_t padded = (string.bytes + 7) & ~7u;
    struct leati_trace_chunk chunk = {.magic = LEATI_TRACE_CHUNK_MAGIC,
                                      .type = LEATI_TRACE_CHUNK_STRINGS,
                                      .payload_bytes = (uint32_t)sizeof string + padded,
                                      .count = 1};

    fwrite(&chunk, sizeof chunk, 1, file);
    fwrite(&string, sizeof string, 1, file);
    fwrite(text, 1, string.bytes, file);
    fwrite("\0\0\0\0\0\0\0", 1, padded - string.bytes, file);
}

static inline void large_begin(FILE *file)
{
    static const char *const strings[] = {"leat_copy", "leat_launch", "leat_alloc", "leat_stream_synchronize",
                                          "step",      "cpu:0",       "cpu:1",      "a kernel",
                                          "a pool"};
    struct leati_trace_header header = {.version = LEATI_TRACE_VERSION,
                                        .header_bytes = sizeof header,
                                        .op_bytes = sizeof(struct leati_trace_op),
                                        .start_ns = 1000000};
    const struct leati_trace_pool pool = {.id = 1, .name = 9, .device = 6, .memory = LEATI_TRACE_MEMORY_DEVICE};

    memcpy(header.magic, LEATI_TRACE_MAGIC, sizeof header.magic);
    fwrite(&header, sizeof header, 1, file);
    for (uint32_t i = 0; i < sizeof strings / sizeof strings[0]; i++)
        large_string(file, i + 1, strings[i]);
    for (uint32_t i = 1; i <= LARGE_THREADS; i++)
        large_chunk(file, LEATI_TRACE_CHUNK_THREADS, 0, 0, &(struct leati_trace_thread){.id = i}, 1,
                    sizeof(struct leati_trace_thread));
    for (uint32_t i = 1; i <= 2; i++)
        large_chunk(file, LEATI_TRACE_CHUNK_DEVICES, 0, 0, &(struct leati_trace_device){.id = i, .name = 5 + i}, 1,
                    sizeof(struct leati_trace_device));
    for (uint32_t i = 1; i <= LARGE_LANES; i++)
        large_chunk(file, LEATI_TRACE_CHUNK_LANES, 0, 0,
                    &(struct leati_trace_lane){.id = i, .device = 1 + i % 2, .serial = i}, 1,
                    sizeof(struct leati_trace_lane));
    large_chunk(file, LEATI_TRACE_CHUNK_POOLS, 0, 0, &pool, 1, sizeof pool);
}

/* The operation of a thread with this number. Each thread has one every 4 us; work takes up to 8 us, and a stream
 * is used by one thread. */
static inline struct leati_trace_op large_op(uint32_t thread, uint64_t number)
{
    static const uint8_t kinds[] = {LEATI_TRACE_COPY, LEATI_TRACE_KERNEL, LEATI_TRACE_ALLOC, LEATI_TRACE_COPY,
                                    LEATI_TRACE_SYNCHRONIZE};
    uint64_t ns = 2000000 + number * 4000 + thread * 100;
    struct leati_trace_op op = {.host_start_ns = ns, .host_time = 2000, .pieces = 1, .kind = kinds[number % 5]};

    op.lane = 1 + (thread - 1) * 2 + (uint32_t)(number / 7 % 2);
    op.name = op.kind == LEATI_TRACE_COPY     ? 1
              : op.kind == LEATI_TRACE_KERNEL ? 8
              : op.kind == LEATI_TRACE_ALLOC  ? 3
                                              : 4;
    if (op.kind != LEATI_TRACE_ALLOC && op.kind != LEATI_TRACE_SYNCHRONIZE) {
        op.device_start_ns = ns + 1000;
        op.device_end_ns = ns + 1000 + 3000 + number % 3 * 2000;
        op.bytes = op.kind == LEATI_TRACE_COPY ? 65536 + number % 1000 : 0;
    }
    if (number % LARGE_RANGE == LARGE_RANGE - 1) { /* it ends, after those in it */
        op = (struct leati_trace_op){.kind = LEATI_TRACE_RANGE, .name = 5, .pieces = 1};
        op.host_start_ns = ns - (LARGE_RANGE - 1) * 4000 - 50;
        op.host_time = (LARGE_RANGE - 1) * 4000 + 3000;
    }
    return op;
}

/* Writes a trace of count operations, a multiple of LARGE_THREADS * LARGE_OPS. */
static inline struct large_trace large_write(FILE *file, uint64_t count)
{
    static struct leati_trace_op ops[LARGE_OPS];
    static struct leati_trace_times later[LARGE_THREADS][LARGE_OPS];
    uint32_t later_count[LARGE_THREADS] = {0};
    struct large_trace has = {0};

    large_begin(file);
    for (uint64_t first = 0; first < count / LARGE_THREADS; first += LARGE_OPS)
        for (uint32_t thread = 1; thread <= LARGE_THREADS; thread++) {
            bool is_later = first / LARGE_OPS % 2 == 0;
            struct leati_trace_pool_memory memory = {.time_ns = 2000000 + first * 4000 + thread,
                                                     .pool = 1,
                                                     .used_bytes = first,
                                                     .reserved_bytes = 1u << 30};

            for (uint32_t i = 0; i < LARGE_OPS; i++) {
                ops[i] = large_op(thread, first + i);
                has.calls += ops[i].kind != LEATI_TRACE_RANGE;
                has.ranges += ops[i].kind == LEATI_TRACE_RANGE;
                has.copies += ops[i].bytes > 0;
                has.work += ops[i].device_end_ns > 0;
                if (!is_later || !ops[i].device_end_ns)
                    continue;
                later[thread - 1][later_count[thread - 1]++] = (struct leati_trace_times){
                    leati_trace_op_id(thread, first + i), ops[i].device_start_ns, ops[i].device_end_ns};
                ops[i].device_start_ns = ops[i].device_end_ns = 0;
            }
            large_chunk(file, LEATI_TRACE_CHUNK_OPS, thread, first, ops, LARGE_OPS, sizeof ops[0]);
            large_chunk(file, LEATI_TRACE_CHUNK_POOL_MEMORY, 0, 0, &memory, 1, sizeof memory);
            has.memory++;
            if (!is_later || first + LARGE_OPS >= count / LARGE_THREADS) {
                large_chunk(file, LEATI_TRACE_CHUNK_TIMES, 0, 0, later[thread - 1], later_count[thread - 1],
                            sizeof later[0][0]);
                later_count[thread - 1] = 0;
            }
        }
    large_chunk(file, LEATI_TRACE_CHUNK_STATE, 0, 0,
                &(struct leati_trace_state){.ops = count, .ended = 1, .time_ns = 1}, 1,
                sizeof(struct leati_trace_state));
    return has;
}

#endif
