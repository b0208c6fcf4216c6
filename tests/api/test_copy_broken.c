/*
 * test_copy_broken.c - tests copies whose host memory becomes inaccessible while they run (munmap, mprotect, a
 * truncated file). The process must not crash, the ticket must say which address failed and how many bytes
 * arrived, and the stream must continue.
 */
#include "copy_broken.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* ---- memory that becomes inaccessible ---- */

static void let_leat_catch_faults(void)
{
    const char *strict = getenv("LEAT_STRICT");

    if (test_on_cpu() && strict && atoi(strict))
        SKIP_OTHER("in strict mode the stream's own thread copies, and its ticket does not learn of a failure");
    test_let_leat_catch_faults();
}

#define MAP_BYTES (6 * MIB)

/* The ways in which a mapping becomes inaccessible before a copy uses it. */
enum loss { UNMAPPED, PROTECTED, READ_ONLY, TRUNCATED, LOSSES };

static const char *const loss_names[] = {"unmapped", "protected", "read-only", "truncated"};

struct mapping {
    unsigned char *ptr;
    size_t lost_at; /* offset of the first inaccessible byte */
    int fd;
};

static void write_all(int fd, const unsigned char *from, size_t bytes)
{
    for (size_t done = 0; done < bytes;) {
        ssize_t wrote = write(fd, from + done, bytes - done);

        if (wrote < 0 && errno == EINTR)
            continue;
        assert_true(wrote > 0);
        done += (size_t)wrote;
    }
}

static struct mapping map(enum loss loss, size_t lost_at)
{
    struct mapping m = {.fd = -1, .lost_at = lost_at};

    if (loss == TRUNCATED) {
        unsigned char *content = test_buffer(MAP_BYTES);

        m.fd = memfd_create("leat test", MFD_CLOEXEC);
        assert_true(m.fd >= 0);
        test_pattern(content, MAP_BYTES, 11);
        write_all(m.fd, content, MAP_BYTES);
        free(content);
    }
    m.ptr = mmap(NULL, MAP_BYTES, PROT_READ | PROT_WRITE,
                 loss == TRUNCATED ? MAP_SHARED : MAP_PRIVATE | MAP_ANONYMOUS, m.fd, 0);
    assert_ptr_not_equal(m.ptr, MAP_FAILED);
    if (loss != TRUNCATED)
        test_pattern(m.ptr, MAP_BYTES, 11);
    return m;
}

/* Makes the mapping inaccessible. UNMAPPED unmaps only one page. Other mappings of the process are larger than a
 * page, so the system does not put them there. */
static void lose(struct mapping *m, enum loss loss)
{
    switch (loss) {
    case UNMAPPED:
        assert_int_equal(munmap(m->ptr + m->lost_at, PAGE), 0);
        break;
    case PROTECTED:
        assert_int_equal(mprotect(m->ptr + m->lost_at, MAP_BYTES - m->lost_at, PROT_NONE), 0);
        break;
    case READ_ONLY:
        assert_int_equal(mprotect(m->ptr + m->lost_at, MAP_BYTES - m->lost_at, PROT_READ), 0);
        break;
    default:
        assert_int_equal(ftruncate(m->fd, (off_t)m->lost_at), 0);
    }
}

static void unmap(struct mapping *m)
{
    munmap(m->ptr, MAP_BYTES);
    if (m->fd >= 0)
        close(m->fd);
}

/* Checks that the message names an inaccessible address of the mapping. */
static void expect_address(const struct mapping *m, enum loss loss)
{
    uintptr_t first = (uintptr_t)m->ptr + m->lost_at;
    const char *at = leat_last_error();
    unsigned long address;

    while ((at = strstr(at, " at 0x"))) {
        at += 4;
        address = strtoul(at, NULL, 16);
        if (address >= first && address < (uintptr_t)m->ptr + MAP_BYTES)
            return;
    }
    fail_msg("%s: the message should have an address from 0x%lx on: %s", loss_names[loss], (unsigned long)first,
             leat_last_error());
}

/* Offsets at which the inaccessible part begins: the start, a page in the first chunk, a chunk border, the middle
 * of a chunk, and the last page. */
#define FIRST_PART (3 * PAGE)
static const size_t losses_at[] = {0, FIRST_PART, MIB, 3 * MIB + 5 * PAGE, MAP_BYTES - PAGE};
#define LOSSES_AT (sizeof losses_at / sizeof losses_at[0])

