/* test_virtual.c - tests address reservations, physical memory, mappings, access, and sharing by file
 * descriptor. */
#include "harness.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { UNITS = 4 };

/* A reservation of UNITS units, and one unit of physical memory for each. */
struct place {
    size_t unit;
    char *base;
    leat_physical *memory[UNITS];
};

/* Returns the granularity of virtual memory. Skips the test if the device has none. */
static size_t unit_of(leat_device *device)
{
    size_t unit = 0;
    leat_status status = leat_virtual_granularity(device, &unit);

    if (status == LEAT_ERROR_UNSUPPORTED)
        SKIP_OTHER("this device has no virtual memory");
    OK(status);
    assert_true(unit > 0 && (unit & (unit - 1)) == 0);
    return unit;
}

static struct place make_place(leat_device *device)
{
    struct place p = {.unit = unit_of(device)};
    void *base;

    OK(leat_virtual_reserve(device, UNITS * p.unit, 0, &base));
    p.base = base;
    for (int i = 0; i < UNITS; i++)
        OK(leat_physical_create(device, p.unit, 0, &p.memory[i]));
    return p;
}

static void map_all(struct place *p, leat_device *device)
{
    for (int i = 0; i < UNITS; i++)
        OK(leat_virtual_map(p->base + (size_t)i * p->unit, p->unit, p->memory[i]));
    OK(leat_virtual_set_access(device, p->base, UNITS * p->unit, LEAT_ACCESS_READ_WRITE));
}

/* Unmaps the first count units, then frees the memory and the reservation. */
static void end_place(struct place *p, size_t count)
{
    if (count)
        OK(leat_virtual_unmap(p->base, count * p->unit));
    for (int i = 0; i < UNITS; i++)
        OK(leat_physical_release(p->memory[i]));
    OK(leat_virtual_unreserve(p->base));
}

static void write_pattern(leat_stream *stream, void *dst, size_t bytes, uint64_t seed)
{
    unsigned char *in = test_buffer(bytes);

    test_pattern(in, bytes, seed);
    OK(leat_copy(stream, dst, in, bytes));
    OK(leat_stream_synchronize(stream)); /* before the memory's access is changed */
    free(in);
}

static void expect_pattern(leat_stream *stream, const void *src, size_t bytes, uint64_t seed)
{
    unsigned char *out = test_buffer(bytes);

    memset(out, 0, bytes);
    OK(leat_copy_sync(stream, out, src, bytes));
    EXPECT_PATTERN(out, bytes, seed);
    free(out);
}

static void mapped_memory_is_device_memory(void **state)
{
    struct test_state *t = *state;
    struct place p = make_place(t->device);
    leat_kernel *square = test_kernel(t->device, "leat_square_u32");
    uint32_t *numbers = test_buffer(p.unit);
    uint64_t count = p.unit / 4;
    uint32_t twelve = 12;
    leat_pointer_info info = LEAT_POINTER_INFO_INIT;
    void *data = p.base + p.unit;
    void *args[] = {&data, &count};

    map_all(&p, t->device);
    OK(leat_pointer_get_info(p.base + p.unit + 5, &info));
    assert_int_equal(info.kind, LEAT_KIND_DEVICE);
    assert_ptr_equal(info.device, t->device);
    assert_ptr_equal(info.base, p.base);
    assert_int_equal(info.bytes, UNITS * p.unit);
    assert_ptr_equal(info.device_pointer, p.base + p.unit + 5);
    assert_int_equal(info.owned, 1);

    /* Write and read across the borders of the mappings. */
    write_pattern(t->stream, p.base, UNITS * p.unit, 7);
    expect_pattern(t->stream, p.base, UNITS * p.unit, 7);
    OK(leat_fill_pattern(t->stream, data, &twelve, sizeof twelve, p.unit));
    OK(leat_launch(t->stream, square, leat_dim(8, 1, 1), leat_dim(64, 1, 1), 0, args, 2));
    OK(leat_copy_sync(t->stream, numbers, data, p.unit));
    for (uint64_t i = 0; i < count; i++)
        assert_int_equal(numbers[i], 144);
    free(numbers);
    end_place(&p, UNITS);
}

