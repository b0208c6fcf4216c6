/*
 * bench_file.c - measures the group "file": leat reads a file to the device and writes it from the device. This is
 * compared with threads that read and write the same file with ordinary memory, and with fio where it is
 * installed.
 */
#include "bench_child.h"
#include "bench_copy.h"
#include "bench_verify.h"
#include "temporary_file.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

/* The place of the file's bytes: where a read begins, and where a write must end. */
enum file_place { FILE_CACHED, FILE_IN_MEMORY, FILE_ON_DISK, FILE_PLACE_COUNT };

static const struct place_text {
    const char *part;
    const char *names[2]; /* [0]: reads, [1]: writes */
} place_texts[FILE_PLACE_COUNT] = {
    [FILE_CACHED] = {"in the page cache", {"read, in the page cache", "write, to the page cache"}},
    [FILE_IN_MEMORY] = {"in a file system in memory (/dev/shm)", {"read, tmpfs", "write, tmpfs"}},
    [FILE_ON_DISK] = {"on the disk", {"read, from the disk", "write, to the disk"}},
};

/* Bytes that a thread moves with one system call. */
static const size_t piece_bytes = 4 * MIB;

struct file_case {
    struct bench *bench;
    enum file_place place;
    bool write;
    size_t bytes;
    leat_file *file;
    int fd;       /* the same file, for the threads */
    void *device; /* device memory, used by leat's side */
    char *host;   /* ordinary memory, used by the threads' side; all pages were touched before */
    double cpu_seconds[2];
    unsigned cpu_samples[2];

    /* The work of the threads in the current sample. */
    bool threads_write;
    atomic_size_t next; /* the next piece to move; relaxed, because it only distributes the pieces */
    /* The first error of a thread, or 0. Relaxed, because it is read only after all threads have finished. */
    atomic_int thread_error;
};

static bool system_failed(struct bench *bench, const char *what, int error)
{
    snprintf(bench->error, sizeof bench->error, "%s: %s", what, strerror(error));
    return false;
}

/* ---- the peer: threads with pread() and pwrite() ---- */

static void move_pieces(void *argument, unsigned index, unsigned count)
{
    struct file_case *c = argument;
    size_t begin;

    (void)index;
    (void)count;
    while ((begin = atomic_fetch_add_explicit(&c->next, piece_bytes, memory_order_relaxed)) < c->bytes) {
        size_t end = c->bytes - begin < piece_bytes ? c->bytes : begin + piece_bytes;

        while (begin < end) {
            ssize_t some = c->threads_write ? pwrite(c->fd, c->host + begin, end - begin, (off_t)begin)
                                            : pread(c->fd, c->host + begin, end - begin, (off_t)begin);

            if (some > 0) {
                begin += (size_t)some;
            } else if (some == 0 || errno != EINTR) {
                atomic_store_explicit(&c->thread_error, some ? errno : EIO, memory_order_relaxed);
                return;
            }
        }
    }
}

static bool move_by_threads(struct file_case *c, bool write)
{
    int error;

    c->threads_write = write;
    atomic_store_explicit(&c->next, 0, memory_order_relaxed);
    atomic_store_explicit(&c->thread_error, 0, memory_order_relaxed);
    if (c->bytes > piece_bytes)
        bench_workers_run(c->bench->workers, move_pieces, c);
    else
        move_pieces(c, 0, 1);
    error = atomic_load_explicit(&c->thread_error, memory_order_relaxed);
    return !error || system_failed(c->bench, write ? "pwrite" : "pread", error);
}

/* ---- samples ---- */

/* Writes the file back and removes its pages from the page cache. */
static bool evict(struct file_case *c)
{
    int error;

    if (fdatasync(c->fd) != 0)
        return system_failed(c->bench, "fdatasync", errno);
    error = posix_fadvise(c->fd, 0, 0, POSIX_FADV_DONTNEED);
    return !error || system_failed(c->bench, "posix_fadvise", error);
}

static bool prepare(struct file_case *c)
{
    return c->place != FILE_ON_DISK || c->write || evict(c);
}

static bool move_by_leat(struct file_case *c)
{
    leat_stream *stream = c->bench->streams[0];
    leat_status status = c->write ? leat_file_write(stream, c->file, 0, c->device, c->bytes)
                                  : leat_file_read(stream, c->device, c->file, 0, c->bytes);

    if (status == LEAT_OK && c->write && c->place == FILE_ON_DISK)
        status = leat_file_sync(stream, c->file);
    return bench_check(c->bench, status) && bench_check(c->bench, leat_stream_synchronize(stream));
}

