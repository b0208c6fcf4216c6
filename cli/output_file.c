/* output_file.c - see output_file.h. */
#include "output_file.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const int ends[] = {SIGINT, SIGTERM, SIGHUP};

enum { END_COUNT = sizeof ends / sizeof ends[0] };

static char *volatile removed; /* by a signal */
static struct sigaction before[END_COUNT];

static void remove_and_end(int number)
{
    const char *path = removed;

    if (path)
        unlink(path);
    signal(number, SIG_DFL);
    raise(number); /* it is blocked until this returns */
}

static void catch_signals(char *path)
{
    struct sigaction action = {.sa_handler = remove_and_end};

    removed = path;
    for (int i = 0; i < END_COUNT; i++) {
        sigaction(ends[i], NULL, &before[i]);
        if (before[i].sa_handler == SIG_DFL)
            sigaction(ends[i], &action, NULL);
    }
}

static void leave_signals(void)
{
    for (int i = 0; i < END_COUNT; i++)
        sigaction(ends[i], &before[i], NULL);
    removed = NULL;
}

/* Opens a temporary file beside output->path, with the mode of the file that it will replace. Returns a descriptor
 * or -1. */
static int open_temporary(struct output_file *output, const struct stat *old)
{
    mode_t mask = umask(0);
    sigset_t set, old_set;
    int fd;

    umask(mask);
    if (asprintf(&output->temporary, "%s.XXXXXX", output->path) < 0) {
        output->temporary = NULL;
        return -1;
    }
    /* A signal waits until it can remove the file. */
    sigemptyset(&set);
    for (int i = 0; i < END_COUNT; i++)
        sigaddset(&set, ends[i]);
    sigprocmask(SIG_BLOCK, &set, &old_set);
    fd = mkostemp(output->temporary, O_CLOEXEC);
    if (fd >= 0)
        catch_signals(output->temporary);
    sigprocmask(SIG_SETMASK, &old_set, NULL);
    if (fd >= 0 && fchmod(fd, old ? old->st_mode & 0777 : 0666 & ~mask) == 0)
        return fd;
    if (fd >= 0) {
        close(fd);
        unlink(output->temporary);
        leave_signals();
    }
    free(output->temporary);
    output->temporary = NULL;
    return -1;
}

bool output_file_open(struct output_file *output, const char *path)
{
    struct stat old;
    bool exists = stat(path, &old) == 0;
    bool is_plain = strncmp(path, "/dev/", 5) != 0 && strncmp(path, "/proc/", 6) != 0; /* no /dev/stdout */
    int fd = -1, error;

    *output = (struct output_file){.path = exists ? realpath(path, NULL) : strdup(path)};
    if (!output->path)
        return false;
    if (is_plain && (!exists || (S_ISREG(old.st_mode) && access(path, W_OK) == 0)))
        fd = open_temporary(output, exists ? &old : NULL);
    output->file = fd >= 0 ? fdopen(fd, "w") : fopen(path, "we");
    if (output->file)
        return true;
    error = errno;
    if (output->temporary) {
        close(fd);
        unlink(output->temporary);
        leave_signals();
    }
    free(output->temporary);
    free(output->path);
    errno = error;
    return false;
}

bool output_file_close(struct output_file *output, bool keep)
{
    bool fine = !ferror(output->file);
    int error = errno;

    if (fclose(output->file) != 0 && fine) {
        fine = false;
        error = errno;
    }
    if (output->temporary) {
        if (fine && keep && rename(output->temporary, output->path) != 0) {
            fine = false;
            error = errno;
        }
        if (!fine || !keep)
            unlink(output->temporary);
        leave_signals();
    }
    free(output->temporary);
    free(output->path);
    errno = error;
    return fine || !keep;
}

bool output_file_is_same(const char *a, const char *b)
{
    struct stat one, other;

    return stat(a, &one) == 0 && stat(b, &other) == 0 && S_ISREG(one.st_mode) && one.st_dev == other.st_dev &&
           one.st_ino == other.st_ino;
}
