/* record_file.c - see record_file.h. */
#include "base/record_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

bool leati_record_file_name(char *path, size_t path_bytes, const char *pattern)
{
    size_t used = 0;

    for (; *pattern && used < path_bytes; pattern++) {
        if (pattern[0] == '%' && pattern[1] == 'p') {
            used += (size_t)snprintf(path + used, path_bytes - used, "%ld", (long)getpid());
            pattern++;
        } else {
            path[used++] = *pattern;
        }
    }
    if (used >= path_bytes)
        return false;
    path[used] = '\0';
    return true;
}

int leati_record_file_open(const char *path, bool *is_regular, const char **why)
{
    /* O_NONBLOCK: otherwise opening a named pipe would wait for a reader. */
    int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC | O_NOCTTY | O_NONBLOCK, 0666);
    struct stat status;

    *why = NULL;
    if (fd < 0 || fstat(fd, &status)) {
        *why = strerror(errno);
    } else if (S_ISREG(status.st_mode)) {
        *is_regular = true;
        if (flock(fd, LOCK_EX | LOCK_NB) && errno == EWOULDBLOCK)
            *why = "another process is recording to it; with %p in the name each process has a file of its own";
        else if (ftruncate(fd, 0))
            *why = strerror(errno);
    } else if (!S_ISCHR(status.st_mode)) {
        *why = "it is neither a file nor a character device";
    } else {
        *is_regular = false;
    }
    if (!*why && fcntl(fd, F_SETFL, 0))
        *why = strerror(errno);
    if (*why && fd >= 0)
        close(fd);
    return *why ? -1 : fd;
}

size_t leati_record_file_write(int fd, bool is_regular, off_t written_bytes, const void *data, size_t bytes,
                               int *error)
{
    struct rlimit limit;
    size_t done = 0;
    ssize_t count = 0;

    /* A write beyond this limit would kill the process (SIGXFSZ). */
    if (is_regular && !getrlimit(RLIMIT_FSIZE, &limit) && limit.rlim_cur != RLIM_INFINITY &&
        (rlim_t)written_bytes + bytes > limit.rlim_cur) {
        *error = EFBIG;
        return 0;
    }
    while (done < bytes) {
        count = write(fd, (const char *)data + done, bytes - done);
        if (count > 0)
            done += (size_t)count;
        else if (count == 0 || errno != EINTR)
            break;
    }
    if (done < bytes)
        *error = count ? errno : ENOSPC;
    return done;
}
