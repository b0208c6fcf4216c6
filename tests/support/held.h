/*
 * held.h - for tests of waits: replaces the CPU driver's table with one that can hold up the work that a wait is
 * for.
 *
 * These gates are put into a driver's stream without leat's knowledge. A gate of test_gate_close() would not do:
 * leat knows it as a host function that may write pageable memory, and copies after it take other paths. The fault
 * driver is below this table, so that a call in the middle of a copy can be made to fail.
 */
#ifndef HELD_H
#define HELD_H

#include "harness.h"

#include "driver/driver.h"

#include <pthread.h>

extern struct leati_driver *held_driver; /* the driver whose table was replaced */

/* Hooks, called on the submitting thread just before work is submitted to a stream: the first for copies, kernels
 * and host functions, the second for copies only, the third for writes and waits of flags. The fourth is called
 * before memory is freed, pinned memory too. NULL: no hook. held_refuse: returns true if this entry must fail. */
extern void (*held_before_work)(void *stream);
extern void (*held_before_copy)(void *stream, struct leati_location dst, struct leati_location src, size_t bytes);
extern void (*held_before_flags)(void *stream);
extern void (*held_before_free)(void *ptr);
extern bool (*held_refuse)(const char *entry, void *stream);

/* Called before and after the driver's record, query and host wait of streams and events. A test does there what
 * another thread might do at that moment. */
extern void (*held_around)(const char *entry, bool after);

/* Flag operations are submitted one by one, and each write is delayed by some milliseconds. */
extern bool held_slow_flags;

/* The driver returns no pinned memory any more. */
extern bool held_no_memory;

/* Replaces the table. Call it after setting environment variables and before the first call of leat. With
 * HELD_WITHOUT_WORDS=1 the driver's streams cannot wait for flags. */
void held_begin(void);

/* test_setup() that also clears hooks and faults, and test_teardown() that also opens all gates. */
int held_setup(void **state);
int held_teardown(void **state);
#define HELD_TEST(function) cmocka_unit_test_setup_teardown(function, held_setup, held_teardown)

/* Returns a closed gate; puts it into one of the driver's streams; does both. test_gate_open() opens it. */
struct test_gate *held_gate(void);
void held_put(void *stream, struct test_gate *gate);
struct test_gate *held_close(void *stream);

/* Delays the next work of the stream by some milliseconds. */
void held_delay(void *stream);

/* Queues function(argument) in the stream without leat's knowledge. */
void held_call(void *stream, void (*function)(void *), void *argument);

/* Sleeps for a moment: long enough that a call which does not wait has returned. */
enum { HELD_MOMENT_MS = 100 };
void held_moment(void);

/* Checks that a call waits for a gate. Opens the gate when the call returned too early, or after a moment. With a
 * fault armed, the moment starts when the fault has happened. */
struct held_watch {
    struct test_gate *gate;
    bool until_fault;
    atomic_int back;
    pthread_t thread;
};
void held_watch_start(struct held_watch *watch);

/* Call after the watched call has returned. Fails unless that call waited for the gate. */
void held_watch_end(struct held_watch *watch);

#endif
