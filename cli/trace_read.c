/*
 * trace_read.c - reads recorded allocations from a file: recognizes its format, and reads the two CSV formats; see
 * trace_read.h.
 *
 * It refuses a trace that contradicts itself, with the number of the line. A replay of such a trace would only
 * show the mistake of the program that wrote or cut it.
 */
#include "trace_read.h"
#include "trace_make.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>
#include <zlib.h>

enum { LINE_MAX_BYTES = 4096, FIELDS_MAX = 32, SHOWN_MAX = 40 };

/* The first byte of every pickle of protocol 2 or later. No text begins with it. */
enum { PICKLE_FIRST_BYTE = 0x80 };

enum column { COLUMN_TIME, COLUMN_OP, COLUMN_ID, COLUMN_BYTES, COLUMN_STREAM, COLUMN_COUNT };

static const char *const column_names[][COLUMN_COUNT] = {
    [TRACE_LEAT] = {"t_us", "op", "id", "bytes", "stream"},
    [TRACE_RMM] = {"Time", "Action", "Pointer", "Size", "Stream"},
};

/* The additional columns of a trace that leat recorded itself. The column "pool" identifies such a trace. */
enum extra { EXTRA_POOL, EXTRA_EVENT, EXTRA_ALIGN, EXTRA_KIND, EXTRA_NAME, EXTRA_COUNT };

static const char *const extra_names[EXTRA_COUNT] = {"pool", "event", "align", "kind", "name"};

struct reader {
    struct trace_maker *maker;
    gzFile file;
    unsigned columns[COLUMN_COUNT]; /* index of each column's field in a line */
    unsigned extras[EXTRA_COUNT];   /* leat: index of each additional column; FIELDS_MAX: missing in this file */
    unsigned thread_column;         /* RMM: index of the column "Thread", or FIELDS_MAX */
    unsigned field_count;           /* number of fields of the header line, and so of each line */
    char *fields[FIELDS_MAX];
    char text[LINE_MAX_BYTES];
};

const char *trace_format_name(enum trace_format format)
{
    static const char *const names[] = {[TRACE_LEAT] = "leat", [TRACE_RMM] = "rmm", [TRACE_PYTORCH] = "pytorch"};

    return names[format];
}

const char *trace_place(const struct trace *trace, uint32_t block, char text[TRACE_PLACE_MAX])
{
    const struct trace_block *place = &trace->blocks[block];

    if (place->before)
        snprintf(text, TRACE_PLACE_MAX, "a block from before the recording");
    else if (trace->format == TRACE_PYTORCH)
        snprintf(text, TRACE_PLACE_MAX, "device_traces[%u][%llu]", trace->device,
                 (unsigned long long)place->place);
    else
        snprintf(text, TRACE_PLACE_MAX, "line %llu", (unsigned long long)place->place);
    return text;
}

/* ---- lines and fields ---- */

/* Returns true if the file could be read up to here, otherwise false with the error set. */
static bool file_is_sound(struct reader *reader)
{
    int code;

    gzerror(reader->file, &code);
    if (code == Z_OK || code == Z_STREAM_END)
        return true;
    if (code == Z_ERRNO)
        return trace_complain(reader->maker, "the file cannot be read: %s", strerror(errno));
    return trace_complain(reader->maker, code == Z_BUF_ERROR
                                             ? "the compressed file ends in the middle; was it cut off?"
                                             : "the compressed file is damaged");
}

/* Reads the next line that is not empty. Returns false at the end of the file, and after an error, which also sets
 * *failed. */
static bool next_line(struct reader *reader, bool *failed)
{
    *failed = false;
    while (gzgets(reader->file, reader->text, sizeof reader->text)) {
        size_t length = strlen(reader->text);
        bool whole = length > 0 && reader->text[length - 1] == '\n';

        reader->maker->place++;
        if (!whole && (!file_is_sound(reader) || !gzeof(reader->file))) {
            *failed = true;
            if (!file_is_sound(reader))
                return false;
            return trace_complain(reader->maker,
                                  "the line is longer than %d characters or holds a zero byte; is this a trace?",
                                  LINE_MAX_BYTES - 2);
        }
        while (length > 0 && strchr("\r\n \t", reader->text[length - 1]))
            reader->text[--length] = '\0';
        if (length > 0) {
            reader->maker->record++;
            return true;
        }
    }
    reader->maker->place++;
    *failed = !file_is_sound(reader);
    reader->maker->place -= !*failed;
    return false;
}

