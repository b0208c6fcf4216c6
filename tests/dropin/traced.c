/*
 * traced.c - a program for the CUDA driver that tests/cli/cli_run_trace.sh records by "leat run --trace". It
 * contains nothing about leat. If the made CUPTI (made_cupti.c) is loaded, the program tells it what it does.
 *
 * traced SCENE: "step" makes ranges of NVTX, copies, kernels, fills and waits; "kill" makes them and then ends by
 * SIGKILL, "exec" starts itself as "step" behind them; "tool" takes CUPTI before it uses CUDA; "thread" makes the
 * long copy on a thread that has ended when CUPTI tells of its calls; "plugin" loads a library, whose constructor
 * calls cuInit() while another thread does.
 */
#include <dlfcn.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <wchar.h>

#define MIB ((size_t)1 << 20)

typedef void *handle;
typedef uint64_t address;

static struct {
    int (*init)(unsigned), (*retain)(handle *, int), (*current)(handle), (*alloc)(address *, size_t),
        (*drop)(address);
    int (*stream)(handle *, unsigned), (*in)(address, const void *, size_t), (*out)(void *, address, size_t);
    int (*in_async)(address, const void *, size_t, handle), (*fill)(address, unsigned char, size_t, handle);
    int (*fill_thread)(address, unsigned char, size_t, handle), (*wait)(handle), (*wait_all)(void);
    int (*load)(handle *, const void *, unsigned, int *, void **), (*function)(handle *, handle, const char *);
    int (*launch)(handle, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, handle, void **,
                  void **);
    int (*begin_capture)(handle, unsigned), (*end_capture)(handle, void **);
} cuda;

static struct {
    void (*call)(int, const char *, uint32_t, uint64_t, uint64_t, uint32_t);
    void (*work)(int, const char *, uint32_t, uint64_t, uint64_t, uint64_t, uint32_t);
} made;

static void check(int result, const char *what)
{
    if (!result)
        return;
    printf("%s: %d\n", what, result);
    exit(1);
}

static void find(void *library, const char *name, void *function)
{
    void *found = dlsym(library, name);

    if (!found) {
        printf("no %s\n", name);
        exit(1);
    }
    memcpy(function, &found, sizeof found);
}

static uint64_t now(void)
{
    struct timespec at;

    clock_gettime(CLOCK_MONOTONIC, &at);
    return (uint64_t)at.tv_sec * 1000000000u + (uint64_t)at.tv_nsec;
}

/* ---- NVTX, as its header does it ---- */

struct attributes {
    uint16_t version, size;
    uint32_t category;
    int32_t color_type;
    uint32_t color;
    int32_t payload_type, reserved;
    uint64_t payload;
    int32_t message_type;
    const void *message;
};

static int (*push_attributes)(const struct attributes *), (*push_text)(const char *),
    (*push_wide)(const wchar_t *);
static int (*push_in_domain)(void *, const struct attributes *), (*pop)(void), (*pop_in_domain)(void *);
static void (*mark)(const char *), *(*register_text)(void *, const char *);
static void **core[16] = {[2] = (void **)&mark,
                          [8] = (void **)&push_attributes,
                          [9] = (void **)&push_text,
                          [10] = (void **)&push_wide,
                          [11] = (void **)&pop};
static void **core2[16] = {
    [4] = (void **)&push_in_domain, [5] = (void **)&pop_in_domain, [10] = (void **)&register_text};

static int get_module(int module, void ****table, unsigned *entries)
{
    *table = module == 1 ? core : module == 5 ? core2 : NULL;
    *entries = 16;
    return *table != NULL;
}

static const struct {
    size_t size;
    int (*get_module)(int, void ****, unsigned *);
} callbacks = {sizeof callbacks, get_module};

static const void *get_table(uint32_t table)
{
    return table == 1 ? &callbacks : NULL;
}

static void start_nvtx(void)
{
    const char *path = getenv("NVTX_INJECTION64_PATH");
    int (*initialize)(const void *(*)(uint32_t));
    void *library = path ? dlopen(path, RTLD_NOW) : NULL;

    if (!library)
        return;
    find(library, "InitializeInjectionNvtx2", &initialize);
    if (initialize(get_table) != 1)
        printf("NVTX was not taken\n");
}

/* ---- what the program does ---- */

