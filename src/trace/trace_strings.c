/* trace_strings.c - see trace_strings.h. A hash table with chains, which only grows. */
#include "trace/trace_strings.h"

#include "base/lock.h"
#include "trace/trace_file.h"

#include <leat/version.h>

#include <stdatomic.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { BUCKETS = 4096, STRINGS_MAX = 32768, BYTES_MAX = 4 << 20 };

struct text {
    const struct text *next; /* in its bucket */
    uint32_t number, bytes, hash;
    char text[];
};

/* A text is published by the store of its bucket, with release; readers load with acquire, so that they see all of
 * it. list is written before count, which is stored with release, for readers that load count with acquire. */
static _Atomic(const struct text *) buckets[BUCKETS];
static const struct text *list[STRINGS_MAX];
static _Atomic uint32_t count;
static _Atomic uint64_t lost; /* relaxed: a counter */

static struct leati_lock lock = LEATI_LOCK_INITIALIZER; /* held while a text is added */
static size_t used_bytes LEATI_GUARDED_BY(lock);

static uint32_t hash_of(const char *text, uint32_t *bytes)
{
    uint32_t hash = 2166136261u, length = 0;

    while (text[length] && length < LEATI_TRACE_STRING_BYTES_MAX)
        hash = (hash ^ (unsigned char)text[length++]) * 16777619u;
    *bytes = length;
    return hash;
}

static const struct text *find(const char *text, uint32_t bytes, uint32_t hash)
{
    const struct text *at = atomic_load_explicit(&buckets[hash % BUCKETS], memory_order_acquire);

    while (at && (at->hash != hash || at->bytes != bytes || memcmp(at->text, text, bytes) != 0))
        at = at->next;
    return at;
}

/* Adds a text, even if there is one like it. Returns NULL if there is no room. */
static const struct text *add(const char *text, uint32_t bytes, uint32_t hash) LEATI_REQUIRES(lock)
{
    uint32_t have = atomic_load_explicit(&count, memory_order_relaxed);
    struct text *made;

    if (have == STRINGS_MAX || used_bytes + bytes > BYTES_MAX)
        return NULL;
    made = malloc(sizeof *made + bytes + 1);
    if (!made)
        return NULL;
    *made = (struct text){.number = have + 1, .bytes = bytes, .hash = hash};
    memcpy(made->text, text, bytes);
    made->text[bytes] = '\0';
    made->next = atomic_load_explicit(&buckets[hash % BUCKETS], memory_order_relaxed);
    used_bytes += bytes;
    list[have] = made;
    atomic_store_explicit(&count, have + 1, memory_order_release);
    atomic_store_explicit(&buckets[hash % BUCKETS], made, memory_order_release);
    return made;
}

/* Adds the known strings of trace_file.h. They are added even if a text is there twice, so that they get their
 * numbers. */
static void add_known(void) LEATI_REQUIRES(lock)
{
    char program[LEATI_TRACE_STRING_BYTES_MAX + 1] = "";
    ssize_t bytes = readlink("/proc/self/exe", program, sizeof program - 1);
    const char *known[] = {program, leat_version(), "(no room for more names)"};

    program[bytes > 0 ? bytes : 0] = '\0';
    for (unsigned i = 0; i < sizeof known / sizeof known[0]; i++) {
        uint32_t length, hash = hash_of(known[i], &length);

        (void)add(known[i], length, hash);
    }
}

uint32_t leati_trace_string(const char *text)
{
    uint32_t bytes, hash = hash_of(text, &bytes);
    const struct text *found = find(text, bytes, hash);

    if (found)
        return found->number;
    leati_lock(&lock);
    if (!atomic_load_explicit(&count, memory_order_relaxed))
        add_known();
    found = find(text, bytes, hash);
    if (!found)
        found = add(text, bytes, hash);
    leati_unlock(&lock);
    if (found)
        return found->number;
    atomic_fetch_add_explicit(&lost, 1, memory_order_relaxed);
    return LEATI_TRACE_STRING_FULL;
}

uint32_t leati_trace_string_count(void)
{
    return atomic_load_explicit(&count, memory_order_acquire);
}

const char *leati_trace_string_text(uint32_t number, uint32_t *bytes)
{
    leati_assert(number && number <= leati_trace_string_count());
    *bytes = list[number - 1]->bytes;
    return list[number - 1]->text;
}

uint64_t leati_trace_strings_lost(void)
{
    return atomic_load_explicit(&lost, memory_order_relaxed);
}

void leati_trace_strings_fork(void)
{
    leati_lock_init(&lock);
}
