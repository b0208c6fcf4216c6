/*
 * layout_lab.h - copies between layouts, run: the memory for them, whether they are right, how fast they are
 * beside the device's plain copy, and what the record says of them.
 */
#ifndef CLI_LAYOUT_LAB_H
#define CLI_LAYOUT_LAB_H

#include "bench_measure.h"
#include "layout_case.h"

#include <jansson.h>

enum { LAYOUT_PLAN_MAX = 2048 };

/* Memory of one kind that cases use one after the other. */
struct layout_arena {
    leat_kind kind;
    char *ptr;
    size_t bytes;
};

/* Where cases run: one device, a kind of memory for each side. */
struct layout_lab {
    struct bench *bench;
    struct layout_arena src, dst, list;
    struct layout_arena wanted, found; /* on the host: a destination as it must be, and as it is */
    size_t cold_bytes;                 /* what copies go through in turns, so that no cache helps */
    leat_event *begin, *end;           /* NULL: the host's clock is used */
};

/* What a case came to. */
struct layout_result {
    bool verified;
    struct bench_result times; /* leat's and, as "driver", those of what it is compared with */
    double counted_bytes;      /* what the rates count: the payload, twice where it is read and written there */
    unsigned buffers;          /* pairs of them that the timing went through */
    leat_layout_plan_info info;
    char plan[LAYOUT_PLAN_MAX];
};

/* Makes the copy in another way than by leat_copy_layout(). False: bench->error. */
typedef bool (*layout_mover)(void *state, const struct layout_case *made, char *dst, const char *src);

/* How thoroughly, and for how long. */
struct layout_effort {
    double seconds;     /* of timing; 0: none */
    bool verify_all;    /* every buffer that was timed, not only the first */
    bool calls;         /* single copies from the call to their completion, beside the launch of a kernel that does
                         * nothing instead of beside a plain copy */
    layout_mover mover; /* NULL: leat_copy_layout() */
    void *state;
};

/* Makes a lab on the bench's device. False: bench->error. layout_lab_close() is needed in both cases. */
bool layout_lab_open(struct layout_lab *lab, struct bench *bench, leat_kind src, leat_kind dst);
void layout_lab_close(struct layout_lab *lab);

/* Runs a case: the plan, the bytes, the time. False: bench->error says what failed; bytes that are wrong are no
 * failure of the run. */
bool layout_lab_run(struct layout_lab *lab, struct layout_case *made, const struct layout_effort *effort,
                    struct layout_result *result);

/* GB/s that the case reached, that plain copies of its bytes reach, and that its bound allows. The bound is NAN if the
 * case was faster: the copy's rate bounds nothing then, because caches held the bytes of the one or reading is faster
 * than writing. */
double layout_rate(const struct layout_result *result);
double layout_copy_rate(const struct layout_result *result);
double layout_bound_rate(const struct layout_result *result);

/* What the case is, as keys of a row; false when memory is short. Other programs read them (bench/peers/). */
bool layout_describe(json_t *row, const struct layout_case *made, const struct layout_result *result);

/* Sets "kernel" to what the plan says of it. */
bool layout_set_kernel(json_t *row, const char *plan);

#endif
