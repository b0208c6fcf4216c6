/* fakes.c - see fakes.h. */
#include "fakes.h"

#include <leat/native.h>

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define BYTES 4096

struct fakes fakes;

/* ---- set-up ---- */

/* Looks up a function of the library. Uses memcpy(), because ISO C cannot cast an object pointer to a function
 * pointer; POSIX gives both the same representation. */
static bool take(void *library, const char *name, void *field)
{
    void *function = dlsym(library, name);

    memcpy(field, &function, sizeof function);
    if (!function)
        fprintf(stderr, "%s\n", dlerror());
    return function != NULL;
}

bool fakes_load(const struct fakes_function *functions)
{
    char path[4096];
    void *library;
    ssize_t length = readlink("/proc/self/exe", path, sizeof path - 32);

    if (length < 0)
        return false;
    path[length] = '\0';
    snprintf(strrchr(path, '/'), 32, "/fake/fake_%s.so", fakes_vendor.name);
    if (setenv(fakes_vendor.library_variable, path, 1) != 0)
        return false;
    unsetenv("LEAT_DRIVERS");
    unsetenv("LEAT_FAULT");
    library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!library) {
        fprintf(stderr, "%s\n", dlerror());
        return false;
    }
    for (; functions->name; functions++)
        if (!take(library, functions->name, functions->field))
            return false;
    return take(library, "fake_live", &fakes.live) && take(library, "fake_calls", &fakes.calls) &&
           take(library, "fake_fail", &fakes.fail_at) && take(library, "fake_hold", &fakes.hold);
}

leat_device *fakes_open(const char *name)
{
    leat_device *device = NULL;

    OK(leat_device_open(name, &device));
    return device;
}

/* ---- each vendor call fails once ---- */

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
    leat_device_info info = LEAT_DEVICE_INFO_INIT;
    leat_module *module;
    uint64_t available;

    TRY(leat_device_open(fakes_vendor.devices[0], &all->device));
    TRY(leat_device_open(fakes_vendor.devices[1], &all->other));
    TRY(leat_device_get_info(all->device, &info));
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

static leat_status move_managed(struct everything *all)
{
    leat_managed_info managed = {.size = sizeof managed};

    TRY(leat_managed_advise(all->managed, BYTES, LEAT_ADVICE_PREFERRED, all->device));
    TRY(leat_managed_prefetch(all->stream, all->managed, BYTES, all->other));
    TRY(leat_managed_prefetch(all->far, all->managed, BYTES, LEAT_HOST));
    return leat_managed_get_info(all->managed, BYTES, &managed);
}

static const leat_copy_region some_rows = {10, 7, 1, 20, 30, 0, 0};

static leat_status use_all(struct everything *all, bool *ran)
{
    void *args[] = {&all->d, &all->d, &all->d, &(uint64_t){1}};
    double milliseconds;

    TRY(leat_register(all->device, all->host, BYTES));
    TRY(leat_unregister(all->host));
    TRY(leat_event_record(all->stream, all->start));
    TRY(leat_fill(all->stream, all->d, 7, BYTES));
    TRY(leat_copy(all->stream, all->pinned, all->d, BYTES));
    TRY(leat_copy(all->stream, (char *)all->pinned + BYTES, all->pinned, BYTES));
    TRY(leat_copy(all->stream, all->far_d, all->d, BYTES));
    TRY(leat_copy(all->far, all->managed, all->far_d, BYTES));
    TRY(leat_copy_sync(all->far, all->host, all->managed, BYTES));
    if (fakes_vendor.concurrent)
        TRY(move_managed(all));
    TRY(leat_copy_3d(all->stream, all->d, all->pinned, &some_rows));
    TRY(leat_copy_3d(all->stream, all->far_d, all->d, &some_rows));
    TRY(leat_copy_3d(all->stream, (char *)all->pinned + BYTES, all->pinned, &some_rows));
    TRY(leat_launch(all->stream, all->kernel, leat_dim(1, 1, 1), leat_dim(1, 1, 1), 60 << 10, args, 4));
    TRY(leat_launch_host(all->stream, set_flag, ran));
    TRY(leat_event_record(all->stream, all->end));
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

leat_status fakes_do_all(void)
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
        fakes.fail_at(n, code);
        status = fakes_do_all();
        reached = fakes.calls();
        fakes.fail_at(0, 0);
        if (fakes.live() != 0)
            fail_msg("call %u fails with %u: %u things are lost (%s)", n, code, fakes.live(), leat_last_error());
        fakes_vendor.expect_as_before();
        failures += status == wanted;
    } while (n++ <= reached);
    OK(fakes_do_all());

    /* Most failures must be reported. leat ignores only those of a few calls that query information. */
    assert_true(failures > 50);
}

