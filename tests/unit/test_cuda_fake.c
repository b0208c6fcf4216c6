/*
 * test_cuda_fake.c - tests the code of the CUDA driver over a fake libcuda.so.1 (tests/fake/fake_cuda.c).
 *
 * The fake library is strict about contexts and counts live objects. So the test finds errors that a GPU would
 * forgive: a context left current, a stream used in the wrong context, a leak after a vendor call has failed. The
 * kernels of the fake library do nothing.
 */
#include "fakes.h"

#include <leat/native.h>
#include <leat/trace.h>

#include "driver/cuda/cuda_types.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define BYTES 4096

/* Functions of the fake library that the tests call directly, as a user's own code would. */
static struct {
    unsigned (*depth)(void);
    void *(*context)(int device);
    void (*forget_start)(const void *ptr);
    unsigned (*peers)(void);
    cu_result (*retain)(cu_context *, cu_device);
    cu_result (*release)(cu_device);
    cu_result (*push)(cu_context);
    cu_result (*pop)(cu_context *);
    cu_result (*current)(cu_context *);
    cu_result (*stream_create)(cu_stream *, unsigned int);
    cu_result (*stream_destroy)(cu_stream);
    cu_result (*event_create)(cu_event *, unsigned int);
    cu_result (*event_destroy)(cu_event);
    cu_result (*mem_alloc)(cu_deviceptr *, size_t);
    cu_result (*mem_alloc_async)(cu_deviceptr *, size_t, cu_stream);
    cu_result (*mem_free)(cu_deviceptr);
    cu_result (*host_alloc)(void **, size_t, unsigned int);
    cu_result (*host_free)(void *);
    cu_result (*host_register)(void *, size_t, unsigned int);
    cu_result (*unregister)(void *);
} fake;

static const struct fakes_function functions[] = {
    {"fake_cuda_depth", &fake.depth},
    {"fake_cuda_context", &fake.context},
    {"fake_cuda_forget_start", &fake.forget_start},
    {"fake_cuda_peers", &fake.peers},
    {"cuDevicePrimaryCtxRetain", &fake.retain},
    {"cuDevicePrimaryCtxRelease_v2", &fake.release},
    {"cuCtxPushCurrent_v2", &fake.push},
    {"cuCtxPopCurrent_v2", &fake.pop},
    {"cuCtxGetCurrent", &fake.current},
    {"cuStreamCreate", &fake.stream_create},
    {"cuStreamDestroy_v2", &fake.stream_destroy},
    {"cuEventCreate", &fake.event_create},
    {"cuEventDestroy_v2", &fake.event_destroy},
    {"cuMemAlloc_v2", &fake.mem_alloc},
    {"cuMemAllocAsync", &fake.mem_alloc_async},
    {"cuMemFree_v2", &fake.mem_free},
    {"cuMemHostAlloc", &fake.host_alloc},
    {"cuMemFreeHost", &fake.host_free},
    {"cuMemHostRegister_v2", &fake.host_register},
    {"cuMemHostUnregister", &fake.unregister},
    {NULL, NULL},
};

static void expect_no_context(void)
{
    assert_int_equal(fake.depth(), 0);
}

/* Makes the primary context of the first device current. */
static void push_primary(void)
{
    cu_context primary = NULL;

    assert_int_equal(fake.retain(&primary, 0), 0);
    assert_int_equal(fake.push(primary), 0);
}

static void pop_primary(void)
{
    cu_context popped;

    assert_int_equal(fake.pop(&popped), 0);
    assert_int_equal(fake.release(0), 0);
}

static void *new_ordered_stream(void)
{
    cu_stream stream = NULL;

    push_primary();
    assert_int_equal(fake.stream_create(&stream, 0), 0);
    pop_primary();
    return stream;
}

static void end_stream(void *stream)
{
    push_primary();
    assert_int_equal(fake.stream_destroy(stream), 0);
    pop_primary();
}

const struct fakes_vendor fakes_vendor = {
    .name = "cuda",
    .library_variable = "LEAT_CUDA_LIBRARY",
    .devices = {"cuda:0", "cuda:1"},
    .out_of_memory = "CUDA_ERROR_OUT_OF_MEMORY",
    .unknown = LEATI_CUDA_ERROR_UNKNOWN,
    .lost = LEATI_CUDA_ERROR_LAUNCH_FAILED,
    .shared_bytes = 90 << 10,
    .parameter_bytes = 8,
    .concurrent = true,
    .expect_as_before = expect_no_context,
    .new_ordered_stream = new_ordered_stream,
    .end_stream = end_stream,
};

