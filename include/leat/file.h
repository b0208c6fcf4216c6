/*
 * leat/file.h - copies between files and memory in stream order.
 *
 * Model. A copy can also have a file as its source or destination. leat_file_read() copies a range of a file to
 * any memory that leat_copy() can reach, leat_file_write() copies memory to a range of a file. Both return at once
 * and run in stream order, after all earlier work of the stream. leat's threads read the file into a ring of
 * pinned memory, or write it from there, while the device's DMA engine moves other parts between the ring and the
 * device. The ring is all the pinned memory that a copy needs, however large the file is: LEAT_COPY_RING, and for
 * a long write up to an eighth of LEAT_COPY_MEMORY. For host memory leat's threads read and write the file
 * directly, without a ring. The calling thread itself reads a range of at most 2 MiB if all of it is in the
 * system's cache and nothing before it on the stream may write files (to host memory: if the stream is idle): this
 * takes less time than to wake another thread.
 *
 *     leat_file_open("weights.bin", LEAT_FILE_READ, &file);
 *     leat_file_read(stream, weights, file, 0, bytes);                 // returns at once
 *     leat_launch(stream, ...);                                        // runs when the bytes are there
 *     leat_stream_synchronize(stream);                                 // returns the error if the read failed
 *     leat_file_close(file);
 *
 * Completion. As with leat_copy(), the host may use its memory again, and the bytes are in the file, when the
 * stream has completed the copy or when its ticket says so. LEAT_COPY_POINT_STAGED means: for a write, the memory
 * has been read and the file has the bytes; for a read, the file has been read. Written bytes are then in the
 * system's cache, where every reader sees them; leat_file_sync() puts them on the disk, and leat_file_commit()
 * gives a new file its name when its bytes are on the disk.
 *
 * A read sees the bytes that earlier writes of the same stream have written. It may read the file before other
 * earlier work of the stream is complete, and it does not wait for other processes.
 *
 * Direct reads. leat reads a copy in parts of at most 256 KiB, or of 1 MiB if most of it is not cached. It reads a
 * part through the system's cache if the cache has at least half of the part. Otherwise it bypasses the cache
 * (O_DIRECT), if the file is on a local disk that allows this. To learn what the cache has, leat calls
 * cachestat(), or before Linux 6.5 reads three bytes with RWF_NOWAIT. LEAT_FILE_CACHED and LEAT_FILE_DIRECT make
 * this choice for a whole file, and the environment variable LEAT_IO_CACHE for all files that are opened without
 * them; docs/files.md has the details.
 *
 * Writes. Linux admits one pwrite() to a file at a time. With four processors or more leat therefore stores to a
 * shared mapping of a file on tmpfs, and of what the system's cache has of a file on ext4. The mappings, at most 4
 * GiB of addresses for each file, stay until the file is closed. leat calls pwrite() where the system refuses the
 * mapping, and while the process's handler of SIGBUS is not leat's. A full disk is LEAT_ERROR_FILE as with
 * pwrite(). If another program cuts a file while leat stores to a part of it through a mapping, the copy usually fails
 * with LEAT_ERROR_FILE too; parts that were written before are lost without an error, as with pwrite().
 *
 * Asynchronous failures. If a copy fails while leat's threads move the bytes (the file became shorter, the disk
 * fails or is full), the ticket returns LEAT_ERROR_FILE, and so does the next leat_stream_synchronize() of that
 * stream, once. Later work of the stream runs anyway. The part of the destination that the copy did not reach is
 * then undefined.
 *
 * Threads. The threads that read and write files are reserved for files (LEAT_IO_WORKERS), so a slow disk does not
 * delay copies of memory. Any thread may call, and several may use one file. leat_file_close() must be the last
 * call on a handle; copies that are not complete keep the file itself open.
 *
 * Experimental: all of this header may still change (leat/version.h).
 */
#ifndef LEAT_FILE_H
#define LEAT_FILE_H

#include <leat/copy.h>

