/*
 * file_map.c - writes files through shared mappings of them. Several worker threads may call it at once for a
 * file.
 *
 * Linux admits one pwrite() to a file at a time, so threads that write the same file are no faster than one.
 * Stores to a mapping need no lock of the file. They cost a page fault for each page that the mapping does not
 * have yet, so they pay with several processors only, and leat keeps the mappings until the file is closed.
 *
 * A store fails by a signal, not by an error: SIGBUS if the disk is full, or if the file was cut. The store runs
 * in leati_fault_handler_run(), and the caller then writes the rest by pwrite(), which returns the error. A file
 * that is shorter than the range after the stores was cut meanwhile, which pwrite() would hide.
 */
#include "copy/file.h"

#include "base/assert.h"
#include "base/fault_handler.h"
#include "base/lock.h"
#include "base/options.h"
#include "base/workers.h"
#include "staging/bytes.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#define WINDOW_BYTES ((uint64_t)256 << 20)
#define WINDOWS 16 /* windows that a file keeps: 4 GiB */

/* Shorter writes belong to short copies, which few threads make; new mappings then cost more than they gain. */
#define LEAST_BYTES ((size_t)128 << 10)

/* With fewer processors pwrite() is faster (measured on tmpfs and ext4, docs/files.md). */
#define LEAST_PROCESSORS 4

#define TMPFS_TYPE 0x01021994
#define EXT4_TYPE 0xef53 /* ext2 and ext3 too */

/* A mapping of WINDOW_BYTES of the file, from a multiple of WINDOW_BYTES on. */
struct window {
    char *base; /* NULL: unused */
    uint64_t start;
    unsigned users; /* threads that store to it now */
    uint64_t used;  /* value of maps.uses at the latest use */
};

struct leati_file_maps {
    bool only_cached;       /* constant: only bytes that the system's cache has are stored to */
    struct leati_lock lock; /* guards the other fields */
    struct window windows[WINDOWS];
    uint64_t uses;
    int fd; /* descriptor of the same file for reading and writing, which mappings need; -1: open->fd is one, or
               none is needed yet */
    bool refused; /* the system has refused a mapping, so leat uses pwrite() from then on */
};

/* ---- whether a file is written so ---- */

enum choice { CHOICE_AUTO, CHOICE_NEVER, CHOICE_CACHED, CHOICE_ALWAYS };

static enum choice choose(void)
{
    const char *word = leati_option(LEATI_OPTION_IO_MAP);

    if (word && !strcmp(word, "never"))
        return CHOICE_NEVER;
    if (word && !strcmp(word, "cached"))
        return CHOICE_CACHED;
    return word && !strcmp(word, "always") ? CHOICE_ALWAYS : CHOICE_AUTO;
}

const char *leati_file_why_not_mapped(const struct leati_open_file *open, bool *only_cached)
{
    enum choice choice = choose();
    struct rlimit addresses;
    struct statfs what;

    *only_cached = choice == CHOICE_CACHED;
    if (open->flags & LEAT_FILE_DIRECT)
        return "whole blocks go past the system's cache";
    if (choice == CHOICE_NEVER)
        return "LEAT_IO_MAP is never";
    if (getrlimit(RLIMIT_AS, &addresses) || addresses.rlim_cur != RLIM_INFINITY)
        return "the address space of this process is limited";
    if (choice != CHOICE_AUTO)
        return NULL;
    if (leati_workers_processors(-1) < LEAST_PROCESSORS)
        return "a mapping is faster only with four processors or more";
    if (fstatfs(open->fd, &what))
        return "its file system is not known";
    if (what.f_type != TMPFS_TYPE && what.f_type != EXT4_TYPE)
        return "a mapping is known to be faster only on tmpfs and ext4";
    *only_cached = what.f_type == EXT4_TYPE;
    return NULL;
}

void leati_file_open_maps(struct leati_open_file *open)
{
    bool only_cached;

    if (!(open->flags & LEAT_FILE_WRITE) || leati_file_why_not_mapped(open, &only_cached))
        return;
    open->maps = calloc(1, sizeof *open->maps);
    if (!open->maps)
        return; /* pwrite() needs none */
    open->maps->lock = (struct leati_lock)LEATI_LOCK_INITIALIZER;
    open->maps->fd = -1;
    open->maps->only_cached = only_cached;
}

void leati_file_close_maps(struct leati_open_file *open)
{
    struct leati_file_maps *maps = open->maps;

    if (!maps)
        return;
    for (int i = 0; i < WINDOWS; i++) {
        leati_assert(!maps->windows[i].users);
        if (maps->windows[i].base)
            (void)munmap(maps->windows[i].base, WINDOW_BYTES);
    }
    if (maps->fd >= 0)
        (void)close(maps->fd);
    free(maps);
}

/* ---- windows ---- */

/* Returns a descriptor that may be mapped for writing, or -1. */
static int find_descriptor(const struct leati_open_file *open, struct leati_file_maps *maps)
    LEATI_REQUIRES(maps->lock)
{
    int flags;

    leati_assert_locked(&maps->lock);
    if (maps->fd >= 0)
        return maps->fd;
    flags = fcntl(open->fd, F_GETFL);
    if (flags >= 0 && (flags & O_ACCMODE) == O_RDWR)
        return open->fd;
    maps->fd = leati_file_open_again(open, O_RDWR);
    return maps->fd;
}