static bool sample_file(void *state, enum bench_side side, double *seconds)
{
    struct file_case *c = state;
    double begin, cpu;

    if (!prepare(c))
        return false;
    cpu = bench_cpu_now();
    begin = bench_now();
    if (side == BENCH_LEAT) {
        if (!move_by_leat(c))
            return false;
    } else {
        if (!move_by_threads(c, c->write))
            return false;
        if (c->write && c->place == FILE_ON_DISK && fsync(c->fd) != 0)
            return system_failed(c->bench, "fsync", errno);
    }
    *seconds = bench_now() - begin;
    c->cpu_seconds[side] += bench_cpu_now() - cpu;
    c->cpu_samples[side]++;
    return true;
}

/* Moves new bytes by leat and checks that they arrived. */
static bool verify(struct file_case *c, bool *verified)
{
    struct bench *bench = c->bench;
    uint64_t seed = bench_new_seed(bench);

    if (c->write) {
        if (!bench_fill_device(bench, c->device, c->bytes, seed) || !move_by_leat(c))
            return false;
        bench_poison_host(bench, c->host, c->bytes);
        if (!move_by_threads(c, false))
            return false;
        *verified = bench_host_holds(bench, c->host, c->bytes, seed);
        return true;
    }
    bench_fill_host(bench, c->host, c->bytes, seed);
    return move_by_threads(c, true) && prepare(c) && move_by_leat(c) &&
           bench_device_holds(bench, c->device, c->bytes, seed, verified);
}

/* ---- bounds ---- */

static bool is_cpu(const struct bench *bench)
{
    return !strcmp(bench->info.driver, "cpu");
}

/* Measures a copy of the case's bytes between pinned memory and the device, and returns its rate. Returns NAN on
 * the CPU device, where file reads and writes need no such copy. */
static double measure_pinned(struct file_case *c)
{
    struct bench_result result;
    struct copy_case copy;

    if (is_cpu(c->bench))
        return NAN;
    if (!copy_case_share(&copy, c->bench, c->write ? COPY_OUT : COPY_IN, c->bytes) ||
        !bench_measure_for(c->bench, copy_case_sample, &copy, false, 0.1, &result))
        return NAN;
    return (double)c->bytes / result.leat.median * 1e-9;
}

/* Runs fio on the same file: direct access by io_uring, with 32 blocks of 4 MiB in flight. Returns the rate, or
 * NAN with *why set if fio cannot run. */
static double measure_fio(struct file_case *c, const char **why)
{
    char file[64], size[32];
    struct bench_child child = {.program = "fio",
                                .words = {"--name=leat", file, size, c->write ? "--rw=write" : "--rw=read",
                                          "--direct=1", "--ioengine=io_uring", "--bs=4M", "--iodepth=32",
                                          c->write ? "--end_fsync=1" : "--readonly", "--output-format=json"}};
    double rate = NAN;
    json_t *json, *job;

    *why = NULL;
    /* Let fio open the descriptor of this process, because the file has no name any more. */
    snprintf(file, sizeof file, "--filename=/proc/%ld/fd/%d", (long)getpid(), c->fd);
    snprintf(size, sizeof size, "--size=%zu", c->bytes);
    json = bench_child_run(c->bench, &child);
    job = json_array_get(json_object_get(json, "jobs"), 0);
    if (json_integer_value(json_object_get(job, "error")) == 0)
        rate = json_number_value(json_object_get(json_object_get(job, c->write ? "write" : "read"), "bw_bytes")) *
               1e-9;
    json_decref(json);
    if (rate > 0)
        return rate;
    *why = c->bench->error[0] ? c->bench->error : "it reports no rate";
    return NAN;
}

/* ---- rows ---- */

static double cpu_per_gb(const struct file_case *c, enum bench_side side)
{
    return c->cpu_seconds[side] / ((double)c->cpu_samples[side] * (double)c->bytes * 1e-9);
}

static void add_row(struct file_case *c, struct bench_rows *rows, const struct bench_result *result, bool verified)
{
    struct bench *bench = c->bench;
    const char *name = place_texts[c->place].names[c->write], *why;
    struct bench_row *row = bench_row_add(rows, "file", name, c->bytes, BENCH_GB_S);
    double threads = bench_figure(row, result->driver.median), pinned = measure_pinned(c), fio = NAN;

    row->part = place_texts[c->place].part;
    row->result = *result;
    row->verified = verified;
    if (c->place == FILE_ON_DISK) {
        fio = measure_fio(c, &why);
        if (!isfinite(fio) && rows->count == 1)
            bench_note(bench, "file: no figures of fio: %s", why);
        bench->error[0] = '\0';
    }
    row->bound = fmin(fmax(threads, fio), pinned); /* fmin() and fmax() ignore NAN */
    row->path = name;
    bench_row_extra(row, "threads_gb_s", threads);
    bench_row_extra(row, "ratio_to_threads", bench_figure(row, result->leat.median) / threads);
    bench_row_extra(row, "pinned_gb_s", pinned);
    bench_row_extra(row, "fio_gb_s", fio);
    bench_row_extra(row, "p99", bench_figure(row, result->leat.p99));
    bench_row_extra(row, "cpu_s_per_gb", cpu_per_gb(c, BENCH_LEAT));
    bench_row_extra(row, "threads_cpu_s_per_gb", cpu_per_gb(c, BENCH_DRIVER));
}

