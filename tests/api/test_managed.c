/* test_managed.c - tests managed memory: prefetch, advice, queries and attaching on any device, and the CPU
 * device's record of simulated page moves. */
#include "harness.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { PAGE = 4096, PAGES = 64, BYTES = PAGES * PAGE };

/* Returns the number of the device under test. */
static int ordinal_of(struct test_state *t)
{
    leat_device_info info = LEAT_DEVICE_INFO_INIT;

    OK(leat_device_get_info(t->device, &info));
    return info.ordinal;
}

static void need_managed(struct test_state *t)
{
    leat_device_info info = LEAT_DEVICE_INFO_INIT;

    OK(leat_device_get_info(t->device, &info));
    assert_true(info.managed_memory || !test_on_cpu());
    if (!info.managed_memory)
        SKIP_MISSING("the device has no managed memory");
}

/* Managed memory of whole pages that no other block shares. */
struct pages {
    char *block;
    unsigned char *start;
};

static struct pages make_pages(struct test_state *t)
{
    struct pages pages;

    need_managed(t);
    pages.block = test_alloc(t->device, LEAT_KIND_MANAGED, BYTES + 2 * PAGE);
    pages.start = (unsigned char *)(((uintptr_t)pages.block + PAGE - 1) & ~(uintptr_t)(PAGE - 1));
    return pages;
}

static leat_managed_info query(const void *ptr, size_t bytes)
{
    leat_managed_info info = {.size = sizeof info};

    OK(leat_managed_get_info(ptr, bytes, &info));
    return info;
}

static void launch_add(struct test_state *t, void *data, uint64_t count, uint32_t value)
{
    void *args[] = {&data, &count, &value};

    OK(leat_launch(t->stream, test_kernel(t->device, "leat_add_u32"), leat_dim(4, 1, 1), leat_dim(64, 1, 1), 0,
                   args, 3));
}

static void expect_words(const void *ptr, size_t count, uint32_t value)
{
    const uint32_t *words = ptr;

    for (size_t i = 0; i < count; i++)
        assert_int_equal(words[i], value);
}

/* ---- on any device ------------------------------------------------------------------------------------------ */

/* Prefetches whole ranges and parts in both directions, which must not change the bytes. */
static void test_prefetch_keeps_bytes(void **state)
{
    struct test_state *t = *state;
    struct pages m = make_pages(t);

    for (uint32_t i = 0; i < BYTES / 4; i++)
        ((uint32_t *)(void *)m.start)[i] = 5;
    OK(leat_managed_prefetch(t->stream, m.start, BYTES, t->device));
    launch_add(t, m.start, BYTES / 4, 2);
    OK(leat_managed_prefetch(t->stream, m.start, BYTES, LEAT_HOST));
    OK(leat_stream_synchronize(t->stream));
    expect_words(m.start, BYTES / 4, 7);

    OK(leat_managed_prefetch(t->stream, m.start + 100, 3 * PAGE, t->device));
    OK(leat_managed_prefetch(t->second, m.start + 1, 1, t->device));
    launch_add(t, m.start, BYTES / 4, 1);
    OK(leat_managed_prefetch(t->stream, m.start + BYTES - 1, 1, LEAT_HOST));
    OK(leat_stream_synchronize(t->stream));
    OK(leat_stream_synchronize(t->second));
    expect_words(m.start, BYTES / 4, 8);
    OK(leat_memory_free(m.block));
}

static void test_prefetch_is_told(void **state)
{
    struct test_state *t = *state;
    struct pages m = make_pages(t);
    int ordinal = ordinal_of(t);
    leat_managed_info info = LEAT_MANAGED_INFO_INIT;

    memset(m.start, 1, BYTES);
    assert_int_equal(query(m.start, BYTES).last_prefetch.kind, LEAT_LOCATION_KIND_NONE);
    OK(leat_managed_prefetch(t->stream, m.start, BYTES, t->device));
    info = query(m.start, BYTES);
    assert_int_equal(info.last_prefetch.kind, LEAT_LOCATION_KIND_DEVICE);
    assert_int_equal(info.last_prefetch.ordinal, ordinal);
    OK(leat_managed_prefetch(t->stream, m.start, PAGE, LEAT_HOST));
    assert_int_equal(query(m.start, PAGE).last_prefetch.kind, LEAT_LOCATION_KIND_HOST);
    assert_int_equal(query(m.start, PAGE).last_prefetch.ordinal, -1);
    /* The pages of this range have different last prefetches, so the query returns none. */
    assert_int_equal(query(m.start, BYTES).last_prefetch.kind, LEAT_LOCATION_KIND_NONE);
    OK(leat_stream_synchronize(t->stream));
    OK(leat_memory_free(m.block));
}

