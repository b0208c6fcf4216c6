/*
 * fault_walk.c - makes the first, the second, the third ... call of the driver fail, until a run of the scenario
 * needs no more calls. Each time an error must come back with the fault driver's words, nothing may be left over,
 * nothing may hang, and the device must work as before.
 *
 * One scenario touches every call of the public API but those of pools, which have scenarios of their own, one for
 * each sort of pool: there a call may also survive a failure, and then must have done its work. So it is with
 * copies of pageable memory, which find another way when they cannot be staged; on the CPU device they are staged
 * here as on a GPU. Another uses the entries of the table by themselves. LEAT_TEST_DEVICE names the device.
 */
#include "harness.h"
#include "layouts.h"

#include "core/core.h"
#include "driver/fault/fault.h"
#include "driver/registry.h"

#include <leat/device_code.h>

#include <dirent.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
    BYTES = 5000,
    OWN_BYTES = 20000,
    RUN_SECONDS = 90, /* of wall-clock time: a run takes tenths of a second, but more on a busy machine */
    BLOCKS = 8,
    TICKETS = 8,
    MIB = 1 << 20,
    MANAGED_BYTES = 200000,      /* some of the smallest chunks of a prefetch */
    LONG_BYTES = (512 << 10) + 3 /* more than twice around the smallest ring */
};

/* What copies of pageable memory use. Not on the stack: a copy whose call has failed may be on its way for a
 * while. */
static leat_file *walk_file; /* of all copy scenarios */
static unsigned char host_in[LONG_BYTES], host_out[LONG_BYTES], host_other[LONG_BYTES], end_seen[600];

/* What a run owns. NULL and 0 mean: not there, or given back. */
struct world {
    leat_device *device, *other;
    leat_stream *stream, *second, *wrapped_stream, *far_stream;
    leat_event *start, *end, *wrapped_event;
    leat_module *module, *file_module, *own_module;
    void *ordered, *past_pools, *plain, *pinned, *managed, *far, *own;
    bool registered, wrapped;

    /* of the scenarios of pools */
    leat_pool *pool, *second_pool;
    leat_budget *budget;
    void *blocks[BLOCKS], *imported;
    int fd;

    /* of the scenarios of copies */
    leat_ticket *tickets[TICKETS];

    bool failed;         /* a call has returned an error */
    const char *call;    /* the first that did */
    bool fault_was_said; /* an error had the fault driver's words */
    char message[2048];
    atomic_int host_calls;
};

static struct leati_driver *wrapper;
static leat_device_info device_info;
static struct {
    uint64_t n;
    const char *scenario;
    const char *entry; /* whose call was made to fail; NULL for none, or not yet */
    leat_pool_options pool;
    bool of_pools;       /* the scenario is one of pools */
    bool of_copies;      /* or of pageable memory */
    bool without_memory; /* nothing is allocated in it, so leat has no events of its own */
} now;

static void give_up(const char *format, ...) __attribute__((format(printf, 1, 2), noreturn));

static void give_up(const char *format, ...)
{
    const char *entry = now.entry ? now.entry : wrapper ? leati_fault_entry(wrapper) : NULL;
    va_list args;

    fflush(stdout);
    fprintf(stderr, "FAILED: %s with call %llu (%s) made to fail: ", now.scenario, (unsigned long long)now.n,
            entry ? entry : "not yet");
    va_start(args, format);
    vfprintf(stderr, format, args);
    va_end(args);
    fputc('\n', stderr);
    fflush(NULL);
    _exit(1);
}

static void on_alarm(int signal_number)
{
    static const char words[] = "FAILED: a run hangs\n";

    (void)signal_number;
    if (write(STDERR_FILENO, words, sizeof words - 1) < 0)
        _exit(2);
    /* A core to look into. */
    if (getenv("FAULT_WALK_CORE"))
        abort();
    give_up("still running after %d s", RUN_SECONDS);
}

/* Keeps what a call returned. */
static leat_status keep(struct world *w, const char *call, leat_status status)
{
    if (status >= LEAT_OK)
        return status;
    if (strstr(leat_last_error(), "fault driver: call "))
        w->fault_was_said = true;
    if (!w->failed) {
        w->failed = true;
        w->call = call;
        snprintf(w->message, sizeof w->message, "%s", leat_last_error());
    }
    return status;
}