static void measure(struct file_case *c, struct bench_rows *rows)
{
    struct bench *bench = c->bench;
    const char *name = place_texts[c->place].names[c->write];
    struct bench_result result;
    bool verified = false;

    memset(c->cpu_seconds, 0, sizeof c->cpu_seconds);
    memset(c->cpu_samples, 0, sizeof c->cpu_samples);
    c->device = bench_buffer(bench, c->write ? BENCH_DEVICE_B : BENCH_DEVICE_A);
    c->host = bench_buffer(bench, BENCH_PAGEABLE_IN);
    bench_progress(bench, "file", name, c->bytes);
    if (!c->device || !c->host || !move_by_threads(c, true) ||
        !bench_measure(bench, sample_file, c, true, &result) || !verify(c, &verified)) {
        bench_case_failed(bench, "file", name, c->bytes);
        return;
    }
    add_row(c, rows, &result, verified);
}

/* ---- the file ---- */

static const char *folder_of(enum file_place place)
{
    return place == FILE_IN_MEMORY ? "/dev/shm" : cli_temporary_folder();
}

/* Returns true if the file's bytes can be removed from the page cache, which is impossible for a file system in
 * memory. */
static bool can_evict(struct file_case *c)
{
    char byte = 0;
    struct iovec part = {&byte, 1};

    /* Write a byte first, because bytes that were never written are read without the disk. */
    return pwrite(c->fd, &byte, 1, 0) == 1 && evict(c) && preadv2(c->fd, &part, 1, 0, RWF_NOWAIT) < 0 &&
           errno == EAGAIN;
}

/* Makes a file of zeros without a name, as large as the largest case. If that fails, adds a note and returns
 * false. */
static bool make_file(struct file_case *c, size_t bytes)
{
    char path[4096];
    int error;

    snprintf(path, sizeof path, "%s/leat-bench-XXXXXX", folder_of(c->place));
    c->fd = mkostemp(path, O_CLOEXEC);
    error = c->fd < 0 ? errno : posix_fallocate(c->fd, 0, (off_t)bytes);
    if (!error && !bench_check(c->bench, leat_file_open(path, LEAT_FILE_READ | LEAT_FILE_WRITE, &c->file)))
        bench_case_failed(c->bench, "file", "open", 0);
    if (c->fd >= 0)
        unlink(path);
    if (error)
        bench_note(c->bench, "file: no rows of files %s: a file of %zu bytes cannot be made in %s: %s",
                   place_texts[c->place].part, bytes, folder_of(c->place), strerror(error));
    if (c->fd < 0 || !c->file)
        return false;
    c->bytes = bytes;
    if (c->place != FILE_ON_DISK || can_evict(c))
        return true;
    if (!c->write)
        bench_note(c->bench, "file: no rows of files on the disk: %s keeps its files in the page cache",
                   folder_of(c->place));
    c->bench->error[0] = '\0';
    return false;
}

static void measure_place(struct bench *bench, enum file_place place)
{
    static const size_t sizes[] = {MIB, 16 * MIB, 256 * MIB, GIB};
    static const size_t quick_sizes[] = {MIB, 128 * MIB};
    static const size_t disk_sizes[] = {64 * MIB, 512 * MIB};
    static const size_t quick_disk_sizes[] = {32 * MIB};
    bool on_disk = place == FILE_ON_DISK, quick = bench->options->quick;
    const size_t *list = on_disk ? (quick ? quick_disk_sizes : disk_sizes) : quick ? quick_sizes : sizes;
    unsigned count = on_disk ? (quick ? 1 : 2) : quick ? 2 : 4, i;
    size_t begin = json_array_size(bench->rows), largest = 0;
    struct file_case c = {.bench = bench, .place = place, .fd = -1};

    if (bench->options->size_count) {
        list = bench->options->sizes;
        count = bench->options->size_count;
    }
    for (i = 0; i < count; i++)
        if (list[i] <= bench->largest && list[i] > largest)
            largest = list[i];
    for (int write = 0; write < 2 && largest; write++) {
        struct bench_rows rows = {.count = 0};

        c.write = write;
        c.file = NULL;
        if (make_file(&c, largest))
            for (i = 0; i < count; i++) {
                c.bytes = list[i];
                if (c.bytes <= bench->largest)
                    measure(&c, &rows);
            }
        leat_file_close(c.file);
        if (c.fd >= 0)
            close(c.fd);
        bench_rows_commit(bench, &rows);
    }
    bench_settle_bounds(bench, begin);
}

void bench_file_group(struct bench *bench)
{
    for (int place = 0; place < FILE_PLACE_COUNT; place++)
        measure_place(bench, (enum file_place)place);
}
