/*
 * trace_read.c - recorded allocations, read from a file: see trace_read.h for the formats.
 *
 * A trace that contradicts itself is refused with the line where it does: what a replay of it would show is the
 * mistake of whoever wrote or cut it.
 */
#include "trace_read.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <zlib.h>

enum { LINE_MAX_BYTES = 4096, FIELDS_MAX = 32, SHOWN_MAX = 40 };

enum column { COLUMN_TIME, COLUMN_OP, COLUMN_ID, COLUMN_BYTES, COLUMN_STREAM, COLUMN_COUNT };

static const char *const column_names[][COLUMN_COUNT] = {
    [TRACE_LEAT] = {"t_us", "op", "id", "bytes", "stream"},
    [TRACE_RMM] = {"Time", "Action", "Pointer", "Size", "Stream"},
};

enum { NO_BLOCK = UINT32_MAX };

/* From an id to its block: open addressing; a slot whose block is NO_BLOCK is empty, or its pointer is not live.
 */
struct slot {
    uint64_t id;
    uint32_t block;
    bool taken;
};

struct reader {
    const char *path;
    char *error;
    gzFile file;
    struct trace *trace;
    uint64_t line;                  /* number of the line in text, from 1 */
    uint64_t record;                /* number of the line among those that say something */
    unsigned columns[COLUMN_COUNT]; /* where each one is in a line */
    unsigned field_count;           /* of the header, and so of each line */
    char *fields[FIELDS_MAX];
    char text[LINE_MAX_BYTES];
    struct slot *slots;
    size_t slot_count, slots_taken; /* slot_count is a power of two */
    size_t event_room, block_room;
    uint64_t total_bytes; /* of all allocations */
    struct fate *fates;   /* one for each block */
};

/* What became of a block, while reading. */
struct fate {
    uint64_t free_record; /* 0: not freed yet */
    uint64_t free_line;
    bool freed;
};

const char *trace_format_name(enum trace_format format)
{
    return format == TRACE_RMM ? "rmm" : "leat";
}

/* ---- saying what is wrong ---- */

