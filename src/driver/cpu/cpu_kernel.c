/* cpu_kernel.c - loads kernels of the CPU device from shared objects, and runs their blocks on all cores. */
#include "driver/cpu/cpu.h"

#include "base/addresses.h"
#include "base/lock.h"
#include "driver/cpu/cpu_image.h"
#include "kernels/builtin.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* Limits that no real kernel exceeds. A larger number means that the kernel's description is damaged. */
#define PARAMETERS_MOST 1024
#define PARAMETER_BYTES_MOST 65536

struct cpu_kernel {
    const leat_cpu_kernel *code;
    struct cpu_kernel *next;
};

struct cpu_module {
    void *library; /* NULL for built-in kernels, and for kernels that are compiled into the program */
    leat_embedded_kernel *own; /* kernels that are compiled into the program; NULL for others */
    size_t own_count;
    enum leati_builtin which; /* which built-in module, if library and own are NULL */
    int fd; /* the image; stays open, so that a sanitizer or a profiler in this process can read it by its path */
    struct cpu_kernel *kernels;
};

static leat_status new_module(struct cpu_module **module)
{
    *module = calloc(1, sizeof **module);
    if (!*module)
        return leati_fail(LEAT_ERROR_HOST_MEMORY, "no memory for a module");
    (*module)->fd = -1;
    return LEAT_OK;
}

static leat_status image_file(const char *image, size_t bytes, int *fd)
{
    size_t written = 0;

    *fd = memfd_create("leat-module", MFD_CLOEXEC);
    if (*fd < 0)
        return leati_fail(LEAT_ERROR_SYSTEM, "memfd_create: %s", strerror(errno));
    while (written < bytes) {
        ssize_t n = write(*fd, image + written, bytes - written);

        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0) {
            close(*fd);
            return leati_fail(LEAT_ERROR_SYSTEM, "writing a module of %zu bytes to memory: %s", bytes,
                              strerror(errno));
        }
        written += (size_t)n;
    }
    return LEAT_OK;
}

/* Writes a path of the image that no earlier module had. If the loader knows a path, dlopen() returns the library
 * that it loaded from there. A library that dlclose() could not unload (-z nodelete, or a unique symbol of C++)
 * keeps its path, but the number of its descriptor is used again. So spell a count into the path: "./" is a binary
 * 1 and "/" is a 0. */
static void image_path(char *path, size_t path_bytes, int fd)
{
    static atomic_uint_least64_t loads;
    /* Relaxed: only the number has to be unique. */
    uint64_t count = atomic_fetch_add_explicit(&loads, 1, memory_order_relaxed);
    char spelled[2 * 64 + 1] = "";

    for (char *at = spelled; count; count /= 2)
        at = stpcpy(at, count % 2 ? "./" : "/");
    snprintf(path, path_bytes, "/proc/self/fd/%s%d", spelled, fd);
}

leat_status cpu_module_load(struct leati_driver *driver, void *device, const void *image, size_t bytes, void **out)
{
    struct cpu_module *module = NULL;
    struct leati_addresses_hint hint;
    leat_status status;
    char path[160];

    (void)driver, (void)device;
    if (bytes < 4 || memcmp(image, "\177ELF", 4))
        return leati_fail(
            LEAT_ERROR_IMAGE,
            "not a shared object; the CPU device takes what 'cc -O3 -fPIC -shared' makes of a file with leat/device_code.h");
    LEATI_TRY(cpu_image_check(image, bytes));
    LEATI_TRY(new_module(&module));
    status = image_file(image, bytes, &module->fd);
    if (status != LEAT_OK) {
        free(module);
        return status;
    }
    image_path(path, sizeof path, module->fd);
    module->library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!module->library) {
        status = leati_fail(LEAT_ERROR_IMAGE, "dlopen: %s%s", dlerror(), leati_addresses_hint(&hint));
        close(module->fd);
        free(module);
        return status;
    }
    *out = module;
    return LEAT_OK;
}

