/*
 * file_io.c - reads and writes the bytes of files; see file.h. Several worker threads may call it at once for a
 * file.
 *
 * If most of a range is in the system's cache, leat reads the range through the cache. Other ranges of a local
 * disk are read past the cache, in whole blocks, with a second descriptor (O_DIRECT). If memory and file have the
 * same alignment, one preadv() reads the first and the last block into a bounce buffer, and all other blocks
 * directly to their place. So no block is read twice, and no byte beside the destination changes. If the alignment
 * differs, all bytes go through the bounce buffer.
 *
 * Writes through the cache go by pwritev(), or through a mapping of the file (file_map.c).
 */
#include "copy/file.h"

#include "base/assert.h"
#include "base/lock.h"
#include "staging/bytes.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <unistd.h>

#define BLOCK LEATI_FILE_BLOCK
#define BOUNCE_BYTES ((size_t)1 << 20)
#define NAME_MOST 200

/* Copies of at least DIRECT_LEAST_BYTES past the cache have parts of DIRECT_PART_BYTES. With 256 KiB a thread
 * needs half as much processor time again (measured, docs/files.md). MIDDLE_BYTES: how much of a range is looked
 * up in the cache at its start and in its middle. */
#define DIRECT_LEAST_BYTES ((size_t)8 << 20)
#define DIRECT_PART_BYTES ((size_t)1 << 20)
#define MIDDLE_BYTES ((size_t)256 << 10)

/* ---- the contents of the cache ---- */

#ifndef RWF_NOWAIT /* Linux 4.14 */
#define RWF_NOWAIT 8
#endif

#define CACHESTAT_NUMBER 451 /* number of the system call since Linux 6.5, on all processors but Alpha */

struct cache_range {
    uint64_t offset, bytes;
};

struct cache_counts {
    uint64_t cached, dirty, writeback, evicted, recently_evicted; /* numbers of pages */
};

/* Tries to read three bytes of the range: its first, its middle and its last. Returns how many of them are in the
 * cache. */
static unsigned probe(int fd, uint64_t offset, size_t bytes)
{
    const uint64_t places[3] = {offset, offset + bytes / 2, offset + bytes - 1};
    unsigned found = 0;
    char byte;

    for (int i = 0; i < 3; i++) {
        struct iovec part = {&byte, 1};
        ssize_t some = preadv2(fd, &part, 1, (off_t)places[i], RWF_NOWAIT);

        /* EAGAIN: the byte is not in the cache. File systems without RWF_NOWAIT, such as tmpfs, return other
         * errors; count their bytes as cached. */
        found += some >= 0 || errno != EAGAIN;
    }
    return found;
}

size_t leati_file_cached_bytes(const struct leati_open_file *file, uint64_t offset, size_t bytes)
{
    uint64_t page_bytes = (uint64_t)sysconf(_SC_PAGESIZE), end = offset + bytes;
    struct cache_range range = {offset / page_bytes * page_bytes, 0};
    struct cache_counts counts;
    uint64_t pages;

    if (!bytes)
        return 0;
    range.bytes = (end + page_bytes - 1) / page_bytes * page_bytes - range.offset;
    pages = range.bytes / page_bytes;
    if (syscall(CACHESTAT_NUMBER, file->fd, &range, &counts, 0))
        return bytes / 3 * probe(file->fd, offset, bytes);
    return counts.cached >= pages ? bytes : (size_t)((double)bytes * (double)counts.cached / (double)pages);
}

/* ---- through the cache ---- */

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

static size_t move_cached(int fd, uint64_t offset, struct iovec *parts, unsigned count, bool write, int *error)
{
    size_t moved = 0;

    while (count) {
        off_t at = (off_t)(offset + moved);
        ssize_t some = write ? pwritev(fd, parts, (int)count, at) : preadv(fd, parts, (int)count, at);

        if (some > 0) {
            moved += (size_t)some;
            advance(&parts, &count, (size_t)some);
        } else if (some == 0 || errno != EINTR) {
            /* 0 bytes: a read has reached the end of the file, which is error 0. A write has no such end, so
             * report a full disk. */
            *error = some ? errno : write ? ENOSPC : 0;
            break;
        }
    }
    return moved;
}

/* ---- bounce buffers ---- */

/* A bounce buffer: BOUNCE_BYTES, and one block more because ranges need not end at a block. Buffers that are not
 * in use form a list. */
