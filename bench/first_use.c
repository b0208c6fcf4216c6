/*
 * first_use.c - measures how long the first call of a process waits for leat's kernels on a GPU.
 *
 *     make first-use
 *     build/bench/first_use [DEVICE [PROCESSES]]
 *
 * Each sample is a new process, which opens the device, creates a stream, copies data to the device and makes one
 * call; the time is that of the call until its work is complete. Each process runs twice: first with an empty
 * folder for CUDA's cache of compiled kernels, as in a new container, then with the same folder. It then repeats
 * the call and checks the bytes of both. Prints medians, and the shortest and the longest time with the empty
 * folder.
 */
#include <leat/leat.h>

#include <ftw.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum {
    SIDE = 4096,
    OPS = 4096,
    OP_BYTES = 4096,
    IMAGES = 64,
    IMAGE_SIDE = 224,
    CHANNELS = 3,
    PROCESSES_MAX = 100
};

static void must(leat_status status, const char *call)
{
    if (status == LEAT_OK)
        return;
    fprintf(stderr, "first_use: %s: %s\n", call, leat_last_error());
    exit(1);
}

#define MUST(call) must((call), #call)

/* ---- the calls ---- */

struct work {
    leat_device *device;
    leat_stream *stream;
    unsigned char *dst, *src; /* on the device */
    leat_layout to, from;     /* of calls of leat_copy_layout() */
};

static void copy_layout(struct work *work)
{
    MUST(leat_copy_layout(work->stream, work->dst, &work->to, work->src, &work->from));
}

/* Copies each block of OP_BYTES to the place that has its number reversed. */
static void copy_batch(struct work *work)
{
    static leat_copy_op ops[OPS];

    for (size_t i = 0; i < OPS; i++)
        ops[i] = (leat_copy_op){work->dst + (OPS - 1 - i) * OP_BYTES, work->src + i * OP_BYTES, OP_BYTES};
    MUST(leat_copy_batch(work->stream, ops, OPS));
}

static void fill(struct work *work)
{
    MUST(leat_fill_pattern(work->stream, work->dst, "pattern", 8, (size_t)OPS * OP_BYTES));
}

static void load_all(struct work *work)
{
    leat_module *module;

    MUST(leat_module_builtin(work->device, &module));
    MUST(leat_module_layout(work->device, &module));
}

/* ---- their layouts and results ---- */

static void plan_transpose(struct work *work, uint32_t element_bytes)
{
    MUST(leat_layout_dense(&work->to, 2, (int64_t[]){SIDE, SIDE}, element_bytes));
    work->from = work->to;
    MUST(leat_layout_transpose(&work->from, 0, 1));
}

/* Pixels to planes. */
static void plan_images(struct work *work, uint32_t element_bytes)
{
    MUST(leat_layout_dense(&work->to, 4, (int64_t[]){IMAGES, CHANNELS, IMAGE_SIDE, IMAGE_SIDE}, element_bytes));
    MUST(leat_layout_dense(&work->from, 4, (int64_t[]){IMAGES, IMAGE_SIDE, IMAGE_SIDE, CHANNELS}, element_bytes));
    MUST(leat_layout_transpose(&work->from, 2, 3));
    MUST(leat_layout_transpose(&work->from, 1, 2));
}

static bool is_transposed(const unsigned char *dst, const unsigned char *src, uint32_t bytes)
{
    for (size_t i = 0; i < SIDE; i++)
        for (size_t j = 0; j < SIDE; j++)
            if (memcmp(dst + (i * SIDE + j) * bytes, src + (j * SIDE + i) * bytes, bytes) != 0)
                return false;
    return true;
}

static bool are_planes(const unsigned char *dst, const unsigned char *src, uint32_t bytes)
{
    const size_t pixels = IMAGE_SIDE * IMAGE_SIDE;

    for (size_t image = 0; image < IMAGES;
         image++, dst += pixels * CHANNELS * bytes, src += pixels * CHANNELS * bytes)
        for (size_t pixel = 0; pixel < pixels; pixel++)
            for (size_t c = 0; c < CHANNELS; c++)
                if (memcmp(dst + (c * pixels + pixel) * bytes, src + (pixel * CHANNELS + c) * bytes, bytes) != 0)
                    return false;
    return true;
}