static void contents_move_with_the_memory(void **state)
{
    struct test_state *t = *state;
    struct place p = make_place(t->device);
    char *last = p.base + 3 * p.unit;

    OK(leat_virtual_map(p.base, p.unit, p.memory[0]));
    OK(leat_virtual_set_access(t->device, p.base, p.unit, LEAT_ACCESS_READ_WRITE));
    write_pattern(t->stream, p.base, p.unit, 3);

    /* Map the memory at a second address too, then unmap the first. */
    OK(leat_virtual_map(last, p.unit, p.memory[0]));
    OK(leat_virtual_set_access(t->device, last, p.unit, LEAT_ACCESS_READ_WRITE));
    expect_pattern(t->stream, last, p.unit, 3);
    OK(leat_virtual_unmap(p.base, p.unit));
    OK(leat_physical_release(p.memory[0]));
    p.memory[0] = NULL;
    expect_pattern(t->stream, last, p.unit, 3);

    /* The handle was released, but the mapping keeps the memory and can return a new handle for it. */
    OK(leat_physical_retain(last + 1, &p.memory[0]));
    OK(leat_virtual_unmap(last, p.unit));
    OK(leat_virtual_map(p.base, p.unit, p.memory[0]));
    OK(leat_virtual_set_access(t->device, p.base, p.unit, LEAT_ACCESS_READ_WRITE));
    expect_pattern(t->stream, p.base, p.unit, 3);
    end_place(&p, 1);
}

static void what_is_not_mapped_is_refused(void **state)
{
    struct test_state *t = *state;
    struct place p = make_place(t->device);
    leat_pointer_info info = LEAT_POINTER_INFO_INIT;
    unsigned char byte = 0;

    REFUSED(leat_pointer_get_info(p.base, &info), LEAT_ERROR_POINTER, "nothing is mapped");
    REFUSED(leat_copy(t->stream, p.base, &byte, 1), LEAT_ERROR_POINTER, "nothing is mapped");
    REFUSED(leat_fill(t->stream, p.base, 0, 1), LEAT_ERROR_POINTER, "nothing is mapped");
    OK(leat_virtual_map(p.base, p.unit, p.memory[0]));
    REFUSED(leat_copy(t->stream, p.base, &byte, 1), LEAT_ERROR_POINTER, "no device has access");
    OK(leat_virtual_set_access(t->device, p.base, p.unit, LEAT_ACCESS_READ_WRITE));
    OK(leat_copy_sync(t->stream, p.base + p.unit - 1, &byte, 1));
    REFUSED(leat_copy(t->stream, p.base + p.unit, &byte, 1), LEAT_ERROR_POINTER, "nothing is mapped");
    REFUSED(leat_fill(t->stream, p.base + 1, 0, p.unit), LEAT_ERROR_RANGE, "past the end");
    REFUSED(leat_free(t->stream, p.base), LEAT_ERROR_POINTER, "reserved virtual memory");
    REFUSED(leat_memory_free(p.base), LEAT_ERROR_POINTER, "reserved virtual memory");
    REFUSED(leat_pointer_wrap(t->device, LEAT_KIND_DEVICE, p.base + p.unit, 1), LEAT_ERROR_REGISTERED, "overlaps");
    OK(leat_stream_synchronize(t->stream)); /* the copy of one byte may be pending */
    end_place(&p, 1);
    REFUSED(leat_virtual_unreserve(p.base), LEAT_ERROR_POINTER, "not reserved");
}

