/*
 * file.h - open files as storage of staged copies, shared by the calls of leat/file.h.
 *
 *   file.c         opens and closes, copies one range
 *   file_io.c      reads and writes the bytes; called by worker threads
 *   file_batch.c   copies many ranges as one
 *   file_commit.c  makes written bytes durable, and gives a new file its name
 */
#ifndef LEATI_COPY_FILE_H
#define LEATI_COPY_FILE_H

#include "base/handles.h"
#include "copy/copy.h"

#include <leat/file.h>

#include <sys/uio.h>

/* The open file. Copies under way keep it open after leat_file_close(). */
struct leati_open_file {
    atomic_uint holders; /* reference count: the handle, and jobs */
    int fd;
    unsigned flags;
    int direct_fd;             /* the same file opened with O_DIRECT; -1: it is not */
    int direct_error;          /* why the system refused that; 0: it was not asked, or did not */
    size_t memory_align;       /* what direct access needs */
    atomic_bool direct_failed; /* the file system refused a direct access later */
    const char *why_cached;    /* why there is no direct_fd; NULL: there is */
    atomic_bool spoiled;       /* a write to it failed or was stopped */
    atomic_bool committed;     /* leat_file_commit() was called */
    /* TEMPORARY: the directory of path, and the file's name in it so far; "" if it has none. */
    int directory;
    char temporary[64];
    char path[];
};

struct leat_file {
    struct leati_handle handle;
    struct leati_open_file *open;
};

/* ---- files (file.c) ---- */

/* Returns HANDLE, with a message, if file is not live. what: the calling function. */
leat_status leati_file_check(const char *what, const leat_file *file);

/* Checks that the file was opened for this direction and that the range is possible. */
leat_status leati_file_check_range(const struct leati_open_file *open, uint64_t offset, size_t bytes, bool write);

void leati_file_spoil(struct leati_open_file *open);
void leati_file_hold(struct leati_open_file *open);
void leati_file_release(struct leati_open_file *open);

/* ---- temporary names (file_commit.c) ---- */

/* Opens open->path with LEAT_FILE_TEMPORARY: sets fd, directory and temporary. how: flags of open(). */
leat_status leati_file_open_temporary(struct leati_open_file *open, int how);

/* Called when the handle is closed: without a commit, removes the temporary name now. Copies may keep the file
 * itself open for long. */
void leati_file_give_up_name(struct leati_open_file *open);

/* Called when the file is closed: removes its temporary name, if it has one. */
void leati_file_drop_temporary(struct leati_open_file *open);

/* ---- bytes (file_io.c) ---- */

#define LEATI_FILE_PARTS_MOST 64        /* of one call */
#define LEATI_FILE_BLOCK ((size_t)4096) /* direct access reads and writes whole blocks */

/* Opens direct_fd, if the file should have it, and fills in the fields that belong to it. how: flags of open().
 * FILE: LEAT_FILE_DIRECT is not possible. */
leat_status leati_file_open_direct(struct leati_open_file *file, int how);

/* Returns how many bytes of a range are in the system's cache, to the page; or an estimate, if the system cannot
 * tell (before Linux 6.5). */
size_t leati_file_cached_bytes(const struct leati_open_file *file, uint64_t offset, size_t bytes);

/* Reads contiguous bytes of the file into the parts, or writes the parts to it. Returns how many bytes it moved,
 * from the start. If that is fewer than all, *error is a value of errno, or 0 at the end of the file. Overwrites
 * parts. */
size_t leati_file_move(struct leati_open_file *file, uint64_t offset, struct iovec *parts, unsigned count,
                       bool write, int *error);

/* Returns the path, or its last 200 characters if it has more, so that messages have room for the reason. */
const char *leati_file_name(const struct leati_open_file *open);

/* Writes to text what failed at offset, and why. error: as filled by leati_file_move(). */
void leati_file_describe(const struct leati_open_file *open, uint64_t offset, bool write, int error, char *text,
                         size_t text_bytes);

#endif
