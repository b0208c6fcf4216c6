/*
 * fakes.h - shared by the tests of the CUDA and HIP drivers on fake vendor libraries (tests/fake/).
 *
 * A fake library counts the objects that it created, and fails the call that a test chooses. Only public headers
 * are used here; code for one vendor is in test_cuda_fake.c and test_hip_fake.c.
 */
#ifndef FAKES_H
#define FAKES_H

#include "harness.h"

/* Each program defines this for its vendor. */
extern const struct fakes_vendor {
    const char *name;             /* as in the names of the library and of its functions */
    const char *library_variable; /* environment variable with another file to load */
    const char *devices[2];
    const char *out_of_memory;         /* the vendor's name of the error "out of memory" */
    unsigned unknown, lost;            /* error codes: any error; one after which the device is lost */
    unsigned shared_bytes;             /* shared memory that a kernel may request; 200 KiB are refused */
    size_t parameter_bytes;            /* size of each parameter of a kernel; 0: the vendor does not report it */
    bool concurrent;                   /* managed memory supports prefetch and advice */
    void (*expect_as_before)(void);    /* fails if a call left another context or device current */
    void *(*new_ordered_stream)(void); /* a user's stream in the order of the default stream */
    void (*end_stream)(void *stream);
} fakes_vendor;

/* The controls of the fake library. */
extern struct fakes {
    unsigned (*live)(void);                     /* number of objects created and not destroyed */
    unsigned (*calls)(void);                    /* number of calls since fail_at() */
    void (*fail_at)(unsigned n, unsigned code); /* fails the n-th call from now on; 0: none */

    /* Queues all work that a stream receives from now on, until it is released or somebody waits for the stream.
     */
    void (*hold)(int device, void *stream, int held);
} fakes;

/* Loads the fake library that is beside this program, for leat too, and looks up its functions, of which the last
 * is NULL. Returns false, and prints what is missing, if that fails. */
struct fakes_function {
    const char *name;
    void *field; /* pointer to the function pointer to fill in */
};
bool fakes_load(const struct fakes_function *functions);

leat_device *fakes_open(const char *name);

/* Calls leat once in each way and frees everything. Returns the first failure. */
leat_status fakes_do_all(void);

/* Uses a stream of the user through leat, then the default streams; and an event of the user. */
void fakes_use_stream(leat_device *device, void *mine);
void fakes_use_event(leat_device *device, void *mine);

/* Fails unless leat_pointer_get_info() returns this. */
void fakes_expect_place(const void *ptr, leat_kind kind, leat_device *device, const void *base, size_t bytes);

/* Fails unless leat reports the second device like this. function exists in the library, nothing does not. */
void fakes_expect_info(const char *model, const char *architecture, const char *function, const char *nothing);

/* Writes the first 64 bytes of an ELF file whose section table has three entries and begins at byte 1000. */
void fakes_make_elf(unsigned char *image, unsigned machine);

/* Tests that are the same for each vendor. */
void test_each_call_fails(void **state);
void test_regions(void **state);
void test_long_pitches(void **state);
void test_streams_wait_for_no_default_stream(void **state);
int fakes_let_default_stream_go(void **state); /* its teardown */
void test_stream_of_each_thread(void **state);
int fakes_let_stream_of_thread_go(void **state); /* its teardown */
void test_pageable_sources_are_read_in_order(void **state);
void test_copies_stay_in_one_allocation(void **state);
void test_tickets_leave_nothing(void **state);
void test_out_of_memory(void **state);
void test_kernels(void **state);

#endif
