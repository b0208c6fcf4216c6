/*
 * activity_read_kineto.c - reads traces of PyTorch's profiler (Kineto): JSON in the format of Chrome's traces.
 * Events are read one by one, so the text of the file is never in memory as a whole.
 *
 * Calls of the CUDA runtime and driver have the same "correlation" as the work that they submitted; the two become
 * one activity. Calls without such work are kept if they explain idle time: allocations, frees and
 * synchronisation.
 */
#include "activity_join.h"
#include "activity_read.h"

#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

struct kineto {
    struct activity_input *input;
    struct activity_log *log;
    struct activity_part_list calls, work;
    int next; /* a character that was read and not used, or -1 */
};

static bool no_memory(struct kineto *kineto)
{
    return activity_input_fail(kineto->input, "out of host memory");
}

static bool add_part(struct kineto *kineto, struct activity_part_list *parts, const struct activity_part *part)
{
    return activity_parts_add(parts, part) || no_memory(kineto);
}

/* ---- values of an event ---- */

static double get_number(const json_t *object, const char *key, double otherwise)
{
    const json_t *value = json_object_get(object, key);

    return json_is_number(value) ? json_number_value(value) : otherwise;
}

static uint64_t get_count(const json_t *object, const char *key)
{
    const json_t *value = json_object_get(object, key);

    return json_is_integer(value) && json_integer_value(value) > 0 ? (uint64_t)json_integer_value(value) : 0;
}

static const char *get_text(const json_t *object, const char *key)
{
    const char *text = json_string_value(json_object_get(object, key));

    return text ? text : "";
}

static bool begins(const char *text, const char *with)
{
    return !strncmp(text, with, strlen(with));
}

/* Reads a time in microseconds. Returns false if it is missing or no time. */
static bool get_ns(const json_t *object, const char *key, uint64_t *ns)
{
    double us = get_number(object, key, -1);

    if (!(us >= 0) || us > 9e15)
        return false;
    *ns = (uint64_t)llround(us * 1000);
    return true;
}

/* ---- events ---- */

/* Returns the kind of memory that a name such as "Memcpy HtoD (Pageable -> Device)" has at text. */
static enum activity_memory memory_of(const char *text)
{
    return begins(text, "Pageable")  ? ACTIVITY_MEMORY_PAGEABLE
           : begins(text, "Pinned")  ? ACTIVITY_MEMORY_PINNED
           : begins(text, "Device")  ? ACTIVITY_MEMORY_DEVICE
           : begins(text, "Managed") ? ACTIVITY_MEMORY_MANAGED
                                     : ACTIVITY_MEMORY_UNKNOWN;
}

static void read_memory(const char *name, struct activity *a)
{
    const char *from = strchr(name, '('), *to = strstr(name, "-> ");

    if (from && to) {
        a->from_memory = (uint8_t)memory_of(from + 1);
        a->to_memory = (uint8_t)memory_of(to + 3);
    }
}

static bool read_work(struct kineto *kineto, const json_t *event, const char *category, struct activity_part *part)
{
    const json_t *args = json_object_get(event, "args");
    struct activity *a = &part->activity;
    char name[32];
    uint64_t number = get_count(args, "device");
    uint32_t device;

    snprintf(name, sizeof name, "cuda:%" PRIu64, number);
    device = activity_log_device(kineto->log, number, name);
    if (device != ACTIVITY_NONE)
        a->stream = activity_log_stream(kineto->log, device, get_count(args, "stream"));
    if (a->stream == ACTIVITY_NONE)
        return activity_input_fail(kineto->input, "it has too many devices or streams, or memory is short");
    a->kind = begins(category, "gpu_memcpy")   ? ACTIVITY_COPY
              : begins(category, "gpu_memset") ? ACTIVITY_FILL
                                               : ACTIVITY_KERNEL;
    a->bytes = get_count(args, "bytes");
    a->flags = ACTIVITY_FLAG_DEVICE;
    a->device_begin_ns = a->host_begin_ns;
    a->device_end_ns = a->host_end_ns;
    a->host_begin_ns = a->host_end_ns = 0;
    if (a->kind == ACTIVITY_COPY)
        read_memory(get_text(event, "name"), a);
    return add_part(kineto, &kineto->work, part);
}

