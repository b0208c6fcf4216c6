/*
 * canonical_cases.h - random canonical layouts, and the plain loop that says what copying one means. Shared by the
 * tests of the layout kernels for processors and for GPUs; each test chooses which layouts it draws.
 *
 * A run prints its seed. "--seed N" repeats that run, "--forms N" sets the number of layouts.
 */
#ifndef CANONICAL_CASES_H
#define CANONICAL_CASES_H

#include "layouts.h"

#include "layout/canonical.h"

extern uint64_t cases_seed;
extern unsigned cases_count;

/* Reads the arguments and prints the seed. count: the number of layouts when no argument sets it. */
void cases_begin(int argc, char **argv, const char *program, unsigned count);

/* ---- chance ---- */

extern uint64_t cases_random;

/* Starts the random numbers of layout number, so that a single layout of a seed can be drawn again. */
void cases_draw_from(uint64_t number);

static inline uint64_t chance(uint64_t below)
{
    return layouts_random(&cases_random, below);
}

/* ---- memory ---- */

/* Memory for both sides and for the result of the plain loop, each between pages that cannot be accessed. */
struct cases_rooms {
    size_t bytes;
    char *dst, *src, *wanted;
};
struct cases_rooms cases_make_rooms(size_t bytes);

/* ---- drawing, in this order ---- */

uint64_t cases_size(void);

/* Adds a dimension. Returns false, and adds none, if the layout would have more than most_units units. */
bool cases_add_dim(struct leati_canonical *canonical, uint64_t size, uint64_t most_units);

/* Gives a dimension a list of indices. distinct: no index may come twice, as a scatter needs it. */
void cases_add_list(struct leati_canonical *canonical, bool distinct);

void cases_shuffle(unsigned *order, unsigned count);

/* Draws strides that place the dimensions in this order on one side, sometimes with gaps. */
void cases_lay_out(struct leati_canonical *canonical, bool on_dst, const unsigned *order, bool gaps);

/* Makes some dimensions of the source run backwards or repeat one place, and fills in the derived fields. Returns
 * false if the layout became larger than most_units or room_bytes. */
bool cases_finish(struct leati_canonical *canonical, uint64_t most_units, size_t room_bytes);

/* Returns a list of indices, of which *wrong are out of bounds. The caller frees it. */
void *cases_make_list(const struct leati_canonical *canonical, bool distinct, uint64_t *wrong);

/* ---- judging ---- */

/* The reference: copies with a plain loop that divides for each dimension of each unit. Of equal indices the last
 * one wins. */
void cases_judge(const struct leati_canonical *canonical, char *dst, const char *src, const void *list);

/* Prints a layout and, in words, which kernel copied it. */
void cases_print(const struct leati_canonical *canonical, const char *words);

/* Returns true if dst equals the result of the plain loop, and counted indices were reported out of bounds as
 * expected. */
bool cases_are_right(const struct cases_rooms *rooms, uint64_t counted, uint64_t wrong);

/* Ends the test with the first difference. dst: the memory that the kernel wrote. */
void cases_fail(const struct cases_rooms *rooms, const char *dst, uint64_t number, uint64_t counted,
                uint64_t wrong);

#endif
