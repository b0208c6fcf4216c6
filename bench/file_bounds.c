/*
 * file_bounds.c - measures reads of a file to one device or two beside their bounds, in turns in one process.
 *
 *     make file-bounds                                   # cuda:0 and, if it is there, cuda:1; a file in /dev/shm
 *     build/bench/file_bounds --devices cuda:0,cuda:1 --gib 4 --rounds 7 --threads 12,24,32
 *
 *     leat       leat_file_read() of the whole file to one device; of one half to each of two devices at once
 *     pieces     the same as calls of at most 64 MiB (--piece), one after the other on the device's stream
 *     threads    the same by plain means: each thread has two chunks of pinned memory of 4 MiB and a stream, reads
 *                the next 4 MiB of the file with pread() into one chunk while the other one is on its way
 *     host       threads that only pread() the same file into chunks of 4 MiB, without a device
 *     link       as many bytes of pinned memory, to one device or to both at once
 *
 * The bound of a read is the lower of host and link; threads shows what can be reached where both share the host's
 * memory and caches. Every byte that reached a device is verified. Rates are medians and lowest values in GB/s,
 * 10^9 bytes a second. Behind them are the processor seconds of the process for a gigabyte, as means: in the system,
 * where pread() copies, and in the program, where threads wait awake. The exit status is 1 if bytes were wrong or a call
 * failed.
 */
#include <leat/file.h>
#include <leat/leat.h>

#include <fcntl.h>
#include <getopt.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

enum { DEVICES = 2, THREADS_MAX = 64, CHUNKS = 2, ROUNDS_MAX = 50, COUNTS_MAX = 8 };
#define MIB ((size_t)1 << 20)
#define CHUNK_BYTES (4 * MIB)
#define SEED 4711

static struct {
    char *names[DEVICES];
    unsigned devices;
    bool chosen; /* by --devices */
    double gib;
    unsigned piece_mib, rounds;
    unsigned threads[COUNTS_MAX], counts; /* numbers of threads to try */
    const char *folder;
} options = {.names = {"cuda:0", "cuda:1"},
             .devices = 2,
             .gib = 4,
             .piece_mib = 64,
             .rounds = 7,
             .threads = {12, 24, 32},
             .counts = 3,
             .folder = "/dev/shm"};

static void must(leat_status status, const char *what)
{
    if (status == LEAT_OK)
        return;
    fprintf(stderr, "file_bounds: %s: %s\n", what, status == LEAT_NOT_READY ? "not ready" : leat_last_error());
    exit(1);
}
#define MUST(call) must(call, #call)

static void must_be(bool right, const char *what)
{
    if (right)
        return;
    perror(what);
    exit(1);
}

/* ---- the file and the devices ---- */

static struct target {
    leat_device *device;
    leat_stream *stream;
    leat_kernel *verify;
    char *memory;    /* of the device; as large as the file */
    char *pinned;    /* as large, for the row "link" */
    uint64_t *wrong; /* pinned: the number of wrong words */
} targets[DEVICES];

static size_t half_bytes; /* half of the file; a multiple of CHUNK_BYTES */
static int file_fd;
static leat_file *file;

/* Fills memory with the words of a half of the file from offset at on. Each half has a pattern of its own. */
static void fill_words(void *memory, size_t bytes, unsigned half, size_t at)
{
    for (size_t i = 0; i < bytes / 8; i++)
        ((uint64_t *)memory)[i] = leat_pattern_value(at / 8 + i, SEED + half);
}

static void make_file(void)
{
    char path[512];
    char *chunk = malloc(CHUNK_BYTES);

    must_be(chunk != NULL, "memory");
    half_bytes = (size_t)(options.gib * 512) * MIB / CHUNK_BYTES * CHUNK_BYTES;
    must_be(half_bytes > 0, "--gib");
    snprintf(path, sizeof path, "%s/leat-file-bounds-XXXXXX", options.folder);
    file_fd = mkstemp(path);
    must_be(file_fd >= 0, path);
    (void)unlink(path); /* so that the file ends with the process, whatever happens */
    for (unsigned half = 0; half < 2; half++)
        for (size_t at = 0; at < half_bytes; at += CHUNK_BYTES) {
            fill_words(chunk, CHUNK_BYTES, half, at);
            must_be(write(file_fd, chunk, CHUNK_BYTES) == (ssize_t)CHUNK_BYTES, "writing the file");
        }
    free(chunk);
    MUST(leat_file_wrap(file_fd, LEAT_FILE_READ, &file));
}