static void access_is_kept_and_asked(void **state)
{
    struct test_state *t = *state;
    struct place p = make_place(t->device);
    leat_device *other = test_open_other();
    leat_access access = LEAT_ACCESS_READ;
    unsigned char byte = 0;
    leat_status status;

    OK(leat_virtual_map(p.base, p.unit, p.memory[0]));
    OK(leat_virtual_get_access(t->device, p.base + 9, &access));
    assert_int_equal(access, LEAT_ACCESS_NONE);
    OK(leat_virtual_set_access(t->device, p.base, p.unit, LEAT_ACCESS_READ_WRITE));
    OK(leat_virtual_get_access(t->device, p.base, &access));
    assert_int_equal(access, LEAT_ACCESS_READ_WRITE);
    write_pattern(t->stream, p.base, p.unit, 8);
    status = leat_virtual_set_access(t->device, p.base, p.unit, LEAT_ACCESS_READ);
    if (status != LEAT_OK) {
        /* Some drivers cannot make a mapping read-only. */
        assert_true(!test_on_cpu());
    } else {
        OK(leat_virtual_get_access(t->device, p.base, &access));
        assert_int_equal(access, LEAT_ACCESS_READ);
        expect_pattern(t->stream, p.base, p.unit, 8);
        REFUSED(leat_fill(t->stream, p.base, 0, 1), LEAT_ERROR_NOT_PERMITTED, "is mapped read-only");
        REFUSED(leat_copy(t->stream, p.base, &byte, 1), LEAT_ERROR_NOT_PERMITTED, "is mapped read-only");
        OK(leat_virtual_set_access(t->device, p.base, p.unit, LEAT_ACCESS_NONE));
        REFUSED(leat_copy(t->stream, &byte, p.base, 1), LEAT_ERROR_POINTER, "no device has access");
    }
    if (other) {
        OK(leat_virtual_get_access(other, p.base, &access));
        assert_int_equal(access, LEAT_ACCESS_NONE);
        if (test_on_cpu()) {
            OK(leat_virtual_set_access(other, p.base, p.unit, LEAT_ACCESS_READ_WRITE));
            OK(leat_virtual_get_access(other, p.base, &access));
            assert_int_equal(access, LEAT_ACCESS_READ_WRITE);
        }
        OK(leat_device_close(other));
    }
    end_place(&p, 1);
}

/* Memory whose handle was released must live as long as it is mapped, and a new handle can be requested. Unmapping
 * the memory must free it. */
static void a_mapping_keeps_its_memory(void **state)
{
    struct test_state *t = *state;
    size_t unit = unit_of(t->device);
    leat_physical *memory, *again;
    leat_physical_info info = LEAT_PHYSICAL_INFO_INIT;
    uint64_t before, after;
    void *base;

    OK(leat_virtual_reserve(t->device, unit, 0, &base));
    for (int round = 0; round < 2; round++) {
        OK(leat_device_memory(t->device, &before, NULL));
        OK(leat_physical_create(t->device, unit, 0, &memory));
        OK(leat_virtual_map(base, unit, memory));
        OK(leat_virtual_set_access(t->device, base, unit, LEAT_ACCESS_READ_WRITE));
        OK(leat_physical_release(memory));
        write_pattern(t->stream, base, unit, 9);
        OK(leat_physical_retain(base, &again));
        OK(leat_physical_get_info(again, &info));
        assert_int_equal(info.bytes, unit);
        OK(leat_physical_release(again));
        expect_pattern(t->stream, base, unit, 9);
        OK(leat_virtual_unmap(base, unit));
        REFUSED(leat_physical_get_info(again, &info), LEAT_ERROR_HANDLE, "no live physical memory");
        OK(leat_device_memory(t->device, &after, NULL));
        /* Copies of the first round may have allocated memory that the device keeps. */
        if (round && test_on_cpu())
            assert_int_equal(after, before);
    }
    OK(leat_virtual_unreserve(base));
}

/* Neighbouring mappings count as two ranges if one is writable and the other read-only. */
static void rights_end_where_they_end(void **state)
{
    struct test_state *t = *state;
    struct place p = make_place(t->device);

    map_all(&p, t->device);
    OK(leat_fill(t->stream, p.base, 1, 2 * p.unit));
    OK(leat_stream_synchronize(t->stream));
    if (leat_virtual_set_access(t->device, p.base + p.unit, p.unit, LEAT_ACCESS_READ) == LEAT_OK) {
        assert_int_not_equal(leat_fill(t->stream, p.base, 2, 2 * p.unit), LEAT_OK);
        OK(leat_fill(t->stream, p.base, 2, p.unit));
        OK(leat_stream_synchronize(t->stream));
    }
    end_place(&p, UNITS);
}