/* Splits the line at its commas and removes blanks around fields. Returns the number of fields, at most FIELDS_MAX
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
    return column_names[reader->maker->trace->format][column];
}

/* Reads a whole number of base 10 or 16. A number that begins with 0x is hexadecimal in any case. */
static bool parse_number(const char *text, int base, uint64_t *number)
{
    bool marked = text[0] == '0' && (text[1] == 'x' || text[1] == 'X');
    const char *digits = marked ? text + 2 : text;
    char *end;

    base = marked ? 16 : base;
    if (strspn(digits, base == 16 ? "0123456789abcdefABCDEF" : "0123456789") == 0)
        return false;
    errno = 0;
    *number = strtoull(digits, &end, base);
    return *end == '\0' && errno == 0;
}

static bool number_in(struct reader *reader, enum column column, int base, uint64_t *number)
{
    *number = 0;
    if (parse_number(field(reader, column), base, number))
        return true;
    return trace_complain(reader->maker, "the column %s has '%.*s', which is no whole number",
                          column_name(reader, column), SHOWN_MAX, field(reader, column));
}

static bool number_field(struct reader *reader, enum column column, uint64_t *number)
{
    return number_in(reader, column, 10, number);
}

/* Reads a pointer or a stream of RMM. It is always hexadecimal; "(nil)" is a null pointer. */
static bool pointer_field(struct reader *reader, enum column column, uint64_t *number)
{
    *number = 0;
    if (!strcmp(field(reader, column), "(nil)") || !strcmp(field(reader, column), "nullptr"))
        return true;
    return number_in(reader, column, 16, number);
}

/* ---- the header line ---- */

/* Returns the index of a name in the header line, or FIELDS_MAX if it is not there. */
static unsigned find_column(const struct reader *reader, const char *name)
{
    unsigned i;

    for (i = 0; i < reader->field_count; i++)
        if (!strcasecmp(reader->fields[i], name))
            return i;
    return FIELDS_MAX;
}

/* Finds the columns of one format in the header line. Returns false if a column is missing. *found receives the
 * number of columns that were found. */
static bool find_columns(struct reader *reader, enum trace_format format, unsigned *found)
{
    unsigned column;

    *found = 0;
    for (column = 0; column < COLUMN_COUNT; column++) {
        reader->columns[column] = find_column(reader, column_names[format][column]);
        *found += reader->columns[column] < FIELDS_MAX;
    }
    return *found == COLUMN_COUNT;
}

static bool read_header(struct reader *reader)
{
    struct trace *trace = reader->maker->trace;
    unsigned leat_found, rmm_found;
    unsigned extra;
    bool failed;

    if (!next_line(reader, &failed)) {
        reader->maker->place += !failed;
        return failed ? false
                      : trace_complain(reader->maker, "the file is empty; a trace begins with a header line");
    }
    reader->field_count = split(reader);
    if (reader->field_count > FIELDS_MAX)
        return trace_complain(reader->maker, "the header line has more than %d columns", FIELDS_MAX);
    if (find_columns(reader, TRACE_LEAT, &leat_found)) {
        trace->format = TRACE_LEAT;
        for (extra = 0; extra < EXTRA_COUNT; extra++)
            reader->extras[extra] = find_column(reader, extra_names[extra]);
        return true;
    }
    if (find_columns(reader, TRACE_RMM, &rmm_found)) {
        trace->format = TRACE_RMM;
        reader->thread_column = find_column(reader, "Thread");
        return true;
    }
    return trace_complain(
        reader->maker,
        "this is not the header line of a trace: it needs the columns t_us,op,id,bytes,stream (leat) or Thread,Time,Action,Pointer,Size,Stream (RMM), and has %u of the first and %u of the second",
        leat_found, rmm_found);
}

/* ---- leat's format ---- */

/* Finds the block of a line "free" or "freed". The line must have the size and the stream of the allocation. */
static bool known_block(struct reader *reader, uint64_t id, uint64_t bytes, uint16_t stream, uint32_t *index)
{
    const struct trace *trace = reader->maker->trace;
    const struct trace_block *block;

    *index = trace_find_block(reader->maker, id);
    if (*index == TRACE_NO_BLOCK)
        return trace_complain(reader->maker, "block %llu was never allocated", (unsigned long long)id);
    block = &trace->blocks[*index];
    if (block->bytes != bytes)
        return trace_complain(reader->maker,
                              "block %llu has %llu bytes here, and was allocated with %llu in line %llu",
                              (unsigned long long)id, (unsigned long long)bytes, (unsigned long long)block->bytes,
                              (unsigned long long)block->place);
    if (block->stream != stream)
        return trace_complain(reader->maker,
                              "block %llu is of stream %llu here, and was allocated on stream %llu in line %llu",
                              (unsigned long long)id, (unsigned long long)trace->streams[stream],
                              (unsigned long long)trace->streams[block->stream], (unsigned long long)block->place);
    return true;
}