/* ---- contexts ---- */

static void test_context_stays(void **state)
{
    cu_context mine = fake.context(1);
    cu_context now = NULL;

    (void)state;
    assert_int_equal(fake.push(mine), 0);
    OK(fakes_do_all());
    assert_int_equal(fake.current(&now), 0);
    assert_ptr_equal(now, mine);
    assert_int_equal(fake.depth(), 1);
    assert_int_equal(fake.pop(&now), 0);
}

/* The user may change the current context between calls of leat. Whatever context is current, leat's calls must
 * work and leave that context current. */
static void test_context_changes(void **state)
{
    leat_device *device = fakes_open("cuda:0");
    leat_stream *stream;
    cu_context now = NULL;
    void *own = NULL;

    (void)state;
    OK(leat_stream_create(device, &stream));
    OK(leat_device_native(device, &own));
    for (int i = 0; i < 200; i++) {
        cu_context at_first = i / 3 % 4 == 1 ? own : i / 3 % 4 == 2 ? fake.context(1) : NULL;

        if (at_first)
            assert_int_equal(fake.push(at_first), 0);
        OK(leat_stream_query(stream));
        assert_int_equal(fake.depth(), at_first ? 1 : 0);
        assert_int_equal(fake.current(&now), 0);
        assert_ptr_equal(now, at_first);
        if (at_first)
            assert_int_equal(fake.pop(&now), 0);
    }
    OK(leat_device_close(device));
}

static void test_wrapped_device(void **state)
{
    leat_device *device = NULL;
    leat_stream *stream = NULL;
    void *native = NULL;
    void *d = NULL;

    (void)state;
    REFUSED(leat_device_wrap("cuda:0", fake.context(1), &device), LEAT_ERROR_INVALID, "belongs to cuda:1");
    OK(leat_device_wrap("cuda:1", fake.context(1), &device));
    OK(leat_device_native(device, &native));
    assert_ptr_equal(native, fake.context(1));
    OK(leat_stream_create(device, &stream));
    OK(leat_alloc(stream, BYTES, &d));
    OK(leat_fill(stream, d, 1, BYTES));
    OK(leat_free(stream, d));
    OK(leat_device_close(device));
    assert_int_equal(fakes.live(), 0);
}

static void test_wrapped_stream(void **state)
{
    leat_device *device = fakes_open("cuda:0");
    leat_stream *stream = NULL;
    cu_stream mine = NULL, foreign = NULL;
    cu_context context = NULL;
    void *native = NULL;

    (void)state;
    OK(leat_device_native(device, &native));
    context = native;
    assert_int_equal(fake.push(context), 0);
    assert_int_equal(fake.stream_create(&mine, 0), 0);
    assert_int_equal(fake.pop(&context), 0);
    assert_int_equal(fake.push(fake.context(0)), 0);
    assert_int_equal(fake.stream_create(&foreign, 0), 0);
    assert_int_equal(fake.pop(&context), 0);

    REFUSED(leat_stream_wrap(device, foreign, &stream), LEAT_ERROR_INVALID, "another context");
    fakes_use_stream(device, mine);
    OK(leat_device_close(device));

    /* leat destroyed only its wrappers, so the two streams still exist. */
    assert_int_equal(fakes.live(), 2);
    assert_int_equal(fake.push(fake.context(0)), 0);
    assert_int_equal(fake.stream_destroy(mine), 0);
    assert_int_equal(fake.stream_destroy(foreign), 0);
    assert_int_equal(fake.pop(&context), 0);
}

static void test_wrapped_event(void **state)
{
    leat_device *device = fakes_open("cuda:0");
    cu_event mine = NULL;
    cu_context context = NULL;
    void *native = NULL;

    (void)state;
    OK(leat_device_native(device, &native));
    context = native;
    assert_int_equal(fake.push(context), 0);
    assert_int_equal(fake.event_create(&mine, 0), 0);
    fakes_use_event(device, mine);
    assert_int_equal(fake.event_destroy(mine), 0);
    assert_int_equal(fake.pop(&context), 0);
    OK(leat_device_close(device));
    assert_int_equal(fakes.live(), 0);
}

/* ---- memory ---- */