/* A batch writes nothing if one of its destinations is read-only, whether leat copies that range together with others
 * or alone. */
static void batches_do_not_write_what_is_read_only(void **state)
{
    enum { SMALL = 64, MANY = 20 };
    struct test_state *t = *state;
    struct place p = make_place(t->device);
    char *src = test_alloc(t->device, LEAT_KIND_DEVICE, p.unit);
    char *dst = test_alloc(t->device, LEAT_KIND_DEVICE, MANY * SMALL);
    char *host = test_buffer(MANY * SMALL);
    leat_copy_op ops[MANY + 1];

    map_all(&p, t->device);
    OK(leat_fill(t->stream, src, 1, p.unit));
    OK(leat_fill(t->stream, dst, 2, MANY * SMALL));
    OK(leat_stream_synchronize(t->stream));
    if (leat_virtual_set_access(t->device, p.base, p.unit, LEAT_ACCESS_READ) != LEAT_OK)
        SKIP_OTHER("this driver cannot map memory for reading only");
    for (unsigned round = 0; round < 4; round++) {
        bool all = round < 2; /* of the destinations are read-only; otherwise only that of the last op */

        for (unsigned i = 0; i < MANY; i++)
            ops[i] = (leat_copy_op){(all ? p.base : dst) + (size_t)i * SMALL,
                                    (round ? src : host) + (size_t)(MANY - 1 - i) * SMALL, SMALL};
        ops[MANY] = (leat_copy_op){p.base + (all ? MANY * SMALL : 0), src, round == 3 ? p.unit : SMALL};
        REFUSED(leat_copy_batch(t->stream, ops, MANY + 1), LEAT_ERROR_NOT_PERMITTED, "is mapped read-only");
        OK(leat_stream_synchronize(t->stream));
    }
    OK(leat_copy_sync(t->stream, host, dst, MANY * SMALL));
    EXPECT_BYTES(host, MANY * SMALL, 2);
    OK(leat_memory_free(src));
    OK(leat_memory_free(dst));
    free(host);
    end_place(&p, UNITS);
}

static void two_devices_share_a_reservation(void **state)
{
    struct test_state *t = *state;
    size_t unit = unit_of(t->device);
    leat_device *other = test_open_other();
    leat_physical *near_memory, *far_memory;
    leat_pointer_info info = LEAT_POINTER_INFO_INIT;
    leat_stream *stream;
    void *base;

    if (!other)
        SKIP_OTHER("there is one device only");
    OK(leat_stream_create(other, &stream));
    OK(leat_virtual_reserve(t->device, 2 * unit, 0, &base));
    OK(leat_physical_create(t->device, unit, 0, &near_memory));
    OK(leat_physical_create(other, unit, 0, &far_memory));
    OK(leat_virtual_map(base, unit, near_memory));
    OK(leat_virtual_map((char *)base + unit, unit, far_memory));
    OK(leat_virtual_set_access(t->device, base, unit, LEAT_ACCESS_READ_WRITE));
    OK(leat_virtual_set_access(other, (char *)base + unit, unit, LEAT_ACCESS_READ_WRITE));
    OK(leat_pointer_get_info((char *)base + unit, &info));
    assert_ptr_equal(info.device, other);
    assert_ptr_equal(info.base, (char *)base + unit);
    assert_int_equal(info.bytes, unit);
    write_pattern(t->stream, base, unit, 5);
    OK(leat_copy_sync(stream, (char *)base + unit, base, unit));
    expect_pattern(stream, (char *)base + unit, unit, 5);

    /* Closing the other device unmaps its memory from this device's reservation. */
    OK(leat_device_close(other));
    REFUSED(leat_pointer_get_info((char *)base + unit, &info), LEAT_ERROR_POINTER, "nothing is mapped");
    REFUSED(leat_physical_release(far_memory), LEAT_ERROR_HANDLE, "no live physical memory");
    expect_pattern(t->stream, base, unit, 5);
    OK(leat_virtual_unmap(base, unit));
    OK(leat_physical_release(near_memory));
    OK(leat_virtual_unreserve(base));
}

