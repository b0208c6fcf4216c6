/*
 * bench_run.c - manages the state that all groups of "leat bench" share: the device, streams, buffers, failures
 * and progress.
 */
#include "bench.h"
#include "bench_verify.h"
#include "cli.h"
#include "text.h"
#include "text_json.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { WORKERS_MAX = 64, BLOCK_THREADS = 256, BLOCKS_PER_UNIT = 32 };

bool bench_check(struct bench *bench, leat_status status)
{
    if (status == LEAT_OK)
        return true;
    pthread_mutex_lock(&bench->error_lock);
    if (!bench->error[0])
        snprintf(bench->error, sizeof bench->error, "%s",
                 status == LEAT_NOT_READY ? leat_status_text(status) : leat_last_error());
    pthread_mutex_unlock(&bench->error_lock);
    return false;
}

bool bench_check_peer(struct bench *bench, const char *what, int result)
{
    if (result == 0)
        return true;
    pthread_mutex_lock(&bench->error_lock);
    if (!bench->error[0])
        snprintf(bench->error, sizeof bench->error, "the driver's own call for comparison failed: %s, error %d",
                 what, result);
    pthread_mutex_unlock(&bench->error_lock);
    return false;
}

static bool out_of_memory(struct bench *bench)
{
    snprintf(bench->error, sizeof bench->error, "out of host memory");
    return false;
}

void bench_note(struct bench *bench, const char *format, ...)
{
    char text[BENCH_ERROR_MAX + 256];
    va_list list;

    va_start(list, format);
    vsnprintf(text, sizeof text, format, list);
    va_end(list);
    if (json_array_append_new(bench->notes, text_json(text)) != 0)
        bench->failed = true;
}

void bench_case_failed(struct bench *bench, const char *group, const char *name, uint64_t bytes)
{
    const char *comma = bytes ? ", " : "";
    char size[TEXT_MAX] = "";

    if (bytes)
        text_bytes(size, bytes);
    bench_progress(bench, NULL, NULL, 0);
    cli_complain("bench: %s, %s%s%s: %s", group, name, comma, size, bench->error);
    bench_note(bench, "%s, %s%s%s: did not run to its end: %s", group, name, comma, size, bench->error);
    bench->failed = true;
    bench->error[0] = '\0';

    /* Wait for the work of the failed case, so that it does not run during the next case. */
    (void)leat_device_synchronize(bench->device);
}

void bench_progress(struct bench *bench, const char *group, const char *name, uint64_t bytes)
{
    char size[TEXT_MAX], done[64];

    if (!bench->progress)
        return;
    if (!group) {
        fputs("\r\033[K", stderr);
        fflush(stderr);
        return;
    }
    bench->row_count++;
    if (bench->row_total)
        snprintf(done, sizeof done, "row %u/%u", bench->row_count,
                 bench->row_count > bench->row_total ? bench->row_count : bench->row_total);
    else
        snprintf(done, sizeof done, "group %u/%u, row %u", bench->group_done + 1, bench->group_total,
                 bench->row_count);
    fprintf(stderr, "\r\033[K%s  %s: %s%s%s", done, group, name, bytes ? ", " : "",
            bytes ? text_bytes(size, bytes) : "");
    fflush(stderr);
}

bool bench_launch(struct bench *bench, unsigned stream, leat_kernel *kernel, uint64_t count, void *const *args,
                  unsigned argument_count)
{
    uint64_t blocks = (count + BLOCK_THREADS - 1) / BLOCK_THREADS;
    uint64_t most = (uint64_t)bench->info.compute_units * BLOCKS_PER_UNIT;

    /* Limit the blocks to a number that keeps the device busy. The kernels loop over the elements, so this is
     * enough. */
    if (blocks > most && most > 0)
        blocks = most;
    return bench_check(bench, leat_launch(bench->streams[stream], kernel, leat_dim((uint32_t)blocks, 1, 1),
                                          leat_dim(BLOCK_THREADS, 1, 1), 0, args, argument_count));
}