/* leat must find out about memory that the user allocated with the vendor's calls. */
static void test_pointers_of_the_user(void **state)
{
    leat_device *device = fakes_open("cuda:0");
    cu_context context = NULL;
    cu_deviceptr address = 0;
    cu_deviceptr pooled = 0;
    void *native = NULL;
    void *pinned = NULL;
    char *d;
    int local = 0;

    (void)state;
    OK(leat_device_native(device, &native));
    context = native;
    assert_int_equal(fake.push(context), 0);
    assert_int_equal(fake.mem_alloc(&address, BYTES), 0);
    assert_int_equal(fake.mem_alloc_async(&pooled, BYTES, NULL), 0);
    assert_int_equal(fake.host_alloc(&pinned, BYTES, 0), 0);
    d = (char *)(uintptr_t)address;
    fakes_expect_place(d + 100, LEAT_KIND_DEVICE, device, d, BYTES);
    d = (char *)(uintptr_t)pooled;
    fakes_expect_place(d, LEAT_KIND_DEVICE, device, d, BYTES);
    fakes_expect_place((char *)pinned + 1, LEAT_KIND_PINNED, device, pinned, BYTES);
    fakes_expect_place(&local, LEAT_KIND_PAGEABLE, NULL, NULL, 0);
    /* If the driver reports a size but no start, leat does not know where the memory ends. */
    fake.forget_start(d);
    fakes_expect_place(d, LEAT_KIND_DEVICE, device, NULL, 0);
    fakes_expect_place(d + 100, LEAT_KIND_DEVICE, device, NULL, 0);
    REFUSED(leat_register(device, pinned, BYTES), LEAT_ERROR_REGISTERED, "already");
    assert_int_equal(fake.mem_free(address), 0);
    assert_int_equal(fake.mem_free(pooled), 0);
    assert_int_equal(fake.host_free(pinned), 0);
    assert_int_equal(fake.pop(&context), 0);
    OK(leat_device_close(device));
}

/* The user unregisters memory that leat has registered, so leat_unregister() must return an error. */
static void test_unregistered_by_the_user(void **state)
{
    leat_device *device = fakes_open("cuda:0");
    void *host = test_buffer(BYTES);

    (void)state;
    OK(leat_register(device, host, BYTES));
    push_primary();
    assert_int_equal(fake.unregister(host), 0);
    pop_primary();
    REFUSED(leat_unregister(host), LEAT_ERROR_POINTER, "CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED");
    push_primary();
    assert_int_equal(fake.host_register(host, BYTES, 0), 0);
    pop_primary();
    OK(leat_unregister(host));
    OK(leat_device_close(device));
    free(host);
    assert_int_equal(fakes.live(), 0);
}

/* Fails the first lookup of an address in CUDA. */
static void fail_lookup(void)
{
    fakes.fail_at(1, LEATI_CUDA_ERROR_NOT_INITIALIZED);
}

/* CUDA fails in a child of fork(), for example. This must not fail the lookups of the CPU device, nor change the
 * last error; but CUDA's own lookups fail. */
static void test_lookups_without_cuda(void **state)
{
    leat_pointer_info info = LEAT_POINTER_INFO_INIT;
    leat_device *device = NULL, *cpu = fakes_open("cpu:0");
    char *src = test_buffer(2 * BYTES), *dst = src + BYTES, before[1024];
    leat_stream *stream, *own;
    void *d;

    (void)state;
    OK(leat_stream_create(cpu, &own));
    snprintf(before, sizeof before, "%s", leat_last_error());
    for (int open = 0; open < 2; open++) {
        if (open)
            device = fakes_open("cuda:0");
        test_pattern(src, BYTES, 3 + (uint64_t)open);
        fail_lookup();
        OK(leat_copy(own, dst, src, BYTES));
        assert_int_equal(fakes.calls() > 0, 1);
        fakes.fail_at(0, 0);
        OK(leat_stream_synchronize(own));
        EXPECT_PATTERN(dst, BYTES, 3 + (uint64_t)open);
        assert_string_equal(leat_last_error(), before);
        fail_lookup();
        if (open)
            REFUSED(leat_pointer_get_info(src, &info), LEAT_ERROR_DRIVER, "fork");
        else
            OK(leat_pointer_get_info(src, &info));
    }
    fakes.fail_at(0, 0);
    OK(leat_stream_create(device, &stream));
    OK(leat_alloc(stream, BYTES, &d));
    fail_lookup();
    REFUSED(leat_copy(stream, d, src, BYTES), LEAT_ERROR_DRIVER, "fork");
    fakes.fail_at(0, 0);
    OK(leat_free(stream, d));
    OK(leat_device_close(device));
    OK(leat_device_close(cpu));
    free(src);
    assert_int_equal(fakes.live(), 0);
}