static void test_advice_and_undoing(void **state)
{
    struct test_state *t = *state;
    struct pages m = make_pages(t);
    int ordinal = ordinal_of(t);
    leat_managed_info info = LEAT_MANAGED_INFO_INIT;

    memset(m.start, 1, BYTES);
    info = query(m.start, BYTES);
    assert_true(!info.read_mostly && !info.accessed_by && !info.accessed_by_host);
    assert_int_equal(info.preferred.kind, LEAT_LOCATION_KIND_NONE);

    OK(leat_managed_advise(m.start, BYTES, LEAT_ADVICE_READ_MOSTLY, NULL));
    OK(leat_managed_advise(m.start, BYTES, LEAT_ADVICE_PREFERRED, t->device));
    OK(leat_managed_advise(m.start, BYTES, LEAT_ADVICE_ACCESSED_BY, t->device));
    OK(leat_managed_advise(m.start, BYTES, LEAT_ADVICE_ACCESSED_BY, LEAT_HOST));
    info = query(m.start, BYTES);
    assert_true(info.read_mostly && info.accessed_by == 1u << ordinal && info.accessed_by_host);
    assert_int_equal(info.preferred.kind, LEAT_LOCATION_KIND_DEVICE);
    assert_int_equal(info.preferred.ordinal, ordinal);

    OK(leat_managed_advise(m.start, PAGE, LEAT_ADVICE_PREFERRED, LEAT_HOST));
    assert_int_equal(query(m.start, PAGE).preferred.kind, LEAT_LOCATION_KIND_HOST);
    assert_int_equal(query(m.start, BYTES).preferred.kind, LEAT_LOCATION_KIND_NONE);
    OK(leat_managed_advise(m.start, PAGE, LEAT_ADVICE_NOT_READ_MOSTLY, NULL));
    assert_true(!query(m.start, BYTES).read_mostly && query(m.start + PAGE, PAGE).read_mostly);

    OK(leat_managed_advise(m.start, BYTES, LEAT_ADVICE_NOT_READ_MOSTLY, NULL));
    OK(leat_managed_advise(m.start, BYTES, LEAT_ADVICE_NOT_PREFERRED, NULL));
    OK(leat_managed_advise(m.start, BYTES, LEAT_ADVICE_NOT_ACCESSED_BY, t->device));
    OK(leat_managed_advise(m.start, BYTES, LEAT_ADVICE_NOT_ACCESSED_BY, LEAT_HOST));
    info = query(m.start, BYTES);
    assert_true(!info.read_mostly && !info.accessed_by && !info.accessed_by_host);
    assert_int_equal(info.preferred.kind, LEAT_LOCATION_KIND_NONE);
    OK(leat_memory_free(m.block));
}

static void try_in_host_function(void *argument)
{
    leat_managed_info info = {.size = sizeof info};
    struct test_state *t = argument;

    REFUSED(leat_managed_prefetch(t->stream, t, 1, NULL), LEAT_ERROR_NOT_PERMITTED, "host function");
    REFUSED(leat_managed_advise(t, 1, LEAT_ADVICE_READ_MOSTLY, NULL), LEAT_ERROR_NOT_PERMITTED, "host function");
    REFUSED(leat_managed_get_info(t, 1, &info), LEAT_ERROR_NOT_PERMITTED, "host function");
    REFUSED(leat_managed_attach(t->stream, t, LEAT_ATTACH_ALL), LEAT_ERROR_NOT_PERMITTED, "host function");
    REFUSED(leat_managed_record(t->device, 1), LEAT_ERROR_NOT_PERMITTED, "host function");
}

/* Checks that the calls refuse memory that is not managed, and name its kind. */
static void refuse_memory(struct test_state *t, void *ptr, const char *kind)
{
    leat_managed_info info = {.size = sizeof info};

    REFUSED(leat_managed_prefetch(t->stream, ptr, 64, t->device), LEAT_ERROR_POINTER, kind);
    REFUSED(leat_managed_advise(ptr, 64, LEAT_ADVICE_READ_MOSTLY, NULL), LEAT_ERROR_POINTER, kind);
    REFUSED(leat_managed_get_info(ptr, 64, &info), LEAT_ERROR_POINTER, kind);
    REFUSED(leat_managed_attach(t->stream, ptr, LEAT_ATTACH_ALL), LEAT_ERROR_POINTER, kind);
}

static void test_wrong_memory(void **state)
{
    struct test_state *t = *state;
    void *device = test_alloc(t->device, LEAT_KIND_DEVICE, 64);
    void *pinned = test_alloc(t->device, LEAT_KIND_PINNED, 64);
    char own[64] = "";

    refuse_memory(t, device, "device memory");
    refuse_memory(t, pinned, "pinned memory");
    refuse_memory(t, own, "pageable memory");
    refuse_memory(t, NULL, "NULL");
    OK(leat_memory_free(device));
    OK(leat_memory_free(pinned));
}