static void start_driver(void)
{
    void *library = dlopen("libcuda.so.1", RTLD_NOW), *cupti;

    if (!library) {
        printf("%s\n", dlerror());
        exit(1);
    }
    find(library, "cuInit", &cuda.init);
    find(library, "cuDevicePrimaryCtxRetain", &cuda.retain);
    find(library, "cuCtxPushCurrent_v2", &cuda.current);
    find(library, "cuMemAlloc_v2", &cuda.alloc);
    find(library, "cuMemFree_v2", &cuda.drop);
    find(library, "cuStreamCreate", &cuda.stream);
    find(library, "cuMemcpyHtoD_v2", &cuda.in);
    find(library, "cuMemcpyDtoH_v2", &cuda.out);
    find(library, "cuMemcpyHtoDAsync_v2", &cuda.in_async);
    find(library, "cuMemsetD8Async", &cuda.fill);
    find(library, "cuStreamSynchronize", &cuda.wait);
    find(library, "cuCtxSynchronize", &cuda.wait_all);
    find(library, "cuModuleLoadDataEx", &cuda.load);
    find(library, "cuModuleGetFunction", &cuda.function);
    find(library, "cuLaunchKernel", &cuda.launch);
    find(library, "cuStreamBeginCapture_v2", &cuda.begin_capture);
    find(library, "cuStreamEndCapture", &cuda.end_capture);
    check(cuda.init(0), "cuInit");
    cupti = dlopen("libcupti.so.13", RTLD_NOW | RTLD_NOLOAD);
    if (cupti && dlsym(cupti, "made_cupti_call")) {
        find(cupti, "made_cupti_call", &made.call);
        find(cupti, "made_cupti_work", &made.work);
    }
}

static uint32_t correlation;

/* Tells the made CUPTI of a call that has been made since begin, and of its work. */
static void tell(const char *call, int kind, const char *kernel, uint64_t begin, uint64_t bytes, uint32_t works)
{
    uint64_t end = now();

    if (!made.call)
        return;
    correlation++;
    /* The call of the runtime around that of the driver, with the same number. */
    made.call(1, call, correlation, begin + (end - begin) / 4, end - (end - begin) / 4,
              (uint32_t)syscall(SYS_gettid));
    made.call(2, "cudaLaunchKernel", kernel ? correlation : 0, begin, end, (uint32_t)syscall(SYS_gettid));
    for (uint32_t i = 0; i < works; i++)
        made.work(kind, kernel, correlation, end + i * 1000, end + i * 1000 + 1000, bytes, 13);
}

/* A copy that is long enough for leat, on any thread. */
struct long_copy {
    handle context; /* to make current first; NULL: it is */
    address dst;
    const void *src;
    uint64_t begin, end;
    uint32_t thread;
};

static void *copy_in(void *argument)
{
    struct long_copy *copy = argument;

    if (copy->context)
        check(cuda.current(copy->context), "current");
    copy->thread = (uint32_t)syscall(SYS_gettid);
    copy->begin = now();
    check(cuda.in(copy->dst, copy->src, 4 * MIB), "in");
    copy->end = now();
    return NULL;
}

static void copy_in_on_thread(struct long_copy *copy)
{
    pthread_t thread;

    check(pthread_create(&thread, NULL, copy_in, copy), "pthread_create");
    pthread_join(thread, NULL);
    usleep(50000); /* the recorder looks every 10 ms, and then forgets the thread */
}

static void step(bool on_thread)
{
    struct attributes named = {.version = 3, .size = sizeof named, .message_type = 1, .message = "by attributes"};
    handle context, stream, module, kernel;
    char *memory = malloc(4 * MIB), *back = malloc(4 * MIB);
    struct long_copy copy = {.src = memory};
    address device, other;
    uint64_t begin;

    memset(memory, 'a', 4 * MIB);
    if (push_text)
        push_text("before CUDA");
    start_driver();
    check(cuda.retain(&context, 0), "retain");
    check(cuda.current(context), "current");
    check(cuda.alloc(&device, 4 * MIB), "alloc");
    check(cuda.alloc(&other, 4096), "alloc");
    check(cuda.stream(&stream, 1), "stream");
    /* leat's own driver has no kernels of this name. */
    if (cuda.load(&module, ".version 6.0", 0, NULL, NULL) != 0 || cuda.function(&kernel, module, "leat_made") != 0)
        kernel = NULL;
    if (push_text) {
        push_text("step");
        push_attributes(&named);
        push_wide(L"wide \u00e9");
        named.message_type = 3;
        named.message = register_text(NULL, "registered");
        push_in_domain(NULL, &named);
        mark("a mark");
    }
    for (int i = 0; i < 3; i++) {
        begin = now();
        check(cuda.in_async(device, memory, 4096, stream), "in_async");
        tell("cuMemcpyHtoDAsync", 1, NULL, begin, 4096, 1);
        begin = now();
        if (kernel)
            check(cuda.launch(kernel, 1, 1, 1, 32, 1, 1, 0, stream, NULL, NULL), "launch");
        tell("cuLaunchKernel", 10, "_Z6kernelPfi", begin, 0, i == 2 ? 3 : 1);
        begin = now();
        check(cuda.fill(other, 1, 4096, stream), "fill");
        tell("cuMemsetD8Async", 2, NULL, begin, 4096, 1);
        begin = now();
        check(cuda.wait(stream), "wait");
        tell("cuCtxSynchronize", 0, NULL, begin, 0, 0);
    }
    /* Long enough for leat: CUPTI tells of the calls in it too. */
    copy.dst = device;
    copy.context = on_thread ? context : NULL;
    if (on_thread)
        copy_in_on_thread(&copy);
    else
        (void)copy_in(&copy);
    if (made.call) {
        uint64_t middle = copy.begin + (copy.end - copy.begin) / 2;

        correlation++;
        made.call(1, "cuMemcpyHtoDAsync", correlation, middle, middle + 1, copy.thread);
        made.work(1, NULL, correlation, middle, middle + 1000, 4 * MIB, 7);
        /* With a program of the runtime it tells only of the outer call, and that the work is its own. */
        correlation++;
        made.call(2, "cudaMemcpy_", correlation, copy.begin, copy.end, copy.thread);
        made.work(1, NULL, correlation, middle, middle + 1000, 4 * MIB, 7);
        /* A time that cannot be, and work whose call is not known. */
        made.work(10, "lost", 0, 0, 0, 0, 13);
        begin = now();
        made.work(22, NULL, 0, begin, begin + 100, 512, 13);
    }
    check(cuda.out(back, device, 4 * MIB), "out");
    printf("bytes: %s\n", memcmp(memory, back, 4 * MIB) ? "wrong" : "right");
    if (push_text) {
        pop_in_domain(NULL);
        pop();
        pop();
        pop();
        pop();
        pop(); /* one too many */
    }
    check(cuda.drop(device), "free");
    check(cuda.drop(other), "free");
    check(cuda.wait_all(), "wait_all");
    free(memory);
    free(back);
}

