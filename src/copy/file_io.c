/* file_io.c - the bytes of files; see file.h. Called by worker threads, several at once for one file. */
#include "copy/file.h"

#include "base/assert.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* Drops the first bytes of a list of parts. */
static void advance(struct iovec **parts, unsigned *count, size_t bytes)
{
    while (*count && bytes >= (*parts)->iov_len) {
        bytes -= (*parts)->iov_len;
        ++*parts;
        --*count;
    }
    leati_assert(*count || !bytes);
    if (!bytes)
        return;
    (*parts)->iov_base = (char *)(*parts)->iov_base + bytes;
    (*parts)->iov_len -= bytes;
}

size_t leati_file_move(const struct leati_open_file *open, uint64_t offset, struct iovec *parts, unsigned count,
                       bool write, int *error)
{
    size_t moved = 0;

    while (count) {
        off_t at = (off_t)(offset + moved);
        ssize_t some = write ? pwritev(open->fd, parts, (int)count, at) : preadv(open->fd, parts, (int)count, at);

        if (some > 0) {
            moved += (size_t)some;
            advance(&parts, &count, (size_t)some);
        } else if (some == 0 || errno != EINTR) {
            *error = some ? errno : 0;
            break;
        }
    }
    return moved;
}

void leati_file_describe(const struct leati_open_file *open, uint64_t offset, bool write, int error, char *text,
                         size_t text_bytes)
{
    if (error)
        snprintf(text, text_bytes, "%s at offset %llu of %s: %s", write ? "pwrite" : "pread",
                 (unsigned long long)offset, open->path, strerror(error));
    else
        snprintf(text, text_bytes, "%s now ends at %llu: it was cut while it was read", open->path,
                 (unsigned long long)offset);
}