static void test_wrong_ranges(void **state)
{
    leat_managed_info info = {.size = sizeof info};
    struct test_state *t = *state;
    char *m;

    need_managed(t);
    m = test_alloc(t->device, LEAT_KIND_MANAGED, 10000);
    REFUSED(leat_managed_prefetch(t->stream, m, 10001, t->device), LEAT_ERROR_RANGE, "past the end");
    REFUSED(leat_managed_prefetch(t->stream, m + 1, SIZE_MAX, t->device), LEAT_ERROR_RANGE, "past the end");
    REFUSED(leat_managed_advise(m + 1, 10000, LEAT_ADVICE_READ_MOSTLY, NULL), LEAT_ERROR_RANGE, "past the end");
    REFUSED(leat_managed_get_info(m, 10001, &info), LEAT_ERROR_RANGE, "past the end");
    /* With size 0, prefetch and advice do nothing at any address. A query covers the rest of the allocation. */
    OK(leat_managed_prefetch(t->stream, m + 10000, 0, t->device));
    OK(leat_managed_prefetch(t->stream, NULL, 0, t->device));
    OK(leat_managed_advise(NULL, 0, LEAT_ADVICE_READ_MOSTLY, NULL));
    OK(leat_managed_get_info(m + 5000, 0, &info));
    if (info.page_bytes)
        assert_in_range(info.pages, 1, 3);
    OK(leat_memory_free(m));
    REFUSED(leat_managed_prefetch(t->stream, m, 1, t->device), LEAT_ERROR_POINTER, "freed");
    REFUSED(leat_managed_advise(m, 1, LEAT_ADVICE_READ_MOSTLY, NULL), LEAT_ERROR_POINTER, "freed");
    REFUSED(leat_managed_get_info(m, 1, &info), LEAT_ERROR_POINTER, "freed");
}

static void test_wrong_arguments(void **state)
{
    leat_managed_info info = {.size = sizeof info};
    struct test_state *t = *state;
    struct {
        leat_managed_info info;
        uint64_t newer;
    } longer = {.newer = 1};
    leat_device *closed;
    leat_stream *gone;
    void *m;

    need_managed(t);
    m = test_alloc(t->device, LEAT_KIND_MANAGED, 100);
    OK(leat_stream_create(t->device, &gone));
    OK(leat_stream_destroy(gone));
    REFUSED(leat_managed_prefetch(gone, m, 100, t->device), LEAT_ERROR_HANDLE, "stream");
    REFUSED(leat_managed_prefetch(NULL, m, 100, t->device), LEAT_ERROR_HANDLE, "stream");
    REFUSED(leat_managed_attach(gone, m, LEAT_ATTACH_ALL), LEAT_ERROR_HANDLE, "stream");
    REFUSED(leat_managed_prefetch(t->stream, m, 100, (leat_device *)(void *)&info), LEAT_ERROR_HANDLE, "device");
    REFUSED(leat_managed_advise(m, 100, LEAT_ADVICE_PREFERRED, (leat_device *)(void *)&info), LEAT_ERROR_HANDLE,
            "device");
    /* Advice that has no location ignores the device argument. */
    OK(leat_managed_advise(m, 100, LEAT_ADVICE_NOT_PREFERRED, (leat_device *)(void *)&info));
    closed = test_open_other();
    if (closed) {
        OK(leat_device_close(closed));
        REFUSED(leat_managed_prefetch(t->stream, m, 100, closed), LEAT_ERROR_HANDLE, "closed");
    }
    REFUSED(leat_managed_advise(m, 100, (leat_advice)0, NULL), LEAT_ERROR_INVALID, "advice is 0");
    REFUSED(leat_managed_advise(m, 100, (leat_advice)7, NULL), LEAT_ERROR_INVALID, "advice is 7");
    REFUSED(leat_managed_attach(t->stream, m, (leat_attach)3), LEAT_ERROR_INVALID, "attach is 3");
    REFUSED(leat_managed_attach(t->stream, m, LEAT_ATTACH_HOST), LEAT_ERROR_UNSUPPORTED, "pool");
    REFUSED(leat_managed_get_info(m, 100, NULL), LEAT_ERROR_INVALID, "info is NULL");
    info.size = 0;
    REFUSED(leat_managed_get_info(m, 100, &info), LEAT_ERROR_INVALID, "size");
    longer.info.size = sizeof longer;
    REFUSED(leat_managed_get_info(m, 100, &longer.info), LEAT_ERROR_INVALID, "size");
    OK(leat_launch_host(t->stream, try_in_host_function, t));
    OK(leat_stream_synchronize(t->stream));
    assert_string_equal(leat_advice_name(LEAT_ADVICE_ACCESSED_BY), "accessed by");
    assert_string_equal(leat_advice_name((leat_advice)99), "unknown");
    OK(leat_memory_free(m));
}

