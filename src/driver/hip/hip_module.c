/*
 * hip_module.c - loads modules and finds kernels. gpu/gpu_module.h launches kernels.
 */
#include "driver/hip/hip_driver.h"

#include "driver/gpu/gpu_module.h"
#include "driver/hip/hip_code.h"
#include "kernels/builtin.h"

#include <stdlib.h>
#include <string.h>

/* HIP has no call for the number of a kernel's parameters, so the module keeps these numbers from its code object.
 */
struct hip_module {
    hi_module handle;
    struct hip_code_kernels kernels;
};

leat_status leati_hip_module_load(struct leati_driver *driver, void *device, const void *image, size_t bytes,
                                  void **module)
{
    struct gpu_device *self = device;
    struct hip_module *made;
    leat_status status;
    hi_result code;
    gpu_before before;

    (void)driver;
    LEATI_TRY(leati_hip_code_check(image, bytes));
    made = calloc(1, sizeof *made);
    if (!made)
        return leati_fail(LEAT_ERROR_HOST_MEMORY, "no memory for a module");
    status = leati_hip_code_read(image, bytes, &made->kernels);
    if (status == LEAT_OK)
        status = leati_hip_enter(self, &before);
    if (status != LEAT_OK)
        goto free_made;
    code = self->api->module_load(&made->handle, image);
    leati_hip_leave(self, before);
    if (code != LEATI_hipSuccess) {
        status = leati_hip_status(code);
        if (status == LEAT_ERROR_INVALID)
            status = LEAT_ERROR_IMAGE;
        status = leati_hip_fail_as(self->api, status, leati_hip_names.module_load, code);
        if (status == LEAT_ERROR_IMAGE)
            status =
                leati_fail_in(status, "the image has no code for this GPU, which is a %s", self->architecture);
        goto free_made;
    }
    *module = made;
    return LEAT_OK;

free_made:
    leati_hip_code_free(&made->kernels);
    free(made);
    return status;
}

/* Loads the built-in code object for this GPU's architecture. If leat has no such code object, tries to load the
 * first one, so that the message has HIP's own error. */
leat_status leati_hip_module_builtin(struct leati_driver *driver, void *device, enum leati_builtin which,
                                     void **module)
{
    struct gpu_device *self = device;
    const struct leati_code_object *chosen = leati_code_objects;
    const struct leati_image *image;
    leat_status status;

    for (size_t i = 0; i < leati_code_object_count; i++)
        if (!strcmp(leati_code_objects[i].architecture, self->architecture))
            chosen = &leati_code_objects[i];
    image = &chosen->image[which];
    status = leati_hip_module_load(driver, device, image->begin, (size_t)(image->end - image->begin), module);
    if (status == LEAT_ERROR_IMAGE)
        return leati_fail_in(LEAT_ERROR_UNSUPPORTED, "leat's built-in kernels are built for %s",
                             LEATI_CODE_OBJECT_NAMES);
    return status;
}

leat_status leati_hip_module_unload(struct leati_driver *driver, void *device, void *module)
{
    struct gpu_device *self = device;
    struct hip_module *gone = module;
    hi_module handle = gone->handle;

    (void)driver;
    leati_hip_code_free(&gone->kernels);
    free(gone);
    GPU_TRY(self, module_unload, handle);
    return LEAT_OK;
}

leat_status leati_hip_kernel_get(struct leati_driver *driver, void *device, void *module, const char *name,
                                 void **kernel, struct leati_kernel_shape *shape)
{
    struct gpu_device *self = device;
    struct hip_module *from = module;
    hi_function function;
    int threads;

    (void)driver;
    GPU_TRY(self, module_function, &function, from->handle, name);
    GPU_TRY(self, function_attribute, &threads, LEATI_HIP_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, function);
    shape->parameter_count = leati_hip_code_parameters(&from->kernels, name);
    shape->max_block_threads = (uint32_t)threads;
    *kernel = function;
    return LEAT_OK;
}

/* Fails if the size is too large. HIP needs no call that raises a limit, because a block may use all LDS of its
 * compute unit. HIP would report a size that is too large as a failed launch, perhaps only at a later call. */
static leat_status allow_shared(const struct gpu_device *device, hi_function function, size_t shared_bytes)
{
    int fixed, limit;

    GPU_TRY(device, function_attribute, &fixed, LEATI_HIP_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES, function);
    return check_shared(device, fixed, shared_bytes, &limit);
}
