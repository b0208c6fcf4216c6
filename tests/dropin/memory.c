/*
 * memory.c - a program for the CUDA driver, which allocates device memory in every form and prints what it sees.
 * tests/cli/cli_run_pool.sh runs it with and without "leat run --pool" and compares the output. It contains
 * nothing about leat, and prints no addresses.
 *
 * memory WAY SCENE [COUNT]: WAY is how it reaches the driver's functions: dlsym, thread (dlsym of the functions
 * for per-thread default streams), proc or proc_thread (cuGetProcAddress); SCENE what it does. The scene "rates"
 * prints times of COUNT allocations, which differ.
 */
#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define MIB ((size_t)1 << 20)

typedef int result_t;
typedef uint64_t address_t;
typedef void *handle_t;

/* X(field, base name, exported name, the same for per-thread default streams, CUDA version, parameters) */
// clang-format off
#define MEMORY_LIST(X) \
    X(init, cuInit, cuInit, cuInit, 2000, (unsigned)) \
    X(retain, cuDevicePrimaryCtxRetain, cuDevicePrimaryCtxRetain, cuDevicePrimaryCtxRetain, 7000, (handle_t *, int)) \
    X(release, cuDevicePrimaryCtxRelease, cuDevicePrimaryCtxRelease_v2, cuDevicePrimaryCtxRelease_v2, 11000, (int)) \
    X(reset, cuDevicePrimaryCtxReset, cuDevicePrimaryCtxReset_v2, cuDevicePrimaryCtxReset_v2, 11000, (int)) \
    X(alloc, cuMemAlloc, cuMemAlloc_v2, cuMemAlloc_v2, 3020, (address_t *, size_t)) \
    X(alloc_pitch, cuMemAllocPitch, cuMemAllocPitch_v2, cuMemAllocPitch_v2, 3020, (address_t *, size_t *, size_t, size_t, unsigned)) \
    X(drop, cuMemFree, cuMemFree_v2, cuMemFree_v2, 3020, (address_t)) \
    X(alloc_async, cuMemAllocAsync, cuMemAllocAsync, cuMemAllocAsync_ptsz, 11020, (address_t *, size_t, handle_t)) \
    X(alloc_from, cuMemAllocFromPoolAsync, cuMemAllocFromPoolAsync, cuMemAllocFromPoolAsync_ptsz, 11020, (address_t *, size_t, handle_t, handle_t)) \
    X(drop_async, cuMemFreeAsync, cuMemFreeAsync, cuMemFreeAsync_ptsz, 11020, (address_t, handle_t)) \
    X(info, cuMemGetInfo, cuMemGetInfo_v2, cuMemGetInfo_v2, 3020, (size_t *, size_t *)) \
    X(range, cuMemGetAddressRange, cuMemGetAddressRange_v2, cuMemGetAddressRange_v2, 3020, (address_t *, size_t *, address_t)) \
    X(attribute, cuPointerGetAttribute, cuPointerGetAttribute, cuPointerGetAttribute, 4000, (void *, int, address_t)) \
    X(attributes, cuPointerGetAttributes, cuPointerGetAttributes, cuPointerGetAttributes, 7000, (unsigned, int *, void **, address_t)) \
    X(set_attribute, cuPointerSetAttribute, cuPointerSetAttribute, cuPointerSetAttribute, 6000, (const void *, int, address_t)) \
    X(ipc_handle, cuIpcGetMemHandle, cuIpcGetMemHandle, cuIpcGetMemHandle, 4010, (void *, address_t)) \
    X(pool_get, cuMemPoolGetAttribute, cuMemPoolGetAttribute, cuMemPoolGetAttribute, 11020, (handle_t, int, void *)) \
    X(pool_set, cuMemPoolSetAttribute, cuMemPoolSetAttribute, cuMemPoolSetAttribute, 11020, (handle_t, int, void *)) \
    X(pool_trim, cuMemPoolTrimTo, cuMemPoolTrimTo, cuMemPoolTrimTo, 11020, (handle_t, size_t)) \
    X(stream_destroy, cuStreamDestroy, cuStreamDestroy_v2, cuStreamDestroy_v2, 4000, (handle_t)) \
    X(begin_capture, cuStreamBeginCapture, cuStreamBeginCapture_v2, cuStreamBeginCapture_v2, 10010, (handle_t, unsigned)) \
    X(end_capture, cuStreamEndCapture, cuStreamEndCapture, cuStreamEndCapture, 10000, (handle_t, void **))

/* Functions that libleat-run does not replace with --pool alone. */
#define OTHER_LIST(X) \
    X(push, cuCtxPushCurrent_v2, cuCtxPushCurrent_v2, (handle_t)) \
    X(pop, cuCtxPopCurrent_v2, cuCtxPopCurrent_v2, (handle_t *)) \
    X(default_pool, cuDeviceGetDefaultMemPool, cuDeviceGetDefaultMemPool, (handle_t *, int)) \
    X(pool, cuDeviceGetMemPool, cuDeviceGetMemPool, (handle_t *, int)) \
    X(set_pool, cuDeviceSetMemPool, cuDeviceSetMemPool, (int, handle_t)) \
    X(pool_create, cuMemPoolCreate, cuMemPoolCreate, (handle_t *, const void *)) \
    X(pool_destroy, cuMemPoolDestroy, cuMemPoolDestroy, (handle_t)) \
    X(in, cuMemcpyHtoDAsync_v2, cuMemcpyHtoDAsync_v2_ptsz, (address_t, const void *, size_t, handle_t)) \
    X(out, cuMemcpyDtoHAsync_v2, cuMemcpyDtoHAsync_v2_ptsz, (void *, address_t, size_t, handle_t)) \
    X(alloc_host, cuMemHostAlloc, cuMemHostAlloc, (void **, size_t, unsigned)) \
    X(free_host, cuMemFreeHost, cuMemFreeHost, (void *)) \
    X(stream_create, cuStreamCreate, cuStreamCreate, (handle_t *, unsigned)) \
    X(stream_synchronize, cuStreamSynchronize, cuStreamSynchronize, (handle_t)) \
    X(launch_host, cuLaunchHostFunc, cuLaunchHostFunc, (handle_t, void (*)(void *), void *)) \
    X(event_create, cuEventCreate, cuEventCreate, (handle_t *, unsigned)) \
    X(event_record, cuEventRecord, cuEventRecord, (handle_t, handle_t)) \
    X(stream_wait, cuStreamWaitEvent, cuStreamWaitEvent, (handle_t, handle_t, unsigned)) \
    X(synchronize, cuCtxSynchronize, cuCtxSynchronize, (void))
