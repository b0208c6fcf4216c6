/*
 * backtraces.c - captures call stacks as addresses, symbolizes them only when it prints them, and sums the live
 * bytes by call stack.
 */
#include "pool/guard.h"

#include "base/lock.h"
#include "base/strbuf.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>

#if __has_include(<execinfo.h>)
#include <execinfo.h>
#else
#define backtrace(at, count) 0 /* the C library has no backtrace(), so call stacks are empty */
#endif

enum { LEAK_LINES = 20 };

/* Never inlined, so that the innermost frame is always that of this function. That frame is left out. */
__attribute__((noinline)) void leati_backtrace_capture(struct leati_backtrace *trace)
{
    void *at[LEATI_BACKTRACE_FRAMES + 1];
    int count = backtrace(at, LEATI_BACKTRACE_FRAMES + 1);

    trace->count = count > 1 ? (unsigned)count - 1 : 0;
    if (trace->count)
        memcpy(trace->at, at + 1, trace->count * sizeof at[0]);
}

/* Returns the base address of leat's shared library. Returns NULL if leat is linked statically, because then
 * leat's frames cannot be distinguished from those of the program. */
static const void *own_library(void)
{
    Dl_info own, program;

    if (!dladdr((void *)(uintptr_t)leati_backtrace_print, &own) ||
        !dladdr((void *)(uintptr_t)getauxval(AT_ENTRY), &program) || own.dli_fbase == program.dli_fbase)
        return NULL;
    return own.dli_fbase;
}

static const char *short_name(const char *path)
{
    const char *slash = path ? strrchr(path, '/') : NULL;

    return slash ? slash + 1 : path && *path ? path : "?";
}

/* Prints one frame. at is a return address, which may already belong to the next line or function. So the function
 * looks up at - 1, which is inside the call instruction. */
static size_t print_frame(const void *at, char *text, size_t bytes)
{
    uintptr_t call = (uintptr_t)at - 1;
    Dl_info info;
    int length;

    if (!dladdr((void *)call, &info))
        length = snprintf(text, bytes, "%p", (void *)call);
    else if (info.dli_sname)
        length = snprintf(text, bytes, "%s+0x%zx (%s)", info.dli_sname, (size_t)(call - (uintptr_t)info.dli_saddr),
                          short_name(info.dli_fname));
    else
        length = snprintf(text, bytes, "%s+0x%zx", short_name(info.dli_fname),
                          (size_t)(call - (uintptr_t)info.dli_fbase));
    return length > 0 ? (size_t)length : 0;
}

/* Returns the index of the first frame outside leat. */
static unsigned first_frame(const struct leati_backtrace *trace)
{
    const void *own = own_library();
    unsigned first = 0;
    Dl_info info;

    while (own && first + 1 < trace->count && dladdr(trace->at[first], &info) && info.dli_fbase == own)
        first++;
    return first;
}

void leati_backtrace_print(const struct leati_backtrace *trace, char *text, size_t bytes)
{
    size_t used = 0;

    snprintf(text, bytes, "an unknown place");
    for (unsigned i = first_frame(trace); i < trace->count; i++) {
        char frame[256];
        size_t length = print_frame(trace->at[i], frame, sizeof frame);

        length = length < sizeof frame ? length : sizeof frame - 1;
        /* Print only frames that fit completely. */
        if (used + length + sizeof " < " > bytes)
            break;
        used += (size_t)snprintf(text + used, bytes - used, "%s%s", used ? " < " : "", frame);
    }
}

/* ---- snapshots ---- */

static void print_backtrace(const char *name, const struct leati_backtrace *trace,
                            void (*write)(void *argument, const char *text, size_t bytes), void *argument)
{
    char text[256];

    write(argument, text, (size_t)snprintf(text, sizeof text, ",\"%s\":[", name));
    for (unsigned i = first_frame(trace), first = i; i < trace->count; i++) {
        print_frame(trace->at[i], text, sizeof text);
        if (i > first)
            write(argument, ",", 1);
        leati_json_string(text, write, argument);
    }
    write(argument, "]", 1);
}

void leati_guard_snapshot(const struct leati_block *block,
                          void (*write)(void *argument, const char *text, size_t bytes), void *argument)
{
    const struct leati_note *note;

    leati_lock(&leati_notes_lock);
    note = block->note;
    if (note)
        print_backtrace("stack", &note->at[LEATI_ALLOCATION].trace, write, argument);
    if (note && note->is_freed)
        print_backtrace("freed_stack", &note->freed, write, argument);
    leati_unlock(&leati_notes_lock);
}

/* ---- holders of live blocks ---- */

