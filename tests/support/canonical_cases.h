/*
 * canonical_cases.h - random forms of copies, and the plain loop that says what each means: for the tests of the
 * kernels that processors and GPUs copy layouts with. Which forms there are is for each test to say.
 *
 * A run prints its seed, by which it can be had again: --seed N, and with how many forms: --forms N.
 */
#ifndef CANONICAL_CASES_H
#define CANONICAL_CASES_H

#include "layouts.h"

#include "layout/canonical.h"

extern uint64_t cases_seed;
extern unsigned cases_count;

/* Reads the arguments and prints what the run begins with; count: of forms, when none is given. */
void cases_begin(int argc, char **argv, const char *program, unsigned count);

/* ---- chance ---- */

extern uint64_t cases_random;

/* Each form of a seed can be drawn by itself. */
void cases_draw_from(uint64_t number);

static inline uint64_t chance(uint64_t below)
{
    return layouts_random(&cases_random, below);
}

/* ---- memory ---- */

/* For either side and for what the judge writes: bytes between pages that cannot be touched. */
struct cases_rooms {
    size_t bytes;
    char *dst, *src, *wanted;
};
struct cases_rooms cases_make_rooms(size_t bytes);

/* ---- drawing, in this order ---- */

uint64_t cases_size(void);

/* One more dimension; false, and none, when that makes more units than most_units. */
bool cases_add_dim(struct leati_canonical *canonical, uint64_t size, uint64_t most_units);

/* Gives a dimension a list. distinct: a scatter's indices can all be different. */
void cases_add_list(struct leati_canonical *canonical, bool distinct);

void cases_shuffle(unsigned *order, unsigned count);

/* Strides that lay the dimensions out in this order on one side, with gaps now and then. */
void cases_lay_out(struct leati_canonical *canonical, bool on_dst, const unsigned *order, bool gaps);

/* Has some dimensions of the source read backwards, or one place of them again and again, and fills in what
 * follows from the rest. False when the form came out too large for its units or its rooms. */
bool cases_finish(struct leati_canonical *canonical, uint64_t most_units, size_t room_bytes);

/* Indices, some of which are wrong; the caller frees them. */
void *cases_make_list(const struct leati_canonical *canonical, bool distinct, uint64_t *wrong);

/* ---- judging ---- */

/* Copies by a plain loop, with a division for each dimension of each unit. Of equal indices the last one counts.
 */
void cases_judge(const struct leati_canonical *canonical, char *dst, const char *src, const void *list);

/* Prints a form, and the words of who copied it. */
void cases_print(const struct leati_canonical *canonical, const char *words);

/* Is dst as the judge has it, and are as many indices counted as are wrong? */
bool cases_are_right(const struct cases_rooms *rooms, uint64_t counted, uint64_t wrong);

/* Fails, with what is not right; dst: what the copy was given. */
void cases_fail(const struct cases_rooms *rooms, const char *dst, uint64_t number, uint64_t counted,
                uint64_t wrong);

#endif
