/*
 * gds.c - asks NVIDIA's libcufile in a child process whether GPUDirect Storage could read a file; see gds.h.
 */
#include "gds.h"
#include "cli.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define LIBRARY "libcufile.so.0"
#define ANSWER "gds: " /* before the answer of the child, since libcufile may print too */

enum { ANSWER_BYTES = 512, LIMIT_MS = 5000 };

extern char **environ;

/* ---- the child ---- */

/* Declarations of libcufile, with leat's own names. */
struct cufile_error {
    int code; /* 0: success */
    int cuda_code;
};

struct cufile_properties {
    struct {
        unsigned major, minor;
        size_t poll_bytes, direct_bytes;
        unsigned storage; /* a bit for each kind of storage that libcufile reads directly */
        unsigned control;
    } driver;
    unsigned rest[6];
};

struct cufile_file {
    int type; /* 1: fd */
    union {
        int fd;
        void *other;
    } handle;
    const void *functions;
};

struct cufile {
    struct cufile_error (*open_driver)(void);
    struct cufile_error (*get_properties)(struct cufile_properties *properties);
    struct cufile_error (*register_handle)(void **handle, struct cufile_file *file);
    struct cufile_error (*get_version)(int *version); /* NULL: libcufile is older than this call */
};

static int answer(const char *words)
{
    printf(ANSWER "%s\n", words);
    return CLI_OK;
}

static int answer_failure(const char *call, struct cufile_error error)
{
    printf(ANSWER "%s returned %d\n", call, error.code);
    return CLI_OK;
}

/* Stores the address of a function in *function. memcpy(), because ISO C has no cast from void * to it. */
static bool find(void *library, const char *name, void *function)
{
    void *found = dlsym(library, name);

    memcpy(function, &found, sizeof found);
    return found;
}

/* Says which storage libcufile reads directly, and what it would do with this file. refused: the error code of
 * cuFileHandleRegister(). */
static int answer_properties(const struct cufile *cufile, const struct cufile_properties *properties, int refused)
{
    static const char *const kinds[] = {"Lustre", "WekaFS",    "NFS",    "GPFS",   "NVMe", "NVMe-oF",
                                        "SCSI",   "ScaleFlux", "NVMesh", "BeeGFS", NULL,   "NVMe by P2PDMA"};
    const char *separator = "";
    int version = 0;

    if (cufile->get_version)
        (void)cufile->get_version(&version);
    printf(ANSWER "libcufile ");
    if (version)
        printf("%d.%d ", version / 1000, version % 1000 / 10);
    if (!properties->driver.storage) {
        printf("finds no storage that a GPU here reads directly, and would stage too\n");
        return CLI_OK;
    }
    printf("reads ");
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++)
        if (kinds[i] && properties->driver.storage >> i & 1) {
            printf("%s%s", separator, kinds[i]);
            separator = ", ";
        }
    if (refused)
        printf(" directly here, but refuses this file with %d\n", refused);
    else
        printf(" directly here, and accepts this file: a program for cuFile may read it without the host\n");
    return CLI_OK;
}

static int ask(const struct cufile *cufile, int fd)
{
    struct cufile_file file = {.type = 1, .handle.fd = fd};
    struct cufile_properties properties = {.rest = {0}};
    void *handle;
    struct cufile_error error = cufile->open_driver();

    if (error.code)
        return answer_failure("cuFileDriverOpen", error);
    error = cufile->get_properties(&properties);
    if (error.code)
        return answer_failure("cuFileDriverGetProperties", error);
    return answer_properties(cufile, &properties, cufile->register_handle(&handle, &file).code);
}

int cli_gds_probe(const char *path)
{
    struct cufile cufile;
    void *library, *of_leat;
    int file = open(path, O_RDONLY | O_DIRECT | O_CLOEXEC);

    if (file < 0)
        return printf(ANSWER "the file cannot be opened past the system's cache: %s\n", strerror(errno)) < 0;
    /* libcufile writes a log into the current folder. Nobody can write here. */
    if (chdir("/proc") != 0)
        return CLI_FAILED;
    library = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL);
    if (!library)
        return printf(ANSWER "%s cannot be loaded: %s\n", LIBRARY, dlerror()) < 0;
    /* libleat-cufile needs libleat, so this look-up finds its symbols there. */
    if (find(library, "leat_version", &of_leat))
        return answer("the " LIBRARY " that programs find here is leat's own, which stages");
    if (!find(library, "cuFileDriverOpen", &cufile.open_driver) ||
        !find(library, "cuFileDriverGetProperties", &cufile.get_properties) ||
        !find(library, "cuFileHandleRegister", &cufile.register_handle))
        return answer(LIBRARY " lacks a function that is needed");
    (void)find(library, "cuFileGetVersion", &cufile.get_version);
    return ask(&cufile, file);
}

/* ---- the parent ---- */

static int64_t now_ms(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* Starts the child. Returns a descriptor from which its output can be read, or -1 with errno set. */
static int start(const char *path, pid_t *pid)
{
    char *const words[] = {(char *)(uintptr_t) "leat", (char *)(uintptr_t) "explain",
                           (char *)(uintptr_t)CLI_GDS_PROBE, (char *)(uintptr_t)path, NULL};
    posix_spawn_file_actions_t actions;
    int ends[2], code;

    if (pipe2(ends, O_CLOEXEC) != 0)
        return -1;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
    posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
    code = posix_spawn(pid, "/proc/self/exe", &actions, NULL, words, environ);
    posix_spawn_file_actions_destroy(&actions);
    close(ends[1]);
    if (code == 0)
        return ends[0];
    close(ends[0]);
    errno = code;
    return -1;
}

/* Reads what the child prints until it ends, or until the time is up. Returns false if the time is up. */
static bool listen_to(int output, char *said, size_t room)
{
    struct pollfd wanted = {.fd = output, .events = POLLIN};
    int64_t end_ms = now_ms() + LIMIT_MS;
    size_t used = 0;

    for (;;) {
        int64_t left_ms = end_ms - now_ms();
        char rest[256];
        ssize_t got;

        said[used] = '\0';
        if (left_ms <= 0 || poll(&wanted, 1, (int)left_ms) == 0)
            return false;
        got = used + 1 < room ? read(output, said + used, room - 1 - used) : read(output, rest, sizeof rest);
        if (got == 0 || (got < 0 && errno != EINTR))
            return true;
        if (got > 0 && used + 1 < room)
            used += (size_t)got;
    }
}

void cli_gds_explain(const char *path, char *text, size_t bytes)
{
    char said[4 * ANSWER_BYTES];
    const char *found;
    int output, status = 0;
    bool in_time;
    pid_t pid;

    output = start(path, &pid);
    if (output < 0) {
        snprintf(text, bytes, "unknown, a second leat cannot be started: %s", strerror(errno));
        return;
    }
    in_time = listen_to(output, said, sizeof said);
    close(output);
    /* Do not wait for a child that was killed: it may be in a call of the kernel that does not return. */
    if (!in_time)
        kill(pid, SIGKILL);
    while (in_time && waitpid(pid, &status, 0) < 0 && errno == EINTR)
        ;
    found = strstr(said, ANSWER);
    if (found)
        snprintf(text, bytes, "%.*s", (int)strcspn(found + strlen(ANSWER), "\n"), found + strlen(ANSWER));
    else if (!in_time)
        snprintf(text, bytes, "%s did not answer within %d s", LIBRARY, LIMIT_MS / 1000);
    else
        snprintf(text, bytes, "%s ended the process that asked it, by %s %d", LIBRARY,
                 WIFSIGNALED(status) ? "signal" : "exit status",
                 WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
}
