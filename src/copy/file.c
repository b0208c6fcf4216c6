/*
 * file.c - the calls of leat/file.h: open files, and copies from and to them.
 *
 * A file is storage (staging/job.h) of a transfer: the workers read and write it with pread() and pwrite().
 */
#include "base/handles.h"
#include "copy/copy.h"

#include <leat/file.h>

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* The open file. Copies under way keep it open after leat_file_close(). */
struct open_file {
    atomic_uint holders; /* reference count: the handle, and jobs */
    int fd;
    unsigned flags;
    char path[];
};

struct leat_file {
    struct leati_handle handle;
    struct open_file *open;
};

static struct leati_handles file_handles = LEATI_HANDLES(struct leat_file);

/* ---- a file as storage ---- */

static void hold(void *object)
{
    struct open_file *open = object;

    atomic_fetch_add_explicit(&open->holders, 1, memory_order_relaxed);
}

static void release(void *object)
{
    struct open_file *open = object;

    /* Release and acquire: the last holder closes the file after all uses by the others. */
    if (atomic_fetch_sub_explicit(&open->holders, 1, memory_order_acq_rel) != 1)
        return;
    (void)close(open->fd);
    free(open);
}

static size_t move(void *object, uint64_t offset, void *memory, size_t bytes, bool write, int *error)
{
    const struct open_file *open = object;
    size_t moved = 0;

    while (moved < bytes) {
        char *at = (char *)memory + moved;
        off_t place = (off_t)(offset + moved);
        ssize_t some =
            write ? pwrite(open->fd, at, bytes - moved, place) : pread(open->fd, at, bytes - moved, place);

        if (some > 0) {
            moved += (size_t)some;
        } else if (some == 0 || errno != EINTR) {
            *error = some ? errno : 0;
            break;
        }
    }
    return moved;
}

static void describe(const void *object, uint64_t offset, bool write, int error, char *text, size_t text_bytes)
{
    const struct open_file *open = object;

    if (error)
        snprintf(text, text_bytes, "%s at offset %llu of %s: %s", write ? "pwrite" : "pread",
                 (unsigned long long)offset, open->path, strerror(error));
    else
        snprintf(text, text_bytes, "%s now ends at %llu: it was cut while it was read", open->path,
                 (unsigned long long)offset);
}

static const struct leati_storage_ops file_storage = {
    .move = move, .describe = describe, .hold = hold, .release = release};

/* ---- open files ---- */

static leat_status check_flags(unsigned flags)
{
    const unsigned all = LEAT_FILE_READ | LEAT_FILE_WRITE | LEAT_FILE_CREATE | LEAT_FILE_TRUNCATE;

    if (flags & ~all || !(flags & (LEAT_FILE_READ | LEAT_FILE_WRITE)))
        return leati_fail(LEAT_ERROR_INVALID, "flags are 0x%x; use LEAT_FILE_READ, LEAT_FILE_WRITE or both",
                          flags);
    if (flags & (LEAT_FILE_CREATE | LEAT_FILE_TRUNCATE) && !(flags & LEAT_FILE_WRITE))
        return leati_fail(LEAT_ERROR_INVALID,
                          "LEAT_FILE_CREATE and LEAT_FILE_TRUNCATE go with LEAT_FILE_WRITE only; flags are 0x%x",
                          flags);
    return LEAT_OK;
}

static leat_status open_path(const char *path, unsigned flags, int *fd)
{
    /* O_NONBLOCK: otherwise opening a FIFO would wait for its other end. */
    int how = O_CLOEXEC | O_NOCTTY | O_NONBLOCK;
    struct stat what;
    int error;

    how |= !(flags & LEAT_FILE_WRITE) ? O_RDONLY : flags & LEAT_FILE_READ ? O_RDWR : O_WRONLY;
    *fd = open(path, how | (flags & LEAT_FILE_CREATE ? O_CREAT : 0), 0666);
    if (*fd < 0)
        return leati_fail(LEAT_ERROR_FILE, "open: %s", strerror(errno));
    if (fstat(*fd, &what) || !S_ISREG(what.st_mode)) {
        (void)close(*fd);
        return leati_fail(LEAT_ERROR_FILE, "it is not a regular file, and only those can be read at any place");
    }
    /* Truncate after the check above, not with O_TRUNC, so that only a regular file is truncated. */
    if (flags & LEAT_FILE_TRUNCATE && ftruncate(*fd, 0)) {
        error = errno;
        (void)close(*fd);
        return leati_fail(LEAT_ERROR_FILE, "ftruncate: %s", strerror(error));
    }
    return LEAT_OK;
}

