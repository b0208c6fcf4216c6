/*
 * hip_code.h - what is inside an image of device code for AMD: is it whole, and how many parameters its kernels
 * have, which HIP itself does not tell.
 */
#ifndef LEATI_HIP_CODE_H
#define LEATI_HIP_CODE_H

#include <leat/status.h>

#include <stddef.h>

/* IMAGE, with a message, for what is cut off or no device code at all. */
leat_status leati_hip_code_check(const void *image, size_t bytes);

struct hip_code_kernel {
    char *name;
    int parameter_count;
};

/* The kernels of a code object, as its metadata has them; none where it has no metadata that can be read (a bundle
 * of several code objects, another form). */
struct hip_code_kernels {
    struct hip_code_kernel *list;
    size_t count;
};

/* HOST_MEMORY only. The image has passed leati_hip_code_check(). */
leat_status leati_hip_code_read(const void *image, size_t bytes, struct hip_code_kernels *kernels);
void leati_hip_code_free(struct hip_code_kernels *kernels);

/* -1 where the kernel is not known. */
int leati_hip_code_parameters(const struct hip_code_kernels *kernels, const char *name);

#endif