static bool is_reversed(const unsigned char *dst, const unsigned char *src, uint32_t bytes)
{
    (void)bytes;
    for (size_t i = 0; i < OPS; i++)
        if (memcmp(dst + (OPS - 1 - i) * OP_BYTES, src + i * OP_BYTES, OP_BYTES) != 0)
            return false;
    return true;
}

static bool is_filled(const unsigned char *dst, const unsigned char *src, uint32_t bytes)
{
    (void)src, (void)bytes;
    for (size_t i = 0; i < (size_t)OPS * OP_BYTES; i += 8)
        if (memcmp(dst + i, "pattern", 8) != 0)
            return false;
    return true;
}

static const struct call {
    const char *name;
    void (*plan)(struct work *work, uint32_t element_bytes); /* NULL: nothing to plan */
    void (*make)(struct work *work);
    bool (*is_done)(const unsigned char *dst, const unsigned char *src,
                    uint32_t element_bytes); /* NULL: no bytes */
    size_t elements;
    uint32_t element_bytes;
} calls[] = {
    {"transpose, 4096 x 4096 of 1 byte", plan_transpose, copy_layout, is_transposed, SIDE *SIDE, 1},
    {"transpose, 4096 x 4096 of 2 bytes", plan_transpose, copy_layout, is_transposed, SIDE *SIDE, 2},
    {"transpose, 4096 x 4096 of 4 bytes", plan_transpose, copy_layout, is_transposed, SIDE *SIDE, 4},
    {"transpose, 4096 x 4096 of 8 bytes", plan_transpose, copy_layout, is_transposed, SIDE *SIDE, 8},
    {"pixels to planes, 64 images of bytes", plan_images, copy_layout, are_planes,
     IMAGES *IMAGE_SIDE *IMAGE_SIDE *CHANNELS, 1},
    {"leat_copy_batch, 4096 of 4 KiB", NULL, copy_batch, is_reversed, OPS *OP_BYTES, 1},
    {"leat_fill_pattern, 8 bytes, 16 MiB", NULL, fill, is_filled, OPS *OP_BYTES, 1},
    {"all built-in kernels", NULL, load_all, NULL, OP_BYTES, 1},
};
#define CALLS (sizeof calls / sizeof calls[0])

/* ---- a process ---- */

struct sample {
    double open_ms, first_ms, second_ms;
    char code[16];
};

static double now_ms(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e3 + (double)now.tv_nsec * 1e-6;
}

/* Makes the call once, and returns the time until it is complete. */
static double make_call(const struct call *call, struct work *work)
{
    double start = now_ms();

    call->make(work);
    MUST(leat_stream_synchronize(work->stream));
    return now_ms() - start;
}

static bool is_right(const struct call *call, struct work *work, unsigned char *host, const unsigned char *in)
{
    size_t bytes = call->elements * call->element_bytes;

    if (!call->is_done)
        return true;
    MUST(leat_copy_sync(work->stream, host, work->dst, bytes));
    MUST(leat_fill(work->stream, work->dst, 0, bytes));
    MUST(leat_stream_synchronize(work->stream));
    return call->is_done(host, in, call->element_bytes);
}

static int run_child(const char *device, const struct call *call)
{
    size_t bytes = call->elements * call->element_bytes;
    unsigned char *in = malloc(bytes), *out = malloc(bytes);
    leat_device_info info = LEAT_DEVICE_INFO_INIT;
    struct sample sample = {.open_ms = now_ms()};
    struct work work;

    if (!in || !out)
        return 1;
    for (size_t i = 0; i < bytes; i++)
        in[i] = (unsigned char)(leat_pattern_value(i / 8, 1) >> i % 8 * 8);
    sample.open_ms = now_ms();
    MUST(leat_device_open(device, &work.device));
    MUST(leat_stream_create(work.device, &work.stream));
    sample.open_ms = now_ms() - sample.open_ms;
    MUST(leat_memory_alloc(work.device, LEAT_KIND_DEVICE, bytes, (void **)&work.dst));
    MUST(leat_memory_alloc(work.device, LEAT_KIND_DEVICE, bytes, (void **)&work.src));
    MUST(leat_copy_sync(work.stream, work.src, in, bytes));
    MUST(leat_fill(work.stream, work.dst, 0, bytes));
    MUST(leat_stream_synchronize(work.stream));
    if (call->plan)
        call->plan(&work, call->element_bytes);
    sample.first_ms = make_call(call, &work);
    if (!is_right(call, &work, out, in))
        return 2;
    sample.second_ms = make_call(call, &work);
    if (!is_right(call, &work, out, in))
        return 2;
    MUST(leat_device_get_info(work.device, &info));
    memcpy(sample.code, info.kernel_code, sizeof sample.code);
    return fwrite(&sample, sizeof sample, 1, stdout) == 1 ? 0 : 1;
}