union bounce {
    union bounce *next;
    char bytes[BOUNCE_BYTES + BLOCK];
};

static struct leati_lock bounces_lock = LEATI_LOCK_INITIALIZER;
static union bounce *bounces LEATI_GUARDED_BY(bounces_lock); /* list of unused buffers; at most one per thread */

static union bounce *take_bounce(void)
{
    union bounce *bounce;

    leati_lock(&bounces_lock);
    bounce = bounces;
    if (bounce)
        bounces = bounce->next;
    leati_unlock(&bounces_lock);
    return bounce ? bounce : aligned_alloc(BLOCK, sizeof *bounce);
}

static void give_bounce(union bounce *bounce)
{
    leati_lock(&bounces_lock);
    bounce->next = bounces;
    bounces = bounce;
    leati_unlock(&bounces_lock);
}

/* Copies bytes between a bounce buffer and memory that the program may unmap meanwhile. Returns how many bytes it
 * has copied. Sets *error to EFAULT if it could not access the rest. */
static size_t copy_parts(char *bounce, struct iovec *parts, unsigned count, size_t bytes, bool to_bounce,
                         int *error)
{
    size_t copied = 0, some;
    uintptr_t fault;

    for (unsigned i = 0; i < count && copied < bytes; i++) {
        size_t wanted = parts[i].iov_len < bytes - copied ? parts[i].iov_len : bytes - copied;

        some = leati_staging_copy_guarded(to_bounce ? bounce + copied : parts[i].iov_base,
                                          to_bounce ? parts[i].iov_base : bounce + copied, wanted,
                                          LEATI_STORE_POLICY_CACHED, &fault);
        copied += some;
        if (some < wanted) {
            *error = EFAULT;
            break;
        }
    }
    return copied;
}

/* ---- past the cache ---- */

/* Calls preadv() or pwritev() until no signal interrupts the call. Returns its result, and fills *error with a
 * value of errno or 0. */
static ssize_t call_direct(const struct leati_open_file *file, uint64_t offset, struct iovec *parts, int count,
                           bool write, int *error)
{
    ssize_t some;

    do
        some = write ? pwritev(file->direct_fd, parts, count, (off_t)offset)
                     : preadv(file->direct_fd, parts, count, (off_t)offset);
    while (some < 0 && errno == EINTR);
    *error = some < 0 ? errno : !some && write ? ENOSPC : 0;
    return some;
}

/* Reads bytes from offset on through the bounce buffer, at most as many as fit. Returns how many bytes it has
 * read: 0 at the end of the file, or if the read, which begins at the block before offset, did not reach offset.
 */
static size_t read_bounced(const struct leati_open_file *file, uint64_t offset, struct iovec *parts,
                           unsigned count, size_t bytes, union bounce *bounce, int *error)
{
    size_t head = (size_t)(offset % BLOCK), most = head + bytes < BOUNCE_BYTES ? head + bytes : BOUNCE_BYTES;
    struct iovec blocks = {bounce->bytes, (most + BLOCK - 1) / BLOCK * BLOCK};
    ssize_t some = call_direct(file, offset - head, &blocks, 1, false, error);

    if (some <= (ssize_t)head)
        return 0;
    most = (size_t)some < most ? (size_t)some : most;
    return copy_parts(bounce->bytes + head, parts, count, most - head, false, error);
}

/* Reads bytes into memory that has the same alignment as the file. Only a partial first or last block goes through
 * the bounce buffer. Returns the same as read_bounced(). */
static size_t read_aligned(const struct leati_open_file *file, uint64_t offset, char *memory, size_t bytes,
                           union bounce *bounce, int *error)
{
    size_t head = (size_t)(offset % BLOCK), first = head ? BLOCK - head : 0, last = (head + bytes) % BLOCK, got;
    char *first_block = bounce->bytes, *last_block = bounce->bytes + BLOCK;
    struct iovec parts[3], one;
    int count = 0, fault = 0;
    ssize_t some;