/* Maps a window of the file. Returns NULL if the system refuses it. */
static char *map_window(const struct leati_open_file *open, struct leati_file_maps *maps, uint64_t start)
    LEATI_REQUIRES(maps->lock)
{
    int fd = find_descriptor(open, maps);
    void *base = MAP_FAILED;

    if (fd >= 0)
        base = mmap(NULL, WINDOW_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd, (off_t)start);
    if (base == MAP_FAILED)
        return NULL;
    /* A child process needs no copy of the mapping, nor a core file the bytes. */
    (void)madvise(base, WINDOW_BYTES, MADV_DONTFORK);
    (void)madvise(base, WINDOW_BYTES, MADV_DONTDUMP);
    return base;
}

/* Returns the window that begins at start, which the caller must give back; NULL if there is none, because threads
 * use all of them or the system refuses mappings. */
static struct window *take_window(const struct leati_open_file *open, uint64_t start)
{
    struct leati_file_maps *maps = open->maps;
    struct window *found = NULL, *oldest = NULL;
    char *drop = NULL;

    leati_lock(&maps->lock);
    for (int i = 0; i < WINDOWS && !found && !maps->refused; i++) {
        struct window *window = &maps->windows[i];

        if (window->base && window->start == start)
            found = window;
        else if (!window->users && (!oldest || (oldest->base && (!window->base || window->used < oldest->used))))
            oldest = window;
    }
    if (!found && oldest) {
        char *base = map_window(open, maps, start);

        maps->refused = !base;
        if (base) {
            drop = oldest->base;
            found = oldest;
            *found = (struct window){.base = base, .start = start};
        }
    }
    if (found) {
        found->users++;
        found->used = ++maps->uses;
    }
    leati_unlock(&maps->lock);
    /* Without the lock, because this removes up to 65536 pages from the page table. */
    if (drop)
        (void)munmap(drop, WINDOW_BYTES);
    return found;
}

static void give_window(const struct leati_open_file *open, struct window *window)
{
    leati_lock(&open->maps->lock);
    leati_assert(window->users);
    window->users--;
    leati_unlock(&open->maps->lock);
}

/* ---- writing ---- */

static bool reaches(const struct leati_open_file *open, uint64_t end)
{
    struct stat what;

    return !fstat(open->fd, &what) && (uint64_t)what.st_size >= end;
}

/* Returns true if the file has this range, and the system's cache has it too. A store to any other page of a
 * disk's file would first read the page from the disk, or allocate it more slowly than pwrite() does. */
static bool is_cached(const struct leati_open_file *open, uint64_t offset, size_t bytes)
{
    /* Before Linux 6.5 the number is an estimate in thirds of the range, rounded down. */
    return reaches(open, offset + bytes) && leati_file_cached_bytes(open, offset, bytes) + 3 > bytes;
}

/* Writes the last byte by pwrite(), which makes the file reach to end. Unlike ftruncate() this can only make the
 * file longer, whatever other threads and processes do. It is done in any case, because it also sets the time of
 * the last change, clears set-user-ID, and tells those who watch the file (inotify), as stores to a mapping do
 * not. Returns false if the system does not allow it. */
static bool announce(const struct leati_open_file *open, uint64_t end, const struct iovec *last)
{
    struct iovec byte = {(char *)last->iov_base + last->iov_len - 1, 1};

    return pwritev(open->fd, &byte, 1, (off_t)(end - 1)) == 1;
}

/* Stores a part to the file, up to the end of a window. Returns how many bytes it has stored. Sets *error to
 * EFAULT if the part could not be read. */
static size_t store(const struct leati_open_file *open, uint64_t offset, const struct iovec *part, int *error)
{
    uint64_t within = offset % WINDOW_BYTES;
    size_t bytes = part->iov_len < WINDOW_BYTES - within ? part->iov_len : (size_t)(WINDOW_BYTES - within), stored;
    struct window *window = take_window(open, offset - within);
    uintptr_t fault = 0;

    if (!window)
        return 0;
    stored = leati_staging_copy_guarded(window->base + within, part->iov_base, bytes, LEATI_STORE_POLICY_STREAMING,
                                        &fault);
    give_window(open, window);
    if (stored < bytes && fault - (uintptr_t)part->iov_base < bytes)
        *error = EFAULT;
    return stored;
}

bool leati_file_may_store(const struct leati_open_file *open, size_t bytes)
{
    /* A handler of the program that does not pass SIGBUS on would end the process on a full disk. */
    return open->maps && (bytes >= LEAST_BYTES || choose() != CHOICE_AUTO) &&
           leati_fault_handler_sees_bus_errors();
}

size_t leati_file_store(const struct leati_open_file *open, uint64_t offset, struct iovec *parts, unsigned count,
                        size_t bytes, bool *cut, int *error)
{
    uint64_t end = offset + bytes;
    size_t stored = 0;
    struct stat what;

    *cut = false;
    leati_assert(count && bytes);
    if (open->maps->only_cached && !is_cached(open, offset, bytes))
        return 0;
    if (!announce(open, end, &parts[count - 1]))
        return 0;
    for (unsigned i = 0; i < count && !*error; i++) {
        size_t done = 0;

        while (done < parts[i].iov_len) {
            struct iovec rest = {(char *)parts[i].iov_base + done, parts[i].iov_len - done};
            size_t some = store(open, offset + stored, &rest, error);

            done += some;
            stored += some;
            if (!some || *error)
                break;
        }
        if (done < parts[i].iov_len)
            break;
    }
    if (*error || fstat(open->fd, &what) || (uint64_t)what.st_size >= end)
        return stored;
    *cut = true;
    if ((uint64_t)what.st_size < offset + stored)
        stored = (uint64_t)what.st_size > offset ? (size_t)((uint64_t)what.st_size - offset) : 0;
    return stored;
}
