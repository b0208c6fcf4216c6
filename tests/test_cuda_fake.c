/*
 * test_cuda_fake.c - the CUDA driver's own paths, on a libcuda.so.1 made for tests (tests/fake/fake_cuda.c).
 *
 * The library is strict about contexts and counts what it gave out, so this finds what a GPU would forgive: a
 * context left behind, a stream used in the wrong one, something lost when a vendor call fails. Kernels do nothing
 * there.
 */
#include <leat/leat.h>
#include <leat/native.h>

#include "driver/cuda/cuda_types.h"

#include <dlfcn.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#define BYTES 4096

/* What the tests call in the library themselves: as a user's own code would, and to steer it. */
static struct {
    unsigned (*live)(void);
    unsigned (*calls)(void);
    unsigned (*depth)(void);
    void (*fail_at)(unsigned n, unsigned code);
    void *(*context)(int device);
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
} fake;

#define OK(call) expect_ok((call), #call, __LINE__)
#define REFUSED(call, status, words) expect_refused((call), (status), (words), #call, __LINE__)

static void expect_ok(leat_status status, const char *call, int line)
{
    if (status != LEAT_OK)
        fail_msg("line %d: %s: %s: %s", line, call, leat_status_name(status), leat_last_error());
}

static void expect_refused(leat_status status, leat_status wanted, const char *words, const char *call, int line)
{
    if (status != wanted || !strstr(leat_last_error(), words))
        fail_msg("line %d: %s: %s (%s), wanted %s with \"%s\"", line, call, leat_status_name(status),
                 leat_last_error(), leat_status_name(wanted), words);
}

static leat_device *open_device(const char *name)
{
    leat_device *device = NULL;

    OK(leat_device_open(name, &device));
    return device;
}

/* ---- every vendor call fails once ---- */

struct everything {
    leat_device *device, *other;
    leat_stream *stream, *far;
    leat_event *start, *end;
    leat_kernel *kernel;
    void *d, *far_d, *pinned, *managed;
    char *host;
};

static void set_flag(void *argument)
{
    *(bool *)argument = true;
}

#define TRY(call)                                                                                                 \
    do {                                                                                                          \
        leat_status status_ = (call);                                                                             \
        if (status_ != LEAT_OK)                                                                                   \
            return status_;                                                                                       \
    } while (0)

static leat_status make_all(struct everything *all)
{
    leat_device_info info;
    leat_module *module;
    uint64_t available;

    TRY(leat_device_open("cuda:0", &all->device));
    TRY(leat_device_open("cuda:1", &all->other));
    TRY(leat_device_query(all->device, &info));
    TRY(leat_device_memory(all->device, &available, NULL));
    TRY(leat_stream_create(all->device, &all->stream));
    TRY(leat_stream_create(all->other, &all->far));
    TRY(leat_event_create(all->device, &all->start));
    TRY(leat_event_create(all->device, &all->end));
    TRY(leat_alloc(all->stream, BYTES, &all->d));
    TRY(leat_memory_alloc(all->other, LEAT_KIND_DEVICE, BYTES, &all->far_d));
    TRY(leat_memory_alloc(all->device, LEAT_KIND_PINNED, 2 * BYTES, &all->pinned));
    TRY(leat_memory_alloc(all->device, LEAT_KIND_MANAGED, BYTES, &all->managed));
    TRY(leat_module_builtin(all->device, &module));
    return leat_kernel_get(module, "leat_vector_add_f32", &all->kernel);
}

static const leat_copy_box some_rows = {10, 7, 1, 20, 30, 0, 0};