/* A group of live blocks with the same tag and call stack. */
struct holder {
    const struct leati_backtrace *trace; /* call stack of the allocations; NULL: not known */
    uint32_t tag;
    uint64_t blocks, bytes;
};

static int compare_who(const void *a, const void *b)
{
    const struct holder *one = a, *other = b;
    unsigned one_count = one->trace ? one->trace->count : 0, other_count = other->trace ? other->trace->count : 0;

    if (one->tag != other->tag)
        return one->tag < other->tag ? -1 : 1;
    if (one_count != other_count)
        return one_count < other_count ? -1 : 1;
    return one_count ? memcmp(one->trace->at, other->trace->at, one_count * sizeof one->trace->at[0]) : 0;
}

static int compare_bytes(const void *a, const void *b)
{
    const struct holder *one = a, *other = b;

    return one->bytes < other->bytes ? 1 : one->bytes > other->bytes ? -1 : 0;
}

static size_t count_live(const struct leat_pool *pool)
{
    size_t count = 0;

    for (struct leati_span *span = pool->spans; span; span = span->next)
        for (struct leati_block *block = span->first; block; block = block->after)
            count += leati_state(block) == LEATI_BLOCK_LIVE;
    return count;
}

/* Returns the groups of live blocks by tag and call stack, the largest group first, and sets *count to their
 * number. Returns NULL and sets *count to 0 if no block is live, or when out of memory. Call with the pool's lock
 * and leati_notes_lock held, or when the pool ends. The caller frees the result. */
static struct holder *find_holders(const struct leat_pool *pool, size_t *count)
{
    size_t live = count_live(pool), filled = 0, kept = 0;
    struct holder *holders = live ? malloc(live * sizeof *holders) : NULL;

    *count = 0;
    if (!holders)
        return NULL;
    for (struct leati_span *span = pool->spans; span; span = span->next)
        for (struct leati_block *block = span->first; block && filled < live; block = block->after)
            if (leati_state(block) == LEATI_BLOCK_LIVE)
                holders[filled++] =
                    (struct holder){.trace = block->note ? &block->note->at[LEATI_ALLOCATION].trace : NULL,
                                    .tag = block->tag,
                                    .blocks = 1,
                                    .bytes = leati_requested(block)};
    qsort(holders, filled, sizeof *holders, compare_who);
    for (size_t i = 0; i < filled; i++) {
        if (kept && !compare_who(&holders[kept - 1], &holders[i])) {
            holders[kept - 1].blocks++;
            holders[kept - 1].bytes += holders[i].bytes;
        } else {
            holders[kept++] = holders[i];
        }
    }
    qsort(holders, kept, sizeof *holders, compare_bytes);
    *count = kept;
    return holders;
}

void leati_guard_holders(struct leat_pool *pool, struct leati_strbuf *text)
{
    char words[LEATI_BACKTRACE_TEXT_BYTES];
    struct holder *holders;
    size_t count;

    leati_assert_locked(&pool->lock);
    if (!pool->backtraces)
        return;
    leati_lock(&leati_notes_lock);
    holders = find_holders(pool, &count);
    if (count && holders[0].trace) {
        leati_backtrace_print(holders[0].trace, words, sizeof words);
        leati_strbuf_add(text, "; most, %llu bytes in %llu blocks, was allocated at %s",
                         (unsigned long long)holders[0].bytes, (unsigned long long)holders[0].blocks, words);
    }
    leati_unlock(&leati_notes_lock);
    free(holders);
}

void leati_guard_leaks(struct leat_pool *pool)
{
    struct holder *holders;
    size_t count;

    leati_lock(&leati_notes_lock);
    holders = find_holders(pool, &count);
    for (size_t i = 0; i < count && i < LEAK_LINES; i++) {
        const char *tag = leati_stats_tag_name(holders[i].tag);
        char words[LEATI_BACKTRACE_TEXT_BYTES] = "";

        if (holders[i].trace)
            leati_backtrace_print(holders[i].trace, words, sizeof words);
        fprintf(stderr, "leat: leak: %llu bytes in %llu block%s%s%s%s%s%s\n", (unsigned long long)holders[i].bytes,
                (unsigned long long)holders[i].blocks, holders[i].blocks == 1 ? "" : "s", *tag ? ", tag '" : "",
                tag, *tag ? "'" : "", *words ? ", allocated at " : "", words);
    }
    if (count > LEAK_LINES)
        fprintf(stderr, "leat: leak: and %zu more places\n", count - LEAK_LINES);
    leati_unlock(&leati_notes_lock);
    free(holders);
}
