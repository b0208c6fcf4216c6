/*
 * unit_process.c - tests leat and the process around it: set-user-ID programs, signals, file descriptors, and
 * environment variables that are on or off.
 *
 * Many of these settings hold for a whole process and cannot be undone. So most tests run this program again, with
 * the name of a part below as its first argument.
 */
#include "run_self.h"
#include "temporary.h"

#include "driver/cpu/cpu.h"

#include <leat/layout.h>
#include <leat/virtual.h>

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <limits.h>
#include <link.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- helper functions ---- */

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

/* Runs in the child. Checks that leat sees all of its variables ("all") or none of them ("none"), and that it has
 * loaded the library of LEAT_CUDA_LIBRARY only in the first case. */
static int see_options(const char *wanted)
{
    bool all = !strcmp(wanted, "all"), loaded = false;
    leat_driver_info driver = LEAT_DRIVER_INFO_INIT;
    leat_option_info option = LEAT_OPTION_INFO_INIT;

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

/* Sets every variable of leat. The values of the variables that select drivers make leat load the fake library;
 * the other values do not matter. */
static void set_all_options(const char *library)
{
    leat_option_info option = LEAT_OPTION_INFO_INIT;

    for (unsigned i = 0; leat_option_list(i, &option) == LEAT_OK; i++)
        setenv(option.name, "1", 1);
    setenv("LEAT_DRIVERS", "cuda", 1);
    setenv("LEAT_CUDA_LIBRARY", library, 1);
    setenv("LEAT_FAULT", "fail=1000000", 1);
}

/* Runs the part see-options of a copy of this program as the user nobody. */
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

/* Returns true if every user may enter this folder and all folders above it. */
static bool others_reach(const char *path)
{
    char whole[PATH_MAX];
    struct stat status;

    assert_non_null(realpath(path, whole));
    for (char *end = whole + strlen(whole); end; end = strrchr(whole, '/')) {
        *end = '\0';
        if (stat(*whole ? whole : "/", &status) || !(status.st_mode & S_IXOTH))
            return false;
    }
    return true;
}

static void set_user_id_programs_read_no_variables(void **state)
{
    char place[TEMPORARY_PATH], plain[sizeof place + 32], privileged[sizeof plain], library[sizeof plain],
        fake[4096];
    struct statvfs system;

    (void)state;
    if (geteuid() != 0)
        SKIP_OTHER("only root can make a set-user-ID program of another user's");
    if (statvfs(temporary_root(), &system) || system.f_flag & (ST_NOSUID | ST_NOEXEC))
        SKIP_OTHER("the file system of temporary files allows no set-user-ID programs");
    if (!others_reach(temporary_root()))
        SKIP_OTHER("other users cannot reach the folder of temporary files");
    assert_true(temporary_folder(place));
    assert_int_equal(chmod(place, 0755), 0);
    snprintf(plain, sizeof plain, "%s/plain", place);
    snprintf(privileged, sizeof privileged, "%s/privileged", place);
    snprintf(library, sizeof library, "%s/fake_cuda.so", place);
    snprintf(fake, sizeof fake, "%s/fake/fake_cuda.so", folder);
    copy_file(fake, library, 0755);
    copy_file(self, plain, 0755);
    copy_file(self, privileged, 04755);
    /* Only the set-user-ID program must ignore the variables. */
    assert_int_equal(run_as_other(plain, library, "all"), CONTENT);
    assert_int_equal(run_as_other(privileged, library, "none"), CONTENT);
    assert_true(temporary_folder_remove(place));
}

/* ---- signals, and the threads of leat ---- */

/* With --wrap the linker directs calls of pthread_create() in leat to __wrap_pthread_create(). Each new thread
 * then checks its signal mask before it runs. */
int __real_pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*run)(void *),
                          void *argument);
int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*run)(void *),
                          void *argument);

struct start {
    void *(*run)(void *);
    void *argument;
};

static atomic_uint threads_started, threads_wrong;

/* Returns true if the calling thread blocks all signals except those that its own faults cause. */
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