static leat_status open_file(const char *path, unsigned flags, leat_file **file)
{
    struct open_file *open;
    size_t path_bytes = strlen(path) + 1;
    leat_status status;

    LEATI_TRY(check_flags(flags));
    *file = leati_handle_new(&file_handles);
    open = *file ? malloc(sizeof *open + path_bytes) : NULL;
    status =
        open ? open_path(path, flags, &open->fd) : leati_fail(LEAT_ERROR_HOST_MEMORY, "no memory for the file");
    if (status != LEAT_OK) {
        free(open);
        if (*file)
            leati_handle_free(&file_handles, *file);
        return status;
    }
    atomic_init(&open->holders, 1);
    open->flags = flags;
    memcpy(open->path, path, path_bytes);
    (*file)->open = open;
    return LEAT_OK;
}

leat_status leat_file_open(const char *path, unsigned flags, leat_file **file)
{
    leat_file *made;
    leat_status status;

    LEATI_TRY(leati_check_permitted("leat_file_open"));
    LEATI_TRY(leati_check_not_null("leat_file_open", "path", path));
    LEATI_TRY(leati_check_not_null("leat_file_open", "file", file));
    status = open_file(path, flags, &made);
    if (status != LEAT_OK)
        return leati_fail_in(status, "leat_file_open of %s", path);
    leati_handle_publish(made);
    *file = made;
    return LEAT_OK;
}

static leat_status check_file(const char *what, const leat_file *file)
{
    if (leati_handle_live(&file_handles, file))
        return LEAT_OK;
    return leati_fail(LEAT_ERROR_HANDLE, "%s: file %p is not live: it was closed, or it never came from leat",
                      what, (const void *)file);
}

leat_status leat_file_close(leat_file *file)
{
    if (!file)
        return LEAT_OK;
    if (!leati_handle_retire(&file_handles, file))
        return check_file("leat_file_close", file);
    release(file->open);
    leati_handle_free(&file_handles, file);
    return LEAT_OK;
}

static leat_status size_of(const struct open_file *open, uint64_t *bytes)
{
    struct stat what;

    if (fstat(open->fd, &what))
        return leati_fail(LEAT_ERROR_FILE, "fstat of %s: %s", open->path, strerror(errno));
    *bytes = (uint64_t)what.st_size;
    return LEAT_OK;
}

leat_status leat_file_size(leat_file *file, uint64_t *bytes)
{
    leat_status status;

    LEATI_TRY(check_file("leat_file_size", file));
    LEATI_TRY(leati_check_not_null("leat_file_size", "bytes", bytes));
    status = size_of(file->open, bytes);
    return status == LEAT_OK ? status : leati_fail_in(status, "leat_file_size");
}

/* ---- copies ---- */

/* The arguments of a call. */
struct request {
    leat_file *file;
    uint64_t offset;
    void *memory;
    size_t bytes;
    bool write;
};

static leat_status check_range(const struct request *request)
{
    const struct open_file *open = request->file->open;
    uint64_t file_bytes = INT64_MAX;

    if (!(open->flags & (request->write ? LEAT_FILE_WRITE : LEAT_FILE_READ)))
        return leati_fail(LEAT_ERROR_FILE, "%s was opened without %s", open->path,
                          request->write ? "LEAT_FILE_WRITE" : "LEAT_FILE_READ");
    /* A file that is open for writing may still grow by earlier writes on the stream, so check only others. */
    if (!request->write && !(open->flags & LEAT_FILE_WRITE))
        LEATI_TRY(size_of(open, &file_bytes));
    if (request->offset > file_bytes || request->bytes > file_bytes - request->offset)
        return leati_fail(LEAT_ERROR_RANGE, "offset %llu + %zu bytes is beyond the end of %s%s, %llu",
                          (unsigned long long)request->offset, request->bytes, open->path,
                          request->write ? ", whose largest size is" : "", (unsigned long long)file_bytes);
    return LEAT_OK;
}

