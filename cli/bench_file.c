/*
 * bench_file.c - measures the group "file": leat reads a file to the device and writes it from the device. This is
 * compared with threads that read and write the same file with ordinary memory, and with fio where it is
 * installed.
 */
#include "bench_child.h"
#include "bench_copy.h"
#include "bench_verify.h"
#include "temporary_file.h"
#include "text.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

/* The place of the file's bytes: where a read begins, and where a write must end. */
enum file_place { FILE_CACHED, FILE_IN_MEMORY, FILE_ON_DISK, FILE_PLACE_COUNT };

/* How a file is read or written: at once, after a rest (in which threads fall asleep and caches are filled with
 * other bytes), or with LEAT_FILE_DIRECT. */
enum file_manner { FILE_PLAIN, FILE_RESTED, FILE_DIRECT, FILE_MANNER_COUNT };

static const struct place_text {
    const char *part;
    const char *names[FILE_MANNER_COUNT][2]; /* [0]: reads, [1]: writes; NULL: not measured */
} place_texts[FILE_PLACE_COUNT] = {
    [FILE_CACHED] = {"in the page cache",
                     {{"read, in the page cache", "write, to the page cache"},
                      {"read, in the page cache, after 20 ms", NULL},
                      {NULL, NULL}}},
    [FILE_IN_MEMORY] = {"in a file system in memory (/dev/shm)",
                        {{"read, tmpfs", "write, tmpfs"}, {"read, tmpfs, after 20 ms", NULL}, {NULL, NULL}}},
    [FILE_ON_DISK] = {"on the disk",
                      {{"read, from the disk", "write, to the disk"},
                       {"read, from the disk, after 20 ms", NULL},
                       {NULL, "write, to the disk, past the cache"}}},
};

enum { REST_MS = 20, FIO_RUNS = 3 };

/* fio reports whole milliseconds, so its rates of shorter files say nothing. */
static const size_t fio_least_bytes = 16 * MIB;

/* Bytes that a thread moves with one system call. */
static const size_t piece_bytes = 4 * MIB;

/* How leat moved the bytes of a row, for its record. */
struct file_method {
    struct file_method *next;
    char protocol[200], access[400];
};

struct file_case {
    struct bench *bench;
    struct file_method *methods; /* of the rows that were not committed yet */
    enum file_place place;
    enum file_manner manner;
    bool write;
    size_t bytes;
    leat_file *file;
    leat_file *direct; /* the same file, opened with LEAT_FILE_DIRECT; NULL: that is not possible */
    int fd;       /* the same file, for the threads */
    void *device; /* device memory, used by leat's side */
    char *host;   /* ordinary memory, used by the threads' side; all pages were touched before */
    double cpu_seconds[2];
    unsigned samples[2]; /* the first of each side, which warms up, is not in cpu_seconds */

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
    leat_file *file = c->manner == FILE_DIRECT ? c->direct : c->file;
    leat_status status = c->write ? leat_file_write(stream, file, 0, c->device, c->bytes)
                                  : leat_file_read(stream, c->device, file, 0, c->bytes);

    if (status == LEAT_OK && c->write && c->place == FILE_ON_DISK)
        status = leat_file_sync(stream, file);
    return bench_check(c->bench, status) && bench_check(c->bench, leat_stream_synchronize(stream));
}

