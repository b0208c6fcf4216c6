/* activity_chunks.c - see activity_chunks.h. */
#include "activity_chunks.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

struct chunks {
    struct activity_input *input;
    const struct activity_chunk_calls *calls;
    void *context;
    unsigned char *payload;
};

bool activity_chunks_check_id(struct activity_input *input, uint32_t id, const char *what)
{
    return (id && id <= ACTIVITY_ID_MAX) ||
           activity_input_fail(input, "the file is damaged: a %s has the id %" PRIu32, what, id);
}

static bool take_strings(struct chunks *chunks, const struct leati_trace_chunk *chunk)
{
    uint32_t at = 0, i;

    for (i = 0; i < chunk->count; i++) {
        struct leati_trace_string string;
        char text[LEATI_TRACE_STRING_BYTES_MAX + 1];

        if (chunk->payload_bytes - at < sizeof string)
            break;
        memcpy(&string, chunks->payload + at, sizeof string);
        at += (uint32_t)sizeof string;
        if (string.bytes > LEATI_TRACE_STRING_BYTES_MAX || string.bytes > chunk->payload_bytes - at)
            break;
        memcpy(text, chunks->payload + at, string.bytes);
        text[string.bytes] = '\0';
        at += (string.bytes + 7) & ~7u;
        if (!activity_chunks_check_id(chunks->input, string.id, "string") ||
            !chunks->calls->string(chunks->context, string.id, text))
            return false;
        if (at > chunk->payload_bytes)
            break;
    }
    return i == chunk->count ||
           activity_input_fail(chunks->input, "the file is damaged: a string ends behind its chunk");
}

/* Returns the size of the records of a chunk; 0: the type is unknown or has no records of one size. */
static uint32_t record_bytes(uint32_t type)
{
    switch (type) {
    case LEATI_TRACE_CHUNK_THREADS:
        return sizeof(struct leati_trace_thread);
    case LEATI_TRACE_CHUNK_DEVICES:
        return sizeof(struct leati_trace_device);
    case LEATI_TRACE_CHUNK_LANES:
        return sizeof(struct leati_trace_lane);
    case LEATI_TRACE_CHUNK_OPS:
        return sizeof(struct leati_trace_op);
    case LEATI_TRACE_CHUNK_TIMES:
        return sizeof(struct leati_trace_times);
    case LEATI_TRACE_CHUNK_STATE:
        return sizeof(struct leati_trace_state);
    case LEATI_TRACE_CHUNK_SOURCE:
        return sizeof(struct leati_trace_source);
    case LEATI_TRACE_CHUNK_POOLS:
        return sizeof(struct leati_trace_pool);
    case LEATI_TRACE_CHUNK_POOL_MEMORY:
        return sizeof(struct leati_trace_pool_memory);
    case LEATI_TRACE_CHUNK_COSTS:
        return sizeof(struct leati_trace_cost);
    default:
        return 0;
    }
}

static bool take_payload(struct chunks *chunks, const struct leati_trace_chunk *chunk)
{
    const struct activity_chunk_calls *calls = chunks->calls;
    uint32_t bytes = record_bytes(chunk->type), i;

    if (chunk->type == LEATI_TRACE_CHUNK_STRINGS)
        return take_strings(chunks, chunk);
    if (bytes == 0)
        return true;
    if (chunk->record_bytes != bytes || (uint64_t)chunk->count * bytes != chunk->payload_bytes)
        return activity_input_fail(chunks->input,
                                   "the file is damaged: a chunk of type %" PRIu32 " has %" PRIu32
                                   " records of %" PRIu32 " bytes in %" PRIu32 " bytes",
                                   chunk->type, chunk->count, chunk->record_bytes, chunk->payload_bytes);
    if (chunk->type == LEATI_TRACE_CHUNK_OPS && calls->ops && !calls->ops(chunks->context, chunk))
        return false;
    for (i = 0; i < chunk->count; i++)
        if (!calls->record(chunks->context, chunk, i, chunks->payload + (size_t)i * bytes))
            return false;
    return true;
}

/* Reads one chunk. *more receives false at the end of the file, also if it is in the middle of a chunk. */
static bool read_chunk(struct chunks *chunks, bool *more)
{
    struct activity_input *input = chunks->input;
    struct leati_trace_chunk chunk;
    uint64_t at = input->at;
    size_t got = activity_input_read(input, &chunk, sizeof chunk);

    *more = false;
    if (got < sizeof chunk)
        return true;
    if (got == SIZE_MAX)
        return false;
    if (chunk.magic != LEATI_TRACE_CHUNK_MAGIC || chunk.payload_bytes > LEATI_TRACE_CHUNK_BYTES_MAX)
        return activity_input_fail(input, "the file is damaged: no chunk begins at byte %" PRIu64, at);
    got = activity_input_read(input, chunks->payload, chunk.payload_bytes);
    if (got == SIZE_MAX)
        return false;
    if (got < chunk.payload_bytes)
        return true;
    *more = true;
    return take_payload(chunks, &chunk);
}

static bool read_header(struct chunks *chunks)
{
    struct activity_input *input = chunks->input;
    struct leati_trace_header header;
    size_t got = activity_input_read(input, &header, sizeof header);

    if (got == SIZE_MAX)
        return false;
    if (got < sizeof header)
        return activity_input_fail(input, "the file ends after %zu bytes, within its header", got);
    if (header.version != LEATI_TRACE_VERSION || header.header_bytes != sizeof header ||
        header.op_bytes != sizeof(struct leati_trace_op))
        return activity_input_fail(input,
                                   "the trace has format version %" PRIu32 ", and this leat reads version %u",
                                   header.version, LEATI_TRACE_VERSION);
    if (chunks->calls->start)
        chunks->calls->start(chunks->context, &header);
    return true;
}

bool activity_chunks_read(struct activity_input *input, const struct activity_chunk_calls *calls, void *context)
{
    struct chunks chunks = {
        .input = input, .calls = calls, .context = context, .payload = malloc(LEATI_TRACE_CHUNK_BYTES_MAX)};
    bool more = true, fine;

    if (!chunks.payload)
        return activity_input_fail(input, "out of host memory");
    fine = read_header(&chunks);
    while (fine && more)
        fine = read_chunk(&chunks, &more);
    free(chunks.payload);
    return fine;
}
