/*
 * file.c - implements the calls of leat/file.h: opens files, and copies from and to them.
 *
 * A file is the storage (staging/job.h) of a transfer, and worker threads read and write it (file_io.c).
 */
#include "copy/file.h"

#include "base/options.h"
#include "copy/eager.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static struct leati_handles file_handles = LEATI_HANDLES(struct leat_file);

/* ---- a file as storage ---- */

void leati_file_hold(struct leati_open_file *open)
{
    atomic_fetch_add_explicit(&open->holders, 1, memory_order_relaxed);
}

void leati_file_release(struct leati_open_file *open)
{
    /* Release and acquire: the last holder closes the file after all uses by the others. */
    if (atomic_fetch_sub_explicit(&open->holders, 1, memory_order_acq_rel) != 1)
        return;
    leati_file_drop_temporary(open);
    leati_file_close_maps(open);
    if (open->direct_fd >= 0)
        (void)close(open->direct_fd);
    (void)close(open->fd);
    free(open);
}

void leati_file_spoil(struct leati_open_file *open)
{
    /* Relaxed: a commit reads spoiled after the write is complete, in the order of streams. */
    atomic_store_explicit(&open->spoiled, true, memory_order_relaxed);
}

static void hold(void *object)
{
    leati_file_hold(object);
}

static void release(void *object)
{
    leati_file_release(object);
}

static void spoil(void *object)
{
    leati_file_spoil(object);
}

static size_t move(void *object, uint64_t offset, void *memory, size_t bytes, bool write, int *error)
{
    return leati_file_move(object, offset, &(struct iovec){memory, bytes}, 1, write, error);
}

static void describe(const void *object, uint64_t offset, bool write, int error, char *text, size_t text_bytes)
{
    leati_file_describe(object, offset, write, error, text, text_bytes);
}

static const struct leati_storage_ops file_storage = {
    .move = move, .spoil = spoil, .describe = describe, .hold = hold, .release = release};

/* ---- open files ---- */

static leat_status check_flags(unsigned flags)
{
    const unsigned writing = LEAT_FILE_CREATE | LEAT_FILE_TRUNCATE | LEAT_FILE_TEMPORARY | LEAT_FILE_KEEP;
    const unsigned cache = LEAT_FILE_CACHED | LEAT_FILE_DIRECT;
    const unsigned all = LEAT_FILE_READ | LEAT_FILE_WRITE | writing | cache;

    if (flags & ~all || !(flags & (LEAT_FILE_READ | LEAT_FILE_WRITE)))
        return leati_fail(LEAT_ERROR_INVALID, "flags are 0x%x; use LEAT_FILE_READ, LEAT_FILE_WRITE or both",
                          flags);
    if (flags & writing && !(flags & LEAT_FILE_WRITE))
        return leati_fail(LEAT_ERROR_INVALID,
                          "LEAT_FILE_CREATE, LEAT_FILE_TRUNCATE, LEAT_FILE_TEMPORARY and LEAT_FILE_KEEP go with LEAT_FILE_WRITE only; flags are 0x%x",
                          flags);
    if (flags & LEAT_FILE_KEEP && !(flags & LEAT_FILE_TEMPORARY))
        return leati_fail(LEAT_ERROR_INVALID, "LEAT_FILE_KEEP goes with LEAT_FILE_TEMPORARY only; flags are 0x%x",
                          flags);
    if ((flags & cache) == cache)
        return leati_fail(LEAT_ERROR_INVALID,
                          "LEAT_FILE_CACHED and LEAT_FILE_DIRECT exclude each other; flags are 0x%x", flags);
    return LEAT_OK;
}

static leat_status fail_not_regular(void)
{
    return leati_fail(LEAT_ERROR_FILE, "it is not a regular file, and only those can be read at any place");
}

static leat_status fail_open(const char *path, int error)
{
    struct stat what;

    /* open() fails with ENXIO for a socket, and for writing to a FIFO that has no reader. */
    if (error == ENXIO && !stat(path, &what) && !S_ISREG(what.st_mode))
        return fail_not_regular();
    return leati_fail(LEAT_ERROR_FILE, "open: %s", strerror(error));
}

