/*
 * canonical_cases.h - draws random canonical layouts, and copies them with a plain loop as the reference. Shared
 * by the tests of the layout kernels for processors and for GPUs; each test chooses which layouts it draws.
 *
 * A run prints its seed. "--seed N" repeats that run, "--forms N" sets the number of layouts.
 */
#ifndef CANONICAL_CASES_H
#define CANONICAL_CASES_H

#include "layouts.h"

#include "layout/canonical.h"

extern uint64_t cases_seed;
extern unsigned cases_count;

/* Reads the arguments and prints the seed. count is the number of layouts if no argument sets it. */
void cases_begin(int argc, char **argv, const char *program, unsigned count);

/* ---- random numbers ---- */

extern uint64_t cases_random;

/* Seeds the random numbers for one layout by its number, so that it can be drawn again without the others. */
void cases_draw_from(uint64_t number);

static inline uint64_t chance(uint64_t below)
{
    return layouts_random(&cases_random, below);
}

/* ---- memory ---- */

/* Memory for the destination, the source, the result of the plain loop, and a list of indices. An inaccessible
 * page lies before and behind each. */
struct cases_rooms {
    size_t bytes;
    char *dst, *src, *wanted, *list;
};
struct cases_rooms cases_make_rooms(size_t bytes);

/* ---- functions that draw a layout; call them in this order ---- */

uint64_t cases_size(void);

/* Adds a dimension. If the layout would then have more than most_units units, adds none and returns false. */
bool cases_add_dim(struct leati_canonical *canonical, uint64_t size, uint64_t most_units);

/* Gives a dimension a list of indices. distinct says that no index may occur twice, which a scatter needs. */
void cases_add_list(struct leati_canonical *canonical, bool distinct);

void cases_shuffle(unsigned *order, unsigned count);

/* Draws strides that place the dimensions on one side in the given order, sometimes with gaps. */
void cases_lay_out(struct leati_canonical *canonical, bool on_dst, const unsigned *order, bool gaps);

/* Makes some dimensions of the source run backwards or repeat one place, and computes the derived fields. Returns
 * false if the layout has become larger than most_units or room_bytes. */
bool cases_finish(struct leati_canonical *canonical, uint64_t most_units, size_t room_bytes);

/* Returns a list of indices. *wrong returns how many of them are out of bounds. The caller frees the list. */
void *cases_make_list(const struct leati_canonical *canonical, bool distinct, uint64_t *wrong);

/* ---- comparison with the plain loop ---- */

/* The reference: copies with a plain loop that divides for each dimension of each unit. If indices are equal, the
 * last one wins. */
void cases_judge(const struct leati_canonical *canonical, char *dst, const char *src, const void *list);

/* Prints a layout and the name of the kernel that copied it (words). */
void cases_print(const struct leati_canonical *canonical, const char *words);

/* Returns true if dst equals the result of the plain loop, and the kernel counted as many indices out of bounds as
 * there are. */
bool cases_are_right(const struct cases_rooms *rooms, uint64_t counted, uint64_t wrong);

/* Prints the first difference and ends the test. dst is the memory that the kernel wrote. */
void cases_fail(const struct cases_rooms *rooms, const char *dst, uint64_t number, uint64_t counted,
                uint64_t wrong);

#endif
