/* harness.c - see harness.h. */
#include "harness.h"

#include <leat/native.h>

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define PATIENCE_MS 30000

static struct test_gate gates[1024];
static unsigned gate_count;

void test_ok(leat_status status, const char *call, const char *file, int line)
{
    if (status == LEAT_OK)
        return;
    print_error("%s\n  returned %s: %s\n", call, leat_status_name(status), leat_last_error());
    _fail(file, line);
}

void test_refused(leat_status status, leat_status wanted, const char *words, const char *call, const char *file,
                  int line)
{
    char name[64];

    if (status != wanted) {
        print_error("%s\n  returned %s and not %s; the message is: %s\n", call, leat_status_name(status),
                    leat_status_name(wanted), leat_last_error());
        _fail(file, line);
    }
    snprintf(name, sizeof name, "%.*s", (int)strcspn(call, "("), call);
    if (!strstr(leat_last_error(), name) || !strstr(leat_last_error(), words)) {
        print_error("%s\n  returned %s, but the message does not have the words \"%s\" and \"%s\": %s\n", call,
                    leat_status_name(status), name, words, leat_last_error());
        _fail(file, line);
    }
}

void test_skip_missing(const char *reason, const char *file, int line)
{
    const char *require = getenv("LEAT_REQUIRE");

    if (require && *require) {
        print_error("LEAT_REQUIRE=%s, but: %s\n", require, reason);
        _fail(file, line);
    }
    test_skip_other(reason, file, line);
}

void test_skip_other(const char *reason, const char *file, int line)
{
    print_message("           skipped: %s\n", reason);
    _skip(file, line);
}

const char *test_device_name(void)
{
    const char *name = getenv("LEAT_TEST_DEVICE");

    return name && *name ? name : "cpu:0";
}

bool test_on_cpu(void)
{
    return !strncmp(test_device_name(), "cpu", 3);
}

bool test_only_on_cpu(void)
{
    if (!test_on_cpu())
        print_message("skipped: this is about the CPU device only\n");
    return test_on_cpu();
}

bool test_on_names(void)
{
    leat_device *device;
    void *symbol = NULL;
    bool on_names;

    if (test_on_cpu() || leat_device_open(test_device_name(), &device) != LEAT_OK)
        return false;
    on_names = leat_native_symbol(device, "leat_compat_names", &symbol) == LEAT_OK;
    leat_device_close(device);
    return on_names;
}

const char *test_kernels_path(void)
{
    /* The CUDA driver cannot load kernels from shared objects, even if it runs over leat's compatibility
     * library. */
    bool cuda = !strncmp(test_device_name(), "cuda", 4);

    return test_on_cpu() || (!cuda && test_on_names()) ? TEST_KERNELS_SO : TEST_KERNELS_PTX;
}

bool test_device_there(void)
{
    const char *require = getenv("LEAT_REQUIRE");
    leat_device *device;
    leat_status status = leat_device_open(test_device_name(), &device);

    if (status == LEAT_OK) {
        leat_device_close(device);
        return true;
    }
    /* If a device is required or a fault is injected, the tests must run and fail instead of being skipped.
     * With LEAT_STRICT=1 the CPU device returns UNSUPPORTED on a processor without memory protection keys. */
    if ((require && *require) || (test_on_cpu() && status != LEAT_ERROR_UNSUPPORTED))
        return true;
    print_message("skipped: %s\n", leat_last_error());
    return false;
}

leat_device *test_open(void)
{
    leat_device *device;

    OK(leat_device_open(test_device_name(), &device));
    return device;
}

leat_device *test_open_other(void)
{
    const char *name = test_device_name();
    const char *colon = strchr(name, ':');
    int length = (int)(colon ? colon - name : (ptrdiff_t)strlen(name));
    int ordinal = colon ? atoi(colon + 1) : 0;
    leat_device *other;
    char wanted[32];

    snprintf(wanted, sizeof wanted, "%.*s:%d", length, name, ordinal == 0 ? 1 : 0);
    return leat_device_open(wanted, &other) == LEAT_OK ? other : NULL;
}

