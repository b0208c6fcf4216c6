/*
 * held.h - for tests of waits: the CPU driver's table, replaced by one that holds up what a wait waits for.
 *
 * A gate here stands in a driver's stream behind leat's back. What is held up by test_gate_close() instead is work
 * that may write pageable memory, and copies behind it are made in other ways. Below the table is the fault
 * driver, by which a call in the middle fails.
 */
#ifndef HELD_H
#define HELD_H

#include "harness.h"

#include "driver/driver.h"

#include <pthread.h>

extern struct leati_driver *held_driver; /* with the table that was replaced */

/* Called on the thread that gives work to a stream, in front of it: of copies, kernels and host functions the
 * first, of copies the second too, of words the third. The fourth is called before memory goes back, pinned memory
 * too. NULL: nothing. */
extern void (*held_before_work)(void *stream);
extern void (*held_before_copy)(void *stream, struct leati_location dst, struct leati_location src, size_t bytes);
extern void (*held_before_flags)(void *stream);
extern void (*held_before_free)(void *ptr);
extern bool (*held_refuse)(const char *entry, void *stream);

/* Called before and after records, queries and the host's waits, of streams and events: what another thread does
 * just then. */
extern void (*held_around)(const char *entry, bool after);

/* Words are given one by one, and each that is written comes some milliseconds after what is in front of it. */
extern bool held_slow_flags;

/* There is no pinned memory any more. */
extern bool held_no_memory;

/* Replaces the table; before the first call of leat, but behind the environment. With HELD_WITHOUT_WORDS=1 the
 * driver's streams cannot wait for words. */
void held_begin(void);

/* test_setup() with no hook and no fault; and test_teardown() with no gate closed. */
int held_setup(void **state);
int held_teardown(void **state);
#define HELD_TEST(function) cmocka_unit_test_setup_teardown(function, held_setup, held_teardown)

/* A closed gate, to be put into one of the driver's streams; the two at once; test_gate_open() opens it. */
struct test_gate *held_gate(void);
void held_put(void *stream, struct test_gate *gate);
struct test_gate *held_close(void *stream);

/* What the stream is given next comes some milliseconds late. */
void held_delay(void *stream);

/* Calls function(argument) in the stream behind leat's back. */
void held_call(void *stream, void (*function)(void *), void *argument);

/* A moment, in which what does not wait is through. */
enum { HELD_MOMENT_MS = 100 };
void held_moment(void);

/*
 * Watches a call that must not come back while a gate is closed: opens the gate when the call is back all the
 * same, or after a moment. Where a fault is armed, the moment begins when it has happened.
 */
struct held_watch {
    struct test_gate *gate;
    bool until_fault;
    atomic_int back;
    pthread_t thread;
};
void held_watch_start(struct held_watch *watch);

/* The call is back: fails unless it waited for the gate. */
void held_watch_end(struct held_watch *watch);

#endif
