/*
 * stream_file.c - processes a file that is larger than device memory by a kernel, chunk by chunk.
 *
 *     cc stream_file.c -o stream_file $(pkg-config --cflags --libs leat)
 *     ./stream_file [device [file]]
 *     LEAT_CPU_MEMORY=32M ./stream_file cpu:0        # a device whose memory is smaller than the file
 *
 * Three buffers on the device, each with its own stream, take turns: while a copy fills one, the kernel reads
 * another. The program maps the file, a chunk at a time, and the mapping is the source of the copy: leat's
 * threads copy it into pinned memory, from where a DMA brings it to the device. leat_copy_start returns at once,
 * with a ticket. The ticket reports when the mapping may be removed (STAGED), when the chunk is on the device
 * (DONE), and the progress, from which the program computes a percentage.
 *
 * The kernel computes a checksum of each chunk. The host computes it from the file too and compares. Without a
 * file on the command line the program makes a temporary one.
 */
#include <leat/leat.h>

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define BUFFERS 3
#define PAGE_BYTES ((uint64_t)4096)           /* mappings start at a multiple of this */
#define CHUNK_MOST_BYTES ((uint64_t)64 << 20) /* pinned memory for one copy, by default */
#define TEMPORARY_BYTES (((uint64_t)48 << 20) + 12345)
#define LOOK_NS ((uint64_t)50000000) /* time between two updates of the percentage */

/* One of the buffers that take turns, and the chunk that is being copied into it. */
struct buffer {
    leat_stream *stream;
    void *memory;        /* device memory */
    void *mapping;       /* the chunk of the file; NULL if not mapped */
    size_t bytes;        /* size of the chunk */
    leat_ticket *ticket; /* ticket of the chunk's copy; NULL if no copy is running */
};

struct work {
    leat_device *device;
    leat_kernel *checksum;
    struct buffer buffers[BUFFERS];
    void *device_sums;   /* device memory: the checksum of each chunk */
    uint64_t *host_sums; /* pinned memory: a copy of device_sums */
    size_t sums_bytes;
    int file;
    uint64_t file_bytes, chunk_bytes, chunk_count;
    uint64_t done_bytes; /* total bytes of the chunks that have arrived completely */
    int percent;         /* the percentage printed last */
};

static int failed(const char *step)
{
    fprintf(stderr, "stream_file: cannot %s: %s\n", step, leat_last_error());
    return 1;
}

static int failed_file(const char *step)
{
    fprintf(stderr, "stream_file: cannot %s: %s\n", step, strerror(errno));
    return 1;
}

/* ---- the file ---- */

/* Makes a file without a name, which the system deletes when it is closed. */
static int make_file(struct work *w)
{
    static uint64_t words[32768];
    FILE *made = tmpfile();

    if (!made)
        return failed_file("make a temporary file");
    for (uint64_t at = 0; at < TEMPORARY_BYTES; at += sizeof words) {
        uint64_t left = TEMPORARY_BYTES - at;

        for (uint64_t i = 0; i < sizeof words / sizeof words[0]; i++)
            words[i] = leat_pattern_value(at / sizeof words[0] + i, 1);
        if (fwrite(words, left < sizeof words ? (size_t)left : sizeof words, 1, made) != 1)
            return failed_file("write the temporary file");
    }
    if (fflush(made) != 0)
        return failed_file("write the temporary file");
    w->file = fileno(made);
    return 0;
}

static int open_file(struct work *w, const char *path)
{
    struct stat about;

    if (!path) {
        if (make_file(w))
            return 1;
    } else {
        w->file = open(path, O_RDONLY | O_CLOEXEC);
        if (w->file < 0)
            return failed_file("open the file");
    }
    if (fstat(w->file, &about) != 0)
        return failed_file("find the size of the file");
    w->file_bytes = (uint64_t)about.st_size;
    if (!w->file_bytes) {
        fprintf(stderr, "stream_file: the file is empty\n");
        return 1;
    }
    return 0;
}

static size_t chunk_size(const struct work *w, uint64_t chunk)
{
    uint64_t left = w->file_bytes - chunk * w->chunk_bytes;

    return (size_t)(left < w->chunk_bytes ? left : w->chunk_bytes);
}

/* Maps a chunk of the file, and lets the system start to read it from the disk. */
static int map_chunk(const struct work *w, uint64_t chunk, void **mapping)
{
    size_t bytes = chunk_size(w, chunk);

    *mapping = mmap(NULL, bytes, PROT_READ, MAP_SHARED, w->file, (off_t)(chunk * w->chunk_bytes));
    if (*mapping == MAP_FAILED)
        return failed_file("map the file");
    madvise(*mapping, bytes, MADV_WILLNEED);
    return 0;
}

/* ---- the device ---- */

/* Chooses the size of a chunk: at most an eighth of the device's memory, and small enough for at least eight
 * chunks, so that copies and kernels overlap. */
