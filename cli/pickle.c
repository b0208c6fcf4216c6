/*
 * pickle.c - reads the plain data of a file that Python's pickle module wrote: see pickle.h.
 *
 * Each opcode makes at most one value, so memory grows with the bytes that were read, never with a number in the
 * file. Nothing is recursive, so nested data cannot exhaust the stack.
 */
#include "pickle.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BUFFER_BYTES = 1 << 16, VALUES_PER_CHUNK = 4096, TEXT_CHUNK_BYTES = 1 << 16 };
enum { OLDEST_PROTOCOL = 2, NEWEST_PROTOCOL = 5 };

enum type {
    TYPE_NONE,
    TYPE_BOOL,
    TYPE_INTEGER,
    TYPE_LARGE_INTEGER, /* an integer of more than 64 bits, whose value is not kept */
    TYPE_FLOAT,         /* the values of this and the next two types are not kept either */
    TYPE_BYTES,
    TYPE_SET,
    TYPE_TEXT,
    TYPE_TUPLE,
    TYPE_LIST,
    TYPE_DICT
};

struct pickle_value {
    enum type type;
    uint32_t room;  /* number of items for which there is room */
    uint32_t count; /* number of items; in a dict keys and values alternate */
    union {
        int64_t integer;
        const char *text;
        const struct pickle_value **items;
    };
};

struct value_chunk {
    struct value_chunk *next;
    size_t used;
    struct pickle_value values[VALUES_PER_CHUNK];
};

struct text_chunk {
    struct text_chunk *next;
    size_t used;
    char bytes[TEXT_CHUNK_BYTES];
};

struct pickle {
    const struct pickle_value *root;
    struct value_chunk *values;
    struct text_chunk *texts;
};

/* An array of values that grows at its end. */
struct values {
    struct pickle_value **at;
    size_t count, room;
};

struct machine {
    gzFile file;
    char *error;
    struct pickle *pickle;
    size_t bytes, most_bytes; /* limit of the memory for values, in bytes */
    unsigned char buffer[BUFFER_BYTES];
    size_t buffer_at, buffer_bytes;
    uint64_t offset;    /* offset in the file of the next byte */
    uint64_t opcode_at; /* offset in the file of the current opcode */
    struct values stack, memo;
    size_t *marks; /* for each mark, the height of the stack at which it was set */
    size_t mark_count, mark_room;
    bool stopped;
};

static bool complain(struct machine *machine, const char *format, ...) __attribute__((format(printf, 2, 3)));

static bool complain(struct machine *machine, const char *format, ...)
{
    int used = snprintf(machine->error, PICKLE_ERROR_MAX,
                        "byte %llu of the pickle: ", (unsigned long long)machine->opcode_at);
    va_list list;

    va_start(list, format);
    vsnprintf(machine->error + used, PICKLE_ERROR_MAX - (size_t)used, format, list);
    va_end(list);
    return false;
}

/* ---- memory ---- */

/* Adds bytes that the caller is going to allocate to machine->bytes. If the sum would exceed the limit, returns
 * false with the error set. */
static bool charge(struct machine *machine, size_t bytes)
{
    if (bytes > machine->most_bytes - machine->bytes)
        return complain(machine, "its values take more than %zu bytes of memory", machine->most_bytes);
    machine->bytes += bytes;
    return true;
}

static bool out_of_memory(struct machine *machine)
{
    return complain(machine, "out of host memory");
}

/* Returns a larger array of elements of size bytes with twice the room, or NULL with the error set. */
static void *grow(struct machine *machine, void *array, size_t *room, size_t size)
{
    size_t more = *room ? *room * 2 : 8;
    void *grown;

    if (!charge(machine, (more - *room) * size))
        return NULL;
    grown = realloc(array, more * size);
    if (!grown)
        out_of_memory(machine);
    else
        *room = more;
    return grown;
}

/* Returns memory for a chunk, or NULL with the error set. */
static void *new_chunk(struct machine *machine, size_t bytes)
{
    void *chunk;

    if (!charge(machine, bytes))
        return NULL;
    chunk = malloc(bytes);
    if (!chunk)
        out_of_memory(machine);
    return chunk;
}

