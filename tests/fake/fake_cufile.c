/*
 * fake_cufile.c - stands for NVIDIA's libcufile in tests of "leat explain file". FAKE_CUFILE says what it does:
 *
 *     direct   reads NVMe directly, and accepts every file
 *     refuse   the same, but refuses every file
 *     stage    has no storage that it reads directly
 *     fail     its driver does not open
 *     hang     opening its driver never returns
 *     crash    opening its driver ends the process
 */
#include <leat/compat/cufile.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default")))

static int does(const char *word)
{
    const char *mode = getenv("FAKE_CUFILE");

    return mode && !strcmp(mode, word);
}

static CUfileError_t result(CUfileOpError error)
{
    return (CUfileError_t){.err = error};
}

EXPORT CUfileError_t cuFileDriverOpen(void)
{
    FILE *log = fopen("cufile.log", "w"); /* as NVIDIA's library does */

    if (log)
        (void)fclose(log);
    puts("a library may print");
    while (does("hang"))
        pause();
    if (does("crash"))
        abort();
    return result(does("fail") ? CU_FILE_NVFS_DRIVER_ERROR : CU_FILE_SUCCESS);
}

EXPORT CUfileError_t cuFileDriverGetProperties(CUfileDrvProps_t *properties)
{
    memset(properties, 0, sizeof *properties);
    if (!does("stage"))
        properties->nvfs.dstatusflags = 1u << CU_FILE_NVME_SUPPORTED | 1u << CU_FILE_NFS_SUPPORTED;
    return result(CU_FILE_SUCCESS);
}

EXPORT CUfileError_t cuFileHandleRegister(CUfileHandle_t *handle, CUfileDescr_t *description)
{
    *handle = description;
    return result(does("refuse") ? CU_FILE_IO_NOT_SUPPORTED : CU_FILE_SUCCESS);
}

EXPORT CUfileError_t cuFileGetVersion(int *version)
{
    *version = 1140;
    return result(CU_FILE_SUCCESS);
}
