/*
 * hip/channel_descriptor.h - describes the elements of an array: by the bits of each channel, and in C++ by their
 * type.
 */
#ifndef LEAT_COMPAT_HIP_CHANNEL_DESCRIPTOR_H
#define LEAT_COMPAT_HIP_CHANNEL_DESCRIPTOR_H

#include "driver_types.h"
#include "hip_vector_types.h"

#ifdef __cplusplus
extern "C" {
#endif

/* x, y, z and w are the bits of each channel. */
hipChannelFormatDesc hipCreateChannelDesc(int x, int y, int z, int w, hipChannelFormatKind kind);

#ifdef __cplusplus
}

template <class T> static inline hipChannelFormatDesc leat_hip_channels(int count)
{
    const int bits = (int)sizeof(T) * 8;

    return hipCreateChannelDesc(bits, count > 1 ? bits : 0, count > 2 ? bits : 0, count > 3 ? bits : 0,
                                T(1) / T(2) != T(0) ? hipChannelFormatKindFloat
                                : T(-1) > T(0)      ? hipChannelFormatKindUnsigned
                                                    : hipChannelFormatKindSigned);
}

/* Defined only for the types that elements of arrays can have. */
template <class T> inline hipChannelFormatDesc hipCreateChannelDesc();

#define LEAT_HIP_CHANNELS_(type, name)                                                                            \
    template <> inline hipChannelFormatDesc hipCreateChannelDesc<type>()                                          \
    {                                                                                                             \
        return leat_hip_channels<type>(1);                                                                        \
    }                                                                                                             \
    template <> inline hipChannelFormatDesc hipCreateChannelDesc<name##1>()                                       \
    {                                                                                                             \
        return leat_hip_channels<type>(1);                                                                        \
    }                                                                                                             \
    template <> inline hipChannelFormatDesc hipCreateChannelDesc<name##2>()                                       \
    {                                                                                                             \
        return leat_hip_channels<type>(2);                                                                        \
    }                                                                                                             \
    template <> inline hipChannelFormatDesc hipCreateChannelDesc<name##4>()                                       \
    {                                                                                                             \
        return leat_hip_channels<type>(4);                                                                        \
    }

LEAT_HIP_CHANNELS_(signed char, char)
LEAT_HIP_CHANNELS_(unsigned char, uchar)
LEAT_HIP_CHANNELS_(short, short)
LEAT_HIP_CHANNELS_(unsigned short, ushort)
LEAT_HIP_CHANNELS_(int, int)
LEAT_HIP_CHANNELS_(unsigned int, uint)
LEAT_HIP_CHANNELS_(float, float)

#undef LEAT_HIP_CHANNELS_

template <> inline hipChannelFormatDesc hipCreateChannelDesc<char>()
{
    return hipCreateChannelDesc<signed char>();
}
#endif

#endif