/* Loads leat's kernels on a GPU, where a load waits for all streams: so none waits for a gate that a test closes. */
static void load_kernels(leat_device *device)
{
    leat_module *module;

    if (test_on_cpu() || test_on_names())
        return;
    OK(leat_module_builtin(device, &module));
    OK(leat_module_layout(device, &module));
}

int test_setup(void **state)
{
    struct test_state *made = test_buffer(sizeof *made);

    made->device = test_open();
    load_kernels(made->device);
    OK(leat_stream_create(made->device, &made->stream));
    OK(leat_stream_create(made->device, &made->second));
    *state = made;
    return 0;
}

int test_teardown(void **state)
{
    struct test_state *made = *state;

    /* A test that failed may have left a gate closed. */
    for (unsigned i = 0; i < gate_count; i++)
        test_gate_open(&gates[i]);
    OK(leat_device_synchronize(made->device));
    OK(leat_stream_destroy(made->stream));
    OK(leat_stream_destroy(made->second));
    OK(leat_device_close(made->device));
    free(made);
    return 0;
}

/* Bytes of a pattern that are made at a time. */
enum { PATTERN_BYTES = 4096 };

/* Makes the words of a pattern from word first on. Sanitizers need not look at each store to the caller's array; they
 * see the memcpy() or memcmp() that follows. */
__attribute__((no_sanitize("address", "thread", "undefined"))) static void make_pattern(uint64_t *words, uint64_t first,
                                                                                        uint64_t seed)
{
    for (size_t i = 0; i < PATTERN_BYTES / sizeof *words; i++)
        words[i] = leat_pattern_value(first + i, seed);
}

void test_pattern(void *ptr, size_t bytes, uint64_t seed)
{
    uint64_t words[PATTERN_BYTES / sizeof(uint64_t)];

    for (size_t at = 0; at < bytes; at += PATTERN_BYTES) {
        make_pattern(words, at / sizeof *words, seed);
        memcpy((unsigned char *)ptr + at, words, bytes - at < PATTERN_BYTES ? bytes - at : PATTERN_BYTES);
    }
}

/* Compares the bytes from at on with at most PATTERN_BYTES of wanted. Fails at the first one that differs. */
static void expect_part(const void *ptr, size_t at, size_t bytes, const void *wanted, const char *what,
                        const char *file, int line)
{
    const unsigned char *seen = (const unsigned char *)ptr + at, *good = wanted;
    size_t count = bytes - at < PATTERN_BYTES ? bytes - at : PATTERN_BYTES, i = 0;

    if (!memcmp(seen, good, count))
        return;
    while (i + 1 < count && seen[i] == good[i])
        i++;
    print_error("byte %zu of %zu is 0x%02x and not 0x%02x%s\n", at + i, bytes, seen[i], good[i], what);
    _fail(file, line);
}

void test_expect_pattern(const void *ptr, size_t bytes, uint64_t seed, const char *file, int line)
{
    uint64_t words[PATTERN_BYTES / sizeof(uint64_t)];
    char what[60];

    snprintf(what, sizeof what, " (pattern %llu)", (unsigned long long)seed);
    for (size_t at = 0; at < bytes; at += PATTERN_BYTES) {
        make_pattern(words, at / sizeof *words, seed);
        expect_part(ptr, at, bytes, words, what, file, line);
    }
}

void test_expect_bytes(const void *ptr, size_t bytes, unsigned char value, const char *file, int line)
{
    unsigned char wanted[PATTERN_BYTES];

    memset(wanted, value, bytes < sizeof wanted ? bytes : sizeof wanted);
    for (size_t at = 0; at < bytes; at += PATTERN_BYTES)
        expect_part(ptr, at, bytes, wanted, "", file, line);
}

void *test_buffer(size_t bytes)
{
    void *ptr = malloc(bytes ? bytes : 1);

    assert_non_null(ptr);
    return ptr;
}

