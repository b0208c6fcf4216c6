/*
 * hip_code.h - parses images of device code for AMD GPUs. It checks that an image is complete, and finds the
 * number of parameters of each kernel, because HIP has no call for this.
 */
#ifndef LEATI_HIP_CODE_H
#define LEATI_HIP_CODE_H

#include <leat/status.h>

#include <stddef.h>

/* Returns LEAT_ERROR_IMAGE, with a message, if the image is truncated or is not device code. */
leat_status leati_hip_code_check(const void *image, size_t bytes);

struct hip_code_kernel {
    char *name;
    int parameter_count;
};

/* The kernels of a code object, from its metadata. The list is empty if leat cannot read the metadata, as in a
 * bundle of several code objects or in another format. */
struct hip_code_kernels {
    struct hip_code_kernel *list;
    size_t count;
};

/* Reads the list of kernels, which the caller must free with leati_hip_code_free(). The image must have passed
 * leati_hip_code_check(). Fails only with LEAT_ERROR_HOST_MEMORY. */
leat_status leati_hip_code_read(const void *image, size_t bytes, struct hip_code_kernels *kernels);
void leati_hip_code_free(struct hip_code_kernels *kernels);

/* Returns the number of parameters of a kernel, or -1 if the kernel is not in the list. */
int leati_hip_code_parameters(const struct hip_code_kernels *kernels, const char *name);

#endif
