/*
 * activity_chunks.h - reads a trace of leat's format (trace_file.h) chunk by chunk: checks the header and the
 * sizes, and passes on the strings and the records of known types.
 */
#ifndef CLI_ACTIVITY_CHUNKS_H
#define CLI_ACTIVITY_CHUNKS_H

#include "activity_read.h"
#include "trace_file.h"

/* Larger ids are taken for damage, so that a damaged file does not make a reader allocate much. */
enum { ACTIVITY_ID_MAX = 1 << 22 };

/* What is called, in the order of the file. The functions return false, with the error set, to stop. */
struct activity_chunk_calls {
    void (*start)(void *context, const struct leati_trace_header *header); /* first; NULL: none */
    bool (*string)(void *context, uint32_t id, const char *text);
    /* Before the records of an OPS chunk; NULL: none. */
    bool (*ops)(void *context, const struct leati_trace_chunk *chunk);
    /* record has the size of its type, but no alignment. */
    bool (*record)(void *context, const struct leati_trace_chunk *chunk, uint32_t index, const void *record);
};

/* Reads from the beginning to the end of the file, or to a chunk that is not complete. Returns false with the
 * error set. */
bool activity_chunks_read(struct activity_input *input, const struct activity_chunk_calls *calls, void *context);

/* Returns false with the error set if an id is 0 or too large. what: "string" */
bool activity_chunks_check_id(struct activity_input *input, uint32_t id, const char *what);

#endif
