/*
 * layout_lab.h - runs copies between layouts: allocates the memory, verifies the bytes, measures beside a plain
 * copy of the device, and describes the result for the record.
 */
#ifndef CLI_LAYOUT_LAB_H
#define CLI_LAYOUT_LAB_H

#include "bench_measure.h"
#include "layout_case.h"

#include <jansson.h>

enum { LAYOUT_PLAN_MAX = 2048 };

/* Memory of one kind, which one case after the other uses. */
struct layout_arena {
    leat_kind kind;
    char *ptr;
    size_t bytes;
};

/* What cases need to run: a device, and memory of one kind for each side of the copy. */
struct layout_lab {
    struct bench *bench;
    struct layout_arena src, dst, list;
    struct layout_arena wanted, found; /* host memory for a destination as expected, and as found */
    size_t cold_bytes;                 /* total size of the buffers that copies use in turns, so that caches do not
                                        * help */
    leat_event *begin, *end;           /* NULL: the host's clock is used */
};

/* The result of a case. */
struct layout_result {
    bool verified;
    struct bench_result times; /* times of leat and, as "driver", of what it is compared with */
    double counted_bytes;      /* the bytes that rates count: the payload, twice if the device both reads and
                                * writes it */
    unsigned buffers;          /* number of pairs of buffers that were timed */
    leat_layout_plan_info info;
    char plan[LAYOUT_PLAN_MAX];
};

/* Makes the copy with other means than leat_copy_layout(). Returns false with bench->error set. */
typedef bool (*layout_mover)(void *state, const struct layout_case *made, char *dst, const char *src);

/* How thoroughly and for how long a case is measured. */
struct layout_effort {
    double seconds;     /* how long the case is timed; 0: not at all */
    bool verify_all;    /* verify every buffer that was timed, not only the first */
    bool calls;         /* time single copies from the call to the completion, and compare with the launch of an
                         * empty kernel instead of a plain copy */
    layout_mover mover; /* NULL: leat_copy_layout() */
    void *state;
};

/* Makes a lab on the bench's device. Returns false with bench->error set. Call layout_lab_close() in both
 * cases. */
bool layout_lab_open(struct layout_lab *lab, struct bench *bench, leat_kind src, leat_kind dst);
void layout_lab_close(struct layout_lab *lab);

/* Runs a case: makes its plan, verifies the bytes, measures the time. Returns false with bench->error set if a
 * call failed. Wrong bytes are no failure of the run: result->verified is false then. */
bool layout_lab_run(struct layout_lab *lab, struct layout_case *made, const struct layout_effort *effort,
                    struct layout_result *result);

/* Return rates in GB/s: of the case, of plain copies of as many bytes, and of the bound. The bound is NAN if the
 * case was faster than it: then the rate of a copy is no bound, because caches held the bytes, or because reading
 * is faster than writing. */
double layout_rate(const struct layout_result *result);
double layout_copy_rate(const struct layout_result *result);
double layout_bound_rate(const struct layout_result *result);

/* Adds keys that describe the case to a row. The scripts in bench/peers/ read them. Returns false if memory is
 * short. */
bool layout_describe(json_t *row, const struct layout_case *made, const struct layout_result *result);

/* Sets the key "kernel" of a row to the kernel that the plan names. */
bool layout_set_kernel(json_t *row, const char *plan);

#endif