/* Allocates memory with the vendor's calls in the given context. */
static void *alloc_in(cu_context context, bool pooled)
{
    cu_deviceptr address = 0;
    cu_context popped;

    assert_int_equal(fake.push(context), 0);
    assert_int_equal(pooled ? fake.mem_alloc_async(&address, BYTES, NULL) : fake.mem_alloc(&address, BYTES), 0);
    assert_int_equal(fake.pop(&popped), 0);
    return (void *)(uintptr_t)address;
}

static void free_in(cu_context context, void *ptr)
{
    cu_context popped;

    assert_int_equal(fake.push(context), 0);
    assert_int_equal(fake.mem_free((cu_deviceptr)(uintptr_t)ptr), 0);
    assert_int_equal(fake.pop(&popped), 0);
}

/* Opens two leat devices on one GPU with different contexts. Memory must belong to the device whose context
 * allocated it, in whichever order the devices were opened. */
static void test_two_contexts_on_one_gpu(void **state)
{
    (void)state;
    for (int first = 0; first < 2; first++) {
        cu_context contexts[2] = {NULL, fake.context(1)};
        leat_device *devices[2];
        void *native, *memory;

        for (int i = 0; i < 2; i++) {
            int which = i ? !first : first;

            if (which)
                OK(leat_device_wrap("cuda:1", contexts[1], &devices[1]));
            else
                devices[0] = fakes_open("cuda:1");
        }
        OK(leat_device_native(devices[0], &native));
        contexts[0] = native;
        assert_ptr_not_equal(contexts[0], contexts[1]);
        for (int i = 0; i < 2; i++) {
            memory = alloc_in(contexts[i], false);
            fakes_expect_place(memory, LEAT_KIND_DEVICE, devices[i], memory, BYTES);
            free_in(contexts[i], memory);
        }
        /* Memory of the vendor's pool has no context, so leat assigns it to the device of the primary context. */
        memory = alloc_in(contexts[1], true);
        fakes_expect_place(memory, LEAT_KIND_DEVICE, devices[0], memory, BYTES);
        free_in(contexts[1], memory);
        OK(leat_device_close(devices[1]));
        OK(leat_device_close(devices[0]));
    }
    assert_int_equal(fakes.live(), 0);
}

/* Peer access is between contexts. So leat must enable it for each of two contexts on one GPU, once in each
 * direction, and again after one was closed and opened. */
static void test_peer_access_of_each_context(void **state)
{
    leat_device *device = fakes_open("cuda:0"), *others[2];
    void *memory, *far[2];
    leat_stream *stream;
    unsigned before;

    (void)state;
    OK(leat_stream_create(device, &stream));
    OK(leat_memory_alloc(device, LEAT_KIND_DEVICE, BYTES, &memory));
    before = fake.peers();
    for (int again = 0; again < 2; again++) {
        others[0] = fakes_open("cuda:1");
        OK(leat_device_wrap("cuda:1", fake.context(1), &others[1]));
        for (int i = 0; i < 2; i++) {
            OK(leat_memory_alloc(others[i], LEAT_KIND_DEVICE, BYTES, &far[i]));
            for (int times = 0; times < 2; times++)
                OK(leat_copy(stream, far[i], memory, BYTES));
            before += 2;
            assert_int_equal(fake.peers(), before);
        }
        OK(leat_stream_synchronize(stream));
        for (int i = 0; i < 2; i++)
            OK(leat_device_close(others[i]));
    }
    OK(leat_device_close(device));
    assert_int_equal(fakes.live(), 0);
}

/* If memory belongs to another device than the stream, the copy must be made in the context of the memory's
 * device. */