/* Memory and locations of two drivers cannot be mixed. */
static void test_other_driver(void **state)
{
    struct test_state *t = *state;
    leat_device *cpu;
    leat_stream *stream;
    void *m, *far;

    if (test_on_cpu())
        SKIP_OTHER("the device to test is the CPU's");
    need_managed(t);
    OK(leat_device_open("cpu:0", &cpu));
    OK(leat_stream_create(cpu, &stream));
    m = test_alloc(t->device, LEAT_KIND_MANAGED, 100);
    far = test_alloc(cpu, LEAT_KIND_MANAGED, 100);
    REFUSED(leat_managed_prefetch(t->stream, m, 100, cpu), LEAT_ERROR_UNSUPPORTED, "cpu:0");
    REFUSED(leat_managed_prefetch(t->stream, far, 100, t->device), LEAT_ERROR_UNSUPPORTED, "cannot reach");
    REFUSED(leat_managed_advise(m, 100, LEAT_ADVICE_PREFERRED, cpu), LEAT_ERROR_UNSUPPORTED, "cpu:0");
    REFUSED(leat_managed_record(t->device, 1), LEAT_ERROR_UNSUPPORTED, "keeps no record");
    OK(leat_memory_free(m));
    OK(leat_memory_free(far));
    OK(leat_device_close(cpu));
}

/* ---- the record of the CPU device --------------------------------------------------------------------------- */

static void begin_record(struct test_state *t)
{
    if (!test_on_cpu())
        SKIP_OTHER("only the CPU device keeps a record");
    test_let_leat_catch_faults();
    OK(leat_managed_record(t->device, 1));
}

static leat_managed_stats count_pages(struct test_state *t, const struct pages *m)
{
    leat_managed_stats counts = {.size = sizeof counts};

    OK(leat_managed_get_stats(t->device, m->start, BYTES, &counts));
    assert_int_equal(counts.pages, PAGES);
    assert_int_equal(counts.page_bytes, PAGE);
    assert_false(counts.unseen);
    return counts;
}

static void touch_all(const struct pages *m, unsigned char value)
{
    for (size_t i = 0; i < PAGES; i++)
        ((volatile unsigned char *)m->start)[i * PAGE] = value;
}

static void run_kernel(struct test_state *t, const struct pages *m)
{
    launch_add(t, m->start, BYTES / 4, 0);
    OK(leat_stream_synchronize(t->stream));
}

/* The host touches the pages, then the device, then the host again. The record must count first touches, faults to
 * the device and faults back. */
static void test_faults_there_and_back(void **state)
{
    struct test_state *t = *state;
    leat_managed_stats counts = LEAT_MANAGED_STATS_INIT;
    leat_managed_info info = LEAT_MANAGED_INFO_INIT;
    struct pages m;

    begin_record(t);
    m = make_pages(t);
    assert_int_equal(query(m.start, BYTES).pages_nowhere, PAGES);
    touch_all(&m, 3);
    counts = count_pages(t, &m);
    assert_int_equal(counts.first_touch_host, PAGES);
    assert_int_equal(counts.faults_to_device + counts.faults_to_host, 0);
    assert_int_equal(query(m.start, BYTES).pages_on_host, PAGES);

    run_kernel(t, &m);
    counts = count_pages(t, &m);
    assert_int_equal(counts.faults_to_device, PAGES);
    assert_int_equal(counts.faults_to_host, 0);
    info = query(m.start, BYTES);
    assert_int_equal(info.pages_on_device[ordinal_of(t)], PAGES);
    assert_int_equal(info.pages_on_host, 0);
    run_kernel(t, &m);
    assert_int_equal(count_pages(t, &m).faults_to_device, PAGES);

    touch_all(&m, 3);
    counts = count_pages(t, &m);
    assert_int_equal(counts.faults_to_host, PAGES);
    assert_int_equal(counts.thrashing, 0);
    run_kernel(t, &m);
    counts = count_pages(t, &m);
    assert_int_equal(counts.faults_to_device, 2 * PAGES);
    assert_int_equal(counts.thrashing, PAGES);
    OK(leat_managed_record(t->device, 0));
    /* After the end of the record accesses no longer fault, and the counts can still be read. */
    touch_all(&m, 4);
    assert_int_equal(count_pages(t, &m).faults_to_host, PAGES);
    OK(leat_memory_free(m.block));
}

