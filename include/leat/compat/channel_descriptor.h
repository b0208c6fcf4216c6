/* leat/compat/channel_descriptor.h - includes cuda_runtime.h, which defines cudaCreateChannelDesc<type>(). */
#ifndef LEAT_COMPAT_CHANNEL_DESCRIPTOR_H
#define LEAT_COMPAT_CHANNEL_DESCRIPTOR_H

#include <leat/compat/cuda_runtime.h>

#endif
