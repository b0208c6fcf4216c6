/* test_bad_input.c - tests wrong arguments: each call must return the status that its header names and a message
 * that names the wrong argument. Nothing may leak, and the device must still work. */
#include "harness.h"
#include "temporary.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define KIB 1024

/* Checks after wrong calls that the device still allocates, copies and frees. */
static void still_works(struct test_state *t)
{
    unsigned char in[1000], out[1000];
    void *memory;

    test_pattern(in, sizeof in, 1);
    OK(leat_alloc(t->stream, sizeof in, &memory));
    OK(leat_copy(t->stream, memory, in, sizeof in));
    OK(leat_copy_sync(t->stream, out, memory, sizeof in));
    EXPECT_PATTERN(out, sizeof out, 1);
    OK(leat_free(t->stream, memory));
    OK(leat_stream_synchronize(t->stream));
}

static void nothing(void *argument)
{
    (void)argument;
}

static void refuse_device(leat_device *device)
{
    leat_device_info info = LEAT_DEVICE_INFO_INIT;
    leat_stream *stream = NULL;
    leat_event *event = NULL;
    leat_module *module = NULL;
    uint64_t bytes;
    void *ptr = NULL, *symbol = NULL;
    char own[64];

    REFUSED(leat_device_synchronize(device), LEAT_ERROR_HANDLE, "device");
    REFUSED(leat_device_get_info(device, &info), LEAT_ERROR_HANDLE, "device");
    REFUSED(leat_device_memory(device, &bytes, &bytes), LEAT_ERROR_HANDLE, "device");
    REFUSED(leat_device_native(device, &ptr), LEAT_ERROR_HANDLE, "device");
    REFUSED(leat_native_symbol(device, "cuInit", &symbol), LEAT_ERROR_HANDLE, "device");
    REFUSED(leat_memory_alloc(device, LEAT_KIND_DEVICE, 1, &ptr), LEAT_ERROR_HANDLE, "device");
    REFUSED(leat_register(device, own, sizeof own), LEAT_ERROR_HANDLE, "device");
    REFUSED(leat_pointer_wrap(device, LEAT_KIND_PINNED, own, sizeof own), LEAT_ERROR_HANDLE, "device");
    REFUSED(leat_stream_create(device, &stream), LEAT_ERROR_HANDLE, "device");
    REFUSED(leat_stream_wrap(device, own, &stream), LEAT_ERROR_HANDLE, "device");
    REFUSED(leat_event_create(device, &event), LEAT_ERROR_HANDLE, "device");
    REFUSED(leat_event_wrap(device, own, &event), LEAT_ERROR_HANDLE, "device");
    REFUSED(leat_module_load(device, "image", 5, &module), LEAT_ERROR_HANDLE, "device");
    REFUSED(leat_module_load_file(device, "image", &module), LEAT_ERROR_HANDLE, "device");
    REFUSED(leat_module_builtin(device, &module), LEAT_ERROR_HANDLE, "device");
    assert_true(!ptr && !symbol && !stream && !event && !module);
}

static void refuse_stream(struct test_state *t, leat_stream *stream)
{
    leat_kernel *kernel = test_kernel(t->device, "leat_fill_u8");
    unsigned char *memory = test_alloc(t->device, LEAT_KIND_DEVICE, 100), byte = 1;
    leat_device *device = NULL;
    leat_ticket *ticket = NULL;
    leat_event *event;
    void *ptr = NULL, *native = NULL;

    OK(leat_event_create(t->device, &event));
    REFUSED(leat_stream_device(stream, &device), LEAT_ERROR_HANDLE, "stream");
    REFUSED(leat_stream_native(stream, &native), LEAT_ERROR_HANDLE, "stream");
    REFUSED(leat_stream_synchronize(stream), LEAT_ERROR_HANDLE, "stream");
    REFUSED(leat_stream_query(stream), LEAT_ERROR_HANDLE, "stream");
    REFUSED(leat_stream_wait(stream, event), LEAT_ERROR_HANDLE, "stream");
    REFUSED(leat_event_record(stream, event), LEAT_ERROR_HANDLE, "stream");
    REFUSED(leat_launch_host(stream, nothing, NULL), LEAT_ERROR_HANDLE, "stream");
    REFUSED(leat_alloc(stream, 100, &ptr), LEAT_ERROR_HANDLE, "stream");
    REFUSED(leat_free(stream, memory), LEAT_ERROR_HANDLE, "stream");
    REFUSED(leat_copy_layouts(stream, NULL, 0), LEAT_ERROR_HANDLE, "stream");
    REFUSED(leat_copy(stream, memory, &byte, 1), LEAT_ERROR_HANDLE, "stream");
    REFUSED(leat_copy_sync(stream, memory, &byte, 1), LEAT_ERROR_HANDLE, "stream");
    REFUSED(leat_copy_start(stream, memory, &byte, 1, NULL, &ticket), LEAT_ERROR_HANDLE, "stream");
    REFUSED(leat_fill(stream, memory, 1, 1), LEAT_ERROR_HANDLE, "stream");
    REFUSED(leat_fill_pattern(stream, memory, &byte, 1, 1), LEAT_ERROR_HANDLE, "stream");
    REFUSED(leat_launch(stream, kernel, leat_dim(1, 1, 1), leat_dim(1, 1, 1), 0, NULL, 0), LEAT_ERROR_HANDLE,
            "stream");
    assert_true(!device && !native && !ptr && !ticket);
    OK(leat_event_destroy(event));
    OK(leat_memory_free(memory));
}

