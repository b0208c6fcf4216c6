/*
 * bench_copy.h - copies over the link: what the parts of the group "copy" share, and what the group "overlap"
 * takes its bound from.
 */
#ifndef CLI_BENCH_COPY_H
#define CLI_BENCH_COPY_H

#include "bench.h"
#include "bench_measure.h"

enum copy_direction { COPY_IN, COPY_OUT, COPY_BOTH, COPY_DIRECTION_COUNT };

/* What the host's side of a copy is. */
enum copy_memory {
    COPY_PINNED,     /* leat_memory_alloc() */
    COPY_PAGEABLE,   /* pages of 4 KiB, touched before */
    COPY_HUGE,       /* huge pages, touched before */
    COPY_REGISTERED, /* leat_register() */
    COPY_FILE_WARM,  /* a file mapping whose file is in the page cache */
    COPY_FILE_COLD,  /* a file mapping whose file is on the disk, at the start of each copy */
    COPY_FRESH,      /* pages that nobody has touched yet, at the start of each copy; a target only */
    COPY_MEMORY_COUNT
};

/* By copy_memory: the word of --memory, what a case's name ends in, and the name of the table. */
struct copy_memory_text {
    const char *word;
    const char *label;
    const char *part;
};

extern const struct copy_memory_text copy_memory_texts[COPY_MEMORY_COUNT];

/* By copy_direction: what a case's name begins with. */
extern const char *const copy_direction_texts[COPY_DIRECTION_COUNT];

/* The parts of the group, and the words of --part. */
enum copy_part { COPY_SIZES, COPY_WORKERS, COPY_BESIDE, COPY_BATCH, COPY_RAILS, COPY_GAPS, COPY_PART_COUNT };

extern const char *const copy_part_words[COPY_PART_COUNT];

/* ---- bench_copy_memory.c: the host's side ---- */

struct copy_host {
    struct bench *bench;
    enum copy_memory memory;
    bool source; /* of copies to the device; else a target */
    char *ptr;
    size_t bytes;

    void *map;
    size_t map_bytes;
    int file;
    bool file_open, registered;
};

enum copy_host_state { COPY_HOST_FAILED, COPY_HOST_NONE, COPY_HOST_READY };

/*
 * Gets memory of a kind and touches it. COPY_HOST_NONE: this machine has no such memory, and a note says why.
 * COPY_HOST_FAILED: bench->error says what failed. host can be given to copy_host_free() in any case, also when it
 * is all zeros.
 */
enum copy_host_state copy_host_make(struct bench *bench, enum copy_memory memory, bool source, size_t bytes,
                                    struct copy_host *host);
void copy_host_free(struct copy_host *host);

/* Writes the pattern of a seed. */
bool copy_host_fill(struct copy_host *host, size_t bytes, uint64_t seed);

/* What has to be undone of the copy before, for cold files and fresh pages. Nothing for other kinds. */
bool copy_host_prepare(struct copy_host *host, size_t bytes);

/* Releases the pool's idle memory, for the next kind of memory and for other groups. In bench_copy.c. */
void copy_trim(struct bench *bench, leat_kind kind);

/* ---- bench_copy_case.c: one copy ---- */

enum { COPY_CALLS_MAX = 2048 };

/* What the samples of one side cost, beside the time until the end. */
struct copy_cost {
    double calls[COPY_CALLS_MAX]; /* seconds that the calls alone took */
    unsigned call_count;
    double cpu_seconds; /* of the whole process */
    unsigned cpu_copies;
    bool warm; /* the first copy, which does not count, is done */
};

/* One copy, or one in each direction at once, of bytes bytes each. */
struct copy_case {
    struct bench *bench;
    enum copy_direction direction;
    bool pageable; /* to the driver */
    size_t bytes;
    void *in_dst, *in_src;                /* device, host */
    void *out_dst, *out_src;              /* host, device */
    struct copy_host *in_host, *out_host; /* NULL: nothing has to be done before a copy */
    bool driver_other;                    /* the driver is faster in its other way */
    struct copy_cost *costs;              /* by side; NULL: nobody asks */
};

/* A copy between the pinned buffers and the device buffers that all groups share. False with bench->error set. */
bool copy_case_share(struct copy_case *c, struct bench *bench, enum copy_direction direction, size_t bytes);

/* Makes the copy once, from the issue to the completion. call_seconds may be NULL. */
bool copy_case_run(struct copy_case *c, enum bench_side side, double *call_seconds);

/* A bench_sample for a struct copy_case. */
bool copy_case_sample(void *state, enum bench_side side, double *seconds);

/*
 * Finds out in which of two ways the driver is faster with pageable memory: by its calls in stream order, or, in
 * one direction, by the call that waits, and in both, by two threads, since its calls hold their caller up.
 */
bool copy_case_choose_call(struct copy_case *c);

/* Measures, verifies and adds a row. A failure is complained about, and the row is left out. */
void copy_case_measure(struct copy_case *c, struct bench_rows *rows, const char *part, const char *name,
                       double budget_seconds, double bound);

/* ---- the group's other parts ---- */

/* The sweep of sizes again, by processes of their own, for different numbers of leat's copying threads. */
void bench_copy_workers(struct bench *bench);

/* How much longer a kernel takes while pageable memory is copied. */
void bench_copy_beside(struct bench *bench);

/* Thousands of small copies. */
void bench_copy_batch(struct bench *bench);

/* One device filled over the links of several. */
void bench_copy_rails(struct bench *bench);

/* ---- the part "gaps": bench_copy_gaps.c ---- */

/* How copies are timed. The order is that of the words of --timing. */
enum gap_timing {
    GAP_DONE,  /* until the bytes are at their place */
    GAP_SYNC,  /* the plain call: until the source may change or the host has the bytes */
    GAP_TURNS, /* as GAP_DONE, but leat's and the driver's copies in turns in one loop */
    GAP_FIRST, /* the first copy of a process */
    GAP_TIMING_COUNT
};

/* Whether host buffers are in the processor's caches. The order is that of the words of --cache. */
enum gap_cache { GAP_WARM, GAP_COLD, GAP_CACHE_COUNT };

/* Words of --direction: COPY_IN and COPY_OUT. */
enum { GAP_DIRECTION_COUNT = 2 };

extern const char *const gap_timing_words[GAP_TIMING_COUNT];
extern const char *const gap_cache_words[GAP_CACHE_COUNT];
extern const char *const gap_direction_words[GAP_DIRECTION_COUNT];

/* Measures pageable copies with idle gaps between them. */
void bench_copy_gaps(struct bench *bench);

/* ---- the first copy of a process: bench_copy_first.c ---- */

/* Measures these sizes in child processes. Bit i of directions is direction i. */
void bench_copy_first(struct bench *bench, unsigned directions, const size_t *sizes, unsigned size_count);

/* The child process: makes the copy that options->first and the only size describe, and prints its seconds as
 * JSON. Returns the exit status. */
int bench_copy_first_child(const struct bench_options *options);

/* ---- bench_copy_picture.c ---- */

/* Draws the rates of a record's group "copy" over the size. False after saying what is wrong. */
bool bench_copy_picture(const json_t *record, const char *path);

#endif