leat_status cpu_module_builtin(struct leati_driver *driver, void *device, enum leati_builtin which, void **out)
{
    struct cpu_module *module = NULL;

    (void)driver, (void)device;
    LEATI_TRY(new_module(&module));
    module->which = which;
    *out = module;
    return LEAT_OK;
}

leat_status cpu_module_embedded(struct leati_driver *driver, void *device, const leat_embedded_kernel *kernels,
                                size_t count, void **out)
{
    struct cpu_module *module = NULL;

    (void)driver, (void)device;
    LEATI_TRY(new_module(&module));
    module->own = calloc(count, sizeof *module->own);
    if (!module->own) {
        free(module);
        return leati_fail(LEAT_ERROR_HOST_MEMORY, "no memory for a list of %zu kernels", count);
    }
    memcpy(module->own, kernels, count * sizeof *kernels);
    module->own_count = count;
    *out = module;
    return LEAT_OK;
}

leat_status cpu_module_unload(struct leati_driver *driver, void *device, void *handle)
{
    struct cpu_module *module = handle;

    (void)driver, (void)device;
    while (module->kernels) {
        struct cpu_kernel *kernel = module->kernels;

        module->kernels = kernel->next;
        free(kernel);
    }
    if (module->library) {
        dlclose(module->library);
        close(module->fd);
    }
    free(module->own);
    free(module);
    return LEAT_OK;
}

/* Each layout module of the CPU device has all layout kernels, because loading one compiles nothing. */
static const leat_cpu_kernel *find_builtin(enum leati_builtin which, const char *name)
{
    bool layout = which != LEATI_BUILTIN_BASIC;
    const struct leati_builtin_kernel *kernels = layout ? leati_host_layouts : leati_host_kernels;
    size_t count = layout ? leati_host_layout_count : leati_host_kernel_count;

    for (size_t i = 0; i < count; i++)
        if (!strcmp(kernels[i].name, name))
            return kernels[i].kernel;
    return NULL;
}

static const leat_cpu_kernel *find_own(const struct cpu_module *module, const char *name)
{
    for (size_t i = 0; i < module->own_count; i++)
        if (!strcmp(module->own[i].name, name))
            return module->own[i].code;
    return NULL;
}

static const leat_cpu_kernel *find_in_library(void *library, const char *name)
{
    char symbol[256];

    if ((size_t)snprintf(symbol, sizeof symbol, "leat_cpu_kernel_%s", name) >= sizeof symbol)
        return NULL;
    return dlsym(library, symbol);
}

static bool lies_in(const void *base, const void *ptr)
{
    Dl_info info;

    return dladdr(ptr, &info) && info.dli_fbase == base;
}

/* Returns true if all pointers in a kernel's description point into its own shared object, and the sizes are
 * plausible. */
static bool is_sound(const leat_cpu_kernel *code)
{
    Dl_info info;

    if (!dladdr(code, &info) || !lies_in(info.dli_fbase, (const char *)(code + 1) - 1) ||
        code->parameter_count > PARAMETERS_MOST)
        return false;
    if (code->abi == LEAT_CPU_KERNEL_ABI && !lies_in(info.dli_fbase, (const void *)(uintptr_t)code->run))
        return false;
    if (!code->parameter_count)
        return true;
    if (!lies_in(info.dli_fbase, code->parameter_bytes) ||
        !lies_in(info.dli_fbase, code->parameter_bytes + code->parameter_count - 1))
        return false;
    for (uint32_t i = 0; i < code->parameter_count; i++)
        if (code->parameter_bytes[i] > PARAMETER_BYTES_MOST)
            return false;
    return true;
}