/* Closing a device removes its access to other devices' memory, and frees its own reservations with what is mapped
 * there. */
static void a_device_that_closes_leaves_nothing(void **state)
{
    struct test_state *t = *state;
    size_t unit = unit_of(t->device);
    leat_device *other = test_open_other();
    leat_physical *memory;
    uint64_t before, after;
    void *base;

    if (!other)
        SKIP_OTHER("there is one device only");
    if (!test_on_cpu()) {
        OK(leat_device_close(other));
        SKIP_OTHER("not every device lets another one use its memory");
    }
    OK(leat_virtual_reserve(t->device, unit, 0, &base));
    OK(leat_physical_create(t->device, unit, 0, &memory));
    OK(leat_virtual_map(base, unit, memory));
    OK(leat_virtual_set_access(t->device, base, unit, LEAT_ACCESS_READ_WRITE));
    OK(leat_virtual_set_access(other, base, unit, LEAT_ACCESS_READ_WRITE));
    OK(leat_device_close(other));
    OK(leat_virtual_set_access(t->device, base, unit, LEAT_ACCESS_READ));
    REFUSED(leat_fill(t->stream, base, 0, 1), LEAT_ERROR_NOT_PERMITTED, "is mapped read-only");
    OK(leat_virtual_unmap(base, unit));
    OK(leat_physical_release(memory));
    OK(leat_virtual_unreserve(base));

    other = test_open_other();
    assert_non_null(other);
    OK(leat_device_memory(t->device, &before, NULL));
    OK(leat_virtual_reserve(other, unit, 0, &base));
    OK(leat_physical_create(t->device, unit, 0, &memory));
    OK(leat_virtual_map(base, unit, memory));
    OK(leat_physical_release(memory));
    OK(leat_device_close(other));
    OK(leat_device_memory(t->device, &after, NULL));
    assert_int_equal(after, before);
}

static void memory_goes_through_a_descriptor(void **state)
{
    struct test_state *t = *state;
    size_t unit = unit_of(t->device);
    leat_physical *memory, *imported, *passed_on;
    leat_physical_info info = LEAT_PHYSICAL_INFO_INIT;
    void *base;
    int fd;
    leat_status status = leat_physical_create(t->device, 2 * unit, LEAT_PHYSICAL_EXPORTABLE, &memory);

    if (status == LEAT_ERROR_UNSUPPORTED)
        SKIP_OTHER("this device's memory cannot be exported");
    OK(status);
    OK(leat_physical_export(memory, &fd));
    OK(leat_physical_import(t->device, fd, 2 * unit, &imported));
    assert_int_equal(close(fd), 0);
    OK(leat_physical_get_info(imported, &info));
    assert_ptr_equal(info.device, t->device);
    assert_int_equal(info.bytes, 2 * unit);
    assert_int_equal(info.imported, 1);
    OK(leat_physical_get_info(memory, &info));
    assert_int_equal(info.exportable, 1);
    assert_int_equal(info.imported, 0);

    /* What was imported can be exported again. */
    OK(leat_physical_export(imported, &fd));
    OK(leat_physical_import(t->device, fd, 2 * unit, &passed_on));
    assert_int_equal(close(fd), 0);

    OK(leat_virtual_reserve(t->device, 6 * unit, 0, &base));
    OK(leat_virtual_map(base, 2 * unit, memory));
    OK(leat_virtual_map((char *)base + 2 * unit, 2 * unit, imported));
    OK(leat_virtual_map((char *)base + 4 * unit, 2 * unit, passed_on));
    OK(leat_virtual_set_access(t->device, base, 6 * unit, LEAT_ACCESS_READ_WRITE));
    write_pattern(t->stream, base, 2 * unit, 4);
    expect_pattern(t->stream, (char *)base + 2 * unit, 2 * unit, 4);
    expect_pattern(t->stream, (char *)base + 4 * unit, 2 * unit, 4);
    OK(leat_virtual_unmap(base, 6 * unit));
    OK(leat_virtual_unreserve(base));
    OK(leat_physical_release(passed_on));
    OK(leat_physical_release(imported));
    OK(leat_physical_release(memory));

    OK(leat_physical_create(t->device, unit, 0, &memory));
    REFUSED(leat_physical_export(memory, &fd), LEAT_ERROR_INVALID, "LEAT_PHYSICAL_EXPORTABLE");
    REFUSED(leat_physical_import(t->device, -1, unit, &imported), LEAT_ERROR_INVALID, "exported memory");
    OK(leat_physical_release(memory));
}