static enum activity_kind call_kind(const char *name)
{
    if (begins(name, "cudaMalloc") || begins(name, "cuMemAlloc") || begins(name, "cudaHostAlloc") ||
        begins(name, "cudaHostRegister") || begins(name, "cuMemHost"))
        return ACTIVITY_ALLOC;
    if (begins(name, "cudaFree") || begins(name, "cuMemFree") || begins(name, "cudaHostUnregister"))
        return ACTIVITY_FREE;
    if (strstr(name, "Synchronize"))
        return ACTIVITY_HOST_WAIT;
    if (begins(name, "cudaMemcpy") || begins(name, "cuMemcpy"))
        return ACTIVITY_COPY;
    if (strstr(name, "StreamWaitEvent"))
        return ACTIVITY_STREAM_WAIT;
    return ACTIVITY_OTHER;
}

static bool read_call(struct kineto *kineto, const json_t *event, bool range, struct activity_part *part)
{
    const char *name = get_text(event, "name");
    struct activity *a = &part->activity;

    a->kind = (uint8_t)(range ? ACTIVITY_RANGE : call_kind(name));
    a->flags = ACTIVITY_FLAG_HOST;
    a->thread = activity_log_thread(kineto->log, get_count(event, "tid"));
    if (a->thread == ACTIVITY_NONE)
        return activity_input_fail(kineto->input, "it has too many threads, or memory is short");
    if (a->kind == ACTIVITY_ALLOC && (strstr(name, "Host") != NULL))
        a->to_memory = ACTIVITY_MEMORY_PINNED;
    else if (a->kind == ACTIVITY_ALLOC)
        a->to_memory = ACTIVITY_MEMORY_DEVICE;
    if (a->kind == ACTIVITY_COPY && !strstr(name, "Async"))
        a->flags |= ACTIVITY_FLAG_BLOCKS;
    return add_part(kineto, &kineto->calls, part);
}

/* Takes an event that matters; ignores all others. */
static bool read_event(struct kineto *kineto, const json_t *event)
{
    const char *category = get_text(event, "cat");
    bool work = !strcmp(category, "kernel") || !strcmp(category, "gpu_memcpy") || !strcmp(category, "gpu_memset");
    bool call = !strcmp(category, "cuda_runtime") || !strcmp(category, "cuda_driver");
    bool range = !strcmp(category, "user_annotation");
    struct activity_part part = {.activity = {.stream = ACTIVITY_NONE,
                                              .thread = ACTIVITY_NONE,
                                              .place = ACTIVITY_NONE,
                                              .range = ACTIVITY_NONE,
                                              .pieces = 1}};
    struct activity *a = &part.activity;
    uint64_t length;

    if (strcmp(get_text(event, "ph"), "X") != 0 || !(work || call || range) ||
        !get_ns(event, "ts", &a->host_begin_ns) || !get_ns(event, "dur", &length))
        return true;
    a->host_end_ns = a->host_begin_ns + length;
    a->name = activity_log_name(kineto->log, get_text(event, "name"));
    if (a->name == ACTIVITY_NONE)
        return no_memory(kineto);
    part.correlation = get_count(json_object_get(event, "args"), "correlation");
    return work ? read_work(kineto, event, category, &part) : read_call(kineto, event, range, &part);
}

/* ---- JSON ---- */

/* Supplies jansson with one character at a time, so that it reads nothing behind a value. */
static size_t supply(void *buffer, size_t bytes, void *data)
{
    struct kineto *kineto = data;

    if (bytes == 0)
        return 0;
    if (kineto->next >= 0) {
        *(unsigned char *)buffer = (unsigned char)kineto->next;
        kineto->next = -1;
        return 1;
    }
    return activity_input_read(kineto->input, buffer, 1) == 1 ? 1 : (size_t)-1;
}

