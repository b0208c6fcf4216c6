/*
 * made_cupti.c - a libcupti.so that has the calls which leat makes, and delivers records that a test program makes
 * by hand (made_cupti_*). It knows nothing of CUDA.
 *
 * The variable MADE_CUPTI changes what it does: version=N is what cuptiGetVersion() returns; subscribe=N, clock=N
 * and enable=N are the results of those calls; dropped=N is how many records it claims to have dropped; cut=N
 * makes the last N bytes of each buffer invalid; wrong=1 makes it fail in the middle of each buffer; refuses=1
 * makes it print whether a buffer was refused. Built with MADE_CUPTI_OLD it lacks cuptiSetThreadIdType().
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))

enum { CALLS = 12, RECORD_BYTES = 128, RECORDS_MOST = 4096 };

static const char *const names[][CALLS] = {
    [1] = {NULL, "cuInit", "cuLaunchKernel", "cuMemcpyHtoDAsync_v2", "cuCtxSynchronize", "cuMemAlloc_v2",
           "cuMemFree_v2", "cuMemsetD8Async_ptsz", "cuEventQuery", "cuGraphLaunch"},
    [2] = {NULL, "cudaGetDevice_v3020", "cudaLaunchKernel_v7000", "cudaMemcpyAsync_ptsz_v7000",
           "cudaDeviceSynchronize_v3020", "cudaMemcpy_v3020", "cudaHostAlloc_v3020"},
};

/* Records as the documentation has them; only the fields that leat reads are filled. */
struct record {
    unsigned char bytes[RECORD_BYTES];
};

static struct record records[RECORDS_MOST];
static unsigned record_count, enabled_kinds;
static uint64_t (*clock_function)(void);
static void (*wanted)(uint8_t **, size_t *, size_t *);
static void (*complete)(void *, uint32_t, uint8_t *, size_t, size_t);
static int subscriber;

static int setting(const char *key, int otherwise)
{
    const char *text = getenv("MADE_CUPTI"), *found = text ? strstr(text, key) : NULL;

    return found ? atoi(found + strlen(key)) : otherwise;
}

EXPORT int cuptiGetVersion(uint32_t *version);
EXPORT int cuptiGetResultString(int result, const char **text);
EXPORT int cuptiSubscribe(void **made, void (*function)(void *, int, uint32_t, const void *), void *user);
EXPORT int cuptiUnsubscribe(void *made);
EXPORT int cuptiGetCallbackName(int domain, uint32_t call, const char **name);
EXPORT int cuptiGetStreamIdEx(void *context, void *stream, uint8_t per_thread, uint32_t *number);
EXPORT int cuptiSetThreadIdType(int type);
EXPORT int cuptiActivityRegisterTimestampCallback(uint64_t (*function)(void));
EXPORT int cuptiActivityRegisterCallbacks(void (*request)(uint8_t **, size_t *, size_t *),
                                          void (*done)(void *, uint32_t, uint8_t *, size_t, size_t));
EXPORT int cuptiActivityEnable(int kind);
EXPORT int cuptiActivityDisable(int kind);
EXPORT int cuptiActivityFlushAll(uint32_t flags);
EXPORT int cuptiActivityGetNextRecord(uint8_t *buffer, size_t bytes, void **record);
EXPORT int cuptiActivityGetNumDroppedRecords(void *context, uint32_t stream, size_t *dropped);
EXPORT void made_cupti_call(int domain, const char *name, uint32_t correlation, uint64_t start, uint64_t end,
                            uint32_t thread);
EXPORT void made_cupti_work(int kind, const char *name, uint32_t correlation, uint64_t start, uint64_t end,
                            uint64_t bytes, uint32_t stream);
EXPORT uint64_t made_cupti_clock(void);

int cuptiGetVersion(uint32_t *version)
{
    *version = (uint32_t)setting("version=", 130001);
    return 0;
}

int cuptiGetResultString(int result, const char **text)
{
    *text = result == 15 ? "MADE_NOT_INITIALIZED" : "MADE_RESULT";
    return 0;
}

int cuptiSubscribe(void **made, void (*function)(void *, int, uint32_t, const void *), void *user)
{
    int result = setting("subscribe=", subscriber ? 39 : 0);

    (void)user;
    if (result || !function)
        return result ? result : 1;
    subscriber = 1;
    *made = &subscriber;
    return 0;
}

int cuptiUnsubscribe(void *made)
{
    subscriber = 0;
    return made == &subscriber ? 0 : 1;
}

int cuptiGetCallbackName(int domain, uint32_t call, const char **name)
{
    if (domain < 1 || domain > 2 || call >= CALLS || !names[domain][call])
        return 1;
    *name = names[domain][call];
    return 0;
}

int cuptiGetStreamIdEx(void *context, void *stream, uint8_t per_thread, uint32_t *number)
{
    (void)context;
    *number = per_thread ? 8 : stream ? 13 : 7;
    return 0;
}

#ifndef MADE_CUPTI_OLD
int cuptiSetThreadIdType(int type)
{
    return type == 1 ? 0 : 1;
}
#endif