/* Checks after open() that the file is regular, and truncates it if flags say so. open() must not truncate
 * (O_TRUNC), because the file might not be regular. */
static leat_status check_opened(int fd, unsigned flags)
{
    struct stat what;

    if (fstat(fd, &what))
        return leati_fail(LEAT_ERROR_FILE, "fstat: %s", strerror(errno));
    if (!S_ISREG(what.st_mode))
        return fail_not_regular();
    if (flags & LEAT_FILE_TRUNCATE && ftruncate(fd, 0))
        return leati_fail(LEAT_ERROR_FILE, "ftruncate: %s", strerror(errno));
    return LEAT_OK;
}

static leat_status open_path(struct leati_open_file *opened)
{
    unsigned flags = opened->flags;
    /* Without O_NONBLOCK, open() of a FIFO would wait until a process opens its other end. */
    int how = O_CLOEXEC | O_NOCTTY | O_NONBLOCK;
    leat_status status;

    how |= !(flags & LEAT_FILE_WRITE) ? O_RDONLY : flags & LEAT_FILE_READ ? O_RDWR : O_WRONLY;
    if (flags & LEAT_FILE_TEMPORARY) {
        LEATI_TRY(leati_file_open_temporary(opened, how));
        status = leati_file_open_direct(opened, how);
        if (status != LEAT_OK) {
            leati_file_drop_temporary(opened);
            (void)close(opened->fd);
        }
        return status;
    }
    opened->fd = open(opened->path, how | (flags & LEAT_FILE_CREATE ? O_CREAT : 0), 0666);
    if (opened->fd < 0)
        return fail_open(opened->path, errno);
    status = check_opened(opened->fd, flags);
    if (status == LEAT_OK)
        status = leati_file_open_direct(opened, how);
    if (status != LEAT_OK)
        (void)close(opened->fd);
    return status;
}

/* Duplicates a descriptor whose file cannot be opened again, for the reason `error`. */
static leat_status duplicate(struct leati_open_file *opened, int fd, int program_flags, int error)
{
    if (program_flags & O_APPEND && opened->flags & LEAT_FILE_WRITE)
        return leati_fail(LEAT_ERROR_FILE,
                          "open: %s; a duplicate would write only at the end, because the descriptor has O_APPEND",
                          strerror(error));
    opened->fd = fcntl(fd, F_DUPFD_CLOEXEC, 3);
    if (opened->fd < 0)
        return leati_fail(LEAT_ERROR_FILE, "dup: %s", strerror(errno));
    if (program_flags & O_DIRECT) {
        /* The duplicate moves only whole blocks. by_option: if the program did not ask for direct access, it is no
         * error that the file has none. */
        opened->by_option = !(opened->flags & LEAT_FILE_DIRECT);
        opened->flags = (opened->flags & ~(unsigned)LEAT_FILE_CACHED) | LEAT_FILE_DIRECT;
    }
    return LEAT_OK;
}

/* Opens the file of a descriptor that the program has open with the given flags of open(). A duplicate would share
 * the program's flags, also those that it sets later (F_SETFL): O_DIRECT refuses unaligned ranges, and O_APPEND writes
 * only at the end. So a descriptor is duplicated only if its file cannot be opened again. */
static leat_status open_again(struct leati_open_file *opened, int fd, int program_flags)
{
    unsigned flags = opened->flags;
    /* With O_NONBLOCK, open() does not wait for the lease of another process. */
    int how = O_CLOEXEC | O_NONBLOCK | (program_flags & (O_SYNC | O_DSYNC));
    char path[40];
    leat_status status;

    how |= !(flags & LEAT_FILE_WRITE) ? O_RDONLY : flags & LEAT_FILE_READ ? O_RDWR : O_WRONLY;
    status = check_opened(fd, flags);
    if (status != LEAT_OK)
        return status;
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    opened->fd = open(path, how);
    if (opened->fd < 0)
        LEATI_TRY(duplicate(opened, fd, program_flags, errno));
    status = leati_file_open_direct(opened, how);
    if (status != LEAT_OK)
        (void)close(opened->fd);
    return status;
}

