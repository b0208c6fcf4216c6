/*
 * test_cudart_share.c - tests memory, pools and events of the CUDA runtime that two processes share.
 *
 * The test forks the second process before it opens a device, because a child cannot use a device of its parent.
 * The two processes use a socket pair: the parent sends handles; the child answers that it is done, or which line
 * failed.
 */
#include <cuda_runtime.h>

#include "compat.h"

#include <pthread.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define BYTES ((size_t)100000)

static int line[2]; /* [0]: the parent's end of the socket pair; [1]: the child's end */
static pid_t child;

static void say(int end, const void *what, size_t bytes)
{
    if (send(end, what, bytes, MSG_NOSIGNAL) != (ssize_t)bytes)
        abort();
}

static void hear(int end, void *what, size_t bytes)
{
    if (recv(end, what, bytes, MSG_WAITALL) != (ssize_t)bytes)
        abort();
}

static void say_descriptor(int end, int fd)
{
    char byte = 1;
    struct iovec part = {&byte, 1};
    union {
        struct cmsghdr header;
        char bytes[CMSG_SPACE(sizeof(int))];
    } control = {.header = {.cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS, .cmsg_len = CMSG_LEN(sizeof fd)}};
    struct msghdr message = {
        .msg_iov = &part, .msg_iovlen = 1, .msg_control = control.bytes, .msg_controllen = sizeof control.bytes};

    memcpy(CMSG_DATA(&control.header), &fd, sizeof fd);
    if (sendmsg(end, &message, 0) != 1)
        abort();
}

static int hear_descriptor(int end)
{
    char byte;
    struct iovec part = {&byte, 1};
    union {
        struct cmsghdr header;
        char bytes[CMSG_SPACE(sizeof(int))];
    } control;
    struct msghdr message = {
        .msg_iov = &part, .msg_iovlen = 1, .msg_control = control.bytes, .msg_controllen = sizeof control.bytes};
    int fd = -1;

    if (recvmsg(end, &message, 0) != 1)
        abort();
    memcpy(&fd, CMSG_DATA(&control.header), sizeof fd);
    return fd;
}

/* ---- the other process: each step returns the line that failed, or 0 ---- */

#define NEED(condition)                                                                                           \
    do {                                                                                                          \
        if (!(condition))                                                                                         \
            return __LINE__;                                                                                      \
    } while (0)

enum { OPENINGS = 4 };

struct opening {
    pthread_t thread;
    cudaIpcMemHandle_t handle;
    void *ptr;
    int result;
};

static void *open_handle(void *argument)
{
    struct opening *opening = argument;

    opening->result = (int)cudaIpcOpenMemHandle(&opening->ptr, opening->handle, cudaIpcMemLazyEnablePeerAccess);
    return NULL;
}

static void *open_later(void *open)
{
    sleep_ms(30);
    atomic_store((gate *)open, 1);
    return NULL;
}

static int use_memory(void)
{
    unsigned char *host = malloc(BYTES), *there, *again;
    cudaIpcMemHandle_t handle;

    hear(line[1], &handle, sizeof handle);
    NEED(cudaIpcOpenMemHandle((void **)&there, handle, 0) == cudaErrorInvalidValue);
    NEED(cudaIpcOpenMemHandle((void **)&there, handle, cudaIpcMemLazyEnablePeerAccess) == cudaSuccess);
    NEED(cudaIpcOpenMemHandle((void **)&again, handle, cudaIpcMemLazyEnablePeerAccess) == cudaSuccess);
    NEED(again == there);
    NEED(cudaMemcpy(host, there, BYTES, cudaMemcpyDeviceToHost) == cudaSuccess);
    HAS_PATTERN(host, BYTES, 1);
    write_pattern(host, BYTES, 2);
    NEED(cudaMemcpy(there, host, BYTES, cudaMemcpyHostToDevice) == cudaSuccess);
    NEED(cudaIpcCloseMemHandle(there) == cudaSuccess);
    NEED(cudaMemset(there, 0, 0) == cudaSuccess);
    NEED(cudaIpcCloseMemHandle(there) == cudaSuccess);
    NEED(cudaIpcCloseMemHandle(there) == cudaErrorInvalidValue);
    /* A reset closes imported memory. The process can open it again afterwards. */
    NEED(cudaIpcOpenMemHandle((void **)&there, handle, cudaIpcMemLazyEnablePeerAccess) == cudaSuccess);
    NEED(cudaDeviceReset() == cudaSuccess);
    NEED(cudaIpcOpenMemHandle((void **)&again, handle, cudaIpcMemLazyEnablePeerAccess) == cudaSuccess);
    NEED(cudaMemcpy(host, again, BYTES, cudaMemcpyDeviceToHost) == cudaSuccess);
    HAS_PATTERN(host, BYTES, 2);
    NEED(cudaIpcCloseMemHandle(again) == cudaSuccess);
    NEED(cudaIpcCloseMemHandle(again) == cudaErrorInvalidValue);
    /* Threads that open the same handle at the same time get the same address. Closing waits for work that uses
     * the memory. */
    for (int round = 0; round < 20; round++) {
        struct opening openings[OPENINGS];

        for (int i = 0; i < OPENINGS; i++) {
            openings[i] = (struct opening){.handle = handle};
            NEED(pthread_create(&openings[i].thread, NULL, open_handle, &openings[i]) == 0);
        }
        for (int i = 0; i < OPENINGS; i++) {
            pthread_join(openings[i].thread, NULL);
            NEED(openings[i].result == cudaSuccess && openings[i].ptr == openings[0].ptr);
        }
        for (int i = 0; i < OPENINGS; i++)
            NEED(cudaIpcCloseMemHandle(openings[i].ptr) == cudaSuccess);
    }
    for (int by_stream = 0; by_stream < 2; by_stream++) {
        cudaStream_t stream;
        pthread_t opener;
        gate open = 0;

        NEED(cudaIpcOpenMemHandle((void **)&there, handle, cudaIpcMemLazyEnablePeerAccess) == cudaSuccess);
        /* A stream of another device may use the memory too; then the close waits for that stream. */
        NEED(cudaSetDevice(by_stream) == cudaSuccess);
        NEED(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking) == cudaSuccess);
        NEED(cudaSetDevice(0) == cudaSuccess);
        NEED(cudaLaunchHostFunc(stream, wait_at_gate, &open) == cudaSuccess);
        NEED(pthread_create(&opener, NULL, open_later, &open) == 0);
        NEED((by_stream ? cudaFreeAsync(there, stream) : cudaIpcCloseMemHandle(there)) == cudaSuccess);
        NEED(atomic_load(&open) == 1);
        pthread_join(opener, NULL);
        NEED(cudaStreamDestroy(stream) == cudaSuccess);
    }
    memset(&handle, 1, sizeof handle);
    NEED(cudaIpcOpenMemHandle((void **)&there, handle, cudaIpcMemLazyEnablePeerAccess) == cudaErrorInvalidValue);
    free(host);
    return 0;
}