static leat_status use_all(struct everything *all, bool *ran)
{
    void *args[] = {&all->d, &all->d, &all->d, &(uint64_t){1}};
    leat_managed_info managed = {.size = sizeof managed};
    double milliseconds;

    TRY(leat_register(all->device, all->host, BYTES));
    TRY(leat_unregister(all->host));
    TRY(leat_event_record(all->start, all->stream));
    TRY(leat_fill(all->stream, all->d, 7, BYTES));
    TRY(leat_copy(all->stream, all->pinned, all->d, BYTES));
    TRY(leat_copy(all->stream, (char *)all->pinned + BYTES, all->pinned, BYTES));
    TRY(leat_copy(all->stream, all->far_d, all->d, BYTES));
    TRY(leat_copy(all->far, all->managed, all->far_d, BYTES));
    TRY(leat_copy_sync(all->far, all->host, all->managed, BYTES));
    TRY(leat_managed_advise(all->managed, BYTES, LEAT_ADVICE_PREFERRED, all->device));
    TRY(leat_managed_prefetch(all->stream, all->managed, BYTES, all->other));
    TRY(leat_managed_prefetch(all->far, all->managed, BYTES, LEAT_HOST));
    TRY(leat_managed_query(all->managed, BYTES, &managed));
    TRY(leat_copy_rectangle(all->stream, all->d, all->pinned, &some_rows));
    TRY(leat_copy_rectangle(all->stream, all->far_d, all->d, &some_rows));
    TRY(leat_copy_rectangle(all->stream, (char *)all->pinned + BYTES, all->pinned, &some_rows));
    TRY(leat_launch(all->stream, all->kernel, leat_dim(1, 1, 1), leat_dim(1, 1, 1), 60 << 10, args, 4));
    TRY(leat_launch_host(all->stream, set_flag, ran));
    TRY(leat_event_record(all->end, all->stream));
    TRY(leat_stream_wait(all->far, all->end));
    TRY(leat_event_query(all->end));
    TRY(leat_event_synchronize(all->end));
    TRY(leat_event_elapsed(all->start, all->end, &milliseconds));
    TRY(leat_stream_query(all->stream));
    TRY(leat_stream_synchronize(all->stream));
    TRY(leat_free(all->stream, all->d));
    TRY(leat_memory_free(all->far_d));
    TRY(leat_event_destroy(all->start));
    return leat_stream_destroy(all->far);
}

/* Does everything and gives everything back; the first failure. */
static leat_status do_all(void)
{
    struct everything all = {0};
    leat_status status, closed;
    bool ran = false;

    all.host = calloc(1, BYTES);
    if (!all.host)
        return LEAT_ERROR_HOST_MEMORY;
    status = make_all(&all);
    if (status == LEAT_OK)
        status = use_all(&all, &ran);
    if (status == LEAT_OK && (!ran || all.host[0] != 7 || all.host[BYTES - 1] != 7))
        fail_msg("the copies did not arrive, or the host function did not run");
    closed = leat_device_close(all.other);
    status = status != LEAT_OK ? status : closed;
    closed = leat_device_close(all.device);
    status = status != LEAT_OK ? status : closed;
    free(all.host);
    return status;
}

static void walk(unsigned code, leat_status wanted)
{
    unsigned failures = 0;
    unsigned n = 1;
    unsigned reached;
    leat_status status;

    do {
        fake.fail_at(n, code);
        status = do_all();
        reached = fake.calls();
        fake.fail_at(0, 0);
        if (fake.live() != 0)
            fail_msg("call %u fails with %u: %u things are lost (%s)", n, code, fake.live(), leat_last_error());
        assert_int_equal(fake.depth(), 0);
        failures += status == wanted;
    } while (n++ <= reached);
    OK(do_all());

    /* A few calls only serve to inform, and leat does without them. */
    assert_true(failures > 50);
}

static void test_each_call_fails(void **state)
{
    (void)state;
    OK(do_all());
    assert_int_equal(fake.live(), 0);
    walk(LEATI_CUDA_ERROR_UNKNOWN, LEAT_ERROR_DRIVER);
    walk(LEATI_CUDA_ERROR_LAUNCH_FAILED, LEAT_ERROR_DEVICE_LOST);
}

/* ---- contexts ---- */