/* Sets LEAT_FILE_CACHED or LEAT_FILE_DIRECT as LEAT_IO_CACHE says, if the program has set neither. A value that is
 * not allowed counts as auto: no device can be opened with it, so nothing is read or written. */
static void apply_option(struct leati_open_file *open)
{
    const char *word = leati_option(LEATI_OPTION_IO_CACHE);

    if (!word || open->flags & (LEAT_FILE_CACHED | LEAT_FILE_DIRECT))
        return;
    open->by_option = true;
    if (!strcmp(word, "cached"))
        open->flags |= LEAT_FILE_CACHED;
    else if (!strcmp(word, "direct"))
        open->flags |= LEAT_FILE_DIRECT;
}

/* Opens path; if fd is not -1, its file, of which path is the name in messages. */
static leat_status open_file(const char *path, unsigned flags, int fd, int program_flags, leat_file **file)
{
    struct leati_open_file *open;
    size_t path_bytes = strlen(path) + 1;
    leat_status status;

    LEATI_TRY(check_flags(flags));
    *file = leati_handle_new(&file_handles);
    open = *file ? calloc(1, sizeof *open + path_bytes) : NULL;
    if (open) {
        atomic_init(&open->holders, 1);
        open->flags = flags;
        open->directory = open->direct_fd = -1;
        memcpy(open->path, path, path_bytes);
        apply_option(open);
    }
    if (!open)
        status = leati_fail(LEAT_ERROR_HOST_MEMORY, "no memory for the file");
    else
        status = fd < 0 ? open_path(open) : open_again(open, fd, program_flags);
    if (status != LEAT_OK) {
        free(open);
        if (*file)
            leati_handle_free(&file_handles, *file);
        return status;
    }
    leati_file_open_maps(open);
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
    status = open_file(path, flags, -1, 0, &made);
    if (status != LEAT_OK)
        return leati_fail_in(status, "leat_file_open of %s", path);
    leati_handle_publish(made);
    *file = made;
    return LEAT_OK;
}

/* Returns the path of a descriptor's file, or "descriptor N" without /proc. */
static void name_of(int fd, char *text, size_t text_bytes)
{
    char link[40];
    ssize_t length;

    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    length = readlink(link, text, text_bytes - 1);
    if (length > 0)
        text[length] = '\0';
    else
        snprintf(text, text_bytes, "descriptor %d", fd);
}

static leat_status wrap(int fd, unsigned flags, leat_file **file)
{
    const unsigned access = LEAT_FILE_READ | LEAT_FILE_WRITE;
    int program_flags = fcntl(fd, F_GETFL);
    char path[PATH_MAX];
    unsigned has;

    if (flags & ~(access | LEAT_FILE_CACHED | LEAT_FILE_DIRECT))
        return leati_fail(LEAT_ERROR_INVALID,
                          "flags are 0x%x; use LEAT_FILE_READ, LEAT_FILE_WRITE, LEAT_FILE_CACHED and LEAT_FILE_DIRECT only",
                          flags);
    if (program_flags < 0)
        return leati_fail(LEAT_ERROR_FILE, "fcntl: %s", strerror(errno));
    has = (program_flags & O_ACCMODE) == O_RDONLY   ? LEAT_FILE_READ
          : (program_flags & O_ACCMODE) == O_WRONLY ? LEAT_FILE_WRITE
                                                    : access;
    if (program_flags & O_PATH)
        has = 0;
    if (!(flags & access))
        flags |= has;
    if (!has || flags & access & ~has)
        return leati_fail(LEAT_ERROR_FILE, "the descriptor is not open for %s",
                          flags & LEAT_FILE_WRITE && !(has & LEAT_FILE_WRITE) ? "writing" : "reading");
    name_of(fd, path, sizeof path);
    return open_file(path, flags, fd, program_flags, file);
}

leat_status leat_file_wrap(int fd, unsigned flags, leat_file **file)
{
    leat_file *made;
    leat_status status;

    LEATI_TRY(leati_check_permitted("leat_file_wrap"));
    LEATI_TRY(leati_check_not_null("leat_file_wrap", "file", file));
    status = wrap(fd, flags, &made);
    if (status != LEAT_OK)
        return leati_fail_in(status, "leat_file_wrap of descriptor %d", fd);
    leati_handle_publish(made);
    *file = made;
    return LEAT_OK;
}

