/*
 * bench_copy.h - declares what the parts of the group "copy" share, which measures copies between host and device.
 * The group "overlap" uses it for its bound.
 */
#ifndef CLI_BENCH_COPY_H
#define CLI_BENCH_COPY_H

#include "bench.h"
#include "bench_measure.h"

enum copy_direction { COPY_IN, COPY_OUT, COPY_BOTH, COPY_DIRECTION_COUNT };

/* The kind of memory on the host's side of a copy. */
enum copy_memory {
    COPY_PINNED,     /* leat_memory_alloc() */
    COPY_PAGEABLE,   /* pages of 4 KiB, touched before */
    COPY_HUGE,       /* huge pages, touched before */
    COPY_REGISTERED, /* leat_register() */
    COPY_FILE_WARM,  /* a file mapping whose file is in the page cache */
    COPY_FILE_COLD,  /* a file mapping whose pages are not in the page cache when a copy starts */
    COPY_FRESH,      /* pages that were not touched before the copy starts; only as destinations */
    COPY_MEMORY_COUNT
};

/* The texts of a kind of memory: its name for --memory, the end of the case's name, and the title of its table. */
struct copy_memory_text {
    const char *word;
    const char *label;
    const char *part;
};

extern const struct copy_memory_text copy_memory_texts[COPY_MEMORY_COUNT];

/* For each direction: the beginning of the case's name. */
extern const char *const copy_direction_texts[COPY_DIRECTION_COUNT];

/* The parts of the group, in the order of their names for --part. */
enum copy_part { COPY_SIZES, COPY_WORKERS, COPY_BESIDE, COPY_BATCH, COPY_RAILS, COPY_GAPS, COPY_PART_COUNT };

extern const char *const copy_part_words[COPY_PART_COUNT];

/* ---- bench_copy_memory.c: the host's side ---- */

struct copy_host {
    struct bench *bench;
    enum copy_memory memory;
    bool source; /* true: the source of copies to the device; false: the destination of copies from the device */
    char *ptr;
    size_t bytes;

    void *map;
    size_t map_bytes;
    int file;
    bool file_open, registered;
};

enum copy_host_state { COPY_HOST_FAILED, COPY_HOST_NONE, COPY_HOST_READY };

/*
 * Allocates memory of a kind and touches it. Returns COPY_HOST_NONE if this machine has no such memory, after
 * adding a note that says why, or COPY_HOST_FAILED with bench->error set. host can be passed to copy_host_free()
 * in any case, also if it is all zeros.
 */
enum copy_host_state copy_host_make(struct bench *bench, enum copy_memory memory, bool source, size_t bytes,
                                    struct copy_host *host);
void copy_host_free(struct copy_host *host);

/* Fills the memory with the pattern of a seed. */
bool copy_host_fill(struct copy_host *host, size_t bytes, uint64_t seed);

/* Prepares the memory for the next copy: evicts a cold file from the page cache, or replaces fresh pages. Does
 * nothing for other kinds. */
bool copy_host_prepare(struct copy_host *host, size_t bytes);

/* Releases the pool's idle memory, for the next kind of memory and for other groups. In bench_copy.c. */
void copy_trim(struct bench *bench, leat_kind kind);

/* ---- bench_copy_case.c: one copy ---- */

enum { COPY_CALLS_MAX = 2048 };

/* Further costs of the copies of one side (leat or driver), besides the time until they complete. */
struct copy_cost {
    double calls[COPY_CALLS_MAX]; /* duration of each call alone, in seconds */
    unsigned call_count;
    double cpu_seconds; /* processor time of the whole process, in seconds */
    unsigned cpu_copies;
    bool warm; /* true after the first copy, which does not count */
};

