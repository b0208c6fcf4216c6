/*
 * engine_trace.h - records a process to a trace file, for "leat run --trace".
 */
#ifndef ENGINE_TRACE_H
#define ENGINE_TRACE_H

#include "engine.h"

struct leat_device;

/* In engine.c: opens the device of this number if needed, and keeps it open until engine_leave(). Returns NULL if
 * it cannot be opened or has another context; then engine_leave() must not be called. */
struct leat_device *engine_enter(int number, void *context);
void engine_leave(int number);

/* See struct engine. */
enum engine_tracing engine_trace(const char *path, const char *cupti, char *text, size_t text_bytes);
void engine_call_begin(const struct engine_call *call);
void engine_call_end(bool failed);

/* The device will close: forgets its streams. Called with its gate held for writing. */
void engine_trace_closes(int device);

/* Returns the number that the trace has for a stream of the program. Returns otherwise if there is none. */
uint64_t engine_trace_stream(int device, void *context, void *stream, uint64_t otherwise);

#endif
