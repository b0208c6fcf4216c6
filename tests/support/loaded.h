/*
 * loaded.h - shared by the tests of how the CUDA and HIP drivers load the vendor's library.
 *
 * A process loads drivers only once, so each case runs in a child process: this program again, with the library to
 * try in its environment. The child writes its result to its standard output. The libraries are made from
 * tests/fake/. Public headers only.
 */
#ifndef LOADED_H
#define LOADED_H

#include <leat/leat.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

/* Each program defines this for its vendor. */
extern const struct loaded_vendor {
    const char *driver;           /* leat's name of the driver, also in the names of the fakes */
    const char *drivers;          /* value of LEAT_DRIVERS for the cases; NULL: not set */
    const char *library;          /* file name of the vendor's library */
    const char *library_variable; /* environment variable with another file to load */
    const char *fake_variable;    /* environment variable that makes a fake misbehave */
    const char *advice;           /* part of the message for a damaged library */
    const char *first_function;   /* the function that leat misses first in an unrelated library */
    const char *partial_function; /* a function that the partial fake lacks */
    const char *version;          /* version of the good fake */
} loaded_vendor;

struct loaded_found {
    leat_driver_info driver;
    leat_status opened;
    char device[16]; /* the device that leat_device_open(NULL) opened */
};

/* Tries a library, or the good fake with this setting in fake_variable, and returns the result. */
struct loaded_found loaded_try(const char *library, const char *setting);
struct loaded_found loaded_fake(const char *setting);

/* leat must leave the driver out with this status and a message that contains all of these words, and open a CPU
 * device instead. */
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

/* Call first in main(). Does not return in a child process that tries a library. */
void loaded_begin(int argc, char **argv);

#endif
