/*
 * client.c - a program for the CUDA driver, which prints what its copies do. tests/cli/cli_run.sh runs it with and
 * without "leat run" and compares the output. It contains nothing about leat.
 *
 * client WAY SCENE: WAY is how it reaches the driver's functions (client.h), SCENE what it does.
 */
#include "client.h"

#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define MIB ((size_t)1 << 20)
#define LONG (9 * MIB + 5)

static struct driver cuda;
static void (*fake_hold)(int, void *, int); /* only the fake driver has these four */
static void (*fake_fail)(unsigned, unsigned);
static void *(*fake_context)(int);
static int (*fake_references)(int);
static void *library;
static const char *way;

/* ---- reaching the driver ---- */

#ifdef CLIENT_LINKED
#define DECLARE(field, base, symbol, twin, version, parameters) result_t symbol parameters;
CLIENT_LIST(DECLARE)
CLIENT_OTHER_LIST(DECLARE)
#else

static bool per_thread;

void *dlsym_first(void *handle, const char *name);
#ifdef __x86_64__
__asm__(".symver dlsym_first, dlsym@GLIBC_2.2.5");
#else
__asm__(".symver dlsym_first, dlsym@GLIBC_2.17");
#endif

typedef void *(*lookup_t)(void *, const char *);
typedef result_t (*lookup_1_t)(const char *, void **, int, uint64_t);
typedef result_t (*lookup_2_t)(const char *, void **, int, uint64_t, int *);

static void *reach(const char *base, const char *symbol, const char *twin, int version, bool replaced)
{
    lookup_t lookup = !strcmp(way, "old") ? dlsym_first : dlsym;
    uint64_t flags = per_thread ? 2 : !strcmp(way, "proc2") ? 1 : 0;
    void *found = NULL, *self;
    int why = -1;

    if (replaced && !strncmp(way, "proc", 4)) {
        self = dlsym(library, !strcmp(way, "proc1") ? "cuGetProcAddress" : "cuGetProcAddress_v2");
        if (!strcmp(way, "proc1")) {
            lookup_1_t typed;

            memcpy(&typed, &self, sizeof self);
            if (typed(base, &found, version, flags) != 0)
                found = NULL;
        } else {
            lookup_2_t typed;

            memcpy(&typed, &self, sizeof self);
            if (typed(base, &found, version, flags, &why) != 0 || why != 0)
                found = NULL;
        }
    } else {
        found = lookup(!strcmp(way, "global") ? RTLD_DEFAULT : library, per_thread ? twin : symbol);
    }
    if (!found) {
        printf("no %s\n", symbol);
        exit(1);
    }
    return found;
}
#endif