static leat_status make_plan(leat_stream *stream, const struct request *request, bool followed,
                             struct leati_plan *plan)
{
    struct leati_storage storage = {&file_storage, request->file->open, request->offset, request->write};

    LEATI_TRY(check_range(request));
    return leati_plan_file(plan, stream, request->memory, &storage, request->bytes, followed);
}

static leat_status fail_in(const char *what, leat_status status, const leat_stream *stream,
                           const struct request *request)
{
    if (status == LEAT_OK)
        return status;
    return leati_fail_in(status, "%s of %zu bytes at offset %llu of %s on %s", what, request->bytes,
                         (unsigned long long)request->offset, request->file->open->path, stream->device->name);
}

static leat_status copy(const char *what, leat_stream *stream, const struct request *request)
{
    struct leati_plan plan;
    leat_status status;

    LEATI_TRY(leati_check_permitted(what));
    LEATI_TRY(leati_check_stream(what, stream));
    LEATI_TRY(check_file(what, request->file));
    if (!request->bytes)
        return LEAT_OK;
    status = make_plan(stream, request, false, &plan);
    if (status == LEAT_OK)
        status = leati_plan_submit(&plan, NULL);
    return fail_in(what, status, stream, request);
}

static leat_status start(const char *what, leat_stream *stream, const struct request *request,
                         const leat_copy_options *options, leat_ticket **ticket)
{
    struct leati_plan plan;
    leat_status status = LEAT_OK;

    LEATI_TRY(leati_ticket_check(what, stream, options, ticket));
    LEATI_TRY(check_file(what, request->file));
    if (request->bytes)
        status = make_plan(stream, request, true, &plan);
    if (status == LEAT_OK)
        status = leati_ticket_start(stream->device, request->bytes ? &plan : NULL, options, ticket);
    return fail_in(what, status, stream, request);
}

leat_status leat_file_read(leat_stream *stream, void *dst, leat_file *file, uint64_t offset, size_t bytes)
{
    return copy("leat_file_read", stream, &(struct request){file, offset, dst, bytes, false});
}

leat_status leat_file_read_start(leat_stream *stream, void *dst, leat_file *file, uint64_t offset, size_t bytes,
                                 const leat_copy_options *options, leat_ticket **ticket)
{
    return start("leat_file_read_start", stream, &(struct request){file, offset, dst, bytes, false}, options,
                 ticket);
}

leat_status leat_file_write(leat_stream *stream, leat_file *file, uint64_t offset, const void *src, size_t bytes)
{
    return copy("leat_file_write", stream, &(struct request){file, offset, (void *)src, bytes, true});
}

leat_status leat_file_write_start(leat_stream *stream, leat_file *file, uint64_t offset, const void *src,
                                  size_t bytes, const leat_copy_options *options, leat_ticket **ticket)
{
    return start("leat_file_write_start", stream, &(struct request){file, offset, (void *)src, bytes, true},
                 options, ticket);
}

/* ---- the text of plans ---- */

static leat_status explain(leat_stream *stream, const struct request *request, char *text, size_t text_bytes)
{
    struct leati_strbuf out = {.at = text, .left = text_bytes};
    struct leati_plan plan;

    text[0] = '\0';
    if (!request->bytes) {
        leati_strbuf_add(&out, "0 B: nothing to do\n");
        return LEAT_OK;
    }
    LEATI_TRY(make_plan(stream, request, false, &plan));
    leati_explain_transfer(&out, &plan.transfer);
    leati_explain_plan(&out, &plan, NULL);
    return LEAT_OK;
}

leat_status leat_file_explain(leat_stream *stream, void *dst, leat_file *file, uint64_t offset, size_t bytes,
                              char *text, size_t text_bytes)
{
    struct request request = {file, offset, dst, bytes, false};

    LEATI_TRY(leati_explain_check("leat_file_explain", stream, text, text_bytes));
    LEATI_TRY(check_file("leat_file_explain", file));
    return fail_in("leat_file_explain", explain(stream, &request, text, text_bytes), stream, &request);
}