static bool leat_free_line(struct reader *reader, uint32_t block, uint16_t stream)
{
    const struct trace_fate *fate = &reader->maker->fates[block];

    if (fate->free_record)
        return trace_complain(reader->maker, "block %llu was freed already, in line %llu",
                              (unsigned long long)reader->maker->trace->blocks[block].id,
                              (unsigned long long)fate->free_place);
    return trace_make_free(reader->maker, block, stream);
}

static bool leat_freed_line(struct reader *reader, uint32_t block, uint16_t stream)
{
    const struct trace_fate *fate = &reader->maker->fates[block];
    unsigned long long id = reader->maker->trace->blocks[block].id;

    if (!fate->free_record)
        return trace_complain(reader->maker, "block %llu is 'freed' without having been given to 'free' before",
                              id);
    if (fate->freed)
        return trace_complain(reader->maker, "block %llu is 'freed' a second time", id);
    return trace_make_freed(reader->maker, block, stream);
}

static bool read_leat_line(struct reader *reader)
{
    struct trace_maker *maker = reader->maker;
    const char *op = field(reader, COLUMN_OP);
    uint64_t time = 0, id = 0, bytes = 0, number = 0;
    uint16_t stream = 0;
    uint32_t block;

    if (strcmp(op, "alloc") && strcmp(op, "free") && strcmp(op, "freed"))
        return trace_complain(maker, "the op is '%.*s', and must be alloc, free or freed", SHOWN_MAX, op);
    if (!number_field(reader, COLUMN_TIME, &time) || !number_field(reader, COLUMN_ID, &id) ||
        !number_field(reader, COLUMN_BYTES, &bytes) || !number_field(reader, COLUMN_STREAM, &number) ||
        !trace_make_stream(maker, number, &stream))
        return false;
    block = trace_find_block(maker, id);
    if (bytes == 0 && block == TRACE_NO_BLOCK)
        return true; /* ignore blocks of 0 bytes, for which no allocator returns memory */
    if (!strcmp(op, "alloc")) {
        if (block == TRACE_NO_BLOCK)
            return trace_make_alloc(maker, id, bytes, stream);
        return trace_complain(maker,
                              "block %llu was allocated already, in line %llu, and numbers are not used twice",
                              (unsigned long long)id, (unsigned long long)maker->trace->blocks[block].place);
    }
    if (!known_block(reader, id, bytes, stream, &block))
        return false;
    return !strcmp(op, "free") ? leat_free_line(reader, block, stream) : leat_freed_line(reader, block, stream);
}

/* ---- traces that leat recorded itself ---- */

/* Returns the text of an additional column, or "" if the file does not have it. */
static const char *extra_field(const struct reader *reader, enum extra extra)
{
    return reader->extras[extra] < FIELDS_MAX ? reader->fields[reader->extras[extra]] : "";
}

/* Reads the number of a block, stream, pool or event and adds tag: TRACE_ID_POOL for a pool, TRACE_ID_MARK for an
 * event, otherwise 0. */
static bool name_in(struct reader *reader, const char *column, const char *text, uint64_t tag, uint64_t *id)
{
    *id = 0;
    if (!parse_number(text, 10, id))
        return trace_complain(reader->maker, "the column %s has '%.*s', which is no whole number", column,
                              SHOWN_MAX, text);
    if (*id >= TRACE_ID_POOL)
        return trace_complain(reader->maker, "the column %s has %llu, which is too large", column,
                              (unsigned long long)*id);
    *id |= tag;
    return true;
}

static bool block_name(struct reader *reader, uint64_t *id)
{
    return name_in(reader, "id", field(reader, COLUMN_ID), 0, id);
}

static bool event_name(struct reader *reader, uint64_t *id)
{
    return name_in(reader, "event", extra_field(reader, EXTRA_EVENT), TRACE_ID_MARK, id);
}

static bool stream_number(struct reader *reader, uint64_t *number)
{
    return name_in(reader, "stream", field(reader, COLUMN_STREAM), 0, number);
}

