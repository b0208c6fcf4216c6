/*
 * leat/file.h - copies between files and memory, in stream order.
 *
 * Model. A file is one more place that bytes come from and go to. leat_file_read() copies a range of a file to any
 * memory that leat_copy() can reach, leat_file_write() copies memory to a range of a file. Both return at once and run in
 * stream order, after all earlier work of the stream: leat's threads read the file into a ring of pinned memory, or
 * write it from there, and the device's DMA engine moves the rest of the way at the same time. Files as large as
 * they like need no more pinned memory than the ring (LEAT_COPY_RING). Host memory is read and written directly.
 *
 *     leat_file_open("weights.bin", LEAT_FILE_READ, &file);
 *     leat_file_read(stream, weights, file, 0, bytes);                 // returns at once
 *     leat_launch(stream, ...);                                        // runs when the bytes are there
 *     leat_stream_synchronize(stream);                                 // says so if the file could not be read
 *     leat_file_close(file);
 *
 * When may memory be reused, and when are bytes in the file? As for leat_copy(): when the stream has got past the
 * copy, or when its ticket says so (LEAT_COPY_STAGED: of a write, the memory has been read and the file has it; of a
 * read, the file has been read). What was written is then in the system's cache, where every reader sees it; it
 * is on the disk when fsync() says so.
 *
 * A read sees what earlier writes of the same stream have written. It may read ahead of other earlier work of the
 * stream, and does not wait for other processes.
 *
 * What goes wrong while leat's threads move the bytes (the file became shorter, the disk fails or is full) comes
 * back from the ticket, and once from the next leat_stream_synchronize() of that stream, as LEAT_ERROR_FILE. Work
 * after the copy runs anyway. What of the destination was not reached yet is undefined then.
 *
 * Threads. Any thread may call, and several may use one file. leat_file_close() must be the last to use a handle;
 * copies under way keep the file itself open.
 */
#ifndef LEAT_FILE_H
#define LEAT_FILE_H

#include <leat/copy.h>

#ifdef __cplusplus
extern "C" {
#endif

/* An open file. It belongs to no device. */
typedef struct leat_file leat_file;

/* How a file is opened; combine with |. READ or WRITE must be there. */
typedef enum leat_file_flags {
    LEAT_FILE_READ = 1,
    LEAT_FILE_WRITE = 2,
    LEAT_FILE_CREATE = 4,  /* with WRITE: makes the file where there is none, for everybody that the umask allows */
    LEAT_FILE_TRUNCATE = 8 /* with WRITE: what the file holds is dropped */
} leat_file_flags;

/*
 * Opens a regular file. path is copied. flags: leat_file_flags.
 * Errors: INVALID (path or file NULL; flags with other bits, without READ and WRITE, or with CREATE or TRUNCATE
 * without WRITE); FILE (the system refused, with its reason; not a regular file, such as a directory, a FIFO or a
 * device); HOST_MEMORY; NOT_PERMITTED (inside a host function).
 */
LEAT_API leat_status leat_file_open(const char *path, unsigned flags, leat_file **file);

/* Ends the handle; NULL does nothing. Copies that were submitted go on, and the file itself is closed when the last
 * of them is over and its ticket freed. Errors: HANDLE. */
LEAT_API leat_status leat_file_close(leat_file *file);

/* How many bytes the file has now. Errors: HANDLE; INVALID (bytes NULL); FILE (the system refused). */
LEAT_API leat_status leat_file_size(leat_file *file, uint64_t *bytes);

/*
 * Copies bytes of the file from offset on to dst. bytes 0 does nothing, whatever dst is.
 * The call does not wait for earlier work of the stream, but where staged copies that wait on their streams hold all the
 * pinned memory that LEAT_COPY_MEMORY allows.
 * Errors: HANDLE; FILE (not open for reading); POINTER, RANGE (as leat_copy(), for dst; RANGE also when offset + bytes
 * is beyond the end of a file that is open for reading only: of others, earlier writes may still move the end); UNSUPPORTED (memory of another driver than the stream's); HOST_MEMORY (also where
 * leat has no threads for staging: leat_copy_explain() says why); DEVICE_LOST, DRIVER, NOT_PERMITTED. Nothing was
 * copied then, but for DEVICE_LOST and DRIVER, after which dst is undefined.
 */
LEAT_API leat_status leat_file_read(leat_stream *stream, void *dst, leat_file *file, uint64_t offset, size_t bytes);

/* The same with a ticket; options may be NULL. leat_ticket_cancel() and a deadline stop it. Errors: as leat_file_read();
 * INVALID (ticket NULL, options->size 0 or larger than this library knows). */
LEAT_API leat_status leat_file_read_start(leat_stream *stream, void *dst, leat_file *file, uint64_t offset,
                                          size_t bytes, const leat_copy_options *options, leat_ticket **ticket);

/*
 * Copies bytes from src to the file, from offset on. The file grows where they are beyond its end; bytes that are
 * skipped so are zeros. bytes 0 does nothing, whatever src is.
 * Errors: as leat_file_read(), for src; FILE (not open for writing); RANGE (offset + bytes is more than a file can have).
 */
LEAT_API leat_status leat_file_write(leat_stream *stream, leat_file *file, uint64_t offset, const void *src,
                                     size_t bytes);

/* The same with a ticket. Errors: as leat_file_write() and leat_file_read_start(). */
LEAT_API leat_status leat_file_write_start(leat_stream *stream, leat_file *file, uint64_t offset, const void *src,
                                           size_t bytes, const leat_copy_options *options, leat_ticket **ticket);

/* Writes how leat_file_read() would make this copy now, as leat_copy_explain() does. Errors: as leat_file_read();
 * INVALID (text NULL or text_bytes 0). */
LEAT_API leat_status leat_file_explain(leat_stream *stream, void *dst, leat_file *file, uint64_t offset,
                                       size_t bytes, char *text, size_t text_bytes);

#ifdef __cplusplus
}
#endif

#endif