static bool complain(struct reader *reader, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Writes "FILE:LINE: ..." and returns false. */
static bool complain(struct reader *reader, const char *format, ...)
{
    va_list list;
    int used =
        snprintf(reader->error, TRACE_ERROR_MAX, "%.200s:%llu: ", reader->path, (unsigned long long)reader->line);

    va_start(list, format);
    vsnprintf(reader->error + used, TRACE_ERROR_MAX - (size_t)used, format, list);
    va_end(list);
    return false;
}

static bool out_of_memory(struct reader *reader)
{
    return complain(reader, "out of host memory");
}

/* ---- growing arrays ---- */

/* Room for one more element of size bytes. */
static bool make_room(void *array, size_t *room, size_t count, size_t size)
{
    size_t wanted = *room ? *room * 2 : 1024;
    void *old, *grown;

    if (count < *room)
        return true;
    memcpy(&old, array, sizeof old);
    grown = wanted > SIZE_MAX / size ? NULL : realloc(old, wanted * size);
    if (!grown)
        return false;
    memcpy(array, &grown, sizeof grown);
    *room = wanted;
    return true;
}

static struct slot *find_slot(struct reader *reader, uint64_t id)
{
    uint64_t hash = (id ^ id >> 32) * 0x9e3779b97f4a7c15u;
    size_t at = (size_t)(hash >> 20) & (reader->slot_count - 1);

    while (reader->slots[at].taken && reader->slots[at].id != id)
        at = (at + 1) & (reader->slot_count - 1);
    return &reader->slots[at];
}

/* Keeps the table at most half full. */
static bool grow_slots(struct reader *reader)
{
    struct slot *old = reader->slots;
    size_t old_count = reader->slot_count, i;

    if (old && reader->slots_taken < old_count / 2)
        return true;
    reader->slot_count = old ? old_count * 2 : 4096;
    reader->slots = calloc(reader->slot_count, sizeof *reader->slots);
    if (!reader->slots) {
        reader->slots = old;
        reader->slot_count = old_count;
        return false;
    }
    for (i = 0; i < old_count; i++)
        if (old[i].taken)
            *find_slot(reader, old[i].id) = old[i];
    free(old);
    return true;
}

/* ---- lines and fields ---- */

/* Whether the file could be read up to here; false after a complaint. */
static bool file_is_sound(struct reader *reader)
{
    int code;

    gzerror(reader->file, &code);
    if (code == Z_OK || code == Z_STREAM_END)
        return true;
    if (code == Z_ERRNO)
        return complain(reader, "the file cannot be read: %s", strerror(errno));
    return complain(reader, code == Z_BUF_ERROR ? "the compressed file ends in the middle; was it cut off?"
                                                : "the compressed file is damaged");
}

/* Reads the next line that is not empty. False at the end of the file, or after a complaint: *failed tells. */
static bool next_line(struct reader *reader, bool *failed)
{
    *failed = false;
    while (gzgets(reader->file, reader->text, sizeof reader->text)) {
        size_t length = strlen(reader->text);
        bool whole = length > 0 && reader->text[length - 1] == '\n';

        reader->line++;
        if (!whole && (!file_is_sound(reader) || !gzeof(reader->file))) {
            *failed = true;
            if (!file_is_sound(reader))
                return false;
            return complain(reader, "the line is longer than %d characters or holds a zero byte; is this a trace?",
                            LINE_MAX_BYTES - 2);
        }
        while (length > 0 && strchr("\r\n \t", reader->text[length - 1]))
            reader->text[--length] = '\0';
        if (length > 0) {
            reader->record++;
            return true;
        }
    }
    reader->line++;
    *failed = !file_is_sound(reader);
    reader->line -= !*failed;
    return false;
}

/* Cuts the line at its commas; blanks around a field do not count. Returns the number of fields, at most
 * FIELDS_MAX
 * + 1. */
static unsigned split(struct reader *reader)
{
    char *at = reader->text, *end;
    unsigned count = 0;

    for (;;) {
        char *comma = strchr(at, ',');

        end = comma ? comma : at + strlen(at);
        at += strspn(at, " \t");
        while (end > at && (end[-1] == ' ' || end[-1] == '\t'))
            end--;
        *end = '\0';
        if (count == FIELDS_MAX)
            return FIELDS_MAX + 1;
        reader->fields[count++] = at;
        if (!comma)
            return count;
        at = comma + 1;
    }
}

static const char *field(const struct reader *reader, enum column column)
{
    return reader->fields[reader->columns[column]];
}

static const char *column_name(const struct reader *reader, enum column column)
{
    return column_names[reader->trace->format][column];
}

/* A whole number, in decimal or, after 0x, in hexadecimal digits. */
static bool parse_number(const char *text, uint64_t *number)
{
    bool hexadecimal = text[0] == '0' && (text[1] == 'x' || text[1] == 'X');
    const char *digits = hexadecimal ? text + 2 : text;
    char *end;

    if (strspn(digits, hexadecimal ? "0123456789abcdefABCDEF" : "0123456789") == 0)
        return false;
    errno = 0;
    *number = strtoull(digits, &end, hexadecimal ? 16 : 10);
    return *end == '\0' && errno == 0;
}

static bool number_field(struct reader *reader, enum column column, uint64_t *number)
{
    if (parse_number(field(reader, column), number))
        return true;
    return complain(reader, "the column %s has '%.*s', which is no whole number", column_name(reader, column),
                    SHOWN_MAX, field(reader, column));
}

/* A null pointer is written in several ways. */
static bool pointer_field(struct reader *reader, enum column column, uint64_t *number)
{
    *number = 0;
    if (!strcmp(field(reader, column), "(nil)") || !strcmp(field(reader, column), "nullptr"))
        return true;
    return number_field(reader, column, number);
}

/* ---- the header line ---- */

/* Finds the columns of one format in the header line. False when one is missing; *found then counts the others. */
static bool find_columns(struct reader *reader, enum trace_format format, unsigned *found)
{
    unsigned column, i;

    *found = 0;
    for (column = 0; column < COLUMN_COUNT; column++)
        for (i = 0; i < reader->field_count; i++)
            if (!strcasecmp(reader->fields[i], column_names[format][column])) {
                reader->columns[column] = i;
                (*found)++;
                break;
            }
    return *found == COLUMN_COUNT;
}

static bool read_header(struct reader *reader)
{
    unsigned leat_found, rmm_found;
    bool failed;

    if (!next_line(reader, &failed)) {
        reader->line += !failed;
        return failed ? false : complain(reader, "the file is empty; a trace begins with a header line");
    }
    reader->field_count = split(reader);
    if (reader->field_count > FIELDS_MAX)
        return complain(reader, "the header line has more than %d columns", FIELDS_MAX);
    if (find_columns(reader, TRACE_LEAT, &leat_found)) {
        reader->trace->format = TRACE_LEAT;
        return true;
    }
    if (find_columns(reader, TRACE_RMM, &rmm_found)) {
        reader->trace->format = TRACE_RMM;
        return true;
    }
    return complain(
        reader,
        "this is not the header line of a trace: it needs the columns t_us,op,id,bytes,stream (leat) or "
        "Thread,Time,Action,Pointer,Size,Stream (RMM), and has %u of the first and %u of the second",
        leat_found, rmm_found);
}

/* ---- events ---- */

static bool stream_index(struct reader *reader, uint64_t number, uint16_t *index)
{
    struct trace *trace = reader->trace;
    unsigned i;

    for (i = 0; i < trace->stream_count; i++)
        if (trace->streams[i] == number) {
            *index = (uint16_t)i;
            return true;
        }
    if (trace->stream_count == TRACE_STREAMS_MAX)
        return complain(reader, "there are more than %d streams", TRACE_STREAMS_MAX);
    *index = (uint16_t)trace->stream_count;
    trace->streams[trace->stream_count++] = number;
    return true;
}

static bool add_event(struct reader *reader, enum trace_op op, uint32_t block, uint16_t stream)
{
    struct trace *trace = reader->trace;

    if (!make_room(&trace->events, &reader->event_room, trace->event_count, sizeof *trace->events))
        return out_of_memory(reader);
    trace->events[trace->event_count++] = (struct trace_event){block, stream, (uint16_t)op};
    return true;
}

static bool add_block(struct reader *reader, uint64_t id, uint64_t bytes, uint16_t stream)
{
    struct trace *trace = reader->trace;
    size_t fate_room = reader->block_room;
    struct slot *slot;

    if (trace->block_count == NO_BLOCK)
        return complain(reader, "there are more allocations than this program can number");
    /* So no sum of live blocks can overflow. */
    if (bytes > UINT64_MAX - reader->total_bytes)
        return complain(reader, "%llu bytes cannot be right: all allocations together exceed 2^64 bytes",
                        (unsigned long long)bytes);
    reader->total_bytes += bytes;
    if (!make_room(&reader->fates, &fate_room, trace->block_count, sizeof *reader->fates) ||
        !make_room(&trace->blocks, &reader->block_room, trace->block_count, sizeof *trace->blocks) ||
        !grow_slots(reader))
        return out_of_memory(reader);
    slot = find_slot(reader, id);
    reader->slots_taken += !slot->taken;
    *slot = (struct slot){id, (uint32_t)trace->block_count, true};
    reader->fates[trace->block_count] = (struct fate){0, 0, false};
    trace->blocks[trace->block_count++] = (struct trace_block){id, bytes, reader->line, stream, false};
    return add_event(reader, TRACE_ALLOC, slot->block, stream);
}

/* The block of an id, or NO_BLOCK. */
static uint32_t find_block(struct reader *reader, uint64_t id)
{
    struct slot *slot = reader->slots ? find_slot(reader, id) : NULL;

    return slot && slot->taken ? slot->block : NO_BLOCK;
}

/* The block that a line "free" or "freed" of leat's format speaks of; all its columns must fit. */
static bool known_block(struct reader *reader, uint64_t id, uint64_t bytes, uint16_t stream, uint32_t *index)
{
    const struct trace *trace = reader->trace;
    const struct trace_block *block;

    *index = find_block(reader, id);
    if (*index == NO_BLOCK)
        return complain(reader, "block %llu was never allocated", (unsigned long long)id);
    block = &trace->blocks[*index];
    if (block->bytes != bytes)
        return complain(reader, "block %llu has %llu bytes here, and was allocated with %llu in line %llu",
                        (unsigned long long)id, (unsigned long long)bytes, (unsigned long long)block->bytes,
                        (unsigned long long)block->line);
    if (block->stream != stream)
        return complain(reader, "block %llu is of stream %llu here, and was allocated on stream %llu in line %llu",
                        (unsigned long long)id, (unsigned long long)trace->streams[stream],
                        (unsigned long long)trace->streams[block->stream], (unsigned long long)block->line);
    return true;
}

static bool leat_free_line(struct reader *reader, uint32_t block, uint16_t stream)
{
    struct fate *fate = &reader->fates[block];

    if (fate->free_record)
        return complain(reader, "block %llu was freed already, in line %llu",
                        (unsigned long long)reader->trace->blocks[block].id, (unsigned long long)fate->free_line);
    fate->free_record = reader->record;
    fate->free_line = reader->line;
    reader->trace->blocks[block].used_elsewhere = true; /* unless "freed" is the next line */
    return add_event(reader, TRACE_FREE, block, stream);
}

static bool leat_freed_line(struct reader *reader, uint32_t block, uint16_t stream)
{
    struct fate *fate = &reader->fates[block];
    unsigned long long id = reader->trace->blocks[block].id;

    if (!fate->free_record)
        return complain(reader, "block %llu is 'freed' without having been given to 'free' before", id);
    if (fate->freed)
        return complain(reader, "block %llu is 'freed' a second time", id);
    fate->freed = true;
    reader->trace->has_freed = true;
    if (fate->free_record + 1 == reader->record)
        reader->trace->blocks[block].used_elsewhere = false;
    return add_event(reader, TRACE_FREED, block, stream);
}

static bool read_leat_line(struct reader *reader)
{
    const char *op = field(reader, COLUMN_OP);
    uint64_t time, id, bytes, number;
    uint16_t stream = 0;
    uint32_t block;

    if (strcmp(op, "alloc") && strcmp(op, "free") && strcmp(op, "freed"))
        return complain(reader, "the op is '%.*s', and must be alloc, free or freed", SHOWN_MAX, op);
    if (!number_field(reader, COLUMN_TIME, &time) || !number_field(reader, COLUMN_ID, &id) ||
        !number_field(reader, COLUMN_BYTES, &bytes) || !number_field(reader, COLUMN_STREAM, &number) ||
        !stream_index(reader, number, &stream))
        return false;
    block = find_block(reader, id);
    if (bytes == 0 && block == NO_BLOCK)
        return true; /* no allocator gives memory for it */
    if (!strcmp(op, "alloc")) {
        if (block == NO_BLOCK)
            return add_block(reader, id, bytes, stream);
        return complain(reader, "block %llu was allocated already, in line %llu, and numbers are not used twice",
                        (unsigned long long)id, (unsigned long long)reader->trace->blocks[block].line);
    }
    if (!known_block(reader, id, bytes, stream, &block))
        return false;
    return !strcmp(op, "free") ? leat_free_line(reader, block, stream) : leat_freed_line(reader, block, stream);
}

/* RMM gives a pointer again once it was freed, and a free has a stream of its own. Its sizes of frees are what the
 * program said, so the block's own count. */
static bool read_rmm_line(struct reader *reader)
{
    const char *action = field(reader, COLUMN_OP);
    bool frees = !strcmp(action, "free") || !strcmp(action, "deallocate");
    uint64_t pointer, bytes, number;
    uint16_t stream = 0;
    uint32_t block;

    if (strcmp(action, "allocate") && strcmp(action, "allocate failure") && !frees)
        return complain(reader, "the action is '%.*s', and must be allocate, free or allocate failure", SHOWN_MAX,
                        action);
    if (!pointer_field(reader, COLUMN_ID, &pointer) || !number_field(reader, COLUMN_BYTES, &bytes) ||
        !pointer_field(reader, COLUMN_STREAM, &number) || !stream_index(reader, number, &stream))
        return false;
    if (!strcmp(action, "allocate failure")) {
        reader->trace->failures++;
        return true;
    }
    block = find_block(reader, pointer);
    if (bytes == 0 && (!frees || block == NO_BLOCK))
        return true;
    if (!frees && block != NO_BLOCK)
        return complain(reader, "pointer 0x%llx was allocated in line %llu and is not free yet",
                        (unsigned long long)pointer, (unsigned long long)reader->trace->blocks[block].line);
    if (!frees)
        return add_block(reader, pointer, bytes, stream);
    if (block == NO_BLOCK)
        return complain(reader, "pointer 0x%llx is not allocated", (unsigned long long)pointer);
    find_slot(reader, pointer)->block = NO_BLOCK;
    return add_event(reader, TRACE_FREE, block, stream);
}

static bool read_lines(struct reader *reader)
{
    bool failed;

    while (next_line(reader, &failed)) {
        unsigned count = split(reader);

        if (count != reader->field_count)
            return complain(reader, "the line has %s%u columns, and the header line has %u",
                            count > FIELDS_MAX ? "more than " : "", count > FIELDS_MAX ? FIELDS_MAX : count,
                            reader->field_count);
        if (!(reader->trace->format == TRACE_LEAT ? read_leat_line(reader) : read_rmm_line(reader)))
            return false;
    }
    if (!failed && reader->trace->block_count == 0)
        return complain(reader, "the file has no allocation");
    return !failed;
}

static void settle(struct trace *trace)
{
    size_t i;

    /* A recorder that never says "freed" does not tell which blocks other streams used. */
    for (i = 0; i < trace->block_count && !trace->has_freed; i++)
        trace->blocks[i].used_elsewhere = false;
}

struct trace *trace_read(const char *path, char error[TRACE_ERROR_MAX])
{
    struct reader reader = {.path = path, .error = error};
    struct trace *trace = calloc(1, sizeof *trace);
    bool fine = false;

    reader.trace = trace;
    errno = 0;
    reader.file = gzopen(path, "re");
    if (!trace || !reader.file)
        snprintf(error, TRACE_ERROR_MAX, "%.300s cannot be opened: %s", path, strerror(errno ? errno : ENOMEM));
    else
        fine = read_header(&reader) && read_lines(&reader);
    if (reader.file)
        gzclose(reader.file);
    free(reader.slots);
    free(reader.fates);
    if (!fine) {
        trace_destroy(trace);
        return NULL;
    }
    settle(trace);
    return trace;
}

void trace_destroy(struct trace *trace)
{
    if (!trace)
        return;
    free(trace->events);
    free(trace->blocks);
    free(trace);
}

uint64_t trace_peak_bytes(const struct trace *trace, bool until_freed, size_t *event)
{
    enum trace_op end = until_freed ? TRACE_FREED : TRACE_FREE;
    uint64_t live_bytes = 0, peak_bytes = 0;
    size_t i;

    for (i = 0; i < trace->event_count; i++) {
        uint64_t bytes = trace->blocks[trace->events[i].block].bytes;

        if (trace->events[i].op == TRACE_ALLOC)
            live_bytes += bytes;
        else if (trace->events[i].op == end)
            live_bytes -= bytes;
        if (live_bytes > peak_bytes) {
            peak_bytes = live_bytes;
            if (event)
                *event = i;
        }
    }
    return peak_bytes;
}