static struct pickle_value *new_value(struct machine *machine, enum type type)
{
    struct value_chunk *chunk = machine->pickle->values;
    struct pickle_value *value;

    if (!chunk || chunk->used == VALUES_PER_CHUNK) {
        chunk = new_chunk(machine, sizeof *chunk);
        if (!chunk)
            return NULL;
        chunk->next = machine->pickle->values;
        chunk->used = 0;
        machine->pickle->values = chunk;
    }
    value = &chunk->values[chunk->used++];
    memset(value, 0, sizeof *value);
    value->type = type;
    return value;
}

/* Allocates a text of this number of bytes and a terminating zero. */
static char *new_text(struct machine *machine, size_t bytes)
{
    struct text_chunk *chunk = machine->pickle->texts;
    char *text;

    if (!chunk || chunk->used + bytes + 1 > TEXT_CHUNK_BYTES) {
        chunk = new_chunk(machine, sizeof *chunk);
        if (!chunk)
            return NULL;
        chunk->next = machine->pickle->texts;
        chunk->used = 0;
        machine->pickle->texts = chunk;
    }
    text = chunk->bytes + chunk->used;
    chunk->used += bytes + 1;
    text[bytes] = '\0';
    return text;
}

void pickle_destroy(struct pickle *pickle)
{
    if (!pickle)
        return;
    while (pickle->values) {
        struct value_chunk *chunk = pickle->values;

        for (size_t i = 0; i < chunk->used; i++)
            if (chunk->values[i].type >= TYPE_TUPLE)
                free(chunk->values[i].items);
        pickle->values = chunk->next;
        free(chunk);
    }
    while (pickle->texts) {
        struct text_chunk *chunk = pickle->texts;

        pickle->texts = chunk->next;
        free(chunk);
    }
    free(pickle);
}

/* ---- bytes of the file ---- */

static bool read_bytes(struct machine *machine, void *to, size_t bytes)
{
    unsigned char *at = to;

    while (bytes) {
        size_t left = machine->buffer_bytes - machine->buffer_at;
        size_t part = bytes < left ? bytes : left;

        if (!left) {
            int got = gzread(machine->file, machine->buffer, BUFFER_BYTES);

            if (got <= 0)
                return complain(machine, "the file ends within it");
            machine->buffer_at = 0;
            machine->buffer_bytes = (size_t)got;
            continue;
        }
        if (at) {
            memcpy(at, machine->buffer + machine->buffer_at, part);
            at += part;
        }
        machine->buffer_at += part;
        machine->offset += part;
        bytes -= part;
    }
    return true;
}

static bool skip_bytes(struct machine *machine, uint64_t bytes)
{
    return read_bytes(machine, NULL, bytes);
}

/* Reads a little-endian number of up to 8 bytes. */
static bool read_number(struct machine *machine, unsigned bytes, uint64_t *number)
{
    unsigned char raw[8];

    *number = 0;
    if (!read_bytes(machine, raw, bytes))
        return false;
    for (unsigned i = bytes; i-- > 0;)
        *number = *number << 8 | raw[i];
    return true;
}

/* ---- stack, marks, memo ---- */

static bool append(struct machine *machine, struct values *values, struct pickle_value *value)
{
    if (values->count == values->room) {
        void *grown = grow(machine, values->at, &values->room, sizeof(struct pickle_value *));

        if (!grown)
            return false;
        values->at = grown;
    }
    values->at[values->count++] = value;
    return true;
}

/* Pushes a value. value may be NULL, which means that it could not be made and the error is set; then returns
 * false. */
static bool push(struct machine *machine, struct pickle_value *value)
{
    return value && append(machine, &machine->stack, value);
}

/* Returns the index of the lowest value that may be popped, which is the first value above the latest mark. */
static size_t floor_of(const struct machine *machine)
{
    return machine->mark_count ? machine->marks[machine->mark_count - 1] : 0;
}