static void test_copies_in_the_context_of_the_memory(void **state)
{
    static const leat_copy_region region = {BYTES / 4, 2, 1, BYTES / 2, BYTES / 2, 0, 0};
    leat_device *device = fakes_open("cuda:0"), *other = fakes_open("cuda:1");
    void *native, *far, *pinned;
    leat_stream *stream;

    (void)state;
    OK(leat_stream_create(device, &stream));
    OK(leat_device_native(other, &native));
    far = alloc_in(native, true);
    OK(leat_memory_alloc(device, LEAT_KIND_PINNED, 2 * BYTES, &pinned));
    test_pattern(pinned, BYTES, 3);
    memset((char *)pinned + BYTES, 0, BYTES);
    OK(leat_copy(stream, far, pinned, BYTES));
    OK(leat_copy(stream, (char *)pinned + BYTES, far, BYTES));
    OK(leat_stream_synchronize(stream));
    EXPECT_PATTERN((char *)pinned + BYTES, BYTES, 3);
    OK(leat_copy_3d(stream, far, pinned, &region));
    OK(leat_copy_3d(stream, pinned, far, &region));
    OK(leat_stream_synchronize(stream));
    free_in(native, far);
    OK(leat_device_close(other));
    OK(leat_device_close(device));
    assert_int_equal(fakes.live(), 0);
}

/* The handles of default streams, each of which means another stream in each context. */
static void *const default_streams[] = {NULL, (void *)1, (void *)2};

static int let_default_streams_go(void **state)
{
    (void)state;
    for (size_t i = 0; i < 3; i++)
        fakes.hold(0, default_streams[i], 0);
    return 0;
}

static void write_pattern(void *ptr)
{
    test_pattern(ptr, BYTES, 6);
}

/* A copy on a default stream of one device, with memory of another device, must wait for the earlier work of that
 * stream, and its later work for the copy. The fake library's device memory is host memory. */
static void test_far_copies_keep_the_order_of_default_streams(void **state)
{
    static const leat_copy_region region = {BYTES / 4, 2, 1, BYTES / 2, BYTES / 2, 0, 0};
    leat_device *device = fakes_open("cuda:0"), *other = fakes_open("cuda:1");
    void *far, *pinned, *pageable = test_buffer(BYTES);
    leat_stream *stream;

    (void)state;
    OK(leat_memory_alloc(other, LEAT_KIND_DEVICE, BYTES, &far));
    OK(leat_memory_alloc(device, LEAT_KIND_PINNED, BYTES, &pinned));
    for (size_t i = 0; i < 6; i++) {
        bool rows = i >= 3;

        OK(leat_stream_wrap(device, default_streams[i % 3], &stream));
        test_pattern(pinned, BYTES, i + 1);
        memset(far, 0, BYTES);
        fakes.hold(0, default_streams[i % 3], 1);
        OK(rows ? leat_copy_3d(stream, far, pinned, &region) : leat_copy(stream, far, pinned, BYTES));
        EXPECT_BYTES(far, BYTES, 0);
        /* This copy comes later in the stream, so it must find the bytes of the first one. */
        memset((char *)pinned + BYTES / 2, 0, BYTES / 2);
        OK(leat_copy(stream, (char *)pinned + BYTES / 2, far, BYTES / 4));
        fakes.hold(0, default_streams[i % 3], 0);
        OK(leat_stream_synchronize(stream));
        assert_memory_equal(far, pinned, BYTES / 4);
        assert_memory_equal((char *)pinned + BYTES / 2, pinned, BYTES / 4);

        /* The copy waits for the function that writes its source. */
        memset(far, 0, BYTES);
        memset(pageable, 0, BYTES);
        fakes.hold(0, default_streams[i % 3], 1);
        OK(leat_launch_host(stream, write_pattern, far));
        OK(rows ? leat_copy_3d(stream, pageable, far, &region) : leat_copy(stream, pageable, far, BYTES));
        fakes.hold(0, default_streams[i % 3], 0);
        OK(leat_stream_synchronize(stream));
        assert_memory_equal(pageable, far, BYTES / 4);
        memset(pageable, 0, BYTES);
        memset(far, 0, BYTES);
        fakes.hold(0, default_streams[i % 3], 1);
        OK(leat_launch_host(stream, write_pattern, pageable));
        OK(rows ? leat_copy_3d(stream, far, pageable, &region) : leat_copy(stream, far, pageable, BYTES));
        fakes.hold(0, default_streams[i % 3], 0);
        OK(leat_stream_synchronize(stream));
        EXPECT_PATTERN(far, BYTES / 4, 6);
        OK(leat_stream_destroy(stream));
    }
    free(pageable);
    OK(leat_device_close(other));
    OK(leat_device_close(device));
    assert_int_equal(fakes.live(), 0);
}

