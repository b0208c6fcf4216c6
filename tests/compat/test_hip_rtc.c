/* test_hip_rtc.c - tests hiprtc: compiling fails with a log that says what to do instead, and invalid arguments
 * are refused. */
#include <hip/hiprtc.h>

#include "compat.h"

static void compiling_fails_with_a_log(void **state)
{
    static const char source[] = "extern \"C\" __global__ void nothing() {}";
    const char *option = "--offload-arch=gfx90a", *name = NULL;
    hiprtcProgram program, gone;
    size_t bytes = 0;
    char *log, code[8];

    (void)state;
    OK(hiprtcCreateProgram(&program, source, "nothing.cpp", 0, NULL, NULL));
    OK(hiprtcAddNameExpression(program, "nothing"));
    OK(hiprtcGetProgramLogSize(program, &bytes));
    assert_int_equal(bytes, 1);
    GIVES(HIPRTC_ERROR_COMPILATION, hiprtcCompileProgram(program, 1, &option));
    OK(hiprtcGetProgramLogSize(program, &bytes));
    log = malloc(bytes);
    OK(hiprtcGetProgramLog(program, log));
    assert_int_equal(strlen(log) + 1, bytes);
    assert_non_null(strstr(log, "no compiler"));
    assert_non_null(strstr(log, "hipModuleLoad"));
    free(log);
    GIVES(HIPRTC_ERROR_NO_NAME_EXPRESSIONS_AFTER_COMPILATION, hiprtcAddNameExpression(program, "more"));
    GIVES(HIPRTC_ERROR_NO_LOWERED_NAMES_BEFORE_COMPILATION, hiprtcGetLoweredName(program, "nothing", &name));
    GIVES(HIPRTC_ERROR_INVALID_PROGRAM, hiprtcGetCodeSize(program, &bytes));
    GIVES(HIPRTC_ERROR_INVALID_PROGRAM, hiprtcGetCode(program, code));
    GIVES(HIPRTC_ERROR_INVALID_PROGRAM, hiprtcGetBitcodeSize(program, &bytes));
    GIVES(HIPRTC_ERROR_INVALID_PROGRAM, hiprtcGetBitcode(program, code));
    gone = program;
    OK(hiprtcDestroyProgram(&program));
    assert_null(program);
    GIVES(HIPRTC_ERROR_INVALID_PROGRAM, hiprtcDestroyProgram(&gone));
    GIVES(HIPRTC_ERROR_INVALID_PROGRAM, hiprtcCompileProgram(gone, 0, NULL));
    GIVES(HIPRTC_ERROR_INVALID_PROGRAM, hiprtcGetProgramLogSize(gone, &bytes));
}

static void wrong_arguments_are_refused(void **state)
{
    hiprtcLinkState link = NULL;
    hiprtcProgram program;
    int major = 0, minor = -1;

    (void)state;
    GIVES(HIPRTC_ERROR_INVALID_INPUT, hiprtcCreateProgram(NULL, "", "", 0, NULL, NULL));
    GIVES(HIPRTC_ERROR_INVALID_INPUT, hiprtcCreateProgram(&program, NULL, "", 0, NULL, NULL));
    GIVES(HIPRTC_ERROR_INVALID_INPUT, hiprtcCreateProgram(&program, "", "", 1, NULL, NULL));
    GIVES(HIPRTC_ERROR_INVALID_INPUT, hiprtcCreateProgram(&program, "", "", -1, NULL, NULL));
    GIVES(HIPRTC_ERROR_INVALID_INPUT, hiprtcDestroyProgram(NULL));
    OK(hiprtcCreateProgram(&program, "", NULL, 0, NULL, NULL));
    GIVES(HIPRTC_ERROR_INVALID_INPUT, hiprtcCompileProgram(program, 1, NULL));
    GIVES(HIPRTC_ERROR_INVALID_INPUT, hiprtcAddNameExpression(program, NULL));
    GIVES(HIPRTC_ERROR_INVALID_INPUT, hiprtcGetProgramLogSize(program, NULL));
    GIVES(HIPRTC_ERROR_INVALID_INPUT, hiprtcGetProgramLog(program, NULL));
    GIVES(HIPRTC_ERROR_INVALID_INPUT, hiprtcGetCode(program, NULL));
    OK(hiprtcDestroyProgram(&program));
    GIVES(HIPRTC_ERROR_LINKING, hiprtcLinkCreate(0, NULL, NULL, &link));
    assert_null(link);
    GIVES(HIPRTC_ERROR_INVALID_INPUT, hiprtcLinkCreate(0, NULL, NULL, NULL));
    GIVES(HIPRTC_ERROR_INVALID_INPUT, hiprtcLinkAddFile(link, 0, "a", 0, NULL, NULL));
    GIVES(HIPRTC_ERROR_INVALID_INPUT, hiprtcLinkAddData(link, 0, &link, 1, "a", 0, NULL, NULL));
    GIVES(HIPRTC_ERROR_INVALID_INPUT, hiprtcLinkComplete(link, NULL, NULL));
    GIVES(HIPRTC_ERROR_INVALID_INPUT, hiprtcLinkDestroy(link));
    OK(hiprtcVersion(&major, &minor));
    assert_true(major > 0 && minor >= 0);
    GIVES(HIPRTC_ERROR_INVALID_INPUT, hiprtcVersion(NULL, &minor));
    assert_string_equal(hiprtcGetErrorString(HIPRTC_ERROR_COMPILATION), "HIPRTC_ERROR_COMPILATION");
    assert_string_equal(hiprtcGetErrorString(HIPRTC_SUCCESS), "HIPRTC_SUCCESS");
    assert_non_null(hiprtcGetErrorString((hiprtcResult)55));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(compiling_fails_with_a_log),
        cmocka_unit_test(wrong_arguments_are_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