static void refuse_event(struct test_state *t, leat_event *event)
{
    leat_event *good;
    double milliseconds = -7;
    void *native = NULL;

    OK(leat_event_create(t->device, &good));
    OK(leat_event_record(t->stream, good));
    REFUSED(leat_event_native(event, &native), LEAT_ERROR_HANDLE, "event");
    REFUSED(leat_event_record(t->stream, event), LEAT_ERROR_HANDLE, "event");
    REFUSED(leat_event_query(event), LEAT_ERROR_HANDLE, "event");
    REFUSED(leat_event_synchronize(event), LEAT_ERROR_HANDLE, "event");
    REFUSED(leat_stream_wait(t->stream, event), LEAT_ERROR_HANDLE, "event");
    REFUSED(leat_event_elapsed(event, good, &milliseconds), LEAT_ERROR_HANDLE, "start");
    REFUSED(leat_event_elapsed(good, event, &milliseconds), LEAT_ERROR_HANDLE, "end");
    assert_true(!native && milliseconds == -7);
    OK(leat_event_destroy(good));
}

static void refuse_module(leat_module *module)
{
    leat_kernel *kernel = NULL;

    REFUSED(leat_kernel_get(module, "leat_fill_u8", &kernel), LEAT_ERROR_HANDLE, "module");
    assert_null(kernel);
}

static void refuse_kernel(struct test_state *t, leat_kernel *kernel)
{
    size_t bytes = 7;
    int count = -7;

    REFUSED(leat_kernel_parameter_count(kernel, &count), LEAT_ERROR_HANDLE, "kernel");
    REFUSED(leat_kernel_parameter_bytes(kernel, 0, &bytes), LEAT_ERROR_HANDLE, "kernel");
    REFUSED(leat_launch(t->stream, kernel, leat_dim(1, 1, 1), leat_dim(1, 1, 1), 0, NULL, 0), LEAT_ERROR_HANDLE,
            "kernel");
    assert_int_equal(count, -7);
    assert_int_equal(bytes, 7);
}

static void wild_handles(void **state)
{
    struct test_state *t = *state;
    char *heap = test_buffer(1000);
    char stack[1000] = {0};
    leat_module *module;
    leat_event *event;
    void *wild[] = {NULL,  (void *)(uintptr_t)1,  (void *)(uintptr_t)4096, (void *)~(uintptr_t)0, heap,
                    stack, (char *)t->stream + 8, (char *)t->device + 1};

    OK(leat_event_create(t->device, &event));
    OK(leat_module_builtin(t->device, &module));
    memset(heap, 0, 1000);
    for (size_t i = 0; i < sizeof wild / sizeof wild[0]; i++) {
        refuse_device(wild[i]);
        refuse_stream(t, wild[i]);
        refuse_event(t, wild[i]);
        refuse_module(wild[i]);
        refuse_kernel(t, wild[i]);
        if (!wild[i])
            continue;
        REFUSED(leat_device_close(wild[i]), LEAT_ERROR_HANDLE, "device");
        REFUSED(leat_stream_destroy(wild[i]), LEAT_ERROR_HANDLE, "stream");
        REFUSED(leat_event_destroy(wild[i]), LEAT_ERROR_HANDLE, "event");
        REFUSED(leat_module_unload(wild[i]), LEAT_ERROR_HANDLE, "module");
    }
    /* A handle of another type must be refused. */
    refuse_device((leat_device *)(void *)t->stream);
    refuse_stream(t, (leat_stream *)(void *)t->device);
    refuse_stream(t, (leat_stream *)(void *)event);
    refuse_event(t, (leat_event *)(void *)t->stream);
    refuse_module((leat_module *)(void *)event);
    refuse_kernel(t, (leat_kernel *)(void *)module);
    free(heap);
    OK(leat_event_destroy(event));
    still_works(t);
}

static void dead_handles(void **state)
{
    struct test_state *t = *state;
    leat_stream *stream, *other;
    leat_event *event;
    leat_module *module;
    leat_kernel *kernel;

    OK(leat_stream_create(t->device, &stream));
    OK(leat_stream_destroy(stream));
    REFUSED(leat_stream_destroy(stream), LEAT_ERROR_HANDLE, "stream");
    /* Creating another stream must not make the old handle valid again. */
    OK(leat_stream_create(t->device, &other));
    refuse_stream(t, stream);
    OK(leat_stream_destroy(other));

    OK(leat_event_create(t->device, &event));
    OK(leat_event_destroy(event));
    REFUSED(leat_event_destroy(event), LEAT_ERROR_HANDLE, "event");
    refuse_event(t, event);

    OK(leat_module_load_file(t->device, test_kernels_path(), &module));
    OK(leat_kernel_get(module, "user_spin", &kernel));
    OK(leat_module_unload(module));
    REFUSED(leat_module_unload(module), LEAT_ERROR_HANDLE, "module");
    refuse_module(module);
    refuse_kernel(t, kernel);
    still_works(t);
}