static bool has_device(const char *name)
{
    leat_device *device;

    return leat_device_open(name, &device) == LEAT_OK && leat_device_close(device) == LEAT_OK;
}

static void open_target(struct target *target, const char *name)
{
    leat_module *module;

    MUST(leat_device_open(name, &target->device));
    MUST(leat_stream_create(target->device, &target->stream));
    MUST(leat_memory_alloc(target->device, LEAT_KIND_DEVICE, 2 * half_bytes, (void **)&target->memory));
    MUST(leat_memory_alloc(target->device, LEAT_KIND_PINNED, 2 * half_bytes, (void **)&target->pinned));
    MUST(leat_memory_alloc(target->device, LEAT_KIND_PINNED, 8, (void **)&target->wrong));
    MUST(leat_module_builtin(target->device, &module));
    MUST(leat_kernel_get(module, "leat_verify_u64", &target->verify));
    for (unsigned half = 0; half < 2; half++)
        fill_words(target->pinned + half * half_bytes, half_bytes, half, 0);
}

/* The bytes of the file that a device gets. */
struct part {
    size_t from, bytes;
};

static struct part part_of(unsigned target, unsigned devices)
{
    return devices == 1 ? (struct part){0, 2 * half_bytes} : (struct part){target * half_bytes, half_bytes};
}

/* Fails if a device does not have its part of the file. Then clears it. */
static void check(unsigned devices)
{
    for (unsigned i = 0; i < devices; i++) {
        struct target *target = &targets[i];
        struct part part = part_of(i, devices);

        *target->wrong = 0;
        for (size_t at = part.from; at < part.from + part.bytes; at += half_bytes) {
            void *words = target->memory + at;
            uint64_t count = half_bytes / 8, seed = SEED + at / half_bytes;

            MUST(leat_launch(target->stream, target->verify, leat_dim(1024, 1, 1), leat_dim(256, 1, 1), 0,
                             (void *[]){&words, &count, &seed, &target->wrong}, 4));
        }
        MUST(leat_fill(target->stream, target->memory + part.from, 0, part.bytes));
        MUST(leat_stream_synchronize(target->stream));
        if (*target->wrong) {
            fprintf(stderr, "file_bounds: %llu words are wrong on %s\n", (unsigned long long)*target->wrong,
                    options.names[i]);
            exit(1);
        }
    }
}

/* ---- the ways ---- */

static void wait_for_targets(unsigned devices)
{
    for (unsigned i = 0; i < devices; i++)
        MUST(leat_stream_synchronize(targets[i].stream));
}

static void by_reads(unsigned devices, size_t most)
{
    for (size_t done = 0; done < part_of(0, devices).bytes; done += most)
        for (unsigned i = 0; i < devices; i++) {
            struct part part = part_of(i, devices);
            size_t at = part.from + done, left = part.bytes - done;

            MUST(leat_file_read(targets[i].stream, targets[i].memory + at, file, at, left < most ? left : most));
        }
    wait_for_targets(devices);
}

static void by_leat(unsigned devices, unsigned threads)
{
    (void)threads;
    by_reads(devices, SIZE_MAX / 2);
}

static void by_pieces(unsigned devices, unsigned threads)
{
    (void)threads;
    by_reads(devices, options.piece_mib * MIB);
}

static void by_link(unsigned devices, unsigned threads)
{
    (void)threads;
    for (unsigned i = 0; i < devices; i++) {
        struct part part = part_of(i, devices);

        MUST(leat_copy(targets[i].stream, targets[i].memory + part.from, targets[i].pinned + part.from,
                       part.bytes));
    }
    wait_for_targets(devices);
}

/* The threads of the rows "threads" and "host". They live for the whole program, and wait between the rounds. */
static struct reader {
    pthread_t thread;
    char *chunks[DEVICES][CHUNKS]; /* pinned */
    leat_stream *streams[DEVICES];
    leat_event *events[DEVICES][CHUNKS]; /* the chunk was copied */
} readers[THREADS_MAX];
static unsigned reader_count;

static struct {
    unsigned devices;            /* 0: only read */
    unsigned threads;            /* readers that take part */
    atomic_size_t next[DEVICES]; /* how many bytes of each part are taken */
} job;
static pthread_barrier_t begin, end;

