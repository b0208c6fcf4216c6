/*
 * test_copy_broken.c - staged copies that do not come to a good end: cancelled, late, with memory that is taken
 * away while they are under way, and in a process that ends before they do.
 *
 * What is asked of each: the ticket says why and how far, what it says has arrived is right, nothing hangs or
 * dies, and the stream goes on. Where a copy is one pass over memory (the CPU device without LEAT_COPY_STAGE=1), a
 * cancel may come too late.
 */
#include "harness.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define PAGE ((size_t)4096)
#define KIB ((size_t)1 << 10)
#define MIB ((size_t)1 << 20)

/* Is pageable memory staged, by threads that a copy can be stopped in front of? */
static bool staged(void)
{
    const char *stage = getenv("LEAT_COPY_STAGE");

    return !test_on_cpu() || (stage && atoi(stage));
}

/* The stream copies as if nothing had been. */
static void still_copies(leat_stream *stream, leat_device *device)
{
    size_t bytes = 3 * MIB + 1;
    unsigned char *in = test_buffer(bytes), *out = test_buffer(bytes);
    void *memory = test_alloc(device, LEAT_KIND_DEVICE, bytes);

    test_pattern(in, bytes, 99);
    memset(out, 0, bytes);
    OK(leat_copy(stream, memory, in, bytes));
    OK(leat_copy_sync(stream, out, memory, bytes));
    EXPECT_PATTERN(out, bytes, 99);
    OK(leat_memory_free(memory));
    free(in);
    free(out);
}

/* ---- cancel and deadline ---- */

#define LONG_BYTES (64 * MIB)

/* One long copy in either direction, and what of it is at dst in the end. */
struct journey {
    struct test_state *t;
    bool out;
    unsigned char *host, *memory, *seen;
};

static struct journey make_journey(struct test_state *t, bool out)
{
    struct journey j = {.t = t, .out = out, .host = test_buffer(LONG_BYTES)};

    j.memory = test_alloc(t->device, LEAT_KIND_DEVICE, LONG_BYTES);
    j.seen = test_alloc(t->device, LEAT_KIND_PINNED, LONG_BYTES);
    test_pattern(j.seen, LONG_BYTES, 7);
    if (out) {
        OK(leat_copy(t->stream, j.memory, j.seen, LONG_BYTES));
        memset(j.host, 0x5a, LONG_BYTES);
    } else {
        OK(leat_fill(t->stream, j.memory, 0x5a, LONG_BYTES));
        test_pattern(j.host, LONG_BYTES, 7);
    }
    OK(leat_stream_synchronize(t->stream));
    return j;
}

static void *dst_of(const struct journey *j)
{
    return j->out ? j->host : j->memory;
}

static const void *src_of(const struct journey *j)
{
    return j->out ? j->memory : j->host;
}

/* What has arrived is right, whatever the end was; returns how much. */
static size_t expect_prefix(const struct journey *j, leat_ticket *ticket, leat_status status)
{
    leat_ticket_info info = test_ticket_info(ticket);
    const unsigned char *seen = j->host;

    assert_true(info.bytes == LONG_BYTES && info.staged && info.done && info.status == status);
    assert_true(info.arrived_bytes <= info.bytes);
    if (status == LEAT_OK)
        assert_true(info.arrived_bytes == info.bytes);
    if (!j->out) {
        seen = j->seen;
        memset(j->seen, 0, LONG_BYTES);
        OK(leat_copy(j->t->stream, j->seen, j->memory, LONG_BYTES));
    }
    OK(leat_stream_synchronize(j->t->stream));
    EXPECT_PATTERN(seen, (size_t)info.arrived_bytes, 7);
    return (size_t)info.arrived_bytes;
}

static void end_journey(struct journey *j)
{
    still_copies(j->t->stream, j->t->device);
    OK(leat_memory_free(j->memory));
    OK(leat_memory_free(j->seen));
    free(j->host);
}

