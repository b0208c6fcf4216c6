/*
 * cuda_module.c - checks and loads modules, and finds kernels. gpu/gpu_module.h launches kernels.
 */
#include "driver/cuda/cuda_driver.h"

#include "driver/gpu/gpu_module.h"
#include "kernels/builtin.h"

#include <elf.h>
#include <string.h>

#define FATBIN_MAGIC 0xba55ed50u
#define LOG_BYTES 4096
#define LOG_SHOWN 1000

/* The header of a fatbin. */
struct fatbin_header {
    uint32_t magic;
    uint16_t version;
    uint16_t header_bytes;
    uint64_t content_bytes; /* size of the content that follows this header */
};

/* Returns the offset of a table's end in an ELF file, or UINT64_MAX on overflow. */
static uint64_t table_end(uint64_t offset, uint64_t entry_bytes, uint64_t count)
{
    uint64_t bytes = entry_bytes * count; /* does not overflow, because both have 16 bits, or count is 1 */

    return offset > UINT64_MAX - bytes ? UINT64_MAX : offset + bytes;
}

static leat_status fail_short(const char *what, uint64_t needed, size_t bytes)
{
    return leati_fail(LEAT_ERROR_IMAGE,
                      "the %s is cut off: its headers reach to byte %llu, the image has %zu; give the whole file",
                      what, (unsigned long long)needed, bytes);
}

static leat_status check_elf(const void *image, size_t bytes)
{
    uint64_t sections, segments;
    Elf64_Ehdr header;

    if (bytes < sizeof header)
        return fail_short("cubin", sizeof header, bytes);
    memcpy(&header, image, sizeof header);
    if (header.e_ident[EI_CLASS] != ELFCLASS64 || header.e_machine != EM_CUDA)
        return leati_fail(
            LEAT_ERROR_IMAGE,
            "the image is an ELF file for another machine (%u, a GPU is %u); give PTX, a cubin or a fatbin",
            header.e_machine, EM_CUDA);
    sections = table_end(header.e_shoff, header.e_shentsize, header.e_shnum);
    segments = table_end(header.e_phoff, header.e_phentsize, header.e_phnum);
    if (sections > bytes || segments > bytes)
        return fail_short("cubin", sections > segments ? sections : segments, bytes);
    return LEAT_OK;
}

/* Fails if an image is truncated. CUDA's call has no size argument and trusts the sizes in the image, so it would
 * read beyond the end of a truncated image. An image that is neither a cubin nor a fatbin is PTX text, which ends
 * with a NUL and needs no check. */
static leat_status check_image(const void *image, size_t bytes)
{
    struct fatbin_header fatbin;

    if (bytes >= SELFMAG && !memcmp(image, ELFMAG, SELFMAG))
        return check_elf(image, bytes);
    if (bytes < sizeof fatbin)
        return LEAT_OK;
    memcpy(&fatbin, image, sizeof fatbin);
    if (fatbin.magic != FATBIN_MAGIC)
        return LEAT_OK;
    if (fatbin.header_bytes > bytes || fatbin.content_bytes > bytes - fatbin.header_bytes)
        return fail_short("fatbin", table_end(fatbin.content_bytes, fatbin.header_bytes, 1), bytes);
    return LEAT_OK;
}

/* Truncates the compiler's log to LOG_SHOWN characters and replaces its line breaks by spaces, so that it fits
 * into one line of a message. */
static void flatten(char *log)
{
    size_t length;

    log[LOG_SHOWN] = '\0';
    for (char *p = log; *p; p++)
        if ((unsigned char)*p < ' ')
            *p = ' ';
    length = strlen(log);
    while (length > 0 && log[length - 1] == ' ')
        log[--length] = '\0';
}

leat_status leati_cuda_module_load(struct leati_driver *driver, void *device, const void *image, size_t bytes,
                                   void **module)
{
    struct gpu_device *self = device;
    char log[LOG_BYTES] = "";
    cu_jit_option options[] = {LEATI_CU_JIT_ERROR_LOG_BUFFER, LEATI_CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES};
    void *values[] = {log, (void *)(uintptr_t)sizeof log};
    cu_module loaded;
    leat_status status;
    cu_result code;

    (void)driver;
    LEATI_TRY(check_image(image, bytes));
    GPU_CALL(self, code, module_load, &loaded, image, 2, options, values);
    if (code != LEATI_CUDA_SUCCESS) {
        flatten(log);
        status = leati_cuda_status(code);
        if (status == LEAT_ERROR_INVALID)
            status = LEAT_ERROR_IMAGE;
        status = leati_cuda_fail_as(self->api, status, leati_cuda_names.module_load, code);
        return log[0] ? leati_fail_in(status, "the compiler says \"%s\"", log) : status;
    }
    *module = loaded;
    return LEAT_OK;
}

