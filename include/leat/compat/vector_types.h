/*
 * leat/compat/vector_types.h - declares dim3 and the short vectors of CUDA and HIP.
 *
 * The vectors have 2, 3 or 4 elements, called x, y, z and w, and the vendors' names, sizes and alignments.
 * Functions such as make_float4() make them.
 */
#ifndef LEAT_COMPAT_VECTOR_TYPES_H
#define LEAT_COMPAT_VECTOR_TYPES_H

#define LEAT_VECTOR_(type, name, align2, align4)                                                                  \
    typedef struct name##1                                                                                        \
    {                                                                                                             \
        type x;                                                                                                   \
    }                                                                                                             \
    name##1;                                                                                                      \
    typedef struct __attribute__((aligned(align2))) name##2                                                       \
    {                                                                                                             \
        type x, y;                                                                                                \
    }                                                                                                             \
    name##2;                                                                                                      \
    typedef struct name##3                                                                                        \
    {                                                                                                             \
        type x, y, z;                                                                                             \
    }                                                                                                             \
    name##3;                                                                                                      \
    typedef struct __attribute__((aligned(align4))) name##4                                                       \
    {                                                                                                             \
        type x, y, z, w;                                                                                          \
    }                                                                                                             \
    name##4;                                                                                                      \
    static inline name##1 make_##name##1(type x)                                                                  \
    {                                                                                                             \
        name##1 v = {x};                                                                                          \
        return v;                                                                                                 \
    }                                                                                                             \
    static inline name##2 make_##name##2(type x, type y)                                                          \
    {                                                                                                             \
        name##2 v = {x, y};                                                                                       \
        return v;                                                                                                 \
    }                                                                                                             \
    static inline name##3 make_##name##3(type x, type y, type z)                                                  \
    {                                                                                                             \
        name##3 v = {x, y, z};                                                                                    \
        return v;                                                                                                 \
    }                                                                                                             \
    static inline name##4 make_##name##4(type x, type y, type z, type w)                                          \
    {                                                                                                             \
        name##4 v = {x, y, z, w};                                                                                 \
        return v;                                                                                                 \
    }

LEAT_VECTOR_(signed char, char, 2, 4)
LEAT_VECTOR_(unsigned char, uchar, 2, 4)
LEAT_VECTOR_(short, short, 4, 8)
LEAT_VECTOR_(unsigned short, ushort, 4, 8)
LEAT_VECTOR_(int, int, 8, 16)
LEAT_VECTOR_(unsigned int, uint, 8, 16)
LEAT_VECTOR_(long, long, 16, 16)
LEAT_VECTOR_(unsigned long, ulong, 16, 16)
LEAT_VECTOR_(long long, longlong, 16, 16)
LEAT_VECTOR_(unsigned long long, ulonglong, 16, 16)
LEAT_VECTOR_(float, float, 8, 16)
LEAT_VECTOR_(double, double, 16, 16)

#undef LEAT_VECTOR_

/* In C, a dimension that an initializer leaves out is 0, and a launch with a 0 fails. So write all three
 * dimensions. */
typedef struct dim3 {
    unsigned int x, y, z;
#ifdef __cplusplus
    constexpr dim3(unsigned int width = 1, unsigned int height = 1, unsigned int depth = 1) : x(width), y(height), z(depth)
    {
    }
    constexpr dim3(uint3 v) : x(v.x), y(v.y), z(v.z)
    {
    }
    operator uint3() const
    {
        uint3 v = {x, y, z};
        return v;
    }
#endif
} dim3;

#endif
