/*
 * unit_process.c - leat and the process around it: rights, limits, signals, descriptors, control groups.
 *
 * Much of this holds for a whole process and cannot be undone, so most tests run this program again with one of
 * the parts below as its first argument.
 */
#include "harness.h"

#include "driver/cpu/cpu.h"

#include <leat/layout.h>
#include <leat/virtual.h>

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <link.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

/* ---- what the tests share ---- */

/* Where this program is, and the libraries of the tests in its folder fake/. */
static char self[3072], folder[3072];

/* What a child says when it is content; leaves alone what a sanitizer would do at the end of a program. */
enum { CONTENT = 42 };

/* Exit status of a child, 128 + number of the signal that ended it. */
static int wait_for_child(pid_t child)
{
    int status;

    assert_int_equal(waitpid(child, &status, 0), child);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static pid_t fork_child(void)
{
    pid_t child;

    fflush(NULL);
    child = fork();
    assert_true(child >= 0);
    return child;
}

/* Runs this program again with up to three words, and with a variable set unless variable is NULL. */
static int run_self(const char *variable, const char *value, const char *const *words, unsigned count)
{
    char *arguments[5] = {self};
    pid_t child = fork_child();

    for (unsigned i = 0; i < count && i < 3; i++)
        arguments[i + 1] = (char *)(uintptr_t)words[i];
    if (child == 0) {
        if (variable && setenv(variable, value, 1) != 0)
            _exit(97);
        execv(self, arguments);
        _exit(98);
    }
    return wait_for_child(child);
}

static void copy_file(const char *from, const char *to, mode_t mode)
{
    int in = open(from, O_RDONLY | O_CLOEXEC), out = open(to, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0700);
    char buffer[65536];
    ssize_t got;

    assert_true(in >= 0 && out >= 0);
    while ((got = read(in, buffer, sizeof buffer)) > 0)
        assert_int_equal(write(out, buffer, (size_t)got), got);
    assert_int_equal(got, 0);
    close(in);
    assert_int_equal(fchmod(out, mode), 0);
    close(out);
}

/* ---- set-user-ID programs ---- */

static int find_fake(struct dl_phdr_info *info, size_t bytes, void *found)
{
    (void)bytes;
    if (info->dlpi_name && strstr(info->dlpi_name, "fake_cuda.so"))
        *(bool *)found = true;
    return 0;
}

/* The child: are all variables of leat's seen, or none, and was LEAT_CUDA_LIBRARY loaded? wanted: "all", "none".
 */
static int see_options(const char *wanted)
{
    bool all = !strcmp(wanted, "all"), loaded = false;
    leat_driver_info driver;
    leat_option_info option;

    if (getauxval(AT_SECURE) != !all)
        return 1;
    for (unsigned i = 0; leat_option_list(i, &option) == LEAT_OK; i++)
        if ((option.value != NULL) != all)
            return 2;
    for (unsigned i = 0; leat_driver_list(i, &driver) == LEAT_OK; i++)
        continue;
    dl_iterate_phdr(find_fake, &loaded);
    return loaded == all ? CONTENT : 3;
}

/* Every variable of leat's. Those that choose drivers let the library be loaded; the others need no sense. */
static void set_all_options(const char *library)
{
    leat_option_info option;

    for (unsigned i = 0; leat_option_list(i, &option) == LEAT_OK; i++)
        setenv(option.name, "1", 1);
    setenv("LEAT_DRIVERS", "cuda", 1);
    setenv("LEAT_CUDA_LIBRARY", library, 1);
    setenv("LEAT_FAULT", "fail=1000000", 1);
}

/* Runs a program as the user nobody. */
static int run_as_other(const char *program, const char *library, const char *wanted)
{
    const uid_t other = 65534;
    pid_t child = fork_child();

    if (child == 0) {
        set_all_options(library);
        if (setgroups(0, NULL) || setgid(other) || setuid(other))
            _exit(97);
        execl(program, program, "see-options", wanted, (char *)NULL);
        _exit(98);
    }
    return wait_for_child(child);
}

static void set_user_id_programs_read_no_variables(void **state)
{
    char place[] = "/tmp/leat-test-XXXXXX", plain[64], privileged[64], library[64], fake[4096];
    struct statvfs system;

    (void)state;
    if (geteuid() != 0)
        SKIP_OTHER("only root can make a set-user-ID program of another user's");
    if (statvfs("/tmp", &system) || system.f_flag & (ST_NOSUID | ST_NOEXEC))
        SKIP_OTHER("/tmp has no set-user-ID programs");
    assert_non_null(mkdtemp(place));
    assert_int_equal(chmod(place, 0755), 0);
    snprintf(plain, sizeof plain, "%s/plain", place);
    snprintf(privileged, sizeof privileged, "%s/privileged", place);
    snprintf(library, sizeof library, "%s/fake_cuda.so", place);
    snprintf(fake, sizeof fake, "%s/fake/fake_cuda.so", folder);
    copy_file(fake, library, 0755);
    copy_file(self, plain, 0755);
    copy_file(self, privileged, 04755);
    /* The program can tell the two. */
    assert_int_equal(run_as_other(plain, library, "all"), CONTENT);
    assert_int_equal(run_as_other(privileged, library, "none"), CONTENT);
    unlink(plain);
    unlink(privileged);
    unlink(library);
    rmdir(place);
}

/* ---- signals and threads of leat's ---- */

/* Stands for pthread_create() in leat (--wrap): threads look at their signals before they do anything. */
int __real_pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*run)(void *),
                          void *argument);
