/*
 * live.c - a program that cli_top.sh looks at while it runs. It copies and allocates without a pause, and obeys
 * the lines of its standard input; it answers each with one line:
 *
 *   hold      holds a stream by a host function, with a copy of HELD bytes behind it
 *   release   lets that stream go on, and waits for it
 *   fork      makes a child by fork(), and says its process ID
 *   clone     makes a child by the system call alone, so that no handler of fork() runs
 *   stop      stops the trace
 *   start     starts a trace to /dev/null with times of the host only
 *   end       ends the program
 */
#include <leat/leat.h>

#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { BYTES = 64 << 10, HELD = 3 << 20, POOL = 8 << 20 };

#define OK(call) must((call) == LEAT_OK, #call, __LINE__)

static void must(bool fine, const char *what, int line)
{
    if (fine)
        return;
    fprintf(stderr, "live: line %d: %s: %s\n", line, what, leat_last_error());
    exit(1);
}

static atomic_bool holds;

static void hold(void *unused)
{
    const struct timespec pause = {.tv_nsec = 1000000};

    (void)unused;
    while (holds)
        nanosleep(&pause, NULL);
}

struct scene {
    leat_device *device;
    leat_stream *stream, *held;
    leat_pool *pool;
    char *memory, *pageable, *pinned;
};

static void make(struct scene *scene)
{
    const char *name = getenv("LEAT_TEST_DEVICE");
    leat_pool_options options = LEAT_POOL_OPTIONS_INIT;
    void *ptr;

    options.name = "live pool";
    OK(leat_device_open(name ? name : "cpu:0", &scene->device));
    OK(leat_stream_create(scene->device, &scene->stream));
    OK(leat_stream_create(scene->device, &scene->held));
    OK(leat_pool_create(scene->device, &options, &scene->pool));
    OK(leat_pool_alloc(scene->stream, scene->pool, POOL, &ptr));
    scene->memory = ptr;
    OK(leat_memory_alloc(scene->device, LEAT_KIND_PINNED, HELD, &ptr));
    scene->pinned = ptr;
    scene->pageable = calloc(1, BYTES);
    must(scene->pageable != NULL, "calloc", __LINE__);
}

static void work(struct scene *scene)
{
    const struct timespec pause = {.tv_nsec = 200000};
    void *ptr;

    OK(leat_copy(scene->stream, scene->memory, scene->pageable, BYTES));
    OK(leat_copy_sync(scene->stream, scene->pageable, scene->memory, BYTES));
    OK(leat_alloc(scene->stream, 4096, &ptr));
    OK(leat_free(scene->stream, ptr));
    nanosleep(&pause, NULL);
}

static void stay_as_child(void)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    for (;;)
        pause();
}

/* Obeys a line. */
static void obey(struct scene *scene, const char *line)
{
    leat_trace_options options = LEAT_TRACE_OPTIONS_INIT;
    long child = 0;

    options.flags = LEAT_TRACE_HOST_ONLY;
    if (!strcmp(line, "hold\n")) {
        holds = true;
        OK(leat_launch_host(scene->held, hold, NULL));
        OK(leat_copy(scene->held, scene->memory + POOL / 2, scene->pinned, HELD));
    } else if (!strcmp(line, "release\n")) {
        holds = false;
        OK(leat_stream_synchronize(scene->held));
    } else if (!strcmp(line, "fork\n")) {
        child = fork();
    } else if (!strcmp(line, "clone\n")) {
        child = syscall(SYS_clone, (unsigned long)SIGCHLD, NULL, NULL, NULL, 0ul);
    } else if (!strcmp(line, "stop\n")) {
        OK(leat_trace_stop(NULL));
    } else if (!strcmp(line, "start\n")) {
        OK(leat_trace_start("/dev/null", &options));
    } else {
        must(!strcmp(line, "end\n"), line, __LINE__);
        OK(leat_free(scene->stream, scene->memory));
        OK(leat_memory_free(scene->pinned));
        OK(leat_device_close(scene->device));
        free(scene->pageable);
        exit(0);
    }
    if (!child && (!strcmp(line, "fork\n") || !strcmp(line, "clone\n")))
        stay_as_child();
    must(child >= 0, line, __LINE__);
    printf("%ld\n", child ? child : (long)getpid());
    fflush(stdout);
}

int main(void)
{
    struct pollfd input = {.fd = STDIN_FILENO, .events = POLLIN};
    struct scene scene;
    char line[64];

    setvbuf(stdin, NULL, _IONBF, 0);
    make(&scene);
    printf("%ld\n", (long)getpid());
    fflush(stdout);
    for (;;) {
        work(&scene);
        if (poll(&input, 1, 0) <= 0)
            continue;
        if (!fgets(line, sizeof line, stdin))
            return 1;
        obey(&scene, line);
    }
}