leat_status cpu_kernel_get(struct leati_driver *driver, void *device, void *handle, const char *name, void **out,
                           struct leati_kernel_shape *shape)
{
    struct cpu_module *module = handle;
    const leat_cpu_kernel *code = module->library ? find_in_library(module->library, name)
                                  : module->own   ? find_own(module, name)
                                                  : find_builtin(module->which, name);
    struct cpu_kernel *kernel;

    (void)driver, (void)device;
    if (!code)
        return leati_fail(LEAT_ERROR_NOT_FOUND,
                          module->library ? "the shared object has no leat_cpu_kernel_%s"
                          : module->own   ? "no kernel of that list is called %s"
                                          : "no built-in kernel is called %s",
                          name);
    if (module->library && !is_sound(code))
        return leati_fail(LEAT_ERROR_IMAGE, "leat_cpu_kernel_%s is damaged: build or copy the shared object again",
                          name);
    if (code->abi != LEAT_CPU_KERNEL_ABI)
        return leati_fail(LEAT_ERROR_IMAGE,
                          "built for version %u of leat's CPU kernels, and this is version %u: build it again",
                          code->abi, LEAT_CPU_KERNEL_ABI);
    kernel = malloc(sizeof *kernel);
    if (!kernel)
        return leati_fail(LEAT_ERROR_HOST_MEMORY, "no memory for a kernel");
    *kernel = (struct cpu_kernel){.code = code, .next = module->kernels};
    module->kernels = kernel;
    shape->parameter_count = (int)code->parameter_count;
    shape->max_block_threads = CPU_BLOCK_THREADS_MAX;
    *out = kernel;
    return LEAT_OK;
}

leat_status cpu_kernel_parameter(struct leati_driver *driver, void *device, void *kernel, unsigned index,
                                 size_t *bytes)
{
    (void)driver, (void)device;
    *bytes = ((struct cpu_kernel *)kernel)->code->parameter_bytes[index];
    return LEAT_OK;
}

/* ---- launch ---- */

/* State of the grid barrier of a cooperative launch. */
struct together {
    struct leati_lock lock; /* guards the fields below */
    pthread_cond_t next_round;
    uint64_t waiting, ended, rounds;
};

struct launch_work {
    struct cpu_work work;
    const struct cpu_device *device;
    const leat_cpu_kernel *code;
    leat_cpu_block launch; /* sizes of grid and block; index and memory are set for each block */
    uint64_t blocks, blocks_per_part;
    struct together together;
    struct leati_lock shared_lock; /* guards the next two fields */
    /* Free buffers of dynamic shared memory, one for each block that runs concurrently; NULL: none. */
    void *
        *shared;
    unsigned shared_count;
    void *args[]; /* pointers to the values, which follow the array */
};

static void *take_shared(struct launch_work *work)
{
    void *taken;

    if (!work->shared)
        return NULL;
    leati_lock(&work->shared_lock);
    leati_assert(work->shared_count);
    taken = work->shared[--work->shared_count];
    leati_unlock(&work->shared_lock);
    return taken;
}

static void give_shared_back(struct launch_work *work, void *shared)
{
    if (!shared)
        return;
    leati_lock(&work->shared_lock);
    work->shared[work->shared_count++] = shared;
    leati_unlock(&work->shared_lock);
}

static void run_block(const struct launch_work *work, leat_cpu_block *block, uint64_t i)
{
    leati_assert(i < work->blocks);
    block->block.x = (uint32_t)(i % block->grid_blocks.x);
    block->block.y = (uint32_t)(i / block->grid_blocks.x % block->grid_blocks.y);
    block->block.z = (uint32_t)(i / block->grid_blocks.x / block->grid_blocks.y);
    cpu_in_kernel = true;
    work->code->run(block, work->args);
    cpu_in_kernel = false;
}

static void run_part(void *context, uint64_t part)
{
    struct launch_work *work = context;
    leat_cpu_block block = work->launch;
    uint64_t first = part * work->blocks_per_part;
    uint64_t end = first + work->blocks_per_part < work->blocks ? first + work->blocks_per_part : work->blocks;

    leati_assert(first < end);
    block.shared = take_shared(work);
    for (uint64_t i = first; i < end; i++)
        run_block(work, &block, i);
    give_shared_back(work, block.shared);
}