/* Returns true if count values can be popped. */
static bool has(struct machine *machine, size_t count)
{
    return machine->stack.count - floor_of(machine) >= count ||
           complain(machine, "it needs %zu values of the stack, which has fewer", count);
}

static bool push_mark(struct machine *machine)
{
    if (machine->mark_count == machine->mark_room) {
        size_t *grown = grow(machine, machine->marks, &machine->mark_room, sizeof *grown);

        if (!grown)
            return false;
        machine->marks = grown;
    }
    machine->marks[machine->mark_count++] = machine->stack.count;
    return true;
}

/* Removes the latest mark. *first receives the index of the first value above it. */
static bool pop_mark(struct machine *machine, size_t *first)
{
    if (!machine->mark_count)
        return complain(machine, "it needs a mark, and there is none");
    *first = machine->marks[--machine->mark_count];
    return true;
}

/* Stores the topmost value in the memo. Python numbers memo entries consecutively, so an index larger than the
 * number of values so far is refused. */
static bool put_memo(struct machine *machine, uint64_t index)
{
    if (!has(machine, 1))
        return false;
    if (index > machine->memo.count)
        return complain(machine, "it remembers value %llu, and %zu were remembered before",
                        (unsigned long long)index, machine->memo.count);
    if (index == machine->memo.count)
        return append(machine, &machine->memo, machine->stack.at[machine->stack.count - 1]);
    machine->memo.at[index] = machine->stack.at[machine->stack.count - 1];
    return true;
}

static bool get_memo(struct machine *machine, uint64_t index)
{
    if (index >= machine->memo.count)
        return complain(machine, "it wants value %llu again, and %zu were remembered", (unsigned long long)index,
                        machine->memo.count);
    return push(machine, machine->memo.at[index]);
}

/* ---- values ---- */

static bool push_integer(struct machine *machine, int64_t integer)
{
    struct pickle_value *value = new_value(machine, TYPE_INTEGER);

    if (value)
        value->integer = integer;
    return push(machine, value);
}

/* Reads a little-endian integer in two's complement. */
static bool push_long(struct machine *machine, uint64_t bytes)
{
    uint64_t number;

    if (bytes > sizeof number)
        return skip_bytes(machine, bytes) && push(machine, new_value(machine, TYPE_LARGE_INTEGER));
    if (!read_number(machine, (unsigned)bytes, &number))
        return false;
    if (bytes && bytes < sizeof number && number >> (8 * bytes - 1))
        number |= UINT64_MAX << 8 * bytes;
    return push_integer(machine, (int64_t)number);
}

static bool push_text(struct machine *machine, uint64_t bytes)
{
    struct pickle_value *value = new_value(machine, TYPE_TEXT);
    bool keep = bytes <= PICKLE_TEXT_MAX;
    char *text = value ? new_text(machine, keep ? bytes : 0) : NULL;

    if (!text || !(keep ? read_bytes(machine, text, bytes) : skip_bytes(machine, bytes)))
        return false;
    value->text = text;
    return push(machine, value);
}

static bool push_bytes(struct machine *machine, uint64_t bytes)
{
    return skip_bytes(machine, bytes) && push(machine, new_value(machine, TYPE_BYTES));
}

/* Moves the values from index first of the stack to the end of a list or dict. */
static bool move_items(struct machine *machine, struct pickle_value *value, size_t first)
{
    size_t count = machine->stack.count - first, room = value->room;

    if (count > UINT32_MAX / 2 - value->count)
        return complain(machine, "it has more values than this program can number");
    while (room < value->count + count) {
        void *grown = grow(machine, value->items, &room, sizeof *value->items);

        if (!grown)
            return false;
        value->items = grown;
        value->room = (uint32_t)room;
    }
    for (size_t i = 0; i < count; i++)
        value->items[value->count++] = machine->stack.at[first + i];
    machine->stack.count = first;
    return true;
}

/* Replaces the values from index first of the stack with a tuple of them. */
static bool push_tuple(struct machine *machine, size_t first)
{
    struct pickle_value *value = new_value(machine, TYPE_TUPLE);

    return value && move_items(machine, value, first) && push(machine, value);
}

