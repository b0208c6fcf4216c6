/*
 * bad_disk.c - see bad_disk.h. Defines again the system calls about files that src/copy/file*.c make, in the
 * program or in a library for LD_PRELOAD. Each first looks for a rule, and then calls the function that the
 * program would have called without this file.
 *
 * The library bad_disk.so takes the rules from the variable BAD_DISK, where commas separate them:
 * CALL=WHAT[@FIRST[+EVERY]]. CALL is a name of the table below, WHAT the name of an error or the most bytes that a
 * call moves, FIRST the number of the first call that the rule is for, EVERY the distance to the next one. Without
 * @FIRST the rule is for all calls. For example
 *
 *     BAD_DISK=cachestat=ENOSYS,read=1000,read=EINTR@3+5
 */
#include "bad_disk.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

enum { RULES_MOST = 16, PARTS_MOST = 1024, CACHESTAT_NUMBER = 451 };

#define EXPORTED __attribute__((visibility("default")))

static const char *const call_names[BAD_DISK_CALLS] = {
    "open",  "open-direct",  "open-tmpfile", "stat",      "statx", "truncate", "read",  "read-direct",
    "write", "write-direct", "nowait",       "cachestat", "fsync", "link",     "rename",
    "rename-keep"};

static const struct {
    const char *name;
    int error;
} error_names[] = {{"EIO", EIO},       {"ENOSPC", ENOSPC}, {"EINTR", EINTR},          {"EAGAIN", EAGAIN},
                   {"ENOSYS", ENOSYS}, {"EPERM", EPERM},   {"EMFILE", EMFILE},        {"EINVAL", EINVAL},
                   {"EACCES", EACCES}, {"EDQUOT", EDQUOT}, {"EOPNOTSUPP", EOPNOTSUPP}};

/* Spin lock that protects rules and rule_count. It is no mutex, because jitter.c would delay the threads at a
 * mutex, and a look-up takes only nanoseconds. */
static atomic_flag locked = ATOMIC_FLAG_INIT;
static struct bad_disk_rule rules[RULES_MOST];
static unsigned rule_count;
static atomic_bool has_rules, has_read_environment;
static _Atomic uint64_t counts[BAD_DISK_CALLS], asked[BAD_DISK_CALLS], fired;
static int (*_Atomic the_hook)(enum bad_disk_call call, uint64_t offset);

static void lock(void)
{
    while (atomic_flag_test_and_set_explicit(&locked, memory_order_acquire))
        continue;
}

static void unlock(void)
{
    atomic_flag_clear_explicit(&locked, memory_order_release);
}

/* ---- functions for the test ---- */

EXPORTED void bad_disk_set(const struct bad_disk_rule *list, unsigned count)
{
    lock();
    rule_count = count < RULES_MOST ? count : RULES_MOST;
    if (rule_count)
        memcpy(rules, list, rule_count * sizeof *rules);
    for (int i = 0; i < BAD_DISK_CALLS; i++) {
        atomic_store(&counts[i], 0);
        atomic_store(&asked[i], 0);
    }
    atomic_store(&fired, 0);
    unlock();
    atomic_store(&has_rules, rule_count > 0);
}

EXPORTED uint64_t bad_disk_end(void)
{
    atomic_store(&has_rules, false);
    lock();
    rule_count = 0;
    unlock();
    return atomic_load(&fired);
}

EXPORTED uint64_t bad_disk_count(enum bad_disk_call call)
{
    return atomic_load(&counts[call]);
}

EXPORTED uint64_t bad_disk_asked(enum bad_disk_call call)
{
    return atomic_load(&asked[call]);
}

EXPORTED void bad_disk_set_hook(int (*hook)(enum bad_disk_call call, uint64_t offset))
{
    atomic_store(&the_hook, hook);
}

/* ---- rules in the variable BAD_DISK ---- */

/* Returns true if text consists of this name, up to its end or to "@". */
static bool is_name(const char *text, const char *name)
{
    size_t length = strlen(name);

    return !strncmp(text, name, length) && (!text[length] || text[length] == '@');
}

/* Parses one rule. Returns false if the text is no rule. */
static bool read_rule(const char *text, struct bad_disk_rule *rule)
{
    const char *what = strchr(text, '='), *at = strchr(text, '@');
    int call = 0;

    *rule = (struct bad_disk_rule){.first = 1, .every = 1};
    while (call < BAD_DISK_CALLS && (strlen(call_names[call]) != (size_t)(what ? what - text : 0) ||
                                     strncmp(text, call_names[call], strlen(call_names[call])) != 0))
        call++;
    if (call == BAD_DISK_CALLS)
        return false;
    rule->call = (enum bad_disk_call)call;
    what++;
    for (size_t i = 0; i < sizeof error_names / sizeof error_names[0]; i++)
        if (is_name(what, error_names[i].name))
            rule->error = error_names[i].error;
    if (!rule->error)
        rule->most_bytes = strtoull(what, NULL, 10);
    if (at) {
        const char *plus = strchr(at, '+');

        rule->first = strtoull(at + 1, NULL, 10);
        rule->every = plus ? strtoull(plus + 1, NULL, 10) : 0;
    }
    return (rule->error || rule->most_bytes) && rule->first;
}

