/*
 * hip/hiprtc.h - declares HIP's run-time compiler, which leat does not have. Programs can be created and
 * destroyed, but compiling them fails with HIPRTC_ERROR_COMPILATION and a log that says what to do instead.
 *
 * The functions are in libleat-hip, so link with -lleat-hip instead of -lhiprtc. Linking device code fails with
 * HIPRTC_ERROR_LINKING. Any thread may call any function.
 */
#ifndef LEAT_COMPAT_HIP_RTC_H
#define LEAT_COMPAT_HIP_RTC_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum hiprtcResult {
    HIPRTC_SUCCESS = 0,
    HIPRTC_ERROR_OUT_OF_MEMORY = 1,
    HIPRTC_ERROR_PROGRAM_CREATION_FAILURE = 2,
    HIPRTC_ERROR_INVALID_INPUT = 3,
    HIPRTC_ERROR_INVALID_PROGRAM = 4,
    HIPRTC_ERROR_INVALID_OPTION = 5,
    HIPRTC_ERROR_COMPILATION = 6,
    HIPRTC_ERROR_BUILTIN_OPERATION_FAILURE = 7,
    HIPRTC_ERROR_NO_NAME_EXPRESSIONS_AFTER_COMPILATION = 8,
    HIPRTC_ERROR_NO_LOWERED_NAMES_BEFORE_COMPILATION = 9,
    HIPRTC_ERROR_NAME_EXPRESSION_NOT_VALID = 10,
    HIPRTC_ERROR_INTERNAL_ERROR = 11,
    HIPRTC_ERROR_LINKING = 100
} hiprtcResult;

typedef struct _hiprtcProgram *hiprtcProgram;
typedef struct ihiprtcLinkState *hiprtcLinkState;

/* Options of a linker. Any number is accepted, because nothing is linked. */
typedef int hiprtcJIT_option;
typedef int hiprtcJITInputType;

const char *hiprtcGetErrorString(hiprtcResult result);
hiprtcResult hiprtcVersion(int *major, int *minor);

/* Creates a program. The source is not stored. hiprtcDestroyProgram() sets *program to NULL. The calls return
 * INVALID_INPUT, INVALID_PROGRAM or OUT_OF_MEMORY. */
hiprtcResult hiprtcCreateProgram(hiprtcProgram *program, const char *source, const char *name, int headerCount,
                                 const char **headers, const char **includeNames);
hiprtcResult hiprtcDestroyProgram(hiprtcProgram *program);
hiprtcResult hiprtcAddNameExpression(hiprtcProgram program, const char *expression);
hiprtcResult hiprtcCompileProgram(hiprtcProgram program, int optionCount, const char **options);

/* The size of the log includes the 0 at its end. */
hiprtcResult hiprtcGetProgramLogSize(hiprtcProgram program, size_t *bytes);
hiprtcResult hiprtcGetProgramLog(hiprtcProgram program, char *log);

/* These calls fail for every program: hiprtcGetLoweredName() with NO_LOWERED_NAMES_BEFORE_COMPILATION, and the
 * calls that return code with INVALID_PROGRAM. */
hiprtcResult hiprtcGetLoweredName(hiprtcProgram program, const char *expression, const char **name);
hiprtcResult hiprtcGetCodeSize(hiprtcProgram program, size_t *bytes);
hiprtcResult hiprtcGetCode(hiprtcProgram program, char *code);
hiprtcResult hiprtcGetBitcodeSize(hiprtcProgram program, size_t *bytes);
hiprtcResult hiprtcGetBitcode(hiprtcProgram program, char *bitcode);

hiprtcResult hiprtcLinkCreate(unsigned int optionCount, hiprtcJIT_option *options, void **values,
                              hiprtcLinkState *state);
hiprtcResult hiprtcLinkAddFile(hiprtcLinkState state, hiprtcJITInputType type, const char *path,
                               unsigned int optionCount, hiprtcJIT_option *options, void **values);
hiprtcResult hiprtcLinkAddData(hiprtcLinkState state, hiprtcJITInputType type, void *image, size_t bytes,
                               const char *name, unsigned int optionCount, hiprtcJIT_option *options,
                               void **values);
hiprtcResult hiprtcLinkComplete(hiprtcLinkState state, void **binary, size_t *bytes);
hiprtcResult hiprtcLinkDestroy(hiprtcLinkState state);

#ifdef __cplusplus
}
#endif

#endif