/* Releases the barrier if all blocks that have not ended wait at it. Call under the lock. */
static void next_round(struct launch_work *work) LEATI_REQUIRES(work->together.lock)
{
    struct together *together = &work->together;

    leati_assert_locked(&work->together.lock);
    leati_assert(together->waiting + together->ended <= work->blocks);
    if (together->waiting && together->waiting + together->ended == work->blocks) {
        together->waiting = 0;
        together->rounds++;
        pthread_cond_broadcast(&together->next_round);
    }
}

static void wait_for_grid(const leat_cpu_block *block)
{
    struct launch_work *work = block->launch;
    struct together *together = &work->together;
    uint64_t round;

    leati_lock(&together->lock);
    round = together->rounds;
    together->waiting++;
    leati_assert_locked(&work->together.lock);
    next_round(work);
    while (together->rounds == round)
        leati_cond_wait(&together->next_round, &together->lock);
    leati_unlock(&together->lock);
}

static void run_together(void *context, unsigned i)
{
    struct launch_work *work = context;
    leat_cpu_block block = work->launch;

    block.shared = take_shared(work);
    block.wait_for_grid = wait_for_grid;
    block.launch = work;
    run_block(work, &block, i);
    give_shared_back(work, block.shared);
    leati_lock(&work->together.lock);
    work->together.ended++;
    next_round(work);
    leati_unlock(&work->together.lock);
}

/* Distributes the blocks to the workers. */
static void spread(struct launch_work *work)
{
    uint64_t parts = (uint64_t)cpu_workers_threads() * 16;

    /* A part consists of neighbouring blocks, for the caches. There are several parts per thread, so that all
     * threads end at about the same time. */
    if (parts > work->blocks)
        parts = work->blocks;
    leati_assert(parts);
    work->blocks_per_part = (work->blocks + parts - 1) / parts;
    cpu_workers_run(run_part, work, (work->blocks + work->blocks_per_part - 1) / work->blocks_per_part);
}

static void free_shared(struct launch_work *work)
{
    for (unsigned i = 0; i < work->shared_count; i++)
        free(work->shared[i]);
    free(work->shared);
}

static void run_launch(struct cpu_work *queued)
{
    struct launch_work *work = (struct launch_work *)(void *)queued;
    int earlier = cpu_managed_enter(work->device);

    leati_assert(!(work->code->flags & LEAT_CPU_KERNEL_TOGETHER) || work->blocks <= UINT32_MAX);
    if (work->code->flags & LEAT_CPU_KERNEL_TOGETHER)
        cpu_gang_run(run_together, work, (unsigned)work->blocks);
    else
        spread(work);
    cpu_managed_leave(earlier);
    free_shared(work);
    leati_lock_destroy(&work->shared_lock);
    leati_lock_destroy(&work->together.lock);
    pthread_cond_destroy(&work->together.next_round);
}

/* Returns the size of a value, rounded up to 16 bytes, an alignment that suffices for every basic type. */
static size_t value_bytes(uint32_t bytes)
{
    return ((size_t)bytes + 15) & ~(size_t)15;
}

static struct launch_work *new_launch(const leat_cpu_kernel *code, void *const *args, unsigned argument_count)
{
    size_t header = (sizeof(struct launch_work) + argument_count * sizeof(void *) + 15) & ~(size_t)15,
           bytes = header;
    struct launch_work *work;
    char *value;

    for (unsigned i = 0; i < argument_count; i++)
        bytes += value_bytes(code->parameter_bytes[i]);
    work = malloc(bytes);
    if (!work)
        return NULL;
    memset(work, 0, sizeof *work);
    value = (char *)work + header;
    for (unsigned i = 0; i < argument_count; i++) {
        memcpy(value, args[i], code->parameter_bytes[i]);
        work->args[i] = value;
        value += value_bytes(code->parameter_bytes[i]);
    }
    return work;
}