/* A capture, in which the calls are not executed, and must not be ended by what a recorder does. */
static void capture(void)
{
    handle context, stream;
    void *graph = NULL;
    char memory[64] = "";
    address device;

    start_driver();
    check(cuda.retain(&context, 0), "retain");
    check(cuda.current(context), "current");
    check(cuda.alloc(&device, 4096), "alloc");
    check(cuda.stream(&stream, 1), "stream");
    check(cuda.in_async(device, memory, sizeof memory, stream), "before");
    check(cuda.begin_capture(stream, 0), "begin");
    check(cuda.in_async(device, memory, sizeof memory, stream), "in_async");
    usleep(50000); /* the recorder looks at its events meanwhile */
    printf("capture: %d\n", cuda.end_capture(stream, &graph));
}

static void take_cupti(void)
{
    void *cupti = dlopen("libcupti.so.13", RTLD_NOW), *subscriber;
    int (*subscribe)(void **, void (*)(void), void *);

    find(cupti, "cuptiSubscribe", &subscribe);
    check(subscribe(&subscriber, (void (*)(void))start_driver, NULL), "subscribe");
}

/* ---- cuInit() in the constructor of a library, which runs with the loader's lock ---- */

static int (*init)(unsigned);
static sem_t plugin_is_starting;
static int of_plugin = -1, of_thread = -1;

static void *init_on_thread(void *unused)
{
    (void)unused;
    while (sem_wait(&plugin_is_starting))
        continue;
    of_thread = init(0); /* loads libraries for the trace, and so waits for the constructor */
    return NULL;
}

/* Called by the constructor of plugin.so. */
void plugin_starts(void);
void plugin_starts(void)
{
    sem_post(&plugin_is_starting);
    usleep(200000);
    of_plugin = init(0);
}

static void load_plugin(const char *path)
{
    void *library = dlopen("libcuda.so.1", RTLD_NOW);
    pthread_t thread;

    if (!library) {
        printf("%s\n", dlerror());
        exit(1);
    }
    find(library, "cuInit", &init);
    sem_init(&plugin_is_starting, 0, 0);
    if (pthread_create(&thread, NULL, init_on_thread, NULL))
        exit(1);
    alarm(60); /* ends a program that hangs */
    if (!dlopen(path, RTLD_NOW)) {
        printf("%s\n", dlerror());
        exit(1);
    }
    pthread_join(thread, NULL);
    alarm(0);
    printf("cuInit: %d %d\n", of_plugin, of_thread);
}

int main(int argc, char **argv)
{
    const char *scene = argc > 1 ? argv[1] : "";

    setvbuf(stdout, NULL, _IONBF, 0);
    start_nvtx();
    if (!strcmp(scene, "tool"))
        take_cupti();
    if (!strcmp(scene, "capture")) {
        capture();
        return 0;
    }
    if (!strcmp(scene, "plugin") && argc > 2) {
        load_plugin(argv[2]);
        scene = "step";
    }
    if (!strcmp(scene, "fork")) { /* the child uses CUDA first, and the parent after it */
        if (fork() == 0)
            scene = "step";
        else
            wait(NULL);
    }
    step(!strcmp(scene, "thread"));
    if (!strcmp(scene, "kill") || !strcmp(scene, "exec"))
        usleep(500000); /* longer than the recorder waits between its writes */
    if (!strcmp(scene, "kill"))
        raise(SIGKILL);
    if (!strcmp(scene, "exec"))
        execl(argv[0], argv[0], "step", (char *)NULL);
    if (!strcmp(scene, "fork-after")) {
        if (fork() == 0)
            exit(0); /* runs the functions given to atexit() in the child */
        wait(NULL);
    }
    return 0;
}