static void test_context_stays(void **state)
{
    cu_context mine = fake.context(1);
    cu_context now = NULL;

    (void)state;
    assert_int_equal(fake.push(mine), 0);
    OK(do_all());
    assert_int_equal(fake.current(&now), 0);
    assert_ptr_equal(now, mine);
    assert_int_equal(fake.depth(), 1);
    assert_int_equal(fake.pop(&now), 0);
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
    assert_int_equal(fake.live(), 0);
}

static void test_wrapped_stream(void **state)
{
    static void *const defaults[] = {NULL, (void *)1, (void *)2};
    leat_device *device = open_device("cuda:0");
    leat_stream *stream = NULL;
    cu_stream mine = NULL, foreign = NULL;
    cu_context context = NULL;
    void *native = NULL;
    char host[64];
    void *d = NULL;

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
    OK(leat_stream_wrap(device, mine, &stream));
    OK(leat_stream_native(stream, &native));
    assert_ptr_equal(native, mine);
    OK(leat_alloc(stream, sizeof host, &d));
    OK(leat_fill(stream, d, 9, sizeof host));
    OK(leat_copy_sync(stream, host, d, sizeof host));
    assert_int_equal(host[63], 9);
    OK(leat_free(stream, d));
    OK(leat_stream_destroy(stream));
    for (size_t i = 0; i < sizeof defaults / sizeof defaults[0]; i++) {
        OK(leat_stream_wrap(device, defaults[i], &stream));
        OK(leat_alloc(stream, sizeof host, &d));
        OK(leat_free(stream, d));
        OK(leat_stream_synchronize(stream));
        OK(leat_stream_destroy(stream));
    }
    OK(leat_device_close(device));

    /* leat ended its wrapping and no more: the two streams are still the user's. */
    assert_int_equal(fake.live(), 2);
    assert_int_equal(fake.push(fake.context(0)), 0);
    assert_int_equal(fake.stream_destroy(mine), 0);
    assert_int_equal(fake.stream_destroy(foreign), 0);
    assert_int_equal(fake.pop(&context), 0);
}

static void test_wrapped_event(void **state)
{
    leat_device *device = open_device("cuda:0");
    leat_event *event = NULL;
    cu_event mine = NULL;
    cu_context context = NULL;
    void *native = NULL;

    (void)state;
    OK(leat_device_native(device, &native));
    context = native;
    assert_int_equal(fake.push(context), 0);
    assert_int_equal(fake.event_create(&mine, 0), 0);
    OK(leat_event_wrap(device, mine, &event));
    OK(leat_event_native(event, &native));
    assert_ptr_equal(native, mine);
    OK(leat_event_synchronize(event));
    OK(leat_event_destroy(event));
    assert_int_equal(fake.event_destroy(mine), 0);
    assert_int_equal(fake.pop(&context), 0);
    OK(leat_device_close(device));
    assert_int_equal(fake.live(), 0);
}

/* ---- memory ---- */

static void expect_place(const void *ptr, leat_kind kind, leat_device *device, const void *base, size_t bytes)
{
    leat_pointer_info info;

    OK(leat_pointer_query(ptr, &info));
    assert_int_equal(info.kind, kind);
    assert_ptr_equal(info.device, device);
    assert_ptr_equal(info.base, base);
    assert_int_equal(info.bytes, bytes);
}