int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*run)(void *),
                          void *argument);

struct start {
    void *(*run)(void *);
    void *argument;
};

static atomic_uint threads_started, threads_wrong;

/* Returns true if a thread takes exactly the signals that it causes itself. */
static bool takes_own_signals_only(void)
{
    static const int own[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS};
    sigset_t now, wanted;
    bool right = true;

    sigfillset(&wanted);
    sigdelset(&wanted, SIGKILL);
    sigdelset(&wanted, SIGSTOP);
    for (unsigned i = 0; i < sizeof own / sizeof own[0]; i++)
        sigdelset(&wanted, own[i]);
    pthread_sigmask(SIG_BLOCK, NULL, &now);
    for (int i = 1; i <= SIGRTMAX; i++)
        if (sigismember(&now, i) != sigismember(&wanted, i)) {
            fprintf(stderr, "signal %d is %s\n", i, sigismember(&now, i) ? "blocked" : "not blocked");
            right = false;
        }
    return right;
}

static void *look_and_run(void *argument)
{
    struct start start = *(struct start *)argument;

    free(argument);
    if (!takes_own_signals_only())
        atomic_fetch_add(&threads_wrong, 1);
    return start.run(start.argument);
}

int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*run)(void *),
                          void *argument)
{
    struct start *start = malloc(sizeof *start);
    int error;

    if (!start)
        return EAGAIN;
    *start = (struct start){.run = run, .argument = argument};
    error = __real_pthread_create(thread, attributes, look_and_run, start);
    if (error)
        free(start);
    else
        atomic_fetch_add(&threads_started, 1);
    return error;
}

static void do_nothing(void *context, uint64_t part)
{
    (void)context, (void)part;
}

