/*
 * record.c - see record.h.
 *
 * All threads write their lines to one buffer under one lock, so the lines have one order and the recorder's
 * memory is bounded. The buffer is written to the file when it is full, when a device is closed and when the
 * program ends. Only whole lines stay in the file, so the file can be read at any time.
 *
 * A child of fork() records nothing, because the file belongs to its parent. Other programs that the recorded
 * program starts inherit LEAT_RECORD_ALLOCATIONS. The file is locked, so that they cannot overwrite the recording.
 */
#include "base/lock.h"
#include "base/record.h"

#include "base/clock.h"
#include "base/hooks.h"
#include "base/options.h"
#include "base/record_file.h"

#include <inttypes.h>
#include <limits.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define VARIABLE "LEAT_RECORD_ALLOCATIONS"

enum { BUFFER_BYTES = 64 << 10, LINE_BYTES_MAX = 512 };

static const char header[] = "t_us,op,id,bytes,stream,pool,event,align,kind,device,name\n";

static const char *const op_names[] = {
    [LEATI_RECORD_POOL_CREATE] = "pool_create",
    [LEATI_RECORD_POOL_DESTROY] = "pool_destroy",
    [LEATI_RECORD_ALLOC] = "alloc",
    [LEATI_RECORD_ALLOC_FAILED] = "alloc_failed",
    [LEATI_RECORD_FREE] = "free",
    [LEATI_RECORD_USE] = "use",
    [LEATI_RECORD_USE_UNTIL] = "use_until",
    [LEATI_RECORD_RECORD] = "record",
    [LEATI_RECORD_WAIT] = "wait",
    [LEATI_RECORD_SYNC] = "sync",
    [LEATI_RECORD_EVENT_DESTROY] = "event_destroy",
    [LEATI_RECORD_STREAM_DESTROY] = "stream_destroy",
};

_Atomic(leati_record_function) leati_record_hook;
_Atomic uint64_t leati_record_last_block;

/* The file descriptor; -1: not recording. Changed under the lock; in a child of fork(), without it. */
static _Atomic int file = -1;

/* Guards the variables below. Taken after all other locks, and held while the buffer is written to the file. */
static struct leati_lock lock = LEATI_LOCK_INITIALIZER;
static char path[PATH_MAX] LEATI_GUARDED_BY(lock);
static char buffer[BUFFER_BYTES] LEATI_GUARDED_BY(lock);
static size_t used_bytes LEATI_GUARDED_BY(lock);
static off_t written_bytes LEATI_GUARDED_BY(lock);
static bool is_regular LEATI_GUARDED_BY(lock);
static uint64_t begun_ns, written_lines LEATI_GUARDED_BY(lock);
static bool is_ending; /* the program is ending: from now on write each line at once */

static int descriptor(void)
{
    /* Relaxed: the caller holds the lock, or checks again under it. */
    return atomic_load_explicit(&file, memory_order_relaxed);
}

/* ---- the file; under the lock ---- */

/* Ends the recording with one line on standard error. */
static void give_up(int error) LEATI_REQUIRES(lock)
{
    leati_assert(descriptor() >= 0);
    atomic_store_explicit(&leati_record_hook, NULL, memory_order_relaxed);
    fprintf(stderr, "leat: " VARIABLE ": %s cannot be written: %s; it ends after %" PRIu64 " lines\n", path,
            strerror(error), written_lines);
    close(descriptor());
    atomic_store_explicit(&file, -1, memory_order_relaxed);
}

/* Call after the first bytes bytes of the buffer were written to the file. Adds the whole lines among them to
 * written_bytes and written_lines. */
static void count_written(size_t bytes) LEATI_REQUIRES(lock)
{
    leati_assert(bytes <= used_bytes);
    while (bytes && buffer[bytes - 1] != '\n')
        bytes--;
    written_bytes += (off_t)bytes;
    for (const char *at = buffer; (at = memchr(at, '\n', (size_t)(buffer + bytes - at))); at++)
        written_lines++;
}

static void flush(void) LEATI_REQUIRES(lock)
{
    size_t done = 0;
    int error = 0;

    leati_assert_locked(&lock);
    leati_assert(used_bytes <= sizeof buffer);
    if (descriptor() >= 0)
        done = leati_record_file_write(descriptor(), is_regular, written_bytes, buffer, used_bytes, &error);
    count_written(done);
    if (descriptor() >= 0 && done < used_bytes) {
        /* Cut off an incomplete last line. ftruncate() fails for a terminal, for example, which then keeps that
         * line. */
        (void)!ftruncate(descriptor(), written_bytes);
        give_up(error);
    }
    used_bytes = 0;
}