// clang-format on

static struct {
#define FIELD(field, base, symbol, twin, version, parameters) result_t(*field) parameters;
    MEMORY_LIST(FIELD)
#undef FIELD
#define FIELD(field, symbol, twin, parameters) result_t(*field) parameters;
    OTHER_LIST(FIELD)
#undef FIELD
} cuda;

static void *library;
static void *(*fake_context)(int); /* only the fake driver has these three */
static void (*fake_hold)(int, void *, int);
static void (*fake_fail)(unsigned, unsigned);
static bool per_thread, by_lookup;
static handle_t context;
static int (*lookup)(const char *, void **, int, uint64_t, int *);

static void *find(const char *symbol, const char *twin)
{
    void *found = dlsym(library, per_thread ? twin : symbol);

    if (!found)
        found = dlsym(library, symbol);
    if (!found) {
        printf("no %s\n", symbol);
        exit(1);
    }
    return found;
}

static void *look_up(const char *base, const char *symbol, const char *twin, int version)
{
    void *found = NULL;
    int why = -1;

    if (!by_lookup)
        return find(symbol, twin);
    if (lookup(base, &found, version, per_thread ? 2 : 0, &why) != 0 || why != 0 || !found) {
        printf("no %s\n", base);
        exit(1);
    }
    return found;
}

