/*
 * activity_file.h - makes traces for the tests of "leat trace": bytes in leat's format, chunk by chunk.
 */
#ifndef ACTIVITY_FILE_H
#define ACTIVITY_FILE_H

#include "../../cli/activity.h"
#include "temporary.h"
#include "trace/trace_file.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

struct made_file {
    unsigned char *bytes;
    size_t count, room;
};

static inline void made_put(struct made_file *file, const void *data, size_t bytes)
{
    if (file->count + bytes > file->room) {
        file->room = 2 * (file->count + bytes);
        file->bytes = realloc(file->bytes, file->room);
        if (!file->bytes)
            abort();
    }
    memcpy(file->bytes + file->count, data, bytes);
    file->count += bytes;
}

static inline void made_header(struct made_file *file)
{
    struct leati_trace_header header = {.magic = "leattrc",
                                        .version = LEATI_TRACE_VERSION,
                                        .header_bytes = sizeof header,
                                        .op_bytes = sizeof(struct leati_trace_op),
                                        .start_ns = 1000};

    header.magic[7] = '\n';
    made_put(file, &header, sizeof header);
}

static inline void made_chunk(struct made_file *file, enum leati_trace_chunk_type type, uint32_t thread,
                              uint64_t first, const void *records, uint32_t count, size_t record_bytes)
{
    struct leati_trace_chunk chunk = {.magic = LEATI_TRACE_CHUNK_MAGIC,
                                      .type = type,
                                      .payload_bytes = count * (uint32_t)record_bytes,
                                      .count = count,
                                      .record_bytes = (uint32_t)record_bytes,
                                      .thread = thread,
                                      .first = first};

    made_put(file, &chunk, sizeof chunk);
    made_put(file, records, count * record_bytes);
}

static inline void made_string(struct made_file *file, uint32_t id, const char *text)
{
    struct leati_trace_string string = {id, (uint32_t)strlen(text)};
    uint32_t padded = (string.bytes + 7) & ~7u;
    struct leati_trace_chunk chunk = {.magic = LEATI_TRACE_CHUNK_MAGIC,
                                      .type = LEATI_TRACE_CHUNK_STRINGS,
                                      .payload_bytes = (uint32_t)sizeof string + padded,
                                      .count = 1};
    static const char zeros[8];

    made_put(file, &chunk, sizeof chunk);
    made_put(file, &string, sizeof string);
    made_put(file, text, string.bytes);
    made_put(file, zeros, padded - string.bytes);
}

/* A whole trace: a thread, a device, a stream, two pools; a range with an allocation, a copy, a kernel whose times
 * come later, and a wait. */
static inline void made_trace(struct made_file *file)
{
    const struct leati_trace_thread thread = {.id = 1, .system_id = 4711, .name = 4};
    const struct leati_trace_device device = {.id = 1, .name = 5};
    const struct leati_trace_lane lane = {.id = 1, .device = 1, .serial = 3};
    const struct leati_trace_pool pools[] = {
        {.id = 1, .name = 11, .device = 5, .memory = LEATI_TRACE_MEMORY_DEVICE},
        {.id = 2, .name = 4, .device = 4, .memory = LEATI_TRACE_MEMORY_PINNED}};
    const struct leati_trace_pool_memory memory[] = {
        {.time_ns = 900, .pool = 1, .used_bytes = 100, .reserved_bytes = 4096}, /* before the span */
        {.time_ns = 2000, .pool = 1, .used_bytes = 3000, .reserved_bytes = 8192},
        {.time_ns = 1500, .pool = 1, .used_bytes = 4000, .reserved_bytes = 4096},
        {.time_ns = 9000, .pool = 1, .used_bytes = 7, .reserved_bytes = 2048}};
    const struct leati_trace_op ops[] = {
        {.host_start_ns = 1100,
         .host_time = 50,
         .bytes = 4096,
         .value = 0x1000,
         .lane = 1,
         .name = 6,
         .pieces = 1,
         .kind = LEATI_TRACE_ALLOC,
         .kinds = LEATI_TRACE_MEMORY_DEVICE << 4},
        {.host_start_ns = 1200,
         .host_time = 20,
         .device_start_ns = 1250,
         .device_end_ns = 1450,
         .bytes = 4096,
         .value = 0x2000,
         .lane = 1,
         .name = 7,
         .place = 8,
         .pieces = 1,
         .kind = LEATI_TRACE_COPY,
         .how = LEATI_TRACE_SYNCHRONOUS,
         .kinds = LEATI_TRACE_MEMORY_PAGEABLE | LEATI_TRACE_MEMORY_DEVICE << 4},
        {.host_start_ns = 1460, .host_time = 10, .lane = 1, .name = 9, .pieces = 1, .kind = LEATI_TRACE_KERNEL},
        {.host_start_ns = 1500,
         .host_time = 2,
         .lane = 1,
         .pieces = 1,
         .kind = LEATI_TRACE_SYNCHRONIZE,
         .how = LEATI_TRACE_LONG},
        {.host_start_ns = 1050, .host_time = 3000, .name = 10, .pieces = 1, .kind = LEATI_TRACE_RANGE}};
    const struct leati_trace_times times = {leati_trace_op_id(1, 42), 1480, 3480};
    const struct leati_trace_times foreign = {leati_trace_op_id(9, 42), 1, 2};
    const struct leati_trace_state state = {.time_ns = 4100, .ops = 5, .lost_ops = 7, .ended = 1};

    made_header(file);
    made_string(file, 4, "main");
    made_string(file, 5, "cpu:0");
    made_string(file, 6, "leat_alloc");
    made_string(file, 7, "leat_copy_sync");
    made_string(file, 8, "program(load+0x12)");
    made_string(file, 9, "square");
    made_string(file, 10, "step");
    made_chunk(file, LEATI_TRACE_CHUNK_THREADS, 0, 0, &thread, 1, sizeof thread);
    made_chunk(file, LEATI_TRACE_CHUNK_DEVICES, 0, 0, &device, 1, sizeof device);
    made_chunk(file, LEATI_TRACE_CHUNK_LANES, 0, 0, &lane, 1, sizeof lane);
    made_string(file, 11, "a pool");
    made_chunk(file, LEATI_TRACE_CHUNK_POOLS, 0, 0, pools, 2, sizeof pools[0]);
    made_chunk(file, LEATI_TRACE_CHUNK_POOL_MEMORY, 0, 0, memory, 4, sizeof memory[0]);
    made_chunk(file, LEATI_TRACE_CHUNK_OPS, 1, 40, ops, 5, sizeof ops[0]);
    made_chunk(file, LEATI_TRACE_CHUNK_TIMES, 0, 0, &times, 1, sizeof times);
    made_chunk(file, LEATI_TRACE_CHUNK_TIMES, 0, 0, &foreign, 1, sizeof foreign);
    made_chunk(file, (enum leati_trace_chunk_type)77, 0, 0, &foreign, 1, sizeof foreign); /* of a later version */
    made_chunk(file, LEATI_TRACE_CHUNK_STATE, 0, 0, &state, 1, sizeof state);
}