static void memory_is_lost_under_a_copy(struct test_state *t, enum loss loss, size_t lost_at, bool out)
{
    unsigned char *memory = test_alloc(t->device, LEAT_KIND_DEVICE, MAP_BYTES);
    unsigned char *pinned = test_alloc(t->device, LEAT_KIND_PINNED, MAP_BYTES);
    struct mapping m = map(loss, lost_at);
    leat_ticket_info info = LEAT_TICKET_INFO_INIT;
    struct test_gate *gate;
    leat_ticket *ticket;

    test_pattern(pinned, MAP_BYTES, 12);
    if (out)
        OK(leat_copy(t->stream, memory, pinned, MAP_BYTES));
    gate = test_gate_close(t->stream);
    ticket = out ? test_copy_start(t->stream, m.ptr, memory, MAP_BYTES)
                 : test_copy_start(t->stream, memory, m.ptr, MAP_BYTES);
    /* Later work of the stream must still run. */
    OK(leat_fill(t->stream, pinned, 0x66, 100));
    lose(&m, loss);
    test_gate_open(gate);
    assert_int_equal(leat_ticket_wait(ticket, LEAT_COPY_POINT_DONE, LEAT_FOREVER), LEAT_ERROR_POINTER);
    expect_address(&m, loss);
    assert_int_equal(leat_ticket_wait(ticket, LEAT_COPY_POINT_STAGED, LEAT_FOREVER), LEAT_ERROR_POINTER);
    info = test_ticket_info(ticket);
    assert_true(info.staged && info.done && info.status == LEAT_ERROR_POINTER && info.bytes == MAP_BYTES);
    if (info.arrived_bytes > lost_at)
        fail_msg("%s at %zu: %zu bytes have arrived", loss_names[loss], lost_at, (size_t)info.arrived_bytes);
    /* If the loss is in the first part, no other part before it can be incomplete, so the count is exact. It is 0 if
     * another thread has failed on a later part before the thread of the first part began, which then copies
     * nothing. */
    if (staged() && lost_at == FIRST_PART && info.arrived_bytes)
        assert_int_equal(info.arrived_bytes, lost_at);
    /* The stream must report the failure only once. */
    assert_int_equal(leat_stream_synchronize(t->stream), LEAT_ERROR_POINTER);
    expect_address(&m, loss);
    OK(leat_stream_synchronize(t->stream));
    EXPECT_BYTES(pinned, 100, 0x66);
    if (out) {
        EXPECT_PATTERN(m.ptr, (size_t)info.arrived_bytes, 12);
    } else {
        OK(leat_copy(t->stream, pinned, memory, MAP_BYTES));
        OK(leat_stream_synchronize(t->stream));
        EXPECT_PATTERN(pinned, (size_t)info.arrived_bytes, 11);
    }
    OK(leat_ticket_destroy(ticket));
    unmap(&m);
    OK(leat_memory_free(memory));
    OK(leat_memory_free(pinned));
}

static void a_source_is_lost(void **state)
{
    struct test_state *t = *state;

    let_leat_catch_faults();
    for (enum loss loss = 0; loss < LOSSES; loss++)
        for (size_t i = 0; i < LOSSES_AT && loss != READ_ONLY; i++)
            memory_is_lost_under_a_copy(t, loss, losses_at[i], false);
    still_copies(t->stream, t->device);
}

static void a_destination_is_lost(void **state)
{
    struct test_state *t = *state;

    let_leat_catch_faults();
    for (enum loss loss = 0; loss < LOSSES; loss++)
        for (size_t i = 0; i < LOSSES_AT; i++)
            memory_is_lost_under_a_copy(t, loss, losses_at[i], true);
    still_copies(t->stream, t->device);
}

/* After a leat_copy() without a ticket the stream reports the failure. Small copies may use another protocol than
 * large ones. */
static void a_small_source_is_lost(void **state)
{
    static const size_t sizes[] = {1, 100, PAGE, 64 * KIB, MIB};
    struct test_state *t = *state;
    unsigned char *memory = test_alloc(t->device, LEAT_KIND_DEVICE, MIB);

    let_leat_catch_faults();
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        for (int out = 0; out < 2; out++) {
            struct mapping m = map(PROTECTED, 0);
            struct test_gate *gate = test_gate_close(t->stream);

            if (out)
                OK(leat_copy(t->stream, m.ptr, memory, sizes[i]));
            else
                OK(leat_copy(t->stream, memory, m.ptr, sizes[i]));
            lose(&m, PROTECTED);
            test_gate_open(gate);
            assert_int_equal(leat_stream_synchronize(t->stream), LEAT_ERROR_POINTER);
            expect_address(&m, PROTECTED);
            OK(leat_stream_synchronize(t->stream));
            unmap(&m);
        }
    }
    OK(leat_memory_free(memory));
    still_copies(t->stream, t->device);
}