/* A case: one copy, or two copies at the same time, one in each direction. Each has bytes bytes. */
struct copy_case {
    struct bench *bench;
    enum copy_direction direction;
    bool pageable; /* the host's memory is pageable for the driver */
    size_t bytes;
    void *in_dst, *in_src;                /* copy in: device memory, host memory */
    void *out_dst, *out_src;              /* copy out: host memory, device memory */
    struct copy_host *in_host, *out_host; /* NULL: nothing needs to be prepared before a copy */
    bool driver_other;                    /* the driver's side uses the second way of copy_case_choose_call(),
                                           * which is faster here */
    struct copy_cost *costs;              /* indexed by side; NULL: only the time is measured */
};

/* Sets up a copy between the pinned buffers and the device buffers that all groups share. Returns false with
 * bench->error set. */
bool copy_case_share(struct copy_case *c, struct bench *bench, enum copy_direction direction, size_t bytes);

/* Issues the copy once and waits for its completion. *call_seconds receives the duration of the call alone;
 * call_seconds may be NULL. */
bool copy_case_run(struct copy_case *c, enum bench_side side, double *call_seconds);

/* Takes one sample of a copy: a bench_sample whose state is a struct copy_case. */
bool copy_case_sample(void *state, enum bench_side side, double *seconds);

/*
 * Finds the faster of two ways to copy pageable memory with the driver, and sets driver_other. The first way is
 * the driver's stream-ordered calls. The second way is, for one direction, the driver's synchronous call, and for
 * both directions, two threads, because each call blocks its thread.
 */
bool copy_case_choose_call(struct copy_case *c);

/* Measures and verifies the case and adds a row. If the case fails, reports the failure and adds no row. */
void copy_case_measure(struct copy_case *c, struct bench_rows *rows, const char *part, const char *name,
                       double budget_seconds, double bound);

/* ---- the group's other parts ---- */

/* Measures the sizes again with different numbers of leat's copy threads. Each number runs in a child process. */
void bench_copy_workers(struct bench *bench);

/* Measures how much longer a kernel takes while pageable memory is copied. */
void bench_copy_beside(struct bench *bench);

/* Measures thousands of small copies. */
void bench_copy_batch(struct bench *bench);

/* Measures copies from the host to one device over the links of several devices. */
void bench_copy_rails(struct bench *bench);

/* ---- the part "gaps": bench_copy_gaps.c ---- */

/* The ways to time copies, in the order of their names for --timing. */
enum gap_timing {
    GAP_DONE,  /* until the bytes are at the destination */
    GAP_SYNC,  /* the blocking call: until the source may change, or, for copies to the host, until the bytes are
                * at the destination */
    GAP_TURNS, /* timed as GAP_DONE, but copies of leat and of the driver alternate in one loop */
    GAP_FIRST, /* the first copy of a process */
    GAP_TIMING_COUNT
};

/* States of the host buffers: in the processor's caches (warm) or not (cold), in the order of the names for
 * --cache. */
enum gap_cache { GAP_WARM, GAP_COLD, GAP_CACHE_COUNT };

/* The number of directions that --direction can name: COPY_IN and COPY_OUT, but not both at once. */
enum { GAP_DIRECTION_COUNT = 2 };

extern const char *const gap_timing_words[GAP_TIMING_COUNT];
extern const char *const gap_cache_words[GAP_CACHE_COUNT];
extern const char *const gap_direction_words[GAP_DIRECTION_COUNT];

/* Measures pageable copies with idle gaps between them. */
void bench_copy_gaps(struct bench *bench);

/* ---- the first copy of a process: bench_copy_first.c ---- */

/* Measures copies of these sizes in child processes. Bit i of directions chooses direction i. */
void bench_copy_first(struct bench *bench, unsigned directions, const size_t *sizes, unsigned size_count);

/* Runs in the child process: makes the one copy that options->first and options->sizes[0] describe, and prints its
 * time in seconds as JSON. Returns the exit status. */
int bench_copy_first_child(const struct bench_options *options);

/* ---- bench_copy_picture.c ---- */

/* Draws the rates of a record's group "copy" over the size. Returns false after printing what is wrong. */
bool bench_copy_picture(const json_t *record, const char *path);

#endif