/* The program of the previous test has no faults if it prefetches the pages. */
static void test_prefetch_spares_faults(void **state)
{
    struct test_state *t = *state;
    leat_managed_stats counts = LEAT_MANAGED_STATS_INIT;
    struct pages m;

    begin_record(t);
    m = make_pages(t);
    touch_all(&m, 3);
    OK(leat_managed_prefetch(t->stream, m.start, BYTES, t->device));
    run_kernel(t, &m);
    OK(leat_managed_prefetch(t->stream, m.start, BYTES, LEAT_HOST));
    OK(leat_stream_synchronize(t->stream));
    touch_all(&m, 3);
    counts = count_pages(t, &m);
    assert_int_equal(counts.prefetched_to_device, PAGES);
    assert_int_equal(counts.prefetched_to_host, PAGES);
    assert_int_equal(counts.faults_to_device + counts.faults_to_host, 0);
    assert_int_equal(counts.prefetched_in_vain, 0);
    OK(leat_managed_prefetch(t->stream, m.start, 3 * PAGE, LEAT_HOST));
    OK(leat_stream_synchronize(t->stream));
    assert_int_equal(count_pages(t, &m).prefetched_in_vain, 3);
    OK(leat_managed_record(t->device, 0));
    OK(leat_memory_free(m.block));
}

/* A prefetch must move pages only when its stream reaches it. */
static void test_prefetch_in_stream_order(void **state)
{
    struct test_state *t = *state;
    struct test_gate *gate;
    struct pages m;

    begin_record(t);
    m = make_pages(t);
    touch_all(&m, 3);
    gate = test_gate_close(t->stream);
    OK(leat_managed_prefetch(t->stream, m.start, BYTES, t->device));
    EXPECT_HELD(t->stream, gate);
    assert_int_equal(query(m.start, BYTES).pages_on_host, PAGES);
    test_gate_open(gate);
    OK(leat_stream_synchronize(t->stream));
    assert_int_equal(query(m.start, BYTES).pages_on_device[ordinal_of(t)], PAGES);
    OK(leat_managed_record(t->device, 0));
    OK(leat_memory_free(m.block));
}

/* Of read-mostly pages each reader gets a copy. A write leaves only one copy. */
static void test_read_mostly(void **state)
{
    struct test_state *t = *state;
    leat_managed_stats counts = LEAT_MANAGED_STATS_INIT;
    leat_managed_info info = LEAT_MANAGED_INFO_INIT;
    struct pages m;
    uint64_t count = BYTES / 8, *sum;
    void *args[] = {&m.start, &count, &sum};

    begin_record(t);
    m = make_pages(t);
    sum = test_alloc(t->device, LEAT_KIND_DEVICE, 8);
    touch_all(&m, 0);
    OK(leat_managed_advise(m.start, BYTES, LEAT_ADVICE_READ_MOSTLY, NULL));
    OK(leat_fill(t->stream, sum, 0, 8));
    OK(leat_launch(t->stream, test_kernel(t->device, "leat_checksum_u64"), leat_dim(4, 1, 1), leat_dim(64, 1, 1),
                   0, args, 3));
    OK(leat_stream_synchronize(t->stream));
    counts = count_pages(t, &m);
    assert_int_equal(counts.copied, PAGES);
    assert_int_equal(counts.faults_to_device, 0);
    info = query(m.start, BYTES);
    assert_int_equal(info.pages_on_host, PAGES);
    assert_int_equal(info.pages_on_device[ordinal_of(t)], PAGES);
    for (size_t i = 0; i < PAGES; i++)
        assert_int_equal(((volatile unsigned char *)m.start)[i * PAGE], 0);
    assert_int_equal(count_pages(t, &m).faults_to_host, 0);

    ((volatile unsigned char *)m.start)[0] = 1;
    info = query(m.start, BYTES);
    assert_int_equal(info.pages_on_host, PAGES);
    assert_int_equal(info.pages_on_device[ordinal_of(t)], PAGES - 1);
    assert_int_equal(count_pages(t, &m).copies_ended, 1);
    OK(leat_managed_advise(m.start, BYTES, LEAT_ADVICE_NOT_READ_MOSTLY, NULL));
    info = query(m.start, BYTES);
    assert_int_equal(info.pages_on_host + info.pages_on_device[ordinal_of(t)], PAGES);
    OK(leat_managed_record(t->device, 0));
    OK(leat_memory_free(m.block));
    OK(leat_memory_free(sum));
}

