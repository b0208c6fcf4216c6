/*
 * engine_cupti.h - records the CUDA calls of the process, and their work, by CUPTI, NVIDIA's library for tools.
 */
#ifndef ENGINE_CUPTI_H
#define ENGINE_CUPTI_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Starts to record to the trace of leat's that is being recorded. library: the file of CUPTI; NULL: looks for it.
 * Call it after cuInit(), once. text receives which library records, or why none does. */
bool engine_cupti_start(const char *library, char *text, size_t text_bytes);

/* Takes all records that there are. Call it when the process ends. */
void engine_cupti_end(void);

/* Returns CUPTI's number of a stream, as in its records; 0: unknown. */
uint32_t engine_cupti_stream(void *context, void *stream);

#endif
