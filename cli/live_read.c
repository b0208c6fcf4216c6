/* live_read.c - see live_read.h. */
#include "live_read.h"
#include "text.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { TRIES = 200 }; /* the recorder writes for some microseconds, every 5 ms */

static const char link_text[] = "/memfd:" LEATI_LIVE_NAME " (deleted)";

static void clean(char *text, size_t bytes)
{
    text[bytes - 1] = '\0';
    text_clean(text);
}

static void clean_all(struct leati_live *live)
{
    int i;

    clean(live->path, sizeof live->path);
    for (i = 0; i < LEATI_LIVE_DEVICES; i++)
        clean(live->devices[i].name, sizeof live->devices[i].name);
    for (i = 0; i < LEATI_LIVE_POOLS; i++) {
        clean(live->pools[i].name, sizeof live->pools[i].name);
        clean(live->pools[i].device, sizeof live->pools[i].device);
    }
}

const char *live_program(long pid, char program[LIVE_PROGRAM_MAX])
{
    char name[64];
    ssize_t bytes;

    snprintf(name, sizeof name, "/proc/%ld/exe", pid);
    bytes = readlink(name, program, LIVE_PROGRAM_MAX - 1);
    if (bytes <= 0)
        snprintf(program, LIVE_PROGRAM_MAX, "?");
    else
        program[bytes] = '\0';
    clean(program, LIVE_PROGRAM_MAX);
    return program;
}

/* Returns the number that the process has for itself: in a container it is another one than here. */
static uint64_t own_number(long pid)
{
    uint64_t number = (uint64_t)pid;
    char line[256];
    FILE *file;

    snprintf(line, sizeof line, "/proc/%ld/status", pid);
    file = fopen(line, "re");
    if (!file)
        return number;
    while (fgets(line, sizeof line, file)) {
        char *at = line + 6, *end;

        if (strncmp(line, "NSpid:", 6) != 0)
            continue;
        for (;; at = end) { /* the last one counts */
            uint64_t next = strtoull(at, &end, 10);

            if (end == at)
                break;
            number = next;
        }
        break;
    }
    fclose(file);
    return number;
}

/* Reads the counters while the recorder does not write them. Returns false if they cannot be read. */
static bool read_whole(int fd, struct leati_live *live)
{
    const struct timespec pause = {.tv_nsec = 200000};
    uint64_t sequence;
    int tries;

    for (tries = 0; tries < TRIES; tries++) {
        if (pread(fd, live, sizeof *live, 0) != (ssize_t)sizeof *live)
            return false;
        if (pread(fd, &sequence, sizeof sequence, offsetof(struct leati_live, sequence)) !=
            (ssize_t)sizeof sequence)
            return false;
        if (sequence % 2 == 0 && sequence == live->sequence)
            return true;
        nanosleep(&pause, NULL);
    }
    return false;
}

/* Reads the counters behind a descriptor of the process. */
static enum live_state read_counters(int fd, long pid, struct leati_live *live, char error[LIVE_ERROR_MAX])
{
    struct stat status;

    if (fstat(fd, &status) || !S_ISREG(status.st_mode) || status.st_size < 16 || pread(fd, live, 16, 0) != 16 ||
        memcmp(live->magic, LEATI_LIVE_MAGIC, sizeof live->magic) != 0)
        return LIVE_ABSENT;
    if (live->version != LEATI_LIVE_VERSION || live->bytes != sizeof *live ||
        (uint64_t)status.st_size != sizeof *live) {
        snprintf(
            error, LIVE_ERROR_MAX,
            "process %ld has live counters of version %lu, and this leat reads version %u; use the leat command "
            "that belongs to its library",
            pid, (unsigned long)live->version, LEATI_LIVE_VERSION);
        return LIVE_FAILED;
    }
    if (!read_whole(fd, live)) {
        snprintf(error, LIVE_ERROR_MAX,
                 "the live counters of process %ld cannot be read: it may be stopped while it "
                 "writes them",
                 pid);
        return LIVE_FAILED;
    }
    /* A child that the handlers of fork() have not seen has the descriptor of its parent. */
    if (live->process != own_number(pid))
        return LIVE_ABSENT;
    clean_all(live);
    return LIVE_READ;
}

/* Looks at one descriptor of the process. */
static enum live_state look_at(int folder, const char *name, long pid, struct leati_live *live,
                               char error[LIVE_ERROR_MAX])
{
    char link[sizeof link_text + 1];
    ssize_t bytes = readlinkat(folder, name, link, sizeof link);
    enum live_state state;
    int fd;

    if (bytes != (ssize_t)sizeof link_text - 1 || memcmp(link, link_text, sizeof link_text - 1) != 0)
        return LIVE_ABSENT;
    /* O_NONBLOCK: the descriptor may be another file by now. */
    fd = openat(folder, name, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd < 0)
        return LIVE_ABSENT;
    state = read_counters(fd, pid, live, error);
    close(fd);
    return state;
}

enum live_state live_read(long pid, struct leati_live *live, char error[LIVE_ERROR_MAX])
{
    enum live_state state = LIVE_ABSENT;
    struct dirent *entry;
    char path[64];
    DIR *folder;
    int fds;

    snprintf(path, sizeof path, "/proc/%ld/fd", pid);
    folder = opendir(path);
    if (!folder && (errno == ENOENT || errno == ESRCH)) {
        snprintf(error, LIVE_ERROR_MAX, "there is no process %ld", pid);
        return LIVE_GONE;
    }
    if (!folder) {
        snprintf(error, LIVE_ERROR_MAX, "process %ld cannot be looked at: %s; only its user may", pid,
                 strerror(errno));
        return LIVE_FAILED;
    }
    fds = dirfd(folder);
    while (fds >= 0 && state == LIVE_ABSENT && (entry = readdir(folder)))
        if (entry->d_name[0] != '.')
            state = look_at(fds, entry->d_name, pid, live, error);
    closedir(folder);
    if (state == LIVE_ABSENT)
        snprintf(
            error, LIVE_ERROR_MAX,
            "process %ld records no trace: start it with LEAT_TRACE=FILE, or with LEAT_TRACE=/dev/null for live "
            "counters alone",
            pid);
    return state;
}

bool live_each(void (*found)(void *context, long pid, const struct leati_live *live), void *context,
               char error[LIVE_ERROR_MAX])
{
    struct leati_live *live = malloc(sizeof *live);
    DIR *folder = opendir("/proc");
    struct dirent *entry;

    if (!live || !folder) {
        snprintf(error, LIVE_ERROR_MAX, "the processes cannot be listed: %s",
                 live ? strerror(errno) : "out of host memory");
        free(live);
        if (folder)
            closedir(folder);
        return false;
    }
    while ((entry = readdir(folder))) {
        char *end, why[LIVE_ERROR_MAX];
        long pid = strtol(entry->d_name, &end, 10);

        if (pid > 0 && !*end && live_read(pid, live, why) == LIVE_READ)
            found(context, pid, live);
    }
    closedir(folder);
    free(live);
    return true;
}
