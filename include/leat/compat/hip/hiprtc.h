/*
 * hip/hiprtc.h - the results of HIP's compiler at run time, for programs that name them. There is no compiler
 * here.
 */
#ifndef LEAT_COMPAT_HIP_RTC_H
#define LEAT_COMPAT_HIP_RTC_H

typedef enum hiprtcResult {
    HIPRTC_SUCCESS = 0,
    HIPRTC_ERROR_OUT_OF_MEMORY = 1,
    HIPRTC_ERROR_PROGRAM_CREATION_FAILURE = 2,
    HIPRTC_ERROR_INVALID_INPUT = 3,
    HIPRTC_ERROR_INVALID_PROGRAM = 4,
    HIPRTC_ERROR_INVALID_OPTION = 5,
    HIPRTC_ERROR_COMPILATION = 6,
    HIPRTC_ERROR_INTERNAL_ERROR = 11
} hiprtcResult;

static inline const char *hiprtcGetErrorString(hiprtcResult result)
{
    return result == HIPRTC_SUCCESS ? "HIPRTC_SUCCESS" : "there is no compiler at run time";
}

#endif