leat_status leati_file_check(const char *what, const leat_file *file)
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
        return leati_file_check("leat_file_close", file);
    leati_file_give_up_name(file->open);
    leati_file_release(file->open);
    leati_handle_free(&file_handles, file);
    return LEAT_OK;
}

static leat_status size_of(const struct leati_open_file *open, uint64_t *bytes)
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

    LEATI_TRY(leati_file_check("leat_file_size", file));
    LEATI_TRY(leati_check_not_null("leat_file_size", "bytes", bytes));
    status = size_of(file->open, bytes);
    return status == LEAT_OK ? status : leati_fail_in(status, "leat_file_size");
}

static leat_status cached(const struct leati_open_file *open, uint64_t offset, uint64_t bytes,
                          uint64_t *cached_bytes)
{
    uint64_t file_bytes;

    LEATI_TRY(size_of(open, &file_bytes));
    if (offset > file_bytes || bytes > file_bytes - offset)
        return leati_fail(LEAT_ERROR_RANGE, "offset %llu + %llu bytes is beyond the end of %s, %llu",
                          (unsigned long long)offset, (unsigned long long)bytes, open->path,
                          (unsigned long long)file_bytes);
    *cached_bytes = leati_file_cached_bytes(open, offset, (size_t)bytes);
    return LEAT_OK;
}

leat_status leat_file_cached(leat_file *file, uint64_t offset, uint64_t bytes, uint64_t *cached_bytes)
{
    leat_status status;

    LEATI_TRY(leati_file_check("leat_file_cached", file));
    LEATI_TRY(leati_check_not_null("leat_file_cached", "cached_bytes", cached_bytes));
    status = cached(file->open, offset, bytes, cached_bytes);
    return status == LEAT_OK ? status : leati_fail_in(status, "leat_file_cached");
}

/* ---- copies ---- */

/* The arguments of a call that copies one range. */
struct request {
    leat_file *file;
    uint64_t offset;
    void *memory;
    size_t bytes;
    bool write;
};

leat_status leati_file_check_range(const struct leati_open_file *open, uint64_t offset, size_t bytes, bool write,
                                   uint64_t *known_bytes)
{
    uint64_t file_bytes = INT64_MAX;

    if (!(open->flags & (write ? LEAT_FILE_WRITE : LEAT_FILE_READ)))
        return leati_fail(LEAT_ERROR_FILE, "%s was opened without %s", open->path,
                          write ? "LEAT_FILE_WRITE" : "LEAT_FILE_READ");
    /* If the file is open for writing, earlier work on the stream may still extend it. So compare with the size of
     * the file only if it is open for reading only. */
    if (!write && !(open->flags & LEAT_FILE_WRITE)) {
        if (offset <= *known_bytes && bytes <= *known_bytes - offset)
            return LEAT_OK;
        LEATI_TRY(size_of(open, &file_bytes));
        *known_bytes = file_bytes;
    }
    if (offset > file_bytes || bytes > file_bytes - offset)
        return leati_fail(LEAT_ERROR_RANGE, "offset %llu + %zu bytes is beyond the end of %s%s, %llu",
                          (unsigned long long)offset, bytes, open->path, write ? ", whose largest size is" : "",
                          (unsigned long long)file_bytes);
    return LEAT_OK;
}

static leat_status make_plan(leat_stream *stream, const struct request *request, bool followed,
                             struct leati_plan *plan)
{
    struct leati_storage storage = {.ops = &file_storage,
                                    .object = request->file->open,
                                    .offset = request->offset,
                                    .lead = (size_t)(request->offset % LEATI_FILE_BLOCK),
                                    .write = request->write};
    uint64_t file_bytes = 0;

