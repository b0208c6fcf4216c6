/* trace_writer.c - see trace_writer.h. */
#include "trace/trace_writer.h"

#include "base/assert.h"
#include "base/clock.h"
#include "base/record_file.h"
#include "trace/trace_strings.h"

#include <string.h>
#include <unistd.h>

static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__,
              "the file is little-endian, and is written as it is in memory");

static void put(struct leati_trace_writer *writer, const void *data, size_t bytes)
{
    leati_assert(bytes <= sizeof writer->buffer - writer->used_bytes);
    memcpy(writer->buffer + writer->used_bytes, data, bytes);
    writer->used_bytes += bytes;
}

/* Makes room for a whole chunk, so that a flush never ends inside one. */
static void need(struct leati_trace_writer *writer, size_t bytes)
{
    leati_assert(bytes <= sizeof writer->buffer);
    if (bytes > sizeof writer->buffer - writer->used_bytes)
        leati_writer_flush(writer);
}

bool leati_writer_open(struct leati_trace_writer *writer, const char *pattern, const char **why)
{
    struct leati_trace_header header = {.version = LEATI_TRACE_VERSION,
                                        .header_bytes = sizeof header,
                                        .op_bytes = sizeof(struct leati_trace_op),
                                        .process = (uint64_t)getpid()};
    struct timespec now;

    writer->fd = -1;
    writer->error = 0;
    writer->written_bytes = 0;
    writer->strings = 0;
    writer->used_bytes = 0;
    *why = "the name is too long";
    if (leati_record_file_name(writer->path, sizeof writer->path, pattern))
        writer->fd = leati_record_file_open(writer->path, &writer->is_regular, why);
    if (writer->fd < 0)
        return false;
    memcpy(header.magic, LEATI_TRACE_MAGIC, sizeof header.magic);
    header.start_ns = leati_clock_ns();
    clock_gettime(CLOCK_REALTIME, &now);
    header.start_realtime_ns = (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
    put(writer, &header, sizeof header);
    leati_writer_flush(writer);
    if (writer->fd >= 0)
        return true;
    *why = strerror(writer->error);
    return false;
}

void leati_writer_add(struct leati_trace_writer *writer, enum leati_trace_chunk_type type, const void *records,
                      uint32_t count, uint32_t record_bytes, uint32_t thread, uint64_t first)
{
    struct leati_trace_chunk chunk = {.magic = LEATI_TRACE_CHUNK_MAGIC,
                                      .type = type,
                                      .payload_bytes = count * record_bytes,
                                      .count = count,
                                      .record_bytes = record_bytes,
                                      .thread = thread,
                                      .first = first};

    if (!count || writer->fd < 0)
        return;
    need(writer, sizeof chunk + chunk.payload_bytes);
    put(writer, &chunk, sizeof chunk);
    put(writer, records, chunk.payload_bytes);
}

/* Returns the bytes that a string takes in the file. */
static size_t string_bytes(uint32_t text_bytes)
{
    return sizeof(struct leati_trace_string) + ((text_bytes + 7u) & ~7u);
}

/* Adds strings up to last, as many as fit into one chunk. */
static void add_some_strings(struct leati_trace_writer *writer, uint32_t last)
{
    static const char zeros[8];
    struct leati_trace_chunk chunk = {.magic = LEATI_TRACE_CHUNK_MAGIC, .type = LEATI_TRACE_CHUNK_STRINGS};
    struct leati_trace_string string;
    size_t at, bytes = 0;
    uint32_t count = 0;

    for (; writer->strings + count < last; count++) {
        (void)leati_trace_string_text(writer->strings + count + 1, &string.bytes);
        if (sizeof chunk + bytes + string_bytes(string.bytes) > sizeof writer->buffer / 2)
            break;
        bytes += string_bytes(string.bytes);
    }
    need(writer, sizeof chunk + bytes);
    chunk.payload_bytes = (uint32_t)bytes;
    chunk.count = count;
    put(writer, &chunk, sizeof chunk);
    for (at = writer->used_bytes; count; count--) {
        const char *text;

        string.id = ++writer->strings;
        text = leati_trace_string_text(string.id, &string.bytes);
        put(writer, &string, sizeof string);
        put(writer, text, string.bytes);
        put(writer, zeros, string_bytes(string.bytes) - sizeof string - string.bytes);
    }
    leati_assert(writer->used_bytes - at == bytes);
    (void)at;
}

void leati_writer_add_strings(struct leati_trace_writer *writer)
{
    uint32_t last = leati_trace_string_count();

    while (writer->fd >= 0 && writer->strings < last)
        add_some_strings(writer, last);
}

void leati_writer_flush(struct leati_trace_writer *writer)
{
    size_t done;

    if (writer->fd >= 0 && writer->used_bytes) {
        done = leati_record_file_write(writer->fd, writer->is_regular, writer->written_bytes, writer->buffer,
                                       writer->used_bytes, &writer->error);
        if (done == writer->used_bytes) {
            writer->written_bytes += (off_t)done;
        } else {
            /* Fails for a pipe, for example, which then keeps the incomplete chunk. */
            (void)!ftruncate(writer->fd, writer->written_bytes);
            leati_writer_close(writer);
        }
    }
    writer->used_bytes = 0;
}

void leati_writer_close(struct leati_trace_writer *writer)
{
    if (writer->fd >= 0)
        close(writer->fd);
    writer->fd = -1;
}
