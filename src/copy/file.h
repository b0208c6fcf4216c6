/*
 * file.h - declares open files, which are the storage of staged copies, for the files that implement leat/file.h.
 *
 *   file.c         opens and closes, copies one range
 *   file_io.c      reads and writes the bytes; called by worker threads
 *   file_map.c     writes through mappings of the file, which several threads can do at once
 *   file_batch.c   copies many ranges as one
 *   file_commit.c  makes written bytes durable, and gives a new file its name
 */
#ifndef LEATI_COPY_FILE_H
#define LEATI_COPY_FILE_H

#include "base/handles.h"
#include "copy/copy.h"

#include <leat/file.h>

#include <sys/uio.h>

/* An open file. Copies under way keep it open after leat_file_close(). */
struct leati_open_file {
    atomic_uint holders; /* reference count: one for the handle, one for each job */
    int fd;
    unsigned flags;
    bool by_option; /* LEAT_IO_CACHE set LEAT_FILE_CACHED or LEAT_FILE_DIRECT in flags, not the program. DIRECT
                       then means: where that is possible */
    int direct_fd;             /* descriptor of the same file with O_DIRECT; -1: not opened with O_DIRECT */
    int direct_error;          /* errno of a refused O_DIRECT; 0: not refused */
    size_t memory_align;       /* alignment of memory that direct access needs */
    atomic_bool direct_failed; /* the file system refused a direct access, so leat uses the cache from then on */
    const char *why_cached;    /* why there is no direct_fd; NULL if direct_fd is open */
    bool may_wait;             /* reads may wait even for bytes that are in the cache: a network, or FUSE */
    struct leati_file_maps *maps; /* mappings for writing; NULL: leat writes by pwrite() */
    atomic_bool spoiled;       /* a write to the file failed or was stopped */
    atomic_bool committed;     /* leat_file_commit() was called */
    /* LEAT_FILE_TEMPORARY: the directory of path, and the file's temporary name in it; "" if it has no name. */
    int directory;
    char temporary[64];
    char path[];
};

struct leat_file {
    struct leati_handle handle;
    struct leati_open_file *open;
};

/* ---- files (file.c) ---- */

/* Returns HANDLE, with a message, if file is not a live handle. what: name of the calling function. */
leat_status leati_file_check(const char *what, const leat_file *file);

/* Fails if the file was not opened for this direction, or if the range ends beyond the largest possible size of a
 * file. For a file that is open for reading only, the size of the file is the limit. *known_bytes: the size that
 * an earlier call for this file has found, or 0. The call asks the system only if the range ends beyond it, and
 * then sets it to the size. */
leat_status leati_file_check_range(const struct leati_open_file *open, uint64_t offset, size_t bytes, bool write,
                                   uint64_t *known_bytes);

void leati_file_spoil(struct leati_open_file *open);
void leati_file_hold(struct leati_open_file *open);
void leati_file_release(struct leati_open_file *open);

/* ---- temporary names (file_commit.c) ---- */

/* Creates a temporary file in the directory of open->path, and sets fd, directory and temporary. how: flags of
 * open().
 */
leat_status leati_file_open_temporary(struct leati_open_file *open, int how);

/* Called when the handle is closed. If there was no commit, removes the temporary name now, because copies may
 * keep the file itself open for long. */
void leati_file_give_up_name(struct leati_open_file *open);

/* Called when the file itself is closed. Removes its temporary name, if it has one. */
void leati_file_drop_temporary(struct leati_open_file *open);

/* ---- bytes (file_io.c) ---- */

#define LEATI_FILE_PARTS_MOST 64        /* largest number of parts in one call */
#define LEATI_FILE_BLOCK ((size_t)4096) /* direct access reads and writes whole blocks */

/* Opens the file a second time with O_DIRECT if the flags allow it, and sets direct_fd, direct_error, memory_align
 * and why_cached. how: flags of open(). If the flags have LEAT_FILE_DIRECT, but O_DIRECT is not possible, returns
 * FILE; or removes LEAT_FILE_DIRECT if it came from LEAT_IO_CACHE. */
leat_status leati_file_open_direct(struct leati_open_file *file, int how);

/* Opens the file once more. how: flags of open(). Returns a descriptor, or -1 with errno set. */
int leati_file_open_again(const struct leati_open_file *file, int how);

/* Returns how many bytes of a range are in the system's cache, rounded to pages. Before Linux 6.5 the result is an
 * estimate. */
size_t leati_file_cached_bytes(const struct leati_open_file *file, uint64_t offset, size_t bytes);

/* Returns the size of the parts in which threads should read or write this range, or 0 for the usual size. Direct
 * access needs larger parts than the cache: a disk takes as long for a short request, and each costs processor
 * time. */
size_t leati_file_part_bytes(const struct leati_open_file *file, uint64_t offset, size_t bytes, bool write);

/* Returns true if the calling thread can read this range without waiting: all of it is in the cache, and leat
 * reads it from there. The bytes may leave the cache at any time, so this is no promise. */
bool leati_file_is_at_hand(const struct leati_open_file *file, uint64_t offset, size_t bytes);

/* Reads contiguous bytes of the file into the parts, or writes the parts to the file. Returns how many bytes it
 * moved, from the start. If some bytes were not moved, *error is a value of errno, or 0 at the end of the file,
 * which a write finds only if the file was cut meanwhile. The call changes the array parts. */
size_t leati_file_move(struct leati_open_file *file, uint64_t offset, struct iovec *parts, unsigned count,
                       bool write, int *error);

/* ---- writes through mappings (file_map.c) ---- */

/* Returns why leat writes this file by pwrite(), or would if it were open for writing; NULL if it stores to
 * mappings of the file. *only_cached: only to bytes that the system's cache has, and others by pwrite(). */
const char *leati_file_why_not_mapped(const struct leati_open_file *open, bool *only_cached);

/* Sets open->maps if leat should write through mappings. leati_file_close_maps() ends the mappings. */
void leati_file_open_maps(struct leati_open_file *open);
void leati_file_close_maps(struct leati_open_file *open);

/* Returns true if leat should store this many bytes to a mapping now. */
bool leati_file_may_store(const struct leati_open_file *open, size_t bytes);

/* Stores the parts, which have this many bytes, to the file. Returns how many bytes it stored, from the start. If
 * not all, either *cut is true: the file was cut meanwhile, and ends behind the stored bytes; or *error is EFAULT:
 * the next byte could not be read; or the caller should write the rest by pwrite(). */
size_t leati_file_store(const struct leati_open_file *open, uint64_t offset, struct iovec *parts, unsigned count,
                        size_t bytes, bool *cut, int *error);

/* Returns the path, or its last 200 characters if it has more, so that messages have room for the reason. */
const char *leati_file_name(const struct leati_open_file *open);

/* Fills text with a description of the failure at offset. error: as filled by leati_file_move(). */
void leati_file_describe(const struct leati_open_file *open, uint64_t offset, bool write, int error, char *text,
                         size_t text_bytes);

#endif