static bool sample_file(void *state, enum bench_side side, double *seconds)
{
    const struct timespec rest = {.tv_nsec = REST_MS * 1000000L};
    struct file_case *c = state;
    double begin, cpu;

    if (!prepare(c))
        return false;
    if (c->manner == FILE_RESTED)
        nanosleep(&rest, NULL);
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
    if (c->samples[side]++)
        c->cpu_seconds[side] += bench_cpu_now() - cpu;
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

/* The engines of fio, in order of preference; the system may refuse the first ones. */
static const struct fio_engine {
    const char *name, *word, *depth;
} fio_engines[] = {{"io_uring", "--ioengine=io_uring", "--iodepth=32"},
                   {"libaio", "--ioengine=libaio", "--iodepth=32"},
                   {"psync", "--ioengine=psync", "--iodepth=1"}};

enum { FIO_ENGINE_COUNT = sizeof fio_engines / sizeof fio_engines[0] };

struct fio_figures {
    double gb_s, cpu_s_per_gb; /* NAN: fio did not run */
    const char *engine;
};

/* Runs fio once on the same file: direct access, blocks of 4 MiB. Returns false with bench->error set if it cannot
 * run. */
static bool run_fio(struct file_case *c, const struct fio_engine *engine, struct fio_figures *figures)
{
    char file[64], size[32];
    struct bench_child child = {.program = "fio",
                                .words = {"--name=leat", file, size, c->write ? "--rw=write" : "--rw=read",
                                          "--direct=1", engine->word, "--bs=4M", engine->depth,
                                          c->write ? "--end_fsync=1" : "--readonly", "--output-format=json"}};
    json_t *json, *job, *moved;
    double share, seconds, bytes;

    /* Let fio open the descriptor of this process, because the file has no name any more. */
    snprintf(file, sizeof file, "--filename=/proc/%ld/fd/%d", (long)getpid(), c->fd);
    snprintf(size, sizeof size, "--size=%zu", c->bytes / (4 * MIB) * (4 * MIB));
    json = bench_child_run(c->bench, &child);
    job = json_array_get(json_object_get(json, "jobs"), 0);
    moved = json_object_get(job, c->write ? "write" : "read");
    figures->gb_s = json_number_value(json_object_get(moved, "bw_bytes")) * 1e-9;
    /* fio reports its processor time as a share of the job's time. */
    share =
        json_number_value(json_object_get(job, "usr_cpu")) + json_number_value(json_object_get(job, "sys_cpu"));
    seconds = json_number_value(json_object_get(job, "job_runtime")) * 1e-3;
    bytes = json_number_value(json_object_get(moved, "io_bytes"));
    figures->cpu_s_per_gb = bytes > 0 ? share / 100 * seconds / (bytes * 1e-9) : NAN;
    figures->engine = engine->name;
    if (json && (json_integer_value(json_object_get(job, "error")) != 0 || !(figures->gb_s > 0))) {
        snprintf(c->bench->error, sizeof c->bench->error, "fio reports no rate");
        figures->gb_s = NAN;
    }
    json_decref(json);
    return figures->gb_s > 0;
}

static int by_rate(const void *a, const void *b)
{
    const struct fio_figures *x = a, *y = b;

    return (x->gb_s > y->gb_s) - (x->gb_s < y->gb_s);
}

/* Returns the run of fio with the median rate, by the first engine that the system allows. If none runs, gb_s is
 * NAN and bench->error says why. */
static struct fio_figures measure_fio(struct file_case *c)
{
    struct fio_figures runs[FIO_RUNS] = {{.gb_s = NAN, .cpu_s_per_gb = NAN}};
    unsigned count = c->bench->options->quick ? 1 : FIO_RUNS, engine = 0;

    for (unsigned i = 0; i < count; i++)
        while (!run_fio(c, &fio_engines[engine], &runs[i]))
            if (i || ++engine == FIO_ENGINE_COUNT)
                return (struct fio_figures){.gb_s = NAN, .cpu_s_per_gb = NAN};
    c->bench->error[0] = '\0'; /* of an engine that the system refuses */
    qsort(runs, count, sizeof *runs, by_rate);
    return runs[count / 2];
}

/* ---- rows ---- */

static double cpu_per_gb(const struct file_case *c, enum bench_side side)
{
    return c->cpu_seconds[side] / ((double)(c->samples[side] - 1) * (double)c->bytes * 1e-9);
}

static void take_line(const char *text, const char *key, char *line, size_t room)
{
    size_t length;
    const char *at = text_line(text, key, &length);

    snprintf(line, room, "%.*s", (int)length, at);
}

/* Adds to the record how leat made the copies of a row. */
static void add_method(struct file_case *c, struct bench_row *row)
{
    leat_file *file = c->manner == FILE_DIRECT ? c->direct : c->file;
    struct file_method *method = malloc(sizeof *method);
    char text[4096], *cached;

    if (!method)
        return;
    method->next = c->methods;
    c->methods = method;
    if (leat_file_explain(c->bench->streams[0], c->device, file, 0, c->bytes, text, sizeof text) != LEAT_OK) {
        bench_note(c->bench, "file: leat_file_explain: %s", leat_last_error());
        return;
    }
    take_line(text, "\n  protocol ", method->protocol, sizeof method->protocol);
    take_line(text, c->write ? "\n  writes " : "\n  file ", method->access, sizeof method->access);
    /* The part before "; " is the share of the file that is in the system's cache now, after the row. */
    cached = c->write ? NULL : strstr(method->access, "; ");
    if (cached)
        memmove(method->access, cached + 2, strlen(cached + 2) + 1);
    bench_row_extra_text(row, "protocol", method->protocol);
    bench_row_extra_text(row, "access", method->access);
}

static void forget_methods(struct file_case *c)
{
    while (c->methods) {
        struct file_method *method = c->methods;

        c->methods = method->next;
        free(method);
    }
}

static void add_row(struct file_case *c, struct bench_rows *rows, const struct bench_result *result, bool verified)
{
    struct bench *bench = c->bench;
    const char *name = place_texts[c->place].names[c->manner][c->write];
    struct fio_figures fio = {.gb_s = NAN, .cpu_s_per_gb = NAN};
    struct bench_row *row = bench_row_add(rows, "file", name, c->bytes, BENCH_GB_S);
    double threads = bench_figure(row, result->driver.median), pinned = measure_pinned(c);
    double leat = bench_figure(row, result->leat.median);

    row->part = place_texts[c->place].part;
    row->result = *result;
    row->verified = verified;
    if (c->place == FILE_ON_DISK && c->manner != FILE_RESTED && c->bytes >= fio_least_bytes) {
        fio = measure_fio(c);
        if (!fio.engine)
            bench_note(bench, "file: no figures of fio: %s", bench->error);
        bench->error[0] = '\0';
    }
    row->bound = fmin(fmax(threads, fio.gb_s), pinned); /* fmin() and fmax() ignore NAN */
    row->path = name;
    bench_row_extra(row, "threads_gb_s", threads);
    bench_row_extra(row, "ratio_to_threads", leat / threads);
    bench_row_extra(row, "pinned_gb_s", pinned);
    bench_row_extra(row, "fio_gb_s", fio.gb_s);
    bench_row_extra(row, "ratio_to_fio", leat / fio.gb_s);
    bench_row_extra(row, "p99", bench_figure(row, result->leat.p99));
    bench_row_extra(row, "cpu_s_per_gb", cpu_per_gb(c, BENCH_LEAT));
    bench_row_extra(row, "threads_cpu_s_per_gb", cpu_per_gb(c, BENCH_DRIVER));
    bench_row_extra(row, "fio_cpu_s_per_gb", fio.cpu_s_per_gb);
    if (fio.engine)
        bench_row_extra_text(row, "fio_engine", fio.engine);
    add_method(c, row);
}

static void measure(struct file_case *c, struct bench_rows *rows)
{
    struct bench *bench = c->bench;
    const char *name = place_texts[c->place].names[c->manner][c->write];
    struct bench_result result;
    bool verified = false;

    memset(c->cpu_seconds, 0, sizeof c->cpu_seconds);
    memset(c->samples, 0, sizeof c->samples);
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

/* Opens the file for direct access too. Adds a note if that is not possible. */
static void open_direct(struct file_case *c)
{
    unsigned flags = LEAT_FILE_READ | LEAT_FILE_WRITE | LEAT_FILE_DIRECT;

    if (!bench_check(c->bench, leat_file_wrap(c->fd, flags, &c->direct)))
        bench_note(c->bench, "file: no rows past the cache: %s", c->bench->error);
    c->bench->error[0] = '\0';
}

/* Measures the sizes in each manner. After a rest only the two smallest sizes are of interest, because longer
 * reads wake all threads anyway. */
static void measure_manners(struct file_case *c, const size_t *sizes, unsigned count, struct bench_rows *rows)
{
    for (int manner = 0; manner < FILE_MANNER_COUNT; manner++) {
        c->manner = (enum file_manner)manner;
        if (!place_texts[c->place].names[manner][c->write])
            continue;
        if (manner == FILE_DIRECT)
            open_direct(c);
        if (manner == FILE_DIRECT && !c->direct)
            continue;
        for (unsigned i = 0; i < count && (manner != FILE_RESTED || i < 2); i++) {
            c->bytes = sizes[i];
            if (c->bytes <= c->bench->largest)
                measure(c, rows);
        }
    }
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
        c.file = c.direct = NULL;
        if (make_file(&c, largest))
            measure_manners(&c, list, count, &rows);
        leat_file_close(c.direct);
        leat_file_close(c.file);
        if (c.fd >= 0)
            close(c.fd);
        bench_rows_commit(bench, &rows);
        forget_methods(&c);
    }
    bench_settle_bounds(bench, begin);
}

void bench_file_group(struct bench *bench)
{
    for (int place = 0; place < FILE_PLACE_COUNT; place++)
        measure_place(bench, (enum file_place)place);
}
