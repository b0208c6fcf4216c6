/*
 * gpu_error.h - converts results of the vendor's calls to a status and a message. See gpu_driver.h.
 *
 * The vendor's file has the table meanings, and GPU(fail_as), because each vendor provides its texts differently.
 */
#include "driver/gpu/gpu_driver.h"

static const struct gpu_meaning *find_meaning(gpu_result code)
{
    for (size_t i = 0; i < sizeof meanings / sizeof meanings[0]; i++)
        if (meanings[i].code == code)
            return &meanings[i];
    return NULL;
}

leat_status GPU(status)(gpu_result code)
{
    const struct gpu_meaning *meaning = find_meaning(code);

    if (code >= GPU_ERROR_CAPTURE_FIRST && code <= GPU_ERROR_CAPTURE_LAST)
        return LEAT_ERROR_NOT_PERMITTED;
    return meaning ? meaning->status : LEAT_ERROR_DRIVER;
}

/* Returns the end of the message that says what to do about a result, or "" if the vendor's text is enough. */
static const char *advice(gpu_result code)
{
    const struct gpu_meaning *meaning = find_meaning(code);

    return meaning && meaning->advice ? meaning->advice : "";
}

leat_status GPU(fail)(const struct gpu_api *api, const char *call, gpu_result code)
{
    if (code == GPU_ERROR_NOT_READY)
        return LEAT_NOT_READY;
    return GPU(fail_as)(api, GPU(status)(code), call, code);
}