/* A failure of each call for such a copy is reported, and nothing is left. */
static void test_far_copies_that_fail(void **state)
{
    leat_device *device = fakes_open("cuda:0"), *other = fakes_open("cuda:1");
    unsigned before, failures = 0, n = 1, reached;
    void *far, *pinned;
    leat_stream *stream;

    (void)state;
    OK(leat_memory_alloc(other, LEAT_KIND_DEVICE, BYTES, &far));
    OK(leat_memory_alloc(device, LEAT_KIND_PINNED, BYTES, &pinned));
    OK(leat_stream_wrap(device, NULL, &stream));
    before = fakes.live();
    do {
        fakes.fail_at(n, LEATI_CUDA_ERROR_UNKNOWN);
        failures += leat_copy(stream, far, pinned, BYTES) == LEAT_ERROR_DRIVER;
        reached = fakes.calls();
        fakes.fail_at(0, 0);
        assert_int_equal(fakes.live(), before);
    } while (n++ <= reached);
    assert_int_equal(failures, 8); /* a stream, two events, two records, two waits, the copy */
    OK(leat_copy(stream, far, pinned, BYTES));
    OK(leat_device_close(other));
    OK(leat_device_close(device));
    assert_int_equal(fakes.live(), 0);
}

/* leat must translate the places of advice and prefetches, including the host, to the vendor's numbers and back.
 * Managed memory that the user allocated can be attached to a stream. */
static void test_managed(void **state)
{
    leat_device *device = fakes_open("cuda:0"), *other = fakes_open("cuda:1");
    leat_managed_info info = {.size = sizeof info};
    cu_result (*alloc_managed)(cu_deviceptr *, size_t, unsigned int) = NULL;
    leat_stream *stream;
    cu_context popped;
    cu_deviceptr own;
    void *symbol, *managed;

    (void)state;
    OK(leat_stream_create(device, &stream));
    OK(leat_memory_alloc(device, LEAT_KIND_MANAGED, BYTES, &managed));
    OK(leat_managed_prefetch(stream, managed, BYTES, other));
    OK(leat_managed_advise(managed, BYTES, LEAT_ADVICE_READ_MOSTLY, NULL));
    OK(leat_managed_advise(managed, BYTES, LEAT_ADVICE_PREFERRED, LEAT_HOST));
    OK(leat_managed_advise(managed, BYTES, LEAT_ADVICE_ACCESSED_BY, LEAT_HOST));
    OK(leat_managed_advise(managed, BYTES, LEAT_ADVICE_ACCESSED_BY, other));
    OK(leat_managed_get_info(managed, BYTES, &info));
    assert_int_equal(info.last_prefetch.kind, LEAT_LOCATION_KIND_DEVICE);
    assert_int_equal(info.last_prefetch.ordinal, 1);
    assert_int_equal(info.preferred.kind, LEAT_LOCATION_KIND_HOST);
    assert_true(info.read_mostly && info.accessed_by_host && info.accessed_by == 2 && !info.places_known);
    OK(leat_managed_advise(managed, BYTES, LEAT_ADVICE_NOT_READ_MOSTLY, NULL));
    OK(leat_managed_advise(managed, BYTES, LEAT_ADVICE_NOT_PREFERRED, NULL));
    OK(leat_managed_advise(managed, BYTES, LEAT_ADVICE_NOT_ACCESSED_BY, LEAT_HOST));
    OK(leat_managed_prefetch(stream, managed, BYTES, LEAT_HOST));
    OK(leat_managed_get_info(managed, BYTES, &info));
    assert_int_equal(info.last_prefetch.kind, LEAT_LOCATION_KIND_HOST);
    assert_int_equal(info.preferred.kind, LEAT_LOCATION_KIND_NONE);
    assert_true(!info.read_mostly && !info.accessed_by_host && info.accessed_by == 2);
    REFUSED(leat_managed_attach(stream, managed, LEAT_ATTACH_STREAM), LEAT_ERROR_UNSUPPORTED, "pool");
    REFUSED(leat_managed_record(device, 1), LEAT_ERROR_UNSUPPORTED, "keeps no record");

    OK(leat_native_symbol(device, "cuMemAllocManaged", &symbol));
    memcpy(&alloc_managed, &symbol, sizeof symbol);
    assert_int_equal(fake.push(fake.context(0)), 0);
    assert_int_equal(alloc_managed(&own, BYTES, 1), 0);
    assert_int_equal(fake.pop(&popped), 0);
    OK(leat_pointer_wrap(device, LEAT_KIND_MANAGED, (void *)(uintptr_t)own, BYTES));
    OK(leat_managed_attach(stream, (void *)(uintptr_t)own, LEAT_ATTACH_STREAM));
    REFUSED(leat_managed_attach(stream, (char *)(uintptr_t)own + 512, LEAT_ATTACH_ALL), LEAT_ERROR_POINTER,
            "inside");
    OK(leat_pointer_unwrap((void *)(uintptr_t)own));
    assert_int_equal(fake.push(fake.context(0)), 0);
    assert_int_equal(fake.mem_free(own), 0);
    assert_int_equal(fake.pop(&popped), 0);
    OK(leat_device_close(other));
    OK(leat_device_close(device));
    assert_int_equal(fakes.live(), 0);
}