/* A trace of PyTorch's profiler with the same work. */
static const char made_kineto[] =
    "{\"schemaVersion\": 1, \"deviceProperties\": [{\"id\": 0, \"name\": \"GPU\"}], \"distributedInfo\": {},\n"
    "\"displayTimeUnit\": \"ms\", \"with_flops\": 0, \"traceEvents\": [\n"
    "{\"ph\": \"X\", \"cat\": \"user_annotation\", \"name\": \"step\", \"pid\": 1, \"tid\": 7, \"ts\": 1.05, \"dur\": "
    "3},\n"
    "{\"ph\": \"X\", \"cat\": \"cuda_runtime\", \"name\": \"cudaMalloc\", \"pid\": 1, \"tid\": 7, \"ts\": 1.1, "
    "\"dur\": 0.05, \"args\": {\"correlation\": 3}},\n"
    "{\"ph\": \"X\", \"cat\": \"cuda_runtime\", \"name\": \"cudaMemcpy\", \"pid\": 1, \"tid\": 7, \"ts\": 1.2, "
    "\"dur\": 0.02, \"args\": {\"correlation\": 4}},\n"
    "{\"ph\": \"X\", \"cat\": \"gpu_memcpy\", \"name\": \"Memcpy HtoD (Pageable -> Device)\", \"pid\": 0, \"tid\": 3, "
    "\"ts\": 1.25, \"dur\": 0.2, \"args\": {\"device\": 0, \"stream\": 3, \"correlation\": 4, \"bytes\": 4096}},\n"
    "{\"ph\": \"X\", \"cat\": \"kernel\", \"name\": \"square\", \"pid\": 0, \"tid\": 3, \"ts\": 1.48, \"dur\": 2, "
    "\"args\": {\"device\": 0, \"stream\": 3, \"correlation\": 5}},\n"
    "{\"ph\": \"X\", \"cat\": \"cuda_runtime\", \"name\": \"cudaLaunchKernel\", \"pid\": 1, \"tid\": 7, \"ts\": 1.46, "
    "\"dur\": 0.01, \"args\": {\"correlation\": 5}},\n"
    "{\"ph\": \"X\", \"cat\": \"cuda_runtime\", \"name\": \"cudaDeviceSynchronize\", \"pid\": 1, \"tid\": 7, \"ts\": "
    "1.5, \"dur\": 2.048, \"args\": {\"correlation\": 6}},\n"
    "{\"ph\": \"X\", \"cat\": \"cpu_op\", \"name\": \"aten::mul\", \"ts\": 1, \"dur\": 9},\n"
    "{\"ph\": \"i\", \"name\": \"Record Window End\", \"ts\": 90, \"s\": \"g\"}\n"
    "], \"traceName\": \"x\"}\n";

/* An export of nsys with the same work (tests/traces/make_nsys.py), without its first bytes being checked. Does
 * not add anything if this machine has no libsqlite3, which reads it. */
static inline bool made_nsys(struct made_file *file)
{
    char error[ACTIVITY_ERROR_MAX] = "", bytes[4096];
    struct activity_log *log = activity_read(TEST_NSYS, error);
    FILE *from = fopen(TEST_NSYS, "re");
    size_t got;

    if (!log && strstr(error, "libsqlite3.so.0, which cannot be loaded")) {
        fclose(from);
        return false;
    }
    activity_log_destroy(log);
    while ((got = fread(bytes, 1, sizeof bytes, from)) > 0)
        made_put(file, bytes, got);
    fclose(from);
    return true;
}

/* Reads bytes as a file. */
static inline struct activity_log *made_read(const void *bytes, size_t count, char error[ACTIVITY_ERROR_MAX])
{
    char path[TEMPORARY_PATH];
    int fd = temporary_file(path);
    struct activity_log *log;

    if (fd < 0 || write(fd, bytes, count) != (ssize_t)count || close(fd) != 0)
        abort();
    log = activity_read(path, error);
    unlink(path);
    return log;
}

#endif