static void alignment_is_kept(void **state)
{
    struct test_state *t = *state;
    size_t unit = unit_of(t->device);
    void *small, *base[3], *start;
    size_t bytes;

    OK(leat_virtual_reserve(t->device, unit, 0, &small));
    for (int i = 0; i < 3; i++) {
        OK(leat_virtual_reserve(t->device, unit, 16 * unit, &base[i]));
        assert_int_equal((uintptr_t)base[i] % (16 * unit), 0);
        OK(leat_virtual_get_reservation((char *)base[i] + unit - 1, &start, &bytes));
        assert_ptr_equal(start, base[i]);
        assert_int_equal(bytes, unit);
    }
    for (int i = 0; i < 3; i++)
        OK(leat_virtual_unreserve(base[i]));
    OK(leat_virtual_unreserve(small));
    REFUSED(leat_virtual_get_reservation(small, &start, &bytes), LEAT_ERROR_POINTER, "not reserved");
}

static void wrong_arguments_are_refused(void **state)
{
    struct test_state *t = *state;
    struct place p = make_place(t->device);
    leat_physical *memory, *dead = p.memory[UNITS - 1];
    leat_access access;
    char local;
    void *ptr;

    REFUSED(leat_virtual_granularity(t->device, NULL), LEAT_ERROR_INVALID, "NULL");
    REFUSED(leat_virtual_granularity(NULL, &p.unit), LEAT_ERROR_HANDLE, "device");
    REFUSED(leat_virtual_reserve(t->device, p.unit, 0, NULL), LEAT_ERROR_INVALID, "NULL");
    REFUSED(leat_virtual_reserve(t->device, 0, 0, &ptr), LEAT_ERROR_INVALID, "multiple");
    REFUSED(leat_virtual_reserve(t->device, p.unit + 1, 0, &ptr), LEAT_ERROR_INVALID, "multiple");
    REFUSED(leat_virtual_reserve(t->device, p.unit, 3, &ptr), LEAT_ERROR_INVALID, "power of two");
    REFUSED(leat_virtual_unreserve(p.base + p.unit), LEAT_ERROR_POINTER, "start");
    REFUSED(leat_virtual_unreserve(&local), LEAT_ERROR_POINTER, "not reserved");
    OK(leat_virtual_unreserve(NULL));

    REFUSED(leat_physical_create(t->device, 0, 0, &memory), LEAT_ERROR_INVALID, "multiple");
    REFUSED(leat_physical_create(t->device, p.unit, 2, &memory), LEAT_ERROR_INVALID, "flags");
    REFUSED(leat_physical_create(t->device, p.unit, 0, NULL), LEAT_ERROR_INVALID, "NULL");
    REFUSED(leat_physical_get_info(p.memory[0], NULL), LEAT_ERROR_INVALID, "NULL");
    OK(leat_physical_release(NULL));
    OK(leat_physical_release(dead));
    p.memory[UNITS - 1] = NULL;
    REFUSED(leat_physical_release(dead), LEAT_ERROR_HANDLE, "no live physical memory");
    REFUSED(leat_virtual_map(p.base, p.unit, dead), LEAT_ERROR_HANDLE, "no live physical memory");

    REFUSED(leat_virtual_map(p.base, 0, p.memory[0]), LEAT_ERROR_INVALID, "multiple");
    REFUSED(leat_virtual_map(p.base + 1, p.unit, p.memory[0]), LEAT_ERROR_INVALID, "multiple");
    REFUSED(leat_virtual_map(p.base, 2 * p.unit, p.memory[0]), LEAT_ERROR_INVALID, "only");
    REFUSED(leat_virtual_map(p.base + UNITS * p.unit - p.unit, 2 * p.unit, p.memory[0]), LEAT_ERROR_RANGE,
            "past the end");
    REFUSED(leat_virtual_map(&local, p.unit, p.memory[0]), LEAT_ERROR_POINTER, "not reserved");
    OK(leat_virtual_map(p.base, p.unit, p.memory[0]));
    REFUSED(leat_virtual_map(p.base, p.unit, p.memory[1]), LEAT_ERROR_BUSY, "mapped");
    REFUSED(leat_virtual_unreserve(p.base), LEAT_ERROR_BUSY, "still mapped");

    REFUSED(leat_virtual_set_access(t->device, p.base, p.unit, (leat_access)2), LEAT_ERROR_INVALID, "no access");
    REFUSED(leat_virtual_set_access(t->device, p.base, 2 * p.unit, LEAT_ACCESS_READ_WRITE), LEAT_ERROR_POINTER,
            "nothing is mapped");
    REFUSED(leat_virtual_set_access(t->device, p.base, p.unit / 2, LEAT_ACCESS_READ_WRITE), LEAT_ERROR_INVALID,
            "only a part");
    REFUSED(leat_virtual_set_access(t->device, p.base, 0, LEAT_ACCESS_READ_WRITE), LEAT_ERROR_INVALID, "0 bytes");
    REFUSED(leat_virtual_get_access(t->device, p.base + p.unit, &access), LEAT_ERROR_POINTER, "nothing is mapped");
    REFUSED(leat_virtual_get_access(t->device, p.base, NULL), LEAT_ERROR_INVALID, "NULL");
    REFUSED(leat_physical_retain(p.base + p.unit, &memory), LEAT_ERROR_POINTER, "nothing is mapped");
    REFUSED(leat_virtual_unmap(p.base, 0), LEAT_ERROR_INVALID, "0 bytes");
    REFUSED(leat_virtual_unmap(p.base, p.unit / 2), LEAT_ERROR_INVALID, "only a part");
    REFUSED(leat_virtual_unmap(p.base + p.unit, p.unit), LEAT_ERROR_POINTER, "nothing is mapped");
    REFUSED(leat_virtual_unmap(p.base, UNITS * p.unit + 1), LEAT_ERROR_RANGE, "past the end");
    end_place(&p, 1);
}

/* The program leaves memory mapped. The teardown closes the device, which must free everything. */
static void a_device_closes_with_everything_mapped(void **state)
{
    struct test_state *t = *state;
    struct place p = make_place(t->device);

    map_all(&p, t->device);
    OK(leat_fill(t->stream, p.base, 1, UNITS * p.unit));
    OK(leat_physical_release(p.memory[0]));
}

static const struct CMUnitTest tests[] = {
    STATE_TEST(mapped_memory_is_device_memory),   STATE_TEST(contents_move_with_the_memory),
    STATE_TEST(what_is_not_mapped_is_refused),    STATE_TEST(access_is_kept_and_asked),
    STATE_TEST(a_mapping_keeps_its_memory),       STATE_TEST(rights_end_where_they_end),
    STATE_TEST(batches_do_not_write_what_is_read_only),
    STATE_TEST(two_devices_share_a_reservation),  STATE_TEST(a_device_that_closes_leaves_nothing),
    STATE_TEST(memory_goes_through_a_descriptor), STATE_TEST(alignment_is_kept),
    STATE_TEST(wrong_arguments_are_refused),      STATE_TEST(a_device_closes_with_everything_mapped),
};

TEST_MAIN(tests)