/* A pool reserves more addresses than it has memory. Calls must refuse its addresses that have no memory. */
static void addresses_of_a_pool_without_memory(void **state)
{
    static const ptrdiff_t offsets[] = {-(64 << 20), 8 << 20, 64 << 20, 1 << 30};
    struct test_state *t = *state;
    unsigned char *memory, host[100] = {0};
    leat_pointer_info info = LEAT_POINTER_INFO_INIT;

    if (!test_on_cpu())
        SKIP_OTHER("a vendor's driver tells what its addresses are");
    memory = test_alloc(t->device, LEAT_KIND_DEVICE, 1 << 20);
    for (size_t i = 0; i < sizeof offsets / sizeof offsets[0]; i++) {
        unsigned char *nothing = memory + offsets[i];

        REFUSED(leat_pointer_get_info(nothing, &info), LEAT_ERROR_POINTER, "not allocated");
        REFUSED(leat_fill(t->stream, nothing, 1, sizeof host), LEAT_ERROR_POINTER, "not allocated");
        REFUSED(leat_copy(t->stream, nothing, host, sizeof host), LEAT_ERROR_POINTER, "not allocated");
        REFUSED(leat_copy_sync(t->stream, host, nothing, sizeof host), LEAT_ERROR_POINTER, "not allocated");
    }
    OK(leat_memory_free(memory));
}

/* A native handle of the CPU device is an address. leat must refuse addresses that are no live event or stream. */
static void native_handles_that_are_none(void **state)
{
    struct test_state *t = *state;
    leat_event *event, *ended;
    leat_stream *stream;
    void *native, *old;
    void *wrong[4];

    if (!test_on_cpu())
        SKIP_OTHER("a vendor's driver looks at its handles");
    OK(leat_event_create(t->device, &event));
    OK(leat_event_native(event, &native));
    OK(leat_event_create(t->device, &ended));
    OK(leat_event_native(ended, &old));
    OK(leat_event_destroy(ended));
    wrong[0] = (void *)(uintptr_t)16;
    wrong[1] = (void *)UINTPTR_MAX;
    wrong[2] = (char *)native + 8;
    wrong[3] = old;
    for (int i = 0; i < 4; i++) {
        REFUSED(leat_event_wrap(t->device, wrong[i], &ended), LEAT_ERROR_INVALID, "no event");
        REFUSED(leat_stream_wrap(t->device, wrong[i], &stream), LEAT_ERROR_INVALID, "no stream");
    }
    OK(leat_event_destroy(event));
}

static void null_results(void **state)
{
    struct test_state *t = *state;
    unsigned char byte = 1;
    leat_event *event;
    leat_module *module;

    OK(leat_event_create(t->device, &event));
    OK(leat_module_builtin(t->device, &module));
    REFUSED(leat_device_open(test_device_name(), NULL), LEAT_ERROR_INVALID, "device is NULL");
    REFUSED(leat_device_wrap(test_device_name(), &byte, NULL), LEAT_ERROR_INVALID, "device is NULL");
    REFUSED(leat_device_wrap(test_device_name(), NULL, &t->device), LEAT_ERROR_INVALID, "native_context is NULL");
    REFUSED(leat_device_get_info(t->device, NULL), LEAT_ERROR_INVALID, "info is NULL");
    REFUSED(leat_device_native(t->device, NULL), LEAT_ERROR_INVALID, "native_context is NULL");
    REFUSED(leat_native_symbol(t->device, NULL, (void **)&module), LEAT_ERROR_INVALID, "name is NULL");
    REFUSED(leat_native_symbol(t->device, "cuInit", NULL), LEAT_ERROR_INVALID, "symbol is NULL");
    REFUSED(leat_stream_create(t->device, NULL), LEAT_ERROR_INVALID, "stream is NULL");
    REFUSED(leat_stream_wrap(t->device, &byte, NULL), LEAT_ERROR_INVALID, "stream is NULL");
    REFUSED(leat_stream_device(t->stream, NULL), LEAT_ERROR_INVALID, "device is NULL");
    REFUSED(leat_stream_native(t->stream, NULL), LEAT_ERROR_INVALID, "native is NULL");
    REFUSED(leat_event_create(t->device, NULL), LEAT_ERROR_INVALID, "event is NULL");
    REFUSED(leat_event_wrap(t->device, NULL, &event), LEAT_ERROR_INVALID, "native is NULL");
    REFUSED(leat_event_wrap(t->device, &byte, NULL), LEAT_ERROR_INVALID, "event is NULL");
    REFUSED(leat_event_native(event, NULL), LEAT_ERROR_INVALID, "native is NULL");
    REFUSED(leat_event_elapsed(event, event, NULL), LEAT_ERROR_INVALID, "milliseconds is NULL");
    REFUSED(leat_launch_host(t->stream, NULL, NULL), LEAT_ERROR_INVALID, "function is NULL");
    REFUSED(leat_alloc(t->stream, 1, NULL), LEAT_ERROR_INVALID, "ptr is NULL");
    REFUSED(leat_memory_alloc(t->device, LEAT_KIND_PINNED, 1, NULL), LEAT_ERROR_INVALID, "ptr is NULL");
    REFUSED(leat_register(t->device, NULL, 1), LEAT_ERROR_INVALID, "ptr is NULL");
    REFUSED(leat_pointer_get_info(NULL, (leat_pointer_info *)(void *)&byte), LEAT_ERROR_INVALID, "ptr is NULL");
    REFUSED(leat_pointer_get_info(&byte, NULL), LEAT_ERROR_INVALID, "info is NULL");
    REFUSED(leat_pointer_wrap(t->device, LEAT_KIND_PINNED, NULL, 1), LEAT_ERROR_INVALID, "ptr is NULL");
    REFUSED(leat_module_load(t->device, NULL, 1, &module), LEAT_ERROR_INVALID, "image is NULL");
    REFUSED(leat_module_load(t->device, "x", 1, NULL), LEAT_ERROR_INVALID, "module is NULL");
    REFUSED(leat_module_load_file(t->device, NULL, &module), LEAT_ERROR_INVALID, "path is NULL");
    REFUSED(leat_module_load_file(t->device, "x", NULL), LEAT_ERROR_INVALID, "module is NULL");
    REFUSED(leat_module_builtin(t->device, NULL), LEAT_ERROR_INVALID, "module is NULL");
    REFUSED(leat_kernel_get(module, NULL, (leat_kernel **)(void *)&event), LEAT_ERROR_INVALID, "name is NULL");
    REFUSED(leat_kernel_get(module, "leat_fill_u8", NULL), LEAT_ERROR_INVALID, "kernel is NULL");
    REFUSED(leat_kernel_parameter_count(test_kernel(t->device, "leat_fill_u8"), NULL), LEAT_ERROR_INVALID,
            "count is NULL");
    REFUSED(leat_fill_pattern(t->stream, &byte, NULL, 1, 1), LEAT_ERROR_INVALID, "pattern is NULL");
    if (test_on_cpu())
        REFUSED(leat_stream_wrap(t->device, NULL, (leat_stream **)(void *)&event), LEAT_ERROR_INVALID,
                "no stream");
    OK(leat_event_destroy(event));
    still_works(t);
}