/* Moves the values from index first of the stack into the container below them, which must be of this type. */
static bool extend(struct machine *machine, enum type type, size_t first)
{
    struct pickle_value *value;

    if (first == floor_of(machine))
        return complain(machine, "it adds values to nothing");
    value = machine->stack.at[first - 1];
    if (value->type != type)
        return complain(machine, "it adds values to something that is no %s",
                        type == TYPE_LIST   ? "list"
                        : type == TYPE_DICT ? "dict"
                                            : "set");
    if (type == TYPE_SET) {
        machine->stack.count = first;
        return true;
    }
    if (type == TYPE_DICT && (machine->stack.count - first) % 2)
        return complain(machine, "it adds a key without a value");
    return move_items(machine, value, first);
}

/* Removes the latest mark, and moves the values above it into the container below it, which must be of this
 * type. */
static bool extend_marked(struct machine *machine, enum type type)
{
    size_t first = 0;

    return pop_mark(machine, &first) && extend(machine, type, first);
}

/* Replaces the values above the latest mark with a tuple, list, dict or frozen set of them. */
static bool push_marked(struct machine *machine, enum type type)
{
    struct pickle_value *value;
    size_t first = 0;

    if (!pop_mark(machine, &first))
        return false;
    if (type == TYPE_DICT && (machine->stack.count - first) % 2)
        return complain(machine, "it makes a dict with a key without a value");
    value = new_value(machine, type);
    if (type == TYPE_SET)
        machine->stack.count = first;
    else if (!value || !move_items(machine, value, first))
        return false;
    return push(machine, value);
}

static bool discard_marked(struct machine *machine)
{
    return pop_mark(machine, &machine->stack.count);
}

/* Pops the topmost value, or removes the latest mark if no value is above it. */
static bool discard(struct machine *machine)
{
    if (machine->mark_count && machine->stack.count == floor_of(machine))
        return discard_marked(machine);
    if (!has(machine, 1))
        return false;
    machine->stack.count--;
    return true;
}

/* ---- opcodes ---- */

/* Returns the name (of Python's pickletools) of an opcode that runs code or needs objects of a Python program, or
 * NULL for other opcodes. */
static const char *name_of_refused(unsigned char opcode)
{
    static const struct {
        unsigned char opcode;
        const char *name;
    } refused[] = {{'c', "GLOBAL"},        {'R', "REDUCE"},       {'b', "BUILD"},           {'i', "INST"},
                   {'o', "OBJ"},           {'P', "PERSID"},       {'Q', "BINPERSID"},       {0x81, "NEWOBJ"},
                   {0x82, "EXT1"},         {0x83, "EXT2"},        {0x84, "EXT4"},           {0x92, "NEWOBJ_EX"},
                   {0x93, "STACK_GLOBAL"}, {0x97, "NEXT_BUFFER"}, {0x98, "READONLY_BUFFER"}};

    for (size_t i = 0; i < sizeof refused / sizeof refused[0]; i++)
        if (refused[i].opcode == opcode)
            return refused[i].name;
    return NULL;
}

static bool refuse(struct machine *machine, unsigned char opcode)
{
    const char *name = name_of_refused(opcode);

    if (name)
        return complain(machine, "opcode %s asks for Python objects or code, and only plain data is read", name);
    return complain(machine, "0x%02x is no opcode for plain data of the protocols %d to %d", opcode,
                    OLDEST_PROTOCOL, NEWEST_PROTOCOL);
}

static bool begin_protocol(struct machine *machine)
{
    uint64_t protocol;

    if (!read_number(machine, 1, &protocol))
        return false;
    return (protocol >= OLDEST_PROTOCOL && protocol <= NEWEST_PROTOCOL) ||
           complain(machine, "it is of protocol %u, and %d to %d are known", (unsigned)protocol, OLDEST_PROTOCOL,
                    NEWEST_PROTOCOL);
}

static bool push_bool(struct machine *machine, bool value)
{
    struct pickle_value *made = new_value(machine, TYPE_BOOL);

    if (made)
        made->integer = value;
    return push(machine, made);
}