static void a_copy_is_cancelled_before_it_begins(void **state)
{
    struct test_state *t = *state;

    for (int out = 0; out < 2; out++) {
        struct journey j = make_journey(t, out);
        struct test_gate *gate = test_gate_close(t->stream);
        leat_ticket *ticket = test_copy_start(t->stream, dst_of(&j), src_of(&j), LONG_BYTES);
        leat_status status;

        OK(leat_ticket_cancel(ticket));
        /* Twice is as good as once. */
        OK(leat_ticket_cancel(ticket));
        /* The stream still goes past it in its order. */
        EXPECT_HELD(t->stream, gate);
        test_gate_open(gate);
        status = leat_ticket_wait(ticket, LEAT_COPY_DONE, LEAT_FOREVER);
        if (staged()) {
            assert_int_equal(status, LEAT_ERROR_CANCELLED);
            assert_int_equal(leat_ticket_wait(ticket, LEAT_COPY_STAGED, 0), LEAT_ERROR_CANCELLED);
            assert_true(expect_prefix(&j, ticket, status) == 0);
        } else {
            assert_true(status == LEAT_OK || status == LEAT_ERROR_CANCELLED);
            expect_prefix(&j, ticket, status);
        }
        OK(leat_ticket_free(ticket));
        end_journey(&j);
    }
}

static void a_copy_is_cancelled_at_any_time(void **state)
{
    enum { ROUNDS = 30 };
    struct test_state *t = *state;

    for (int out = 0; out < 2; out++) {
        struct journey j = make_journey(t, out);
        unsigned whole = 0, cut = 0;

        for (uint64_t round = 0; round < ROUNDS; round++) {
            struct test_gate *gate = round % 2 ? test_gate_close(t->stream) : NULL;
            leat_ticket *ticket = test_copy_start(t->stream, dst_of(&j), src_of(&j), LONG_BYTES);
            leat_status status;

            if (gate)
                test_gate_open(gate);
            test_sleep_us((long)(leat_pattern_value(round, 5) % (round % 4 < 2 ? 20000 : 3000)));
            OK(leat_ticket_cancel(ticket));
            if (round % 3 == 0)
                OK(leat_stream_synchronize(t->stream));
            status = leat_ticket_wait(ticket, LEAT_COPY_DONE, LEAT_FOREVER);
            if (status == LEAT_OK)
                whole++;
            else
                assert_int_equal(status, LEAT_ERROR_CANCELLED);
            cut += expect_prefix(&j, ticket, status) > 0 && status != LEAT_OK;
            OK(leat_ticket_free(ticket));
        }
        print_message("           %s: %u of %d came through, %u were cut in the middle\n", out ? "out" : "in",
                      whole, ROUNDS, cut);
        end_journey(&j);
    }
}

static void a_cancel_after_the_end_is_too_late(void **state)
{
    struct test_state *t = *state;

    for (int out = 0; out < 2; out++) {
        struct journey j = make_journey(t, out);
        leat_ticket *ticket = test_copy_start(t->stream, dst_of(&j), src_of(&j), LONG_BYTES);

        OK(leat_ticket_wait(ticket, LEAT_COPY_DONE, LEAT_FOREVER));
        OK(leat_ticket_cancel(ticket));
        OK(leat_ticket_wait(ticket, LEAT_COPY_DONE, 0));
        assert_true(expect_prefix(&j, ticket, LEAT_OK) == LONG_BYTES);
        OK(leat_ticket_free(ticket));
        end_journey(&j);
    }
}