void test_each_call_fails(void **state)
{
    (void)state;
    OK(fakes_do_all());
    assert_int_equal(fakes.live(), 0);
    walk(fakes_vendor.unknown, LEAT_ERROR_DRIVER);
    walk(fakes_vendor.lost, LEAT_ERROR_DEVICE_LOST);
}

/* ---- the user's streams and events ---- */

void fakes_use_stream(leat_device *device, void *mine)
{
    static void *const defaults[] = {NULL, (void *)1, (void *)2};
    leat_stream *stream = NULL;
    void *native = NULL;
    char host[64];
    void *d = NULL;

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
}

void fakes_use_event(leat_device *device, void *mine)
{
    leat_event *event = NULL;
    void *native = NULL;

    OK(leat_event_wrap(device, mine, &event));
    OK(leat_event_native(event, &native));
    assert_ptr_equal(native, mine);
    OK(leat_event_synchronize(event));
    OK(leat_event_destroy(event));
}

/* ---- memory ---- */

void fakes_expect_place(const void *ptr, leat_kind kind, leat_device *device, const void *base, size_t bytes)
{
    leat_pointer_info info = LEAT_POINTER_INFO_INIT;

    OK(leat_pointer_get_info(ptr, &info));
    assert_int_equal(info.kind, kind);
    assert_ptr_equal(info.device, device);
    assert_ptr_equal(info.base, base);
    assert_int_equal(info.bytes, bytes);
}