/* Executes an opcode that pushes a number, a text or bytes. Sets *known to false if the opcode is none of
 * these. */
static bool run_scalar(struct machine *machine, unsigned char opcode, bool *known)
{
    uint64_t number;

    *known = true;
    switch (opcode) {
    case 'N': /* NONE */
        return push(machine, new_value(machine, TYPE_NONE));
    case 0x88: /* NEWTRUE */
    case 0x89: /* NEWFALSE */
        return push_bool(machine, opcode == 0x88);
    case 'J': /* BININT */
        return read_number(machine, 4, &number) && push_integer(machine, (int32_t)(uint32_t)number);
    case 'K': /* BININT1 */
        return read_number(machine, 1, &number) && push_integer(machine, (int64_t)number);
    case 'M': /* BININT2 */
        return read_number(machine, 2, &number) && push_integer(machine, (int64_t)number);
    case 0x8a: /* LONG1 */
        return read_number(machine, 1, &number) && push_long(machine, number);
    case 0x8b: /* LONG4 */
        return read_number(machine, 4, &number) && push_long(machine, number);
    case 'G': /* BINFLOAT */
        return skip_bytes(machine, 8) && push(machine, new_value(machine, TYPE_FLOAT));
    case 'U':  /* SHORT_BINSTRING: text of Python 2 */
    case 0x8c: /* SHORT_BINUNICODE */
        return read_number(machine, 1, &number) && push_text(machine, number);
    case 'T': /* BINSTRING */
    case 'X': /* BINUNICODE */
        return read_number(machine, 4, &number) && push_text(machine, number);
    case 0x8d: /* BINUNICODE8 */
        return read_number(machine, 8, &number) && push_text(machine, number);
    case 'C': /* SHORT_BINBYTES */
        return read_number(machine, 1, &number) && push_bytes(machine, number);
    case 'B': /* BINBYTES */
        return read_number(machine, 4, &number) && push_bytes(machine, number);
    case 0x8e: /* BINBYTES8 */
    case 0x96: /* BYTEARRAY8 */
        return read_number(machine, 8, &number) && push_bytes(machine, number);
    default:
        *known = false;
        return true;
    }
}

/* Executes an opcode that makes or fills a container. Sets *known to false if the opcode is none of these. */
static bool run_container(struct machine *machine, unsigned char opcode, bool *known)
{
    *known = true;
    switch (opcode) {
    case ')': /* EMPTY_TUPLE */
        return push(machine, new_value(machine, TYPE_TUPLE));
    case ']': /* EMPTY_LIST */
        return push(machine, new_value(machine, TYPE_LIST));
    case '}': /* EMPTY_DICT */
        return push(machine, new_value(machine, TYPE_DICT));
    case 0x8f: /* EMPTY_SET */
        return push(machine, new_value(machine, TYPE_SET));
    case 0x85: /* TUPLE1, TUPLE2, TUPLE3 */
    case 0x86:
    case 0x87:
        return has(machine, opcode - 0x84u) && push_tuple(machine, machine->stack.count - (opcode - 0x84u));
    case 't': /* TUPLE */
        return push_marked(machine, TYPE_TUPLE);
    case 'l': /* LIST */
        return push_marked(machine, TYPE_LIST);
    case 'd': /* DICT */
        return push_marked(machine, TYPE_DICT);
    case 0x91: /* FROZENSET */
        return push_marked(machine, TYPE_SET);
    case 'a': /* APPEND */
        return has(machine, 2) && extend(machine, TYPE_LIST, machine->stack.count - 1);
    case 's': /* SETITEM */
        return has(machine, 3) && extend(machine, TYPE_DICT, machine->stack.count - 2);
    case 'e': /* APPENDS */
        return extend_marked(machine, TYPE_LIST);
    case 'u': /* SETITEMS */
        return extend_marked(machine, TYPE_DICT);
    case 0x90: /* ADDITEMS */
        return extend_marked(machine, TYPE_SET);
    default:
        *known = false;
        return true;
    }
}

