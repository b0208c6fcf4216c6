/*
 * bad_disk.h - lets system calls about files fail, or move fewer bytes than requested, as a bad or full disk or an
 * old system would.
 *
 * A test program is linked with bad_disk.o and calls these functions, which also works under the sanitizers. Any
 * other program can use bad_disk.so with LD_PRELOAD and BAD_DISK (see bad_disk.c). Numbers of calls start at 1.
 */
#ifndef BAD_DISK_H
#define BAD_DISK_H

#include <stdint.h>

/* The kinds of calls. The flags of open() and openat() decide their kind, and the flags of the descriptor that of
 * preadv() and pwritev(). */
enum bad_disk_call {
    BAD_DISK_OPEN,
    BAD_DISK_OPEN_DIRECT,  /* O_DIRECT */
    BAD_DISK_OPEN_TMPFILE, /* O_TMPFILE */
    BAD_DISK_STAT,         /* fstat() */
    BAD_DISK_STATX,
    BAD_DISK_TRUNCATE, /* ftruncate() */
    BAD_DISK_READ,     /* preadv() through the system's cache */
    BAD_DISK_READ_DIRECT,
    BAD_DISK_WRITE, /* pwritev() through the system's cache */
    BAD_DISK_WRITE_DIRECT,
    BAD_DISK_NOWAIT,    /* preadv2() with RWF_NOWAIT */
    BAD_DISK_CACHESTAT, /* syscall() with the number of cachestat() */
    BAD_DISK_SYNC,      /* fsync() */
    BAD_DISK_LINK,      /* linkat() */
    BAD_DISK_RENAME,    /* renameat() */
    BAD_DISK_RENAME_KEEP, /* renameat2() */
    BAD_DISK_CALLS
};

struct bad_disk_rule {
    enum bad_disk_call call;
    uint64_t first; /* number of the first call that the rule is for */
    uint64_t every; /* distance to the next call that it is for; 0: only the first */
    int error;      /* errno with which the call fails; 0: it moves at most most_bytes */
    uint64_t most_bytes;
    uint64_t delay_us; /* the call sleeps first; if error and most_bytes are 0, it then works normally */
};

/* Replaces all rules and resets the counts to 0. */
void bad_disk_set(const struct bad_disk_rule *rules, unsigned count);

/* Removes all rules; the counts stay. Returns how many calls a rule made fail or move fewer bytes. */
uint64_t bad_disk_end(void);

/* Return how many calls of a kind there were since bad_disk_set(), and how many bytes they requested. */
uint64_t bad_disk_count(enum bad_disk_call call);
uint64_t bad_disk_asked(enum bad_disk_call call);

/* Sets a function that is called before each preadv() and pwritev() with the offset in the file, or NULL for
 * none. If it returns a value of errno, the call fails with it. If it returns -1, the call moves nothing and
 * returns 0. */
void bad_disk_set_hook(int (*hook)(enum bad_disk_call call, uint64_t offset));

#endif
