/*
 * bad_disk.h - lets system calls about files fail, or move fewer bytes than asked, as a bad or full disk or an old
 * system would.
 *
 * A test program that is linked with bad_disk.o calls these functions; that works under the sanitizers too. Any
 * other program takes bad_disk.so by LD_PRELOAD and BAD_DISK, see bad_disk.c. The call numbers count from 1.
 */
#ifndef BAD_DISK_H
#define BAD_DISK_H

#include <stdint.h>

/* The kinds of calls. Those of open() and openat() are told apart by their flags, preadv() by the descriptor's. */
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
    BAD_DISK_CACHESTAT, /* syscall() with its number */
    BAD_DISK_SYNC,      /* fsync() */
    BAD_DISK_LINK,      /* linkat() */
    BAD_DISK_RENAME,    /* renameat() */
    BAD_DISK_CALLS
};

struct bad_disk_rule {
    enum bad_disk_call call;
    uint64_t first; /* the number of the first call that the rule is for */
    uint64_t every; /* the distance to the next one; 0: there is no next one */
    int error;      /* the call fails with this value of errno; 0: it moves at most most_bytes */
    uint64_t most_bytes;
    uint64_t delay_us; /* the call sleeps first; with error and most_bytes 0 it then does what it should */
};

/* Replaces all rules, and starts to count anew. */
void bad_disk_set(const struct bad_disk_rule *rules, unsigned count);

/* Removes all rules; the counts stay. Returns how many calls have failed or moved fewer bytes by a rule. */
uint64_t bad_disk_end(void);

/* How many calls of a kind there were since bad_disk_set(), and how many bytes they asked for. */
uint64_t bad_disk_count(enum bad_disk_call call);
uint64_t bad_disk_asked(enum bad_disk_call call);

/* Called before each preadv() and pwritev(), with its place in the file; NULL: nothing is. If it returns a value
 * of errno, the call fails with it; if it returns -1, the call moves nothing and returns 0. */
void bad_disk_set_hook(int (*hook)(enum bad_disk_call call, uint64_t offset));

#endif
