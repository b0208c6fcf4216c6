/*
 * recorder.h - records traces: the calls that devices and the process make. The API is leat/trace.h, the hooks for
 * operations are in span.h.
 */
#ifndef LEATI_TRACE_RECORDER_H
#define LEATI_TRACE_RECORDER_H

#include "trace/span.h"

/* Starts a trace if LEAT_TRACE is set. Call it once, before the first device is opened. It never fails: if
 * something goes wrong, it prints one message to standard error, and nothing is traced. */
void leati_trace_begin(void);

/*
 * A device closes. The first call comes after the device has been waited for and before its streams and the device
 * end: takes over the times of its work, and destroys what the recorder has made in the driver. The second comes
 * when the device is closed, and frees the memory.
 */
void leati_trace_device_closes(struct leati_traced_device *device);
void leati_trace_device_closed(struct leati_traced_device *device);

#endif