    LEATI_TRY(
        leati_file_check_range(request->file->open, request->offset, request->bytes, request->write, &file_bytes));
    storage.part_bytes =
        leati_file_part_bytes(request->file->open, request->offset, request->bytes, request->write);
    storage.at_hand = !request->write && !followed && request->bytes <= LEATI_EAGER_MOST_BYTES &&
                      leati_file_is_at_hand(request->file->open, request->offset, request->bytes);
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
    LEATI_TRY(leati_file_check(what, request->file));
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
    LEATI_TRY(leati_file_check(what, request->file));
    if (request->bytes)
        status = make_plan(stream, request, true, &plan);
    if (status == LEAT_OK)
        status = leati_ticket_start(stream->device, &plan, request->bytes ? 1 : 0, options, ticket);
    return fail_in(what, status, stream, request);
}

leat_status leat_file_read(leat_stream *stream, void *dst, leat_file *file, uint64_t offset, size_t bytes)
{
    LEATI_SPAN(LEATI_TRACE_FILE_READ, "leat_file_read");
    return copy("leat_file_read", stream, &(struct request){file, offset, dst, bytes, false});
}

leat_status leat_file_read_start(leat_stream *stream, void *dst, leat_file *file, uint64_t offset, size_t bytes,
                                 const leat_copy_options *options, leat_ticket **ticket)
{
    LEATI_SPAN(LEATI_TRACE_FILE_READ, "leat_file_read_start");
    return start("leat_file_read_start", stream, &(struct request){file, offset, dst, bytes, false}, options,
                 ticket);
}

leat_status leat_file_write(leat_stream *stream, leat_file *file, uint64_t offset, const void *src, size_t bytes)
{
    LEATI_SPAN(LEATI_TRACE_FILE_WRITE, "leat_file_write");
    return copy("leat_file_write", stream, &(struct request){file, offset, (void *)src, bytes, true});
}

leat_status leat_file_write_start(leat_stream *stream, leat_file *file, uint64_t offset, const void *src,
                                  size_t bytes, const leat_copy_options *options, leat_ticket **ticket)
{
    LEATI_SPAN(LEATI_TRACE_FILE_WRITE, "leat_file_write_start");
    return start("leat_file_write_start", stream, &(struct request){file, offset, (void *)src, bytes, true},
                 options, ticket);
}

/* ---- the text of plans ---- */

static void explain_cache(const struct request *request, struct leati_strbuf *out)
{
    const struct leati_open_file *open = request->file->open;
    size_t cached = leati_file_cached_bytes(open, request->offset, request->bytes);

    leati_strbuf_add(out, "  file      %.0f %% of the range is in the system's cache; ",
                     100.0 * (double)cached / (double)request->bytes);
    if (open->why_cached)
        leati_strbuf_add(out, "read through it: %s%s%s\n", open->why_cached, open->direct_error ? ": " : "",
                         open->direct_error ? strerror(open->direct_error) : "");
    else if (atomic_load_explicit(&open->direct_failed, memory_order_relaxed))
        leati_strbuf_add(out, "read through it: the file system has refused a direct read\n");
    else
        leati_strbuf_add(out, "%s\n",
                         open->flags & LEAT_FILE_DIRECT
                             ? open->by_option ? "read past it: LEAT_IO_CACHE is direct"
                                               : "read past it: LEAT_FILE_DIRECT asks for it"
                             : "parts of which less than half is there are read past it");
}

static void explain_writes(const struct request *request, struct leati_strbuf *out)
{
    bool only_cached;
    const char *why_not = leati_file_why_not_mapped(request->file->open, &only_cached);

    if (why_not)
        leati_strbuf_add(out, "  writes    by pwrite(): %s\n", why_not);
    else
        leati_strbuf_add(out, "  writes    through a shared mapping of the file%s\n",
                         only_cached ? " what the system's cache has, the rest by pwrite()" : "");
}

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
    explain_cache(request, &out);
    explain_writes(request, &out);
    return LEAT_OK;
}

leat_status leat_file_explain(leat_stream *stream, void *dst, leat_file *file, uint64_t offset, size_t bytes,
                              char *text, size_t text_bytes)
{
    struct request request = {file, offset, dst, bytes, false};

    LEATI_TRY(leati_explain_check("leat_file_explain", stream, text, text_bytes));
    LEATI_TRY(leati_file_check("leat_file_explain", file));
    return fail_in("leat_file_explain", explain(stream, &request, text, text_bytes), stream, &request);
}