static bool make_buffer(struct bench *bench, enum bench_buffer which)
{
    void **ptr = &bench->buffers[which];

    switch (which) {
    case BENCH_PINNED_IN:
    case BENCH_PINNED_OUT:
        return bench_check(bench, leat_memory_alloc(bench->device, LEAT_KIND_PINNED, bench->largest, ptr));
    case BENCH_PAGEABLE_IN:
    case BENCH_PAGEABLE_OUT:
        *ptr = malloc(bench->largest);
        return *ptr ? true : out_of_memory(bench);
    default:
        return bench_check(bench, leat_memory_alloc(bench->device, LEAT_KIND_DEVICE, bench->largest, ptr));
    }
}

void *bench_buffer(struct bench *bench, enum bench_buffer which)
{
    bool on_device = which >= BENCH_DEVICE_A;

    if (bench->buffers[which])
        return bench->buffers[which];
    if (!make_buffer(bench, which))
        return NULL;

    /* Touch all pages now, so that no sample includes page faults. */
    if (!on_device)
        bench_fill_host(bench, bench->buffers[which], bench->largest, bench_new_seed(bench));
    else if (!bench_fill_device(bench, bench->buffers[which], bench->largest, bench_new_seed(bench)))
        return NULL;
    return bench->buffers[which];
}

static void free_buffers(struct bench *bench)
{
    free(bench->buffers[BENCH_PAGEABLE_IN]);
    free(bench->buffers[BENCH_PAGEABLE_OUT]);
    leat_memory_free(bench->buffers[BENCH_PINNED_IN]);
    leat_memory_free(bench->buffers[BENCH_PINNED_OUT]);
    leat_memory_free(bench->buffers[BENCH_DEVICE_A]);
    leat_memory_free(bench->buffers[BENCH_DEVICE_B]);
    leat_memory_free(bench->buffers[BENCH_DEVICE_C]);
    memset(bench->buffers, 0, sizeof bench->buffers);
}

void bench_resize(struct bench *bench, size_t largest)
{
    free_buffers(bench);
    bench->largest = largest;
}

uint64_t bench_available_memory(void)
{
    FILE *file = fopen("/proc/meminfo", "re");
    char line[128];
    unsigned long long kib = 0;

    if (!file)
        return UINT64_MAX;
    while (fgets(line, sizeof line, file))
        if (sscanf(line, "MemAvailable: %llu kB", &kib) == 1)
            break;
    fclose(file);
    return kib ? (uint64_t)kib * KIB : UINT64_MAX;
}

/* Chooses the largest size with which all buffers fit in memory and some memory stays free. */
static bool choose_largest(struct bench *bench)
{
    uint64_t host_bytes = bench_available_memory();
    uint64_t device_bytes;
    char size[TEXT_MAX];
    size_t wanted = bench->options->quick ? 256 * MIB : GIB;

    if (!bench_check(bench, leat_device_memory(bench->device, &device_bytes, NULL)))
        return false;
    /* The memory of the CPU device is host memory too, so leave room for the host's buffers. */
    if (!strcmp(bench->info.driver, "cpu") && host_bytes / 3 < device_bytes)
        device_bytes = host_bytes / 3;
    bench->largest = wanted;
    while (bench->largest > MIB && (bench->largest > device_bytes / 5 || bench->largest > host_bytes / 8))
        bench->largest /= 2;
    if (bench->largest < wanted)
        bench_note(bench, "sizes above %s are left out: there is not enough free memory for the buffers",
                   text_bytes(size, bench->largest));
    return true;
}

static bool get_kernels(struct bench *bench)
{
    leat_module *module;

    return bench_check(bench, leat_module_builtin(bench->device, &module)) &&
           bench_check(bench, leat_kernel_get(module, "leat_pattern_u64", &bench->pattern)) &&
           bench_check(bench, leat_kernel_get(module, "leat_verify_u64", &bench->verify)) &&
           bench_check(bench, leat_kernel_get(module, "leat_vector_add_f32", &bench->vector_add)) &&
           bench_check(bench, leat_kernel_get(module, "leat_add_u32", &bench->add));
}