/* Allocates dynamic shared memory for count concurrent blocks. */
static leat_status make_shared(struct launch_work *work, uint64_t count, size_t bytes)
{
    work->launch.shared_bytes = (uint32_t)bytes;
    work->shared = calloc(count, sizeof *work->shared);
    while (work->shared && work->shared_count < count &&
           (work->shared[work->shared_count] = aligned_alloc(128, (bytes + 127) & ~(size_t)127)))
        work->shared_count++;
    if (work->shared && work->shared_count == count)
        return LEAT_OK;
    return leati_fail(LEAT_ERROR_HOST_MEMORY, "no memory for %zu bytes of shared memory for each of %llu blocks",
                      bytes, (unsigned long long)count);
}

static leat_status check_launch(const leat_cpu_kernel *code, leat_dim3 grid, size_t shared_bytes)
{
    unsigned most = cpu_workers_threads() * CPU_BLOCKS_TOGETHER_MAX;

    if (shared_bytes > CPU_SHARED_BYTES_MAX)
        return leati_fail(LEAT_ERROR_UNSUPPORTED,
                          "%zu bytes of shared memory; a block of the CPU device has at most %u", shared_bytes,
                          CPU_SHARED_BYTES_MAX);
    if ((uint64_t)grid.x * grid.y > UINT64_MAX / grid.z)
        return leati_fail(LEAT_ERROR_INVALID, "a grid of %u x %u x %u blocks is too large", grid.x, grid.y,
                          grid.z);
    if (code->flags & LEAT_CPU_KERNEL_TOGETHER && (uint64_t)grid.x * grid.y * grid.z > most)
        return leati_fail(
            LEAT_ERROR_INVALID,
            "a grid of %u x %u x %u blocks that run together; the CPU device runs at most %u, %u for each of its threads (LEAT_CPU_THREADS)",
            grid.x, grid.y, grid.z, most, CPU_BLOCKS_TOGETHER_MAX);
    return LEAT_OK;
}

leat_status cpu_launch(struct leati_driver *driver, void *stream, void *handle, leat_dim3 grid, leat_dim3 block,
                       size_t shared_bytes, void *const *args, unsigned argument_count)
{
    const leat_cpu_kernel *code = ((struct cpu_kernel *)handle)->code;
    bool together = code->flags & LEAT_CPU_KERNEL_TOGETHER;
    leat_status status = LEAT_OK;
    struct launch_work *work;

    (void)driver;
    LEATI_TRY(check_launch(code, grid, shared_bytes));
    work = new_launch(code, args, argument_count);
    if (!work)
        return leati_fail(LEAT_ERROR_HOST_MEMORY, "no memory to queue the work");
    work->work = (struct cpu_work){.run = run_launch};
    work->device = cpu_stream_device(stream);
    work->code = code;
    work->launch.grid_blocks = (leat_cpu_dim){grid.x, grid.y, grid.z};
    work->launch.block_threads = (leat_cpu_dim){block.x, block.y, block.z};
    work->blocks = (uint64_t)grid.x * grid.y * grid.z;
    if (shared_bytes)
        status = make_shared(
            work, together || work->blocks < cpu_workers_threads() ? work->blocks : cpu_workers_threads(),
            shared_bytes);
    cpu_kernel_faults_open();
    if (status == LEAT_OK && together)
        status = cpu_gang_reserve((unsigned)work->blocks);
    if (status != LEAT_OK) {
        free_shared(work);
        free(work);
        return status;
    }
    leati_lock_init(&work->shared_lock);
    leati_lock_init(&work->together.lock);
    pthread_cond_init(&work->together.next_round, NULL);
    cpu_stream_push(stream, &work->work);
    return LEAT_OK;
}