static void read_chunks(struct reader *reader, unsigned index)
{
    unsigned target = job.devices == 2 ? index % 2 : 0;
    struct part part = part_of(target, job.devices ? job.devices : 1);

    for (unsigned turn = 0;; turn++) {
        size_t at = atomic_fetch_add(&job.next[target], CHUNK_BYTES);
        char *chunk = reader->chunks[target][turn % CHUNKS];
        leat_event *event = reader->events[target][turn % CHUNKS];

        if (at >= part.bytes)
            break;
        if (job.devices && turn >= CHUNKS)
            MUST(leat_event_synchronize(event));
        must_be(pread(file_fd, chunk, CHUNK_BYTES, (off_t)(part.from + at)) == (ssize_t)CHUNK_BYTES, "pread");
        if (!job.devices)
            continue;
        MUST(leat_copy(reader->streams[target], targets[target].memory + part.from + at, chunk, CHUNK_BYTES));
        MUST(leat_event_record(reader->streams[target], event));
    }
    if (job.devices)
        MUST(leat_stream_synchronize(reader->streams[target]));
}

static void *run_reader(void *argument)
{
    struct reader *reader = argument;
    unsigned index = (unsigned)(reader - readers);

    for (;;) {
        pthread_barrier_wait(&begin);
        if (index < job.threads)
            read_chunks(reader, index);
        pthread_barrier_wait(&end);
    }
    return NULL;
}

static void start_readers(unsigned count)
{
    reader_count = count;
    must_be(!pthread_barrier_init(&begin, NULL, count + 1) && !pthread_barrier_init(&end, NULL, count + 1),
            "barrier");
    for (unsigned i = 0; i < count; i++) {
        for (unsigned d = 0; d < options.devices; d++) {
            MUST(leat_stream_create(targets[d].device, &readers[i].streams[d]));
            for (unsigned c = 0; c < CHUNKS; c++) {
                MUST(leat_memory_alloc(targets[d].device, LEAT_KIND_PINNED, CHUNK_BYTES,
                                       (void **)&readers[i].chunks[d][c]));
                MUST(leat_event_create(targets[d].device, &readers[i].events[d][c]));
            }
        }
        must_be(!pthread_create(&readers[i].thread, NULL, run_reader, &readers[i]), "starting a thread");
    }
}

static void run_job(unsigned devices, unsigned threads)
{
    job.devices = devices;
    job.threads = threads;
    for (unsigned i = 0; i < DEVICES; i++)
        atomic_store(&job.next[i], 0);
    pthread_barrier_wait(&begin);
    pthread_barrier_wait(&end);
}

static void by_threads(unsigned devices, unsigned threads)
{
    run_job(devices, threads);
}

static void by_host(unsigned devices, unsigned threads)
{
    (void)devices;
    run_job(0, threads);
}

/* ---- rows ---- */

struct row {
    const char *name;
    void (*run)(unsigned devices, unsigned threads);
    unsigned devices, threads;
    bool arrives; /* at the devices */
    double rates[ROUNDS_MAX];
    double system_s, program_s; /* processor time of all rounds */
};

