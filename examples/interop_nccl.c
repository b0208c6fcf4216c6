/*
 * interop_nccl.c - weights from one file to all GPUs of this machine: leat reads the file once, to the first GPU,
 * and NCCL broadcasts it from there.
 *
 *     cc interop_nccl.c -o interop_nccl $(pkg-config --cflags --libs leat)
 *     ./interop_nccl                     a file of 64 MB that the program makes
 *     ./interop_nccl weights.bin         a file whose size is a multiple of 8
 *
 * The program submits everything before the file has been read: NCCL's kernel runs behind leat's read on the
 * stream of the first GPU, and the checksum of each GPU runs behind NCCL's kernel on the stream of that GPU. The
 * host waits only at the end. leat_stream_native() gives NCCL the stream; the memory is leat's.
 *
 * Building it needs neither NCCL nor CUDA. It loads libnccl.so.2 at run time, and declares the few functions that
 * it calls as NCCL's manual does. One GPU is enough, although NCCL then has nothing to send. Exit status: 0 if all
 * GPUs have the bytes of the file, 77 if there is no GPU or no NCCL, 1 if a step failed.
 */
#include <leat/file.h>
#include <leat/leat.h>
#include <leat/native.h>

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define GPUS_MOST 16
#define MADE_BYTES ((size_t)64000000)

/* What the program needs of NCCL. The stream is a cudaStream_t, which is the same as a CUstream. */
typedef struct ncclComm *ncclComm_t;
enum { NCCL_UINT8 = 1 };
static struct {
    int (*comm_init_all)(ncclComm_t *comms, int count, const int *devices);
    int (*comm_destroy)(ncclComm_t comm);
    int (*group_start)(void);
    int (*group_end)(void);
    int (*broadcast)(const void *from, void *to, size_t count, int type, int root, ncclComm_t comm, void *stream);
    const char *(*error_string)(int result);
} nccl;

struct gpu {
    leat_device *device;
    leat_stream *stream;
    void *stream_of_cuda;
    leat_kernel *checksum;
    char *weights;   /* device memory */
    uint64_t *sum;   /* device memory: the checksum */
    uint64_t result; /* a copy of it */
    ncclComm_t comm;
};

static int leat_failed(leat_status status, const char *step)
{
    if (status != LEAT_OK)
        fprintf(stderr, "interop_nccl: cannot %s: %s\n", step, leat_last_error());
    return status != LEAT_OK;
}

static int nccl_failed(int result, const char *step)
{
    if (result)
        fprintf(stderr, "interop_nccl: cannot %s: %s\n", step, nccl.error_string(result));
    return result != 0;
}

/* Returns 0 if NCCL is there. */
static int load_nccl(void)
{
    static const struct {
        const char *name;
        void *function; /* where its address goes */
    } wanted[] = {{"ncclCommInitAll", &nccl.comm_init_all}, {"ncclCommDestroy", &nccl.comm_destroy},
                  {"ncclGroupStart", &nccl.group_start},    {"ncclGroupEnd", &nccl.group_end},
                  {"ncclBroadcast", &nccl.broadcast},       {"ncclGetErrorString", &nccl.error_string}};
    void *library = dlopen("libnccl.so.2", RTLD_NOW | RTLD_LOCAL);

    for (size_t i = 0; library && i < sizeof wanted / sizeof wanted[0]; i++) {
        void *address = dlsym(library, wanted[i].name);

        if (!address)
            return 1;
        memcpy(wanted[i].function, &address, sizeof address);
    }
    return library == NULL;
}

/* Makes the file, and removes its name at once. Returns its descriptor, or -1. */
static int make_file(void)
{
    char path[] = "/tmp/interop_nccl_XXXXXX";
    uint64_t *words = malloc(MADE_BYTES);
    int fd = mkstemp(path);

    if (fd >= 0)
        (void)unlink(path);
    for (size_t i = 0; words && i < MADE_BYTES / 8; i++)
        words[i] = leat_pattern_value(i, 1);
    if (!words || fd < 0 || write(fd, words, MADE_BYTES) != (ssize_t)MADE_BYTES) {
        perror("interop_nccl: cannot make the file");
        if (fd >= 0)
            (void)close(fd);
        fd = -1;
    }
    free(words);
    return fd;
}

/* Returns the file in *file and its size; prints what failed. */
static int open_file(const char *path, leat_file **file, uint64_t *bytes)
{
    int fd = path ? -1 : make_file(), failed;

    if (!path && fd < 0)
        return 1;
    failed =
        leat_failed(path ? leat_file_open(path, LEAT_FILE_READ, file) : leat_file_wrap(fd, LEAT_FILE_READ, file),
                    "open the file") ||
        leat_failed(leat_file_size(*file, bytes), "ask for the size of the file");
    if (fd >= 0)
        (void)close(fd); /* leat has its own descriptor */
    if (!failed && (!*bytes || *bytes % 8)) {
        fprintf(stderr, "interop_nccl: the file has %llu bytes, which is no multiple of 8\n",
                (unsigned long long)*bytes);
        failed = 1;
    }
    return failed;
}

