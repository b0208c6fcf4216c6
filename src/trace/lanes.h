/*
 * lanes.h - numbers the devices and lanes (streams) that the operations of a trace name, and keeps what the file
 * must define of them until the recorder takes it.
 *
 * A device is known by its name, and a lane by its device and the number of its stream. So a device that is closed
 * and opened again keeps its id, and leat's operations share their lanes with those that another recorder tells
 * of.
 */
#ifndef LEATI_LANES_H
#define LEATI_LANES_H

#include "trace/span.h"

/* Returns the id of a lane in a trace, which is defined if it is new. Returns 0 if there is no room now. */
uint32_t leati_trace_lane_id(struct leati_traced_stream *lane, uint32_t trace);

/* The same for a stream that leat does not know, of device number ordinal of a driver. */
uint32_t leati_trace_lane_id_foreign(const char *driver, int ordinal, uint64_t serial, uint32_t trace);

/* A trace begins; number 0: it ends. All ids are forgotten when one begins. */
void leati_lanes_trace(uint32_t number);

/* Takes what was defined since the last call. Call under the recorder's lock, after entries were read: then all
 * that they refer to was taken by this call or by an earlier one. */
enum { LEATI_DEFINED_MAX = 256 };
struct leati_defined {
    struct leati_trace_device devices[LEATI_DEFINED_MAX];
    struct leati_trace_lane lanes[LEATI_DEFINED_MAX];
    uint32_t device_count, lane_count;
};
void leati_lanes_take(struct leati_defined *taken);

/* In a child of fork(), where another thread of the parent may have held the lock. */
void leati_lanes_fork(void);

#endif
