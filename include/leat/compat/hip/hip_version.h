/* hip/hip_version.h - defines the version of HIP that leat's names have. */
#ifndef LEAT_COMPAT_HIP_VERSION_H
#define LEAT_COMPAT_HIP_VERSION_H

#define HIP_VERSION_MAJOR 6
#define HIP_VERSION_MINOR 3
#define HIP_VERSION_PATCH 0
#define HIP_VERSION_GITHASH "leat"
#define HIP_VERSION_BUILD_ID 0
#define HIP_VERSION_BUILD_NAME "leat"
#define HIP_VERSION (HIP_VERSION_MAJOR * 10000000 + HIP_VERSION_MINOR * 100000 + HIP_VERSION_PATCH)

#endif
