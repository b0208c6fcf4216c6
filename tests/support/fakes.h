/*
 * fakes.h - for tests of the drivers for GPUs on libraries made in place of the vendors' (tests/fake/).
 *
 * Such a library counts what it gave out and makes the call fail that it is told to. Public headers only: what is
 * the vendor's own is in test_cuda_fake.c and test_hip_fake.c.
 */
#ifndef FAKES_H
#define FAKES_H

#include "harness.h"

/* Each program defines its vendor. */
extern const struct fakes_vendor {
    const char *name;             /* in those of the library and of its functions */
    const char *library_variable; /* names another file to load */
    const char *devices[2];
    const char *out_of_memory;         /* the vendor's name of that error */
    unsigned unknown, lost;            /* codes: any error; one that takes the device with it */
    unsigned shared_bytes;             /* that a kernel may ask for; 200 KiB are too many */
    size_t parameter_bytes;            /* of each of a kernel's; 0: the vendor does not tell */
    bool concurrent;                   /* managed memory can be moved and advised */
    void (*expect_as_before)(void);    /* what is current on the thread is what was */
    void *(*new_ordered_stream)(void); /* a stream of the user's on the first device that keeps the order of its
                                        * default stream */
    void (*end_stream)(void *stream);
} fakes_vendor;

/* What steers the library. */
extern struct fakes {
    unsigned (*live)(void);                     /* things given out and not given back */
    unsigned (*calls)(void);                    /* since fail_at() */
    void (*fail_at)(unsigned n, unsigned code); /* the n-th call from now on; 0: none */

    /* What a vendor's stream is given from now on waits until it is let go, or somebody waits for it. */
    void (*hold)(int device, void *stream, int held);
} fakes;

/*
 * Loads the library beside this program, for leat too, and looks up the functions, the last of which is NULL, and
 * what steers it; false, having said what is missing.
 */
struct fakes_function {
    const char *name;
    void *field; /* a pointer to a pointer to the function */
};
bool fakes_load(const struct fakes_function *functions);

leat_device *fakes_open(const char *name);

/* Makes calls of each sort and gives everything back; the first failure. */
leat_status fakes_do_all(void);

/* Uses a stream of the user's as leat's, and then the default streams; uses an event of the user's. */
void fakes_use_stream(leat_device *device, void *mine);
void fakes_use_event(leat_device *device, void *mine);

/* What leat says of a pointer. */
void fakes_expect_place(const void *ptr, leat_kind kind, leat_device *device, const void *base, size_t bytes);

/* What leat says of the second device; there is one of the functions and not the other one. */
void fakes_expect_info(const char *model, const char *architecture, const char *function, const char *nothing);

/* The start of an ELF file, 64 bytes: a section table of three entries at byte 1000. */
void fakes_make_elf(unsigned char *image, unsigned machine);

/* Tests that are the same for each vendor. */
void test_each_call_fails(void **state);
void test_regions(void **state);
void test_long_pitches(void **state);
void test_streams_wait_for_no_default_stream(void **state);
int fakes_let_default_stream_go(void **state); /* its tear-down, where it failed */
void test_stream_of_each_thread(void **state);
int fakes_let_stream_of_thread_go(void **state); /* its tear-down, where it failed */
void test_pageable_sources_are_read_in_order(void **state);
void test_copies_stay_in_one_allocation(void **state);
void test_tickets_leave_nothing(void **state);
void test_out_of_memory(void **state);
void test_kernels(void **state);

#endif