    leati_assert(bytes > first + last);
    if (head)
        parts[count++] = (struct iovec){first_block, BLOCK};
    parts[count++] = (struct iovec){memory + first, bytes - first - last};
    if (last)
        parts[count++] = (struct iovec){last_block, BLOCK};
    some = call_direct(file, offset - head, parts, count, false, error);
    if (some <= (ssize_t)head)
        return 0;
    got = (size_t)some - head < bytes ? (size_t)some - head : bytes;
    one = (struct iovec){memory, got < first ? got : first};
    if (copy_parts(first_block + head, &one, 1, one.iov_len, false, &fault) < one.iov_len)
        got = 0;
    if (!fault && got > bytes - last) {
        one = (struct iovec){memory + bytes - last, got - (bytes - last)};
        got = bytes - last + copy_parts(last_block, &one, 1, one.iov_len, false, &fault);
    }
    if (fault)
        *error = fault;
    return got;
}

static bool is_aligned(const struct leati_open_file *file, uint64_t offset, const char *memory, size_t bytes)
{
    size_t head = (size_t)(offset % BLOCK), first = head ? BLOCK - head : 0;

    return bytes > first + (head + bytes) % BLOCK && (uintptr_t)(memory + first) % file->memory_align == 0;
}

/* Writes whole blocks past the cache. Returns how many bytes it has written. */
static size_t write_blocks(const struct leati_open_file *file, uint64_t offset, struct iovec *parts,
                           unsigned count, size_t bytes, union bounce *bounce, int *error)
{
    struct iovec blocks = {parts->iov_base, bytes};
    ssize_t some;

    leati_assert(bytes && bytes % BLOCK == 0 && offset % BLOCK == 0);
    if (parts->iov_len < bytes || (uintptr_t)parts->iov_base % file->memory_align) {
        bytes = bytes < BOUNCE_BYTES ? bytes : BOUNCE_BYTES;
        if (copy_parts(bounce->bytes, parts, count, bytes, true, error) < bytes)
            return 0;
        blocks = (struct iovec){bounce->bytes, bytes};
    }
    some = call_direct(file, offset, &blocks, 1, true, error);
    return some > 0 ? (size_t)some : 0;
}

/* Writes the next bytes. At the start of a block, writes whole blocks past the cache. Otherwise writes the bytes
 * up to the next block through the cache, because the rest of their block must not change. */
static size_t write_some(const struct leati_open_file *file, uint64_t offset, struct iovec *parts, unsigned count,
                         size_t bytes, union bounce *bounce, int *error)
{
    size_t head = (size_t)(offset % BLOCK), to_block = head ? BLOCK - head : 0;
    struct iovec one = *parts;

    if (!head && bytes >= BLOCK)
        return write_blocks(file, offset, parts, count, bytes / BLOCK * BLOCK, bounce, error);
    if (!to_block || to_block > bytes)
        to_block = bytes;
    one.iov_len = one.iov_len < to_block ? one.iov_len : to_block;
    return move_cached(file->fd, offset, &one, 1, true, error);
}

/* Reads the bytes up to the next block through the cache. Returns how many bytes it has read, 0 at the end of the
 * file.
 */
static size_t read_block_cached(const struct leati_open_file *file, uint64_t offset, const struct iovec *part,
                                int *error)
{
    size_t left = BLOCK - (size_t)(offset % BLOCK);
    struct iovec one = {part->iov_base, part->iov_len < left ? part->iov_len : left};

    return move_cached(file->fd, offset, &one, 1, false, error);
}

static size_t move_direct(const struct leati_open_file *file, uint64_t offset, struct iovec *parts, unsigned count,
                          bool write, int *error)
{
    union bounce *bounce = take_bounce();
    size_t moved = 0, bytes = 0;

    if (!bounce) {
        *error = ENOMEM;
        return 0;
    }
    for (unsigned i = 0; i < count; i++)
        bytes += parts[i].iov_len;
    *error = 0;
    while (moved < bytes && !*error) {
        uint64_t at = offset + moved;
        size_t left = bytes - moved, some;

        if (write)
            some = write_some(file, at, parts, count, left, bounce, error);
        else if (is_aligned(file, at, parts->iov_base, parts->iov_len))
            some = read_aligned(file, at, parts->iov_base, parts->iov_len, bounce, error);
        else
            some = read_bounced(file, at, parts, count, left, bounce, error);
        /* A direct read begins at the start of a block, and may end before it reaches the range. */
        if (!some && !*error && !write)
            some = read_block_cached(file, at, parts, error);
        if (!some)
            break;
        moved += some;
        advance(&parts, &count, some);
    }
    give_bounce(bounce);
    return moved;
}

/* ---- through the cache or past it ---- */

static size_t total(const struct iovec *parts, unsigned count)
{
    size_t bytes = 0;

    for (unsigned i = 0; i < count; i++)
        bytes += parts[i].iov_len;
    return bytes;
}