/* Between all kinds, in slices that are whole rows apart, and that are not. */
static void test_boxes(void **state)
{
    static const leat_copy_box boxes[] = {
        {10, 5, 1, 11, 13, 0, 0}, {10, 5, 3, 12, 20, 60, 120}, {10, 5, 3, 12, 20, 61, 130}};
    leat_device *device = open_device("cuda:0"), *other = open_device("cuda:1");
    leat_stream *stream;
    struct {
        leat_device *device;
        leat_kind kind;
        unsigned char *ptr;
    } ends[] = {{device, LEAT_KIND_DEVICE, NULL},
                {device, LEAT_KIND_PINNED, NULL},
                {device, LEAT_KIND_MANAGED, NULL},
                {other, LEAT_KIND_DEVICE, NULL},
                {NULL, LEAT_KIND_PAGEABLE, NULL}};
    size_t count = sizeof ends / sizeof ends[0];

    (void)state;
    OK(leat_stream_create(device, &stream));
    for (size_t i = 0; i < count; i++) {
        void *ptr = malloc(2 * BYTES);

        if (ends[i].device) {
            free(ptr);
            OK(leat_memory_alloc(ends[i].device, ends[i].kind, 2 * BYTES, &ptr));
        }
        ends[i].ptr = ptr;
    }
    for (size_t all = 0; all < count * count * 3; all++) {
        unsigned char *dst = ends[all / 3 % count].ptr, *src = ends[all / 3 / count].ptr + BYTES;
        const leat_copy_box *box = &boxes[all % 3];

        /* The fake driver's memory is the host's. */
        memset(dst, 0, BYTES);
        for (size_t i = 0; i < BYTES; i++)
            src[i] = (unsigned char)(i * 7 % 251 + 1);
        OK(leat_copy_rectangle(stream, dst, src, box));
        OK(leat_stream_synchronize(stream));
        for (size_t i = 0; i < 200; i++) {
            size_t slice = box->depth > 1 ? box->dst_slice_bytes : 1000, z = i / slice,
                   y = i % slice / box->dst_pitch_bytes;
            size_t x = i % slice % box->dst_pitch_bytes;
            bool inside = z < box->depth && y < box->height && x < box->width_bytes;

            assert_int_equal(dst[i], inside ? src[z * box->src_slice_bytes + y * box->src_pitch_bytes + x] : 0);
        }
    }
    for (size_t i = 0; i < count; i++) {
        if (ends[i].device)
            OK(leat_memory_free(ends[i].ptr));
        else
            free(ends[i].ptr);
    }
    OK(leat_stream_destroy(stream));
    OK(leat_device_close(other));
    OK(leat_device_close(device));
    assert_int_equal(fake.live(), 0);
}

/* Memory that came from the user's own calls is known by its address. */
static void test_pointers_of_the_user(void **state)
{
    leat_device *device = open_device("cuda:0");
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
    expect_place(d + 100, LEAT_KIND_DEVICE, device, d, BYTES);
    d = (char *)(uintptr_t)pooled;
    expect_place(d, LEAT_KIND_DEVICE, device, d, BYTES);
    expect_place((char *)pinned + 1, LEAT_KIND_PINNED, device, pinned, BYTES);
    expect_place(&local, LEAT_KIND_PAGEABLE, NULL, NULL, 0);
    REFUSED(leat_register(device, pinned, BYTES), LEAT_ERROR_REGISTERED, "already");
    assert_int_equal(fake.mem_free(address), 0);
    assert_int_equal(fake.mem_free(pooled), 0);
    assert_int_equal(fake.host_free(pinned), 0);
    assert_int_equal(fake.pop(&context), 0);
    OK(leat_device_close(device));
}

/* Places go over in the vendor's numbers and come back, the host's too. Memory of the user's own can be attached.
 */
static void test_managed(void **state)
{
    leat_device *device = open_device("cuda:0"), *other = open_device("cuda:1");
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
    OK(leat_managed_query(managed, BYTES, &info));
    assert_int_equal(info.last_prefetch.kind, LEAT_LOCATION_DEVICE);
    assert_int_equal(info.last_prefetch.ordinal, 1);
    assert_int_equal(info.preferred.kind, LEAT_LOCATION_HOST);
    assert_true(info.read_mostly && info.accessed_by_host && info.accessed_by == 2 && !info.places_known);
    OK(leat_managed_advise(managed, BYTES, LEAT_ADVICE_NOT_READ_MOSTLY, NULL));
    OK(leat_managed_advise(managed, BYTES, LEAT_ADVICE_NOT_PREFERRED, NULL));
    OK(leat_managed_advise(managed, BYTES, LEAT_ADVICE_NOT_ACCESSED_BY, LEAT_HOST));
    OK(leat_managed_prefetch(stream, managed, BYTES, LEAT_HOST));
    OK(leat_managed_query(managed, BYTES, &info));
    assert_int_equal(info.last_prefetch.kind, LEAT_LOCATION_HOST);
    assert_int_equal(info.preferred.kind, LEAT_LOCATION_NONE);
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
    assert_int_equal(fake.live(), 0);
}