static bool recorded_stream(struct reader *reader, uint16_t *stream)
{
    uint64_t number;

    return stream_number(reader, &number) && trace_make_stream(reader->maker, number, stream);
}

/* Reads the stream of a block, which may be "host". */
static bool stream_or_host(struct reader *reader, uint16_t *stream)
{
    if (strcmp(field(reader, COLUMN_STREAM), "host") != 0)
        return recorded_stream(reader, stream);
    if (!trace_make_stream(reader->maker, TRACE_HOST, stream))
        return false;
    reader->maker->trace->host_stream = *stream;
    return true;
}

/* Finds the block of a line, which must be allocated and not freed yet. */
static bool live_block(struct reader *reader, uint32_t *block)
{
    struct trace_maker *maker = reader->maker;
    uint64_t id;

    if (!block_name(reader, &id))
        return false;
    *block = trace_find_block(maker, id);
    if (*block == TRACE_NO_BLOCK)
        return trace_complain(maker, "block %llu was never allocated", (unsigned long long)id);
    if (maker->fates[*block].free_record)
        return trace_complain(maker, "block %llu was freed already, in line %llu", (unsigned long long)id,
                              (unsigned long long)maker->fates[*block].free_place);
    return true;
}

/* Finds the mark of an event, that is, its latest record. *mark is TRACE_NO_BLOCK if the event was never
 * recorded. */
static bool find_mark(struct reader *reader, uint32_t *mark)
{
    uint64_t id;

    if (!event_name(reader, &id))
        return false;
    *mark = trace_find_block(reader->maker, id);
    return true;
}

static bool pool_line(struct reader *reader)
{
    const char *kind = extra_field(reader, EXTRA_KIND);
    struct trace_maker *maker = reader->maker;
    uint64_t id;
    int i;

    if (!name_in(reader, "pool", extra_field(reader, EXTRA_POOL), TRACE_ID_POOL, &id))
        return false;
    for (i = LEAT_KIND_PINNED; i <= LEAT_KIND_MANAGED; i++)
        if (!strcmp(kind, leat_kind_name((leat_kind)i)))
            return trace_make_pool(maker, (leat_kind)i, extra_field(reader, EXTRA_NAME)) &&
                   trace_name(maker, id, (uint32_t)maker->trace->pool_count - 1);
    return trace_complain(maker, "the column kind has '%.*s', and must be device, pinned or managed", SHOWN_MAX,
                          kind);
}

static bool recorded_alloc_line(struct reader *reader)
{
    const char *pool_text = extra_field(reader, EXTRA_POOL), *align = extra_field(reader, EXTRA_ALIGN);
    struct trace_maker *maker = reader->maker;
    struct trace *trace = maker->trace;
    uint64_t id, bytes, alignment = 0, number;
    uint32_t pool = 0;
    uint16_t stream;

    if (!block_name(reader, &id) || !number_field(reader, COLUMN_BYTES, &bytes) ||
        !stream_or_host(reader, &stream))
        return false;
    if (*pool_text) {
        if (!name_in(reader, "pool", pool_text, TRACE_ID_POOL, &number))
            return false;
        pool = trace_find_block(maker, number);
        if (pool == TRACE_NO_BLOCK)
            return trace_complain(maker, "pool %.*s was not created", SHOWN_MAX, pool_text);
    }
    if (*align && (!parse_number(align, 10, &alignment) || (alignment & (alignment - 1)) != 0))
        return trace_complain(maker, "the column align has '%.*s', which is no power of two", SHOWN_MAX, align);
    if (trace_find_block(maker, id) != TRACE_NO_BLOCK)
        return trace_complain(maker, "block %llu was allocated already, and numbers are not used twice",
                              (unsigned long long)id);
    if (!trace_make_alloc(maker, id, bytes, stream))
        return false;
    trace->blocks[trace->block_count - 1].pool = pool;
    trace->blocks[trace->block_count - 1].alignment = alignment;
    return true;
}

static bool recorded_free_line(struct reader *reader)
{
    uint32_t block;
    uint16_t stream;

    return live_block(reader, &block) && stream_or_host(reader, &stream) &&
           trace_make_free(reader->maker, block, stream);
}

static bool failed_line(struct reader *reader)
{
    reader->maker->trace->failures++;
    return true;
}