/* Pages with the preferred location host, or with accessed-by advice for a device, stay at the host. */
static void test_used_in_place(void **state)
{
    struct test_state *t = *state;
    leat_managed_stats counts = LEAT_MANAGED_STATS_INIT;
    struct pages m;

    begin_record(t);
    m = make_pages(t);
    touch_all(&m, 1);
    OK(leat_managed_advise(m.start, BYTES / 2, LEAT_ADVICE_PREFERRED, LEAT_HOST));
    OK(leat_managed_advise(m.start + BYTES / 2, BYTES / 2, LEAT_ADVICE_ACCESSED_BY, t->device));
    run_kernel(t, &m);
    counts = count_pages(t, &m);
    assert_int_equal(counts.used_in_place, PAGES);
    assert_int_equal(counts.faults_to_device, 0);
    assert_int_equal(query(m.start, BYTES).pages_on_host, PAGES);

    /* The opposite advice has no such effect: the host cannot access device memory, so the pages move to the
     * host. */
    OK(leat_managed_advise(m.start, BYTES, LEAT_ADVICE_PREFERRED, t->device));
    OK(leat_managed_prefetch(t->stream, m.start, BYTES, t->device));
    OK(leat_stream_synchronize(t->stream));
    touch_all(&m, 2);
    assert_int_equal(count_pages(t, &m).faults_to_host, PAGES);
    OK(leat_managed_record(t->device, 0));
    OK(leat_memory_free(m.block));
}

/* The record counts copies, 3-D copies and fills as accesses by the device. */
static void test_copies_and_fills(void **state)
{
    leat_copy_region region = {
        .width_bytes = 100, .height = 8, .depth = 1, .dst_pitch_bytes = PAGE, .src_pitch_bytes = 100};
    struct test_state *t = *state;
    leat_managed_stats counts = LEAT_MANAGED_STATS_INIT;
    unsigned char *host;
    struct pages m;

    begin_record(t);
    host = test_buffer(BYTES);
    m = make_pages(t);
    OK(leat_fill(t->stream, m.start, 9, BYTES / 2));
    OK(leat_stream_synchronize(t->stream));
    counts = count_pages(t, &m);
    assert_int_equal(counts.first_touch_device, PAGES / 2);
    EXPECT_BYTES(m.start, BYTES / 2, 9);
    assert_int_equal(count_pages(t, &m).faults_to_host, PAGES / 2);

    test_pattern(host, BYTES, 7);
    OK(leat_copy_sync(t->stream, m.start, host, BYTES));
    counts = count_pages(t, &m);
    assert_int_equal(counts.faults_to_device, PAGES / 2);
    assert_int_equal(counts.first_touch_device, PAGES);
    memset(host, 0, BYTES);
    OK(leat_copy_sync(t->stream, host, m.start, BYTES));
    EXPECT_PATTERN(host, BYTES, 7);
    assert_int_equal(count_pages(t, &m).faults_to_device, PAGES / 2);

    touch_all(&m, 1);
    OK(leat_copy_3d(t->stream, m.start, host, &region));
    OK(leat_stream_synchronize(t->stream));
    assert_int_equal(count_pages(t, &m).faults_to_device, PAGES / 2 + 8);
    OK(leat_managed_record(t->device, 0));
    OK(leat_memory_free(m.block));
    free(host);
}

/* Pages move from one device to another. The second device must count the moves. */
static void test_two_devices(void **state)
{
    struct test_state *t = *state;
    leat_device *other;
    leat_stream *far;
    struct pages m;

    if (!test_on_cpu())
        SKIP_OTHER("only the CPU device keeps a record");
    other = test_open_other();
    if (!other)
        SKIP_MISSING("there is one device only");
    begin_record(t);
    OK(leat_stream_create(other, &far));
    m = make_pages(t);
    run_kernel(t, &m);
    OK(leat_fill(far, m.start, 1, BYTES / 2));
    OK(leat_stream_synchronize(far));
    assert_int_equal(query(m.start, BYTES).pages_on_device[ordinal_of(t)], PAGES / 2);
    assert_int_equal(query(m.start, BYTES).pages_on_device[1 - ordinal_of(t)], PAGES / 2);
    assert_int_equal(count_pages(t, &m).faults_to_device, PAGES / 2);
    OK(leat_managed_record(other, 0));
    OK(leat_memory_free(m.block));
    OK(leat_device_close(other));
}