void *test_alloc(leat_device *device, leat_kind kind, size_t bytes)
{
    void *ptr = NULL;

    OK(leat_memory_alloc(device, kind, bytes, &ptr));
    assert_non_null(ptr);
    return ptr;
}

leat_ticket *test_copy_start(leat_stream *stream, void *dst, const void *src, size_t bytes)
{
    leat_ticket *ticket = NULL;

    OK(leat_copy_start(stream, dst, src, bytes, NULL, &ticket));
    assert_non_null(ticket);
    return ticket;
}

leat_ticket_info test_ticket_info(leat_ticket *ticket)
{
    leat_ticket_info info = LEAT_TICKET_INFO_INIT;

    memset(&info, 0xff, sizeof info);
    info.size = sizeof info;
    OK(leat_ticket_get_info(ticket, &info));
    return info;
}

void test_sleep_us(long microseconds)
{
    struct timespec left = {.tv_sec = microseconds / 1000000, .tv_nsec = microseconds % 1000000 * 1000};

    while (nanosleep(&left, &left) && errno == EINTR)
        continue;
}

bool test_wait_for(atomic_int *value, int wanted)
{
    for (int i = 0; i < PATIENCE_MS * 10; i++) {
        if (atomic_load(value) == wanted)
            return true;
        test_sleep_us(100);
    }
    return false;
}

static void stand_at_gate(void *argument)
{
    struct test_gate *gate = argument;

    (void)test_wait_for(&gate->open, 1);
    atomic_store(&gate->passed, 1);
}

struct test_gate *test_gate_close(leat_stream *stream)
{
    struct test_gate *gate = &gates[gate_count];

    assert_true(gate_count < sizeof gates / sizeof gates[0]);
    gate_count++;
    OK(leat_launch_host(stream, stand_at_gate, gate));
    return gate;
}

void test_gate_open(struct test_gate *gate)
{
    atomic_store(&gate->open, 1);
}

void test_expect_held(leat_stream *stream, struct test_gate *gate, const char *file, int line)
{
    for (int i = 0; i < 20; i++) {
        leat_status status = leat_stream_query(stream);

        if (status != LEAT_NOT_READY) {
            print_error("a stream that must wait says %s\n", leat_status_name(status));
            /* Pending work uses memory of the test, so wait for it before the test fails. */
            test_gate_open(gate);
            (void)leat_stream_synchronize(stream);
            _fail(file, line);
        }
        test_sleep_us(1000);
    }
}

leat_kernel *test_kernel(leat_device *device, const char *name)
{
    leat_module *module;
    leat_kernel *kernel;

    OK(leat_module_builtin(device, &module));
    OK(leat_kernel_get(module, name, &kernel));
    return kernel;
}

static struct sigaction on_segv, on_bus;
static bool handlers_kept;

void test_keep_handlers(void)
{
    static char own[1 << 20];
    leat_device *device;
    leat_stream *stream;
    void *memory;

    /* cmocka's assertions cannot be used outside a test. */
    if (leat_device_open(test_device_name(), &device) == LEAT_OK) {
        /* leat makes short copies itself, and the driver makes long ones. Make one of each, so that both have
         * installed their handlers. */
        if (leat_stream_create(device, &stream) == LEAT_OK && leat_alloc(stream, sizeof own, &memory) == LEAT_OK &&
            leat_copy_sync(stream, memory, own, 100) == LEAT_OK)
            (void)leat_copy_sync(stream, memory, own, sizeof own);
        (void)leat_device_close(device);
    }
    handlers_kept = true;
    sigaction(SIGSEGV, NULL, &on_segv);
    sigaction(SIGBUS, NULL, &on_bus);
}

void test_let_leat_catch_faults(void)
{
    if (!handlers_kept)
        return;
    sigaction(SIGSEGV, &on_segv, NULL);
    sigaction(SIGBUS, &on_bus, NULL);
}