#ifdef __cplusplus
extern "C" {
#endif

#ifndef LEAT_NO_EXPERIMENTAL /* may still change: see leat/version.h */

/* An open file. It belongs to no device. */
typedef struct leat_file leat_file;

/* Flags for opening a file; combine with |. READ or WRITE is required. */
typedef enum leat_file_flags {
    LEAT_FILE_READ = 1,
    LEAT_FILE_WRITE = 2,
    LEAT_FILE_CREATE = 4,   /* with WRITE: creates a missing file with mode 0666, as the umask allows */
    LEAT_FILE_TRUNCATE = 8, /* with WRITE: removes the file's contents */
    /* With WRITE: makes a new, empty file without a name. leat_file_commit() gives the file its name, and replaces
     * an older file of that name. Without a commit the new file disappears. CREATE and TRUNCATE have no effect. */
    LEAT_FILE_TEMPORARY = 64,
    LEAT_FILE_KEEP = 128, /* with TEMPORARY: a commit fails if there is a file of this name by then, and keeps it */
    /* If neither of the next two flags is set, leat reads through the system's cache what the cache has, and past
     * the cache (O_DIRECT) the rest, if the file is on a local disk. Writes go through the cache. */
    LEAT_FILE_CACHED = 32, /* reads and writes through the cache: best for files that will soon be read again */
    LEAT_FILE_DIRECT = 16  /* reads and writes whole blocks past the cache; fails where that is not possible */
} leat_file_flags;

/*
 * Opens a regular file. leat copies path. flags: leat_file_flags.
 * Errors: INVALID (path or file NULL; flags with other bits, without READ and WRITE, with CREATE or TRUNCATE but
 * without WRITE, or with both CACHED and DIRECT); FILE (the system's error, with its reason; not a regular file,
 * such as a directory, a FIFO or a device); HOST_MEMORY; NOT_PERMITTED (inside a host function).
 */
LEAT_NODISCARD LEAT_API leat_status leat_file_open(const char *path, unsigned flags, leat_file **file);

/*
 * Makes a handle for a regular file that the program has open as fd. fd stays the program's: leat keeps a
 * descriptor of its own, so the program may close fd at once, and leat_file_close() does not close it. Neither
 * changes fd's position. flags: READ, WRITE, or both as far as fd allows, and CACHED or DIRECT; without READ and
 * WRITE (such as 0) the handle can do what fd can do. leat opens the file again, through /proc, without O_DIRECT
 * and O_APPEND: so copies may have any alignment, writes go to their offsets, and later changes of fd's flags
 * (F_SETFL) have no effect on them. If the system refuses that, as after a change of the file's permissions, leat
 * duplicates fd. The handle then has the flags of fd: with O_DIRECT a write of a part of a block (4096 bytes) is
 * an asynchronous failure, and with O_APPEND the call fails if the handle can write. As with any second
 * descriptor, closing it releases the process's record locks (F_SETLK) on the file.
 * Errors: INVALID (file NULL; other flags, or both CACHED and DIRECT); FILE (fd is not an open descriptor, not of
 * a regular file, or not open for what flags ask; the system's error); HOST_MEMORY; NOT_PERMITTED (inside a host
 * function).
 */
LEAT_NODISCARD LEAT_API leat_status leat_file_wrap(int fd, unsigned flags, leat_file **file);

/* Closes the handle; NULL does nothing. Submitted copies continue. They keep the file itself open until they are
 * complete, their tickets are destroyed, and their device has made another staged copy or was closed.
 * Errors: HANDLE. */
LEAT_API leat_status leat_file_close(leat_file *file);

/* Returns the current size of the file. Errors: HANDLE; INVALID (bytes NULL); FILE (the system's error). */
LEAT_NODISCARD LEAT_API leat_status leat_file_size(leat_file *file, uint64_t *bytes);

/*
 * Returns how many bytes of a range of the file are in the system's cache now, counted in whole pages. Before
 * Linux 6.5 this is an estimate from three bytes of the range. Files in memory (tmpfs) are in the cache unless
 * they were swapped out.
 * Errors: HANDLE; INVALID (cached_bytes NULL); RANGE (the range is beyond the end of the file); FILE (the system's
 * error).
 */
LEAT_NODISCARD LEAT_API leat_status leat_file_cached(leat_file *file, uint64_t offset, uint64_t bytes,
                                                     uint64_t *cached_bytes);

/*
 * Copies bytes bytes of the file, starting at offset, to dst. bytes 0 does nothing, whatever dst is. The call does
 * not wait for earlier work of the stream, with two exceptions: staged copies that wait on their streams hold all
 * the pinned memory that LEAT_COPY_MEMORY allows, or the driver's queue for the stream is full (leat_copy()).
 * Errors: HANDLE; FILE (not open for reading; the system's error); POINTER, RANGE (as leat_copy(), for dst); RANGE
 * (also when offset + bytes is beyond the end of a file that is open only for reading; if it is open for writing
 * too, earlier writes may still extend it); UNSUPPORTED (memory of another driver than the stream's); HOST_MEMORY
 * (also if leat has no threads for staging: leat_copy_explain() says why); DEVICE_LOST, DRIVER, NOT_PERMITTED.
 * After an error nothing was copied, except after DEVICE_LOST and DRIVER: then dst is undefined.
 */
LEAT_NODISCARD LEAT_API leat_status leat_file_read(leat_stream *stream, void *dst, leat_file *file,
                                                   uint64_t offset, size_t bytes);

/* leat_file_read() with a ticket; options may be NULL. leat_ticket_cancel() and a deadline stop the copy. The
 * caller destroys the ticket.
 * Errors: as leat_file_read(); INVALID (ticket NULL, options->size as leat/base.h says). */
LEAT_NODISCARD LEAT_API leat_status leat_file_read_start(leat_stream *stream, void *dst, leat_file *file,
                                                         uint64_t offset, size_t bytes,
                                                         const leat_copy_options *options, leat_ticket **ticket);

/*
 * Copies bytes bytes from src to the file, starting at offset. The file grows if necessary; a gap between its old
 * end and offset reads as zeros. bytes 0 does nothing, whatever src is.
 * Errors: as leat_file_read(), for src; FILE (not open for writing); RANGE (offset + bytes is more than a file can
 * have).
 */
LEAT_NODISCARD LEAT_API leat_status leat_file_write(leat_stream *stream, leat_file *file, uint64_t offset,
                                                    const void *src, size_t bytes);

/* leat_file_write() with a ticket. Errors: as leat_file_write() and leat_file_read_start(). */
LEAT_NODISCARD LEAT_API leat_status leat_file_write_start(leat_stream *stream, leat_file *file, uint64_t offset,
                                                          const void *src, size_t bytes,
                                                          const leat_copy_options *options, leat_ticket **ticket);

/* ---- many ranges ----------------------------------------------------------------------------------------- */

/* One range of a file, and its place in memory. */
typedef struct leat_file_op {
    leat_file *file;
    uint64_t offset;
    void *memory; /* the place in memory; a write only reads it */
    size_t bytes;
} leat_file_op;

/*
 * Makes count reads, of one file or of several, in stream order as if they were one: none runs before earlier work
 * of the stream, later work waits for all of them, and they have no order among themselves. leat sorts the reads
 * by their place in the files, and merges reads that are adjacent both in the file and in memory. So thousands of
 * small reads cost little, and least if they have the same order in memory as in the file. With another order,
 * many small reads into device memory go through a buffer of at most a chunk of the ring on the device, and a
 * kernel; the list for the kernel takes at most 24 MiB of pinned memory and 24 bytes a range. The first such call
 * on a device loads leat's kernels, which may wait for the device's work; leat_module_builtin() loads them ahead
 * of time. leat reads ops before the call returns. An op of 0 bytes does nothing; count 0 does nothing. The memory
 * may be of any kinds. Errors: as leat_file_read(), with the number of the op in the message; INVALID (ops NULL);
 * OVERLAP (two ops read into the same memory). After an error nothing was copied, except after HOST_MEMORY,
 * DEVICE_LOST and DRIVER: then all destinations are undefined.
 */
LEAT_NODISCARD LEAT_API leat_status leat_file_read_batch(leat_stream *stream, const leat_file_op *ops,
                                                         size_t count);

/* leat_file_read_batch() with one ticket for all reads. The ticket reaches a point when all reads have reached it,
 * its progress counts the bytes of all reads, and cancelling the ticket or passing its deadline stops all reads.
 * Errors: as leat_file_read_batch() and leat_file_read_start(). */
LEAT_NODISCARD LEAT_API leat_status leat_file_read_batch_start(leat_stream *stream, const leat_file_op *ops,
                                                               size_t count, const leat_copy_options *options,
                                                               leat_ticket **ticket);

/* leat_file_read_batch() and leat_file_read_batch_start() for writes. Errors: as leat_file_read_batch() and
 * leat_file_write(); OVERLAP (two ops write to the same bytes of a file). */
LEAT_NODISCARD LEAT_API leat_status leat_file_write_batch(leat_stream *stream, const leat_file_op *ops,
                                                          size_t count);
LEAT_NODISCARD LEAT_API leat_status leat_file_write_batch_start(leat_stream *stream, const leat_file_op *ops,
                                                                size_t count, const leat_copy_options *options,
                                                                leat_ticket **ticket);

/* ---- on the disk ----------------------------------------------------------------------------------------- */

/*
 * Makes everything durable that was written to the file earlier, in stream order. One of leat's threads calls
 * fsync(). Later work of the stream waits until that call has returned.
 * Errors: HANDLE; FILE (not open for writing); HOST_MEMORY, DEVICE_LOST, DRIVER, NOT_PERMITTED. If fsync() fails,
 * that is an asynchronous failure, FILE.
 */
LEAT_NODISCARD LEAT_API leat_status leat_file_sync(leat_stream *stream, leat_file *file);

/* leat_file_sync() with a ticket. Later work of the stream does not wait for fsync(). The ticket reaches STAGED
 * and DONE when all earlier work of the stream is complete, and LEAT_COPY_POINT_DURABLE when fsync() has returned.
 * leat_ticket_cancel() and a deadline prevent the fsync() as long as it has not begun. Errors: as leat_file_sync()
 * and leat_file_read_start(). */
LEAT_NODISCARD LEAT_API leat_status leat_file_sync_start(leat_stream *stream, leat_file *file,
                                                         const leat_copy_options *options, leat_ticket **ticket);

/*
 * Gives a file that was opened with LEAT_FILE_TEMPORARY its name, in stream order. Even after a crash, the name
 * never refers to a file with only a part of the bytes: leat calls fsync() for the file, then rename(), which
 * replaces an older file or symbolic link (with LEAT_FILE_KEEP it fails if there is one), then fsync() for the
 * directory. Later work of the stream waits for
 * these calls. The commit fails asynchronously, with FILE, if one of the calls fails, or if an earlier write to
 * the file failed or was stopped. The name then still refers to the older file, if there is one, unless only the
 * fsync() for the directory has failed. A file can be committed once; afterwards it can be read and written like
 * any other file. Errors: as leat_file_sync(); INVALID (opened without LEAT_FILE_TEMPORARY; committed before).
 */
LEAT_NODISCARD LEAT_API leat_status leat_file_commit(leat_stream *stream, leat_file *file);

/* leat_file_commit() with a ticket, as leat_file_sync_start(): LEAT_COPY_POINT_DURABLE is reached when the file
 * has its name. Errors: as leat_file_commit() and leat_file_read_start(). */
LEAT_NODISCARD LEAT_API leat_status leat_file_commit_start(leat_stream *stream, leat_file *file,
                                                           const leat_copy_options *options, leat_ticket **ticket);

/* ---- in words -------------------------------------------------------------------------------------------- */

/* Describes how leat_file_read() would make this copy now, as leat_copy_explain() does. Errors: as
 * leat_file_read(); INVALID (text NULL or text_bytes 0). */
LEAT_NODISCARD LEAT_API leat_status leat_file_explain(leat_stream *stream, void *dst, leat_file *file,
                                                      uint64_t offset, size_t bytes, char *text,
                                                      size_t text_bytes);

#endif /* LEAT_NO_EXPERIMENTAL */

#ifdef __cplusplus
}
#endif

#endif