static void read_environment(void)
{
    const char *text = getenv("BAD_DISK");
    struct bad_disk_rule list[RULES_MOST];
    char *copy, *rest = NULL;
    unsigned count = 0;

    if (!text || atomic_exchange(&has_read_environment, true))
        return;
    copy = strdup(text);
    for (char *one = copy ? strtok_r(copy, ",", &rest) : NULL; one; one = strtok_r(NULL, ",", &rest))
        if (count == RULES_MOST || !read_rule(one, &list[count++])) {
            fprintf(stderr, "bad_disk: BAD_DISK: \"%s\" is no rule, or is one too many\n", one);
            abort();
        }
    free(copy);
    bad_disk_set(list, count);
}

/* Runs before main(), when the process has only one thread. */
__attribute__((constructor)) static void begin(void)
{
    read_environment();
}

/* ---- rules ---- */

static bool applies(const struct bad_disk_rule *rule, enum bad_disk_call call, uint64_t number)
{
    if (rule->call != call || number < rule->first)
        return false;
    return rule->every ? (number - rule->first) % rule->every == 0 : number == rule->first;
}

static void sleep_us(uint64_t us)
{
    struct timespec time = {(time_t)(us / 1000000), (long)(us % 1000000) * 1000};

    if (us)
        nanosleep(&time, NULL);
}

/* Counts a call and looks for its rules. Returns 0, or the errno with which the call must fail. *most returns how
 * many bytes it may move. */
static int look(enum bad_disk_call call, uint64_t bytes, uint64_t *most)
{
    uint64_t number = atomic_fetch_add(&counts[call], 1) + 1, delay_us = 0;
    bool found = false;
    int error = 0;

    atomic_fetch_add(&asked[call], bytes);
    *most = bytes;
    if (!atomic_load(&has_rules))
        return 0;
    lock();
    for (unsigned i = 0; i < rule_count; i++) {
        const struct bad_disk_rule *rule = &rules[i];

        if (!applies(rule, call, number))
            continue;
        delay_us += rule->delay_us;
        error = error ? error : rule->error;
        if (!rule->error && rule->most_bytes && rule->most_bytes < *most)
            *most = rule->most_bytes;
        found = found || rule->error || rule->most_bytes;
    }
    unlock();
    if (found)
        atomic_fetch_add(&fired, 1);
    sleep_us(delay_us);
    return error;
}

/* Returns true and sets errno if a rule makes the call fail. */
static bool fails(enum bad_disk_call call)
{
    uint64_t most;
    int error = look(call, 0, &most);

    if (error)
        errno = error;
    return error;
}

/* ---- the replaced calls ---- */