static void load(void)
{
    void *symbol;

    library = dlopen("libcuda.so.1", RTLD_NOW);
    if (!library) {
        printf("%s\n", dlerror());
        exit(1);
    }
    symbol = find("cuGetProcAddress_v2", "cuGetProcAddress_v2");
    memcpy(&lookup, &symbol, sizeof symbol);
#define TAKE(field, base, symbol_name, twin, version, parameters)                                                 \
    symbol = look_up(#base, #symbol_name, #twin, version);                                                        \
    memcpy(&cuda.field, &symbol, sizeof symbol);
    MEMORY_LIST(TAKE)
#undef TAKE
#define TAKE(field, symbol_name, twin, parameters)                                                                \
    symbol = find(#symbol_name, #twin);                                                                           \
    memcpy(&cuda.field, &symbol, sizeof symbol);
    OTHER_LIST(TAKE)
#undef TAKE
    symbol = dlsym(library, "fake_cuda_context");
    memcpy(&fake_context, &symbol, sizeof symbol);
    symbol = dlsym(library, "fake_hold");
    memcpy(&fake_hold, &symbol, sizeof symbol);
    symbol = dlsym(library, "fake_fail");
    memcpy(&fake_fail, &symbol, sizeof symbol);
}

static void start(void)
{
    load();
    printf("init %d\n", cuda.init(0));
    printf("retain %d\n", cuda.retain(&context, 0));
    printf("push %d\n", cuda.push(context));
}

/* ---- helpers ---- */

static void paint(unsigned char *memory, size_t bytes, unsigned seed)
{
    for (size_t i = 0; i < bytes; i++)
        memory[i] = (unsigned char)((i * 2654435761u >> 11) + seed * 37 + i);
}

static bool is_painted(const unsigned char *memory, size_t bytes, unsigned seed)
{
    for (size_t i = 0; i < bytes; i++)
        if (memory[i] != (unsigned char)((i * 2654435761u >> 11) + seed * 37 + i))
            return false;
    return true;
}

static void *pinned(size_t bytes)
{
    void *memory = NULL;

    result_t code = cuda.alloc_host(&memory, bytes, 0);

    if (code != 0) {
        printf("no pinned memory: %d\n", code);
        exit(1);
    }
    return memory;
}

/* The default stream that a copy of the program means by NULL. */
static handle_t named(handle_t stream)
{
    return stream ? stream : (handle_t)(uintptr_t)(per_thread ? 2 : 1);
}

static void check_bytes(const char *what, address_t there, size_t bytes, handle_t stream, unsigned seed)
{
    unsigned char *from = pinned(bytes), *to = pinned(bytes);
    result_t in, out, waited;

    paint(from, bytes, seed);
    memset(to, 0, bytes);
    in = cuda.in(there, from, bytes, stream);
    out = cuda.out(to, there, bytes, stream);
    waited = cuda.stream_synchronize(named(stream));
    printf("%s: in %d out %d synchronize %d right %d\n", what, in, out, waited, is_painted(to, bytes, seed));
    (void)cuda.free_host(from);
    (void)cuda.free_host(to);
}

/* Prints what the driver says about an address. */
static void describe(const char *what, address_t ptr, address_t base, handle_t default_pool)
{
    int wanted[] = {2, 9, 10, 11, 12, 17, 7};
    uint64_t type = 0, ipc = 0, id = 0, alone = 0;
    int ordinal = -1;
    address_t start = 0, of_range = 0;
    size_t bytes = 0, range_bytes = 0;
    handle_t pool = NULL, alone_pool = NULL, of = NULL;
    void *values[] = {&type, &ordinal, &ipc, &start, &bytes, &pool, &id};
    result_t code;

    code = cuda.range(&of_range, &range_bytes, ptr);
    printf("%s: range %d %d %zu", what, code, of_range == base, range_bytes);
    printf(" attributes %d", cuda.attributes(7, wanted, values, ptr));
    printf(" %d %d %d %d %zu", (int)type, ordinal, (int)(ipc & 1), start == base, bytes);
    printf(" default pool %d any pool %d id %d", pool == default_pool, pool != NULL, id != 0);
    code = cuda.attribute(&alone, 12, ptr);
    printf(" alone %d %zu", code, (size_t)alone);
    code = cuda.attribute(&alone_pool, 17, ptr);
    printf(" pool %d %d", code, alone_pool == pool);
    code = cuda.attribute(&of, 1, ptr);
    printf(" context %d %d\n", code, of == context);
}

static uint64_t id_of(address_t ptr)
{
    uint64_t id = 0;

    return cuda.attribute(&id, 7, ptr) == 0 ? id : 0;
}

/* ---- scenes ---- */

static const size_t sizes[] = {1, 4096, 100000, 2 * MIB, 3 * MIB + 12345, 8 * MIB};

#define SIZES (sizeof sizes / sizeof sizes[0])

/* Properties of a pool of plain memory on device 0. */
struct pool_properties {
    int type, handles, location_type, location;
    void *security;
    size_t most_bytes;
    unsigned char reserved[64];
};

enum form { ALLOC, PITCH, ASYNC, ASYNC_DEFAULT, FROM_DEFAULT, FROM_OWN, FORMS };

static const char *const form_names[] = {
    "alloc", "pitch", "async", "async on a default stream", "default pool", "a pool of its own"};

struct world {
    handle_t stream, other, own_pool, default_pool;
};

static address_t allocate(const struct world *world, enum form form, size_t bytes, result_t *code)
{
    address_t ptr = 0;
    size_t pitch = 0;

    switch (form) {
    case ALLOC:
        *code = cuda.alloc(&ptr, bytes);
        break;
    case PITCH:
        *code = cuda.alloc_pitch(&ptr, &pitch, (bytes + 9) / 10, 10, 4);
        break;
    case ASYNC:
        *code = cuda.alloc_async(&ptr, bytes, world->stream);
        break;
    case ASYNC_DEFAULT:
        *code = cuda.alloc_async(&ptr, bytes, NULL);
        break;
    case FROM_DEFAULT:
        *code = cuda.alloc_from(&ptr, bytes, world->default_pool, world->stream);
        break;
    default:
        *code = cuda.alloc_from(&ptr, bytes, world->own_pool, world->stream);
        break;
    }
    return ptr;
}

static struct world make_world(void)
{
    struct pool_properties properties = {.type = 1, .location_type = 1};
    struct world world = {0};

    printf("streams %d", cuda.stream_create(&world.stream, 1));
    printf(" %d", cuda.stream_create(&world.other, 1));
    printf(" pools %d", cuda.default_pool(&world.default_pool, 0));
    printf(" %d\n", cuda.pool_create(&world.own_pool, &properties));
    return world;
}

/* Each form of an allocation, freed by each call. */
static void forms(void)
{
    struct world world;
    char name[100];

    start();
    world = make_world();
    for (int round = 0; round < 2; round++)
        for (size_t s = 0; s < SIZES; s++)
            for (enum form form = 0; form < FORMS; form++)
                for (int by = 0; by < 3; by++) {
                    result_t code;
                    address_t ptr = allocate(&world, form, sizes[s], &code);
                    uint64_t handle[8];

                    snprintf(name, sizeof name, "%s %zu", form_names[form], sizes[s]);
                    printf("%s: %d\n", name, code);
                    if (code != 0)
                        continue;
                    cuda.stream_synchronize(world.stream);
                    if (form == ASYNC_DEFAULT)
                        cuda.stream_synchronize(named(NULL));
                    check_bytes(name, ptr, sizes[s], by == 1 ? world.stream : NULL, (unsigned)form);
                    describe(name, ptr, ptr, world.default_pool);
                    describe("inside", ptr + sizes[s] - 1, ptr, world.default_pool);
                    if (form > PITCH)
                        printf("ipc %d\n", cuda.ipc_handle(handle, ptr) != 0);
                    if (by == 0)
                        printf("free %d\n", cuda.drop(ptr));
                    else
                        printf("free async %d\n", cuda.drop_async(ptr, by == 1 ? world.stream : NULL));
                    if (by && round)
                        printf("synchronize %d\n", cuda.synchronize());
                }
    printf("no bytes %d", cuda.alloc((address_t[]){0}, 0));
    printf(" %d", cuda.alloc_async((address_t[]){0}, 0, world.stream));
    printf(" free nothing %d\n", cuda.drop(0));
    printf("pool destroy %d\n", cuda.pool_destroy(world.own_pool));
    printf("destroy %d", cuda.stream_destroy(world.stream));
    printf(" %d\n", cuda.stream_destroy(world.other));
}

/* Live allocations are apart, and each has its own id; what is freed is not freed again. */
static void live(void)
{
    enum { COUNT = 60 };
    address_t ptrs[COUNT];
    size_t bytes[COUNT];
    struct world world;
    bool apart = true, own_ids = true;

    start();
    world = make_world();
    for (int round = 0; round < 4; round++) {
        for (int i = 0; i < COUNT; i++) {
            result_t code;

            bytes[i] = sizes[(i * 7 + round) % 5];
            ptrs[i] = allocate(&world, (enum form)(i % FORMS == PITCH ? ALLOC : i % FORMS), bytes[i], &code);
            if (code != 0)
                printf("alloc %d: %d\n", i, code);
        }
        for (int i = 0; i < COUNT; i++)
            for (int j = 0; j < i; j++) {
                apart = apart && (ptrs[i] + bytes[i] <= ptrs[j] || ptrs[j] + bytes[j] <= ptrs[i]);
                own_ids = own_ids && id_of(ptrs[i]) != id_of(ptrs[j]);
            }
        for (int i = 0; i < COUNT; i++)
            if ((i + round) % 2 ? cuda.drop(ptrs[i]) : cuda.drop_async(ptrs[i], world.stream))
                printf("free %d failed\n", i);
        /* Plain memory that cuMemFree() has freed. (A driver may accept the second free of other memory.) */
        printf("again %d", cuda.drop(ptrs[round & 1 ? 0 : 1]) != 0);
        printf(" %d", cuda.drop_async(ptrs[round & 1 ? 0 : 1], world.stream) != 0);
        printf(" inside %d\n", cuda.drop(ptrs[2] + 256) != 0);
    }
    printf("apart %d own ids %d\n", apart, own_ids);
}

/* A host function that a stream waits in. Over a fake driver, the stream is held instead. */
static void rest(void *argument)
{
    (void)argument;
    if (!fake_hold)
        usleep(100000);
}

/* Memory that one stream has freed must not be used by another one before the first has done its work. */
static void order(void)
{
    unsigned char *from = pinned(4 * MIB), *other = pinned(4 * MIB), *to = pinned(4 * MIB);
    handle_t first, second, event;
    bool right = true;

    printf("create %d", cuda.stream_create(&first, 1));
    printf(" %d", cuda.stream_create(&second, 1));
    printf(" %d\n", cuda.event_create(&event, 2));
    paint(from, 4 * MIB, 1);
    paint(other, 4 * MIB, 2);
    for (int i = 0; i < 8; i++) {
        bool waits = i & 1, plain = i & 2, from_null = i & 4;
        handle_t on = from_null ? NULL : first;
        address_t ptr = 0, next = 0;
        result_t codes = 0;

        codes |= cuda.alloc_async(&ptr, 4 * MIB, on);
        codes |= cuda.in(ptr, from, 4 * MIB, on);
        memset(to, 0, 4 * MIB);
        codes |= cuda.launch_host(on, rest, NULL);
        codes |= cuda.out(to, ptr, 4 * MIB, on);
        if (plain) /* cuMemFree() does not wait for work that uses memory of a pool */
            codes |= cuda.stream_synchronize(named(on));
        codes |= plain ? cuda.drop(ptr) : cuda.drop_async(ptr, on);
        if (waits) {
            codes |= cuda.event_record(event, on);
            codes |= cuda.stream_wait(second, event, 0);
        }
        codes |= cuda.alloc_async(&next, 4 * MIB, second);
        codes |= cuda.in(next, other, 4 * MIB, second);
        codes |= cuda.stream_synchronize(second);
        codes |= cuda.stream_synchronize(named(on));
        right = right && is_painted(to, 4 * MIB, 1);
        memset(to, 0, 4 * MIB);
        codes |= cuda.out(to, next, 4 * MIB, second);
        codes |= cuda.drop_async(next, second);
        codes |= cuda.stream_synchronize(second);
        right = right && is_painted(to, 4 * MIB, 2);
        if (codes)
            printf("round %d failed\n", i);
    }
    printf("right %d\n", right);
    printf("destroy %d %d\n", cuda.stream_destroy(first), cuda.stream_destroy(second));
}

/* cuMemFree() waits for work that uses memory of cuMemAlloc(), and what it keeps may be used at once. */
static void order_plain(void)
{
    unsigned char *from = pinned(4 * MIB), *other = pinned(4 * MIB), *to = pinned(4 * MIB);
    handle_t first, second;
    bool right = true;

    cuda.stream_create(&first, 1);
    cuda.stream_create(&second, 1);
    paint(from, 4 * MIB, 1);
    paint(other, 4 * MIB, 2);
    for (int i = 0; i < 4; i++) {
        address_t ptr = 0, next = 0;
        result_t codes = 0;

        codes |= cuda.alloc(&ptr, 4 * MIB);
        codes |= cuda.in(ptr, from, 4 * MIB, first);
        memset(to, 0, 4 * MIB);
        codes |= cuda.launch_host(first, rest, NULL);
        codes |= cuda.out(to, ptr, 4 * MIB, first);
        codes |= i & 1 ? cuda.drop(ptr) : cuda.drop_async(ptr, first);
        if (i & 1)
            right = right && is_painted(to, 4 * MIB, 1);
        codes |= cuda.alloc(&next, 4 * MIB);
        codes |= cuda.in(next, other, 4 * MIB, second);
        codes |= cuda.stream_synchronize(second);
        codes |= cuda.stream_synchronize(first);
        right = right && is_painted(to, 4 * MIB, 1);
        codes |= cuda.drop(next);
        if (codes)
            printf("round %d failed\n", i);
    }
    printf("plain right %d\n", right);
}

static void orders(void)
{
    start();
    order();
    order_plain();
}

/* Allocations and frees while a stream captures. */
static void capture(void)
{
    address_t before = 0, plain = 0, during = 0, kept = 0;
    handle_t captured, alone;
    void *graph = NULL;
    struct world world;

    start();
    world = make_world();
    cuda.stream_create(&captured, 1);
    cuda.stream_create(&alone, 1);
    for (int round = 0; round < 3; round++) {
        /* What the stream has freed before it captures may still be in use by it. */
        printf("alloc %d", cuda.alloc_async(&before, 3 * MIB, captured));
        printf(" %d", cuda.alloc_async(&during, 3 * MIB, captured));
        printf(" %d", cuda.alloc(&plain, 3 * MIB));
        printf(" %d\n", cuda.alloc(&kept, 3 * MIB));
        printf("free %d", cuda.drop_async(before, captured));
        printf(" %d\n", cuda.drop(kept));
        printf("begin %d\n", cuda.begin_capture(captured, 2));
        printf("alloc %d", cuda.alloc_async(&before, 3 * MIB, alone));
        printf(" bytes later, free %d", cuda.drop_async(before, alone));
        printf(" %d\n", cuda.drop_async(during, alone));
        printf("end %d\n", cuda.end_capture(captured, &graph));
        printf("free %d\n", cuda.drop(plain));
        /* In the strictest mode a plain allocation ends the capture. */
        printf("alloc %d\n", cuda.alloc_async(&during, 3 * MIB, captured));
        printf("begin %d\n", cuda.begin_capture(captured, 0));
        printf("plain %d\n", cuda.alloc(&plain, 3 * MIB) != 0);
        printf("end %d\n", cuda.end_capture(captured, &graph) != 0);
        printf("begin %d\n", cuda.begin_capture(captured, 0));
        printf("plain free %d\n", cuda.drop(during) != 0);
        printf("end %d\n", cuda.end_capture(captured, &graph) != 0);
        printf("free %d\n", cuda.drop_async(during, alone));
        printf("alloc %d", cuda.alloc_async(&during, 3 * MIB, alone));
        check_bytes(" after a capture", during, 3 * MIB, alone, 5);
        printf("free %d\n", cuda.drop_async(during, captured));
    }
    /* A stream that ends in a capture. */
    printf("begin %d\n", cuda.begin_capture(captured, 2));
    printf("end %d\n", cuda.end_capture(captured, &graph));
    printf("destroy %d %d\n", cuda.stream_destroy(captured), cuda.stream_destroy(alone));
    printf("alloc %d", cuda.alloc_async(&during, 3 * MIB, world.stream));
    printf(" free %d\n", cuda.drop(during));
}

/* Contexts that end while memory is in use, and one of the program's own. */
static void contexts(void)
{
    handle_t popped;

    load();
    printf("init %d\n", cuda.init(0));
    for (int round = 0; round < 4; round++) {
        address_t plain = 0, pooled = 0, lost = 0, lost_async = 0;
        handle_t stream;

        printf("retain %d", cuda.retain(&context, 0));
        printf(" push %d\n", cuda.push(context));
        printf("create %d\n", cuda.stream_create(&stream, 1));
        printf("alloc %d", cuda.alloc(&lost, 3 * MIB));
        printf(" %d", cuda.alloc_async(&lost_async, 3 * MIB, stream));
        printf(" %d", cuda.alloc(&plain, 3 * MIB));
        printf(" %d\n", cuda.alloc_async(&pooled, 3 * MIB, stream));
        printf("free %d", cuda.drop(plain));
        printf(" %d\n", cuda.drop_async(pooled, stream));
        if (round & 1) {
            printf("reset %d\n", cuda.reset(0));
            printf("free %d\n", cuda.drop(lost) != 0);
            printf("pop %d", cuda.pop(&popped));
            printf(" release %d\n", cuda.release(0));
            continue;
        }
        printf("alloc %d", cuda.alloc(&plain, 3 * MIB));
        check_bytes(" plain", plain, 3 * MIB, NULL, 1);
        printf("alloc %d", cuda.alloc_async(&pooled, 3 * MIB, NULL));
        check_bytes(" async", pooled, 3 * MIB, NULL, 2);
        printf("free %d", cuda.drop(plain));
        printf(" %d\n", cuda.drop_async(pooled, NULL));
        printf("pop %d", cuda.pop(&popped));
        printf(" release %d\n", cuda.release(0));
    }
    if (fake_context) {
        address_t plain = 0, foreign = 0, pooled = 0;

        printf("retain %d", cuda.retain(&context, 0));
        printf(" push %d\n", cuda.push(context));
        printf("alloc %d", cuda.alloc(&plain, 3 * MIB));
        printf(" %d\n", cuda.alloc_async(&pooled, 3 * MIB, NULL));
        printf("push %d\n", cuda.push(fake_context(0)));
        printf("alloc %d", cuda.alloc(&foreign, 3 * MIB));
        check_bytes(" foreign", foreign, 3 * MIB, NULL, 3);
        printf("free %d", cuda.drop(foreign));
        printf(" %d", cuda.drop(plain));
        printf(" %d\n", cuda.drop(pooled));
        printf("pop %d\n", cuda.pop(&popped));
    }
}

/* Pools of the program's own, and the default pool's calls. */
static void pools(void)
{
    struct pool_properties properties = {.type = 1, .location_type = 1};
    uint64_t used = 0, reserved = 0, high = 0, threshold = UINT64_MAX, none = 0;
    handle_t own, fallback, current, stream;
    address_t ptr = 0, second = 0;
    size_t free_before = 0, free_after = 0, total = 0;

    start();
    printf("create %d", cuda.stream_create(&stream, 1));
    printf(" %d\n", cuda.pool_create(&own, &properties));
    printf("default %d", cuda.default_pool(&fallback, 0));
    printf(" current %d", cuda.pool(&current, 0));
    printf(" %d\n", current == fallback);
    printf("info %d\n", cuda.info(&free_before, &total));
    printf("alloc %d", cuda.alloc_async(&ptr, 8 * MIB, stream));
    printf(" own %d\n", cuda.alloc_from(&second, 8 * MIB, own, stream));
    describe("default", ptr, ptr, fallback);
    describe("own", second, second, fallback);
    printf("used %d", cuda.pool_get(fallback, 7, &used));
    printf(" %d", fake_hold || used >= 8 * MIB);
    printf(" reserved %d", cuda.pool_get(fallback, 5, &reserved));
    printf(" %d", fake_hold || reserved >= 8 * MIB);
    printf(" high %d", cuda.pool_get(fallback, 8, &high));
    printf(" %d\n", fake_hold || high >= 8 * MIB);
    printf("free %d", cuda.drop_async(ptr, stream));
    printf(" %d\n", cuda.drop_async(second, stream));
    printf("synchronize %d\n", cuda.stream_synchronize(stream));
    printf("used %d", cuda.pool_get(fallback, 7, &used));
    printf(" %d\n", fake_hold || used < 8 * MIB);
    printf("reset the peak %d", cuda.pool_set(fallback, 8, &none));
    printf(" threshold %d", cuda.pool_set(fallback, 4, &threshold));
    printf(" trim %d\n", cuda.pool_trim(fallback, 0));
    printf("info %d", cuda.info(&free_after, &total));
    printf(" possible %d\n", free_before <= total && free_after <= total);
    /* The program's own pool in the place of the default one. */
    printf("set %d\n", cuda.set_pool(0, own));
    printf("alloc %d\n", cuda.alloc_async(&ptr, 4 * MIB, stream));
    describe("current", ptr, ptr, fallback);
    printf("set %d\n", cuda.set_pool(0, fallback));
    printf("free %d\n", cuda.drop_async(ptr, stream));
    printf("alloc %d\n", cuda.alloc_async(&ptr, 4 * MIB, stream));
    describe("default again", ptr, ptr, fallback);
    printf("free %d\n", cuda.drop(ptr));
    printf("destroy %d\n", cuda.pool_destroy(own));
}

/* Plain memory that was shared, or has attributes, is not another allocation's later. */
static void shared(void)
{
    unsigned yes = 1, set = 0;
    uint64_t handle[8] = {0}, again[8] = {0};
    address_t ptr = 0, next = 0, base = 0;
    size_t bytes = 0;

    start();
    printf("alloc %d", cuda.alloc(&ptr, 5 * MIB));
    printf(" ipc %d", cuda.ipc_handle(handle, ptr));
    printf(" free %d\n", cuda.drop(ptr));
    printf("alloc %d", cuda.alloc(&next, 5 * MIB));
    printf(" ipc %d", cuda.ipc_handle(again, next));
    printf(" range %d", cuda.range(&base, &bytes, next + 4096));
    printf(" %d %zu", base == next, bytes);
    printf(" free %d\n", cuda.drop(next));
    printf("alloc %d", cuda.alloc(&ptr, 5 * MIB));
    if (!fake_hold) {
        printf(" set %d", cuda.set_attribute(&yes, 6, ptr));
        printf(" get %d", cuda.attribute(&set, 6, ptr));
        printf(" %u", set & 1);
    }
    printf(" free %d\n", cuda.drop(ptr));
    printf("alloc %d", cuda.alloc(&next, 5 * MIB));
    if (!fake_hold) {
        printf(" get %d", cuda.attribute(&set, 6, next));
        printf(" %u", set & 1);
    }
    printf(" free %d\n", cuda.drop(next));
}

/* A device that is almost full: what leat keeps must not make an allocation fail. */
static void full(void)
{
    static const enum form tried[] = {ALLOC, ASYNC, ALLOC, FROM_OWN, ASYNC, ALLOC, FROM_DEFAULT, PITCH, ASYNC};
    size_t free_bytes = 0, total = 0, most;
    struct world world;
    result_t code;

    start();
    world = make_world();
    printf("info %d\n", cuda.info(&free_bytes, &total));
    most = (free_bytes / 5 * 3) & ~(2 * MIB - 1);
    for (size_t i = 0; i < sizeof tried / sizeof tried[0]; i++) {
        /* Other sizes each time, so that nothing that was kept fits. */
        address_t ptr = allocate(&world, tried[i], most - i * 2 * MIB, &code);

        printf("%s: %d\n", form_names[tried[i]], code);
        if (code == 0)
            printf("free %d\n", i & 1 ? cuda.drop_async(ptr, world.stream) : cuda.drop(ptr));
        cuda.stream_synchronize(world.stream);
        /* The pool of its own keeps nothing after this wait. */
        cuda.synchronize();
    }
    for (enum form form = 0; form < FORMS; form++) {
        (void)allocate(&world, form, (size_t)1 << 46, &code);
        printf("%s of 64 TiB: %d\n", form_names[form], code);
    }
}

/* Each call that the driver gets fails once: the program then has usable memory, or none and an error. */
static void fails(void)
{
    bool fine = true;
    handle_t stream;

    address_t first = 0;

    start();
    cuda.stream_create(&stream, 1);
    printf("alloc %d", cuda.alloc_async(&first, MIB, stream));
    printf(" free %d\n", cuda.drop_async(first, stream));
    for (unsigned n = 1; n < 40; n++)
        for (int form = 0; form < 3; form++) {
            address_t ptr = 0;
            result_t code;

            fake_fail(n, n & 1 ? 2 : 999);
            code = form == 0 ? cuda.alloc(&ptr, 3 * MIB + n * 512)
                             : cuda.alloc_async(&ptr, 3 * MIB + n * 512, form == 1 ? stream : NULL);
            fake_fail(0, 0);
            fine = fine && (code == 0) == (ptr != 0);
            if (code != 0)
                continue;
            memset((void *)(uintptr_t)ptr, (int)n, 3 * MIB);
            fake_fail(n, 999);
            code = n % 3 ? cuda.drop(ptr) : cuda.drop_async(ptr, stream);
            fake_fail(0, 0);
            if (code != 0)
                fine = fine && cuda.drop(ptr) == 0;
            fine = fine && cuda.drop(ptr) == 1;
        }
    printf("fine: %d\n", fine);
}

/* ---- threads and processes ---- */

static atomic_uint next_seed = 1;

static void *work(void *argument)
{
    bool *right = argument;
    unsigned seed = atomic_fetch_add(&next_seed, 1);
    unsigned char *from, *to;
    handle_t streams[2];

    cuda.push(context);
    from = pinned(3 * MIB);
    to = pinned(3 * MIB);
    cuda.stream_create(&streams[0], 1);
    for (int i = 0; i < 60; i++) {
        size_t bytes = 1 + (size_t)((seed * 7919 + (unsigned)i * 104729) % (3 * MIB));
        handle_t stream = i % 3 == 2 ? NULL : streams[0];
        address_t ptr = 0, second = 0;
        result_t codes = 0;

        paint(from, bytes, seed + (unsigned)i);
        codes |= i % 4 == 3 ? cuda.alloc(&ptr, MIB * (1 + (size_t)i % 3)) : cuda.alloc_async(&ptr, bytes, stream);
        if (i % 4 == 3)
            bytes = MIB;
        codes |= cuda.alloc_async(&second, bytes / 2 + 1, stream);
        codes |= cuda.in(ptr, from, bytes, stream);
        codes |= cuda.drop_async(second, stream);
        codes |= cuda.out(to, ptr, bytes, stream);
        codes |= i % 5 ? cuda.drop_async(ptr, stream) : cuda.drop(ptr);
        codes |= cuda.stream_synchronize(named(stream));
        *right = *right && !codes && is_painted(to, bytes, seed + (unsigned)i);
        if (i % 20 == 19) {
            codes = cuda.stream_destroy(streams[0]) | cuda.stream_create(&streams[0], 1);
            *right = *right && !codes;
        }
    }
    return NULL;
}

/* Half of the threads begin and end streams all the time, while the others allocate in theirs. */
static void *use_streams(void *argument)
{
    static atomic_uint number;
    bool ends = atomic_fetch_add(&number, 1) % 2, *right = argument;
    handle_t streams[8];
    result_t codes = 0;
    address_t ptr = 0;

    cuda.push(context);
    for (int n = 0; n < 8; n++)
        codes |= cuda.stream_create(&streams[n], 1);
    for (int i = 0; i < 2000; i++) {
        handle_t *stream = &streams[i % 8];

        codes |= cuda.alloc_async(&ptr, 4096, *stream);
        codes |= cuda.drop_async(ptr, *stream);
        if (ends)
            codes |= cuda.stream_destroy(*stream) | cuda.stream_create(stream, 1);
    }
    *right = !codes;
    return NULL;
}

static void run_threads(void *(*run)(void *right))
{
    enum { COUNT = 6 };
    pthread_t made[COUNT];
    bool right[COUNT];

    start();
    for (int i = 0; i < COUNT; i++) {
        right[i] = true;
        pthread_create(&made[i], NULL, run, &right[i]);
    }
    for (int i = 0; i < COUNT; i++) {
        pthread_join(made[i], NULL);
        printf("thread %d: %d\n", i, right[i]);
    }
    printf("synchronize %d\n", cuda.synchronize());
}

static void threads(void)
{
    run_threads(work);
}

static void streams(void)
{
    run_threads(use_streams);
}

static address_t left, left_async;

static void *free_left(void *argument)
{
    /* Over the fake driver a thread without a current context cannot free. */
    cuda.push(context);
    printf("free in another thread %d", cuda.drop(left));
    printf(" %d\n", cuda.drop(left_async));
    return argument;
}

static void at_exit(void)
{
    printf("free at exit %d", cuda.drop(left));
    printf(" %d\n", cuda.drop_async(left_async, NULL));
    fflush(stdout);
}

static void processes(void)
{
    pthread_t thread;
    int status = 0;
    pid_t child;

    fflush(stdout);
    child = fork();
    if (child != 0)
        waitpid(child, &status, 0);
    start();
    printf("alloc %d", cuda.alloc(&left, 3 * MIB));
    printf(" %d\n", cuda.alloc_async(&left_async, 3 * MIB, NULL));
    printf("synchronize %d\n", cuda.synchronize());
    pthread_create(&thread, NULL, free_left, NULL);
    pthread_join(thread, NULL);
    printf("alloc %d", cuda.alloc(&left, 3 * MIB));
    printf(" %d\n", cuda.alloc_async(&left_async, 3 * MIB, NULL));
    fflush(stdout);
    if (child == 0)
        _exit(7);
    printf("child %d\n", WEXITSTATUS(status));
    fflush(stdout);
    child = fork();
    if (child == 0) /* only a fake driver works here */
        _exit(fake_hold || cuda.drop(left_async) != 0 ? 8 : 9);
    waitpid(child, &status, 0);
    printf("child %d\n", WEXITSTATUS(status));
    printf("synchronize %d\n", cuda.synchronize());
    atexit(at_exit);
}

/* ---- times ---- */

static int compare(const void *one, const void *other)
{
    double a = *(const double *)one, b = *(const double *)other;

    return (a > b) - (a < b);
}

static double now_us(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e6 + (double)now.tv_nsec * 1e-3;
}

/* Prints the median, the 99th percentile and the longest of the times in microseconds. */
static void show_times(const char *what, double *times, int count)
{
    qsort(times, (size_t)count, sizeof *times, compare);
    printf("%-44s %9.2f %9.2f %9.2f\n", what, times[count / 2], times[count * 99 / 100], times[count - 1]);
}

/* Allocates, fills and frees blocks of changing sizes, and synchronizes after each 8 of them. */
static void measure(const char *what, const struct world *world, int count, size_t most, bool repeat, bool async,
                    bool keeps)
{
    double *allocating = malloc(sizeof *allocating * (size_t)count),
           *freeing = malloc(sizeof *freeing * (size_t)count);
    uint64_t threshold = keeps ? UINT64_MAX : 0;
    char name[100];
    uint32_t seed = 1;

    cuda.pool_set(world->default_pool, 4, &threshold);
    for (int round = 0; round < 2; round++) { /* the first one warms up */
        for (int i = 0; i < count; i++) {
            address_t ptr = 0;
            double begun;
            result_t code;
            size_t bytes;

            seed = repeat && i % 16 == 0 ? 1 : seed * 1664525u + 1013904223u;
            bytes = (size_t)(seed >> 8) % most + 512;
            begun = now_us();
            code = async ? cuda.alloc_async(&ptr, bytes, world->stream) : cuda.alloc(&ptr, bytes);
            allocating[i] = now_us() - begun;
            begun = now_us();
            code |= async ? cuda.drop_async(ptr, world->stream) : cuda.drop(ptr);
            freeing[i] = now_us() - begun;
            if (code != 0)
                printf("%s: %d\n", what, code);
            if (i % 8 == 7)
                cuda.stream_synchronize(world->stream);
        }
    }
    snprintf(name, sizeof name, "%s: allocate", what);
    show_times(name, allocating, count);
    snprintf(name, sizeof name, "%s: free", what);
    show_times(name, freeing, count);
    free(allocating);
    free(freeing);
    threshold = 0;
    cuda.pool_set(world->default_pool, 4, &threshold);
    cuda.synchronize();
}

/* ---- an allocation beside a copy ---- */

#define COPIED (32 * MIB)

static atomic_bool gate_is_open;

static void wait_at_gate(void *unused)
{
    (void)unused;
    while (!atomic_load(&gate_is_open))
        usleep(1000);
}

struct copying {
    handle_t stream;
    address_t there;
    unsigned char *memory;
    result_t pushed, launched, copied;
};

/* Copies behind a host function that waits for the main thread. */
static void *copy_behind_gate(void *argument)
{
    struct copying *copying = argument;

    copying->pushed = cuda.push(context);
    copying->launched = cuda.launch_host(copying->stream, wait_at_gate, NULL);
    copying->copied = cuda.in(copying->there, copying->memory, COPIED, copying->stream);
    return NULL;
}

/* The first allocation in stream order, while a copy of another thread waits for what this thread does next. */
static void beside(void)
{
    struct copying copying = {.memory = malloc(COPIED)};
    handle_t stream = NULL;
    address_t ptr = 0;
    pthread_t thread;

    if (!copying.memory)
        exit(1);
    start();
    paint(copying.memory, COPIED, 1);
    printf("streams %d", cuda.stream_create(&copying.stream, 1));
    printf(" %d\n", cuda.stream_create(&stream, 1));
    printf("alloc %d\n", cuda.alloc(&copying.there, COPIED));
    printf("first copy %d\n", cuda.in(copying.there, copying.memory, COPIED, copying.stream));
    if (pthread_create(&thread, NULL, copy_behind_gate, &copying))
        exit(1);
    usleep(200000);
    alarm(60);
    printf("alloc %d\n", cuda.alloc_async(&ptr, MIB, stream));
    alarm(0);
    atomic_store(&gate_is_open, true);
    pthread_join(thread, NULL);
    printf("copy %d %d %d\n", copying.pushed, copying.launched, copying.copied);
    printf("free %d\n", cuda.drop_async(ptr, stream));
    printf("synchronize %d\n", cuda.synchronize());
    check_bytes("after", copying.there, MIB, copying.stream, 2);
    printf("free %d\n", cuda.drop(copying.there));
    free(copying.memory);
}

static void rates(int count)
{
    struct world world;

    start();
    world = make_world();
    measure("async to 64 MiB, 16 sizes, no threshold", &world, count, 64 * MIB, true, true, false);
    measure("async to 64 MiB, 16 sizes, keep all", &world, count, 64 * MIB, true, true, true);
    measure("async to 64 MiB, any sizes, no threshold", &world, count, 64 * MIB, false, true, false);
    measure("async to 64 MiB, any sizes, keep all", &world, count, 64 * MIB, false, true, true);
    measure("async to 64 KiB, 16 sizes, keep all", &world, count, 64 << 10, true, true, true);
    measure("plain to 64 MiB, 16 sizes", &world, count, 64 * MIB, true, false, false);
    measure("plain to 64 KiB, 16 sizes", &world, count, 64 << 10, true, false, false);
    measure("plain to 64 MiB, any sizes", &world, count / 4 + 8, 64 * MIB, false, false, false);
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        void (*run)(void);
    } scenes[] = {{"forms", forms},       {"live", live},       {"order", orders},    {"capture", capture},
                  {"contexts", contexts}, {"pools", pools},     {"shared", shared},   {"full", full},
                  {"fails", fails},       {"threads", threads}, {"streams", streams}, {"processes", processes},
                  {"beside", beside}};
    const char *way = argc > 1 ? argv[1] : "", *scene = argc > 2 ? argv[2] : "";

    setvbuf(stdout, NULL, _IOFBF, 1 << 16);
    per_thread = !strcmp(way, "thread") || !strcmp(way, "proc_thread");
    by_lookup = !strncmp(way, "proc", 4);
    if (!strcmp(scene, "processes"))
        load();
    if (!strcmp(scene, "rates") && argc > 3) {
        rates(atoi(argv[3]));
        return 0;
    }
    for (size_t i = 0; i < sizeof scenes / sizeof scenes[0]; i++)
        if (!strcmp(scene, scenes[i].name)) {
            scenes[i].run();
            fflush(stdout);
            return 0;
        }
    return 2;
}