/* Others on the same stream, before and after, are not touched by it. */
static void a_cancel_stops_one_copy_only(void **state)
{
    enum { COUNT = 9 };
    struct test_state *t = *state;
    size_t bytes = 2 * MIB + 11;
    unsigned char *in = test_buffer(bytes), *out[COUNT];
    unsigned char *memory = test_alloc(t->device, LEAT_KIND_DEVICE, COUNT * bytes);
    leat_ticket *tickets[COUNT];
    struct test_gate *gate;

    test_pattern(in, bytes, 3);
    OK(leat_fill(t->stream, memory, 0x5a, COUNT * bytes));
    gate = test_gate_close(t->stream);
    for (size_t i = 0; i < COUNT; i++) {
        out[i] = test_buffer(bytes);
        memset(out[i], 0, bytes);
        tickets[i] = test_copy_start(t->stream, memory + i * bytes, in, bytes);
    }
    for (size_t i = 1; i < COUNT; i += 2)
        OK(leat_ticket_cancel(tickets[i]));
    for (size_t i = 0; i < COUNT; i++)
        OK(leat_copy(t->stream, out[i], memory + i * bytes, bytes));
    test_gate_open(gate);
    for (size_t i = COUNT; i-- > 0;) {
        leat_status status = leat_ticket_wait(tickets[i], LEAT_COPY_DONE, LEAT_FOREVER);

        if (i % 2 && status != LEAT_OK)
            assert_int_equal(status, LEAT_ERROR_CANCELLED);
        else
            OK(status);
        assert_true(!(i % 2) || !staged() || status != LEAT_OK);
        OK(leat_ticket_free(tickets[i]));
    }
    OK(leat_stream_synchronize(t->stream));
    for (size_t i = 0; i < COUNT; i++) {
        if (i % 2 == 0)
            EXPECT_PATTERN(out[i], bytes, 3);
        free(out[i]);
    }
    still_copies(t->stream, t->device);
    OK(leat_memory_free(memory));
    free(in);
}

static void a_deadline_passes(void **state)
{
    static const uint64_t deadlines[] = {1, 100 * 1000, 1000 * 1000, 4000 * 1000, 12000 * 1000};
    struct test_state *t = *state;

    for (int out = 0; out < 2; out++) {
        struct journey j = make_journey(t, out);

        for (size_t i = 0; i < sizeof deadlines / sizeof deadlines[0]; i++) {
            leat_copy_options options = {.size = sizeof options, .deadline_ns = deadlines[i]};
            leat_ticket *ticket = NULL;
            leat_status status, seen;

            OK(leat_copy_start(t->stream, dst_of(&j), src_of(&j), LONG_BYTES, &options, &ticket));
            status = leat_ticket_wait(ticket, LEAT_COPY_DONE, LEAT_FOREVER);
            if (status != LEAT_OK)
                assert_int_equal(status, LEAT_ERROR_DEADLINE);
            if (i == 0 && staged())
                assert_int_equal(status, LEAT_ERROR_DEADLINE);
            /* It may be told once more, or not. */
            seen = leat_stream_synchronize(t->stream);
            assert_true(seen == LEAT_OK || seen == status);
            expect_prefix(&j, ticket, status);
            OK(leat_ticket_free(ticket));
        }
        end_journey(&j);
    }
}

static void a_deadline_passes_on_a_held_stream(void **state)
{
    struct test_state *t = *state;

    for (int out = 0; out < 2; out++) {
        struct journey j = make_journey(t, out);
        leat_copy_options options = {.size = sizeof options, .deadline_ns = 10 * 1000 * 1000};
        struct test_gate *gate = test_gate_close(t->stream);
        leat_ticket *ticket = NULL;
        leat_status status, seen;

        OK(leat_copy_start(t->stream, dst_of(&j), src_of(&j), LONG_BYTES, &options, &ticket));
        test_sleep_us(30000);
        test_gate_open(gate);
        status = leat_ticket_wait(ticket, LEAT_COPY_DONE, LEAT_FOREVER);
        if (staged())
            assert_int_equal(status, LEAT_ERROR_DEADLINE);
        seen = leat_stream_synchronize(t->stream);
        assert_true(seen == LEAT_OK || seen == status);
        expect_prefix(&j, ticket, status);
        OK(leat_ticket_free(ticket));
        end_journey(&j);
    }
}

