/*
 * host_shuffle_x86.c - does the byte permutes for host_shuffle.c, with registers of 16 bytes (AVX2) or of 64 bytes
 * (AVX-512 VBMI).
 */
#include "base/assert.h"
#include "layout/host_kernels.h"

#if defined(__x86_64__)
#include <immintrin.h>

/* Describes one register of the destination: the source registers that it needs, and for each of them the pshufb
 * control that moves its bytes into place. */
struct narrow {
    unsigned count;
    unsigned char from[LEATI_SHUFFLE_MOST];
    __m128i bytes[LEATI_SHUFFLE_MOST];
};

__attribute__((target("avx2"))) void leati_shuffle_avx2(const struct leati_shuffle *shuffle, unsigned count,
                                                        const struct leati_shuffle_run *run)
{
    struct narrow to[LEATI_SHUFFLE_MOST];
    const char *src = run->src;
    char *dst = run->dst;

    leati_assert(!run->streaming);
    for (unsigned j = 0; j < count; j++) {
        to[j].count = 0;
        for (unsigned i = 0; i < shuffle->src_count; i++) {
            unsigned char bytes[16];
            bool any = false;

            for (unsigned p = 0; p < 16; p++) {
                any |= shuffle->from[j][p] == i;
                bytes[p] = shuffle->from[j][p] == i ? shuffle->at[j][p] : 0x80;
            }
            if (!any)
                continue;
            to[j].from[to[j].count] = (unsigned char)i;
            to[j].bytes[to[j].count++] = _mm_loadu_si128((const void *)bytes);
        }
    }
    for (uint64_t times = run->times; times; times--, dst += shuffle->dst_step, src += shuffle->src_step) {
        for (unsigned j = 0; j < count; j++) {
            __m128i all = _mm_setzero_si128();

            for (unsigned i = 0; i < to[j].count; i++) {
                __m128i one =
                    _mm_loadu_si128((const void *)(src + run->src_from[j] + shuffle->src_at[to[j].from[i]]));

                all = _mm_or_si128(all, _mm_shuffle_epi8(one, to[j].bytes[i]));
            }
            _mm_storeu_si128((void *)(dst + run->dst_at[j]), all);
        }
    }
}

#define FETCH_BYTES 1024 /* from the source bytes that are used to those that are prefetched meanwhile */

#define VBMI __attribute__((target("avx512f,avx512bw,avx512vbmi")))
#define INLINE_VBMI static inline __attribute__((target("avx512f,avx512bw,avx512vbmi"), always_inline))

/* The same with 64 bytes. at: the offset of each source register. */
struct wide {
    unsigned count;
    int64_t at[LEATI_SHUFFLE_MOST];
    __mmask64 which[LEATI_SHUFFLE_MOST];
    __m512i bytes;
};

INLINE_VBMI __m512i gather_line(const struct wide *to, const char *src)
{
    __m512i all = _mm512_setzero_si512();

    for (unsigned i = 0; i < to->count; i++)
        all = _mm512_mask_permutexvar_epi8(all, to->which[i], to->bytes, _mm512_loadu_si512(src + to->at[i]));
    return all;
}

/* Copies the iterations in pairs, if the destination has planes: two adjacent lines of each. Returns the number of
 * iterations that it has copied. */
VBMI static uint64_t stream_planes(const struct wide *to, int64_t src_step, unsigned count,
                                   const struct leati_shuffle_run *run)
{
    const char *src = run->src;
    char *dst = run->dst;

    for (uint64_t pairs = run->times / 2; pairs; pairs--, dst += 128, src += 2 * src_step) {
        for (int64_t i = 0; i < 2 * src_step; i += 64)
            _mm_prefetch(src + FETCH_BYTES + i, _MM_HINT_T0);
        for (unsigned j = 0; j < count; j++) {
            __m512i first = gather_line(&to[j], src), second = gather_line(&to[j], src + src_step);

            _mm512_stream_si512((void *)(dst + run->dst_at[j]), first);
            _mm512_stream_si512((void *)(dst + run->dst_at[j] + 64), second);
        }
    }
    return run->times / 2 * 2;
}

VBMI void leati_shuffle_vbmi(const struct leati_shuffle *shuffle, unsigned count,
                             const struct leati_shuffle_run *run)
{
    struct wide to[LEATI_SHUFFLE_MOST];
    uint64_t done = 0;
    const char *src;
    char *dst;

    for (unsigned j = 0; j < count; j++) {
        __m512i from = _mm512_loadu_si512(shuffle->from[j]);

        to[j].bytes = _mm512_loadu_si512(shuffle->at[j]);
        to[j].count = 0;
        for (unsigned i = 0; i < shuffle->src_count; i++) {
            __mmask64 which = _mm512_cmpeq_epi8_mask(from, _mm512_set1_epi8((char)i));

            if (!which)
                continue;
            to[j].at[to[j].count] = run->src_from[j] + shuffle->src_at[i];
            to[j].which[to[j].count++] = which;
        }
    }
    if (run->streaming && shuffle->dst_step == 64)
        done = stream_planes(to, shuffle->src_step, count, run);
    src = run->src + (int64_t)done * shuffle->src_step;
    dst = run->dst + (int64_t)done * shuffle->dst_step;
    for (; done < run->times; done++, dst += shuffle->dst_step, src += shuffle->src_step) {
        for (unsigned j = 0; j < count; j++) {
            __m512i line = gather_line(&to[j], src);

            if (run->streaming)
                _mm512_stream_si512((void *)(dst + run->dst_at[j]), line);
            else
                _mm512_storeu_si512(dst + run->dst_at[j], line);
        }
    }
}

#else

/* Never called on other processors, because there the instruction set is always plain C. */
void leati_shuffle_avx2(const struct leati_shuffle *shuffle, unsigned count, const struct leati_shuffle_run *run)
{
    (void)shuffle, (void)count, (void)run;
}

void leati_shuffle_vbmi(const struct leati_shuffle *shuffle, unsigned count, const struct leati_shuffle_run *run)
{
    (void)shuffle, (void)count, (void)run;
}

#endif