static int choose_chunks(struct work *w)
{
    leat_device_info info = LEAT_DEVICE_INFO_INIT;

    if (leat_device_get_info(w->device, &info) != LEAT_OK)
        return failed("ask what the device has");
    w->chunk_bytes = info.memory_bytes / 8 < w->file_bytes / 8 ? info.memory_bytes / 8 : w->file_bytes / 8;
    w->chunk_bytes = w->chunk_bytes < CHUNK_MOST_BYTES ? w->chunk_bytes : CHUNK_MOST_BYTES;
    w->chunk_bytes = (w->chunk_bytes + PAGE_BYTES - 1) / PAGE_BYTES * PAGE_BYTES;
    w->chunk_count = (w->file_bytes + w->chunk_bytes - 1) / w->chunk_bytes;
    w->sums_bytes = (size_t)w->chunk_count * sizeof *w->host_sums;
    printf("%.1f MB in %llu chunks of %.1f MB through %d buffers on %s, which has %.0f MB\n",
           (double)w->file_bytes / 1e6, (unsigned long long)w->chunk_count, (double)w->chunk_bytes / 1e6, BUFFERS,
           info.name, (double)info.memory_bytes / 1e6);
    return 0;
}

static int prepare(struct work *w)
{
    leat_module *module;
    void *memory;

    if (leat_module_builtin(w->device, &module) != LEAT_OK)
        return failed("load the built-in kernels");
    if (leat_kernel_get(module, "leat_checksum_u64", &w->checksum) != LEAT_OK)
        return failed("find the kernel");
    for (int i = 0; i < BUFFERS; i++) {
        struct buffer *buffer = &w->buffers[i];

        if (leat_stream_create(w->device, &buffer->stream) != LEAT_OK)
            return failed("create a stream");
        if (leat_alloc(buffer->stream, (size_t)w->chunk_bytes, &buffer->memory) != LEAT_OK)
            return failed("allocate a buffer on the device");
    }
    if (leat_memory_alloc(w->device, LEAT_KIND_DEVICE, w->sums_bytes, &w->device_sums) != LEAT_OK)
        return failed("allocate the sums on the device");
    if (leat_memory_alloc(w->device, LEAT_KIND_PINNED, w->sums_bytes, &memory) != LEAT_OK)
        return failed("allocate pinned memory");
    w->host_sums = memory;
    /* All three streams add to the sums, so they must be zero before any stream begins. */
    if (leat_fill(w->buffers[0].stream, w->device_sums, 0, w->sums_bytes) != LEAT_OK ||
        leat_stream_synchronize(w->buffers[0].stream) != LEAT_OK)
        return failed("clear the sums");
    return 0;
}

/* ---- the pipeline ---- */

/* Prints how much has arrived, including parts of chunks that are being copied: on a terminal each percent,
 * elsewhere each tenth. */
static int show_progress(struct work *w)
{
    uint64_t arrived = w->done_bytes;
    int percent, step = isatty(STDOUT_FILENO) ? 1 : 10;

    for (int i = 0; i < BUFFERS; i++) {
        leat_ticket_info info = LEAT_TICKET_INFO_INIT;

        if (!w->buffers[i].ticket)
            continue;
        if (leat_ticket_get_info(w->buffers[i].ticket, &info) != LEAT_OK)
            return failed("ask how far a copy is");
        arrived += info.arrived_bytes;
    }
    percent = (int)((double)arrived / (double)w->file_bytes * 100) / step * step;
    if (percent > w->percent) {
        printf(step == 1 ? "\r%3d %%" : "%3d %%\n", percent);
        fflush(stdout);
        w->percent = percent;
    }
    return 0;
}

/* Waits until a buffer's copy has reached a point, and shows the progress meanwhile. */
static int wait_for(struct work *w, struct buffer *buffer, leat_copy_point point)
{
    leat_status status;

    do {
        status = leat_ticket_wait(buffer->ticket, point, LOOK_NS);
        if (status < LEAT_OK)
            return failed("read the file to the device");
        if (show_progress(w))
            return 1;
    } while (status == LEAT_NOT_READY);
    return 0;
}

/* Waits until a buffer's chunk is on the device. It need not wait for the kernel that reads the chunk: the next
 * copy into this buffer is in the same stream, and so it runs after the kernel. */
static int finish_chunk(struct work *w, struct buffer *buffer)
{
    if (!buffer->ticket)
        return 0;
    /* When the copy has reached STAGED, leat has read all bytes, so the mapping can be removed. */
    if (wait_for(w, buffer, LEAT_COPY_POINT_STAGED))
        return 1;
    munmap(buffer->mapping, buffer->bytes);
    buffer->mapping = NULL;
    if (wait_for(w, buffer, LEAT_COPY_POINT_DONE))
        return 1;
    if (leat_ticket_destroy(buffer->ticket) != LEAT_OK)
        return failed("destroy a ticket");
    buffer->ticket = NULL;
    w->done_bytes += buffer->bytes;
    return 0;
}

