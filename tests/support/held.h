/*
 * held.h - for tests of waits: replaces the CPU driver's table with one that can hold up the work for which leat
 * must wait.
 *
 * The test puts these gates into a driver's stream without leat's knowledge. leat would know a gate of
 * test_gate_close() as a host function that may write pageable memory, and copies behind it would take other
 * paths. The fault driver is below this table, so a test can make a call in the middle of a copy fail.
 */
#ifndef HELD_H
#define HELD_H

#include "harness.h"

#include "driver/driver.h"

#include <pthread.h>

extern struct leati_driver *held_driver; /* the driver whose table was replaced */

/* Hooks that run on the submitting thread just before work is submitted to a stream: before_work for copies,
 * kernels and host functions, before_copy for copies only, before_flags for writes of flags and waits for them.
 * before_free runs before device or pinned memory is freed. held_refuse returns true if this entry must fail.
 * NULL: no hook. */
extern void (*held_before_work)(void *stream);
extern void (*held_before_copy)(void *stream, struct leati_location dst, struct leati_location src, size_t bytes);
extern void (*held_before_flags)(void *stream);
extern void (*held_before_free)(void *ptr);
extern bool (*held_refuse)(const char *entry, void *stream);

/* Runs before and after the driver's record, query and host wait of streams and events. In it a test does what
 * another thread might do at that moment. */
extern void (*held_around)(const char *entry, bool after);

/* If true, flag operations are submitted one by one, and each write is delayed by some milliseconds. */
extern bool held_slow_flags;

/* If true, allocating and pinning host memory through the driver fails with HOST_MEMORY. */
extern bool held_no_memory;

/* Replaces the table. Must be called after environment variables are set and before the first call of leat. With
 * HELD_WITHOUT_WORDS=1 the driver's streams cannot wait for flags. */
void held_begin(void);

/* Like test_setup(), but also clears hooks and faults; like test_teardown(), but also opens all gates. */
int held_setup(void **state);
int held_teardown(void **state);
#define HELD_TEST(function) cmocka_unit_test_setup_teardown(function, held_setup, held_teardown)

/* The first returns a closed gate. The second puts a gate into a stream of the driver. The third does both.
 * test_gate_open() opens the gate. */
struct test_gate *held_gate(void);
void held_put(void *stream, struct test_gate *gate);
struct test_gate *held_close(void *stream);

/* Delays the next work of the stream by some milliseconds. */
void held_delay(void *stream);

/* Queues function(argument) in the stream without leat's knowledge. */
void held_call(void *stream, void (*function)(void *), void *argument);

/* Sleeps so long that a call which does not wait has certainly returned. */
enum { HELD_MOMENT_MS = 100 };
void held_moment(void);

/* Checks that a call waits for a gate. A thread opens the gate when the call has returned too early, or after a
 * moment. If until_fault is true, the moment starts when the injected fault has happened. */
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
