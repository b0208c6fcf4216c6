/* leat/compat/channel_descriptor.h - cudaCreateChannelDesc<type>() is with the other forms of C++. */
#ifndef LEAT_COMPAT_CHANNEL_DESCRIPTOR_H
#define LEAT_COMPAT_CHANNEL_DESCRIPTOR_H

#include <leat/compat/cuda_runtime.h>

#endif