/* Runs in the child. Starts every sort of thread that leat has. Then blocks some signals in this thread and sends
 * them to the process, so that only leat's threads could take them. */
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
    /* Start the CPU device's workers from this thread, because the thread of a stream would pass its own signal
     * mask on to them. */
    cpu_workers_run(do_nothing, NULL, 64);
    workers = atomic_load(&threads_started) - streams;
    OK(leat_copy(t->stream, device, host, bytes));
    OK(leat_stream_synchronize(t->stream));
    staged = atomic_load(&threads_started) - workers - streams;
    memory = test_alloc(t->device, LEAT_KIND_PINNED, pinned_bytes);
    pinned = atomic_load(&threads_started) - staged - workers - streams;
    fprintf(stderr, "%u threads of streams, %u of the CPU device, %u that copy, %u that touch memory\n", streams,
            workers, staged, pinned);
    if (streams < 2 || workers < 2 || staged < 2 || (sysconf(_SC_NPROCESSORS_ONLN) > 1 && !pinned))
        return 1;
    sigemptyset(&mine);
    for (unsigned i = 0; i < sizeof sent / sizeof sent[0]; i++)
        sigaddset(&mine, sent[i]);
    pthread_sigmask(SIG_BLOCK, &mine, NULL);
    for (unsigned i = 0; i < sizeof sent / sizeof sent[0]; i++)
        kill(getpid(), sent[i]);
    /* A thread that does not block a signal would take it at once, and each of these signals except SIGCHLD would
     * end the process. */
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

/* ---- file descriptors ---- */

/* Counts how many descriptors are open for a path, and how many of them a program that is started would
 * inherit. */
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
    char path[TEMPORARY_PATH + 32];
    int open_count, inherited;
};

/* Opens the pipe for writing, waits until leat has opened it for reading, and counts both descriptors. Then closes
 * its own one, which lets leat continue. */
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
    char place[TEMPORARY_PATH];
    struct pipe_watch watch = {.open_count = 0};
    leat_device *device;
    leat_module *module;
    pthread_t thread;

    (void)state;
    assert_true(temporary_folder(place));
    snprintf(watch.path, sizeof watch.path, "%s/pipe", place);
    assert_int_equal(mkfifo(watch.path, 0600), 0);
    OK(leat_device_open("cpu:0", &device));
    assert_int_equal(__real_pthread_create(&thread, NULL, watch_pipe, &watch), 0);
    REFUSED(leat_module_load_file(device, watch.path, &module), LEAT_ERROR_IMAGE, "empty");
    pthread_join(thread, NULL);
    assert_true(temporary_folder_remove(place));
    OK(leat_device_close(device));
    assert_int_equal(watch.open_count, 2);
    assert_int_equal(watch.inherited, 0);
}

/* ---- variables that are on or off ---- */

/* Runs in the child, with a value in this variable that is neither on nor off. Returns CONTENT if opening a device
 * fails because of it. */
static int open_with_option(const char *name)
{
    leat_device *device;
    char words[128];

    snprintf(words, sizeof words, "%s is set to 'disabled', and takes 1, yes, on or true, or 0, no, off or false",
             name);
    if (leat_device_open("cpu:0", &device) != LEAT_ERROR_INVALID)
        return 1;
    return strstr(leat_last_error(), words) ? CONTENT : 2;
}

static void flags_refuse_other_words(void **state)
{
    leat_option_info option = LEAT_OPTION_INFO_INIT;
    unsigned flags = 0;

    (void)state;
    for (unsigned i = 0; leat_option_list(i, &option) == LEAT_OK; i++) {
        const char *words[] = {"open-with", option.name};

        /* The description of a variable that is on or off begins with this text. */
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
    };
    ssize_t length = readlink("/proc/self/exe", self, sizeof self - 1);

    /* Call _exit(), because a sanitizer searches for leaks at exit, which it must not do in a set-user-ID
     * program. */
    if (argc == 3 && !strcmp(argv[1], "see-options"))
        _exit(see_options(argv[2]));
    if (argc == 3 && !strcmp(argv[1], "open-with"))
        return open_with_option(argv[2]);
    if (argc == 2 && !strcmp(argv[1], "start-threads"))
        return start_all_threads();
    if (length <= 0)
        return 1;
    snprintf(folder, sizeof folder, "%.*s", (int)(strrchr(self, '/') - self), self);
    return cmocka_run_group_tests(tests, NULL, NULL) ? 1 : 0;
}