static bool use_line(struct reader *reader)
{
    struct trace_event event = {.op = TRACE_USE};

    if (!live_block(reader, &event.block) || !recorded_stream(reader, &event.stream))
        return false;
    reader->maker->trace->blocks[event.block].is_reported = true;
    return trace_make_event(reader->maker, event);
}

static bool use_until_line(struct reader *reader)
{
    struct trace_event event = {.op = TRACE_USE_UNTIL};

    if (!live_block(reader, &event.block) || !find_mark(reader, &event.mark))
        return false;
    if (event.mark == TRACE_NO_BLOCK)
        return true;
    reader->maker->trace->blocks[event.block].is_reported = true;
    return trace_make_event(reader->maker, event);
}

static bool record_line(struct reader *reader)
{
    struct trace_event event = {.op = TRACE_RECORD};
    struct trace_maker *maker = reader->maker;
    uint64_t id;

    if (!event_name(reader, &id) || !recorded_stream(reader, &event.stream))
        return false;
    event.mark = trace_find_block(maker, id);
    if (event.mark == TRACE_NO_BLOCK) {
        event.mark = (uint32_t)maker->trace->mark_count++;
        if (!trace_name(maker, id, event.mark))
            return false;
    }
    return trace_make_event(maker, event);
}

static bool wait_line(struct reader *reader)
{
    struct trace_event event = {.op = TRACE_WAIT};

    if (!recorded_stream(reader, &event.stream) || !find_mark(reader, &event.mark))
        return false;
    return event.mark == TRACE_NO_BLOCK || trace_make_event(reader->maker, event);
}

static bool sync_line(struct reader *reader)
{
    struct trace_event event = {.op = TRACE_SYNC_ALL};

    if (*extra_field(reader, EXTRA_EVENT)) {
        event.op = TRACE_SYNC_MARK;
        if (!find_mark(reader, &event.mark))
            return false;
    } else if (*field(reader, COLUMN_STREAM)) {
        event.op = TRACE_SYNC;
        if (!recorded_stream(reader, &event.stream))
            return false;
    }
    return event.mark == TRACE_NO_BLOCK || trace_make_event(reader->maker, event);
}

static bool event_end_line(struct reader *reader)
{
    struct trace_event event = {.op = TRACE_MARK_END};
    uint64_t id;

    if (!event_name(reader, &id))
        return false;
    event.mark = trace_find_block(reader->maker, id);
    trace_forget_id(reader->maker, id);
    return event.mark == TRACE_NO_BLOCK || trace_make_event(reader->maker, event);
}

static bool stream_end_line(struct reader *reader)
{
    uint64_t number;

    return stream_number(reader, &number) && trace_make_stream_end(reader->maker, number);
}

/* Ignores the end of a pool, because all recorded pools of one kind are replayed as one pool. */
static bool no_line(struct reader *reader)
{
    (void)reader;
    return true;
}

static bool read_recorded_line(struct reader *reader)
{
    static const struct {
        const char *op;
        bool (*read)(struct reader *reader);
    } ops[] = {{"alloc", recorded_alloc_line},
               {"free", recorded_free_line},
               {"use", use_line},
               {"use_until", use_until_line},
               {"record", record_line},
               {"wait", wait_line},
               {"sync", sync_line},
               {"event_destroy", event_end_line},
               {"stream_destroy", stream_end_line},
               {"pool_create", pool_line},
               {"pool_destroy", no_line},
               {"alloc_failed", failed_line}};
    const char *op = field(reader, COLUMN_OP);
    size_t i;

    for (i = 0; i < sizeof ops / sizeof ops[0]; i++)
        if (!strcmp(op, ops[i].op))
            return ops[i].read(reader);
    return trace_complain(reader->maker, "there is no op '%.*s'; a newer leat may have written this trace",
                          SHOWN_MAX, op);
}

/* ---- RMM's logs ---- */

/* Reads the stream of a line. CUDA's per-thread default stream has the same handle in all threads, although it is
 * a different stream in each thread; so this function makes a number from the handle and the thread. */
static bool rmm_stream(struct reader *reader, uint16_t *index)
{
    enum {
        PER_THREAD = 2,
        THREAD_SHIFT = 8
    }; /* the numbers made from these are so small that no
        * stream's handle equals them */
    uint64_t number, thread;

    if (!pointer_field(reader, COLUMN_STREAM, &number))
        return false;
    if (number == PER_THREAD && reader->thread_column < FIELDS_MAX) {
        const char *text = reader->fields[reader->thread_column];

        if (!parse_number(text, 10, &thread))
            return trace_complain(reader->maker, "the column Thread has '%.*s', which is no whole number",
                                  SHOWN_MAX, text);
        number |= thread << THREAD_SHIFT;
    }
    return trace_make_stream(reader->maker, number, index);
}