static void a_deadline_that_is_far_away_changes_nothing(void **state)
{
    static const uint64_t deadlines[] = {60 * UINT64_C(1000000000), UINT64_MAX - 1, UINT64_MAX};
    struct test_state *t = *state;

    for (int out = 0; out < 2; out++) {
        struct journey j = make_journey(t, out);

        for (size_t i = 0; i < sizeof deadlines / sizeof deadlines[0]; i++) {
            leat_copy_options options = {.size = sizeof options, .deadline_ns = deadlines[i]};
            leat_ticket *ticket = NULL;

            OK(leat_copy_start(t->stream, dst_of(&j), src_of(&j), LONG_BYTES, &options, &ticket));
            OK(leat_ticket_wait(ticket, LEAT_COPY_DONE, LEAT_FOREVER));
            assert_true(expect_prefix(&j, ticket, LEAT_OK) == LONG_BYTES);
            OK(leat_ticket_free(ticket));
        }
        end_journey(&j);
    }
}

/* ---- memory that is taken away ---- */

static void let_leat_catch_faults(void)
{
    const char *strict = getenv("LEAT_STRICT");

    if (test_on_cpu() && strict && atoi(strict))
        SKIP_OTHER("in strict mode the stream's own thread copies, and its ticket does not learn of a failure");
    test_let_leat_catch_faults();
}

#define MAP_BYTES (6 * MIB)

/* What is done to a mapping while a copy waits to use it. */
enum loss { UNMAPPED, PROTECTED, READ_ONLY, TRUNCATED, LOSSES };

static const char *const loss_names[] = {"unmapped", "protected", "read-only", "truncated"};

struct mapping {
    unsigned char *ptr;
    size_t lost_at; /* what lies from here on, or the one page here, cannot be reached */
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

/* Only one page of what is unmapped goes, so that nothing else is mapped there by chance. */
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

/* The message names an address that cannot be reached. */
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

/* Where the loss begins: at the start, at a page in the first chunk, between, at the very end. */
#define FIRST_PART (3 * PAGE)
static const size_t losses_at[] = {0, FIRST_PART, MIB, 3 * MIB + 5 * PAGE, MAP_BYTES - PAGE};
#define LOSSES_AT (sizeof losses_at / sizeof losses_at[0])

static void memory_is_lost_under_a_copy(struct test_state *t, enum loss loss, size_t lost_at, bool out)
{
    unsigned char *memory = test_alloc(t->device, LEAT_KIND_DEVICE, MAP_BYTES);
    unsigned char *pinned = test_alloc(t->device, LEAT_KIND_PINNED, MAP_BYTES);
    struct mapping m = map(loss, lost_at);
    leat_ticket_info info;
    struct test_gate *gate;
    leat_ticket *ticket;

    test_pattern(pinned, MAP_BYTES, 12);
    if (out)
        OK(leat_copy(t->stream, memory, pinned, MAP_BYTES));
    gate = test_gate_close(t->stream);
    ticket = out ? test_copy_start(t->stream, m.ptr, memory, MAP_BYTES)
                 : test_copy_start(t->stream, memory, m.ptr, MAP_BYTES);
    /* Work behind it goes on all the same. */
    OK(leat_fill(t->stream, pinned, 0x66, 100));
    lose(&m, loss);
    test_gate_open(gate);
    assert_int_equal(leat_ticket_wait(ticket, LEAT_COPY_DONE, LEAT_FOREVER), LEAT_ERROR_POINTER);
    expect_address(&m, loss);
    assert_int_equal(leat_ticket_wait(ticket, LEAT_COPY_STAGED, LEAT_FOREVER), LEAT_ERROR_POINTER);
    info = test_ticket_info(ticket);
    assert_true(info.staged && info.done && info.status == LEAT_ERROR_POINTER && info.bytes == MAP_BYTES);
    if (info.arrived_bytes > lost_at)
        fail_msg("%s at %zu: %zu bytes have arrived", loss_names[loss], lost_at, (size_t)info.arrived_bytes);
    /* In the first part of a copy nothing lies in front of the loss that another thread may have left out. */
    if (staged() && lost_at == FIRST_PART)
        assert_int_equal(info.arrived_bytes, lost_at);
    /* The stream tells it once. */
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
    OK(leat_ticket_free(ticket));
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

/* Without a ticket, by leat_copy(), the stream tells it; small copies may go another way than large ones. */
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

/* Both ends are the host's. */
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
        assert_int_equal(leat_ticket_wait(ticket, LEAT_COPY_DONE, LEAT_FOREVER), LEAT_ERROR_POINTER);
        expect_address(&m, PROTECTED);
        assert_true(test_ticket_info(ticket).arrived_bytes <= 2 * MIB);
        assert_int_equal(leat_stream_synchronize(t->stream), LEAT_ERROR_POINTER);
        OK(leat_ticket_free(ticket));
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
        /* Until the call has looked at the memory and waits. */
        test_sleep_us(50000);
        lose(&m, PROTECTED);
        test_gate_open(gate);
        pthread_join(thread, NULL);
        assert_int_equal(call.status, LEAT_ERROR_POINTER);
        assert_non_null(strstr(call.message, "leat_copy_sync"));
        /* Who was told need not be told again. */
        status = leat_stream_synchronize(t->stream);
        assert_true(status == LEAT_OK || status == LEAT_ERROR_POINTER);
        OK(leat_stream_synchronize(t->stream));
        unmap(&m);
    }
    OK(leat_memory_free(memory));
    still_copies(t->stream, t->device);
}

