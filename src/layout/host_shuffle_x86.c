/*
 * host_shuffle_x86.c - does the byte permutes for host_shuffle.c, with registers of 16 bytes (AVX2) or of 64 bytes
 * (AVX-512 VBMI).
 */
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
                                                        bool streaming, char *dst, const char *src, uint64_t times)
{
    struct narrow to[LEATI_SHUFFLE_MOST];

    (void)streaming;
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
    for (; times; times--, dst += shuffle->dst_step, src += shuffle->src_step) {
        for (unsigned j = 0; j < count; j++) {
            __m128i all = _mm_setzero_si128();

            for (unsigned i = 0; i < to[j].count; i++) {
                __m128i one = _mm_loadu_si128((const void *)(src + shuffle->src_at[to[j].from[i]]));

                all = _mm_or_si128(all, _mm_shuffle_epi8(one, to[j].bytes[i]));
            }
            _mm_storeu_si128((void *)(dst + shuffle->dst_at[j]), all);
        }
    }
}

struct wide {
    unsigned count;
    unsigned char from[LEATI_SHUFFLE_MOST];
    __mmask64 which[LEATI_SHUFFLE_MOST];
    __m512i bytes;
};

__attribute__((target("avx512f,avx512bw,avx512vbmi"))) void leati_shuffle_vbmi(const struct leati_shuffle *shuffle,
                                                                               unsigned count, bool streaming,
                                                                               char *dst, const char *src,
                                                                               uint64_t times)
{
    struct wide to[LEATI_SHUFFLE_MOST];

    for (unsigned j = 0; j < count; j++) {
        __m512i from = _mm512_loadu_si512(shuffle->from[j]);

        to[j].bytes = _mm512_loadu_si512(shuffle->at[j]);
        to[j].count = 0;
        for (unsigned i = 0; i < shuffle->src_count; i++) {
            __mmask64 which = _mm512_cmpeq_epi8_mask(from, _mm512_set1_epi8((char)i));

            if (!which)
                continue;
            to[j].from[to[j].count] = (unsigned char)i;
            to[j].which[to[j].count++] = which;
        }
    }
    for (; times; times--, dst += shuffle->dst_step, src += shuffle->src_step) {
        for (unsigned j = 0; j < count; j++) {
            __m512i all = _mm512_setzero_si512();

            for (unsigned i = 0; i < to[j].count; i++)
                all = _mm512_mask_permutexvar_epi8(all, to[j].which[i], to[j].bytes,
                                                   _mm512_loadu_si512(src + shuffle->src_at[to[j].from[i]]));
            if (streaming)
                _mm512_stream_si512((void *)(dst + shuffle->dst_at[j]), all);
            else
                _mm512_storeu_si512(dst + shuffle->dst_at[j], all);
        }
    }
}

#else

/* Never called on other processors, because there the instruction set is always plain C. */
void leati_shuffle_avx2(const struct leati_shuffle *shuffle, unsigned count, bool streaming, char *dst,
                        const char *src, uint64_t times)
{
    (void)shuffle, (void)count, (void)streaming, (void)dst, (void)src, (void)times;
}

void leati_shuffle_vbmi(const struct leati_shuffle *shuffle, unsigned count, bool streaming, char *dst,
                        const char *src, uint64_t times)
{
    (void)shuffle, (void)count, (void)streaming, (void)dst, (void)src, (void)times;
}

#endif