/* The child: starts every sort of thread that leat has, and sends itself signals that only they could take. */
static int start_all_threads(void)
{
    static const int sent[] = {SIGUSR1, SIGALRM, SIGPROF, SIGTERM, SIGCHLD};
    size_t bytes = (size_t)8 << 20, pinned_bytes = (size_t)160 << 20;
    unsigned streams, workers, staged, pinned;
    struct test_state *t = NULL;
    void *device, *memory, *host = calloc(1, bytes);
    sigset_t pending, mine;

    test_setup((void **)&t);
    streams = atomic_load(&threads_started);
    device = test_alloc(t->device, LEAT_KIND_DEVICE, bytes);
    /* From this thread: streams would pass on what they block. */
    cpu_workers_run(do_nothing, NULL, 64);
    workers = atomic_load(&threads_started) - streams;
    OK(leat_copy(t->stream, device, host, bytes));
    OK(leat_stream_synchronize(t->stream));
    staged = atomic_load(&threads_started) - workers - streams;
    memory = test_alloc(t->device, LEAT_KIND_PINNED, pinned_bytes);
    pinned = atomic_load(&threads_started) - staged - workers - streams;
    fprintf(stderr, "%u threads of streams, %u of the CPU device, %u that copy, %u that touch memory\n", streams, workers,
            staged, pinned);
    if (streams < 2 || workers < 2 || staged < 2 || (sysconf(_SC_NPROCESSORS_ONLN) > 1 && !pinned))
        return 1;
    sigemptyset(&mine);
    for (unsigned i = 0; i < sizeof sent / sizeof sent[0]; i++)
        sigaddset(&mine, sent[i]);
    pthread_sigmask(SIG_BLOCK, &mine, NULL);
    for (unsigned i = 0; i < sizeof sent / sizeof sent[0]; i++)
        kill(getpid(), sent[i]);
    /* A thread that takes a signal takes it at once, and all but one of these would end the process. */
    sigpending(&pending);
    for (unsigned i = 0; i < sizeof sent / sizeof sent[0]; i++)
        if (!sigismember(&pending, sent[i]))
            return 2;
    OK(leat_memory_free(memory));
    OK(leat_memory_free(device));
    test_teardown((void **)&t);
    free(host);
    return atomic_load(&threads_wrong) ? 3 : CONTENT;
}

static void threads_take_no_signals_of_the_program(void **state)
{
    static const char *const words[] = {"start-threads"};

    (void)state;
    setenv("LEAT_COPY_STAGE", "1", 1);
    setenv("LEAT_COPY_WORKERS", "2", 1);
    assert_int_equal(run_self("LEAT_CPU_THREADS", "3", words, 1), CONTENT);
    unsetenv("LEAT_COPY_STAGE");
    unsetenv("LEAT_COPY_WORKERS");
}

/* ---- descriptors ---- */

/* How many descriptors of a path are open, and how many of them stay open in a program that is started. */
static void count_descriptors(const char *path, int *open_count, int *inherited)
{
    char target[64];
    ssize_t length;

    *open_count = *inherited = 0;
    for (int fd = 0; fd < 1024; fd++) {
        char name[64];

        snprintf(name, sizeof name, "/proc/self/fd/%d", fd);
        length = readlink(name, target, sizeof target - 1);
        if (length < 0)
            continue;
        target[length] = '\0';
        if (strcmp(target, path) != 0)
            continue;
        ++*open_count;
        *inherited += !(fcntl(fd, F_GETFD) & FD_CLOEXEC);
    }
}

struct pipe_watch {
    char path[64];
    int open_count, inherited;
};

/* Opens the pipe with its reader, looks at both descriptors, and lets the reader go on, which waits for that. */
static void *watch_pipe(void *argument)
{
    struct pipe_watch *watch = argument;
    int fd = open(watch->path, O_WRONLY | O_CLOEXEC);

    for (int i = 0; i < 30000 && watch->open_count < 2; i++) {
        count_descriptors(watch->path, &watch->open_count, &watch->inherited);
        test_sleep_us(watch->open_count < 2 ? 1000 : 0);
    }
    close(fd);
    return NULL;
}

static void module_files_close_on_exec(void **state)
{
    char place[] = "/tmp/leat-test-XXXXXX";
    struct pipe_watch watch = {.open_count = 0};
    leat_device *device;
    leat_module *module;
    pthread_t thread;

    (void)state;
    assert_non_null(mkdtemp(place));
    snprintf(watch.path, sizeof watch.path, "%s/pipe", place);
    assert_int_equal(mkfifo(watch.path, 0600), 0);
    OK(leat_device_open("cpu:0", &device));
    assert_int_equal(__real_pthread_create(&thread, NULL, watch_pipe, &watch), 0);
    REFUSED(leat_module_load_file(device, watch.path, &module), LEAT_ERROR_IMAGE, "empty");
    pthread_join(thread, NULL);
    unlink(watch.path);
    rmdir(place);
    OK(leat_device_close(device));
    assert_int_equal(watch.open_count, 2);
    assert_int_equal(watch.inherited, 0);
}