/* The stream is destroyed before anyone has heard of the failure, or the device is closed. */
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
        (void)leat_device_close(device);
        unmap(&m);
    }
}

/* ---- faults that are not leat's ---- */

static void own_handler(int number, siginfo_t *info, void *context)
{
    static const char words[] = "child: my own handler\n";

    (void)number;
    (void)info;
    (void)context;
    if (write(STDERR_FILENO, words, sizeof words - 1) < 0)
        _exit(3);
    _exit(42);
}

/* ---- in a child: no cmocka ---- */

static void must(leat_status status)
{
    if (status == LEAT_OK)
        return;
    fprintf(stderr, "child: %s\n", leat_last_error());
    _exit(1);
}

#define CHILD_BYTES (96 * MIB)

/* Copies both ways on two streams, that have hardly begun when it returns. */
static leat_device *start_much(bool slow)
{
    leat_device *device;

    must(leat_device_open(test_device_name(), &device));
    for (int i = 0; i < 2; i++) {
        char *in = malloc(CHILD_BYTES), *out = malloc(CHILD_BYTES);
        leat_stream *stream;
        leat_ticket *ticket;
        void *memory;

        if (!in || !out)
            _exit(1);
        memset(in, 1, CHILD_BYTES);
        must(leat_stream_create(device, &stream));
        must(leat_memory_alloc(device, LEAT_KIND_DEVICE, CHILD_BYTES, &memory));
        if (slow)
            (void)test_gate_close(stream);
        must(leat_copy(stream, memory, in, CHILD_BYTES));
        must(leat_copy_start(stream, out, memory, CHILD_BYTES, NULL, &ticket));
        must(leat_copy(stream, memory, in, CHILD_BYTES));
    }
    return device;
}

static int child_returns(void)
{
    start_much(false);
    return 42;
}

static int child_returns_while_held(void)
{
    start_much(true);
    return 42;
}

static int child_exits(void)
{
    start_much(false);
    exit(42);
}

static void *exit_in_thread(void *argument)
{
    (void)argument;
    exit(42);
}

static int child_exits_in_thread(void)
{
    pthread_t thread;

    start_much(false);
    if (pthread_create(&thread, NULL, exit_in_thread, NULL))
        return 1;
    pthread_join(thread, NULL);
    return 2;
}

static int child_ends_at_once(void)
{
    start_much(false);
    _exit(42);
}