/* The calls that wait for the stream, or may do so, but report nothing about earlier copies. */
enum waiting_call { FREE_GUARDED, COPY_SYNC_IN, COPY_SYNC_OUT, SYNCHRONIZE_DEVICE, CREATE_SHARE, WAITING_CALLS };

/* Returns LEAT_OK also if the driver has no shares. */
static leat_status share_and_end(leat_stream *stream)
{
    leat_pool_options exportable = LEAT_POOL_OPTIONS_INIT;
    leat_status status;
    leat_share *share;
    leat_device *device;
    leat_pool *pool;
    void *block;

    exportable.dedicated = exportable.exportable = 1;
    OK(leat_stream_device(stream, &device));
    OK(leat_pool_create(device, &exportable, &pool));
    OK(leat_pool_alloc(stream, pool, 1000, &block));
    status = leat_share_create(stream, block, NULL, &share);
    if (status == LEAT_OK)
        OK(leat_share_destroy(share));
    OK(leat_free(stream, block));
    OK(leat_pool_destroy(pool));
    return status == LEAT_ERROR_UNSUPPORTED ? LEAT_OK : status;
}

static leat_status call_that_waits(enum waiting_call call, struct test_state *t, void *block, void *memory,
                                   void *own)
{
    switch (call) {
    case FREE_GUARDED:
        return leat_free(t->stream, block);
    case COPY_SYNC_IN:
        return leat_copy_sync(t->stream, memory, own, PAGE);
    case COPY_SYNC_OUT:
        return leat_copy_sync(t->stream, own, memory, PAGE);
    case CREATE_SHARE:
        return share_and_end(t->stream);
    default:
        return leat_device_synchronize(t->device);
    }
}

/* Such a call must succeed, and must leave the failure to leat_stream_synchronize(). */
static void other_calls_leave_the_failure_to_the_stream(void **state)
{
    struct test_state *t = *state;
    unsigned char *memory = test_alloc(t->device, LEAT_KIND_DEVICE, MAP_BYTES), *own = test_buffer(PAGE);
    leat_pool_options guarded = LEAT_POOL_OPTIONS_INIT;
    leat_device_info info = LEAT_DEVICE_INFO_INIT;
    leat_pool *pool;

    test_let_leat_catch_faults();
    OK(leat_device_get_info(t->device, &info));
    guarded.guard = 1;
    OK(leat_pool_create(t->device, &guarded, &pool));
    memset(own, 0, PAGE);
    for (enum waiting_call call = 0; call < WAITING_CALLS; call++) {
        struct mapping m = map(PROTECTED, 0);
        struct test_gate *gate;
        void *block;

        if (call == CREATE_SHARE && !info.virtual_memory)
            continue;
        OK(leat_pool_alloc(t->stream, pool, 1000, &block));
        gate = test_gate_close(t->stream);
        OK(leat_copy(t->stream, memory, m.ptr, MAP_BYTES));
        lose(&m, PROTECTED);
        test_gate_open(gate);
        OK(call_that_waits(call, t, block, memory, own));
        assert_int_equal(leat_stream_synchronize(t->stream), LEAT_ERROR_POINTER);
        expect_address(&m, PROTECTED);
        OK(leat_stream_synchronize(t->stream));
        if (call != FREE_GUARDED)
            OK(leat_free(t->stream, block));
        unmap(&m);
    }
    OK(leat_pool_destroy(pool));
    free(own);
    OK(leat_memory_free(memory));
    still_copies(t->stream, t->device);
}

/* Both source and destination are host memory. */
static void host_memory_is_lost_under_a_copy_to_host_memory(void **state)
{
    struct test_state *t = *state;
    unsigned char *own;

    let_leat_catch_faults();
    own = test_buffer(MAP_BYTES);
    memset(own, 0x21, MAP_BYTES);
    for (int out = 0; out < 2; out++) {
        struct mapping m = map(PROTECTED, 2 * MIB);
        struct test_gate *gate = test_gate_close(t->stream);
        leat_ticket *ticket = out ? test_copy_start(t->stream, m.ptr, own, MAP_BYTES)
                                  : test_copy_start(t->stream, own, m.ptr, MAP_BYTES);

        lose(&m, PROTECTED);
        test_gate_open(gate);
        assert_int_equal(leat_ticket_wait(ticket, LEAT_COPY_POINT_DONE, LEAT_FOREVER), LEAT_ERROR_POINTER);
        expect_address(&m, PROTECTED);
        assert_true(test_ticket_info(ticket).arrived_bytes <= 2 * MIB);
        assert_int_equal(leat_stream_synchronize(t->stream), LEAT_ERROR_POINTER);
        OK(leat_ticket_destroy(ticket));
        unmap(&m);
    }
    free(own);
    still_copies(t->stream, t->device);
}