/* Loads machine code if leat has it for this GPU, because the driver takes up to a second to compile PTX. A
 * driver can refuse the machine code, for example because CUDA_FORCE_PTX_JIT=1 is set. leat then loads the PTX,
 * and if this works, does not try machine code on this device again. */
leat_status leati_cuda_module_builtin(struct leati_driver *driver, void *device, enum leati_builtin which,
                                      void **module)
{
    const struct leati_image *code = &leati_fatbins[which], *ptx = &leati_ptx[which];
    struct gpu_driver *cuda = gpu_of(driver);
    struct gpu_device *self = device;
    bool has_code = leati_cuda_machine_code(cuda, self->ordinal, self->number) != 0;

    if (has_code && LEATI_QUIETLY(leati_cuda_module_load(driver, device, code->begin,
                                                         (size_t)(code->end - code->begin), module)) == LEAT_OK)
        return LEAT_OK;
    LEATI_TRY(leati_cuda_module_load(driver, device, ptx->begin, (size_t)(ptx->end - ptx->begin), module));
    if (has_code && self->ordinal < 64)
        atomic_fetch_or_explicit(&cuda->refused_code, UINT64_C(1) << self->ordinal, memory_order_relaxed);
    return LEAT_OK;
}

leat_status leati_cuda_module_unload(struct leati_driver *driver, void *device, void *module)
{
    struct gpu_device *self = device;

    (void)driver;
    GPU_TRY(self, module_unload, module);
    return LEAT_OK;
}

/* Sets *count to the number of parameters of a kernel, or to -1 if it is unknown. CUDA's call reports one
 * parameter at a time, so the first index that it rejects is the number of parameters. */
static leat_status count_parameters(const struct gpu_device *device, cu_function function, int *count)
{
    size_t offset, bytes;
    cu_result code;
    int found = 0;

    if (!device->api->function_parameter) {
        *count = -1;
        return LEAT_OK;
    }
    for (;;) {
        GPU_CALL(device, code, function_parameter, function, (size_t)found, &offset, &bytes);
        if (code != LEATI_CUDA_SUCCESS)
            break;
        found++;
    }
    *count = code == LEATI_CUDA_ERROR_INVALID_VALUE ? found : -1;
    return LEAT_OK;
}

leat_status leati_cuda_kernel_get(struct leati_driver *driver, void *device, void *module, const char *name,
                                  void **kernel, struct leati_kernel_shape *shape)
{
    struct gpu_device *self = device;
    cu_function function;
    int threads, parameters;

    (void)driver;
    GPU_TRY(self, module_function, &function, module, name);

    /* Load the kernel now. With lazy loading CUDA would load it at its first launch, which would wait for all work
     * of the context ("Lazy Loading" in the CUDA C++ programming guide). Drivers before CUDA 12.4 do not have this
     * call.
     */
    if (self->api->function_load)
        GPU_TRY(self, function_load, function);
    GPU_TRY(self, function_attribute, &threads, LEATI_CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, function);
    LEATI_TRY(count_parameters(self, function, &parameters));
    shape->parameter_count = parameters;
    shape->max_block_threads = (uint32_t)threads;
    *kernel = function;
    return LEAT_OK;
}

leat_status leati_cuda_kernel_parameter(struct leati_driver *driver, void *device, void *kernel, unsigned index,
                                        size_t *bytes)
{
    struct gpu_device *self = device;
    size_t offset;

    (void)driver;
    GPU_TRY(self, function_parameter, kernel, index, &offset, bytes);
    return LEAT_OK;
}

/*
 * Raises the limit of a kernel's shared memory, 48 KiB by default, if a launch needs more. Always sets the
 * device's maximum. So all threads set the same value, and concurrent launches cannot lower the limit for each
 * other.
 */
static leat_status allow_shared(const struct gpu_device *device, cu_function function, size_t shared_bytes)
{
    int limit, fixed;

    GPU_TRY(device, function_attribute, &limit, LEATI_CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, function);
    if (limit >= 0 && shared_bytes <= (size_t)limit)
        return LEAT_OK;
    GPU_TRY(device, function_attribute, &fixed, LEATI_CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES, function);
    LEATI_TRY(check_shared(device, fixed, shared_bytes, &limit));
    GPU_TRY(device, function_set_attribute, function, LEATI_CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
            limit);
    return LEAT_OK;
}