/* Submits the copy of a chunk and the kernel after it to a buffer's stream, without waiting. */
static int start_chunk(struct work *w, struct buffer *buffer, uint64_t chunk)
{
    uint64_t whole_bytes, count;
    void *sum = (char *)w->device_sums + chunk * sizeof *w->host_sums;
    void *args[] = {&buffer->memory, &count, &sum};

    buffer->bytes = chunk_size(w, chunk);
    whole_bytes = buffer->bytes / sizeof(uint64_t) * sizeof(uint64_t);
    count = (buffer->bytes + sizeof(uint64_t) - 1) / sizeof(uint64_t);
    if (map_chunk(w, chunk, &buffer->mapping))
        return 1;
    /* The kernel reads whole words, so pad the last word of the file with zeros. */
    if (whole_bytes < buffer->bytes &&
        leat_fill(buffer->stream, (char *)buffer->memory + whole_bytes, 0, sizeof(uint64_t)) != LEAT_OK)
        return failed("clear the last word");
    if (leat_copy_start(buffer->stream, buffer->memory, buffer->mapping, buffer->bytes, NULL, &buffer->ticket) !=
        LEAT_OK)
        return failed("start a copy");
    if (leat_launch(buffer->stream, w->checksum, leat_dim(256, 1, 1), leat_dim(256, 1, 1), 0, args, 3) != LEAT_OK)
        return failed("launch the kernel");
    return 0;
}

static double seconds_now(void)
{
    struct timespec now;

    timespec_get(&now, TIME_UTC);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static int stream_chunks(struct work *w)
{
    double start = seconds_now();

    w->percent = -1;
    for (uint64_t chunk = 0; chunk < w->chunk_count; chunk++) {
        struct buffer *buffer = &w->buffers[chunk % BUFFERS];

        if (finish_chunk(w, buffer) || start_chunk(w, buffer, chunk))
            return 1;
    }
    for (uint64_t chunk = w->chunk_count; chunk < w->chunk_count + BUFFERS; chunk++)
        if (finish_chunk(w, &w->buffers[chunk % BUFFERS]))
            return 1;
    if (show_progress(w))
        return 1;
    for (int i = 0; i < BUFFERS; i++)
        if (leat_stream_synchronize(w->buffers[i].stream) != LEAT_OK)
            return failed("finish the work");
    start = seconds_now() - start;
    printf("%sthat took %.3f s, %.2f GB/s\n", isatty(STDOUT_FILENO) ? "\n" : "", start,
           (double)w->file_bytes / start / 1e9);
    return 0;
}

/* ---- the check ---- */

/* Computes the checksum of a chunk on the host. It may read whole words, because the system pads the last page of
 * a mapped file with zeros. */
static int sum_on_host(const struct work *w, uint64_t chunk, uint64_t *sum)
{
    size_t bytes = chunk_size(w, chunk);
    const uint64_t *words;
    void *mapping;

    if (map_chunk(w, chunk, &mapping))
        return 1;
    words = mapping;
    *sum = 0;
    for (uint64_t i = 0; i < (bytes + sizeof *words - 1) / sizeof *words; i++)
        *sum += leat_checksum_value(i, words[i]);
    munmap(mapping, bytes);
    return 0;
}

static int check(struct work *w)
{
    leat_stream *stream = w->buffers[0].stream;

    if (leat_copy(stream, w->host_sums, w->device_sums, w->sums_bytes) != LEAT_OK ||
        leat_stream_synchronize(stream) != LEAT_OK)
        return failed("copy the sums back");
    for (uint64_t chunk = 0; chunk < w->chunk_count; chunk++) {
        uint64_t wanted;

        if (sum_on_host(w, chunk, &wanted))
            return 1;
        if (w->host_sums[chunk] != wanted) {
            fprintf(stderr, "stream_file: the sum of chunk %llu is %016llx, not %016llx\n",
                    (unsigned long long)chunk, (unsigned long long)w->host_sums[chunk],
                    (unsigned long long)wanted);
            return 1;
        }
    }
    printf("the checksums of all chunks are right\n");
    return 0;
}

static int run(struct work *w, const char *path)
{
    if (open_file(w, path) || choose_chunks(w) || prepare(w) || stream_chunks(w) || check(w))
        return 1;
    for (int i = 0; i < BUFFERS; i++)
        if (leat_free(w->buffers[i].stream, w->buffers[i].memory) != LEAT_OK)
            return failed("free a buffer");
    if (leat_memory_free(w->device_sums) != LEAT_OK || leat_memory_free(w->host_sums) != LEAT_OK)
        return failed("free the sums");
    return 0;
}

int main(int argc, char **argv)
{
    struct work w = {0};
    int wrong;

    if (leat_device_open(argc > 1 ? argv[1] : NULL, &w.device) != LEAT_OK)
        return failed("open the device");
    wrong = run(&w, argc > 2 ? argv[2] : NULL);
    /* Closing waits for running work, destroys the streams, and frees what a failed step left behind. The system
     * closes the file. */
    if (leat_device_close(w.device) != LEAT_OK)
        wrong = failed("close the device");
    return wrong;
}