static int child_closes(void)
{
    must(leat_device_close(start_much(false)));
    return 42;
}

/* Forks in the middle. The grandchild has none of leat's threads: it only ends. */
static int child_forks(void)
{
    leat_device *device = start_much(false);
    pid_t grandchild = fork();
    int status;

    if (grandchild == 0)
        _exit(7);
    if (waitpid(grandchild, &status, 0) != grandchild || !WIFEXITED(status) || WEXITSTATUS(status) != 7)
        return 1;
    must(leat_device_synchronize(device));
    must(leat_device_close(device));
    return 42;
}

/* Makes a staged copy fail, so that every handler that leat may need is there. */
static void fail_once(leat_device **device, leat_stream **stream)
{
    struct test_gate *gate;
    void *memory;
    char *own;

    must(leat_device_open(test_device_name(), device));
    must(leat_stream_create(*device, stream));
    must(leat_memory_alloc(*device, LEAT_KIND_DEVICE, MIB, &memory));
    own = mmap(NULL, MIB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (own == MAP_FAILED)
        _exit(1);
    gate = test_gate_close(*stream);
    must(leat_copy(*stream, memory, own, MIB));
    mprotect(own, MIB, PROT_NONE);
    test_gate_open(gate);
    if (leat_stream_synchronize(*stream) != LEAT_ERROR_POINTER)
        _exit(4);
    munmap(own, MIB);
}

static volatile char *volatile nowhere = (volatile char *)(uintptr_t)16;

/* A fault of the program's own still ends it. */
static int child_crashes(void)
{
    leat_device *device;
    leat_stream *stream;

    fail_once(&device, &stream);
    *nowhere = 1;
    return 1;
}

/* And a handler of the program's own, set before or after leat's, still hears of it. */
static int child_handles(bool before)
{
    struct sigaction action = {.sa_sigaction = own_handler, .sa_flags = SA_SIGINFO};
    leat_device *device;
    leat_stream *stream;

    if (before)
        sigaction(SIGSEGV, &action, NULL);
    fail_once(&device, &stream);
    if (!before)
        sigaction(SIGSEGV, &action, NULL);
    *nowhere = 1;
    return 1;
}

static int child_handles_before(void)
{
    return child_handles(true);
}

static int child_handles_after(void)
{
    return child_handles(false);
}

static void be_slow(void *argument)
{
    (void)argument;
    test_sleep_us(500);
}

/* Copies beyond LEAT_COPY_MEMORY wait for others to end; they neither fail nor stand still for ever. */
static void *copy_out_and_back(void *argument)
{
    struct {
        leat_device *device;
        unsigned number;
    } *job = argument;
    size_t bytes = 3 * MIB;
    unsigned char *in = malloc(bytes), *out = malloc(bytes);
    leat_stream *stream;
    void *memory;

    if (!in || !out)
        _exit(1);
    must(leat_stream_create(job->device, &stream));
    must(leat_memory_alloc(job->device, LEAT_KIND_DEVICE, bytes, &memory));
    for (int round = 0; round < 10; round++) {
        memset(in, (int)job->number + round, bytes);
        must(leat_launch_host(stream, be_slow, NULL));
        must(leat_copy(stream, memory, in, bytes));
        must(leat_copy(stream, out, memory, bytes));
        must(leat_stream_synchronize(stream));
        if (memcmp(in, out, bytes))
            _exit(5);
    }
    must(leat_stream_destroy(stream));
    free(in);
    free(out);
    return NULL;
}

static int child_has_little_memory(void)
{
    struct {
        leat_device *device;
        unsigned number;
    } jobs[8];
    pthread_t threads[8];
    leat_device *device;

    must(leat_device_open(test_device_name(), &device));
    for (unsigned i = 0; i < 8; i++) {
        jobs[i].device = device;
        jobs[i].number = i * 20;
        if (pthread_create(&threads[i], NULL, copy_out_and_back, &jobs[i]))
            return 1;
    }
    for (unsigned i = 0; i < 8; i++)
        pthread_join(threads[i], NULL);
    must(leat_device_close(device));
    return 42;
}

static void block_all_signals(void *argument)
{
    sigset_t all;

    (void)argument;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, NULL);
}