static bool make_streams(struct bench *bench)
{
    unsigned i;

    for (i = 0; i < BENCH_STREAM_COUNT; i++)
        if (!bench_check(bench, leat_stream_create(bench->device, &bench->streams[i])) ||
            !bench_check(bench, leat_stream_create(bench->device, &bench->driver_streams[i])) ||
            !bench_check(bench, leat_stream_native(bench->driver_streams[i], &bench->native_streams[i])))
            return false;
    return true;
}

static bool make_workers(struct bench *bench)
{
    long online = sysconf(_SC_NPROCESSORS_ONLN);
    unsigned threads = online > 0 ? (unsigned)online : 1;

    /* On the CPU device, compare with as many threads as the device uses. */
    if (!strcmp(bench->info.driver, "cpu") && bench->info.compute_units)
        threads = bench->info.compute_units;
    bench->workers = bench_workers_create(threads < WORKERS_MAX ? threads : WORKERS_MAX);
    bench->pair = bench_workers_create(2);
    if (bench->workers && bench->pair)
        return true;
    snprintf(bench->error, sizeof bench->error, "the threads that the measurements need cannot be started");
    return false;
}

static void make_peer(struct bench *bench)
{
    const char *why = "leat bench knows no calls of this driver to compare with";

    if (!strcmp(bench->info.driver, "cpu"))
        bench->peer = bench_peer_cpu(bench->workers, &bench->info, &why);
    else if (!strcmp(bench->info.driver, "cuda"))
        bench->peer = bench_peer_cuda(bench->device, true, &why);
    if (!bench->peer)
        bench_note(bench, "no driver figures: %s", why);
}

bool bench_open(struct bench *bench, const struct bench_options *options)
{
    memset(bench, 0, sizeof *bench);
    bench->options = options;
    bench->progress = isatty(STDERR_FILENO);
    pthread_mutex_init(&bench->error_lock, NULL);
    bench->info = (leat_device_info)LEAT_DEVICE_INFO_INIT;
    bench->rows = json_array();
    bench->notes = json_array();
    if (!bench->rows || !bench->notes)
        return out_of_memory(bench);
    if (!bench_check(bench, leat_device_open(options->device, &bench->device)) ||
        !bench_check(bench, leat_device_get_info(bench->device, &bench->info)) || !make_workers(bench) ||
        !make_streams(bench) || !get_kernels(bench) || !choose_largest(bench) ||
        !bench_check(bench, leat_memory_alloc(bench->device, LEAT_KIND_DEVICE, sizeof(uint64_t),
                                              (void **)&bench->wrong_device)) ||
        !bench_check(bench, leat_memory_alloc(bench->device, LEAT_KIND_PINNED, sizeof(uint64_t),
                                              (void **)&bench->wrong_host)))
        return false;
    make_peer(bench);
    return true;
}

void bench_close(struct bench *bench)
{
    unsigned i;

    if (bench->peer)
        bench->peer->destroy(bench->peer);
    free_buffers(bench);
    leat_memory_free(bench->wrong_device);
    leat_memory_free(bench->wrong_host);
    for (i = 0; i < BENCH_STREAM_COUNT; i++) {
        leat_stream_destroy(bench->streams[i]);
        leat_stream_destroy(bench->driver_streams[i]);
    }
    bench_workers_destroy(bench->pair);
    bench_workers_destroy(bench->workers);
    if (bench->device && leat_device_close(bench->device) != LEAT_OK) {
        cli_complain("bench: %s", leat_last_error());
        bench->failed = true;
    }
    json_decref(bench->notes);
    json_decref(bench->rows);
    pthread_mutex_destroy(&bench->error_lock);
}