static double now_s(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static double seconds_of(struct timeval time)
{
    return (double)time.tv_sec + (double)time.tv_usec / 1e6;
}

static int compare(const void *left, const void *right)
{
    double a = *(const double *)left, b = *(const double *)right;

    return (a > b) - (a < b);
}

static unsigned make_rows(struct row *rows)
{
    unsigned count = 0;

    for (unsigned devices = 1; devices <= options.devices; devices++) {
        rows[count++] = (struct row){.name = "leat", .run = by_leat, .devices = devices, .arrives = true};
        rows[count++] = (struct row){.name = "pieces", .run = by_pieces, .devices = devices, .arrives = true};
        for (unsigned i = 0; i < options.counts; i++)
            rows[count++] = (struct row){.name = "threads",
                                         .run = by_threads,
                                         .devices = devices,
                                         .threads = options.threads[i],
                                         .arrives = true};
        rows[count++] = (struct row){.name = "link", .run = by_link, .devices = devices, .arrives = true};
    }
    for (unsigned i = 0; i < options.counts; i++)
        rows[count++] = (struct row){.name = "host", .run = by_host, .threads = options.threads[i]};
    return count;
}

static void measure(struct row *row, unsigned round)
{
    struct rusage before, after;
    double start;

    getrusage(RUSAGE_SELF, &before);
    start = now_s();
    row->run(row->devices, row->threads);
    row->rates[round] = 2 * (double)half_bytes / (now_s() - start) / 1e9;
    getrusage(RUSAGE_SELF, &after);
    row->system_s += seconds_of(after.ru_stime) - seconds_of(before.ru_stime);
    row->program_s += seconds_of(after.ru_utime) - seconds_of(before.ru_utime);
    if (row->arrives)
        check(row->devices);
}

/* ---- options ---- */

static unsigned numbers_of(const char *text, unsigned *numbers, unsigned most)
{
    unsigned count = 0;

    for (char *end_of; *text && count < most; text = *end_of == ',' ? end_of + 1 : end_of) {
        numbers[count] = (unsigned)strtoul(text, &end_of, 10);
        if (end_of == text || numbers[count] < DEVICES || numbers[count] > THREADS_MAX)
            return 0;
        count++;
    }
    return count;
}

static void read_options(int argc, char **argv)
{
    static const struct option known[] = {
        {"devices", required_argument, NULL, 'd'}, {"gib", required_argument, NULL, 'g'},
        {"piece", required_argument, NULL, 'p'},   {"rounds", required_argument, NULL, 'r'},
        {"threads", required_argument, NULL, 't'}, {"folder", required_argument, NULL, 'f'},
        {NULL, 0, NULL, 0}};
    int option;
    char *second;

    while ((option = getopt_long(argc, argv, "", known, NULL)) != -1) {
        switch (option) {
        case 'd':
            second = strchr(optarg, ',');
            if (second)
                *second++ = '\0';
            options.names[0] = optarg;
            options.names[1] = second;
            options.devices = second ? 2 : 1;
            options.chosen = true;
            break;
        case 'g':
            options.gib = strtod(optarg, NULL);
            break;
        case 'p':
            options.piece_mib = (unsigned)strtoul(optarg, NULL, 10);
            break;
        case 'r':
            options.rounds = (unsigned)strtoul(optarg, NULL, 10);
            break;
        case 't':
            options.counts = numbers_of(optarg, options.threads, COUNTS_MAX);
            break;
        case 'f':
            options.folder = optarg;
            break;
        default:
            exit(2);
        }
    }
    if (optind == argc && options.gib > 0 && options.piece_mib && options.rounds >= 1 &&
        options.rounds <= ROUNDS_MAX && options.counts)
        return;
    fprintf(stderr, "usage: file_bounds [--devices NAME[,NAME]] [--gib N] [--piece MIB] [--rounds N]\n"
                    "                   [--threads N,...] [--folder NAME]\n");
    exit(2);
}

int main(int argc, char **argv)
{
    static struct row rows[3 * DEVICES + (DEVICES + 1) * COUNTS_MAX];
    unsigned count, most = 0;

    read_options(argc, argv);
    make_file();
    open_target(&targets[0], options.names[0]);
    if (!options.chosen && !has_device(options.names[1]))
        options.devices = 1;
    if (options.devices > 1)
        open_target(&targets[1], options.names[1]);
    for (unsigned i = 0; i < options.counts; i++)
        if (options.threads[i] > most)
            most = options.threads[i];
    start_readers(most);
    count = make_rows(rows);
    for (unsigned i = 0; i < count; i++) {
        measure(&rows[i], 0); /* makes rings and touches memory; not counted */
        rows[i].system_s = rows[i].program_s = 0;
    }
    for (unsigned round = 0; round < options.rounds; round++)
        for (unsigned i = 0; i < count; i++)
            measure(&rows[i], round);
    printf("file of %.2f GB in %s, %u rounds; GB/s: median, lowest; processor s/GB: system, program\n",
           2 * (double)half_bytes / 1e9, options.folder, options.rounds);
    for (unsigned i = 0; i < count; i++) {
        double gigabytes = 2 * (double)half_bytes / 1e9 * options.rounds;

        qsort(rows[i].rates, options.rounds, sizeof rows[i].rates[0], compare);
        printf("%-8s devices %u  threads %2u  %6.1f  %6.1f  %6.3f  %6.3f\n", rows[i].name, rows[i].devices,
               rows[i].threads, rows[i].rates[options.rounds / 2], rows[i].rates[0], rows[i].system_s / gigabytes,
               rows[i].program_s / gigabytes);
    }
    fflush(stdout);
    _exit(0); /* the readers still wait for work */
}