static void test_history_and_report(void **state)
{
    struct test_state *t = *state;
    uint64_t moved[LEAT_MOVE_CAUSE_PREFETCH + 1] = {0};
    leat_managed_move moves[100];
    size_t count = 100;
    struct pages m;
    char text[4000], little[10];

    begin_record(t);
    m = make_pages(t);
    touch_all(&m, 1);
    OK(leat_managed_prefetch(t->stream, m.start, BYTES, t->device));
    OK(leat_stream_synchronize(t->stream));
    touch_all(&m, 1);
    OK(leat_managed_record(t->device, 0));
    OK(leat_managed_history(t->device, moves, &count));
    /* A prefetch is recorded as one move per chunk. */
    for (size_t i = 0; i < count; i++) {
        leat_move_cause cause = moves[i].cause;

        assert_in_range((uintptr_t)moves[i].ptr, (uintptr_t)m.start, (uintptr_t)m.start + BYTES - 1);
        assert_true(i == 0 || moves[i].time_ns >= moves[i - 1].time_ns);
        assert_in_range(cause, LEAT_MOVE_CAUSE_FIRST_TOUCH, LEAT_MOVE_CAUSE_PREFETCH);
        assert_int_equal(moves[i].from.kind, cause == LEAT_MOVE_CAUSE_FIRST_TOUCH ? LEAT_LOCATION_KIND_NONE
                                             : cause == LEAT_MOVE_CAUSE_PREFETCH  ? LEAT_LOCATION_KIND_HOST
                                                                                  : LEAT_LOCATION_KIND_DEVICE);
        assert_int_equal(moves[i].to.kind,
                         cause == LEAT_MOVE_CAUSE_PREFETCH ? LEAT_LOCATION_KIND_DEVICE : LEAT_LOCATION_KIND_HOST);
        moved[cause] += moves[i].bytes;
    }
    assert_int_equal(moves[0].cause, LEAT_MOVE_CAUSE_FIRST_TOUCH);
    assert_int_equal(moves[count - 1].cause, LEAT_MOVE_CAUSE_FAULT);
    for (int cause = LEAT_MOVE_CAUSE_FIRST_TOUCH; cause <= LEAT_MOVE_CAUSE_PREFETCH; cause++)
        assert_int_equal(moved[cause], BYTES);
    count = 1;
    OK(leat_managed_history(t->device, moves, &count));
    assert_int_equal(count, 1);
    assert_int_equal(moves[0].cause, LEAT_MOVE_CAUSE_FAULT);

    OK(leat_managed_report(t->device, m.start, BYTES, text, sizeof text));
    assert_non_null(strstr(text, "64 pages of 4096 bytes"));
    assert_non_null(strstr(text, "moved to the host because it touched them elsewhere"));
    assert_non_null(strstr(text, "leat_managed_prefetch() to LEAT_HOST"));
    snprintf(little, sizeof little, "%.9s", test_device_name());
    assert_non_null(strstr(text, little));
    assert_non_null(strstr(text, ", prefetch"));
    assert_null(strstr(text, "hrashing"));
    OK(leat_managed_report(t->device, NULL, 0, text, sizeof text));
    OK(leat_managed_report(t->device, m.start, 0, little, sizeof little));
    assert_int_equal(strlen(little), sizeof little - 1);
    OK(leat_memory_free(m.block));
}

/* leat_managed_history() writes the moves to managed memory, whose pages are closed during the record. */
static void test_history_in_managed_memory(void **state)
{
    struct test_state *t = *state;
    leat_managed_move *moves;
    size_t count = 100;
    struct pages m;
    char *block;

    begin_record(t);
    m = make_pages(t);
    block = test_alloc(t->device, LEAT_KIND_MANAGED, 4 * PAGE);
    /* The first two moves are on different pages. */
    moves = (leat_managed_move *)(void *)(block + 2 * PAGE - sizeof *moves);
    touch_all(&m, 1);
    run_kernel(t, &m);
    OK(leat_managed_history(t->device, moves, &count));
    assert_in_range(count, 2, 99);
    assert_int_equal(moves[0].cause, LEAT_MOVE_CAUSE_FIRST_TOUCH);
    assert_int_equal(moves[count - 1].cause, LEAT_MOVE_CAUSE_FAULT);
    OK(leat_managed_record(t->device, 0));
    OK(leat_memory_free(block));
    OK(leat_memory_free(m.block));
}

static void test_record_misused(void **state)
{
    leat_managed_stats counts = {.size = sizeof counts};
    struct test_state *t = *state;
    leat_managed_move move;
    size_t count = 1;
    char text[100];
    void *pinned;

    begin_record(t);
    pinned = test_alloc(t->device, LEAT_KIND_PINNED, 100);
    REFUSED(leat_managed_record((leat_device *)(void *)&count, 1), LEAT_ERROR_HANDLE, "device");
    REFUSED(leat_managed_get_stats(t->device, pinned, 100, &counts), LEAT_ERROR_POINTER, "pinned memory");
    REFUSED(leat_managed_get_stats(t->device, NULL, 0, NULL), LEAT_ERROR_INVALID, "counts is NULL");
    counts.size = 0;
    REFUSED(leat_managed_get_stats(t->device, NULL, 0, &counts), LEAT_ERROR_INVALID, "size");
    REFUSED(leat_managed_history(t->device, NULL, &count), LEAT_ERROR_INVALID, "moves is NULL");
    REFUSED(leat_managed_history(t->device, &move, NULL), LEAT_ERROR_INVALID, "count is NULL");
    REFUSED(leat_managed_report(t->device, NULL, 0, NULL, 10), LEAT_ERROR_INVALID, "text is NULL");
    REFUSED(leat_managed_report(t->device, NULL, 0, text, 0), LEAT_ERROR_INVALID, "text_bytes is 0");
    OK(leat_managed_record(t->device, 0));
    OK(leat_managed_record(t->device, 0)); /* the record has already ended, so this does nothing */
    OK(leat_memory_free(pinned));
}

