/*
 * assume.h - facts that the caller guarantees, for the static analyzer of 'make tidy', which sees one file at a
 * time. Compilers get an empty statement: no check, and no hint to the optimizer.
 */
#ifndef LEATI_ASSUME_H
#define LEATI_ASSUME_H

#ifdef __clang_analyzer__
#define LEATI_ASSUME(fact)                                                                                        \
    do {                                                                                                          \
        if (!(fact))                                                                                              \
            __builtin_unreachable();                                                                              \
    } while (0)
#else
#define LEATI_ASSUME(fact) ((void)0)
#endif

#endif