/* ---- limits on addresses and on memory ---- */

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED 1
#else
#define SANITIZED 0
#endif

/* What a child says that was refused something with a message that names the limit. */
enum { TOLD = 43 };

/* Goes on with the next step unless the call was refused. */
#define STEP(call)                                                                                                \
    do {                                                                                                          \
        if ((call) != LEAT_OK)                                                                                    \
            return tell(#call);                                                                                   \
    } while (0)

static const char *limit_words;

static int tell(const char *call)
{
    if (strstr(leat_last_error(), limit_words))
        return TOLD;
    fprintf(stderr, "%s: %s\n", call, leat_last_error());
    return 1;
}

/* A little of everything, with device memory, pinned, managed, plain and virtual; leaves all to the end of the
 * process. */
static int use_everything(void)
{
    static unsigned char in[1 << 20], out[1 << 20];
    leat_pool_options own = {.size = sizeof own, .dedicated = 1, .exportable = 1};
    leat_layout rows, columns;
    leat_device *device, *other;
    leat_stream *stream, *second;
    leat_event *event;
    leat_module *module;
    leat_kernel *kernel;
    leat_ticket *ticket;
    leat_pool *pool;
    size_t bytes = sizeof in;
    uint64_t count = bytes / 8, seed = 3;
    void *memory, *pinned, *managed, *plain, *shared, *reserved;
    void *args[] = {&managed, &count, &seed};

    test_pattern(in, bytes, 3);
    STEP(leat_device_open("cpu:0", &device));
    STEP(leat_stream_create(device, &stream));
    STEP(leat_alloc(stream, bytes, &memory));
    STEP(leat_copy(stream, memory, in, bytes));
    STEP(leat_copy_sync(stream, out, memory, bytes));
    if (memcmp(in, out, bytes) != 0)
        return 2;
    STEP(leat_stream_create(device, &second));
    STEP(leat_event_create(device, &event));
    STEP(leat_event_record(event, stream));
    STEP(leat_stream_wait(second, event));
    STEP(leat_memory_alloc(device, LEAT_KIND_PINNED, bytes, &pinned));
    STEP(leat_memory_alloc(device, LEAT_KIND_MANAGED, bytes, &managed));
    STEP(leat_module_builtin(device, &module));
    STEP(leat_kernel_get(module, "leat_pattern_u64", &kernel));
    STEP(leat_launch(second, kernel, leat_dim(8, 1, 1), leat_dim(64, 1, 1), 0, args, 3));
    STEP(leat_copy(second, pinned, managed, bytes));
    STEP(leat_stream_synchronize(second));
    if (memcmp(in, pinned, bytes) != 0)
        return 3;
    STEP(leat_alloc_driver(stream, 3 * bytes, &plain));
    STEP(leat_copy_start(stream, plain, in, bytes, NULL, &ticket));
    STEP(leat_ticket_wait(ticket, LEAT_COPY_DONE, LEAT_FOREVER));
    STEP(leat_layout_dense(&rows, 2, (int64_t[]){1024, 1024}, 1));
    STEP(leat_layout_dense(&columns, 2, (int64_t[]){1024, 1024}, 1));
    STEP(leat_layout_permute(&columns, (uint32_t[]){1, 0}));
    STEP(leat_copy_layout(stream, memory, &rows, plain, &columns));
    STEP(leat_pool_create(device, &own, &pool));
    STEP(leat_pool_alloc(pool, stream, bytes, &shared));
    STEP(leat_virtual_reserve(device, (size_t)2 << 20, 0, &reserved));
    STEP(leat_device_open("cpu:1", &other));
    STEP(leat_stream_create(other, &second));
    STEP(leat_alloc(second, bytes, &shared));
    STEP(leat_copy(second, shared, pinned, bytes));
    STEP(leat_stream_synchronize(second));
    return CONTENT;
}

/* As many events as the table has room for: then a message, and all of it works again. */
static int use_all_events(void)
{
    static leat_event *events[1 << 20];
    leat_device *device;
    leat_event *event;
    unsigned count = 0;

    STEP(leat_device_open("cpu:0", &device));
    while (count < 1 << 20 && leat_event_create(device, &events[count]) == LEAT_OK)
        count++;
    if (count < 1000 || count == 1 << 20 || tell("leat_event_create") != TOLD)
        return 2;
    while (count)
        STEP(leat_event_destroy(events[--count]));
    STEP(leat_event_create(device, &event));
    STEP(leat_event_destroy(event));
    STEP(leat_device_close(device));
    return CONTENT;
}

/* Runs a part of this program with so many MiB of addresses. */
static int run_limited(unsigned mib, const char *part)
{
    struct rlimit limit = {.rlim_cur = (rlim_t)mib << 20, .rlim_max = (rlim_t)mib << 20};
    pid_t child = fork_child();

    if (child == 0) {
        if (setrlimit(RLIMIT_AS, &limit))
            _exit(97);
        execl(self, self, part, (char *)NULL);
        _exit(98);
    }
    return wait_for_child(child);
}

static void few_addresses_are_enough_or_named(void **state)
{
    static const unsigned mib[] = {64,  80,  96,   128,  192,  256,   384,    512,
                                   640, 768, 1024, 2048, 4096, 65536, 1048576};
    unsigned worked = 0;

    (void)state;
    if (SANITIZED)
        SKIP_OTHER("sanitizers need all addresses");
    for (unsigned i = 0; i < sizeof mib / sizeof mib[0]; i++) {
        int code = run_limited(mib[i], "use-everything");

        if (code != CONTENT && (code != TOLD || mib[i] >= 1024))
            fail_msg("with %u MiB of addresses: exit status %d", mib[i], code);
        worked += code == CONTENT;
    }
    print_message("           %u of %zu limits were enough for everything\n", worked, sizeof mib / sizeof mib[0]);
    /* With memory of a device that is a good part of the limit, or far more. */
    setenv("LEAT_CPU_MEMORY", "1G", 1);
    assert_int_equal(run_limited(4096, "use-everything"), CONTENT);
    setenv("LEAT_CPU_MEMORY", "64G", 1);
    assert_int_equal(run_limited(2048, "use-everything"), CONTENT);
    unsetenv("LEAT_CPU_MEMORY");
    assert_int_equal(run_limited(1024, "use-all-events"), CONTENT);
}

/* ---- the limit on the number of mappings ---- */

/* Mappings of the test's own, so many that the system allows no more. */
struct filler {
    char *start;
    size_t bytes;
};

static unsigned long mappings_most(void)
{
    FILE *file = fopen("/proc/sys/vm/max_map_count", "re");
    unsigned long most = 0;

    if (file && fscanf(file, "%lu", &most) != 1)
        most = 0;
    if (file)
        fclose(file);
    return most;
}

/* Fills the process with mappings but for spare ones. over: one more than the system allows, as its check is late.
 */
static bool fill_mappings(struct filler *filler, unsigned spare, bool over)
{
    size_t page_bytes = 4096, i = 1;

    filler->bytes = 2 * (mappings_most() + 16) * page_bytes;
    filler->start = mmap(NULL, filler->bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (filler->start == MAP_FAILED)
        return false;
    /* Each makes two mappings more; the last one may make one. */
    while (i * page_bytes < filler->bytes && mprotect(filler->start + i * page_bytes, page_bytes, PROT_READ) == 0)
        i += 2;
    for (; spare && i > 2; spare--, i -= 2)
        mprotect(filler->start + (i - 2) * page_bytes, page_bytes, PROT_NONE);
    /* A new mapping beside others of the same sort would become one with them. */
    while (over && mmap(NULL, page_bytes, PROT_READ, MAP_SHARED | MAP_ANONYMOUS, -1, 0) != MAP_FAILED)
        continue;
    return true;
}

static uint64_t used_memory(leat_device *device)
{
    uint64_t free_bytes = 0, total_bytes = 0;

    return leat_device_memory(device, &free_bytes, &total_bytes) == LEAT_OK ? total_bytes - free_bytes
                                                                            : UINT64_MAX;
}

static size_t resident_bytes(void)
{
    FILE *file = fopen("/proc/self/statm", "re");
    size_t all = 0, resident = 0;

    if (file && fscanf(file, "%zu %zu", &all, &resident) != 2)
        resident = 0;
    if (file)
        fclose(file);
    return resident * (size_t)sysconf(_SC_PAGESIZE);
}

#define BLOCKS 40

/* Takes plain blocks, small and large, and fills them; the number of those that were there. */
static unsigned take_blocks(leat_stream *stream, void *blocks[BLOCKS])
{
    static const size_t sizes[] = {128000, 3 << 20};
    unsigned i;

    for (i = 0; i < BLOCKS && leat_alloc_driver(stream, sizes[i % 2], &blocks[i]) == LEAT_OK; i++)
        if (leat_fill(stream, blocks[i], (uint8_t)(i + 1), sizes[i % 2]) != LEAT_OK)
            break;
    return leat_stream_synchronize(stream) == LEAT_OK ? i : 0;
}

/* Half of them by the stream and half at once. */
static bool give_blocks_back(leat_stream *stream, void *blocks[BLOCKS], unsigned count)
{
    while (count--)
        if ((count % 4 < 2 ? leat_free(stream, blocks[count]) : leat_memory_free(blocks[count])) != LEAT_OK)
            return false;
    return leat_stream_synchronize(stream) == LEAT_OK;
}

/* The child: memory that is given back while the process has all mappings, or one more, is not lost. */
static int use_all_mappings(bool over)
{
    struct filler filler;
    leat_device *device;
    leat_stream *stream;
    leat_physical *physical;
    void *blocks[BLOCKS], *reserved;
    size_t unit, resident;
    uint64_t used;

    limit_words = "vm.max_map_count";
    STEP(leat_device_open("cpu:0", &device));
    STEP(leat_stream_create(device, &stream));
    used = used_memory(device);
    if (take_blocks(stream, blocks) != BLOCKS)
        return 2;
    STEP(leat_virtual_granularity(device, &unit));
    STEP(leat_virtual_reserve(device, 4 * unit, 0, &reserved));
    STEP(leat_physical_create(device, unit, 0, &physical));
    STEP(leat_virtual_map((char *)reserved + unit, unit, physical));
    STEP(leat_virtual_set_access((char *)reserved + unit, unit, device, LEAT_ACCESS_READ_WRITE));
    STEP(leat_fill(stream, (char *)reserved + unit, 1, unit));
    STEP(leat_stream_synchronize(stream));
    if (!fill_mappings(&filler, 0, over))
        return 3;
    resident = resident_bytes();
    if (leat_virtual_map((char *)reserved + 2 * unit, unit, physical) == LEAT_OK || tell("map") != TOLD)
        return 4;
    STEP(leat_virtual_unmap((char *)reserved + unit, unit));
    STEP(leat_physical_release(physical));
    STEP(leat_virtual_unreserve(reserved));
    if (!give_blocks_back(stream, blocks, BLOCKS))
        return 5;
    if (used_memory(device) != used || resident_bytes() + ((size_t)60 << 20) > resident)
        return 6;
    munmap(filler.start, filler.bytes);
    if (take_blocks(stream, blocks) != BLOCKS || !give_blocks_back(stream, blocks, BLOCKS))
        return 7;
    STEP(leat_device_close(device));
    return CONTENT;
}

/* The child: blocks are taken until there are no mappings left, from any number of those that are left at first.
 */
static int reach_all_mappings(void)
{
    limit_words = "vm.max_map_count";
    for (unsigned spare = 0; spare < 12; spare++) {
        struct filler filler;
        leat_device *device;
        leat_stream *stream;
        void *blocks[BLOCKS];
        unsigned taken;
        uint64_t used;

        STEP(leat_device_open("cpu:0", &device));
        STEP(leat_stream_create(device, &stream));
        used = used_memory(device);
        if (!fill_mappings(&filler, spare, false))
            return 2;
        taken = take_blocks(stream, blocks);
        if (taken == BLOCKS || tell("leat_alloc_driver") != TOLD)
            return 3;
        if (!give_blocks_back(stream, blocks, taken) || used_memory(device) != used)
            return 4;
        munmap(filler.start, filler.bytes);
        if (take_blocks(stream, blocks) != BLOCKS || !give_blocks_back(stream, blocks, BLOCKS))
            return 5;
        if (used_memory(device) != used)
            return 6;
        STEP(leat_device_close(device));
    }
    return CONTENT;
}

static void memory_goes_back_without_mappings(void **state)
{
    static const char *const parts[] = {"all-mappings", "over-mappings", "reach-mappings"};

    (void)state;
    if (SANITIZED)
        SKIP_OTHER("sanitizers need mappings of their own");
    if (!mappings_most() || mappings_most() > 2000000)
        SKIP_OTHER("there is no limit on mappings that is worth being reached");
    for (unsigned i = 0; i < 3; i++) {
        int code = run_self(NULL, NULL, &parts[i], 1);

        if (code != CONTENT)
            fail_msg("%s: exit status %d", parts[i], code);
    }
}

/* Writes one line to a file of a control group. */
static bool write_line(const char *group, const char *file, const char *line)
{
    char path[640];
    int fd;
    bool fine;

    snprintf(path, sizeof path, "%s/%s", group, file);
    fd = open(path, O_WRONLY | O_CLOEXEC);
    if (fd < 0)
        return false;
    fine = write(fd, line, strlen(line)) == (ssize_t)strlen(line);
    close(fd);
    return fine;
}

/* The child: in a group of 256 MiB, fills all of the device's memory that can be had. */
static int fill_memory(void)
{
    uint64_t free_bytes, total_bytes, filled = 0;
    leat_device *device;
    leat_stream *stream;
    void *memory;

    STEP(leat_device_open("cpu:0", &device));
    STEP(leat_stream_create(device, &stream));
    STEP(leat_device_memory(device, &free_bytes, &total_bytes));
    if (total_bytes > (uint64_t)256 << 20 || total_bytes < (uint64_t)128 << 20)
        return 2;
    if (leat_alloc(stream, (size_t)512 << 20, &memory) != LEAT_ERROR_DEVICE_MEMORY || tell("leat_alloc") != TOLD)
        return 3;
    while (leat_alloc(stream, (size_t)8 << 20, &memory) == LEAT_OK) {
        STEP(leat_fill(stream, memory, 1, (size_t)8 << 20));
        STEP(leat_stream_synchronize(stream));
        filled += (size_t)8 << 20;
    }
    return filled + ((uint64_t)8 << 20) > total_bytes && tell("leat_alloc") == TOLD ? CONTENT : 4;
}

/* Makes a group below that of this process with 256 MiB; false when the system does not let us. */
static bool make_group(char *group, size_t bytes, const char **limit)
{
    FILE *groups = fopen("/proc/self/cgroup", "re");
    char line[512], path[300];
    bool made = false;

    while (groups && !made && fgets(line, sizeof line, groups)) {
        bool second_version = sscanf(line, "0::%299[^\n]", path) == 1;

        if (!second_version && sscanf(line, "%*u:memory:%299[^\n]", path) != 1)
            continue;
        snprintf(group, bytes, "%s%s/leat-test-%d", second_version ? "/sys/fs/cgroup" : "/sys/fs/cgroup/memory",
                 path, (int)getpid());
        *limit = second_version ? "memory.max" : "memory.limit_in_bytes";
        made = mkdir(group, 0755) == 0;
        if (made && !write_line(group, *limit, "268435456")) {
            rmdir(group);
            made = false;
        }
    }
    if (groups)
        fclose(groups);
    return made;
}

static void device_memory_is_what_the_control_group_allows(void **state)
{
    const char *limit;
    char group[512];
    pid_t child;
    int code;

    (void)state;
    if (SANITIZED)
        SKIP_OTHER("sanitizers take memory of their own");
    if (!make_group(group, sizeof group, &limit))
        SKIP_OTHER("this process can make no control group that limits memory");
    child = fork_child();
    if (child == 0) {
        if (!write_line(group, "cgroup.procs", "0"))
            _exit(97);
        execl(self, self, "fill-memory", (char *)NULL);
        _exit(98);
    }
    code = wait_for_child(child);
    /* The group lives for as long as its last page. */
    for (int i = 0; i < 1000 && rmdir(group); i++)
        test_sleep_us(10000);
    assert_int_equal(code, CONTENT);
}

/* ---- variables that are on or off ---- */

/* The child: with one variable set to what is neither on nor off, is it the reason why no device opens? */
static int open_with_option(const char *name)
{
    leat_device *device;
    char words[64];

    snprintf(words, sizeof words, "%s is set to 'disabled'", name);
    if (leat_device_open("cpu:0", &device) != LEAT_ERROR_INVALID)
        return 1;
    return strstr(leat_last_error(), words) ? CONTENT : 2;
}

static void flags_refuse_other_words(void **state)
{
    leat_option_info option;
    unsigned flags = 0;

    (void)state;
    for (unsigned i = 0; leat_option_list(i, &option) == LEAT_OK; i++) {
        const char *words[] = {"open-with", option.name};

        /* So the text of each begins. */
        if (strncmp(option.text, "1: ", 3) != 0)
            continue;
        flags++;
        assert_int_equal(run_self(option.name, "disabled", words, 2), CONTENT);
    }
    assert_true(flags >= 7);
}

int main(int argc, char **argv)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(set_user_id_programs_read_no_variables),
        cmocka_unit_test(flags_refuse_other_words),
        cmocka_unit_test(threads_take_no_signals_of_the_program),
        cmocka_unit_test(module_files_close_on_exec),
        cmocka_unit_test(few_addresses_are_enough_or_named),
        cmocka_unit_test(device_memory_is_what_the_control_group_allows),
        cmocka_unit_test(memory_goes_back_without_mappings),
    };
    ssize_t length = readlink("/proc/self/exe", self, sizeof self - 1);

    /* A sanitizer would look for leaks of what is left open on purpose, and may not in a set-user-ID program. */
    if (argc == 3 && !strcmp(argv[1], "see-options"))
        _exit(see_options(argv[2]));
    if (argc == 3 && !strcmp(argv[1], "open-with"))
        return open_with_option(argv[2]);
    if (argc == 2 && !strcmp(argv[1], "start-threads"))
        return start_all_threads();
    limit_words = "'ulimit -v'";
    if (argc == 2 && !strcmp(argv[1], "use-everything"))
        _exit(use_everything());
    if (argc == 2 && !strcmp(argv[1], "use-all-events"))
        return use_all_events();
    if (argc == 2 && !strcmp(argv[1], "all-mappings"))
        return use_all_mappings(false);
    if (argc == 2 && !strcmp(argv[1], "over-mappings"))
        return use_all_mappings(true);
    if (argc == 2 && !strcmp(argv[1], "reach-mappings"))
        return reach_all_mappings();
    limit_words = "the control group";
    if (argc == 2 && !strcmp(argv[1], "fill-memory"))
        _exit(fill_memory());
    if (length <= 0)
        return 1;
    snprintf(folder, sizeof folder, "%.*s", (int)(strrchr(self, '/') - self), self);
    return cmocka_run_group_tests(tests, NULL, NULL) ? 1 : 0;
}