/* A step of the scenario: the first that fails ends it. */
#define STEP(call)                                                                                                \
    do {                                                                                                          \
        if (keep(w, #call, (call)) != LEAT_OK)                                                                    \
            return false;                                                                                         \
    } while (0)

/* Giving back: what it frees is still ours after an error, so once more must do. */
#define FREE(call)                                                                                                \
    do {                                                                                                          \
        if (keep(w, #call, (call)) != LEAT_OK && (call) != LEAT_OK)                                               \
            give_up("%s fails a second time: %s", #call, leat_last_error());                                      \
    } while (0)

/* Ending: whatever it returns, the thing is gone. */
#define END(call) keep(w, #call, (call))

static void count_call(void *argument)
{
    atomic_fetch_add((atomic_int *)argument, 1);
}

static void count_slowly(void *argument)
{
    test_sleep_us(3000);
    count_call(argument);
}

/* ---- the scenario ----------------------------------------------------------------------------- */

static bool open_things(struct world *w)
{
    leat_device_info info;
    leat_device *again;
    uint64_t free_bytes;
    void *native, *symbol;
    char other_name[16];

    STEP(leat_device_open(test_device_name(), &w->device));
    STEP(leat_device_open(test_device_name(), &again));
    STEP(leat_device_close(again));
    STEP(leat_device_query(w->device, &info));
    STEP(leat_device_list(0, &info));
    STEP(leat_device_memory(w->device, &free_bytes, NULL));
    STEP(leat_device_native(w->device, &native));
    if (leat_native_symbol(w->device, "cuInit", &symbol) != (test_on_cpu() ? LEAT_ERROR_UNSUPPORTED : LEAT_OK))
        STEP(LEAT_ERROR_NOT_FOUND);
    if (wrapper->device_count > 1) {
        snprintf(other_name, sizeof other_name, "%s:%d", wrapper->name, device_info.ordinal == 0);
        STEP(leat_device_open(other_name, &w->other));
        STEP(leat_stream_create(w->other, &w->far_stream));
        STEP(leat_memory_alloc(w->other, LEAT_KIND_DEVICE, BYTES, &w->far));
    }
    STEP(leat_stream_create(w->device, &w->stream));
    STEP(leat_stream_create(w->device, &w->second));
    STEP(leat_stream_native(w->stream, &native));
    STEP(leat_stream_wrap(w->device, native, &w->wrapped_stream));
    STEP(leat_event_create(w->device, &w->start));
    STEP(leat_event_create(w->device, &w->end));
    STEP(leat_event_native(w->end, &native));
    STEP(leat_event_wrap(w->device, native, &w->wrapped_event));
    return true;
}

static bool take_memory(struct world *w)
{
    leat_pointer_info info;
    void *none = NULL;

    STEP(leat_alloc(w->stream, BYTES, &w->ordered));
    STEP(leat_alloc_driver(w->stream, BYTES, &w->past_pools));
    STEP(leat_memory_alloc(w->device, LEAT_KIND_DEVICE, BYTES, &w->plain));
    STEP(leat_memory_alloc(w->device, LEAT_KIND_PINNED, 3 * BYTES, &w->pinned));
    if (device_info.managed_memory)
        STEP(leat_memory_alloc(w->device, LEAT_KIND_MANAGED, BYTES, &w->managed));
    w->own = malloc(OWN_BYTES);
    if (!w->own)
        give_up("no memory");
    STEP(leat_register(w->device, (char *)w->own + 1, BYTES));
    w->registered = true;
    STEP(leat_pointer_query((char *)w->own + 2, &info));
    STEP(leat_pointer_query(w->pinned, &info));
    STEP(leat_pointer_query(w->plain, &info));
    STEP(leat_pointer_query(w, &info));
    STEP(leat_pointer_wrap(w->device, LEAT_KIND_PINNED, (char *)w->own + OWN_BYTES - 10, 10));
    w->wrapped = true;
    /* Refused whatever happens; the question how much is free is one more call that may fail. */
    if (leat_alloc(w->stream, SIZE_MAX / 2, &none) != LEAT_ERROR_DEVICE_MEMORY)
        STEP(LEAT_ERROR_DRIVER);
    return true;
}

static void expect_rows(const unsigned char *seen, const unsigned char *wanted, size_t width, size_t height,
                        size_t pitch)
{
    for (size_t y = 0; y < height; y++)
        if (memcmp(seen + y * pitch, wanted + y * pitch, width))
            give_up("row %zu of %zu is wrong, without an error", y, height);
}

/* To device memory, at another pitch, and back. */
static bool move_rows(struct world *w, unsigned char *out, unsigned char *in, size_t width, size_t height,
                      size_t pitch)
{
    leat_copy_region there = {width, height, 1, width + 20, pitch, 0, 0},
                     back = {width, height, 1, pitch, width + 20, 0, 0};

    memset(out, 0, height * pitch);
    STEP(leat_copy_3d(w->stream, w->plain, in, &there));
    STEP(leat_copy_3d(w->stream, out, w->plain, &back));
    STEP(leat_stream_synchronize(w->stream));
    expect_rows(out, in, width, height, pitch);
    return true;
}

static bool move_bytes(struct world *w)
{
    unsigned char *in = (unsigned char *)w->pinned + BYTES, *out = in + BYTES;
    uint32_t four = 0x01020304;
    uint64_t eight = 0x0102030405060708;

    test_pattern(in, BYTES, 1);
    STEP(leat_copy(w->stream, w->plain, in, BYTES));
    STEP(leat_copy(w->stream, w->past_pools, w->plain, BYTES));
    STEP(leat_copy(w->stream, w->ordered, w->past_pools, BYTES));
    STEP(leat_copy(w->stream, w->pinned, w->ordered, BYTES));
    STEP(leat_copy(w->stream, w->plain, w->pinned, BYTES));
    if (w->far) {
        STEP(leat_copy(w->stream, w->far, w->plain, BYTES));
        STEP(leat_event_record(w->end, w->stream));
        STEP(leat_stream_wait(w->far_stream, w->end));
        STEP(leat_copy(w->far_stream, w->pinned, w->far, BYTES));
        STEP(leat_stream_synchronize(w->far_stream));
    }
    STEP(leat_copy(w->stream, out, w->plain, BYTES));
    STEP(leat_stream_synchronize(w->stream));
    if (memcmp(in, out, BYTES))
        give_up("wrong bytes without an error");
    if (!move_rows(w, out, in, 100, 30, 150))
        return false;
    STEP(leat_copy(w->stream, (char *)w->own + 1, w->plain, BYTES));
    STEP(leat_fill(w->stream, w->plain, 1, BYTES));
    STEP(leat_fill(w->stream, (char *)w->own + 1, 1, BYTES));
    STEP(leat_fill_pattern(w->stream, w->plain, &four, 4, BYTES));
    STEP(leat_fill_pattern(w->stream, w->plain, &eight, 8, BYTES));
    STEP(leat_stream_synchronize(w->stream));
    if (w->managed)
        STEP(leat_copy(w->stream, w->managed, in, BYTES));
    return true;
}

/* Compiled into this program. */
LEAT_KERNEL(walk_halve, 2, float *, data, uint64_t, count)
{
    LEAT_FOR (i, count)
        data[i] /= 2;
}

/* Kernels of all modules, most of them twice, so that what is looked up once is there the second time. */
static bool run_kernels(struct world *w)
{
    const char *path = test_kernels_path();
    uint64_t count = BYTES / 4;
    float factor = 2;
    void *args[] = {&w->plain, &count, &factor};

    STEP(leat_module_builtin(w->device, &w->module));
    STEP(leat_module_load_file(w->device, path, &w->file_module));
    if (test_on_cpu()) {
        static const leat_embedded_kernel own[] = {{"halve", &leat_cpu_kernel_walk_halve}};
        leat_kernel *halve;

        STEP(leat_module_embedded(w->device, own, 1, &w->own_module));
        STEP(leat_kernel_get(w->own_module, "halve", &halve));
        STEP(leat_launch(w->stream, halve, leat_dim(2, 1, 1), leat_dim(32, 1, 1), 0, args, 2));
    }
    for (int i = 0; i < 2; i++) {
        leat_kernel *add, *scale;
        size_t bytes;
        int parameters;

        STEP(leat_kernel_get(w->module, "leat_add_f32", &add));
        STEP(leat_kernel_get(w->file_module, "user_scale_f32", &scale));
        STEP(leat_kernel_parameter_count(add, &parameters));
        if (parameters >= 0)
            STEP(leat_kernel_parameter_bytes(add, 0, &bytes));
        STEP(leat_launch(w->stream, add, leat_dim(2, 1, 1), leat_dim(32, 1, 1), 0, args, 3));
        STEP(leat_launch(w->wrapped_stream, scale, leat_dim(2, 1, 1), leat_dim(32, 1, 1), 0, args, 3));
    }
    return true;
}

static leat_status poll_stream(leat_stream *stream)
{
    leat_status status;

    while ((status = leat_stream_query(stream)) == LEAT_NOT_READY)
        continue;
    return status;
}

static leat_status poll_event(leat_event *event)
{
    leat_status status;

    while ((status = leat_event_query(event)) == LEAT_NOT_READY)
        continue;
    return status;
}

static bool order_work(struct world *w)
{
    double milliseconds;
    leat_device *device;

    STEP(leat_event_record(w->start, w->stream));
    STEP(leat_launch_host(w->stream, count_call, &w->host_calls));
    STEP(leat_event_record(w->end, w->stream));
    STEP(leat_stream_wait(w->second, w->end));
    STEP(leat_stream_wait(w->second, w->wrapped_event));
    STEP(leat_launch_host(w->second, count_call, &w->host_calls));
    STEP(leat_event_synchronize(w->end));
    STEP(poll_event(w->end));
    STEP(leat_event_elapsed(w->start, w->end, &milliseconds));
    STEP(leat_stream_synchronize(w->second));
    STEP(poll_stream(w->second));
    STEP(leat_device_synchronize(w->device));
    STEP(leat_stream_device(w->stream, &device));
    if (atomic_load(&w->host_calls) != 2)
        give_up("%d of 2 host functions ran", atomic_load(&w->host_calls));
    return true;
}

/* Streams and events by themselves. */
static void order_scenario(struct world *w)
{
    void *native;

    if (keep(w, "open", leat_device_open(test_device_name(), &w->device)) == LEAT_OK &&
        keep(w, "create", leat_stream_create(w->device, &w->stream)) == LEAT_OK &&
        keep(w, "create", leat_stream_create(w->device, &w->second)) == LEAT_OK &&
        keep(w, "create", leat_event_create(w->device, &w->start)) == LEAT_OK &&
        keep(w, "create", leat_event_create(w->device, &w->end)) == LEAT_OK &&
        keep(w, "native", leat_event_native(w->end, &native)) == LEAT_OK &&
        keep(w, "wrap", leat_event_wrap(w->device, native, &w->wrapped_event)) == LEAT_OK)
        order_work(w);
    if (w->device)
        FREE(leat_device_synchronize(w->device));
    END(leat_event_destroy(w->wrapped_event));
    END(leat_event_destroy(w->start));
    END(leat_event_destroy(w->end));
    END(leat_stream_destroy(w->second));
    END(leat_stream_destroy(w->stream));
    END(leat_device_close(w->device));
}

/* Gives all back that is there. A close that comes from here has nothing left to free. */
static void give_all_back(struct world *w)
{
    if (w->device) {
        FREE(leat_device_synchronize(w->device));
        if (w->wrapped)
            FREE(leat_pointer_unwrap((char *)w->own + OWN_BYTES - 10));
        if (w->registered)
            FREE(leat_unregister((char *)w->own + 1));
        if (w->stream)
            FREE(leat_free(w->stream, w->ordered));
        if (w->stream)
            FREE(leat_free(w->stream, w->past_pools));
        FREE(leat_memory_free(w->plain));
        FREE(leat_memory_free(w->pinned));
        FREE(leat_memory_free(w->managed));
        END(leat_module_unload(w->file_module));
        END(leat_module_unload(w->own_module));
        END(leat_event_destroy(w->wrapped_event));
        END(leat_event_destroy(w->start));
        END(leat_event_destroy(w->end));
        END(leat_stream_destroy(w->wrapped_stream));
        END(leat_stream_destroy(w->second));
        END(leat_stream_destroy(w->stream));
    }
    if (w->other) {
        FREE(leat_device_synchronize(w->other));
        FREE(leat_memory_free(w->far));
        END(leat_stream_destroy(w->far_stream));
        END(leat_device_close(w->other));
    }
    END(leat_device_close(w->device));
    free(w->own);
}

/* Prefetch by one call and in chunks, advice, questions, the record. */
static bool move_managed(struct world *w)
{
    leat_managed_counts counts = {.size = sizeof counts};
    leat_managed_info info = {.size = sizeof info};
    leat_managed_move moves[4];
    size_t count = 4;

    STEP(leat_device_open(test_device_name(), &w->device));
    STEP(leat_stream_create(w->device, &w->stream));
    STEP(leat_memory_alloc(w->device, LEAT_KIND_MANAGED, MANAGED_BYTES, &w->managed));
    if (test_on_cpu())
        STEP(leat_managed_record(w->device, 1));
    memset(w->managed, 1, MANAGED_BYTES);
    STEP(leat_managed_advise(w->managed, MANAGED_BYTES, LEAT_ADVICE_ACCESSED_BY, w->device));
    STEP(leat_managed_prefetch(w->stream, w->managed, MANAGED_BYTES, w->device));
    STEP(leat_fill(w->stream, w->managed, 2, MANAGED_BYTES));
    STEP(leat_managed_prefetch(w->stream, w->managed, MANAGED_BYTES, LEAT_HOST));
    STEP(leat_stream_synchronize(w->stream));
    for (size_t i = 0; i < MANAGED_BYTES; i++)
        if (((unsigned char *)w->managed)[i] != 2)
            give_up("byte %zu of managed memory is wrong, without an error", i);
    STEP(leat_managed_query(w->managed, MANAGED_BYTES, &info));
    if (test_on_cpu()) {
        STEP(leat_managed_count(w->device, w->managed, 0, &counts));
        STEP(leat_managed_history(w->device, moves, &count));
        STEP(leat_managed_record(w->device, 0));
    }
    return true;
}

/* Drivers attach whole allocations of their own, and leat's are blocks of a pool: one outside leat, by the table.
 * A vendor's driver says which device it is of; the CPU device's does not, as its managed memory is host memory.
 */
static void attach_managed(struct world *w)
{
    const struct leati_driver_ops *ops = wrapper->ops;
    void *device = w->device->native, *ptr = NULL;

    if (!ops->managed_attach)
        return;
    if (keep(w, "managed_alloc", ops->managed_alloc(wrapper, device, MANAGED_BYTES, &ptr)) != LEAT_OK)
        return;
    if (test_on_cpu() && leat_pointer_wrap(w->device, LEAT_KIND_MANAGED, ptr, MANAGED_BYTES) != LEAT_OK)
        give_up("memory is not taken: %s", leat_last_error());
    keep(w, "leat_managed_attach", leat_managed_attach(w->stream, ptr, LEAT_ATTACH_STREAM));
    keep(w, "leat_stream_synchronize", leat_stream_synchronize(w->stream));
    if (test_on_cpu() && leat_pointer_unwrap(ptr) != LEAT_OK)
        give_up("memory is not given back: %s", leat_last_error());
    keep(w, "mem_free", ops->mem_free(wrapper, device, ptr));
}

static void managed_scenario(struct world *w)
{
    if (move_managed(w))
        attach_managed(w);
    if (w->device) {
        FREE(leat_device_synchronize(w->device));
        /* Whatever became of its call, the record must not go on. */
        if (test_on_cpu())
            FREE(leat_managed_record(w->device, 0));
        FREE(leat_memory_free(w->managed));
        END(leat_stream_destroy(w->stream));
    }
    END(leat_device_close(w->device));
}

/* Memory, a stream, copies both ways, on a device that may have seen a failure. */
static void must_work(leat_device *device, const struct world *after)
{
    unsigned char in[1000], out[1000] = {0};
    leat_stream *stream;
    void *memory;
    bool good;

    test_pattern(in, sizeof in, 2);
    good = leat_stream_create(device, &stream) == LEAT_OK && leat_alloc(stream, sizeof in, &memory) == LEAT_OK &&
           leat_copy(stream, memory, in, sizeof in) == LEAT_OK &&
           leat_copy(stream, out, memory, sizeof in) == LEAT_OK && leat_free(stream, memory) == LEAT_OK &&
           leat_stream_synchronize(stream) == LEAT_OK && leat_stream_destroy(stream) == LEAT_OK;
    if (!good)
        give_up("the device does not work any more: %s; what failed first was %s: %s", leat_last_error(),
                after->call ? after->call : "nothing", after->message);
    if (memcmp(in, out, sizeof in))
        give_up("the device copies wrong bytes after the failure");
}

static void public_scenario(struct world *w)
{
    if (open_things(w) && take_memory(w) && move_bytes(w) && run_kernels(w))
        order_work(w);
    if (w->failed && w->device)
        must_work(w->device, w);
    give_all_back(w);
}

/* The same, but the last close has to give everything back, and to wait for work that still runs. */
static void lazy_scenario(struct world *w)
{
    int calls;

    if (open_things(w) && take_memory(w) && move_bytes(w) && run_kernels(w))
        order_work(w);
    /* Work of one device uses memory of the other, and the caller's own has to outlive its use. */
    if (w->device)
        FREE(leat_device_synchronize(w->device));
    if (w->other)
        FREE(leat_device_synchronize(w->other));
    if (w->registered)
        FREE(leat_unregister((char *)w->own + 1));
    if (w->wrapped)
        FREE(leat_pointer_unwrap((char *)w->own + OWN_BYTES - 10));
    calls = atomic_load(&w->host_calls);
    if (w->second)
        calls += END(leat_launch_host(w->second, count_slowly, &w->host_calls)) == LEAT_OK;
    END(leat_device_close(w->other));
    END(leat_device_close(w->device));
    if (atomic_load(&w->host_calls) != calls)
        give_up("the device was closed before its last host function had run");
    free(w->own);
}

/* ---- pools ------------------------------------------------------------------------------------ */

/* A pool goes on after a failure. */
static void pool_must_work(struct world *w, leat_pool *pool)
{
    unsigned char in[3000], out[3000] = {0};
    void *block = NULL;
    bool good;

    test_pattern(in, sizeof in, 4);
    good = leat_pool_alloc(pool, w->stream, sizeof in, &block) == LEAT_OK &&
           leat_copy(w->stream, block, in, sizeof in) == LEAT_OK &&
           leat_copy_sync(w->stream, out, block, sizeof in) == LEAT_OK && leat_free(w->stream, block) == LEAT_OK;
    if (!good)
        give_up("the pool does not work any more: %s", leat_last_error());
    if (memcmp(in, out, sizeof in))
        give_up("the pool gives memory with wrong bytes after the failure");
}

/* What expect_end() will look at; filling all of some 100 MiB in each of a thousand runs would take minutes. */
static leat_status fill_end(leat_stream *stream, void *block, unsigned char value, size_t bytes)
{
    return leat_fill(stream, (char *)block + bytes - sizeof end_seen, value, sizeof end_seen);
}

/* The last bytes of a block of bytes hold value; else something went wrong and nobody said so. */
static leat_status expect_end(leat_stream *stream, void *block, size_t bytes, unsigned char value)
{
    leat_status status;

    memset(end_seen, ~value, sizeof end_seen);
    status = leat_copy_sync(stream, end_seen, (char *)block + bytes - sizeof end_seen, sizeof end_seen);
    for (size_t i = 0; status == LEAT_OK && i < sizeof end_seen; i++)
        if (end_seen[i] != value)
            give_up("byte %zu of %zu is 0x%02x and not 0x%02x, without an error", i, bytes, end_seen[i], value);
    return status;
}

/* Guard mode looks at each byte of a block, in a copy for each few of them. */
static size_t mib(size_t count)
{
    return now.pool.guard ? count * MIB / 4 : count * MIB;
}

static size_t block_bytes(void)
{
    return mib(3);
}

static bool make_pools(struct world *w)
{
    leat_pool_options options = now.pool;

    STEP(leat_device_open(test_device_name(), &w->device));
    STEP(leat_stream_create(w->device, &w->stream));
    STEP(leat_stream_create(w->device, &w->second));
    STEP(leat_event_create(w->device, &w->start));
    STEP(leat_event_create(w->device, &w->end));
    STEP(leat_budget_create(40 * MIB, &w->budget));
    options.budget = w->budget;
    STEP(leat_pool_create(w->device, &options, &w->pool));
    options.limit_bytes = 0;
    STEP(leat_pool_create(w->device, &options, &w->second_pool));
    return true;
}

/* Blocks of one stream that others use, and that go from stream to stream. */
static bool pass_blocks_around(struct world *w)
{
    void **b = w->blocks;

    STEP(leat_pool_alloc(w->pool, w->stream, block_bytes(), &b[0]));
    STEP(leat_pool_alloc(w->pool, w->stream, block_bytes(), &b[1]));
    STEP(leat_pool_alloc(w->pool, w->stream, 1000, &b[2]));
    STEP(fill_end(w->stream, b[0], 1, block_bytes()));
    STEP(fill_end(w->stream, b[1], 2, block_bytes()));
    STEP(leat_fill(w->stream, b[2], 3, 1000));
    STEP(leat_event_record(w->start, w->stream));
    STEP(leat_stream_wait(w->second, w->start));
    STEP(leat_launch_host(w->second, count_slowly, &w->host_calls));
    STEP(expect_end(w->second, b[1], block_bytes(), 2));
    STEP(fill_end(w->second, b[0], 4, block_bytes()));
    STEP(leat_pool_use(b[0], w->second));
    STEP(leat_event_record(w->end, w->second));
    STEP(leat_pool_use_until(b[1], w->end));
    FREE(leat_free(w->stream, b[0]));
    b[0] = NULL;
    STEP(leat_pool_alloc(w->pool, w->stream, block_bytes(), &b[3]));
    STEP(fill_end(w->stream, b[3], 5, block_bytes()));
    FREE(leat_free(w->stream, b[1]));
    b[1] = NULL;
    STEP(leat_pool_alloc(w->pool, w->second, block_bytes(), &b[4]));
    STEP(fill_end(w->second, b[4], 6, block_bytes()));
    STEP(expect_end(w->stream, b[3], block_bytes(), 5));
    STEP(expect_end(w->second, b[4], block_bytes(), 6));
    STEP(expect_end(w->stream, b[2], 1000, 3));
    return true;
}

static void give_blocks_back(struct world *w)
{
    for (int i = 0; i < BLOCKS; i++) {
        if (w->blocks[i])
            FREE(leat_free(w->stream, w->blocks[i]));
        w->blocks[i] = NULL;
    }
}

/* Needs room for both limits: pages are stitched, and the second pool takes what is idle in the first. */
static bool stitch_pages(struct world *w)
{
    void **b = w->blocks;

    for (int i = 0; i < 5; i++)
        STEP(leat_pool_alloc(w->pool, w->stream, mib(2), &b[i]));
    for (int i = 1; i < 5; i += 2) {
        FREE(leat_free(w->stream, b[i]));
        b[i] = NULL;
    }
    STEP(fill_end(w->stream, b[2], 7, mib(2)));
    STEP(leat_device_synchronize(w->device));
    STEP(leat_pool_alloc(w->pool, w->second, mib(4), &b[1]));
    STEP(fill_end(w->second, b[1], 8, mib(4)));
    STEP(leat_pool_alloc_aligned(w->pool, w->stream, mib(1), mib(4), &b[3]));
    STEP(fill_end(w->stream, b[3], 9, mib(1)));
    STEP(expect_end(w->stream, b[2], mib(2), 7));
    STEP(expect_end(w->second, b[1], mib(4), 8));
    STEP(expect_end(w->stream, b[3], mib(1), 9));
    STEP(leat_device_synchronize(w->device));
    give_blocks_back(w);
    STEP(leat_device_synchronize(w->device));
    STEP(leat_pool_alloc(w->second_pool, w->stream, mib(34), &b[0]));
    STEP(fill_end(w->stream, b[0], 10, mib(34)));
    STEP(expect_end(w->stream, b[0], mib(34), 10));
    give_blocks_back(w);
    return true;
}

static bool trim_and_limit(struct world *w)
{
    void **b = w->blocks, *none = NULL;
    leat_status status;

    STEP(leat_pool_alloc(w->pool, NULL, block_bytes(), &b[0]));
    STEP(leat_pool_alloc(w->pool, w->stream, block_bytes(), &b[1]));
    STEP(fill_end(w->stream, b[0], 11, block_bytes()));
    STEP(fill_end(w->stream, b[1], 12, block_bytes()));
    FREE(leat_free(w->stream, b[1]));
    b[1] = NULL;
    STEP(leat_pool_trim(w->pool, 0, NULL, NULL));
    STEP(leat_stream_synchronize(w->stream));
    STEP(leat_pool_trim_idle(w->pool, 0, NULL, NULL));
    STEP(expect_end(w->stream, b[0], block_bytes(), 11));
    status = leat_pool_set_limits(w->pool, 6 * MIB, 4 * MIB);
    /* A chunk with one live block in it may be larger. */
    if (status != LEAT_ERROR_BUSY || (!now.pool.kind && !now.pool.no_virtual_memory))
        STEP(status);
    if (status == LEAT_OK && leat_pool_alloc(w->pool, w->stream, 30 * MIB, &none) >= LEAT_OK)
        give_up("30 MiB within a limit of 6");
    FREE(leat_memory_free(b[0]));
    b[0] = NULL;
    STEP(leat_pool_set_limits(w->pool, 0, 0));
    return true;
}

static bool export_and_import(struct world *w)
{
    size_t bytes = 0;

    if (!now.pool.exportable)
        return true;
    STEP(leat_pool_alloc(w->pool, w->stream, block_bytes(), &w->blocks[0]));
    STEP(fill_end(w->stream, w->blocks[0], 13, block_bytes()));
    STEP(leat_pool_export(w->blocks[0], &w->fd, &bytes));
    STEP(leat_pool_import(w->device, w->fd, bytes, &w->imported));
    STEP(expect_end(w->stream, w->imported, block_bytes(), 13));
    return true;
}

/* A stream ends with blocks on it, live and freed. */
static bool end_a_stream(struct world *w)
{
    leat_stream *gone = NULL;

    STEP(leat_stream_create(w->device, &gone));
    if (keep(w, "leat_pool_alloc", leat_pool_alloc(w->pool, gone, block_bytes(), &w->blocks[1])) == LEAT_OK &&
        keep(w, "leat_pool_alloc", leat_pool_alloc(w->pool, gone, block_bytes(), &w->blocks[2])) == LEAT_OK &&
        keep(w, "leat_fill", fill_end(gone, w->blocks[2], 14, block_bytes())) == LEAT_OK) {
        FREE(leat_free(gone, w->blocks[2]));
        w->blocks[2] = NULL;
    }
    END(leat_stream_destroy(gone));
    if (w->failed)
        return false;
    STEP(leat_pool_alloc(w->pool, w->second, block_bytes(), &w->blocks[3]));
    STEP(fill_end(w->second, w->blocks[3], 15, block_bytes()));
    STEP(expect_end(w->second, w->blocks[3], block_bytes(), 15));
    return true;
}

static void pool_steps(struct world *w)
{
    w->fd = -1;
    if (make_pools(w) && pass_blocks_around(w) && (give_blocks_back(w), stitch_pages(w)) && trim_and_limit(w) &&
        export_and_import(w))
        end_a_stream(w);
    if (w->fd >= 0)
        close(w->fd);
}

static void pool_scenario(struct world *w)
{
    pool_steps(w);
    if (w->device)
        FREE(leat_device_synchronize(w->device));
    give_blocks_back(w);
    /* A mapping is gone whatever the driver says. */
    END(leat_memory_free(w->imported));
    for (int i = 0; i < 2; i++) {
        leat_pool *pool = i ? w->second_pool : w->pool;

        if (!pool)
            continue;
        /* Before it, its own calls would be made to fail. */
        if (w->stream && leati_fault_fired(wrapper))
            pool_must_work(w, pool);
        END(leat_pool_destroy(pool));
    }
    if (w->budget && leat_budget_destroy(w->budget) != LEAT_OK)
        give_up("the budget cannot be destroyed: %s", leat_last_error());
    END(leat_event_destroy(w->start));
    END(leat_event_destroy(w->end));
    END(leat_stream_destroy(w->second));
    END(leat_stream_destroy(w->stream));
    END(leat_device_close(w->device));
}

/* The last close finds pools with live blocks, and freed ones. What still runs then uses no memory, because a
 * close that cannot wait frees it all the same. */
static void lazy_pool_scenario(struct world *w)
{
    pool_steps(w);
    if (w->device)
        FREE(leat_device_synchronize(w->device));
    if (w->second)
        END(leat_launch_host(w->second, count_slowly, &w->host_calls));
    if (w->second && w->blocks[3]) {
        FREE(leat_free(w->second, w->blocks[3]));
        w->blocks[3] = NULL;
    }
    END(leat_device_close(w->device));
    if (w->budget && leat_budget_destroy(w->budget) != LEAT_OK)
        give_up("the budget cannot be destroyed: %s", leat_last_error());
}

/* ---- pageable memory -------------------------------------------------------------------------- */

static void expect_bytes(const unsigned char *seen, size_t bytes, uint64_t seed, const char *what)
{
    for (size_t i = 0; i < bytes; i += 8) {
        uint64_t word = leat_pattern_value(i / 8, seed);

        if (memcmp(seen + i, &word, bytes - i < 8 ? bytes - i : 8))
            give_up("%s: the word at byte %zu of %zu is wrong, without an error", what, i, bytes);
    }
}

static bool open_for_copies(struct world *w)
{
    char other_name[16];

    STEP(leat_device_open(test_device_name(), &w->device));
    STEP(leat_stream_create(w->device, &w->stream));
    STEP(leat_stream_create(w->device, &w->second));
    STEP(leat_memory_alloc(w->device, LEAT_KIND_DEVICE, LONG_BYTES, &w->plain));
    STEP(leat_memory_alloc(w->device, LEAT_KIND_PINNED, LONG_BYTES, &w->pinned));
    STEP(leat_event_create(w->device, &w->end));
    if (wrapper->device_count > 1) {
        snprintf(other_name, sizeof other_name, "%s:%d", wrapper->name, device_info.ordinal == 0);
        STEP(leat_device_open(other_name, &w->other));
        STEP(leat_stream_create(w->other, &w->far_stream));
        STEP(leat_memory_alloc(w->other, LEAT_KIND_DEVICE, LONG_BYTES, &w->far));
    }
    return true;
}

/* In and out again, by plain calls: short copies, and such as fill the ring more than once. */
static bool copy_both_ways(struct world *w)
{
    static const size_t sizes[] = {100, BYTES, 300 << 10, LONG_BYTES};

    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        test_pattern(host_in, sizes[i], i);
        memset(host_out, 0, sizes[i]);
        STEP(leat_copy(w->stream, w->plain, host_in, sizes[i]));
        STEP(leat_copy(w->stream, host_out, w->plain, sizes[i]));
        STEP(leat_stream_synchronize(w->stream));
        expect_bytes(host_out, sizes[i], i, "both ways");
        memset(host_out, 0, sizes[i]);
        STEP(leat_copy_sync(w->stream, w->plain, host_in, sizes[i]));
        test_pattern(host_in, sizes[i], 10 + i);
        STEP(leat_copy_sync(w->stream, host_out, w->plain, sizes[i]));
        expect_bytes(host_out, sizes[i], i, "both ways, waiting");
    }
    test_pattern(host_in, LONG_BYTES, 15);
    if (!move_rows(w, host_out, host_in, 1000, 450, 1150))
        return false;
    return move_rows(w, host_out, host_in, 10, 50, 30);
}

/* From one host buffer to another, between streams and devices, behind work that is slow. */
static bool copy_in_order(struct world *w)
{
    test_pattern(host_in, LONG_BYTES, 20);
    memset(host_out, 0, LONG_BYTES);
    memset(host_other, 0, LONG_BYTES);
    STEP(leat_launch_host(w->stream, count_slowly, &w->host_calls));
    STEP(leat_copy(w->stream, host_other, host_in, LONG_BYTES));
    STEP(leat_copy(w->stream, w->plain, host_other, LONG_BYTES));
    STEP(leat_event_record(w->end, w->stream));
    STEP(leat_stream_wait(w->second, w->end));
    STEP(leat_copy(w->second, host_out, w->plain, LONG_BYTES));
    STEP(leat_copy(w->second, w->pinned, host_out, LONG_BYTES));
    STEP(leat_stream_synchronize(w->second));
    expect_bytes(host_out, LONG_BYTES, 20, "two streams");
    expect_bytes(w->pinned, LONG_BYTES, 20, "two streams, to pinned memory");
    if (!w->far)
        return true;
    memset(host_other, 0, LONG_BYTES);
    STEP(leat_copy(w->far_stream, w->far, host_in, LONG_BYTES));
    STEP(leat_copy(w->far_stream, host_other, w->far, LONG_BYTES));
    STEP(leat_stream_synchronize(w->far_stream));
    expect_bytes(host_other, LONG_BYTES, 20, "the other device");
    return true;
}

/* Boxes with room between their rows on the device, from and to both kinds of host memory. */
static bool copy_regions(struct world *w)
{
    enum { WIDTH = 3000, HEIGHT = 40, PITCH = 4096, ALL = WIDTH * HEIGHT };
    leat_copy_region in = {WIDTH, HEIGHT, 1, PITCH, WIDTH, 0, 0}, out = {WIDTH, HEIGHT, 1, WIDTH, PITCH, 0, 0};
    unsigned char *pinned = w->pinned;

    test_pattern(host_in, ALL, 70);
    test_pattern(pinned, ALL, 71);
    memset(host_out, 0, ALL);
    STEP(leat_copy_3d(w->stream, w->plain, host_in, &in));
    STEP(leat_copy_3d(w->stream, pinned + ALL, w->plain, &out));
    STEP(leat_copy_3d(w->stream, w->plain, pinned, &in));
    STEP(leat_copy_3d(w->stream, host_out, w->plain, &out));
    STEP(leat_stream_synchronize(w->stream));
    expect_bytes(pinned + ALL, ALL, 70, "rectangles to pinned memory");
    expect_bytes(host_out, ALL, 71, "rectangles to pageable memory");
    return true;
}

/* Each element of dst is that of src. */
static void expect_elements(const void *dst, const leat_layout *dst_layout, const void *src,
                            const leat_layout *src_layout, const char *what)
{
    uint64_t elements = 0, bytes;

    (void)leat_layout_count(dst_layout, &elements, &bytes);
    for (uint64_t i = 0; i < elements; i++)
        if (memcmp((const char *)dst + layouts_at(dst_layout, i), (const char *)src + layouts_at(src_layout, i),
                   dst_layout->element_bytes) != 0)
            give_up("%s: element %llu is wrong", what, (unsigned long long)i);
}

/* Layouts by every way: whole and packed in and out, with a list of indices, from host to host. */
static bool copy_layouts(struct world *w)
{
    enum { ROWS = 100, COLUMNS = 300, SOME = 60, ALL = ROWS * COLUMNS * 4 };
    leat_layout matrix, turned, view, rows, narrow, wide;
    unsigned char *pinned = w->pinned;
    int32_t list[ROWS];

    for (int32_t i = 0; i < ROWS; i++)
        list[i] = ROWS - 1 - i;
    STEP(leat_layout_dense(&matrix, 2, (int64_t[]){ROWS, COLUMNS}, 4));
    STEP(leat_layout_dense(&turned, 2, (int64_t[]){COLUMNS, ROWS}, 4));
    view = matrix;
    STEP(leat_layout_transpose(&view, 0, 1));
    rows = matrix;
    STEP(leat_layout_index(&rows, 0, list, ROWS, 4, NULL));
    wide = matrix;
    STEP(leat_layout_slice(&wide, 1, 100, 100 + SOME, 1));
    STEP(leat_layout_dense(&narrow, 2, (int64_t[]){ROWS, SOME}, 4));

    test_pattern(host_in, ALL, 73);
    memset(host_out, 0, ALL);
    memset(host_other, 0, ALL);
    memset(pinned, 0, 2 * ALL);
    STEP(leat_copy_layout(w->stream, w->plain, &turned, host_in, &view));
    STEP(leat_copy_layout(w->stream, host_out, &view, w->plain, &turned));
    STEP(leat_copy_layout(w->stream, pinned, &rows, host_in, &matrix));
    STEP(leat_copy_layout(w->stream, w->plain, &narrow, host_in, &wide));
    STEP(leat_copy_layout(w->stream, pinned + ALL, &wide, w->plain, &narrow));
    STEP(leat_copy_layout(w->stream, host_other, &wide, w->plain, &narrow));
    STEP(leat_copy_layout(w->stream, host_other + ALL, &turned, host_in, &view));
    STEP(leat_stream_synchronize(w->stream));
    expect_bytes(host_out, ALL, 73, "layouts, there and back");
    expect_elements(pinned, &rows, host_in, &matrix, "layouts, scattered rows");
    expect_elements(pinned + ALL, &wide, host_in, &wide, "layouts, columns to pinned memory");
    expect_elements(host_other, &wide, host_in, &wide, "layouts, columns to pageable memory");
    expect_elements(host_other + ALL, &turned, host_in, &view, "layouts, from host to host");
    return true;
}

/* Many small copies, from and to both kinds of host memory. */
static bool copy_ops(struct world *w)
{
    enum { PAIRS = 20, EACH = 6000, ALL = PAIRS * EACH };
    unsigned char *pinned = w->pinned, *device = w->plain;
    leat_copy_op in[PAIRS], out[PAIRS];

    test_pattern(host_in, ALL, 71);
    test_pattern(pinned, ALL, 72);
    memset(host_out, 0, ALL);
    memset(pinned + ALL, 0, ALL);
    /* In one order to the device, in the other back. */
    for (size_t i = 0; i < PAIRS; i++) {
        size_t at = i * EACH;
        unsigned char *there = device + at + (i % 2 ? 0 : ALL);

        in[i] = (leat_copy_op){there, (i % 3 ? pinned : host_in) + at, EACH};
        out[PAIRS - 1 - i] = (leat_copy_op){(i % 5 ? pinned + ALL : host_out) + at, there, EACH};
    }
    STEP(leat_copy_batch(w->stream, in, PAIRS));
    STEP(leat_copy_batch(w->stream, out, PAIRS));
    STEP(leat_stream_synchronize(w->stream));
    for (size_t i = 0; i < PAIRS; i++)
        if (memcmp(in[i].src, out[PAIRS - 1 - i].dst, EACH))
            give_up("pair %zu of %d: wrong bytes without an error", i, PAIRS);
    return true;
}

/* CANCELLED is an answer here. */
static leat_status wait_cancelled(leat_ticket *ticket, leat_copy_point point)
{
    leat_status status = leat_ticket_wait(ticket, point, LEAT_FOREVER);

    return status == LEAT_ERROR_CANCELLED ? LEAT_OK : status;
}

static bool use_tickets(struct world *w)
{
    leat_copy_options options = {.size = sizeof options, .deadline_ns = UINT64_C(100000000000)};
    leat_ticket **tickets = w->tickets;
    leat_ticket_info info;

    test_pattern(host_in, LONG_BYTES, 30);
    memset(host_out, 0, LONG_BYTES);
    STEP(leat_launch_host(w->stream, count_slowly, &w->host_calls));
    STEP(leat_copy_start(w->stream, w->plain, host_in, LONG_BYTES, &options, &tickets[0]));
    STEP(leat_copy_start(w->stream, host_out, w->plain, LONG_BYTES, NULL, &tickets[1]));
    STEP(leat_copy_start(w->stream, w->pinned, w->plain, LONG_BYTES, NULL, &tickets[2]));
    STEP(leat_ticket_query(tickets[0], &info));
    STEP(leat_ticket_wait(tickets[0], LEAT_COPY_STAGED, LEAT_FOREVER));
    memset(host_in, 0, LONG_BYTES);
    STEP(leat_ticket_wait(tickets[2], LEAT_COPY_DONE, LEAT_FOREVER));
    STEP(leat_ticket_wait(tickets[1], LEAT_COPY_DONE, LEAT_FOREVER));
    STEP(leat_ticket_query(tickets[1], &info));
    STEP(info.status);
    if (!info.done || info.arrived_bytes != LONG_BYTES)
        give_up("a copy that was waited for has %llu bytes", (unsigned long long)info.arrived_bytes);
    expect_bytes(host_out, LONG_BYTES, 30, "tickets");
    expect_bytes(w->pinned, LONG_BYTES, 30, "tickets, to pinned memory");
    /* Small ones, which need no thread. */
    STEP(leat_copy_start(w->stream, w->plain, host_in, 100, NULL, &tickets[3]));
    STEP(leat_copy_start(w->stream, host_out, w->plain, 100, NULL, &tickets[4]));
    STEP(leat_ticket_wait(tickets[3], LEAT_COPY_STAGED, LEAT_FOREVER));
    STEP(leat_ticket_wait(tickets[4], LEAT_COPY_DONE, LEAT_FOREVER));
    if (host_out[0] || memcmp(host_out, host_out + 1, 99))
        give_up("small copies with tickets: wrong bytes without an error");
    STEP(leat_launch_host(w->stream, count_slowly, &w->host_calls));
    STEP(leat_copy_start(w->stream, w->plain, host_in, LONG_BYTES, NULL, &tickets[5]));
    STEP(leat_copy_start(w->stream, host_out, w->plain, LONG_BYTES, NULL, &tickets[6]));
    STEP(leat_ticket_cancel(tickets[5]));
    STEP(leat_ticket_cancel(tickets[6]));
    STEP(wait_cancelled(tickets[5], LEAT_COPY_STAGED));
    STEP(wait_cancelled(tickets[6], LEAT_COPY_DONE));
    return true;
}

/* Through a file, from and to both sorts of memory. */
static bool copy_files(struct world *w)
{
    memset(host_out, 0, LONG_BYTES);
    memset(w->pinned, 0, LONG_BYTES);
    test_pattern(host_in, LONG_BYTES, 80);
    STEP(leat_copy(w->stream, w->plain, host_in, LONG_BYTES));
    STEP(leat_file_write(w->stream, walk_file, 0, w->plain, LONG_BYTES));
    STEP(leat_fill(w->stream, w->plain, 0, LONG_BYTES));
    STEP(leat_file_read(w->stream, w->plain, walk_file, 0, LONG_BYTES));
    STEP(leat_file_read(w->stream, host_out, walk_file, 0, LONG_BYTES));
    STEP(leat_copy(w->stream, w->pinned, w->plain, LONG_BYTES));
    STEP(leat_stream_synchronize(w->stream));
    expect_bytes(w->pinned, LONG_BYTES, 80, "a file, to the device");
    expect_bytes(host_out, LONG_BYTES, 80, "a file, to the host");
    return true;
}

/* A stream ends while copies of its are on their way, short ones and long ones. */
static bool end_a_stream_that_copies(struct world *w)
{
    leat_stream *gone = NULL;
    bool given;

    test_pattern(host_in, LONG_BYTES, 40);
    memset(host_out, 0, LONG_BYTES);
    STEP(leat_stream_create(w->device, &gone));
    given = keep(w, "short", leat_copy(gone, w->plain, host_in, 100)) == LEAT_OK &&
            keep(w, "slow", leat_launch_host(gone, count_slowly, &w->host_calls)) == LEAT_OK &&
            keep(w, "in", leat_copy(gone, w->plain, host_in, LONG_BYTES)) == LEAT_OK &&
            keep(w, "out", leat_copy(gone, host_out, w->plain, LONG_BYTES)) == LEAT_OK;
    END(leat_stream_destroy(gone));
    if (!given || w->failed)
        return false;
    STEP(leat_device_synchronize(w->device));
    expect_bytes(host_out, LONG_BYTES, 40, "a stream that ended");
    return true;
}

/* The device stages as before. */
static void copies_must_work(leat_device *device)
{
    leat_stream *stream;
    void *memory;
    bool good;

    test_pattern(host_in, LONG_BYTES, 50);
    memset(host_out, 0, LONG_BYTES);
    good = leat_stream_create(device, &stream) == LEAT_OK && leat_alloc(stream, LONG_BYTES, &memory) == LEAT_OK &&
           leat_copy(stream, memory, host_in, LONG_BYTES) == LEAT_OK &&
           leat_copy_sync(stream, host_out, memory, LONG_BYTES) == LEAT_OK &&
           leat_free(stream, memory) == LEAT_OK && leat_stream_synchronize(stream) == LEAT_OK &&
           leat_stream_destroy(stream) == LEAT_OK;
    if (!good)
        give_up("the device does not copy any more: %s", leat_last_error());
    expect_bytes(host_out, LONG_BYTES, 50, "after the failure");
}

static void free_tickets(struct world *w)
{
    for (int i = 0; i < TICKETS; i++)
        if (w->tickets[i])
            END(leat_ticket_free(w->tickets[i]));
}

static void copy_scenario(struct world *w)
{
    if (open_for_copies(w) && copy_both_ways(w) && copy_in_order(w) && use_tickets(w) && copy_regions(w) &&
        copy_layouts(w) && copy_ops(w) && copy_files(w))
        end_a_stream_that_copies(w);
    if (w->device)
        FREE(leat_device_synchronize(w->device));
    if (w->other)
        FREE(leat_device_synchronize(w->other));
    free_tickets(w);
    if (w->device && leati_fault_fired(wrapper))
        copies_must_work(w->device);
    FREE(leat_memory_free(w->plain));
    FREE(leat_memory_free(w->pinned));
    FREE(leat_memory_free(w->far));
    END(leat_event_destroy(w->end));
    END(leat_stream_destroy(w->far_stream));
    END(leat_stream_destroy(w->second));
    END(leat_stream_destroy(w->stream));
    END(leat_device_close(w->other));
    END(leat_device_close(w->device));
}

/* Devices are closed with copies on their way. Nobody but the close waits for them. */
static void lazy_copy_scenario(struct world *w)
{
    bool given = false;

    if (open_for_copies(w)) {
        test_pattern(host_in, LONG_BYTES, 60);
        memset(host_out, 0, LONG_BYTES);
        given = keep(w, "short", leat_copy(w->stream, w->plain, host_in, 100)) == LEAT_OK &&
                keep(w, "slow", leat_launch_host(w->stream, count_slowly, &w->host_calls)) == LEAT_OK &&
                keep(w, "in", leat_copy(w->stream, w->plain, host_in, LONG_BYTES)) == LEAT_OK &&
                keep(w, "out", leat_copy_start(w->stream, host_out, w->plain, LONG_BYTES, NULL, &w->tickets[0])) ==
                    LEAT_OK;
    }
    END(leat_device_close(w->other));
    END(leat_device_close(w->device));
    if (given && !w->failed)
        expect_bytes(host_out, LONG_BYTES, 60, "a device that was closed");
    /* It outlives its device, or went with it. */
    if (w->tickets[0])
        (void)leat_ticket_free(w->tickets[0]);
}

/* ---- entries by themselves -------------------------------------------------------------------- */

/* Virtual memory, by the table. Everything that was made is given back, in any case. */
static void table_scenario(struct world *w)
{
    const struct leati_driver_ops *ops = wrapper->ops;
    uint64_t handle = 0, imported = 0;
    bool reserved, created = false, have_import = false, mapped = false;
    void *device = NULL, *place = NULL;
    size_t bytes = 0;
    int fd = -1;

    if (!ops->vm_reserve)
        return;
    if (keep(w, "device_open", ops->device_open(wrapper, device_info.ordinal, NULL, &device)) != LEAT_OK)
        return;
    reserved = keep(w, "vm_granularity", ops->vm_granularity(wrapper, device, &bytes)) == LEAT_OK &&
               keep(w, "vm_reserve", ops->vm_reserve(wrapper, device, bytes, &place)) == LEAT_OK;
    if (reserved)
        created = keep(w, "vm_create", ops->vm_create(wrapper, device, bytes, true, &handle)) == LEAT_OK;
    if (created)
        mapped = keep(w, "vm_map", ops->vm_map(wrapper, device, place, bytes, handle)) == LEAT_OK;
    if (mapped)
        keep(w, "vm_set_access", ops->vm_set_access(wrapper, device, place, bytes));
    if (mapped && ops->vm_set_rights) {
        struct leati_right right = {.device = device, .access = LEAT_ACCESS_READ};

        keep(w, "vm_set_rights", ops->vm_set_rights(wrapper, device, place, bytes, &right, 1));
    }
    if (created && keep(w, "vm_export", ops->vm_export(wrapper, device, handle, &fd)) == LEAT_OK)
        have_import = keep(w, "vm_import", ops->vm_import(wrapper, device, fd, bytes, &imported)) == LEAT_OK;
    if (fd >= 0)
        close(fd);
    if (have_import)
        keep(w, "vm_release", ops->vm_release(wrapper, device, imported));
    if (mapped)
        keep(w, "vm_unmap", ops->vm_unmap(wrapper, device, place, bytes));
    if (created)
        keep(w, "vm_release", ops->vm_release(wrapper, device, handle));
    if (reserved)
        keep(w, "vm_unreserve", ops->vm_unreserve(wrapper, device, place, bytes));
    keep(w, "device_close", ops->device_close(wrapper, device));
}

/* The same by the public calls. What a run has made when it fails, the close of the device ends. */
static bool use_addresses(struct world *w, leat_physical **memory)
{
    leat_physical *retained;
    leat_access access;
    size_t unit_bytes;
    void *base;

    STEP(leat_virtual_granularity(w->device, &unit_bytes));
    STEP(leat_virtual_reserve(w->device, 2 * unit_bytes, 4 * unit_bytes, &base));
    STEP(leat_physical_create(w->device, unit_bytes, LEAT_PHYSICAL_EXPORTABLE, &memory[0]));
    STEP(leat_physical_export(memory[0], &w->fd));
    STEP(leat_physical_import(w->device, w->fd, unit_bytes, &memory[1]));
    STEP(leat_virtual_map(base, unit_bytes, memory[0]));
    STEP(leat_virtual_map((char *)base + unit_bytes, unit_bytes, memory[1]));
    STEP(leat_virtual_set_access(base, 2 * unit_bytes, w->device, LEAT_ACCESS_READ_WRITE));
    STEP(leat_virtual_get_access(base, w->device, &access));
    STEP(leat_physical_retain(base, &retained));
    STEP(leat_physical_release(retained));
    STEP(leat_fill(w->stream, base, 5, 2 * unit_bytes));
    STEP(leat_stream_synchronize(w->stream));
    STEP(leat_virtual_unmap(base, 2 * unit_bytes));
    STEP(leat_physical_release(memory[1]));
    STEP(leat_physical_release(memory[0]));
    STEP(leat_virtual_unreserve(base));
    return true;
}

static void virtual_scenario(struct world *w)
{
    leat_physical *memory[2] = {NULL, NULL};

    w->fd = -1;
    if (!wrapper->ops->vm_reserve)
        return;
    if (keep(w, "leat_device_open", leat_device_open(test_device_name(), &w->device)) != LEAT_OK)
        return;
    if (keep(w, "leat_stream_create", leat_stream_create(w->device, &w->stream)) == LEAT_OK)
        use_addresses(w, memory);
    if (w->fd >= 0)
        close(w->fd);
    END(leat_device_close(w->device));
}

/* ---- the walk --------------------------------------------------------------------------------- */

static unsigned open_files(void)
{
    DIR *folder = opendir("/proc/self/fd");
    unsigned count = 0;

    if (!folder)
        give_up("no /proc/self/fd");
    while (readdir(folder))
        count++;
    closedir(folder);
    return count;
}

/*
 * Did leat have a reason to keep quiet? The question how much memory is free only makes a message longer; fewer
 * addresses do as well, and so does memory that the driver pins itself; and where a stream's own mark cannot be
 * put, its end waits. Of the user's events another scenario is, in which leat has none of its own. Pools have more
 * such ways, and so have copies of pageable memory; that they work is looked at.
 */
static bool may_be_silent(void)
{
    static const char *const entries[] = {"device_memory",       "vm_reserve",   "host_register",
                                          "host_device_pointer", "stream_query", "event_create",
                                          "event_record",        "event_query",  "event_destroy"};
    size_t count = now.without_memory ? 1 : sizeof entries / sizeof entries[0];

    for (size_t i = 0; i < count; i++)
        if (!strcmp(now.entry, entries[i]))
            return true;
    return now.of_pools || now.of_copies;
}

/* Memory that a driver will not free is still there, and the end of a pool or of a device does not try again. */
static bool may_leak(void)
{
    return now.entry && (!strcmp(now.entry, "mem_free") || !strcmp(now.entry, "host_free") ||
                         !strcmp(now.entry, "host_unregister"));
}

/* One run; true when the fault happened. */
static bool run_once(void (*scenario)(struct world *), enum leati_fault_mode mode, bool leaks_allowed)
{
    uint64_t live = leati_fault_live(wrapper);
    unsigned files = open_files();
    struct world w;
    leat_device *device;
    bool fired;

    memset(&w, 0, sizeof w);
    now.entry = NULL;
    alarm(RUN_SECONDS);
    leati_fault_arm(wrapper, mode, NULL, now.n);
    scenario(&w);
    fired = leati_fault_fired(wrapper);
    now.entry = leati_fault_entry(wrapper);
    leati_fault_arm(wrapper, LEATI_FAULT_NONE, NULL, 0);
    if (mode == LEATI_FAULT_FAIL && fired && !w.fault_was_said && !may_be_silent())
        give_up("no call said so; the first error is: %s", w.failed ? w.message : "none");
    if ((mode != LEATI_FAULT_FAIL || !fired) && w.failed)
        give_up("%s failed by itself: %s", w.call, w.message);
    if (!leaks_allowed && !may_leak() && leati_fault_live(wrapper) != live)
        give_up("%llu things are left over", (unsigned long long)(leati_fault_live(wrapper) - live));
    if (leati_fault_live(wrapper) == live && open_files() != files)
        give_up("%u files were open before and %u are now", files, open_files());
    if (leat_device_open(test_device_name(), &device) != LEAT_OK)
        give_up("the device cannot be opened any more: %s", leat_last_error());
    must_work(device, &w);
    if (leat_device_close(device) != LEAT_OK)
        give_up("the device cannot be closed: %s", leat_last_error());
    alarm(0);
    return fired;
}

static void walk(const char *name, void (*scenario)(struct world *))
{
    now.scenario = name;
    now.n = 0;
    do {
        now.n++;
    } while (
        run_once(scenario, LEATI_FAULT_FAIL,
                 scenario == lazy_scenario || scenario == lazy_pool_scenario || scenario == lazy_copy_scenario));
    printf("fault_walk: %s: each of %llu driver calls was made to fail\n", name, (unsigned long long)now.n - 1);
    fflush(stdout);
}

/* A call that takes longer changes nothing. Every few calls are enough. */
static void walk_delays(const char *name, void (*scenario)(struct world *), uint64_t stride)
{
    unsigned runs = 0;

    now.scenario = name;
    for (now.n = 1; run_once(scenario, LEATI_FAULT_DELAY, false); now.n += stride)
        runs++;
    printf("fault_walk: %s: %u of %llu driver calls took longer\n", name, runs, (unsigned long long)now.n - 1);
}

static void walk_pools(void)
{
    static const struct {
        const char *name, *lazy_name;
        leat_pool_options options;
    } sorts[] = {
        {"a device pool", "a device pool, left to the close", {.limit_bytes = 12 * MIB, .reuse = LEAT_POOL_WAIT}},
        {"a pool that waits last", NULL, {.limit_bytes = 12 * MIB}},
        {"a pool that never waits", NULL, {.reuse = LEAT_POOL_WAIT_NEVER, .scrub = 1}},
        {"a plain pool", "a plain pool, left to the close", {.no_virtual_memory = 1, .reuse = LEAT_POOL_WAIT}},
        {"a pinned pool", "a pinned pool, left to the close", {.kind = LEAT_KIND_PINNED}},
        {"a managed pool", NULL, {.kind = LEAT_KIND_MANAGED}},
        {"a pool of single handles",
         "a pool of single handles, left to the close",
         {.dedicated = 1, .exportable = 1}},
        {"a guarded pool", NULL, {.guard = 1}},
    };

    now.of_pools = true;
    for (size_t i = 0; i < sizeof sorts / sizeof sorts[0]; i++) {
        if ((sorts[i].options.dedicated && !device_info.virtual_memory) ||
            (sorts[i].options.kind == LEAT_KIND_MANAGED && !device_info.managed_memory))
            continue;
        now.pool = sorts[i].options;
        now.pool.size = sizeof now.pool;
        walk(sorts[i].name, pool_scenario);
        if (sorts[i].lazy_name)
            walk(sorts[i].lazy_name, lazy_pool_scenario);
        if (i == 0)
            walk_delays(sorts[i].name, pool_scenario, 7);
    }
    now.of_pools = false;
}

/* A file in memory, so that nothing stays behind. */
static void open_walk_file(void)
{
    int fd = memfd_create("fault_walk", MFD_CLOEXEC);
    char path[40];

    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    if (fd < 0 || leat_file_open(path, LEAT_FILE_READ | LEAT_FILE_WRITE, &walk_file) != LEAT_OK)
        give_up("no file to copy to: %s", leat_last_error());
    close(fd);
}

static void walk_copies(void)
{
    open_walk_file();
    now.of_copies = true;
    walk("pageable memory", copy_scenario);
    walk("pageable memory, left to the close", lazy_copy_scenario);
    walk_delays("pageable memory", copy_scenario, 7);
    now.of_copies = false;
    if (leat_file_close(walk_file) != LEAT_OK)
        give_up("the file cannot be closed: %s", leat_last_error());
}

/* One device has no peer. */
static bool needs_two_devices(const char *entry)
{
    return !strcmp(entry, "peer_enable");
}

/* Every entry that the driver has must have been called. */
static void check_visits(void)
{
    struct leati_fault_visit visit;
    unsigned missed = 0, absent = 0, visited = 0;

    for (unsigned i = 0; leati_fault_visited(wrapper, i, &visit); i++) {
        if (!visit.present) {
            absent++;
            printf("fault_walk: the driver has no %s\n", visit.entry);
        } else if (!visit.calls && wrapper->device_count < 2 && needs_two_devices(visit.entry)) {
            absent++;
            printf("fault_walk: %s needs two devices\n", visit.entry);
        } else if (!visit.calls) {
            missed++;
            printf("fault_walk: %s was never called\n", visit.entry);
        } else {
            visited++;
        }
    }
    printf("fault_walk: %u entries visited, %u not there\n", visited, absent);
    if (missed)
        give_up("%u entries of the driver were never called", missed);
}

/* ---- loading, which happens once per process ---------------------------------------------------- */

/* In the child, with LEAT_FAULT=fail=load:1. */
static int fail_to_load(void)
{
    leat_driver_info info;
    leat_device *device;

    if (leat_device_open(test_device_name(), &device) != LEAT_ERROR_DRIVER)
        return 2;
    if (!strstr(leat_last_error(), "fault driver: call 1 (load)"))
        return 3;
    if (leat_driver_list(0, &info) != LEAT_OK || info.status != LEAT_ERROR_DRIVER || info.device_count)
        return 4;
    return strstr(info.reason, "fault driver") ? 42 : 5;
}

static void walk_load(void)
{
    int status;
    pid_t child = fork();

    if (child < 0)
        give_up("no child process");
    if (child == 0) {
        setenv("LEAT_FAULT", "fail=load:1", 1);
        execl("/proc/self/exe", "fault_walk", "--load", (char *)NULL);
        _exit(126);
    }
    now.scenario = "loading";
    if (waitpid(child, &status, 0) != child || !WIFEXITED(status) || WEXITSTATUS(status) != 42)
        give_up("the child ended with wait status 0x%x", (unsigned)status);
    printf("fault_walk: loading failed as it should\n");
}

static void find_wrapper(void)
{
    struct leati_driver *driver;
    leat_device *device;

    if (leat_device_open(test_device_name(), &device) != LEAT_OK ||
        leat_device_query(device, &device_info) != LEAT_OK || leat_device_close(device) != LEAT_OK) {
        fprintf(stderr, "fault_walk: %s\n", leat_last_error());
        exit(77);
    }
    for (unsigned i = 0; (driver = leati_registry_driver(i, NULL, NULL)); i++)
        if (!strcmp(driver->name, device_info.driver))
            wrapper = driver;
}

/* FAULT_WALK_HOLD=1: the driver has the device open all the while, so that a GPU's context is not made anew for
 * each run. Without it runs begin and end contexts too, and what they leave behind goes with those. */
static void *hold_device(void)
{
    void *held = NULL;

    if (getenv("FAULT_WALK_HOLD") && !strcmp(getenv("FAULT_WALK_HOLD"), "1") &&
        wrapper->ops->device_open(wrapper, device_info.ordinal, NULL, &held) != LEAT_OK)
        give_up("the device cannot be held: %s", leat_last_error());
    return held;
}

int main(int argc, char **argv)
{
    char driver[16];
    void *held;

    /* Before the first call of leat, which reads them. */
    snprintf(driver, sizeof driver, "%.*s", (int)strcspn(test_device_name(), ":"), test_device_name());
    setenv("LEAT_DRIVERS", driver, 0);
    if (argc == 2 && !strcmp(argv[1], "--load"))
        return fail_to_load();
    setenv("LEAT_FAULT", "none", 1);
    setenv("LEAT_COPY_STAGE", "1", 0);
    setenv("LEAT_COPY_RING", "256K", 0);
    setenv("LEAT_COPY_WORKERS", "2", 0);
    /* Prefetches in one direction go in chunks, in the other by one call. */
    setenv("LEAT_PREFETCH_STREAMS_OUT", "2", 0);
    setenv("LEAT_PREFETCH_CHUNK", "64K", 0);
    setenv("LEAT_LAYOUT_AS_GPU", "1", 0);
    /* Nothing is measured at each first use. */
    setenv("LEAT_COPY_STORE_POLICY", "cached", 0);
    signal(SIGALRM, on_alarm);
    find_wrapper();
    held = hold_device();
    now.without_memory = true;
    walk("streams and events", order_scenario);
    now.without_memory = false;
    walk("everything, given back", public_scenario);
    walk("everything, left to the close", lazy_scenario);
    walk("virtual memory", table_scenario);
    walk("virtual memory, public", virtual_scenario);
    if (device_info.managed_memory)
        walk("managed memory", managed_scenario);
    walk_delays("everything, given back", public_scenario, 7);
    walk_copies();
    /* "0": without pools, which lie above every driver and take the most time. */
    if (!getenv("FAULT_WALK_POOLS") || strcmp(getenv("FAULT_WALK_POOLS"), "0") != 0) {
        walk_pools();
        check_visits();
    }
    if (held && wrapper->ops->device_close(wrapper, held) != LEAT_OK)
        give_up("the device that was held cannot be closed: %s", leat_last_error());
    walk_load();
    return 0;
}
