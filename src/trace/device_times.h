/*
 * device_times.h - measures when work began and ended on a device.
 *
 * A slot has the two times of one operation. The thread that submits the work begins and ends the slot; the
 * recorder's thread later gets the times and frees the slot. A driver with stream_stamp writes the times of leat's
 * clock. For others a slot has two events, and the recorder relates them to a base event, whose time on the host
 * it measures on a stream of its own: again and again, because the clocks drift, and because the difference of two
 * events is a float.
 */
#ifndef LEATI_DEVICE_TIMES_H
#define LEATI_DEVICE_TIMES_H

#include "trace/span.h"

struct leati_time_slot;

/* Called by the thread that submits work. Begins a slot: call before the work is submitted. NULL: the times are
 * lost. */
struct leati_time_slot *leati_time_slot_begin(struct leati_traced_stream *lane);

/* Call after the work is submitted; the last call counts. Returns false if the times are lost. Each slot that was
 * begun is ended and then passed to leati_time_slot_get(). */
bool leati_time_slot_end(struct leati_time_slot *slot, const struct leati_traced_stream *lane);

/* ---- by the recorder, under its lock ---- */

enum leati_times_state { LEATI_TIMES_KNOWN, LEATI_TIMES_LATER, LEATI_TIMES_LOST };

/* Gets the times of a slot. If they are KNOWN or LOST, the slot is free again. */
enum leati_times_state leati_time_slot_get(struct leati_time_slot *slot, struct leati_trace_times *times);

/* Keeps a slot whose times come LATER. */
void leati_time_slot_keep(struct leati_time_slot *slot, uint64_t id, uint32_t trace, uint32_t lane);

/* Calls found for each kept slot whose times are known or lost (both 0) now, with the number of its trace, and
 * frees the slot. last: the device closes, so that nothing can be waited for any more. */
typedef void (*leati_times_found)(const struct leati_trace_times *times, uint32_t trace);
void leati_device_times_look(struct leati_device_times *times, bool last, leati_times_found found);

struct leati_device_times *leati_time_slot_times(struct leati_time_slot *slot);
const struct leati_traced_device *leati_device_times_device(const struct leati_device_times *times);

/*
 * Enter and leave the capture mode in which this thread may make the driver calls below: while a stream of the
 * program is captured into a graph, another thread's question about an event would end the capture. Each enter is
 * followed by a leave on the same thread, in reverse order if there are several devices.
 */
void leati_device_times_enter(struct leati_device_times *times);
void leati_device_times_leave(struct leati_device_times *times);

/* Measures the device's clock if that is due. Returns true if clock was filled, all but the device's id: after a
 * measurement or, if first is set and the clock was measured before, from the latest one. */
bool leati_device_times_clock(struct leati_device_times *times, bool first, struct leati_trace_clock *clock);

/* Fills cost, all but the device's id. Returns false if no operation was timed yet. */
bool leati_device_times_cost(struct leati_device_times *times, struct leati_trace_cost *cost);

/* The program ends: from now on no driver is called, because its library may have ended already. */
void leati_device_times_end(void);

/* Destroys the events and the stream, and frees the memory. */
void leati_device_times_close(struct leati_device_times *times);
void leati_device_times_free(struct leati_device_times *times);

#endif