/* ---- samples ---- */

static struct sample run(const char *self, const char *device, size_t number)
{
    struct sample sample;
    char command[4400];
    FILE *child;
    int status;

    snprintf(command, sizeof command, "exec '%s' --child '%s' %zu", self, device, number);
    child = popen(command, "r");
    if (!child || fread(&sample, sizeof sample, 1, child) != 1 || (status = pclose(child)) != 0) {
        fprintf(stderr, "first_use: '%s' failed or copied wrong bytes\n", calls[number].name);
        exit(1);
    }
    return sample;
}

static int is_longer(const void *a, const void *b)
{
    return (*(const double *)a > *(const double *)b) - (*(const double *)a < *(const double *)b);
}

/* Sorts the numbers and returns their median. */
static double median(double *numbers, unsigned count)
{
    qsort(numbers, count, sizeof *numbers, is_longer);
    return count % 2 ? numbers[count / 2] : (numbers[count / 2 - 1] + numbers[count / 2]) / 2;
}

static int remove_entry(const char *path, const struct stat *status, int type, struct FTW *place)
{
    (void)status, (void)type, (void)place;
    return remove(path);
}

static void measure(const char *self, const char *device, size_t number, unsigned processes)
{
    static double open_ms[PROCESSES_MAX], empty_ms[PROCESSES_MAX], kept_ms[PROCESSES_MAX],
        second_ms[PROCESSES_MAX];
    struct sample sample = {0};
    double middle;

    for (unsigned i = 0; i < processes; i++) {
        char folder[] = "/tmp/first_use.XXXXXX";

        if (!mkdtemp(folder) || setenv("CUDA_CACHE_PATH", folder, 1) != 0) {
            perror("first_use: a folder for CUDA's cache");
            exit(1);
        }
        sample = run(self, device, number);
        open_ms[i] = sample.open_ms;
        empty_ms[i] = sample.first_ms;
        second_ms[i] = sample.second_ms;
        kept_ms[i] = run(self, device, number).first_ms;
        nftw(folder, remove_entry, 8, FTW_DEPTH | FTW_PHYS);
    }
    middle = median(empty_ms, processes);
    printf("%-38s %-7s %8.2f %8.2f %8.2f %8.2f %8.2f %8.1f\n", calls[number].name, sample.code, middle,
           empty_ms[0], empty_ms[processes - 1], median(kept_ms, processes), median(second_ms, processes),
           median(open_ms, processes));
    fflush(stdout);
}

int main(int argc, char **argv)
{
    const char *device = argc > 1 ? argv[1] : "cuda:0";
    unsigned processes = argc > 2 ? (unsigned)atoi(argv[2]) : 7;
    leat_device_info info = LEAT_DEVICE_INFO_INIT;
    char self[4096];
    ssize_t length;

    if (argc == 4 && !strcmp(argv[1], "--child") && (size_t)atoi(argv[3]) < CALLS)
        return run_child(argv[2], &calls[atoi(argv[3])]);
    length = readlink("/proc/self/exe", self, sizeof self - 1);
    if (argc > 3 || processes < 1 || processes > PROCESSES_MAX || length < 0) {
        fprintf(stderr, "usage: first_use [DEVICE [PROCESSES]]; at most %d processes\n", PROCESSES_MAX);
        return 2;
    }
    self[length] = '\0';
    for (unsigned i = 0; leat_device_list(i, &info) == LEAT_OK; i++)
        if (!strcmp(info.name, device))
            printf("%s, %s, leat %s, %u processes for each call\n", device, info.model, leat_version(), processes);
    printf("%-38s %-7s %8s %8s %8s %8s %8s %8s\n", "FIRST CALL", "KERNELS", "EMPTY ms", "MIN", "MAX", "KEPT ms",
           "AGAIN ms", "OPEN ms");
    for (size_t i = 0; i < CALLS; i++)
        measure(self, device, i, processes);
    return 0;
}