static int use_event(void)
{
    cudaIpcEventHandle_t handle;
    cudaStream_t stream;
    cudaEvent_t event;
    char ready = 1;

    hear(line[1], &handle, sizeof handle);
    NEED(cudaIpcOpenEventHandle(&event, handle) == cudaSuccess);
    NEED(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking) == cudaSuccess);
    NEED(cudaEventQuery(event) == cudaErrorNotReady); /* a gate holds up the parent's stream */
    NEED(cudaStreamWaitEvent(stream, event, 0) == cudaSuccess);
    NEED(cudaStreamQuery(stream) == cudaErrorNotReady);
    say(line[1], &ready, 1);
    NEED(cudaEventSynchronize(event) == cudaSuccess);
    NEED(cudaStreamSynchronize(stream) == cudaSuccess);
    NEED(cudaEventQuery(event) == cudaSuccess);
    NEED(cudaEventDestroy(event) == cudaSuccess);
    NEED(cudaStreamDestroy(stream) == cudaSuccess);
    return 0;
}

static int use_pool(void)
{
    struct cudaMemPoolPtrExportData data;
    unsigned char *there, host[1000];
    cudaMemPool_t pool;
    void *none;
    int fd = hear_descriptor(line[1]);

    hear(line[1], &data, sizeof data);
    NEED(cudaMemPoolImportFromShareableHandle(&pool, (void *)(intptr_t)fd, cudaMemHandleTypePosixFileDescriptor,
                                              0) == cudaSuccess);
    NEED(close(fd) == 0);
    NEED(cudaMallocFromPoolAsync(&none, 16, pool, 0) == cudaErrorInvalidValue);
    NEED(cudaMemPoolImportPointer((void **)&there, pool, &data) == cudaSuccess);
    NEED(cudaMemcpy(host, there, sizeof host, cudaMemcpyDeviceToHost) == cudaSuccess);
    HAS_PATTERN(host, sizeof host, 3);
    NEED(cudaFreeAsync(there, 0) == cudaSuccess);
    NEED(cudaMemPoolImportPointer((void **)&there, pool, &data) == cudaSuccess);
    NEED(cudaFree(there) == cudaSuccess);
    NEED(cudaMemPoolDestroy(pool) == cudaSuccess);
    return 0;
}

static int other_process(void)
{
    int (*const steps[])(void) = {use_memory, use_event, use_pool};

    for (size_t i = 0; i < sizeof steps / sizeof steps[0]; i++) {
        int wrong = steps[i]();

        say(line[1], &wrong, sizeof wrong);
    }
    return cudaDeviceReset() != cudaSuccess || cudaSetDevice(1) != cudaSuccess || cudaDeviceReset() != cudaSuccess;
}

static void expect_done(void)
{
    int wrong;

    hear(line[0], &wrong, sizeof wrong);
    if (wrong)
        print_error("the other process failed in line %d\n", wrong);
    assert_int_equal(wrong, 0);
}

