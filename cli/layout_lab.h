/*
 * layout_lab.h - runs copies between layouts: allocates the memory, verifies the bytes, compares the time with a
 * plain copy on the device, and describes the result for the record.
 */
#ifndef CLI_LAYOUT_LAB_H
#define CLI_LAYOUT_LAB_H

#include "bench_measure.h"
#include "layout_case.h"

#include <jansson.h>

enum { LAYOUT_PLAN_MAX = 2048 };

/* Memory of one kind that consecutive cases reuse. */
struct layout_arena {
    leat_kind kind;
    char *ptr;
    size_t bytes;
};

/* The environment of cases: a device, and memory of one kind for each side of the copy. */
struct layout_lab {
    struct bench *bench;
    struct layout_arena src, dst, list;
    struct layout_arena wanted, found; /* host memory for the expected and for the copied destination */
    size_t cold_bytes;                 /* total size of the buffers that copies use in turns, so that caches do not
                                        * help */
    leat_event *begin, *end;           /* events that time copies; NULL: use the host's clock */
};

/* The result of a case. */
struct layout_result {
    bool verified;
    struct bench_result times; /* leat: times of the case; driver: times of the plain copy or the empty kernel */
    double counted_bytes;      /* the bytes that rates count: the payload, twice if the device both reads and
                                * writes it */
    unsigned buffers;          /* number of pairs of buffers that were timed */
    leat_layout_plan_info info;
    char plan[LAYOUT_PLAN_MAX];
};

/* A function that makes the copy without leat_copy_layout(). Returns false with bench->error set. */
typedef bool (*layout_mover)(void *state, const struct layout_case *made, char *dst, const char *src);

/* The options of a run: how long to measure a case, and how much to verify. */
struct layout_effort {
    double seconds;     /* time for the samples of the case; 0: do not measure it */
    bool verify_all;    /* verify every buffer that was timed, not only the first */
    bool calls;         /* time single copies from the call to the completion, and compare with the launch of an
                         * empty kernel instead of a plain copy */
    layout_mover mover; /* function that makes the copy; NULL: leat_copy_layout() */
    void *state;
};

/* Makes a lab on the bench's device. Returns false with bench->error set. Call layout_lab_close() in both
 * cases. */
bool layout_lab_open(struct layout_lab *lab, struct bench *bench, leat_kind src, leat_kind dst);
void layout_lab_close(struct layout_lab *lab);

/* Runs a case: makes its plan, verifies the bytes, measures the time. Returns false with bench->error set if a
 * call failed. If only the bytes are wrong, it returns true and sets result->verified to false. */
bool layout_lab_run(struct layout_lab *lab, struct layout_case *made, const struct layout_effort *effort,
                    struct layout_result *result);

/* Return rates in GB/s: of the case, of plain copies of as many bytes, and of the bound. The bound is derived from
 * the rate of plain copies. It is NAN if the case was faster: then it is not valid, because caches held the bytes,
 * or because reading is faster than writing. */
double layout_rate(const struct layout_result *result);
double layout_copy_rate(const struct layout_result *result);
double layout_bound_rate(const struct layout_result *result);

/* Adds keys that describe the case to a row. The scripts in bench/peers/ read them. Returns false if memory is
 * short. */
bool layout_describe(json_t *row, const struct layout_case *made, const struct layout_result *result);

/* Sets the key "kernel" of a row to the kernel that the plan names. */
bool layout_set_kernel(json_t *row, const char *plan);

#endif