/* ---- errors ---- */

/* After each of these errors the process can no longer use the device. */
static void test_lost_devices(void **state)
{
    static const struct {
        unsigned code;
        const char *name, *advice;
    } losses[] = {
        {LEATI_CUDA_ERROR_LAUNCH_FAILED, "CUDA_ERROR_LAUNCH_FAILED", "compute-sanitizer"},
        {LEATI_CUDA_ERROR_CONTAINED, "CUDA_ERROR_CONTAINED", "Xid"},
        {LEATI_CUDA_ERROR_TENSOR_MEMORY_LEAK, "CUDA_ERROR_TENSOR_MEMORY_LEAK", "compute-sanitizer"},
    };
    leat_device *device = fakes_open("cuda:0");
    leat_stream *stream;

    (void)state;
    OK(leat_stream_create(device, &stream));
    for (size_t i = 0; i < sizeof losses / sizeof losses[0]; i++) {
        fakes.fail_at(1, losses[i].code);
        REFUSED(leat_stream_query(stream), LEAT_ERROR_DEVICE_LOST, losses[i].name);
        assert_non_null(strstr(leat_last_error(), losses[i].advice));
        fakes.fail_at(0, 0);
    }
    OK(leat_device_close(device));
    assert_int_equal(fakes.live(), 0);
}

/* ---- modules ---- */

static void test_images(void **state)
{
    static const unsigned char fatbin[] = {0x50, 0xed, 0x55, 0xba, 1, 0, 16, 0, 0xe8, 3, 0, 0, 0, 0, 0, 0};
    static const char no_ptx[] = "no PTX";
    leat_device *device = fakes_open("cuda:0");
    leat_module *module = NULL;
    unsigned char image[64];

    (void)state;
    fakes_make_elf(image, 190);
    REFUSED(leat_module_load(device, image, sizeof image, &module), LEAT_ERROR_IMAGE, "reach to byte 1192");
    REFUSED(leat_module_load(device, image, 20, &module), LEAT_ERROR_IMAGE, "cut off");
    fakes_make_elf(image, 62);
    REFUSED(leat_module_load(device, image, sizeof image, &module), LEAT_ERROR_IMAGE, "another machine");
    REFUSED(leat_module_load(device, fatbin, sizeof fatbin, &module), LEAT_ERROR_IMAGE, "reach to byte 1016");
    REFUSED(leat_module_load(device, no_ptx, sizeof no_ptx, &module), LEAT_ERROR_IMAGE, "line 1; no .version");
    OK(leat_device_close(device));
    assert_int_equal(fakes.live(), 0);
}

/* ---- captures ---- */

/* The recorder of traces asks about events while a stream is captured. The fake library ends a capture if a thread
 * does that in another mode than the relaxed one. */
static void test_trace_during_capture(void **state)
{
    const struct timespec looks = {.tv_nsec = 60000000}; /* of the recorder: some */
    leat_device *device = fakes_open("cuda:0");
    cu_result (*begin)(cu_stream stream, unsigned mode), (*end)(cu_stream stream, void **graph);
    leat_trace_stats stats = LEAT_TRACE_STATS_INIT;
    void *memory, *captured, *graph;
    leat_stream *streams[2];

    (void)state;
    OK(leat_native_symbol(device, "cuStreamBeginCapture_v2", (void **)&begin));
    OK(leat_native_symbol(device, "cuStreamEndCapture", (void **)&end));
    for (int i = 0; i < 2; i++)
        OK(leat_stream_create(device, &streams[i]));
    OK(leat_alloc(streams[0], BYTES, &memory));
    OK(leat_stream_native(streams[1], &captured));
    OK(leat_trace_start("/dev/null", NULL));
    OK(leat_fill(streams[0], memory, 1, BYTES));
    assert_int_equal(begin(captured, 0), 0);
    nanosleep(&looks, NULL);
    assert_int_equal(end(captured, &graph), 0);
    OK(leat_stream_synchronize(streams[0]));
    OK(leat_trace_stop(&stats));
    assert_int_equal(stats.lost_times, 0);
    OK(leat_device_close(device));
    assert_int_equal(fakes.live(), 0);
}