static int prepare(struct gpu *gpu, size_t bytes)
{
    leat_module *module;
    void *memory, *sum;

    if (leat_failed(leat_stream_create(gpu->device, &gpu->stream), "create a stream") ||
        leat_failed(leat_stream_native(gpu->stream, &gpu->stream_of_cuda), "ask for the CUDA stream") ||
        leat_failed(leat_module_builtin(gpu->device, &module), "load the kernels") ||
        leat_failed(leat_kernel_get(module, "leat_checksum_u64", &gpu->checksum), "find the checksum") ||
        leat_failed(leat_alloc(gpu->stream, bytes, &memory), "allocate the weights") ||
        leat_failed(leat_alloc(gpu->stream, sizeof *gpu->sum, &sum), "allocate the sum"))
        return 1;
    gpu->weights = memory;
    gpu->sum = sum;
    return leat_failed(leat_fill(gpu->stream, sum, 0, sizeof *gpu->sum), "clear the sum");
}

/* Submits NCCL's broadcast to the streams of all GPUs. */
static int broadcast(struct gpu *gpus, int count, size_t bytes)
{
    int failed = nccl_failed(nccl.group_start(), "begin a group");

    for (int i = 0; i < count && !failed; i++)
        failed = nccl_failed(nccl.broadcast(gpus[i].weights, gpus[i].weights, bytes, NCCL_UINT8, 0, gpus[i].comm,
                                            gpus[i].stream_of_cuda),
                             "broadcast");
    return nccl_failed(nccl.group_end(), "end the group") || failed;
}

/* Submits the checksum of what has arrived on a GPU, and its copy to the host. */
static int add_up(struct gpu *gpu, size_t bytes)
{
    uint64_t words = bytes / 8;
    void *args[] = {&gpu->weights, &words, &gpu->sum};

    return leat_failed(
               leat_launch(gpu->stream, gpu->checksum, leat_dim(256, 1, 1), leat_dim(256, 1, 1), 0, args, 3),
               "launch the checksum") ||
           leat_failed(leat_copy(gpu->stream, &gpu->result, gpu->sum, sizeof gpu->result), "copy the sum");
}

/* Returns the checksum of the file in *sum: what leat_checksum_u64 computes on a GPU. */
static int checksum_of_file(leat_stream *stream, leat_file *file, size_t bytes, uint64_t *sum)
{
    uint64_t *words = malloc(bytes);
    int failed;

    *sum = 0;
    if (!words) {
        perror("interop_nccl: cannot keep the file");
        return 1;
    }
    failed = leat_failed(leat_file_read(stream, words, file, 0, bytes), "read the file") ||
             leat_failed(leat_stream_synchronize(stream), "read the file");
    for (size_t i = 0; !failed && i < bytes / 8; i++)
        *sum += leat_checksum_value(i, words[i]);
    free(words);
    return failed;
}

static int run(struct gpu *gpus, int count, const char *path)
{
    int devices[GPUS_MOST];
    ncclComm_t comms[GPUS_MOST] = {NULL};
    leat_file *file = NULL;
    uint64_t bytes = 0, sum = 0;
    int failed = open_file(path, &file, &bytes);

    for (int i = 0; i < count && !failed; i++) {
        devices[i] = i;
        failed = prepare(&gpus[i], (size_t)bytes);
    }
    /* NCCL allocates and loads kernels here, for which streams would have to wait, so it comes first. */
    failed = failed || nccl_failed(nccl.comm_init_all(comms, count, devices), "connect the GPUs");
    for (int i = 0; i < count; i++)
        gpus[i].comm = comms[i];

    failed = failed ||
             leat_failed(leat_file_read(gpus[0].stream, gpus[0].weights, file, 0, (size_t)bytes), "read") ||
             broadcast(gpus, count, (size_t)bytes);
    for (int i = 0; i < count && !failed; i++)
        failed = add_up(&gpus[i], (size_t)bytes);
    for (int i = 0; i < count && !failed; i++)
        failed = leat_failed(leat_stream_synchronize(gpus[i].stream), "wait for the weights");

    failed = failed || checksum_of_file(gpus[0].stream, file, (size_t)bytes, &sum);
    for (int i = 0; i < count && !failed; i++)
        if (gpus[i].result != sum) {
            fprintf(stderr, "interop_nccl: the bytes on cuda:%d are wrong\n", i);
            failed = 1;
        }
    for (int i = 0; i < count; i++)
        if (comms[i])
            (void)nccl.comm_destroy(comms[i]);
    leat_file_close(file);
    if (!failed)
        printf("%.1f MB were read once and are right on %d GPU%s\n", (double)bytes / 1e6, count,
               count > 1 ? "s" : "");
    return failed;
}

int main(int argc, char **argv)
{
    struct gpu gpus[GPUS_MOST] = {{0}};
    int count = 0, failed;

    while (count < GPUS_MOST) {
        char name[16];

        snprintf(name, sizeof name, "cuda:%d", count);
        if (leat_device_open(name, &gpus[count].device) != LEAT_OK)
            break;
        count++;
    }
    if (!count) {
        printf("skipped: there is no CUDA device: %s\n", leat_last_error());
        return 77;
    }
    if (load_nccl()) {
        printf("skipped: there is no libnccl.so.2\n");
        return 77;
    }
    failed = run(gpus, count, argc > 1 ? argv[1] : NULL);
    for (int i = 0; i < count; i++)
        failed |= leat_failed(leat_device_close(gpus[i].device), "close a device");
    return failed;
}