/* Returns true if leat should read or write this range past the cache. */
static bool goes_direct(const struct leati_open_file *file, uint64_t offset, const struct iovec *parts,
                        unsigned count, bool write)
{
    size_t bytes;

    if (file->direct_fd < 0 || atomic_load_explicit(&file->direct_failed, memory_order_relaxed))
        return false;
    if (file->flags & LEAT_FILE_DIRECT)
        return true;
    if (write)
        return false;
    bytes = total(parts, count);
    return leati_file_cached_bytes(file, offset, bytes) < bytes / 2;
}

size_t leati_file_part_bytes(const struct leati_open_file *file, uint64_t offset, size_t bytes, bool write)
{
    struct iovec first = {NULL, MIDDLE_BYTES};

    if (bytes < DIRECT_LEAST_BYTES || !goes_direct(file, offset, &first, 1, write) ||
        !goes_direct(file, offset + bytes / 2, &first, 1, write))
        return 0;
    return DIRECT_PART_BYTES;
}

bool leati_file_is_at_hand(const struct leati_open_file *file, uint64_t offset, size_t bytes)
{
    if (file->may_wait || (file->flags & LEAT_FILE_DIRECT && file->direct_fd >= 0 &&
                           !atomic_load_explicit(&file->direct_failed, memory_order_relaxed)))
        return false;
    return leati_file_cached_bytes(file, offset, bytes) >= bytes;
}

/* Stores the parts to a mapping of the file, and writes by pwritev() what could not be stored, which returns the
 * error. */
static size_t write_mapped(const struct leati_open_file *file, uint64_t offset, struct iovec *parts,
                           unsigned count, int *error)
{
    size_t bytes = total(parts, count), stored;
    bool cut;

    *error = 0;
    stored = leati_file_store(file, offset, parts, count, bytes, &cut, error);
    if (stored == bytes || cut || *error)
        return stored;
    advance(&parts, &count, stored);
    return stored + move_cached(file->fd, offset + stored, parts, count, true, error);
}

size_t leati_file_move(struct leati_open_file *file, uint64_t offset, struct iovec *parts, unsigned count,
                       bool write, int *error)
{
    size_t bytes = total(parts, count), moved = 0;

    if (goes_direct(file, offset, parts, count, write)) {
        struct iovec left[LEATI_FILE_PARTS_MOST], *rest = left;

        leati_assert(count <= LEATI_FILE_PARTS_MOST);
        memcpy(left, parts, count * sizeof *left);
        moved = move_direct(file, offset, left, count, write, error);
        if (moved == bytes || (file->flags & LEAT_FILE_DIRECT && !file->by_option) ||
            (*error != EINVAL && *error != EOPNOTSUPP))
            return moved;
        /* The file system has opened the file with O_DIRECT, but refuses the direct access. Use the cache from now
         * on.
         */
        atomic_store_explicit(&file->direct_failed, true, memory_order_relaxed);
        memcpy(left, parts, count * sizeof *left);
        advance(&rest, &count, moved);
        return moved + move_cached(file->fd, offset + moved, rest, count, write, error);
    }
    if (write && leati_file_may_store(file, bytes))
        return write_mapped(file, offset, parts, count, error);
    return move_cached(file->fd, offset, parts, count, write, error);
}

/* ---- whether a file can be read past the cache ---- */

static bool is_in(unsigned long type, const unsigned long *types, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (types[i] == type)
            return true;
    return false;
}

/* Returns why leat does not read files of this file system past the cache, unless LEAT_FILE_DIRECT asks for it;
 * NULL if it does. *never becomes true if the file system has no direct access at all, *may_wait if reads of
 * cached bytes may wait. */
static const char *why_cached(int fd, bool *never, bool *may_wait)
{
    /* memory: tmpfs, ramfs, hugetlbfs. network: NFS, SMB and CIFS, FUSE, Ceph, Lustre, 9P, AFS, GPFS, BeeGFS,
     * OCFS2, virtiofs. */
    static const unsigned long memory[] = {0x01021994, 0x858458f6, 0x958458f6};
    static const unsigned long network[] = {0x6969,     0x517b,     0xff534d42, 0xfe534d42, 0x65735546,
                                            0x00c36400, 0x0bd00bd0, 0x01021997, 0x5346414f, 0x6b414653,
                                            0x47504653, 0x19830326, 0x7461636f};
    struct statfs what;
    unsigned long type;

    *never = *may_wait = false;
    if (fstatfs(fd, &what)) {
        *may_wait = true;
        return NULL;
    }
    type = (unsigned long)(what.f_type & 0xffffffff);
    *never = is_in(type, memory, sizeof memory / sizeof memory[0]);
    if (*never)
        return "its file system is in memory";
    *may_wait = is_in(type, network, sizeof network / sizeof network[0]);
    return *may_wait ? "it is on a network or in user space" : NULL;
}