/* Reads a line of RMM's log. A pointer may be used again after its free, and a free may be on another stream. The
 * size in the line of a free is the program's argument, so use the size of the allocation instead. */
static bool read_rmm_line(struct reader *reader)
{
    struct trace_maker *maker = reader->maker;
    const char *action = field(reader, COLUMN_OP);
    bool frees = !strcmp(action, "free") || !strcmp(action, "deallocate");
    uint64_t pointer = 0, bytes = 0;
    uint16_t stream = 0;
    uint32_t block;

    if (strcmp(action, "allocate") && strcmp(action, "allocate failure") && !frees)
        return trace_complain(maker, "the action is '%.*s', and must be allocate, free or allocate failure",
                              SHOWN_MAX, action);
    if (!pointer_field(reader, COLUMN_ID, &pointer) || !number_field(reader, COLUMN_BYTES, &bytes) ||
        !rmm_stream(reader, &stream))
        return false;
    if (!strcmp(action, "allocate failure")) {
        maker->trace->failures++;
        return true;
    }
    block = trace_find_block(maker, pointer);
    if (bytes == 0 && (!frees || block == TRACE_NO_BLOCK))
        return true;
    if (!frees && block != TRACE_NO_BLOCK)
        return trace_complain(maker, "pointer 0x%llx was allocated in line %llu and is not free yet",
                              (unsigned long long)pointer, (unsigned long long)maker->trace->blocks[block].place);
    if (!frees)
        return trace_make_alloc(maker, pointer, bytes, stream);
    if (block == TRACE_NO_BLOCK)
        return trace_complain(maker, "pointer 0x%llx is not allocated", (unsigned long long)pointer);
    trace_forget_id(maker, pointer);
    return trace_make_free(maker, block, stream);
}

/* ---- the whole file ---- */

static bool read_lines(struct reader *reader)
{
    bool (*read_line)(struct reader * reader) = reader->maker->trace->format == TRACE_RMM ? read_rmm_line
                                                : reader->extras[EXTRA_POOL] < FIELDS_MAX ? read_recorded_line
                                                                                          : read_leat_line;
    bool failed;

    while (next_line(reader, &failed)) {
        unsigned count = split(reader);

        if (count != reader->field_count)
            return trace_complain(reader->maker, "the line has %s%u columns, and the header line has %u",
                                  count > FIELDS_MAX ? "more than " : "", count > FIELDS_MAX ? FIELDS_MAX : count,
                                  reader->field_count);
        if (!read_line(reader))
            return false;
    }
    if (!failed && reader->maker->trace->block_count == 0)
        return trace_complain(reader->maker, "the file has no allocation");
    return !failed;
}

/* Reads a file in CSV or a pickle. The first byte, which is then put back, shows which of them it is. */
static bool read_file(struct trace_maker *maker, gzFile file, int device)
{
    struct reader reader = {.maker = maker, .file = file};
    int first = gzgetc(file);

    if (first >= 0)
        gzungetc(first, file);
    if (first == PICKLE_FIRST_BYTE)
        return trace_read_snapshot(maker, file, device);
    return read_header(&reader) && read_lines(&reader);
}

/* Opens standard input by a duplicate of its descriptor, so that closing the result leaves it open. */
static gzFile open_standard_input(void)
{
    int descriptor = fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 3);
    gzFile file = descriptor >= 0 ? gzdopen(descriptor, "r") : NULL;

    if (!file && descriptor >= 0) {
        close(descriptor);
        errno = ENOMEM;
    }
    return file;
}

struct trace *trace_read(const char *path, int device, char error[TRACE_ERROR_MAX])
{
    struct trace_maker maker;
    bool whole = false;
    gzFile file;

    if (!trace_maker_begin(&maker, path, error))
        return NULL;
    errno = 0;
    file = strcmp(path, "-") != 0 ? gzopen(path, "re") : open_standard_input();
    if (file) {
        whole = read_file(&maker, file, device);
        gzclose(file);
    } else {
        snprintf(error, TRACE_ERROR_MAX, "%.300s cannot be opened: %s", path, strerror(errno ? errno : ENOMEM));
    }
    return trace_maker_end(&maker, whole);
}