enum { COPY, COPY_SYNC, COPY_START, COPY_MANY, COPY_ROWS, COPY_LAYOUT, COPIES };

/* One copy between device memory and pageable memory, some of which cannot be reached; does it say so? */
static bool copy_says_pointer(leat_stream *stream, int sort, char *dst, const char *src, size_t bytes)
{
    leat_copy_op halves[] = {{dst, src, bytes / 2}, {dst + bytes / 2, src + bytes / 2, bytes - bytes / 2}};
    leat_copy_region rows = {.width_bytes = bytes / 64, .height = 64, .depth = 1};
    leat_layout to, from;
    leat_ticket *ticket = NULL;
    leat_status status, waited = LEAT_OK;

    rows.dst_pitch_bytes = rows.src_pitch_bytes = rows.width_bytes;
    if (leat_layout_dense(&to, 2, (int64_t[]){64, (int64_t)(bytes / 64)}, 1) ||
        leat_layout_dense(&from, 2, (int64_t[]){(int64_t)(bytes / 64), 64}, 1) ||
        leat_layout_permute(&from, (uint32_t[]){1, 0}))
        return false;
    switch (sort) {
    case COPY_SYNC:
        status = leat_copy_sync(stream, dst, src, bytes);
        break;
    case COPY_START:
        status = leat_copy_start(stream, dst, src, bytes, NULL, &ticket);
        if (status == LEAT_OK)
            waited = leat_ticket_wait(ticket, LEAT_COPY_DONE, LEAT_FOREVER);
        (void)leat_ticket_free(ticket);
        break;
    case COPY_MANY:
        status = leat_copy_batch(stream, halves, 2);
        break;
    case COPY_ROWS:
        status = leat_copy_3d(stream, dst, src, &rows);
        break;
    case COPY_LAYOUT:
        status = leat_copy_layout(stream, dst, &to, src, &from);
        break;
    default:
        status = leat_copy(stream, dst, src, bytes);
    }
    if (waited == LEAT_OK)
        waited = status;
    status = leat_stream_synchronize(stream);
    return waited == LEAT_ERROR_POINTER || status == LEAT_ERROR_POINTER;
}

/* Threads that block all signals after they used leat, the program's and the stream's, get a status too. */
static int child_blocks_signals(void)
{
    static const size_t sizes[] = {12288, 64 * KIB, 2 * MIB};
    leat_device *device;
    leat_stream *stream;
    void *memory;

    fail_once(&device, &stream);
    must(leat_memory_alloc(device, LEAT_KIND_DEVICE, 2 * MIB, &memory));
    for (int on_stream = 0; on_stream < 2; on_stream++) {
        if (on_stream)
            must(leat_launch_host(stream, block_all_signals, NULL));
        must(leat_stream_synchronize(stream));
        for (int i = 0; i < 3 * COPIES * 2; i++) {
            size_t bytes = sizes[i % 3];
            char *own = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
            int sort = i / 3 % COPIES;
            bool out = i >= 3 * COPIES;

            if (own == MAP_FAILED)
                return 1;
            memset(own, 1, bytes);
            /* A page that calls do not look at. */
            if (mprotect(own + PAGE, PAGE, PROT_NONE))
                return 1;
            block_all_signals(NULL);
            if (!copy_says_pointer(stream, sort, out ? own : memory, out ? memory : own, bytes)) {
                fprintf(stderr, "child: copy %d of %zu bytes %s: OK\n", sort, bytes, out ? "out" : "in");
                return 5;
            }
            munmap(own, bytes);
        }
    }
    must(leat_memory_free(memory));
    must(leat_device_close(device));
    return 42;
}