/* Sets memory_align. Returns why direct access is not possible with the alignment that the file needs, or NULL if
 * it is possible. */
static const char *check_alignment(struct leati_open_file *file)
{
    file->memory_align = BLOCK; /* the default, if the system does not tell the alignment */
#ifdef STATX_DIOALIGN
    {
        struct statx what;

        if (statx(file->fd, "", AT_EMPTY_PATH, STATX_DIOALIGN, &what) || !(what.stx_mask & STATX_DIOALIGN))
            return NULL;
        if (!what.stx_dio_offset_align)
            return "its file system has no direct access";
        if (what.stx_dio_offset_align > BLOCK || what.stx_dio_mem_align > BLOCK)
            return "direct access to it needs a larger alignment than 4096 bytes";
        file->memory_align = what.stx_dio_mem_align;
    }
#endif
    return NULL;
}

int leati_file_open_again(const struct leati_open_file *file, int how)
{
    char path[40];
    int fd, error;

    /* Open by descriptor instead of by name, because another file may have the name by now, and a temporary file
     * has no name. */
    snprintf(path, sizeof path, "/proc/self/fd/%d", file->fd);
    fd = open(path, how | O_CLOEXEC);
    if (fd >= 0 || !(how & O_DIRECT))
        return fd;
    /* A wrapped descriptor that cannot be opened again may itself have O_DIRECT. */
    error = errno;
    if (fcntl(file->fd, F_GETFL) & O_DIRECT)
        return fcntl(file->fd, F_DUPFD_CLOEXEC, 3);
    errno = error;
    return -1;
}

leat_status leati_file_open_direct(struct leati_open_file *file, int how)
{
    bool asked = file->flags & LEAT_FILE_DIRECT, never;
    const char *by_system = why_cached(file->fd, &never, &file->may_wait);

    file->why_cached = NULL;
    if (file->flags & LEAT_FILE_CACHED)
        file->why_cached = file->by_option ? "LEAT_IO_CACHE is cached" : "LEAT_FILE_CACHED asks for it";
    else if (!asked && !(file->flags & LEAT_FILE_READ))
        file->why_cached = "it is only written";
    if (!file->why_cached && (!asked || never))
        file->why_cached = by_system;
    if (!file->why_cached)
        file->why_cached = check_alignment(file);
    if (!file->why_cached) {
        file->direct_fd = leati_file_open_again(file, (how & ~O_NONBLOCK) | O_DIRECT);
        file->direct_error = file->direct_fd < 0 ? errno : 0;
        file->why_cached = file->direct_fd < 0 ? "it cannot be opened for direct access" : NULL;
    }
    if (!asked || !file->why_cached)
        return LEAT_OK;
    if (file->by_option) {
        file->flags &= ~(unsigned)LEAT_FILE_DIRECT;
        return LEAT_OK;
    }
    return leati_fail(LEAT_ERROR_FILE, "LEAT_FILE_DIRECT: %s%s%s", file->why_cached,
                      file->direct_error ? ": " : "", file->direct_error ? strerror(file->direct_error) : "");
}

/* ---- messages ---- */

const char *leati_file_name(const struct leati_open_file *open)
{
    size_t length = strlen(open->path);

    return open->path + (length > NAME_MOST ? length - NAME_MOST : 0);
}

void leati_file_describe(const struct leati_open_file *file, uint64_t offset, bool write, int error, char *text,
                         size_t text_bytes)
{
    if (error)
        snprintf(text, text_bytes, "%s at offset %llu of %s: %s", write ? "pwrite" : "pread",
                 (unsigned long long)offset, leati_file_name(file), strerror(error));
    else
        snprintf(text, text_bytes, "%s now ends at %llu: it was cut while it was %s", leati_file_name(file),
                 (unsigned long long)offset, write ? "written" : "read");
}