static void test_out_of_memory(void **state)
{
    leat_device *device = open_device("cuda:0");
    void *ptr = NULL;

    (void)state;
    REFUSED(leat_memory_alloc(device, LEAT_KIND_DEVICE, (size_t)1 << 40, &ptr), LEAT_ERROR_DEVICE_MEMORY,
            "CUDA_ERROR_OUT_OF_MEMORY");
    REFUSED(leat_memory_alloc(device, LEAT_KIND_PINNED, (size_t)1 << 40, &ptr), LEAT_ERROR_HOST_MEMORY,
            "available");
    OK(leat_device_close(device));
}

/* ---- modules ---- */

/* The start of an ELF file: a section table of three entries at byte 1000. */
static void make_elf(unsigned char *image, unsigned machine)
{
    static const unsigned char magic[] = {0x7f, 'E', 'L', 'F', 2, 1, 1};

    memset(image, 0, 64);
    memcpy(image, magic, sizeof magic);
    image[18] = (unsigned char)machine;
    image[40] = 1000 & 0xff;
    image[41] = 1000 >> 8;
    image[58] = 64;
    image[60] = 3;
}

static void test_images(void **state)
{
    static const unsigned char fatbin[] = {0x50, 0xed, 0x55, 0xba, 1, 0, 16, 0, 0xe8, 3, 0, 0, 0, 0, 0, 0};
    static const char no_ptx[] = "no PTX";
    leat_device *device = open_device("cuda:0");
    leat_module *module = NULL;
    unsigned char image[64];

    (void)state;
    make_elf(image, 190);
    REFUSED(leat_module_load(device, image, sizeof image, &module), LEAT_ERROR_IMAGE, "reach to byte 1192");
    REFUSED(leat_module_load(device, image, 20, &module), LEAT_ERROR_IMAGE, "cut off");
    make_elf(image, 62);
    REFUSED(leat_module_load(device, image, sizeof image, &module), LEAT_ERROR_IMAGE, "another machine");
    REFUSED(leat_module_load(device, fatbin, sizeof fatbin, &module), LEAT_ERROR_IMAGE, "reach to byte 1016");
    REFUSED(leat_module_load(device, no_ptx, sizeof no_ptx, &module), LEAT_ERROR_IMAGE, "line 1; no .version");
    OK(leat_device_close(device));
    assert_int_equal(fake.live(), 0);
}

static void test_kernels(void **state)
{
    leat_device *device = open_device("cuda:0");
    leat_stream *stream = NULL;
    leat_module *module = NULL;
    leat_kernel *kernel = NULL;
    uint64_t value = 0;
    void *args[] = {&value, &value, &value, &value};
    leat_dim3 one = leat_dim(1, 1, 1);
    int count = 0;

    (void)state;
    OK(leat_stream_create(device, &stream));
    OK(leat_module_builtin(device, &module));
    REFUSED(leat_kernel_get(module, "nothing", &kernel), LEAT_ERROR_NOT_FOUND, "nothing");
    OK(leat_kernel_get(module, "leat_vector_add_f32", &kernel));
    OK(leat_kernel_parameter_count(kernel, &count));
    assert_int_equal(count, 4);
    OK(leat_launch(stream, kernel, one, one, 0, args, 4));
    OK(leat_launch(stream, kernel, one, one, 90 << 10, args, 4));
    REFUSED(leat_launch(stream, kernel, one, one, 200 << 10, args, 4), LEAT_ERROR_INVALID, "204800 bytes");
    OK(leat_device_close(device));
}