static void null_and_dead_memory(void **state)
{
    struct test_state *t = *state;
    size_t page_bytes = (size_t)sysconf(_SC_PAGESIZE);
    unsigned char *memory = test_alloc(t->device, LEAT_KIND_DEVICE, 4 * KIB), own[64];
    unsigned char *pinned = test_alloc(t->device, LEAT_KIND_PINNED, 4 * KIB);
    unsigned char *dead = test_alloc(t->device, LEAT_KIND_DEVICE, 4 * KIB);
    unsigned char *around = mmap(NULL, 3 * page_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    unsigned char *unmapped = around + page_bytes;
    unsigned char *constant = mmap(NULL, 3 * page_bytes, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    assert_ptr_not_equal(around, MAP_FAILED);
    assert_ptr_not_equal(constant, MAP_FAILED);
    /* Unmap only single pages between mapped ones. A new mapping of another thread needs more than one page, so
     * the system does not put it there. */
    munmap(unmapped, page_bytes);
    munmap(constant + page_bytes, page_bytes);
    OK(leat_memory_free(dead));
    REFUSED(leat_copy(t->stream, NULL, own, 1), LEAT_ERROR_POINTER, "dst is NULL");
    REFUSED(leat_copy(t->stream, memory, NULL, 1), LEAT_ERROR_POINTER, "src is NULL");
    REFUSED(leat_fill(t->stream, NULL, 0, 1), LEAT_ERROR_POINTER, "dst is NULL");
    REFUSED(leat_copy(t->stream, dead, own, 1), LEAT_ERROR_POINTER, "dst");
    REFUSED(leat_copy(t->stream, own, dead, 1), LEAT_ERROR_POINTER, "src");
    REFUSED(leat_copy(t->stream, own, dead + 100, 1), LEAT_ERROR_POINTER, "src");
    REFUSED(leat_fill(t->stream, dead, 0, 1), LEAT_ERROR_POINTER, "dst");
    REFUSED(leat_copy(t->stream, memory, unmapped, 1), LEAT_ERROR_POINTER, "src");
    REFUSED(leat_copy(t->stream, unmapped, memory, 1), LEAT_ERROR_POINTER, "dst");
    REFUSED(leat_copy(t->stream, memory, (void *)(uintptr_t)16, 1), LEAT_ERROR_POINTER, "src");
    /* The range begins in a mapped page, and its last byte is in an unmapped page. */
    REFUSED(leat_copy(t->stream, pinned, constant + page_bytes - 4 * KIB + 1, 4 * KIB), LEAT_ERROR_POINTER, "src");
    REFUSED(leat_copy(t->stream, constant, memory, 1), LEAT_ERROR_POINTER, "dst");
    /* The mapping is read-only. leat_register() must refuse it, because copies may write to registered memory. */
    REFUSED(leat_register(t->device, constant, 100), LEAT_ERROR_POINTER, "written");
    REFUSED(leat_fill(t->stream, own, 0, 1), LEAT_ERROR_POINTER, "memset");
    OK(leat_memory_free(pinned));
    REFUSED(leat_fill_pattern(t->stream, pinned, "ab", 2, 2), LEAT_ERROR_POINTER, "dst");
    OK(leat_memory_free(memory));
    munmap(constant, 3 * page_bytes);
    munmap(around, 3 * page_bytes);
    still_works(t);
}

static void ranges_past_the_end(void **state)
{
    struct test_state *t = *state;
    unsigned char *memory = test_alloc(t->device, LEAT_KIND_DEVICE, 1000);
    unsigned char *pinned = test_alloc(t->device, LEAT_KIND_PINNED, 1000);
    unsigned char *own = test_buffer(2000), *big = test_buffer(4000);
    unsigned char *places[] = {memory, pinned, own};
    static const size_t huge[] = {SIZE_MAX, SIZE_MAX - 1, SIZE_MAX - 4095, SIZE_MAX / 2 + 1};

    OK(leat_register(t->device, own, 1000));
    for (int i = 0; i < 3; i++) {
        unsigned char *place = places[i];

        REFUSED(leat_copy(t->stream, place, big, 1001), LEAT_ERROR_RANGE, "dst");
        REFUSED(leat_copy(t->stream, big, place, 1001), LEAT_ERROR_RANGE, "src");
        REFUSED(leat_copy(t->stream, place + 999, big, 2), LEAT_ERROR_RANGE, "dst");
        REFUSED(leat_copy(t->stream, big, place + 1, 1000), LEAT_ERROR_RANGE, "src");
        REFUSED(leat_fill(t->stream, place, 1, 1001), LEAT_ERROR_RANGE, "1001");
        REFUSED(leat_fill(t->stream, place + 500, 1, 501), LEAT_ERROR_RANGE, "dst");
        REFUSED(leat_fill_pattern(t->stream, place, "0123456789abcdef", 16, 1008), LEAT_ERROR_RANGE, "dst");
        for (size_t j = 0; j < sizeof huge / sizeof huge[0]; j++) {
            REFUSED(leat_copy(t->stream, place, big, huge[j]), LEAT_ERROR_RANGE, "dst");
            REFUSED(leat_fill(t->stream, place, 1, huge[j]), LEAT_ERROR_RANGE, "dst");
        }
        /* Arguments just inside the limits are accepted. */
        OK(leat_copy(t->stream, place + 999, big, 1));
        OK(leat_fill(t->stream, place, 1, 1000));
    }
    REFUSED(leat_copy(t->stream, big, (void *)(uintptr_t)4096, SIZE_MAX - 4000), LEAT_ERROR_RANGE, "dst");
    REFUSED(leat_fill_pattern(t->stream, memory, "01234567", 8, SIZE_MAX - 7), LEAT_ERROR_RANGE, "dst");
    OK(leat_stream_synchronize(t->stream));
    OK(leat_unregister(own));
    OK(leat_memory_free(memory));
    OK(leat_memory_free(pinned));
    free(own);
    free(big);
    still_works(t);
}

static void overlapping_copies(void **state)
{
    struct test_state *t = *state;
    unsigned char *memory = test_alloc(t->device, LEAT_KIND_DEVICE, 1000);
    unsigned char *pinned = test_alloc(t->device, LEAT_KIND_PINNED, 1000), own[1000];
    unsigned char *places[] = {memory, pinned, own};

    for (int i = 0; i < 3; i++) {
        unsigned char *place = places[i];

        REFUSED(leat_copy(t->stream, place, place, 1), LEAT_ERROR_OVERLAP, "overlap");
        REFUSED(leat_copy(t->stream, place, place, 1000), LEAT_ERROR_OVERLAP, "overlap");
        REFUSED(leat_copy(t->stream, place + 10, place, 11), LEAT_ERROR_OVERLAP, "overlap");
        REFUSED(leat_copy(t->stream, place, place + 10, 11), LEAT_ERROR_OVERLAP, "overlap");
        REFUSED(leat_copy(t->stream, place + 1, place, 999), LEAT_ERROR_OVERLAP, "overlap");
        OK(leat_copy(t->stream, place + 10, place, 10));
        OK(leat_copy(t->stream, place, place + 10, 10));
    }
    OK(leat_stream_synchronize(t->stream));
    OK(leat_memory_free(memory));
    OK(leat_memory_free(pinned));
}

static void wrong_patterns(void **state)
{
    struct test_state *t = *state;
    unsigned char *memory = test_alloc(t->device, LEAT_KIND_DEVICE, 1024), pattern[32] = {0};
    static const size_t sizes[] = {0, 3, 5, 6, 7, 9, 12, 15, 17, 32, SIZE_MAX};

    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
        REFUSED(leat_fill_pattern(t->stream, memory, pattern, sizes[i], 0), LEAT_ERROR_INVALID,
                "1, 2, 4, 8 or 16");
    for (size_t size = 2; size <= 16; size *= 2) {
        REFUSED(leat_fill_pattern(t->stream, memory + 1, pattern, size, size), LEAT_ERROR_INVALID, "aligned");
        REFUSED(leat_fill_pattern(t->stream, memory + size / 2, pattern, size, size), LEAT_ERROR_INVALID,
                "aligned");
        REFUSED(leat_fill_pattern(t->stream, memory, pattern, size, size + 1), LEAT_ERROR_INVALID, "multiple");
        REFUSED(leat_fill_pattern(t->stream, memory, pattern, size, 1), LEAT_ERROR_INVALID, "multiple");
    }
    OK(leat_memory_free(memory));
}

static void wrong_frees(void **state)
{
    struct test_state *t = *state;
    leat_device *other = test_open_other();
    unsigned char *memory = test_alloc(t->device, LEAT_KIND_DEVICE, 1000);
    unsigned char *pinned = test_alloc(t->device, LEAT_KIND_PINNED, 1000);
    unsigned char *own = test_buffer(1000), on_stack;
    leat_stream *far;

    OK(leat_register(t->device, own, 1000));
    REFUSED(leat_free(t->stream, memory + 1), LEAT_ERROR_POINTER, "start");
    REFUSED(leat_memory_free(memory + 999), LEAT_ERROR_POINTER, "start");
    REFUSED(leat_memory_free(pinned + 1), LEAT_ERROR_POINTER, "start");
    REFUSED(leat_free(t->stream, own), LEAT_ERROR_POINTER, "leat_unregister");
    REFUSED(leat_memory_free(own), LEAT_ERROR_POINTER, "leat_unregister");
    REFUSED(leat_free(t->stream, &on_stack), LEAT_ERROR_POINTER, "never leat's");
    REFUSED(leat_memory_free(&on_stack), LEAT_ERROR_POINTER, "never leat's");
    REFUSED(leat_memory_free((void *)(uintptr_t)3), LEAT_ERROR_POINTER, "never leat's");
    if (other) {
        OK(leat_stream_create(other, &far));
        REFUSED(leat_free(far, memory), LEAT_ERROR_POINTER, "is memory of");
        OK(leat_stream_destroy(far));
        OK(leat_device_close(other));
    }
    /* The refused calls freed nothing. */
    OK(leat_fill(t->stream, memory, 1, 1000));
    OK(leat_fill(t->stream, pinned, 1, 1000));
    OK(leat_fill(t->stream, own, 1, 1000));
    OK(leat_stream_synchronize(t->stream));
    OK(leat_free(t->stream, memory));
    REFUSED(leat_free(t->stream, memory), LEAT_ERROR_POINTER, "freed already");
    REFUSED(leat_memory_free(memory), LEAT_ERROR_POINTER, "freed already");
    OK(leat_memory_free(pinned));
    REFUSED(leat_memory_free(pinned), LEAT_ERROR_POINTER, "freed already");
    REFUSED(leat_unregister(own + 1), LEAT_ERROR_POINTER, "start");
    OK(leat_unregister(own));
    REFUSED(leat_unregister(own), LEAT_ERROR_POINTER, "leat_unregister");
    free(own);
    still_works(t);
}

static void wrong_registrations(void **state)
{
    struct test_state *t = *state;
    unsigned char *memory = test_alloc(t->device, LEAT_KIND_DEVICE, 1000);
    unsigned char *pinned = test_alloc(t->device, LEAT_KIND_PINNED, 1000);
    unsigned char *own = mmap(NULL, 64 * KIB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    assert_ptr_not_equal(own, MAP_FAILED);
    REFUSED(leat_register(t->device, own, SIZE_MAX), LEAT_ERROR_INVALID, "past the end");
    REFUSED(leat_register(t->device, memory, 10), LEAT_ERROR_POINTER, "device");
    REFUSED(leat_register(t->device, pinned, 10), LEAT_ERROR_POINTER, "pinned");
    REFUSED(leat_register(t->device, (void *)(uintptr_t)4096, 10), LEAT_ERROR_POINTER, "ptr");
    OK(leat_register(t->device, own + 10000, 10000));
    REFUSED(leat_register(t->device, own + 10000, 10000), LEAT_ERROR_REGISTERED, "already");
    REFUSED(leat_register(t->device, own + 15000, 10000), LEAT_ERROR_REGISTERED, "already");
    REFUSED(leat_register(t->device, own + 5000, 5001), LEAT_ERROR_REGISTERED, "already");
    REFUSED(leat_register(t->device, own, 64 * KIB), LEAT_ERROR_REGISTERED, "already");
    OK(leat_unregister(own + 10000));
    OK(leat_register(t->device, own, 64 * KIB));
    OK(leat_unregister(own));
    munmap(own, 64 * KIB);
    REFUSED(leat_register(t->device, own, 64 * KIB), LEAT_ERROR_POINTER, "ptr");
    REFUSED(leat_pointer_wrap(t->device, LEAT_KIND_PAGEABLE, own, 1), LEAT_ERROR_INVALID, "kind");
    REFUSED(leat_pointer_wrap(t->device, (leat_kind)9, own, 1), LEAT_ERROR_INVALID, "kind");
    REFUSED(leat_pointer_wrap(t->device, LEAT_KIND_DEVICE, own, 0), LEAT_ERROR_INVALID, "0 bytes");
    REFUSED(leat_pointer_wrap(t->device, LEAT_KIND_DEVICE, own, SIZE_MAX), LEAT_ERROR_INVALID, "no range");
    REFUSED(leat_pointer_wrap(t->device, LEAT_KIND_DEVICE, memory, 10), LEAT_ERROR_REGISTERED, "overlaps");
    REFUSED(leat_memory_alloc(t->device, LEAT_KIND_PAGEABLE, 10, (void **)&own), LEAT_ERROR_INVALID, "malloc");
    REFUSED(leat_memory_alloc(t->device, LEAT_KIND_PAGEABLE, 0, (void **)&own), LEAT_ERROR_INVALID, "malloc");
    REFUSED(leat_memory_alloc(t->device, (leat_kind)-1, 10, (void **)&own), LEAT_ERROR_INVALID, "kind");
    OK(leat_memory_free(memory));
    OK(leat_memory_free(pinned));
    still_works(t);
}

static void addresses_that_are_dead(void **state)
{
    struct test_state *t = *state;
    unsigned char *memory = test_alloc(t->device, LEAT_KIND_DEVICE, 1000);
    leat_pointer_info info = {.size = sizeof info, .bytes = 77};

    if (!test_on_cpu())
        SKIP_OTHER("CUDA cannot tell a freed address from one that was never its own");
    OK(leat_memory_free(memory));
    REFUSED(leat_pointer_get_info(memory, &info), LEAT_ERROR_POINTER, "freed");
    assert_int_equal(info.bytes, 77);
}

static void things_of_another_device(void **state)
{
    struct test_state *t = *state;
    leat_device *other = test_open_other();
    leat_event *event, *mine;
    leat_stream *stream;
    leat_kernel *kernel;
    unsigned char *memory;
    double milliseconds;
    uint64_t count = 1;
    uint8_t value = 1;
    void *args[] = {&memory, &count, &value};

    if (!other)
        SKIP_OTHER("needs two devices of one driver");
    OK(leat_stream_create(other, &stream));
    OK(leat_event_create(other, &event));
    OK(leat_event_create(t->device, &mine));
    kernel = test_kernel(other, "leat_fill_u8");
    memory = test_alloc(other, LEAT_KIND_DEVICE, 100);
    REFUSED(leat_event_record(t->stream, event), LEAT_ERROR_INVALID, test_device_name());
    OK(leat_event_record(t->stream, mine));
    OK(leat_event_record(stream, event));
    REFUSED(leat_event_elapsed(mine, event, &milliseconds), LEAT_ERROR_INVALID, "one device");
    REFUSED(leat_launch(t->stream, kernel, leat_dim(1, 1, 1), leat_dim(1, 1, 1), 0, args, 3), LEAT_ERROR_INVALID,
            "kernel");
    REFUSED(leat_fill(t->stream, memory, 1, 100), LEAT_ERROR_INVALID, "dst");
    OK(leat_device_close(other));
    REFUSED(leat_copy(t->stream, memory, &value, 1), LEAT_ERROR_POINTER, "dst");
    still_works(t);
}

static void things_of_another_driver(void **state)
{
    struct test_state *t = *state;
    leat_device *other;
    leat_event *event;
    unsigned char *memory, *mine, *pinned, out[100];

    if (test_on_cpu())
        SKIP_OTHER("runs on a GPU, where there are two drivers");
    OK(leat_device_open("cpu:0", &other));
    OK(leat_event_create(other, &event));
    memory = test_alloc(other, LEAT_KIND_DEVICE, 100);
    pinned = test_alloc(other, LEAT_KIND_PINNED, 100);
    mine = test_alloc(t->device, LEAT_KIND_DEVICE, 100);
    REFUSED(leat_stream_wait(t->stream, event), LEAT_ERROR_UNSUPPORTED, "cpu:0");
    REFUSED(leat_copy(t->stream, mine, memory, 100), LEAT_ERROR_UNSUPPORTED, "host memory");
    REFUSED(leat_copy(t->stream, memory, mine, 100), LEAT_ERROR_UNSUPPORTED, "host memory");
    REFUSED(leat_fill(t->stream, memory, 1, 100), LEAT_ERROR_UNSUPPORTED, "dst");
    /* Memory that the other driver has pinned counts as pageable host memory here. */
    memset(pinned, 5, 100);
    OK(leat_copy(t->stream, mine, pinned, 100));
    OK(leat_copy_sync(t->stream, out, mine, 100));
    EXPECT_BYTES(out, 100, 5);
    OK(leat_device_close(other));
    still_works(t);
}

static void streams_that_cannot_be_wrapped(void **state)
{
    struct test_state *t = *state;
    leat_device *other;
    leat_stream *far, *wrapped = NULL;
    void *native;
    int elsewhere;

    if (!test_on_cpu())
        SKIP_OTHER("CUDA follows a pointer that is no stream");
    REFUSED(leat_stream_wrap(t->device, &elsewhere, &wrapped), LEAT_ERROR_INVALID, "no stream");
    other = test_open_other();
    if (other) {
        OK(leat_stream_create(other, &far));
        OK(leat_stream_native(far, &native));
        REFUSED(leat_stream_wrap(t->device, native, &wrapped), LEAT_ERROR_INVALID, "no stream");
        OK(leat_stream_destroy(far));
        OK(leat_device_close(other));
    }
    assert_null(wrapped);
}

static void wrong_launches(void **state)
{
    struct test_state *t = *state;
    leat_kernel *kernel = test_kernel(t->device, "leat_add_u32");
    uint32_t *memory = test_alloc(t->device, LEAT_KIND_DEVICE, 400), value = 1, out[100];
    uint64_t count = 100;
    leat_device_info info = LEAT_DEVICE_INFO_INIT;
    void *args[] = {&memory, &count, &value, &value}, *holes[] = {&memory, NULL, &value};
    leat_dim3 one = leat_dim(1, 1, 1);
    int parameters;

    OK(leat_fill(t->stream, memory, 0, 400));
    OK(leat_kernel_parameter_count(kernel, &parameters));
    REFUSED(leat_launch(t->stream, kernel, leat_dim(0, 1, 1), one, 0, args, 3), LEAT_ERROR_INVALID,
            "leat_add_u32");
    REFUSED(leat_launch(t->stream, kernel, leat_dim(1, 0, 1), one, 0, args, 3), LEAT_ERROR_INVALID, "0");
    REFUSED(leat_launch(t->stream, kernel, leat_dim(1, 1, 0), one, 0, args, 3), LEAT_ERROR_INVALID, "0");
    REFUSED(leat_launch(t->stream, kernel, one, leat_dim(0, 1, 1), 0, args, 3), LEAT_ERROR_INVALID, "0");
    REFUSED(leat_launch(t->stream, kernel, one, leat_dim(1, 1, 0), 0, args, 3), LEAT_ERROR_INVALID, "0");
    REFUSED(leat_launch(t->stream, kernel, one, leat_dim(1 << 20, 1, 1), 0, args, 3), LEAT_ERROR_INVALID,
            "threads");
    REFUSED(leat_launch(t->stream, kernel, one, leat_dim(1 << 16, 1 << 16, 1), 0, args, 3), LEAT_ERROR_INVALID,
            "threads");
    REFUSED(leat_launch(t->stream, kernel, one, leat_dim(1u << 31, 1u << 31, 4), 0, args, 3), LEAT_ERROR_INVALID,
            "threads");
    if (parameters >= 0) {
        REFUSED(leat_launch(t->stream, kernel, one, one, 0, args, 2), LEAT_ERROR_INVALID, "takes 3");
        REFUSED(leat_launch(t->stream, kernel, one, one, 0, args, 4), LEAT_ERROR_INVALID, "takes 3");
        REFUSED(leat_launch(t->stream, kernel, one, one, 0, NULL, 0), LEAT_ERROR_INVALID, "takes 3");
        REFUSED(leat_launch(t->stream, kernel, one, one, 0, args, UINT32_MAX), LEAT_ERROR_INVALID, "takes 3");
    }
    REFUSED(leat_launch(t->stream, kernel, one, one, 0, NULL, 3), LEAT_ERROR_INVALID, "args");
    REFUSED(leat_launch(t->stream, kernel, one, one, 0, holes, 3), LEAT_ERROR_INVALID, "args");
    if (test_on_cpu()) {
        OK(leat_device_get_info(t->device, &info));
        REFUSED(leat_launch(t->stream, kernel, one, one, info.max_shared_bytes + 1, args, 3),
                LEAT_ERROR_UNSUPPORTED, "shared");
    } else {
        assert_true(leat_launch(t->stream, kernel, one, one, (size_t)1 << 40, args, 3) < 0);
    }
    /* No refused launch has run. */
    OK(leat_copy_sync(t->stream, out, memory, 400));
    EXPECT_BYTES(out, 400, 0);
    OK(leat_memory_free(memory));
    still_works(t);
}

/* Creates a temporary file with this content and returns its name in path. */
static void write_file(char path[TEMPORARY_PATH], const void *content, size_t bytes)
{
    int fd = temporary_file(path);

    assert_true(fd >= 0);
    assert_int_equal(write(fd, content, bytes), (ssize_t)bytes);
    close(fd);
}

static void wrong_modules(void **state)
{
    struct test_state *t = *state;
    const char *good = test_kernels_path();
    static const char junk[3000] = "this is neither a shared object nor device code";
    leat_module *module = NULL;
    leat_kernel *kernel = NULL;
    char path[TEMPORARY_PATH];

    REFUSED(leat_module_load(t->device, junk, 0, &module), LEAT_ERROR_INVALID, "0 bytes");
    REFUSED(leat_module_load(t->device, junk, SIZE_MAX, &module), LEAT_ERROR_INVALID, "bytes");
    REFUSED(leat_module_load(t->device, junk, 1, &module), LEAT_ERROR_IMAGE, test_device_name());
    REFUSED(leat_module_load(t->device, junk, sizeof junk, &module), LEAT_ERROR_IMAGE, test_device_name());
    REFUSED(leat_module_load_file(t->device, "no/such/file", &module), LEAT_ERROR_NOT_FOUND, "no/such/file");
    REFUSED(leat_module_load_file(t->device, "/dev/zero", &module), LEAT_ERROR_IMAGE, "/dev/zero has");
    REFUSED(leat_module_load_file(t->device, "/tmp", &module), LEAT_ERROR_SYSTEM, "/tmp");
    write_file(path, junk, sizeof junk);
    REFUSED(leat_module_load_file(t->device, path, &module), LEAT_ERROR_IMAGE, path);
    unlink(path);
    write_file(path, junk, 0);
    REFUSED(leat_module_load_file(t->device, path, &module), LEAT_ERROR_IMAGE, "empty");
    unlink(path);
    assert_null(module);

    OK(leat_module_load_file(t->device, good, &module));
    REFUSED(leat_kernel_get(module, "no_such_kernel", &kernel), LEAT_ERROR_NOT_FOUND, "no_such_kernel");
    REFUSED(leat_kernel_get(module, "", &kernel), LEAT_ERROR_NOT_FOUND, "''");
    OK(leat_module_unload(module));
    OK(leat_module_builtin(t->device, &module));
    REFUSED(leat_kernel_get(module, "no_such_kernel", &kernel), LEAT_ERROR_NOT_FOUND, "no_such_kernel");
    REFUSED(leat_module_unload(module), LEAT_ERROR_INVALID, "built-in");
    assert_null(kernel);
    OK(leat_kernel_get(module, "leat_fill_u8", &kernel));
    still_works(t);
}

static void truncated_modules(void **state)
{
    struct test_state *t = *state;
    FILE *file = fopen(test_kernels_path(), "rb");
    size_t bytes, capacity = 1 << 20;
    char *image = test_buffer(capacity), path[TEMPORARY_PATH];
    leat_module *module = NULL;

    assert_non_null(file);
    bytes = fread(image, 1, capacity, file);
    fclose(file);
    assert_true(bytes > 100 && bytes < capacity);
    for (int part = 1; part < 16; part++) {
        size_t left = bytes * (size_t)part / 16;
        leat_status status;

        write_file(path, image, left);
        status = leat_module_load_file(t->device, path, &module);
        unlink(path);
        if (status == LEAT_OK) {
            /* A PTX text that is cut off between two kernels is still valid. */
            assert_false(test_on_cpu());
            OK(leat_module_unload(module));
            continue;
        }
        assert_int_equal(status, LEAT_ERROR_IMAGE);
        assert_non_null(strstr(leat_last_error(), path));
    }
    free(image);
    still_works(t);
}

static const struct CMUnitTest tests[] = {
    STATE_TEST(wild_handles),
    STATE_TEST(dead_handles),
    STATE_TEST(addresses_of_a_pool_without_memory),
    STATE_TEST(native_handles_that_are_none),
    STATE_TEST(null_results),
    STATE_TEST(null_and_dead_memory),
    STATE_TEST(ranges_past_the_end),
    STATE_TEST(overlapping_copies),
    STATE_TEST(wrong_patterns),
    STATE_TEST(wrong_frees),
    STATE_TEST(wrong_registrations),
    STATE_TEST(addresses_that_are_dead),
    STATE_TEST(things_of_another_device),
    STATE_TEST(things_of_another_driver),
    STATE_TEST(streams_that_cannot_be_wrapped),
    STATE_TEST(wrong_launches),
    STATE_TEST(wrong_modules),
    STATE_TEST(truncated_modules),
};

TEST_MAIN(tests)
