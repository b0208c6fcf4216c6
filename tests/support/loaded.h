/*
 * loaded.h - for tests of how the drivers for GPUs load: a vendor's library, tried in a process of its own.
 *
 * Drivers are loaded once in a process, so each case is this program again, with a library to try in its
 * environment, which writes what it found to its standard output. The libraries are made from tests/fake/. Public
 * headers only.
 */
#ifndef LOADED_H
#define LOADED_H

#include <leat/leat.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

/* Each program defines its vendor. */
extern const struct loaded_vendor {
    const char *driver;           /* leat's name, also in those of the fakes */
    const char *drivers;          /* LEAT_DRIVERS for the cases; NULL: not set */
    const char *library;          /* the vendor's file */
    const char *library_variable; /* names another file to load */
    const char *fake_variable;    /* what a fake does other than it should */
    const char *advice;           /* for a library that is damaged */
    const char *first_function;   /* which a library of another kind is found to lack */
    const char *partial_function; /* which the partial fake lacks */
    const char *version;          /* the good fake's */
} loaded_vendor;

struct loaded_found {
    leat_driver_info driver;
    leat_status opened;
    char device[16]; /* what leat_device_open(NULL) gave */
};

/* What becomes of a library, and of the good fake; setting is for the fake variable. */
struct loaded_found loaded_try(const char *library, const char *setting);
struct loaded_found loaded_fake(const char *setting);

/* The driver is left out with this status and a message that has all of the words, and a CPU device opens
 * instead. */
#define EXPECT_LEFT_OUT(found, status, ...)                                                                       \
    loaded_left_out((found), (status), (const char *const[]){__VA_ARGS__, NULL})
void loaded_left_out(struct loaded_found found, leat_status status, const char *const *words);

/* Tests that are the same for each vendor. */
void test_missing(void **state);
void test_empty(void **state);
void test_cut_off(void **state);
void test_other_library(void **state);
void test_missing_functions(void **state);
void test_good(void **state);

/* main() begins with this, which does not return in a process that tries a library. */
void loaded_begin(int argc, char **argv);

#endif
