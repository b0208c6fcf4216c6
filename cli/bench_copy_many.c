/*
 * bench_copy_many.c - thousands of small copies.
 */
#include "bench_copy.h"

/* Measured once leat_copy_many() is there. */
void bench_copy_many(struct bench *bench)
{
    (void)bench;
}