/* ---- what a device is ---- */

static void test_info(void **state)
{
    leat_device *device = open_device("cuda:1");
    leat_device_info info;
    void *symbol = NULL;

    (void)state;
    OK(leat_device_query(device, &info));
    assert_string_equal(info.name, "cuda:1");
    assert_string_equal(info.model, "Fake GPU 1");
    assert_string_equal(info.architecture, "sm_91");
    assert_string_equal(info.pci_address, "ffff:1c:00.0");
    assert_int_equal(info.numa_node, -1);
    assert_int_equal(info.link_gen, 0);
    assert_int_equal(info.virtual_memory, 0);
    OK(leat_native_symbol(device, "cuMemAlloc_v2", &symbol));
    assert_non_null(symbol);
    REFUSED(leat_native_symbol(device, "cuNothing", &symbol), LEAT_ERROR_NOT_FOUND, "cuNothing");
    OK(leat_device_close(device));
}

/* ---- set-up ---- */

/* Both look alike in POSIX, and ISO C has no cast from one to the other. */
static bool take(void *library, const char *name, void *field)
{
    void *function = dlsym(library, name);

    memcpy(field, &function, sizeof function);
    return function != NULL;
}

static bool set_up(void)
{
    char path[4096];
    void *library;
    ssize_t length = readlink("/proc/self/exe", path, sizeof path - 32);

    if (length < 0)
        return false;
    path[length] = '\0';
    strcpy(strrchr(path, '/'), "/fake/fake_cuda.so");
    if (setenv("LEAT_CUDA_LIBRARY", path, 1) != 0)
        return false;
    unsetenv("FAKE_CUDA");
    unsetenv("LEAT_DRIVERS");
    unsetenv("LEAT_FAULT");
    library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    return library && take(library, "fake_cuda_live", &fake.live) &&
           take(library, "fake_cuda_calls", &fake.calls) && take(library, "fake_cuda_depth", &fake.depth) &&
           take(library, "fake_cuda_fail", &fake.fail_at) && take(library, "fake_cuda_context", &fake.context) &&
           take(library, "cuCtxPushCurrent_v2", &fake.push) && take(library, "cuCtxPopCurrent_v2", &fake.pop) &&
           take(library, "cuCtxGetCurrent", &fake.current) &&
           take(library, "cuStreamCreate", &fake.stream_create) &&
           take(library, "cuStreamDestroy_v2", &fake.stream_destroy) &&
           take(library, "cuEventCreate", &fake.event_create) &&
           take(library, "cuEventDestroy_v2", &fake.event_destroy) &&
           take(library, "cuMemAlloc_v2", &fake.mem_alloc) &&
           take(library, "cuMemAllocAsync", &fake.mem_alloc_async) &&
           take(library, "cuMemFree_v2", &fake.mem_free) && take(library, "cuMemHostAlloc", &fake.host_alloc) &&
           take(library, "cuMemFreeHost", &fake.host_free);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_each_call_fails), cmocka_unit_test(test_context_stays),
        cmocka_unit_test(test_wrapped_device),  cmocka_unit_test(test_wrapped_stream),
        cmocka_unit_test(test_wrapped_event),   cmocka_unit_test(test_pointers_of_the_user),
        cmocka_unit_test(test_boxes),           cmocka_unit_test(test_managed),
        cmocka_unit_test(test_out_of_memory),   cmocka_unit_test(test_images),
        cmocka_unit_test(test_kernels),         cmocka_unit_test(test_info),
    };

    if (!set_up()) {
        fprintf(stderr, "test_cuda_fake: there is no fake/fake_cuda.so beside this program\n");
        return 1;
    }
    return cmocka_run_group_tests(tests, NULL, NULL) ? 1 : 0;
}