int cuptiActivityRegisterTimestampCallback(uint64_t (*function)(void))
{
    clock_function = function;
    return setting("clock=", 0);
}

int cuptiActivityRegisterCallbacks(void (*request)(uint8_t **, size_t *, size_t *),
                                   void (*done)(void *, uint32_t, uint8_t *, size_t, size_t))
{
    wanted = request;
    complete = done;
    return 0;
}

int cuptiActivityEnable(int kind)
{
    enabled_kinds |= 1u << kind;
    return kind == 5 ? setting("enable=", 0) : 0;
}

int cuptiActivityDisable(int kind)
{
    enabled_kinds &= ~(1u << kind);
    return 0;
}

/* Takes buffers without returning them, until there is none. Prints whether that happened. */
static void take_all(void)
{
    static uint8_t *taken[4096];
    size_t bytes = 1, most, count = 0;
    uint8_t *buffer = NULL;

    while (count < 4096) {
        wanted(&buffer, &bytes, &most);
        if (!buffer || bytes < 1 << 20)
            break;
        taken[count++] = buffer;
    }
    printf("buffers end: %s\n", count == 4096 ? "never" : buffer ? "with a small one" : "with none");
    if (buffer && count < 4096)
        complete(NULL, 0, buffer, bytes, 0);
    while (count--)
        complete(NULL, 0, taken[count], 1 << 20, 0);
}

int cuptiActivityFlushAll(uint32_t flags)
{
    uint8_t *buffer = NULL;
    size_t bytes = 0, most = 0, used;
    unsigned fits;

    /* Like CUPTI, it keeps records that are not complete; here, until the flush is forced. */
    if (!flags && !setting("early=", 0))
        return 0;
    if (setting("refuses=", 0))
        take_all();
    while (record_count) {
        wanted(&buffer, &bytes, &most);
        if (!buffer)
            return 0;
        fits = (unsigned)(bytes / RECORD_BYTES);
        fits = fits < record_count ? fits : record_count;
        used = fits * sizeof records[0];
        memcpy(buffer, records, used);
        memmove(records, records + fits, (record_count - fits) * sizeof records[0]);
        record_count -= fits;
        complete(NULL, 0, buffer, bytes, used - (size_t)setting("cut=", 0));
    }
    return 0;
}

int cuptiActivityGetNextRecord(uint8_t *buffer, size_t bytes, void **record)
{
    uint8_t *next = *record ? (uint8_t *)*record + RECORD_BYTES : buffer;

    if (setting("wrong=", 0) && next - buffer >= 2 * RECORD_BYTES)
        return 21;
    if (next >= buffer + bytes)
        return 12;
    *record = next;
    return 0;
}

int cuptiActivityGetNumDroppedRecords(void *context, uint32_t stream, size_t *dropped)
{
    (void)context;
    (void)stream;
    *dropped = (size_t)setting("dropped=", 0);
    return 0;
}

/* ---- for the test program ---- */

static void put(struct record *record, size_t at, const void *value, size_t bytes)
{
    memcpy(record->bytes + at, value, bytes);
}

uint64_t made_cupti_clock(void)
{
    return clock_function ? clock_function() : 0;
}

/* A call of a domain, 1: driver, 2: runtime, by its name without suffixes. */
void made_cupti_call(int domain, const char *name, uint32_t correlation, uint64_t start, uint64_t end,
                     uint32_t thread)
{
    struct record *record = &records[record_count];
    uint32_t kind = domain == 1 ? 4 : 5, call;

    if (!(enabled_kinds & 1u << kind) || record_count == RECORDS_MOST)
        return;
    for (call = 1;
         call < CALLS && (!names[domain][call] || strncmp(names[domain][call], name, strlen(name)) != 0);)
        call++;
    memset(record, 0, sizeof *record);
    put(record, 0, &kind, 4);
    put(record, 4, &call, 4);
    put(record, 8, &start, 8);
    put(record, 16, &end, 8);
    put(record, 28, &thread, 4);
    put(record, 32, &correlation, 4);
    record_count++;
}

/* Work: a kernel (kind 10), a fill (2), a copy from pageable memory to the device (1), or to another device (22).
 */
void made_cupti_work(int kind, const char *name, uint32_t correlation, uint64_t start, uint64_t end,
                     uint64_t bytes, uint32_t stream)
{
    static const unsigned char from = 1, to = 3;
    struct record *record = &records[record_count];
    uint32_t number = (uint32_t)kind;

    if (!(enabled_kinds & 1u << kind) || record_count == RECORDS_MOST)
        return;
    memset(record, 0, sizeof *record);
    put(record, 0, &number, 4);
    put(record, 16, &start, 8);
    put(record, 24, &end, 8);
    if (kind == 10) {
        put(record, 48, &stream, 4);
        put(record, 92, &correlation, 4);
        put(record, 104, &name, sizeof name);
    } else {
        if (kind != 2) {
            put(record, 5, &from, 1);
            put(record, 6, &to, 1);
        }
        put(record, 8, &bytes, 8);
        put(record, 40, &stream, 4);
        put(record, kind == 22 ? 60 : 44, &correlation, 4);
    }
    record_count++;
}
