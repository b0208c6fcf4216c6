/*
 * fakes.h - shared by the tests of the CUDA and HIP drivers on fake vendor libraries (tests/fake/).
 *
 * A fake library counts the objects that exist, and fails the call that a test chooses. This code uses only public
 * headers. The code for one vendor is in test_cuda_fake.c or test_hip_fake.c.
 */
#ifndef FAKES_H
#define FAKES_H

#include "harness.h"

/* The differences between the vendors. Each program defines them for its vendor. */
extern const struct fakes_vendor {
    const char *name;             /* part of the names of the fake library and its functions */
    const char *library_variable; /* environment variable with the path of the library to load */
    const char *devices[2];
    const char *out_of_memory;         /* the vendor's name of the error "out of memory" */
    unsigned unknown, lost;            /* error codes: an ordinary one, and one after which the device is lost */
    unsigned shared_bytes;             /* shared memory that a kernel may request; less than 200 KiB */
    size_t parameter_bytes;            /* size of each parameter of a kernel; 0: the vendor does not report it */
    bool concurrent;                   /* managed memory supports prefetch and advice */
    void (*expect_as_before)(void);    /* fails if a call changed the current context or device */
    void *(*new_ordered_stream)(void); /* creates a user's stream that is ordered with the default stream */
    void (*end_stream)(void *stream);
} fakes_vendor;

/* Functions of the fake library by which a test controls it. */
extern struct fakes {
    unsigned (*live)(void);                     /* number of objects created and not destroyed */
    unsigned (*calls)(void);                    /* number of calls since fail_at() */
    void (*fail_at)(unsigned n, unsigned code); /* the n-th call from now on fails with code; n = 0: none */

    /* Queues all work that a stream receives from now on, until the test releases the stream or a call waits for
     * it. */
    void (*hold)(int device, void *stream, int held);
} fakes;

/* Loads the fake library from the folder of this program, makes leat load it too, and looks up its functions. The
 * list ends with a NULL name. Returns false and prints what is missing if that fails. */
struct fakes_function {
    const char *name;
    void *field; /* pointer to the function pointer to fill in */
};
bool fakes_load(const struct fakes_function *functions);

leat_device *fakes_open(const char *name);

/* Makes each call of leat that needs the vendor, and frees everything. Returns the first failure. */
leat_status fakes_do_all(void);

/* The first uses a user's stream through leat, and then the default streams. The second uses a user's event. */
void fakes_use_stream(leat_device *device, void *mine);
void fakes_use_event(leat_device *device, void *mine);

/* Fails unless leat_pointer_get_info() returns these values. */
void fakes_expect_place(const void *ptr, leat_kind kind, leat_device *device, const void *base, size_t bytes);

/* Fails unless leat reports these properties of the second device. function is the name of a symbol that the
 * library exports, nothing a name that it lacks. */
void fakes_expect_info(const char *model, const char *architecture, const char *function, const char *nothing);

/* Writes the first 64 bytes of an ELF file whose section table has three entries and begins at byte 1000. */
void fakes_make_elf(unsigned char *image, unsigned machine);

/* Tests that are the same for each vendor. */
void test_each_call_fails(void **state);
void test_regions(void **state);
void test_long_pitches(void **state);
void test_streams_wait_for_no_default_stream(void **state);
int fakes_let_default_stream_go(void **state); /* teardown of the test above */
void test_stream_of_each_thread(void **state);
int fakes_let_stream_of_thread_go(void **state); /* teardown of the test above */
void test_pageable_sources_are_read_in_order(void **state);
void test_copies_stay_in_one_allocation(void **state);
void test_tickets_leave_nothing(void **state);
void test_out_of_memory(void **state);
void test_no_counters(void **state);
void test_kernels(void **state);

#endif