/* ---- this process ---- */

static void memory_is_shared(void **state)
{
    unsigned char *host = malloc(BYTES), *device;
    cudaIpcMemHandle_t handle, same;
    void *mine;

    (void)state;
    write_pattern(host, BYTES, 1);
    OK(cudaMalloc((void **)&device, BYTES));
    OK(cudaMemcpy(device, host, BYTES, cudaMemcpyHostToDevice));
    OK(cudaIpcGetMemHandle(&handle, device));
    OK(cudaIpcGetMemHandle(&same, device + 5));
    assert_memory_equal(&handle, &same, sizeof handle);
    GIVES(cudaErrorInvalidValue, cudaIpcGetMemHandle(&same, host));
    GIVES(cudaErrorDeviceUninitialized, cudaIpcOpenMemHandle(&mine, handle, cudaIpcMemLazyEnablePeerAccess));
    GIVES(cudaErrorInvalidValue, cudaIpcCloseMemHandle(device));
    say(line[0], &handle, sizeof handle);
    expect_done();
    OK(cudaMemcpy(host, device, BYTES, cudaMemcpyDeviceToHost));
    HAS_PATTERN(host, BYTES, 2);
    OK(cudaFree(device));
    free(host);
}

static void events_are_shared(void **state)
{
    cudaIpcEventHandle_t handle;
    cudaEvent_t event, plain;
    cudaStream_t stream;
    gate open = 0;
    char ready;

    (void)state;
    OK(cudaStreamCreate(&stream));
    OK(cudaEventCreate(&plain));
    OK(cudaEventCreateWithFlags(&event, cudaEventInterprocess | cudaEventDisableTiming));
    OK(cudaEventQuery(event));
    OK(cudaEventRecord(event, stream));
    OK(cudaEventSynchronize(event));
    OK(cudaLaunchHostFunc(stream, wait_at_gate, &open));
    OK(cudaEventRecord(event, stream));
    GIVES(cudaErrorNotReady, cudaEventQuery(event));
    GIVES(cudaErrorInvalidValue, cudaIpcGetEventHandle(&handle, plain));
    OK(cudaIpcGetEventHandle(&handle, event));
    say(line[0], &handle, sizeof handle);
    hear(line[0], &ready, 1);
    atomic_store(&open, 1);
    expect_done();
    OK(cudaEventSynchronize(event));
    OK(cudaEventDestroy(event));
    OK(cudaEventDestroy(plain));
    OK(cudaStreamDestroy(stream));
}

static void pools_are_shared(void **state)
{
    struct cudaMemPoolProps props = {.allocType = cudaMemAllocationTypePinned,
                                     .handleTypes = cudaMemHandleTypePosixFileDescriptor,
                                     .location = {cudaMemLocationTypeDevice, 0}};
    struct cudaMemPoolPtrExportData data;
    unsigned char *device, host[1000];
    cudaMemPool_t pool, standard;
    void *plain;
    int fd;

    (void)state;
    write_pattern(host, sizeof host, 3);
    OK(cudaDeviceGetDefaultMemPool(&standard, 0));
    GIVES(cudaErrorInvalidValue,
          cudaMemPoolExportToShareableHandle(&fd, standard, cudaMemHandleTypePosixFileDescriptor, 0));
    OK(cudaMemPoolCreate(&pool, &props));
    OK(cudaMallocFromPoolAsync((void **)&device, sizeof host, pool, 0));
    OK(cudaMemcpy(device, host, sizeof host, cudaMemcpyHostToDevice));
    OK(cudaMemPoolExportToShareableHandle(&fd, pool, cudaMemHandleTypePosixFileDescriptor, 0));
    OK(cudaMemPoolExportPointer(&data, device));
    OK(cudaMalloc(&plain, 16));
    GIVES(cudaErrorInvalidValue, cudaMemPoolExportPointer(&data, plain)); /* plain is not in a pool; data stays
                                                                           * unchanged */
    OK(cudaFree(plain));
    say_descriptor(line[0], fd);
    close(fd);
    say(line[0], &data, sizeof data);
    expect_done();
    OK(cudaFreeAsync(device, 0));
    OK(cudaStreamSynchronize(0));
    OK(cudaMemPoolDestroy(pool));
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(memory_is_shared),
    cmocka_unit_test(events_are_shared),
    cmocka_unit_test(pools_are_shared),
};

int main(void)
{
    struct timeval patience = {.tv_sec = 60};
    int wrong, status = -1;

    if (socketpair(AF_UNIX, SOCK_STREAM, 0, line))
        return 1;
    for (int i = 0; i < 2; i++)
        (void)setsockopt(line[i], SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    child = fork();
    if (child == 0)
        return other_process();
    wrong = child < 0 || cmocka_run_group_tests(tests, NULL, NULL);
    close(line[0]);
    wrong |= waitpid(child, &status, 0) != child || status != 0 || cudaDeviceReset() != cudaSuccess;
    return wrong ? 1 : 0;
}
