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
static void (*fake_hold)(int, void *, int); /* only the fake driver has it */
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