/* The second copy of pageable memory starts a thread that sets up staging. Its calls must not end a capture of the
 * program. */
static void test_set_up_during_capture(void **state)
{
    const struct timespec moment = {.tv_nsec = 100000000};
    leat_device *device = fakes_open("cuda:0");
    cu_result (*begin)(cu_stream stream, unsigned mode), (*end)(cu_stream stream, void **graph);
    cu_result (*exchange)(unsigned *mode);
    void *memory, *captured, *graph, *pageable = test_buffer(BYTES);
    unsigned mode = 2; /* relaxed: the calls of this thread do not end the capture */
    leat_stream *streams[2];

    (void)state;
    OK(leat_native_symbol(device, "cuStreamBeginCapture_v2", (void **)&begin));
    OK(leat_native_symbol(device, "cuStreamEndCapture", (void **)&end));
    OK(leat_native_symbol(device, "cuThreadExchangeStreamCaptureMode", (void **)&exchange));
    for (int i = 0; i < 2; i++)
        OK(leat_stream_create(device, &streams[i]));
    OK(leat_memory_alloc(device, LEAT_KIND_DEVICE, BYTES, &memory));
    OK(leat_stream_native(streams[1], &captured));
    assert_int_equal(begin(captured, 0), 0);
    assert_int_equal(exchange(&mode), 0);
    for (int i = 0; i < 2; i++)
        OK(leat_copy(streams[0], memory, pageable, BYTES));
    nanosleep(&moment, NULL);
    assert_int_equal(exchange(&mode), 0);
    assert_int_equal(end(captured, &graph), 0);
    free(pageable);
    OK(leat_device_close(device));
    assert_int_equal(fakes.live(), 0);
}

/* ---- device properties ---- */

static void test_info(void **state)
{
    (void)state;
    fakes_expect_info("Fake GPU 1", "sm_91", "cuMemAlloc_v2", "cuNothing");
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_each_call_fails),
        cmocka_unit_test(test_context_stays),
        cmocka_unit_test(test_context_changes),
        cmocka_unit_test(test_wrapped_device),
        cmocka_unit_test(test_wrapped_stream),
        cmocka_unit_test(test_wrapped_event),
        cmocka_unit_test(test_pointers_of_the_user),
        cmocka_unit_test(test_lookups_without_cuda),
        cmocka_unit_test(test_two_contexts_on_one_gpu),
        cmocka_unit_test(test_peer_access_of_each_context),
        cmocka_unit_test(test_copies_in_the_context_of_the_memory),
        cmocka_unit_test_teardown(test_far_copies_keep_the_order_of_default_streams, let_default_streams_go),
        cmocka_unit_test(test_far_copies_that_fail),
        cmocka_unit_test(test_unregistered_by_the_user),
        cmocka_unit_test(test_regions),
        cmocka_unit_test(test_long_pitches),
        cmocka_unit_test_teardown(test_streams_wait_for_no_default_stream, fakes_let_default_stream_go),
        cmocka_unit_test_teardown(test_stream_of_each_thread, fakes_let_stream_of_thread_go),
        cmocka_unit_test(test_pageable_sources_are_read_in_order),
        cmocka_unit_test(test_copies_stay_in_one_allocation),
        cmocka_unit_test(test_tickets_leave_nothing),
        cmocka_unit_test(test_managed),
        cmocka_unit_test(test_out_of_memory),
        cmocka_unit_test(test_no_counters),
        cmocka_unit_test(test_lost_devices),
        cmocka_unit_test(test_images),
        cmocka_unit_test(test_kernels),
        cmocka_unit_test(test_trace_during_capture),
        cmocka_unit_test(test_set_up_during_capture),
        cmocka_unit_test(test_info),
    };

    unsetenv("FAKE_CUDA");
    if (!fakes_load(functions))
        return 1;
    return cmocka_run_group_tests(tests, NULL, NULL) ? 1 : 0;
}