struct sync_call {
    leat_stream *stream;
    void *dst;
    const void *src;
    leat_status status;
    char message[1024];
};

static void *call_sync(void *argument)
{
    struct sync_call *call = argument;

    call->status = leat_copy_sync(call->stream, call->dst, call->src, MAP_BYTES);
    snprintf(call->message, sizeof call->message, "%s", leat_last_error());
    return NULL;
}

static void copy_sync_says_what_went_wrong(void **state)
{
    static struct sync_call call;
    struct test_state *t = *state;
    void *memory = test_alloc(t->device, LEAT_KIND_DEVICE, MAP_BYTES);

    let_leat_catch_faults();
    for (int out = 0; out < 2; out++) {
        struct mapping m = map(PROTECTED, 2 * MIB);
        struct test_gate *gate = test_gate_close(t->stream);
        leat_status status;
        pthread_t thread;

        call = (struct sync_call){.stream = t->stream, .dst = out ? m.ptr : memory, .src = out ? memory : m.ptr};
        assert_int_equal(pthread_create(&thread, NULL, call_sync, &call), 0);
        /* Sleep until the call has checked the memory and waits for the stream. */
        test_sleep_us(50000);
        lose(&m, PROTECTED);
        test_gate_open(gate);
        pthread_join(thread, NULL);
        assert_int_equal(call.status, LEAT_ERROR_POINTER);
        assert_non_null(strstr(call.message, "leat_copy_sync"));
        /* The call has already returned the failure, so the stream may report it again or not. */
        status = leat_stream_synchronize(t->stream);
        assert_true(status == LEAT_OK || status == LEAT_ERROR_POINTER);
        OK(leat_stream_synchronize(t->stream));
        unmap(&m);
    }
    OK(leat_memory_free(memory));
    still_copies(t->stream, t->device);
}

/* The program destroys the stream or closes the device before any call has returned the failure. If the stream
 * still exists, the close must return it. */
static void a_failure_that_nobody_asks_for(void **state)
{
    (void)state;
    let_leat_catch_faults();
    for (int closed = 0; closed < 2; closed++) {
        leat_device *device = test_open();
        void *memory = test_alloc(device, LEAT_KIND_DEVICE, MAP_BYTES);
        struct mapping m = map(PROTECTED, MIB);
        struct test_gate *gate;
        leat_stream *stream;

        OK(leat_stream_create(device, &stream));
        gate = test_gate_close(stream);
        OK(leat_copy(stream, memory, m.ptr, MAP_BYTES));
        OK(leat_copy(stream, m.ptr, memory, MAP_BYTES));
        lose(&m, PROTECTED);
        test_gate_open(gate);
        if (!closed) {
            OK(leat_stream_destroy(stream));
            OK(leat_device_synchronize(device));
            OK(leat_stream_create(device, &stream));
            still_copies(stream, device);
        }
        if (closed) {
            assert_int_equal(leat_device_close(device), LEAT_ERROR_POINTER);
            assert_non_null(strstr(leat_last_error(), "leat_device_close"));
            expect_address(&m, PROTECTED);
        } else {
            OK(leat_device_close(device));
        }
        unmap(&m);
    }
}

static const struct CMUnitTest tests[] = {
    STATE_TEST(a_source_is_lost),
    STATE_TEST(a_destination_is_lost),
    STATE_TEST(a_small_source_is_lost),
    STATE_TEST(other_calls_leave_the_failure_to_the_stream),
    STATE_TEST(host_memory_is_lost_under_a_copy_to_host_memory),
    STATE_TEST(copy_sync_says_what_went_wrong),
    cmocka_unit_test(a_failure_that_nobody_asks_for),
};

int main(void)
{
    if (!test_device_there())
        return 77;
    test_keep_handlers();
    return cmocka_run_group_tests(tests, NULL, NULL) ? 1 : 0;
}