static const struct {
    const char *name;
    int (*run)(void);
    const char *variable, *value;
} children[] = {
    {"returns from main", child_returns, NULL, NULL},
    {"returns from main while held", child_returns_while_held, NULL, NULL},
    {"exits", child_exits, NULL, NULL},
    {"exits in a thread", child_exits_in_thread, NULL, NULL},
    {"ends at once", child_ends_at_once, NULL, NULL},
    {"closes the device", child_closes, NULL, NULL},
    {"forks", child_forks, NULL, NULL},
    {"crashes", child_crashes, NULL, NULL},
    {"has a handler from before", child_handles_before, NULL, NULL},
    {"has a handler from after", child_handles_after, NULL, NULL},
    {"blocks all signals", child_blocks_signals, NULL, NULL},
    {"has little memory", child_has_little_memory, "LEAT_COPY_MEMORY", "2M"},
};
#define CHILDREN (sizeof children / sizeof children[0])

static int run_child(const char *name)
{
    for (size_t i = 0; i < CHILDREN; i++)
        if (!strcmp(name, children[i].name))
            return children[i].run();
    return 2;
}

/* ---- in the parent ---- */

/* This program again; returns its wait status. One that hangs is ended. */
static int child_status(size_t index)
{
    int status = 0;
    pid_t child = fork();

    assert_true(child >= 0);
    if (child == 0) {
        /* Most of them leave everything behind, and a sanitizer would have its own word on their status. */
        setenv("ASAN_OPTIONS", "detect_leaks=0", 1);
        if (children[index].variable)
            setenv(children[index].variable, children[index].value, 1);
        execl("/proc/self/exe", "test_copy_broken", children[index].name, (char *)NULL);
        _exit(126);
    }
    for (int i = 0; i < 25000; i++) {
        if (waitpid(child, &status, WNOHANG) == child)
            return status;
        test_sleep_us(1000);
    }
    kill(child, SIGKILL);
    waitpid(child, &status, 0);
    fail_msg("a process that '%s' hangs", children[index].name);
    return status;
}

static void a_process_ends_with_copies_under_way(void **state)
{
    (void)state;
    for (size_t i = 0; i < CHILDREN; i++) {
        int status = child_status(i);
        bool killed = WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV;

        if (children[i].run == child_crashes) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
            killed = true; /* the sanitizer's handler ends the process in its own way */
#endif
            if (!killed)
                fail_msg("a process that '%s' ended with wait status 0x%x and not by SIGSEGV", children[i].name,
                         (unsigned)status);
        } else if (!WIFEXITED(status) || WEXITSTATUS(status) != 42) {
            fail_msg("a process that '%s' ended with wait status 0x%x", children[i].name, (unsigned)status);
        }
    }
}

static const struct CMUnitTest tests[] = {
    STATE_TEST(a_copy_is_cancelled_before_it_begins),
    STATE_TEST(a_copy_is_cancelled_at_any_time),
    STATE_TEST(a_cancel_after_the_end_is_too_late),
    STATE_TEST(a_cancel_stops_one_copy_only),
    STATE_TEST(a_deadline_passes),
    STATE_TEST(a_deadline_passes_on_a_held_stream),
    STATE_TEST(a_deadline_that_is_far_away_changes_nothing),
    STATE_TEST(a_source_is_lost),
    STATE_TEST(a_destination_is_lost),
    STATE_TEST(a_small_source_is_lost),
    STATE_TEST(host_memory_is_lost_under_a_copy_to_host_memory),
    STATE_TEST(copy_sync_says_what_went_wrong),
    cmocka_unit_test(a_failure_that_nobody_asks_for),
    cmocka_unit_test(a_process_ends_with_copies_under_way),
};

int main(int argc, char **argv)
{
    if (argc == 2)
        return run_child(argv[1]);
    if (!test_device_there())
        return 77;
    test_keep_handlers();
    return cmocka_run_group_tests(tests, NULL, NULL) ? 1 : 0;
}