/* Executes an opcode of any other kind. */
static bool run_rest(struct machine *machine, unsigned char opcode)
{
    uint64_t number;

    switch (opcode) {
    case '(': /* MARK */
        return push_mark(machine);
    case '0': /* POP */
        return discard(machine);
    case '1': /* POP_MARK */
        return discard_marked(machine);
    case '2': /* DUP */
        return has(machine, 1) && push(machine, machine->stack.at[machine->stack.count - 1]);
    case 'q': /* BINPUT */
        return read_number(machine, 1, &number) && put_memo(machine, number);
    case 'r': /* LONG_BINPUT */
        return read_number(machine, 4, &number) && put_memo(machine, number);
    case 0x94: /* MEMOIZE */
        return put_memo(machine, machine->memo.count);
    case 'h': /* BINGET */
        return read_number(machine, 1, &number) && get_memo(machine, number);
    case 'j': /* LONG_BINGET */
        return read_number(machine, 4, &number) && get_memo(machine, number);
    case 0x80: /* PROTO */
        return begin_protocol(machine);
    case 0x95: /* FRAME: a length that helps readers to read ahead; ignored */
        return skip_bytes(machine, 8);
    case '.': /* STOP */
        machine->stopped = true;
        return has(machine, 1);
    default:
        return refuse(machine, opcode);
    }
}

static bool run(struct machine *machine)
{
    while (!machine->stopped) {
        unsigned char opcode = 0;
        bool known;

        machine->opcode_at = machine->offset;
        if (!read_bytes(machine, &opcode, 1))
            return false;
        if (!run_scalar(machine, opcode, &known))
            return false;
        if (!known && !run_container(machine, opcode, &known))
            return false;
        if (!known && !run_rest(machine, opcode))
            return false;
    }
    machine->pickle->root = machine->stack.at[machine->stack.count - 1];
    return true;
}

struct pickle *pickle_load(gzFile file, size_t most_bytes, char error[PICKLE_ERROR_MAX])
{
    struct machine *machine = calloc(1, sizeof *machine);
    struct pickle *pickle = calloc(1, sizeof *pickle);
    bool fine = false;

    if (machine && pickle) {
        machine->file = file;
        machine->error = error;
        machine->pickle = pickle;
        machine->most_bytes = most_bytes;
        fine = run(machine);
        free(machine->stack.at);
        free(machine->memo.at);
        free(machine->marks);
    } else {
        snprintf(error, PICKLE_ERROR_MAX, "out of host memory");
    }
    free(machine);
    if (fine)
        return pickle;
    pickle_destroy(pickle);
    return NULL;
}

/* ---- looking at values ---- */

const struct pickle_value *pickle_root(const struct pickle *pickle)
{
    return pickle->root;
}

bool pickle_is_list(const struct pickle_value *value)
{
    return value && (value->type == TYPE_LIST || value->type == TYPE_TUPLE);
}

bool pickle_is_dict(const struct pickle_value *value)
{
    return value && value->type == TYPE_DICT;
}

bool pickle_integer(const struct pickle_value *value, int64_t *integer)
{
    if (!value || value->type != TYPE_INTEGER)
        return false;
    *integer = value->integer;
    return true;
}

const char *pickle_text(const struct pickle_value *value)
{
    return value && value->type == TYPE_TEXT ? value->text : NULL;
}

size_t pickle_count(const struct pickle_value *list)
{
    return pickle_is_list(list) ? list->count : 0;
}

const struct pickle_value *pickle_item(const struct pickle_value *list, size_t index)
{
    return index < pickle_count(list) ? list->items[index] : NULL;
}

const struct pickle_value *pickle_get(const struct pickle_value *dict, const char *key)
{
    /* Search from the end, because the later value counts if a key was set twice. */
    for (size_t i = pickle_is_dict(dict) ? dict->count : 0; i >= 2; i -= 2) {
        const char *text = pickle_text(dict->items[i - 2]);

        if (text && !strcmp(text, key))
            return dict->items[i - 1];
    }
    return NULL;
}