/* A SIGSEGV handler installed after leat's would receive the faults that the record needs. */
static void test_record_with_another_handler(void **state)
{
    struct test_state *t = *state;

    if (!test_on_cpu())
        SKIP_OTHER("only the CPU device keeps a record");
    /* In a test the current SIGSEGV handler is cmocka's. */
    REFUSED(leat_managed_record(t->device, 1), LEAT_ERROR_UNSUPPORTED, "another handler of SIGSEGV");
}

/* A program that touches every second page splits its memory into more mappings than the system allows. leat
 * must then leave the rest accessible, keep the bytes right, and set counts.unseen, because the counts are
 * incomplete. */
static void test_too_many_pieces(void **state)
{
    static const size_t many = 2 * 66000 * (size_t)PAGE; /* the default of vm.max_map_count is 65530 */
    leat_managed_stats counts = {.size = sizeof counts};
    struct test_state *t = *state;
    size_t wrong = 0;
    char *m;

    begin_record(t);
    m = test_alloc(t->device, LEAT_KIND_MANAGED, many);
    for (size_t at = 0; at < many; at += 2 * (size_t)PAGE)
        ((volatile char *)m)[at] = 1;
    for (size_t at = 0; at < many; at += 2 * (size_t)PAGE)
        wrong += ((volatile char *)m)[at] != 1;
    assert_int_equal(wrong, 0);
    OK(leat_managed_get_stats(t->device, m, many, &counts));
    if (!counts.unseen)
        assert_int_equal(counts.first_touch_host, 66000);
    else
        assert_in_range(counts.first_touch_host, 1000, 66000);
    OK(leat_managed_record(t->device, 0));
    OK(leat_memory_free(m));
}

/* Must run before any other test starts a record. */
static void test_no_record_yet(void **state)
{
    leat_managed_stats counts = {.size = sizeof counts};
    struct test_state *t = *state;
    leat_managed_move move;
    struct pages m;
    size_t count = 1;

    if (!test_on_cpu())
        SKIP_OTHER("only the CPU device keeps a record");
    m = make_pages(t);
    touch_all(&m, 1);
    assert_false(query(m.start, BYTES).places_known);
    REFUSED(leat_managed_get_stats(t->device, m.start, BYTES, &counts), LEAT_ERROR_UNSUPPORTED,
            "leat_managed_record");
    REFUSED(leat_managed_history(t->device, &move, &count), LEAT_ERROR_UNSUPPORTED, "leat_managed_record");
    OK(leat_memory_free(m.block));
}

/* Closing the device ends its record, and a device that is opened later starts without one. */
static void test_closed_under_record(void **state)
{
    leat_managed_stats counts = {.size = sizeof counts};
    leat_device *device;
    void *m;

    (void)state;
    if (!test_on_cpu())
        SKIP_OTHER("only the CPU device keeps a record");
    test_let_leat_catch_faults();
    device = test_open();
    OK(leat_managed_record(device, 1));
    m = test_alloc(device, LEAT_KIND_MANAGED, BYTES);
    *(volatile char *)m = 1;
    OK(leat_device_close(device));
    device = test_open();
    REFUSED(leat_managed_get_stats(device, NULL, 0, &counts), LEAT_ERROR_UNSUPPORTED, "leat_managed_record");
    m = test_alloc(device, LEAT_KIND_MANAGED, BYTES);
    *(volatile char *)m = 1;
    OK(leat_memory_free(m));
    OK(leat_device_close(device));
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        STATE_TEST(test_no_record_yet),
        STATE_TEST(test_prefetch_keeps_bytes),
        STATE_TEST(test_prefetch_is_told),
        STATE_TEST(test_advice_and_undoing),
        STATE_TEST(test_wrong_memory),
        STATE_TEST(test_wrong_ranges),
        STATE_TEST(test_wrong_arguments),
        STATE_TEST(test_other_driver),
        STATE_TEST(test_faults_there_and_back),
        STATE_TEST(test_prefetch_spares_faults),
        STATE_TEST(test_prefetch_in_stream_order),
        STATE_TEST(test_read_mostly),
        STATE_TEST(test_used_in_place),
        STATE_TEST(test_copies_and_fills),
        STATE_TEST(test_two_devices),
        STATE_TEST(test_history_and_report),
        STATE_TEST(test_history_in_managed_memory),
        STATE_TEST(test_record_misused),
        STATE_TEST(test_record_with_another_handler),
        STATE_TEST(test_too_many_pieces),
        cmocka_unit_test(test_closed_under_record),
    };

    if (!test_device_there())
        return 77;
    test_keep_handlers();
    return cmocka_run_group_tests(tests, NULL, NULL) ? 1 : 0;
}