/* Defines real_NAME(), which returns the function NAME that the program would have called without this file. */
#define REAL(name)                                                                                                \
    static __typeof__(name) *real_##name(void)                                                                    \
    {                                                                                                             \
        static __typeof__(name) *_Atomic kept;                                                                    \
        __typeof__(name) *found = atomic_load_explicit(&kept, memory_order_relaxed);                              \
                                                                                                                  \
        if (!found) {                                                                                             \
            *(void **)&found = dlsym(RTLD_NEXT, #name);                                                           \
            atomic_store_explicit(&kept, found, memory_order_relaxed);                                            \
        }                                                                                                         \
        return found;                                                                                             \
    }

REAL(open)
REAL(openat)
REAL(fstat)
REAL(statx)
REAL(ftruncate)
REAL(preadv)
REAL(pwritev)
REAL(preadv2)
REAL(syscall)
REAL(fsync)
REAL(linkat)
REAL(renameat)
REAL(renameat2)

static enum bad_disk_call open_call(int flags)
{
    if (flags & O_DIRECT)
        return BAD_DISK_OPEN_DIRECT;
    return (flags & O_TMPFILE) == O_TMPFILE ? BAD_DISK_OPEN_TMPFILE : BAD_DISK_OPEN;
}

/* Returns the mode, which open() and openat() have only with some flags; otherwise 0. */
static mode_t mode_of(int flags, va_list arguments)
{
    return flags & O_CREAT || (flags & O_TMPFILE) == O_TMPFILE ? va_arg(arguments, mode_t) : 0;
}

EXPORTED int open(const char *path, int flags, ...)
{
    va_list arguments;
    mode_t mode;

    va_start(arguments, flags);
    mode = mode_of(flags, arguments);
    va_end(arguments);
    return fails(open_call(flags)) ? -1 : real_open()(path, flags, mode);
}

EXPORTED int openat(int folder, const char *path, int flags, ...)
{
    va_list arguments;
    mode_t mode;

    va_start(arguments, flags);
    mode = mode_of(flags, arguments);
    va_end(arguments);
    return fails(open_call(flags)) ? -1 : real_openat()(folder, path, flags, mode);
}

EXPORTED int fstat(int file, struct stat *what)
{
    return fails(BAD_DISK_STAT) ? -1 : real_fstat()(file, what);
}

EXPORTED int statx(int folder, const char *restrict path, int flags, unsigned mask, struct statx *restrict what)
{
    return fails(BAD_DISK_STATX) ? -1 : real_statx()(folder, path, flags, mask, what);
}

EXPORTED int ftruncate(int file, off_t bytes)
{
    return fails(BAD_DISK_TRUNCATE) ? -1 : real_ftruncate()(file, bytes);
}

EXPORTED int fsync(int file)
{
    return fails(BAD_DISK_SYNC) ? -1 : real_fsync()(file);
}

EXPORTED int linkat(int from_folder, const char *from, int to_folder, const char *to, int flags)
{
    return fails(BAD_DISK_LINK) ? -1 : real_linkat()(from_folder, from, to_folder, to, flags);
}

EXPORTED int renameat(int from_folder, const char *from, int to_folder, const char *to)
{
    return fails(BAD_DISK_RENAME) ? -1 : real_renameat()(from_folder, from, to_folder, to);
}

EXPORTED int renameat2(int from_folder, const char *from, int to_folder, const char *to, unsigned flags)
{
    return fails(BAD_DISK_RENAME_KEEP) ? -1 : real_renameat2()(from_folder, from, to_folder, to, flags);
}

/* Takes six arguments, as the C library's function does, also where the caller has passed fewer; those that the
 * system call does not have are never used. */
EXPORTED __attribute__((no_sanitize("address"))) long syscall(long number, ...)
{
    va_list arguments;
    long values[6];

    va_start(arguments, number);
    for (int i = 0; i < 6; i++)
        values[i] = va_arg(arguments, long);
    va_end(arguments);
    if (number == CACHESTAT_NUMBER && fails(BAD_DISK_CACHESTAT))
        return -1;
    return real_syscall()(number, values[0], values[1], values[2], values[3], values[4], values[5]);
}

static bool is_direct(int file)
{
    int flags = fcntl(file, F_GETFL);

    return flags != -1 && flags & O_DIRECT;
}

static uint64_t total(const struct iovec *parts, int count)
{
    uint64_t bytes = 0;

    for (int i = 0; i < count; i++)
        bytes += parts[i].iov_len;
    return bytes;
}

/* Writes to some only as many parts as this number of bytes needs, and shortens the last one. Returns the number
 * of parts. */
static int shorten(struct iovec *some, const struct iovec *parts, int count, uint64_t bytes)
{
    int used = 0;

    while (used < count && used < PARTS_MOST && bytes) {
        some[used] = parts[used];
        if (some[used].iov_len > bytes)
            some[used].iov_len = (size_t)bytes;
        bytes -= some[used].iov_len;
        used++;
    }
    return used;
}

/* Reads or writes under the rules. flags: those of preadv2(), or -1 for preadv() and pwritev(). */
static ssize_t move(int file, const struct iovec *parts, int count, off_t offset, bool write, int flags)
{
    int (*hook)(enum bad_disk_call call, uint64_t offset) = atomic_load(&the_hook);
    enum bad_disk_call call = write ? BAD_DISK_WRITE : BAD_DISK_READ;
    uint64_t bytes = total(parts, count), most;
    struct iovec some[PARTS_MOST];
    int error;

    if (flags >= 0)
        call = BAD_DISK_NOWAIT;
    else if (is_direct(file))
        call = write ? BAD_DISK_WRITE_DIRECT : BAD_DISK_READ_DIRECT;
    error = look(call, bytes, &most);
    if (!error && hook)
        error = hook(call, (uint64_t)offset);
    if (error) {
        errno = error > 0 ? error : 0;
        return error > 0 ? -1 : 0;
    }
    /* Direct access moves only whole sectors, so round up to the next sector. */
    if (most < bytes && (call == BAD_DISK_READ_DIRECT || call == BAD_DISK_WRITE_DIRECT))
        most = (most + 511) / 512 * 512;
    if (most < bytes) {
        count = shorten(some, parts, count, most);
        parts = some;
    }
    if (flags >= 0)
        return real_preadv2()(file, parts, count, offset, flags);
    return write ? real_pwritev()(file, parts, count, offset) : real_preadv()(file, parts, count, offset);
}

EXPORTED ssize_t preadv(int file, const struct iovec *parts, int count, off_t offset)
{
    return move(file, parts, count, offset, false, -1);
}

EXPORTED ssize_t pwritev(int file, const struct iovec *parts, int count, off_t offset)
{
    return move(file, parts, count, offset, true, -1);
}

EXPORTED ssize_t preadv2(int file, const struct iovec *parts, int count, off_t offset, int flags)
{
    return move(file, parts, count, offset, false, flags);
}