/* Returns the next character that is not white space, which remains the next one; -1 at the end. */
static int peek(struct kineto *kineto)
{
    unsigned char c;

    while (kineto->next < 0 || strchr(" \t\r\n", kineto->next)) {
        if (kineto->next == '\0')
            break; /* strchr() finds the NUL too */
        if (activity_input_read(kineto->input, &c, 1) != 1)
            return kineto->next = -1;
        kineto->next = c;
    }
    return kineto->next;
}

static bool damaged(struct kineto *kineto, const char *wanted)
{
    return activity_input_fail(kineto->input,
                               "this is no trace of PyTorch's profiler: byte %" PRIu64 " must be %s",
                               kineto->input->at, wanted);
}

static bool expect(struct kineto *kineto, int c, const char *wanted)
{
    if (peek(kineto) != c)
        return damaged(kineto, wanted);
    kineto->next = -1;
    return true;
}

/* Reads an object, a list or a string. Returns NULL with the error set. */
static json_t *read_value(struct kineto *kineto)
{
    uint64_t at = kineto->input->at;
    json_error_t error;
    json_t *value = json_load_callback(supply, kineto, JSON_DISABLE_EOF_CHECK | JSON_DECODE_ANY, &error);

    if (!value)
        activity_input_fail(kineto->input, "the JSON value at byte %" PRIu64 " is damaged: %.200s", at,
                            error.text);
    return value;
}

/* Reads past a value that does not matter. */
static bool skip_value(struct kineto *kineto)
{
    int c = peek(kineto);
    json_t *value;

    if (c == '{' || c == '[' || c == '"') {
        value = read_value(kineto);
        json_decref(value);
        return value != NULL;
    }
    while (c >= 0 && c != ',' && c != '}') {
        kineto->next = -1;
        c = peek(kineto);
    }
    return c >= 0 || damaged(kineto, "a comma or a brace");
}

static bool read_events(struct kineto *kineto)
{
    if (!expect(kineto, '[', "the list of events"))
        return false;
    if (peek(kineto) == ']') {
        kineto->next = -1;
        return true;
    }
    for (;;) {
        json_t *event;
        bool fine;

        if (peek(kineto) != '{')
            return damaged(kineto, "an event");
        event = read_value(kineto);
        if (!event)
            return false;
        fine = read_event(kineto, event);
        json_decref(event);
        if (!fine)
            return false;
        if (peek(kineto) == ']') {
            kineto->next = -1;
            return true;
        }
        if (!expect(kineto, ',', "a comma or the end of the list"))
            return false;
    }
}

/* Reads the outer object up to the end of its list "traceEvents", whatever follows it. */
static bool read_object(struct kineto *kineto)
{
    if (!expect(kineto, '{', "a brace"))
        return false;
    for (;;) {
        json_t *key;
        bool events;

        if (peek(kineto) != '"')
            return damaged(kineto, "a key; there is no list traceEvents");
        key = read_value(kineto);
        if (!key)
            return false;
        events = !strcmp(json_string_value(key), "traceEvents");
        json_decref(key);
        if (!expect(kineto, ':', "a colon"))
            return false;
        if (events)
            return read_events(kineto);
        if (!skip_value(kineto) || !expect(kineto, ',', "a comma; there is no list traceEvents"))
            return false;
    }
}

bool activity_read_kineto(struct activity_input *input, struct activity_log *log)
{
    struct kineto kineto = {.input = input, .log = log, .next = -1};
    bool fine;
    unsigned char c;

    log->source = "Kineto";
    while (input->at < 3 && input->head[input->at] >= 0x80) /* a byte-order mark */
        activity_input_read(input, &c, 1);
    if (peek(&kineto) == '[')
        fine = read_events(&kineto);
    else
        fine = read_object(&kineto);
    fine = fine && (activity_join(log, &kineto.calls, &kineto.work) || no_memory(&kineto));
    free(kineto.calls.list);
    free(kineto.work.list);
    return fine;
}
