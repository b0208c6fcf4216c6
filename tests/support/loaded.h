/*
 * loaded.h - shared by the tests of how the CUDA and HIP drivers load the vendor's library.
 *
 * A process loads drivers only once, so each case runs in a child process: this program again, with the path of
 * the library in its environment. The child writes its result to its standard output. The libraries are built from
 * tests/fake/. Uses public headers only.
 */
#ifndef LOADED_H
#define LOADED_H

#include <leat/leat.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

/* The differences between the vendors. Each program defines them for its vendor. */
extern const struct loaded_vendor {
    const char *driver;           /* leat's name of the driver, also part of the names of the fakes */
    const char *drivers;          /* value of LEAT_DRIVERS for the cases; NULL: not set */
    const char *library;          /* file name of the vendor's library */
    const char *library_variable; /* environment variable with the path of the library to load */
    const char *fake_variable;    /* environment variable that makes a fake misbehave */
    const char *advice;           /* part of the message for a damaged library */
    const char *first_function;   /* the function that leat first reports missing in an unrelated library */
    const char *partial_function; /* a function that the partial fake lacks */
    const char *version;          /* version that the good fake reports */
} loaded_vendor;

struct loaded_found {
    leat_driver_info driver;
    leat_status opened;
    char device[16]; /* the device that leat_device_open(NULL) opened */
};

/* Run one case in a child process and return its result. The first tries the given library. The second tries the
 * good fake. setting is the value of fake_variable. */
struct loaded_found loaded_try(const char *library, const char *setting);
struct loaded_found loaded_fake(const char *setting);

/* The driver must be unavailable with this status and a message that contains all of these words, and leat must
 * open a CPU device instead. */
#define EXPECT_LEFT_OUT(found, status, ...)                                                                       \
    loaded_left_out((found), (status), (const char *const[]){__VA_ARGS__, NULL})
void loaded_left_out(struct loaded_found found, leat_status status, const char *const *words);

/* Tests that are the same for each vendor. */
void test_missing(void **state);
void test_empty(void **state);
void test_cut_off(void **state);
void test_own_library(void **state);
void test_other_library(void **state);
void test_missing_functions(void **state);
void test_good(void **state);

/* Must be called first in main(). In a child process that tries a library it does not return. */
void loaded_begin(int argc, char **argv);

#endif