/* ---- lines; under the lock ---- */

static void put(const char *format, ...) __attribute__((format(printf, 1, 2)));

static void put(const char *format, ...) LEATI_REQUIRES(lock)
{
    va_list args;

    va_start(args, format);
    used_bytes += (size_t)vsnprintf(buffer + used_bytes, sizeof buffer - used_bytes, format, args);
    va_end(args);
    leati_assert(used_bytes < sizeof buffer);
}
/* Adds a cell with a number; for 0, an empty cell. */
static void put_number(uint64_t number) LEATI_REQUIRES(lock)
{
    if (number)
        put(",%" PRIu64, number);
    else
        put(",");
}

/* Adds a cell with a text; for NULL, an empty cell. Characters that would end the cell or the line become '_'. */
static void put_text(const char *text) LEATI_REQUIRES(lock)
{
    size_t start = used_bytes + 1;

    put(",%.64s", text ? text : "");
    for (size_t i = start; i < used_bytes; i++)
        if (buffer[i] == ',' || buffer[i] == '"' || (unsigned char)buffer[i] < ' ')
            buffer[i] = '_';
}

static void put_line(const struct leati_record_event *event) LEATI_REQUIRES(lock)
{
    bool is_about_block = event->op == LEATI_RECORD_ALLOC || event->op == LEATI_RECORD_ALLOC_FAILED ||
                          event->op == LEATI_RECORD_FREE;

    leati_assert_locked(&lock);
    leati_assert((unsigned)event->op < LEATI_RECORD_OP_COUNT && op_names[event->op]);
    put("%" PRIu64 ",%s", (leati_clock_ns() - begun_ns) / 1000, op_names[event->op]);
    put_number(event->block);
    put_number(event->bytes);
    if (is_about_block && !event->stream)
        put(",host");
    else
        put_number(event->stream);
    put_number(event->pool);
    put_number(event->event);
    put_number(event->alignment);
    put_text(event->kind);
    put_text(event->device);
    put_text(event->name);
    put("\n");
}

static void record(const struct leati_record_event *event)
{
    leati_lock(&lock);
    if (descriptor() >= 0) {
        if (event->op != LEATI_RECORD_DEVICE_CLOSE)
            put_line(event);
        if (event->op == LEATI_RECORD_DEVICE_CLOSE || is_ending || sizeof buffer - used_bytes < LINE_BYTES_MAX)
            flush();
    }
    leati_unlock(&lock);
}

/* ---- beginning and ending ---- */

/* In a child of fork(): stops recording, because the file belongs to the parent. Does not take the lock: another
 * thread of the parent may have held it during fork(), and that thread does not exist here. */
static void end_in_child(void)
{
    int fd = descriptor();

    atomic_store_explicit(&leati_record_hook, NULL, memory_order_relaxed);
    atomic_store_explicit(&file, -1, memory_order_relaxed);
    if (fd >= 0)
        close(fd);
}

void leati_record_begin(void)
{
    const char *pattern = leati_option(LEATI_OPTION_RECORD_ALLOCATIONS), *why = "the name is too long";
    int fd = -1;

    if (!pattern)
        return;
    leati_lock(&lock);
    if (leati_record_file_name(path, sizeof path, pattern))
        fd = leati_record_file_open(path, &is_regular, &why);
    if (fd < 0) {
        leati_unlock(&lock);
        fprintf(stderr, "leat: " VARIABLE ": %s cannot be written: %s; nothing is recorded\n", pattern, why);
        return;
    }
    (void)pthread_atfork(NULL, NULL, end_in_child);
    begun_ns = leati_clock_ns();
    memcpy(buffer, header, sizeof header - 1);
    used_bytes = sizeof header - 1;
    atomic_store_explicit(&file, fd, memory_order_relaxed);
    /* Release: pairs with the acquire in LEATI_RECORD(), so that all of the above is visible to the hook's
     * callers.
     */
    atomic_store_explicit(&leati_record_hook, record, memory_order_release);
    leati_unlock(&lock);
}

/* Runs after the functions that the program gave to atexit(), because those may still free memory. */
__attribute__((destructor)) static void end_with_program(void)
{
    if (descriptor() < 0)
        return;
    leati_lock(&lock);
    flush();
    is_ending = true;
    leati_unlock(&lock);
}
