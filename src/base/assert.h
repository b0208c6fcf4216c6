/*
 * assert.h - defines debug assertions, which check at run time what comments and headers promise.
 *
 * -DLEATI_CHECKED compiles them in; the test programs and the sanitizer builds use it. A release build does not
 * evaluate the condition, and has no code for it.
 */
#ifndef LEATI_ASSERT_H
#define LEATI_ASSERT_H

#ifdef LEATI_CHECKED

/* Writes the place and the condition of the assertion to standard error, and aborts the process. */
_Noreturn __attribute__((cold)) void leati_assert_failed(const char *file, int line, const char *function,
                                                         const char *condition);

#define leati_assert(condition)                                                                                   \
    ((condition) ? (void)0 : leati_assert_failed(__FILE__, __LINE__, __func__, #condition))

#else

/* The compiler still reads the condition, so that it stays valid and its variables count as used. */
#define leati_assert(condition) ((void)(0 && (condition)))

#endif

/* Returns true if value is a power of two. */
#define LEATI_IS_POWER_OF_TWO(value) ((value) != 0 && ((value) & ((value) - 1)) == 0)

#endif