/* Copies regions between all kinds of memory. The slices are a whole number of rows apart, or not. */
void test_regions(void **state)
{
    static const leat_copy_region regions[] = {
        {10, 5, 1, 11, 13, 0, 0}, {10, 5, 3, 12, 20, 60, 120}, {10, 5, 3, 12, 20, 61, 130}};
    leat_device *device = fakes_open(fakes_vendor.devices[0]), *other = fakes_open(fakes_vendor.devices[1]);
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
        const leat_copy_region *region = &regions[all % 3];

        /* The fake library's device memory is host memory, so the test can access it. */
        memset(dst, 0, BYTES);
        for (size_t i = 0; i < BYTES; i++)
            src[i] = (unsigned char)(i * 7 % 251 + 1);
        OK(leat_copy_3d(stream, dst, src, region));
        OK(leat_stream_synchronize(stream));
        for (size_t i = 0; i < 200; i++) {
            size_t slice = region->depth > 1 ? region->dst_slice_bytes : 1000, z = i / slice,
                   y = i % slice / region->dst_pitch_bytes;
            size_t x = i % slice % region->dst_pitch_bytes;
            bool inside = z < region->depth && y < region->height && x < region->width_bytes;

            assert_int_equal(dst[i],
                             inside ? src[z * region->src_slice_bytes + y * region->src_pitch_bytes + x] : 0);
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
    assert_int_equal(fakes.live(), 0);
}

/* The vendor refuses these pitches on either side, so leat must copy row by row. */
void test_long_pitches(void **state)
{
    const size_t pitch = (size_t)INT32_MAX + 1, reach = pitch + BYTES;
    leat_device *device = fakes_open(fakes_vendor.devices[0]);
    char *far = mmap(NULL, reach, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    leat_stream *stream;
    void *d;

    (void)state;
    assert_true(far != MAP_FAILED);
    OK(leat_stream_create(device, &stream));
    OK(leat_memory_alloc(device, LEAT_KIND_DEVICE, 2 * BYTES, &d));
    for (int out = 0; out < 2; out++) {
        leat_copy_region region = {.width_bytes = BYTES, .height = 2, .depth = 1};

        *(out ? &region.dst_pitch_bytes : &region.src_pitch_bytes) = pitch;
        *(out ? &region.src_pitch_bytes : &region.dst_pitch_bytes) = BYTES;
        if (!out) {
            test_pattern(far, BYTES, 1);
            test_pattern(far + pitch, BYTES, 2);
        } else {
            memset(far, 0, BYTES);
            memset(far + pitch, 0, BYTES);
        }
        OK(leat_copy_3d(stream, out ? (void *)far : d, out ? d : (void *)far, &region));
        OK(leat_stream_synchronize(stream));
        EXPECT_PATTERN(out ? far : d, BYTES, 1);
        EXPECT_PATTERN(out ? far + pitch : (char *)d + BYTES, BYTES, 2);
    }
    munmap(far, reach);
    OK(leat_device_close(device));
    assert_int_equal(fakes.live(), 0);
}

/* ---- order ---- */

/* The fake library holds up the default stream's work. A user's stream that is ordered with the default stream
 * must wait for this work; leat's own stream must not. */
void test_streams_wait_for_no_default_stream(void **state)
{
    leat_device *device = fakes_open(fakes_vendor.devices[0]);
    leat_stream *stream, *by_default, *in_order;
    static bool ran, ran_beside; /* static, because after a failure the functions are still queued */
    void *mine;

    (void)state;
    mine = fakes_vendor.new_ordered_stream();
    OK(leat_stream_create(device, &stream));
    OK(leat_stream_wrap(device, NULL, &by_default));
    OK(leat_stream_wrap(device, mine, &in_order));
    fakes.hold(0, NULL, 1);
    OK(leat_launch_host(by_default, set_flag, &ran));
    assert_int_equal(leat_stream_query(by_default), LEAT_NOT_READY);
    OK(leat_launch_host(in_order, set_flag, &ran_beside));
    assert_int_equal(leat_stream_query(in_order), LEAT_NOT_READY);
    OK(leat_launch_host(stream, set_flag, &ran_beside));
    OK(leat_stream_query(stream));
    assert_true(ran_beside && !ran);
    fakes.hold(0, NULL, 0);
    OK(leat_stream_synchronize(in_order));
    assert_true(ran);
    fakes_vendor.end_stream(mine);
    OK(leat_device_close(device));
    assert_int_equal(fakes.live(), 0);
}

int fakes_let_default_stream_go(void **state)
{
    (void)state;
    fakes.hold(0, NULL, 0);
    return 0;
}

/* The handle of the calling thread's default stream, which is the same number in CUDA and HIP. */
#define STREAM_OF_THREAD ((void *)2)

/* The handle STREAM_OF_THREAD means a different stream in each thread. If a thread frees memory on it while work
 * is pending, another thread may allocate on another stream by the same handle. So leat must not reuse the memory;
 * on an ordinary stream it may. */
void test_stream_of_each_thread(void **state)
{
    leat_device *device = fakes_open(fakes_vendor.devices[0]);
    void *handles[] = {fakes_vendor.new_ordered_stream(), STREAM_OF_THREAD};
    static bool ran[2]; /* static, because after a failure the functions are still queued */

    (void)state;
    for (int each_thread = 0; each_thread < 2; each_thread++) {
        void *freed = NULL, *next = NULL;
        bool reused;
        leat_stream *stream;

        OK(leat_stream_wrap(device, handles[each_thread], &stream));
        OK(leat_alloc(stream, BYTES, &freed));
        fakes.hold(0, handles[each_thread], 1);
        OK(leat_launch_host(stream, set_flag, &ran[each_thread]));
        OK(leat_free(stream, freed));
        OK(leat_alloc(stream, BYTES, &next));
        reused = next == freed && !ran[each_thread];
        fakes.hold(0, handles[each_thread], 0);
        OK(leat_free(stream, next));
        OK(leat_stream_synchronize(stream));
        OK(leat_stream_destroy(stream));
        assert_int_equal(reused, !each_thread);
    }
    fakes_vendor.end_stream(handles[0]);
    OK(leat_device_close(device));
    assert_int_equal(fakes.live(), 0);
}

int fakes_let_stream_of_thread_go(void **state)
{
    (void)state;
    fakes.hold(0, STREAM_OF_THREAD, 0);
    return 0;
}

struct late_write {
    void *ptr;
    uint64_t seed;
};

static void write_late(void *argument)
{
    const struct late_write *late = argument;

    test_pattern(late->ptr, 2 * BYTES, late->seed);
}

/* Earlier work of the stream writes the source, but the fake library reads the source when leat submits the copy.
 * So leat must wait for the earlier work first. */
void test_pageable_sources_are_read_in_order(void **state)
{
    static const leat_copy_region region = {BYTES / 2, 2, 1, BYTES, BYTES, 0, 0};
    static const leat_kind kinds[] = {LEAT_KIND_DEVICE, LEAT_KIND_MANAGED};
    leat_device *device = fakes_open(fakes_vendor.devices[0]);
    unsigned char *src = test_buffer(2 * BYTES), *wanted = test_buffer(2 * BYTES), *dst;
    leat_stream *stream;
    void *native, *made;

    (void)state;
    OK(leat_stream_create(device, &stream));
    OK(leat_stream_native(stream, &native));
    for (uint64_t i = 0; i < 4; i++) {
        static struct late_write late; /* static, because after a failure the function is still queued */

        late = (struct late_write){src, i + 1};
        OK(leat_memory_alloc(device, kinds[i / 2], 2 * BYTES, &made));
        dst = made;
        memset(src, 0, 2 * BYTES);
        memset(dst, 0, 2 * BYTES);
        test_pattern(wanted, 2 * BYTES, i + 1);
        fakes.hold(0, native, 1);
        OK(leat_launch_host(stream, write_late, &late));
        if (i % 2)
            OK(leat_copy_3d(stream, dst, src, &region));
        else
            OK(leat_copy(stream, dst, src, 2 * BYTES));
        fakes.hold(0, native, 0);
        OK(leat_stream_synchronize(stream));
        for (size_t row = 0; row < 2; row++)
            assert_memory_equal(dst + row * BYTES, wanted + row * BYTES, BYTES / (1 + i % 2));
        OK(leat_memory_free(made));
    }
    free(src);
    free(wanted);
    OK(leat_device_close(device));
    assert_int_equal(fakes.live(), 0);
}

/* Two allocations are neighbours in memory. The fake library refuses a copy that touches both, so leat must split
 * it. */
void test_copies_stay_in_one_allocation(void **state)
{
    leat_device *device = fakes_open(fakes_vendor.devices[0]);
    unsigned char *host = NULL;
    leat_copy_op pairs[2];
    leat_stream *stream;
    void *d;

    (void)state;
    assert_int_equal(posix_memalign((void **)(void *)&host, 4096, 2 * BYTES), 0);
    OK(leat_stream_create(device, &stream));
    OK(leat_memory_alloc(device, LEAT_KIND_DEVICE, 2 * BYTES, &d));
    for (int i = 0; i < 2; i++)
        OK(leat_register(device, host + i * BYTES, BYTES));
    for (int out = 0; out < 2; out++) {
        for (int i = 0; i < 2; i++) {
            char *at = (char *)d + i * BYTES;

            pairs[i] =
                out ? (leat_copy_op){host + i * BYTES, at, BYTES} : (leat_copy_op){at, host + i * BYTES, BYTES};
        }
        if (!out)
            test_pattern(host, 2 * BYTES, 5);
        else
            memset(host, 0, 2 * BYTES);
        OK(leat_copy_batch(stream, pairs, 2));
        OK(leat_stream_synchronize(stream));
        EXPECT_PATTERN(out ? (void *)host : d, 2 * BYTES, 5);
    }
    REFUSED(leat_copy(stream, d, host, 2 * BYTES), LEAT_ERROR_RANGE, "src");
    for (int i = 0; i < 2; i++)
        OK(leat_unregister(host + i * BYTES));
    free(host);
    OK(leat_device_close(device));
    assert_int_equal(fakes.live(), 0);
}

/* The ticket of a copy that is not staged owns an event, and must destroy it. */
void test_tickets_leave_nothing(void **state)
{
    leat_device *device = fakes_open(fakes_vendor.devices[0]);
    leat_stream *stream;
    leat_ticket *ticket;
    void *d, *pinned;
    unsigned before;

    (void)state;
    OK(leat_stream_create(device, &stream));
    OK(leat_memory_alloc(device, LEAT_KIND_DEVICE, BYTES, &d));
    OK(leat_memory_alloc(device, LEAT_KIND_PINNED, BYTES, &pinned));
    before = fakes.live();
    for (int i = 0; i < 10; i++) {
        ticket = test_copy_start(stream, d, pinned, BYTES);
        OK(leat_ticket_wait(ticket, LEAT_COPY_POINT_DONE, LEAT_FOREVER));
        OK(leat_ticket_destroy(ticket));
    }
    assert_int_equal(fakes.live(), before);
    OK(leat_device_close(device));
    assert_int_equal(fakes.live(), 0);
}

void test_out_of_memory(void **state)
{
    leat_device *device = fakes_open(fakes_vendor.devices[0]);
    void *ptr = NULL;

    (void)state;
    REFUSED(leat_memory_alloc(device, LEAT_KIND_DEVICE, (size_t)1 << 40, &ptr), LEAT_ERROR_DEVICE_MEMORY,
            fakes_vendor.out_of_memory);
    REFUSED(leat_memory_alloc(device, LEAT_KIND_PINNED, (size_t)1 << 40, &ptr), LEAT_ERROR_HOST_MEMORY,
            "available");
    OK(leat_device_close(device));
}

/* The fake libraries run work at once, so their streams cannot wait for counters, as with old drivers. */
void test_no_counters(void **state)
{
    leat_device *device = fakes_open(fakes_vendor.devices[0]);
    leat_pool_options options = LEAT_POOL_OPTIONS_INIT;
    leat_share *share = NULL;
    leat_pool *pool = NULL;
    void *counter, *block;
    leat_stream *stream;
    leat_status status;

    (void)state;
    OK(leat_stream_create(device, &stream));
    OK(leat_memory_alloc(device, LEAT_KIND_PINNED, 4, &counter));
    REFUSED(leat_stream_write_u32(stream, counter, 1), LEAT_ERROR_UNSUPPORTED, "does not have it");
    REFUSED(leat_stream_wait_u32(stream, counter, 1), LEAT_ERROR_UNSUPPORTED, "does not have it");
    options.dedicated = options.exportable = 1;
    status = leat_pool_create(device, &options, &pool);
    if (status == LEAT_OK) {
        OK(leat_pool_alloc(stream, pool, 100, &block));
        assert_true(leat_share_create(stream, block, NULL, &share) < LEAT_OK ||
                    leat_share_hand_over(stream, share) == LEAT_ERROR_UNSUPPORTED);
        OK(leat_share_destroy(share));
    }
    OK(leat_device_close(device));
    assert_int_equal(fakes.live(), 0);
}

/* ---- modules ---- */

void fakes_make_elf(unsigned char *image, unsigned machine)
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

void test_kernels(void **state)
{
    leat_device *device = fakes_open(fakes_vendor.devices[0]);
    leat_stream *stream = NULL;
    leat_module *module = NULL;
    leat_kernel *kernel = NULL;
    uint64_t value = 0;
    void *args[] = {&value, &value, &value, &value};
    leat_dim3 one = leat_dim(1, 1, 1);
    size_t bytes = 0;
    int count = 0;

    (void)state;
    OK(leat_stream_create(device, &stream));
    OK(leat_module_builtin(device, &module));
    REFUSED(leat_kernel_get(module, "nothing", &kernel), LEAT_ERROR_NOT_FOUND, "nothing");
    OK(leat_kernel_get(module, "leat_vector_add_f32", &kernel));
    OK(leat_kernel_parameter_count(kernel, &count));
    assert_int_equal(count, 4);
    if (fakes_vendor.parameter_bytes)
        OK(leat_kernel_parameter_bytes(kernel, 3, &bytes));
    else
        REFUSED(leat_kernel_parameter_bytes(kernel, 3, &bytes), LEAT_ERROR_UNSUPPORTED, "does not tell the sizes");
    assert_int_equal(bytes, fakes_vendor.parameter_bytes);
    OK(leat_launch(stream, kernel, one, one, 0, args, 4));
    OK(leat_launch(stream, kernel, one, one, fakes_vendor.shared_bytes, args, 4));
    REFUSED(leat_launch(stream, kernel, one, one, 200 << 10, args, 4), LEAT_ERROR_INVALID, "204800 bytes");
    OK(leat_device_close(device));
}

/* ---- device information ---- */

void fakes_expect_info(const char *model, const char *architecture, const char *function, const char *nothing)
{
    leat_device *device = fakes_open(fakes_vendor.devices[1]);
    leat_device_info info = LEAT_DEVICE_INFO_INIT;
    void *symbol = NULL;

    OK(leat_device_get_info(device, &info));
    assert_string_equal(info.name, fakes_vendor.devices[1]);
    assert_string_equal(info.model, model);
    assert_string_equal(info.architecture, architecture);
    assert_string_equal(info.pci_address, "ffff:1c:00.0");
    assert_int_equal(info.numa_node, -1);
    assert_int_equal(info.link_gen, 0);
    assert_int_equal(info.virtual_memory, 0);
    OK(leat_native_symbol(device, function, &symbol));
    assert_non_null(symbol);
    REFUSED(leat_native_symbol(device, nothing, &symbol), LEAT_ERROR_NOT_FOUND, nothing);
    OK(leat_device_close(device));
}
