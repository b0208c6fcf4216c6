/*
 * file_commit.c - implements leat_file_sync() and leat_file_commit(), which make written bytes durable and give a
 * new file its name.
 *
 * fsync() may take seconds, so a thread for files calls it, as a job of one part without memory. leat has several
 * threads for files, and other threads for copies of pageable memory, so other copies continue meanwhile. With a
 * ticket the job is detached: it begins when the stream reaches it, but the stream does not wait for it.
 *
 * If the file system allows it (O_TMPFILE), a temporary file has no name, so that the file disappears if the
 * process ends. rename() needs a name, so the commit gives the file a temporary name for a moment.
 */
#include "copy/file.h"

#include "base/assert.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define NAME_TRIES 100

/* ---- temporary files ---- */

/* Returns the part of a path after its last slash. */
static const char *base_name(const char *path)
{
    const char *slash = strrchr(path, '/');

    return slash ? slash + 1 : path;
}

static int open_directory(const char *path)
{
    size_t length = (size_t)(base_name(path) - path);
    char *text = length ? strndup(path, length) : strdup(".");
    int fd;

    if (!text) {
        errno = ENOMEM;
        return -1;
    }
    fd = open(text, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    free(text);
    return fd;
}

/* Fills name with a new temporary name at each call. */
static void next_name(char *name, size_t bytes)
{
    static atomic_uint last;

    snprintf(name, bytes, ".leat-%ld-%u.tmp", (long)getpid(),
             atomic_fetch_add_explicit(&last, 1, memory_order_relaxed));
}

static void proc_path(int fd, char *text, size_t bytes)
{
    snprintf(text, bytes, "/proc/self/fd/%d", fd);
}

/* Opens a file without a name. Returns -1 if the file system does not support it, or if there is no /proc, which
 * give_name() needs. */
static int open_nameless(int directory, int how)
{
#ifdef O_TMPFILE
    int fd = openat(directory, ".", O_TMPFILE | how, 0666);
    char path[40];

    if (fd < 0)
        return -1;
    proc_path(fd, path, sizeof path);
    if (!access(path, F_OK))
        return fd;
    (void)close(fd);
#else
    (void)directory;
    (void)how;
#endif
    return -1;
}

static int open_named(struct leati_open_file *file, int how)
{
    int fd = -1;

    for (int i = 0; i < NAME_TRIES && fd < 0; i++) {
        next_name(file->temporary, sizeof file->temporary);
        fd = openat(file->directory, file->temporary, how | O_CREAT | O_EXCL | O_NOFOLLOW, 0666);
        if (fd < 0 && errno != EEXIST)
            break;
    }
    if (fd < 0)
        file->temporary[0] = '\0';
    return fd;
}

leat_status leati_file_open_temporary(struct leati_open_file *file, int how)
{
    struct stat what;
    int error;

    if (!base_name(file->path)[0] || (!stat(file->path, &what) && !S_ISREG(what.st_mode)))
        return leati_fail(LEAT_ERROR_FILE, "it is not a regular file, and only those can be replaced");
    file->directory = open_directory(file->path);
    if (file->directory < 0)
        return leati_fail(LEAT_ERROR_FILE, "open of its directory: %s", strerror(errno));
    file->fd = open_nameless(file->directory, how);
    if (file->fd < 0)
        file->fd = open_named(file, how);
    if (file->fd >= 0)
        return LEAT_OK;
    error = errno;
    (void)close(file->directory);
    return leati_fail(LEAT_ERROR_FILE, "open of a temporary file in its directory: %s", strerror(error));
}

/* Removes the temporary name, if the file has one. Only one thread at a time calls it: the thread of a commit's
 * job, the thread that closes the handle if there is no commit, or the last holder of the file. */
static void remove_name(struct leati_open_file *file)
{
    if (file->temporary[0])
        (void)unlinkat(file->directory, file->temporary, 0);
    file->temporary[0] = '\0';
}

void leati_file_give_up_name(struct leati_open_file *file)
{
    if (file->directory >= 0 && !atomic_load_explicit(&file->committed, memory_order_relaxed))
        remove_name(file);
}

void leati_file_drop_temporary(struct leati_open_file *file)
{
    if (file->directory < 0)
        return;
    remove_name(file);
    (void)close(file->directory);
}

/* ---- the work of a job ---- */

/* The job of one call of leat_file_sync() or leat_file_commit(). */
struct commit {
    atomic_uint holders; /* reference count: one for the call, one for the job */
    struct leati_open_file *file;
    bool named; /* true: a commit, which names the file; false: only fsync() */
    /* The call has succeeded, so there is no second commit. After a call that failed, the program may try again,
     * and then needs the temporary name. */
    atomic_bool submitted;
    /* The name of the latest step, for the message if this step fails. The thread that runs the job sets it before
     * it advances staged_chunks (staging/job.h). */
    const char *failed;
};

/* Calls fsync(). Returns 0 or a value of errno. */
static int sync_fd(int fd)
{
    while (fsync(fd))
        if (errno != EINTR)
            return errno;
    return 0;
}

/* Gives a file without a name a temporary name. Returns 0 or a value of errno. */
static int give_name(struct leati_open_file *file)
{
    char path[40];
    int error = EEXIST;

    proc_path(file->fd, path, sizeof path);
    for (int i = 0; i < NAME_TRIES && error == EEXIST; i++) {
        next_name(file->temporary, sizeof file->temporary);
        error = linkat(AT_FDCWD, path, file->directory, file->temporary, AT_SYMLINK_FOLLOW) ? errno : 0;
    }
    if (error)
        file->temporary[0] = '\0';
    return error;
}

/* Gives the file its name by a link, where the system cannot rename without replacing. Returns 0 or a value of
 * errno. */
static int link_name(struct leati_open_file *file)
{
    if (linkat(file->directory, file->temporary, file->directory, base_name(file->path), 0))
        return errno;
    (void)unlinkat(file->directory, file->temporary, 0);
    return 0;
}

/* Gives the file its name in place of the temporary one. Returns 0 or a value of errno. */
static int rename_file(struct leati_open_file *file)
{
    const char *name = base_name(file->path);

    if (!(file->flags & LEAT_FILE_KEEP))
        return renameat(file->directory, file->temporary, file->directory, name) ? errno : 0;
    if (!renameat2(file->directory, file->temporary, file->directory, name, RENAME_NOREPLACE))
        return 0;
    return errno == EINVAL || errno == ENOSYS ? link_name(file) : errno;
}

static int run(struct commit *commit)
{
    struct leati_open_file *file = commit->file;
    int error;

    commit->failed = "an earlier write failed or was stopped";
    if (commit->named && atomic_load_explicit(&file->spoiled, memory_order_relaxed))
        return ECANCELED;
    commit->failed = "fsync";
    error = sync_fd(file->fd);
    /* After a failure the system may have dropped the bytes. The next fsync() would then succeed, so prevent a
     * later commit. */
    if (error)
        leati_file_spoil(file);
    if (error || !commit->named)
        return error;
    commit->failed = "linkat to a temporary name";
    error = file->temporary[0] ? 0 : give_name(file);
    if (error)
        return error;
    commit->failed = "rename";
    error = rename_file(file);
    if (error)
        return error;
    file->temporary[0] = '\0';
    commit->failed = "the file has its name, but fsync of its directory";
    error = sync_fd(file->directory);
    /* EINVAL means that the file system does not support fsync() of directories. */
    return error == EINVAL ? 0 : error;
}

/* Runs the job. It has one byte and no memory, so only object and error matter. */
static size_t move(void *object, uint64_t offset, void *memory, size_t bytes, bool write, int *error)
{
    struct commit *commit = object;

    (void)offset;
    (void)memory;
    (void)write;
    *error = run(commit);
    /* The program cannot repeat a commit whose job has failed, so remove the temporary name now. */
    if (*error && commit->named)
        remove_name(commit->file);
    return *error ? 0 : bytes;
}

static void describe(const void *object, uint64_t offset, bool write, int error, char *text, size_t text_bytes)
{
    const struct commit *commit = object;

    (void)offset;
    (void)write;
    if (error == ECANCELED)
        snprintf(text, text_bytes, "%s is not committed: %s", leati_file_name(commit->file), commit->failed);
    else
        snprintf(text, text_bytes, "%s of %s: %s: %s", commit->named ? "commit" : "sync",
                 leati_file_name(commit->file), commit->failed, strerror(error));
}

/* Called if the job was stopped before it began. */
static void spoil(void *object)
{
    const struct commit *commit = object;

    /* Relaxed: if this thread does not see the value of the call yet, the name is removed when the file is closed.
     */
    if (commit->named && atomic_load_explicit(&commit->submitted, memory_order_relaxed))
        remove_name(commit->file);
}

static void hold(void *object)
{
    struct commit *commit = object;

    atomic_fetch_add_explicit(&commit->holders, 1, memory_order_relaxed);
}

static void release(void *object)
{
    struct commit *commit = object;

    /* Release and acquire: the last holder frees the commit after all uses by other holders. */
    if (atomic_fetch_sub_explicit(&commit->holders, 1, memory_order_acq_rel) != 1)
        return;
    leati_file_release(commit->file);
    free(commit);
}

static const struct leati_storage_ops commit_storage = {
    .move = move, .spoil = spoil, .describe = describe, .hold = hold, .release = release};

/* ---- the public calls ---- */

static leat_status check_commit(struct leati_open_file *file, bool named)
{
    if (!(file->flags & LEAT_FILE_WRITE))
        return leati_fail(LEAT_ERROR_FILE, "it was opened without LEAT_FILE_WRITE");
    if (named && !(file->flags & LEAT_FILE_TEMPORARY))
        return leati_fail(LEAT_ERROR_INVALID, "it was opened without LEAT_FILE_TEMPORARY");
    if (named && atomic_exchange_explicit(&file->committed, true, memory_order_relaxed))
        return leati_fail(LEAT_ERROR_INVALID, "it was committed before");
    return LEAT_OK;
}

static leat_status submit(leat_stream *stream, struct leati_open_file *file, bool named,
                          const leat_copy_options *options, leat_ticket **ticket)
{
    struct commit *commit = calloc(1, sizeof *commit);
    struct leati_storage storage = {.ops = &commit_storage,
                                    .object = commit,
                                    .write = true,
                                    .scattered = true,
                                    .slow = true,
                                    .detached = ticket};
    struct leati_plan plan;
    leat_status status;

    if (!commit)
        return leati_fail(LEAT_ERROR_HOST_MEMORY, "no memory for it");
    atomic_init(&commit->holders, 1);
    commit->file = file;
    commit->named = named;
    leati_file_hold(file);
    status = leati_plan_file_scattered(&plan, stream, LEAT_KIND_PINNED, NULL, &storage, 1, ticket);
    if (status == LEAT_OK && ticket)
        status = leati_ticket_start(stream->device, &plan, 1, options, ticket);
    else if (status == LEAT_OK)
        status = leati_plan_submit(&plan, NULL);
    atomic_store_explicit(&commit->submitted, status == LEAT_OK, memory_order_relaxed);
    release(commit);
    return status;
}

static leat_status call(const char *what, leat_stream *stream, leat_file *file, bool named,
                        const leat_copy_options *options, leat_ticket **ticket)
{
    leat_status status;

    LEATI_TRY(leati_file_check(what, file));
    status = check_commit(file->open, named);
    if (status == LEAT_OK) {
        status = submit(stream, file->open, named, options, ticket);
        if (leati_traced())
            leati_span_bytes(0, NULL); /* submitted like a copy, but it has no bytes of the program's */
        /* No job was submitted, so the program can try the commit again. */
        if (status != LEAT_OK && named)
            atomic_store_explicit(&file->open->committed, false, memory_order_relaxed);
    }
    return status == LEAT_OK
               ? status
               : leati_fail_in(status, "%s of %s on %s", what, file->open->path, stream->device->name);
}

leat_status leat_file_sync(leat_stream *stream, leat_file *file)
{
    LEATI_SPAN(LEATI_TRACE_OTHER, "leat_file_sync");
    LEATI_TRY(leati_check_permitted("leat_file_sync"));
    LEATI_TRY(leati_check_stream("leat_file_sync", stream));
    return call("leat_file_sync", stream, file, false, NULL, NULL);
}

leat_status leat_file_sync_start(leat_stream *stream, leat_file *file, const leat_copy_options *options,
                                 leat_ticket **ticket)
{
    LEATI_SPAN(LEATI_TRACE_OTHER, "leat_file_sync_start");
    LEATI_TRY(leati_ticket_check("leat_file_sync_start", stream, options, ticket));
    return call("leat_file_sync_start", stream, file, false, options, ticket);
}

leat_status leat_file_commit(leat_stream *stream, leat_file *file)
{
    LEATI_SPAN(LEATI_TRACE_OTHER, "leat_file_commit");
    LEATI_TRY(leati_check_permitted("leat_file_commit"));
    LEATI_TRY(leati_check_stream("leat_file_commit", stream));
    return call("leat_file_commit", stream, file, true, NULL, NULL);
}

leat_status leat_file_commit_start(leat_stream *stream, leat_file *file, const leat_copy_options *options,
                                   leat_ticket **ticket)
{
    LEATI_SPAN(LEATI_TRACE_OTHER, "leat_file_commit_start");
    LEATI_TRY(leati_ticket_check("leat_file_commit_start", stream, options, ticket));
    return call("leat_file_commit_start", stream, file, true, options, ticket);
}
