/*
 * assume.h - tells the static analyzer of 'make tidy' what a function's callers guarantee, because the analyzer
 * sees only one file at a time. For compilers the macro is an empty statement: it checks nothing and gives the
 * optimizer no hint.
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
