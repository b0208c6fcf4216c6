/*
 * stream_copy.c - see stream_copy.h.
 *
 * A long copy works on several pages at a time, because with one page at a time the memory is sometimes idle.
 */
#include "base/assert.h"
#include "base/quick.h"
#include "base/stream_copy.h"

#include <pthread.h>
#include <stdint.h>
#include <string.h>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#define LINE_BYTES ((size_t)64)
#define PAGE_BYTES ((size_t)4096)
#define PAGES_AT_ONCE 4
#define GROUP_BYTES (PAGES_AT_ONCE * PAGE_BYTES)

/* Copies this many cache lines to dst, which is a multiple of LINE_BYTES. */
typedef void (*copy_lines)(char *dst, const char *src, size_t lines);

#if defined(__x86_64__)

__attribute__((target("avx512f"))) static void copy_lines_avx512(char *dst, const char *src, size_t lines)
{
    leati_assert((uintptr_t)dst % LINE_BYTES == 0);
    for (; lines >= GROUP_BYTES / LINE_BYTES; lines -= GROUP_BYTES / LINE_BYTES) {
        for (size_t i = 0; i < PAGE_BYTES; i += 2 * LINE_BYTES) {
            for (size_t at = i; at < GROUP_BYTES; at += PAGE_BYTES) {
                __m512i first = _mm512_loadu_si512(src + at), second = _mm512_loadu_si512(src + at + LINE_BYTES);

                _mm512_stream_si512((void *)(dst + at), first);
                _mm512_stream_si512((void *)(dst + at + LINE_BYTES), second);
            }
        }
        src += GROUP_BYTES;
        dst += GROUP_BYTES;
    }
    for (; lines; lines--, src += LINE_BYTES, dst += LINE_BYTES)
        _mm512_stream_si512((void *)dst, _mm512_loadu_si512(src));
    _mm_sfence();
}

__attribute__((target("avx2"))) static void copy_line_avx2(char *dst, const char *src)
{
    __m256i first = _mm256_loadu_si256((const void *)src), second = _mm256_loadu_si256((const void *)(src + 32));

    _mm256_stream_si256((void *)dst, first);
    _mm256_stream_si256((void *)(dst + 32), second);
}

__attribute__((target("avx2"))) static void copy_lines_avx2(char *dst, const char *src, size_t lines)
{
    leati_assert((uintptr_t)dst % LINE_BYTES == 0);
    for (; lines >= GROUP_BYTES / LINE_BYTES; lines -= GROUP_BYTES / LINE_BYTES) {
        for (size_t i = 0; i < PAGE_BYTES; i += LINE_BYTES) {
            for (size_t at = i; at < GROUP_BYTES; at += PAGE_BYTES)
                copy_line_avx2(dst + at, src + at);
        }
        src += GROUP_BYTES;
        dst += GROUP_BYTES;
    }
    for (; lines; lines--, src += LINE_BYTES, dst += LINE_BYTES)
        copy_line_avx2(dst, src);
    _mm_sfence();
}

LEATI_HOT static copy_lines lines_of(enum leati_stream_isa isa)
{
    static const copy_lines table[] = {NULL, copy_lines_avx2, copy_lines_avx512};

    return table[isa];
}

static enum leati_stream_isa look(void)
{
    __builtin_cpu_init();
    if (__builtin_cpu_supports("avx512f"))
        return LEATI_STREAM_AVX512;
    return __builtin_cpu_supports("avx2") ? LEATI_STREAM_AVX2 : LEATI_STREAM_PLAIN;
}

void leati_stream_fence(void)
{
    _mm_sfence();
}

#else

static copy_lines lines_of(enum leati_stream_isa isa)
{
    (void)isa;
    return NULL;
}

static enum leati_stream_isa look(void)
{
    return LEATI_STREAM_PLAIN;
}

void leati_stream_fence(void)
{
}

#endif

static enum leati_stream_isa best;
static pthread_once_t best_once = PTHREAD_ONCE_INIT;

static void find_best(void)
{
    best = look();
}

LEATI_HOT enum leati_stream_isa leati_stream_best(void)
{
    pthread_once(&best_once, find_best);
    return best;
}

const char *leati_stream_name(enum leati_stream_isa isa)
{
    static const char *const names[] = {"memcpy", "AVX2", "AVX-512"};

    return names[isa];
}

LEATI_HOT void leati_stream_copy_by(enum leati_stream_isa isa, void *dst, const void *src, size_t bytes)
{
    size_t head = (size_t)(-(uintptr_t)dst & (LINE_BYTES - 1)), body;
    copy_lines lines = lines_of(isa);
    const char *from = src;
    char *to = dst;

    leati_assert(isa <= leati_stream_best());
    leati_assert((uintptr_t)dst - (uintptr_t)src >= bytes && (uintptr_t)src - (uintptr_t)dst >= bytes);
    if (!lines || bytes < head + LINE_BYTES) {
        memcpy(dst, src, bytes);
        return;
    }
    leati_assert(!((uintptr_t)(to + head) % LINE_BYTES) && bytes - head >= LINE_BYTES);
    body = (bytes - head) & ~(LINE_BYTES - 1);
    memcpy(to, from, head);
    lines(to + head, from + head, body / LINE_BYTES);
    memcpy(to + head + body, from + head + body, bytes - head - body);
}

LEATI_HOT void leati_stream_copy(void *dst, const void *src, size_t bytes)
{
    leati_stream_copy_by(leati_stream_best(), dst, src, bytes);
}