static void load(void)
{
    void *symbol;

#ifdef CLIENT_LINKED
#define TAKE(field, base, name, twin, version, parameters) cuda.field = name;
    CLIENT_LIST(TAKE)
    CLIENT_OTHER_LIST(TAKE)
#undef TAKE
    library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
#else
    library = dlopen("libcuda.so.1", RTLD_NOW | (!strcmp(way, "global") ? RTLD_GLOBAL : RTLD_LOCAL));
    if (!library) {
        printf("%s\n", dlerror());
        exit(1);
    }
    per_thread = !strcmp(way, "proc2_thread") || !strcmp(way, "thread");
#define TAKE(field, base, name, twin, version, parameters)                                                        \
    symbol = reach(#base, #name, #twin, version, true);                                                           \
    memcpy(&cuda.field, &symbol, sizeof symbol);
    CLIENT_LIST(TAKE)
#undef TAKE
#define TAKE(field, base, name, twin, version, parameters)                                                        \
    symbol = reach(#base, #name, #twin, version, false);                                                          \
    memcpy(&cuda.field, &symbol, sizeof symbol);
    CLIENT_OTHER_LIST(TAKE)
#undef TAKE
#endif
    symbol = dlsym(library, "fake_hold");
    memcpy(&fake_hold, &symbol, sizeof symbol);
    symbol = dlsym(library, "fake_fail");
    memcpy(&fake_fail, &symbol, sizeof symbol);
    symbol = dlsym(library, "fake_cuda_context");
    memcpy(&fake_context, &symbol, sizeof symbol);
    symbol = dlsym(library, "fake_cuda_references");
    memcpy(&fake_references, &symbol, sizeof symbol);
}

/* ---- helpers ---- */

static handle_t context;

static void start(void)
{
    load();
    printf("init %d\n", cuda.init(0));
    printf("retain %d\n", cuda.retain(&context, 0));
    printf("push %d\n", cuda.push(context));
}

static void *host(size_t bytes)
{
    void *memory = malloc(bytes ? bytes : 1);

    if (!memory)
        exit(1);
    return memory;
}

static void paint(void *memory, size_t bytes, unsigned seed)
{
    uint64_t word = seed * 0x9e3779b97f4a7c15u + 1;
    unsigned char *byte = memory;

    for (size_t i = 0; i < bytes; i += sizeof word) {
        word = word * 6364136223846793005u + 1442695040888963407u;
        memcpy(byte + i, &word, bytes - i < sizeof word ? bytes - i : sizeof word);
    }
}

static uint64_t sum(const void *memory, size_t bytes)
{
    const unsigned char *byte = memory;
    uint64_t hash = 1469598103934665603u;

    for (size_t i = 0; i < bytes; i += sizeof hash) {
        uint64_t word = 0;

        memcpy(&word, byte + i, bytes - i < sizeof word ? bytes - i : sizeof word);
        hash = (hash ^ word) * 0x9e3779b97f4a7c15u;
        hash ^= hash >> 29;
    }
    return hash;
}

static void show(const char *what, result_t code, const void *memory, size_t bytes)
{
    printf("%s: %d %016llx\n", what, code, (unsigned long long)sum(memory, bytes));
}

static address_t device(size_t bytes)
{
    address_t memory = 0;
    result_t code = cuda.alloc(&memory, bytes);

    if (code != 0) {
        printf("alloc %zu: %d\n", bytes, code);
        exit(1);
    }
    return memory;
}

/* Work of a stream that runs some time after it was submitted: the fake driver keeps it until somebody waits, and
 * any other driver rests in it. */
struct later {
    void *dst;
    const void *src;
    size_t bytes;
    atomic_int done;
};

static void run_later(void *argument)
{
    struct later *work = argument;

    if (!fake_hold)
        usleep(50000);
    if (work->bytes)
        memcpy(work->dst, work->src, work->bytes);
    atomic_store(&work->done, 1);
}

static void submit_later(handle_t stream, struct later *work)
{
    if (fake_hold)
        fake_hold(0, stream, 1);
    if (cuda.launch_host(stream, run_later, work) != 0)
        printf("launch failed\n");
}

static void let_go(handle_t stream)
{
    if (fake_hold)
        fake_hold(0, stream, 0);
}

/* ---- scenes ---- */

static const size_t sizes[] = {0, 1, 4096, MIB - 1, MIB, 3 * MIB, 4 * MIB, LONG};

static void copy_size(size_t bytes, handle_t stream)
{
    unsigned char *src = host(bytes), *dst = host(bytes);
    address_t there = device(LONG);

    paint(src, bytes, 1);
    memset(dst, 0, bytes);
    printf("%zu in %d\n", bytes, cuda.in(there, src, bytes));
    show("out", cuda.out(dst, there, bytes), dst, bytes);
    paint(src, bytes, 2);
    printf("in async %d\n", cuda.in_async(there, src, bytes, stream));
    memset(src, 7, bytes);
    show("out async", cuda.out_async(dst, there, bytes, stream), dst, bytes);
    paint(src, bytes, 3);
    printf("any in %d\n", cuda.copy(there, (address_t)(uintptr_t)src, bytes));
    show("any out", cuda.copy((address_t)(uintptr_t)dst, there, bytes), dst, bytes);
    paint(src, bytes, 4);
    printf("any in async %d\n", cuda.copy_async(there, (address_t)(uintptr_t)src, bytes, stream));
    memset(src, 7, bytes);
    show("any out async", cuda.copy_async((address_t)(uintptr_t)dst, there, bytes, stream), dst, bytes);
    printf("free %d\n", cuda.drop(there));
    free(src);
    free(dst);
}

static void copies(void)
{
    handle_t streams[3] = {NULL};

    start();
    printf("create %d\n", cuda.stream_create(&streams[1], 0));
    printf("create %d\n", cuda.stream_create(&streams[2], 1));
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
        for (int s = 0; s < 3; s++)
            copy_size(sizes[i], streams[s]);
    printf("destroy %d %d\n", cuda.stream_destroy(streams[1]), cuda.stream_destroy(streams[2]));
}

/* Earlier work writes what a copy reads. */
static void order(void)
{
    unsigned char *src = host(LONG), *dst = host(LONG), *next = host(LONG), *other = host(LONG);
    address_t there, second;
    handle_t blocking, alone;
    void *pinned;

    start();
    there = device(LONG);
    second = device(LONG);
    cuda.stream_create(&blocking, 0);
    cuda.stream_create(&alone, 1);
    printf("pinned %d\n", cuda.alloc_host(&pinned, LONG, 0));
    paint(next, LONG, 9);

    for (int round = 0; round < 3; round++) {
        struct later work = {.dst = src, .src = next, .bytes = LONG},
                     fill = {.dst = pinned, .src = next, .bytes = LONG};

        /* A synchronous copy in first waits for its stream, which waits for the blocking streams. */
        memset(src, round, LONG);
        submit_later(blocking, &work);
        printf("in %d\n", cuda.in(there, src, LONG));
        printf("earlier work was over: %d\n", atomic_load(&work.done));
        show("out", cuda.out(dst, there, LONG), dst, LONG);
        let_go(blocking);

        /* A synchronous copy out sees the earlier copies of blocking streams. */
        memset(pinned, round, LONG);
        submit_later(blocking, &fill);
        printf("in async %d\n", cuda.in_async(second, pinned, LONG, blocking));
        memset(dst, 0, LONG);
        show("out after a blocking stream", cuda.out(dst, second, LONG), dst, LONG);
        let_go(blocking);

        /* An asynchronous copy out is complete when it returns. */
        fill.done = 0;
        memset(pinned, round + 10, LONG);
        submit_later(alone, &fill);
        printf("in async %d\n", cuda.in_async(second, pinned, LONG, alone));
        memset(dst, 0, LONG);
        show("out async", cuda.out_async(dst, second, LONG, alone), dst, LONG);
        printf("earlier work was over: %d\n", atomic_load(&fill.done));
        let_go(alone);

        /* The source of an asynchronous copy in may change when the call returns. */
        struct later wait = {.bytes = 0};

        paint(src, LONG, 20 + (unsigned)round);
        submit_later(alone, &wait);
        printf("in async %d\n", cuda.in_async(there, src, LONG, alone));
        memset(src, 0xee, LONG);
        show("out async", cuda.out_async(dst, there, LONG, alone), dst, LONG);
        let_go(alone);

        /* Later work of the stream, and of streams that wait for it, sees the copy. */
        paint(src, LONG, 30 + (unsigned)round);
        printf("in async on the default stream %d\n", cuda.in_async(there, src, LONG, NULL));
        show("out async on a blocking one", cuda.out_async(dst, there, LONG, blocking), dst, LONG);
        paint(src, LONG, 40 + (unsigned)round);
        printf("in async on a blocking one %d\n", cuda.in_async(there, src, LONG, blocking));
        show("out async on the default one", cuda.out_async(other, there, LONG, NULL), other, LONG);

        /* The copy in is complete: a stream that waits for nothing sees it. */
        paint(src, LONG, 50 + (unsigned)round);
        printf("in %d\n", cuda.in(there, src, LONG));
        show("out async alone", cuda.out_async(dst, there, LONG, alone), dst, LONG);
    }
}

/* Copies that leat does not make. */
static void others(void)
{
    unsigned char *src = host(LONG), *dst = host(LONG), *page = NULL;
    address_t there, second, managed = 0;
    void *pinned = NULL;

    start();
    there = device(LONG);
    second = device(LONG);
    paint(src, LONG, 1);
    printf("pinned %d\n", cuda.alloc_host(&pinned, LONG, 0));
    paint(pinned, LONG, 2);
    printf("in from pinned %d\n", cuda.in(there, pinned, LONG));
    show("out", cuda.out(dst, there, LONG), dst, LONG);
    printf("out to pinned %d\n", cuda.out(pinned, there, LONG));
    if (posix_memalign((void **)&page, 4096, 3 * 4 * MIB) != 0)
        exit(1);
    printf("register %d\n", cuda.register_host(page, 4 * MIB, 0));
    paint(page, 12 * MIB, 3);
    printf("in from registered %d\n", cuda.in(there, page, 4 * MIB));
    show("out", cuda.out(dst, there, 4 * MIB), dst, 4 * MIB);
    printf("unregister %d\n", cuda.unregister_host(page));
    printf("in, registered no more %d\n", cuda.in(there, page, 4 * MIB));
    show("out", cuda.out(dst, there, 4 * MIB), dst, 4 * MIB);
    printf("managed %d\n", cuda.alloc_managed(&managed, LONG, 1));
    paint((void *)(uintptr_t)managed, LONG, 4);
    printf("from managed %d\n", cuda.copy(there, managed, LONG));
    show("out", cuda.out(dst, there, LONG), dst, LONG);
    printf("on the device %d\n", cuda.copy(second, there, LONG));
    show("out", cuda.out(dst, second, LONG), dst, LONG);
    printf("too long %d\n", cuda.in(there + 4096, src, LONG));
    printf("too long %d\n", cuda.out(dst, there + 4096, LONG));
    printf("free host %d\n", cuda.free_host(pinned));
    free(page);
}

/* ---- pinned memory ---- */

/* Prints an error code; only whether there is one, over drivers whose codes for such mistakes differ from CUDA's.
 */
static void tell(const char *what, result_t code)
{
    printf("%s: %d\n", what, fake_hold ? code : code != 0);
}

/* Prints what the driver knows about the address. */
static void describe(const char *what, char *ptr, const char *start)
{
    int wanted[] = {2, 8, 11, 12}; /* the type, is it managed, where the range begins, its bytes */
    unsigned type = 9, flags = 99, managed = 0; /* drivers write one byte of managed, or four */
    address_t begin = 0, there = 0;
    size_t bytes = 0;
    void *values[] = {&type, &managed, &begin, &bytes};

    printf("%s: %d", what, cuda.attributes(4, wanted, values, (address_t)(uintptr_t)ptr));
    printf(" type %u managed %u begins %d bytes %zu", type, managed,
           start ? begin == (address_t)(uintptr_t)start : begin == 0, bytes);
    printf(" flags %d", cuda.host_flags(&flags, ptr) != 0);
    if (fake_hold)
        printf(" %u", flags); /* leat's own names report other flags than CUDA */
    if (start) {
        printf(" address %d", cuda.host_address(&there, ptr, 0));
        printf(" %d", there == (address_t)(uintptr_t)ptr);
    }
    printf("\n");
}

static void use_pinned(const char *what, char *ptr, size_t bytes)
{
    unsigned char *dst = host(bytes);
    address_t there = device(bytes);

    describe(what, ptr, ptr);
    describe("near its end", ptr + bytes - 1, ptr);
    paint(ptr, bytes, (unsigned)bytes);
    printf("in %d\n", cuda.in_async(there, ptr, bytes, NULL));
    memset(dst, 0, bytes);
    show("out", cuda.out(dst, there, bytes), dst, bytes);
    memset(ptr, 0, bytes);
    show("back", cuda.out(ptr, there, bytes), ptr, bytes);
    printf("drop %d\n", cuda.drop(there));
    free(dst);
}

/* A child of fork() can read the memory. Only the driver's own is shared with it. */
static void share_pinned(char *ptr)
{
    pid_t child;
    int status;

    ptr[5] = 1;
    fflush(stdout);
    child = fork();
    if (child == 0) {
        ptr[5]++;
        _exit(ptr[5]);
    }
    waitpid(child, &status, 0);
    printf("a child sees %d\n", WEXITSTATUS(status));
}

static void misuse_pinned(char *ptr)
{
    tell("register again", cuda.register_host(ptr, 4096, 0));
    tell("register inside", cuda.register_host(ptr + 65536, 4096, 0));
    tell("unregister", cuda.unregister_host(ptr));
    tell("unregister inside", cuda.unregister_host(ptr + 65536));
    tell("free inside", cuda.free_host(ptr + 65536));
    tell("free NULL", cuda.free_host(NULL));
}

static void pinned(void)
{
    void *ptr, *other, *small, *combined;

    load();
    printf("init %d\n", cuda.init(0));
    tell("without a context", cuda.alloc_host(&ptr, LONG, 0));
    printf("retain %d\n", cuda.retain(&context, 0));
    printf("push %d\n", cuda.push(context));
    for (unsigned flags = 0; flags < 4; flags++) {
        printf("alloc %d\n", cuda.alloc_host(&ptr, LONG, flags));
        use_pinned("pinned", ptr, LONG);
        printf("free %d\n", cuda.free_host(ptr));
        tell("free again", cuda.free_host(ptr));
    }
    printf("alloc plain %d\n", cuda.alloc_host_plain(&ptr, 8 * MIB));
    use_pinned("plain", ptr, 8 * MIB);
    printf("alloc short %d\n", cuda.alloc_host(&small, MIB, 0));
    use_pinned("short", small, MIB);
    printf("alloc combined %d\n", cuda.alloc_host(&combined, LONG, 4));
    describe("combined", combined, combined);
    misuse_pinned(ptr);
    misuse_pinned(small);
    if (fake_hold)
        share_pinned(ptr);
    printf("alloc other %d\n", cuda.alloc_host(&other, LONG, 0));
    printf("free %d %d %d\n", cuda.free_host(ptr), cuda.free_host(small), cuda.free_host(combined));
    tell("too long", cuda.alloc_host(&ptr, SIZE_MAX / 2 + 1, 0));
    tell("too long", cuda.alloc_host(&ptr, (size_t)1 << 46, 0));
    tell("nowhere", fake_hold ? 0 : cuda.alloc_host(NULL, LONG, 0));
    printf("free other %d\n", cuda.free_host(other));
}

/* Each call that the driver gets fails once: the program then has usable memory, or none and an error. */
static void pinned_fails(void)
{
    bool fine = true;

    start();
    for (unsigned n = 1; n < 12; n++) {
        void *ptr = NULL;
        result_t code;

        fake_fail(n, 2);
        code = cuda.alloc_host(&ptr, LONG, 0);
        fine = fine && (code == 0) == (ptr != NULL);
        if (code == 0) {
            memset(ptr, (int)n, LONG);
            code = cuda.free_host(ptr);
            fake_fail(0, 0);
            if (code != 0)
                fine = fine && cuda.free_host(ptr) == 0;
            fine = fine && cuda.free_host(ptr) == 1;
        }
        fake_fail(0, 0);
    }
    printf("fine: %d\n", fine);
}

/* Memory whose context ends before it is freed. */
static void pinned_ends(void)
{
    void *first, *second, *third;

    start();
    printf("alloc %d\n", cuda.alloc_host(&first, LONG, 0));
    printf("alloc %d\n", cuda.alloc_host(&second, LONG, 0));
    memset(first, 1, LONG);
    printf("reset %d\n", cuda.reset(0));
    describe("after the end", first, NULL);
    tell("free", cuda.free_host(first));
    printf("alloc %d\n", cuda.alloc_host(&third, LONG, 0));
    use_pinned("third", third, LONG);
    tell("free", cuda.free_host(second));
    printf("free %d\n", cuda.free_host(third));
    printf("alloc at the end of the process %d\n", cuda.alloc_host(&third, LONG, 0));
}

static void in_capture(void)
{
    unsigned char *src = host(LONG), *dst = host(LONG);
    handle_t captured, alone;
    void *graph = NULL, *pinned = NULL;
    address_t there;

    start();
    there = device(LONG);
    paint(src, LONG, 1);
    cuda.stream_create(&captured, 1);
    cuda.stream_create(&alone, 1);
    /* Another stream may copy while one is capturing, and the capture goes on. */
    printf("begin %d\n", cuda.begin_capture(captured, 0));
    printf("in async %d\n", cuda.in_async(there, src, LONG, alone));
    show("out async", cuda.out_async(dst, there, LONG, alone), dst, LONG);
    printf("end %d\n", cuda.end_capture(captured, &graph));
    /* What this thread must not do during a capture still ends it. */
    printf("begin %d\n", cuda.begin_capture(captured, 0));
    printf("in async %d\n", cuda.in_async(there, src, LONG, alone));
    printf("alloc host in a capture: %d\n", cuda.alloc_host(&pinned, LONG, 0));
    printf("end %d\n", cuda.end_capture(captured, &graph));
    /* A copy in the captured stream itself is the driver's. */
    printf("begin %d\n", cuda.begin_capture(captured, 0));
    printf("in async in the capture %d\n", cuda.in_async(there, src, LONG, captured));
    printf("end %d\n", cuda.end_capture(captured, &graph));
}

static void contexts(void)
{
    unsigned char *src = host(LONG), *dst = host(LONG);
    unsigned flags = 0;
    address_t there;
    handle_t popped;
    int active = -1;

    load();
    printf("init %d\n", cuda.init(0));
    printf("in without a context %d\n", cuda.in(4096, src, LONG) != 0);
    for (int round = 0; round < 3; round++) {
        printf("state %d %d\n", cuda.state(0, &flags, &active), active);
        printf("retain %d\n", cuda.retain(&context, 0));
        printf("push %d\n", cuda.push(context));
        there = device(LONG);
        paint(src, LONG, (unsigned)round);
        printf("in %d\n", cuda.in(there, src, LONG));
        show("out", cuda.out(dst, there, LONG), dst, LONG);
        if (round == 1) {
            printf("reset %d\n", cuda.reset(0));
            if (fake_references)
                printf("references after a reset: %d\n", fake_references(0));
            there = device(LONG);
            paint(src, LONG, 9);
            printf("in %d\n", cuda.in(there, src, LONG));
            show("out after a reset", cuda.out(dst, there, LONG), dst, LONG);
        }
        printf("drop %d\n", cuda.drop(there));
        printf("pop %d\n", cuda.pop(&popped));
        printf("release %d\n", cuda.release(0));
    }
    printf("state %d %d\n", cuda.state(0, &flags, &active), active);
    if (fake_context) {
        printf("retain %d\n", cuda.retain(&context, 1));
        printf("push %d\n", cuda.push(fake_context(1)));
        there = device(LONG);
        printf("in, own context %d\n", cuda.in(there, src, LONG));
        show("out, own context", cuda.out(dst, there, LONG), dst, LONG);
        printf("drop %d\n", cuda.drop(there));
        printf("pop %d\n", cuda.pop(&popped));
        printf("release %d\n", cuda.release(1));
    }
}

static void two_copies(void)
{
    unsigned char *src = host(LONG), *dst = host(LONG);
    address_t there = device(LONG);

    paint(src, LONG, 1);
    printf("in %d\n", cuda.in(there, src, LONG));
    show("out", cuda.out(dst, there, LONG), dst, LONG);
    free(src);
    free(dst);
}

/* ---- batches ---- */

enum { BATCH_COUNT = 40 };

static void copy_batches(const char *what, size_t bytes, handle_t stream, bool second)
{
    size_t apart = bytes + 100, all = apart * BATCH_COUNT, sizes_of[BATCH_COUNT], first[2] = {0, 7}, failed = 99;
    address_t there = device(all), on_device[BATCH_COUNT], in_src[BATCH_COUNT], out_dst[BATCH_COUNT], mixed_to[2],
              mixed_from[2];
    int attributes[12] = {1, 0, 0, 0, 0, 0, 2};
    unsigned char *src = host(all), *dst = host(all);
    struct later later = {.dst = src, .src = host(all), .bytes = all};
    result_t code;

    paint(src, all, 1);
    paint((void *)(uintptr_t)later.src, all, 2);
    memset(dst, 0, all);
    for (size_t i = 0; i < BATCH_COUNT; i++) {
        sizes_of[i] = bytes - i;
        on_device[i] = there + i * apart;
        in_src[i] = (address_t)(uintptr_t)(src + (BATCH_COUNT - 1 - i) * apart);
        out_dst[i] = (address_t)(uintptr_t)(dst + i * apart);
    }
    /* CUDA reads pageable sources when the stream reaches the batch; leat's own names may read them before. */
    if (fake_hold)
        submit_later(stream, &later);
    code = second ? cuda.batch_2(on_device, in_src, sizes_of, BATCH_COUNT, attributes, first, 2, stream)
                  : cuda.batch(on_device, in_src, sizes_of, BATCH_COUNT, attributes, first, 2, &failed, stream);
    let_go(stream);
    printf("%s in %d %zu\n", what, code, failed);
    code = second ? cuda.batch_2(out_dst, on_device, sizes_of, BATCH_COUNT, attributes, first, 2, stream)
                  : cuda.batch(out_dst, on_device, sizes_of, BATCH_COUNT, attributes, first, 2, &failed, stream);
    printf("synchronize %d\n", cuda.stream_synchronize(stream));
    show("out", code, dst, all);
    /* Both directions, and mistakes. */
    mixed_to[0] = on_device[0];
    mixed_from[0] = in_src[0];
    mixed_to[1] = out_dst[1];
    mixed_from[1] = on_device[1];
    tell("mixed", cuda.batch_2(mixed_to, mixed_from, sizes_of, 2, attributes, first, 1, stream));
    tell("no stream", cuda.batch_2(on_device, in_src, sizes_of, BATCH_COUNT, attributes, first, 2, (handle_t)1));
    tell("no copies", cuda.batch_2(on_device, in_src, sizes_of, 0, attributes, first, 1, stream));
    attributes[0] = 0;
    tell("no order", cuda.batch_2(on_device, in_src, sizes_of, BATCH_COUNT, attributes, first, 1, stream));
    attributes[0] = 3;
    sizes_of[1] = 0;
    tell("no bytes", cuda.batch_2(on_device, in_src, sizes_of, BATCH_COUNT, attributes, first, 1, stream));
    printf("synchronize %d\n", cuda.stream_synchronize(stream));
    printf("drop %d\n", cuda.drop(there));
    free((void *)(uintptr_t)later.src);
    free(src);
    free(dst);
}

static void batches(void)
{
    handle_t stream;

    start();
    printf("create %d\n", cuda.stream_create(&stream, 1));
    copy_batches("long", MIB, stream, false);
    copy_batches("middle", 60000, stream, true);
    copy_batches("short", 5000, stream, true);
}

/* Copies that leat makes without --least. */
static void long_copies(void)
{
    static const size_t bytes[] = {24 * MIB, 64 * MIB};

    start();
    for (int i = 0; i < 2; i++) {
        unsigned char *src = host(bytes[i]);
        address_t there = device(bytes[i]);

        paint(src, bytes[i], 1);
        usleep(1000); /* so that leat's threads sleep */
        printf("in %d\n", cuda.in(there, src, bytes[i]));
        usleep(1000);
        memset(src, 0, bytes[i]);
        show("out", cuda.out(src, there, bytes[i]), src, bytes[i]);
        free(src);
    }
}

static int wait_for(pid_t child)
{
    int status = 0;

    waitpid(child, &status, 0);
    return status;
}

/* Runs two copies in a child, before or after the parent has used the driver. */
static void forked(bool after)
{
    pid_t child;

    if (after) {
        start();
        two_copies();
    }
    fflush(stdout);
    child = fork();
    if (child == 0) {
        if (after) {
            unsigned char *src = host(LONG);
            address_t there = 0;

            /* Only a fake driver works here. */
            if (cuda.alloc(&there, LONG) == 0)
                printf("in the child %d\n", cuda.in(there, src, LONG));
        } else {
            start();
            two_copies();
        }
        fflush(stdout);
        _exit(5);
    }
    printf("child %d\n", WEXITSTATUS(wait_for(child)));
    if (!after) {
        start();
    }
    two_copies();
}

static void *exits(void *argument)
{
    (void)argument;
    usleep(20000);
    cuda.push(context);
    exit(3);
}

static void at_exit(void)
{
    two_copies();
    fflush(stdout);
}

static void exit_thread(void)
{
    unsigned char *src = host(LONG);
    address_t there;
    pthread_t thread;

    start();
    two_copies();
    there = device(LONG);
    atexit(at_exit);
    fflush(stdout);
    pthread_create(&thread, NULL, exits, NULL);
    for (;;)
        (void)cuda.in(there, src, LONG);
}

#ifndef CLIENT_LINKED
static void closed(void)
{
    for (int round = 0; round < 3; round++) {
        start();
        two_copies();
        printf("close %d\n", dlclose(library));
        printf("close %d\n", round ? 0 : dlclose(library) * 0);
    }
}
#endif

static void copy_rows(const char *what, size_t width, size_t height, size_t host_pitch, size_t x, size_t y)
{
    size_t device_pitch = (width + x + 511) / 512 * 512, host_bytes = host_pitch * (height + y);
    unsigned char *src = host(host_bytes), *dst = host(host_bytes);
    address_t there = device(device_pitch * (height + y));
    handle_t stream;
    struct rows in = {.src_x = x,
                      .src_y = y,
                      .src_type = 1,
                      .src_host = src,
                      .src_pitch = host_pitch,
                      .dst_x = x,
                      .dst_y = y,
                      .dst_type = 2,
                      .dst_device = there,
                      .dst_pitch = device_pitch,
                      .width = width,
                      .height = height};
    struct rows out = {.src_x = x,
                       .src_y = y,
                       .src_type = 2,
                       .src_device = there,
                       .src_pitch = device_pitch,
                       .dst_x = x,
                       .dst_y = y,
                       .dst_type = 1,
                       .dst_host = dst,
                       .dst_pitch = host_pitch,
                       .width = width,
                       .height = height};

    cuda.stream_create(&stream, 0);
    paint(src, host_bytes, 1);
    memset(dst, 0, host_bytes);
    printf("%s: in %d\n", what, cuda.rows(&in));
    memset(src, 0, host_bytes);
    show("out", cuda.rows(&out), dst, host_bytes);
    paint(src, host_bytes, 2);
    printf("in unaligned %d\n", cuda.rows_unaligned(&in));
    show("out unaligned", cuda.rows_unaligned(&out), dst, host_bytes);
    paint(src, host_bytes, 3);
    printf("in async %d\n", cuda.rows_async(&in, stream));
    memset(src, 0, host_bytes);
    show("out async", cuda.rows_async(&out, stream), dst, host_bytes);
    cuda.stream_destroy(stream);
    cuda.drop(there);
    free(src);
    free(dst);
}

static void rows(void)
{
    start();
    copy_rows("wide", 4096, 2000, 5000, 24, 3);
    copy_rows("dense", 4096, 2048, 4096, 0, 0);
    copy_rows("narrow", 100, 20000, 300, 4, 1);
    copy_rows("short", 2048, 16, 2100, 0, 0);
}

/* Threads with copies at the same time, on streams that come and go. */
static void *copy_in_thread(void *argument)
{
    unsigned seed = (unsigned)(uintptr_t)argument;
    unsigned char *src = host(LONG), *dst = host(LONG);
    address_t there;
    handle_t stream;
    uint64_t hash = 0;

    cuda.push(context);
    there = device(LONG);
    for (int i = 0; i < 6; i++) {
        paint(src, LONG, seed + (unsigned)i);
        cuda.stream_create(&stream, (unsigned)i % 2);
        cuda.in_async(there, src, LONG, stream);
        memset(src, 1, LONG);
        cuda.out_async(dst, there, LONG, stream);
        cuda.stream_destroy(stream);
        hash = hash * 31 + sum(dst, LONG);
    }
    free(src);
    free(dst);
    return (void *)(uintptr_t)hash;
}

static void threads(void)
{
    pthread_t made[4];
    void *hash;

    start();
    for (uintptr_t i = 0; i < 4; i++)
        pthread_create(&made[i], NULL, copy_in_thread, (void *)(i * 100));
    for (int i = 0; i < 4; i++) {
        pthread_join(made[i], &hash);
        printf("thread %d: %016llx\n", i, (unsigned long long)(uintptr_t)hash);
    }
}

int main(int argc, char **argv)
{
    const char *scene = argc > 2 ? argv[2] : "";

    way = argc > 1 ? argv[1] : "";
    setvbuf(stdout, NULL, _IOFBF, 1 << 16);
    if (!strcmp(scene, "copies"))
        copies();
    else if (!strcmp(scene, "order"))
        order();
    else if (!strcmp(scene, "others"))
        others();
    else if (!strcmp(scene, "capture"))
        in_capture();
    else if (!strcmp(scene, "contexts"))
        contexts();
    else if (!strcmp(scene, "batches"))
        batches();
    else if (!strcmp(scene, "long"))
        long_copies();
    else if (!strcmp(scene, "pinned"))
        pinned();
    else if (!strcmp(scene, "pinned-fails"))
        pinned_fails();
    else if (!strcmp(scene, "pinned-ends"))
        pinned_ends();
    else if (!strcmp(scene, "fork-before"))
        forked(false);
    else if (!strcmp(scene, "fork-after"))
        forked(true);
    else if (!strcmp(scene, "exit-thread"))
        exit_thread();
    else if (!strcmp(scene, "rows"))
        rows();
    else if (!strcmp(scene, "threads"))
        threads();
    else if (!strcmp(scene, "init"))
        start();
#ifndef CLIENT_LINKED
    else if (!strcmp(scene, "close"))
        closed();
#endif
    else if (!strcmp(scene, "exec")) {
        start();
        two_copies();
        fflush(stdout);
        execl(argv[0], argv[0], way, "copies", (char *)NULL);
        return 1;
    } else if (!strcmp(scene, "crash")) {
        start();
        two_copies();
        fflush(stdout);
        raise(SIGSEGV);
    } else if (!strcmp(scene, "nothing"))
        printf("nothing\n");
    else
        return 2;
    fflush(stdout);
    return 0;
}
