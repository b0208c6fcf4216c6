/*
 * registered.c - registers kernels by function address and by name, and keeps the execution configurations of
 * launches (kernel_support.h).
 *
 * Code that `leat cu` compiled registers its kernels from static constructors, when the program starts or a
 * library is loaded.
 */
#include "base/lock.h"
#include "engine/inside.h"

#include <leat/compat/kernel_support.h>

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#define BUCKETS 256

/* Guards the buckets, and the fields next and most_shared_bytes of the records. */
static struct leati_rwlock lock = LEATI_RWLOCK_INITIALIZER;
static leat_registered_kernel *buckets[BUCKETS] LEATI_GUARDED_BY(lock);

static leat_registered_kernel **bucket_of(const void *function)
{
    return &buckets[((uintptr_t)function >> 4) % BUCKETS];
}

void leat_kernel_know(leat_registered_kernel *kernel)
{
    leat_registered_kernel **bucket = bucket_of(kernel->function);

    kernel->most_shared_bytes = LEATC_SHARED_BYTES;
    leati_write_lock(&lock);
    kernel->next = *bucket;
    *bucket = kernel;
    leati_write_unlock(&lock);
}

void leat_kernel_forget(leat_registered_kernel *kernel)
{
    leat_registered_kernel **link = bucket_of(kernel->function);

    leati_write_lock(&lock);
    while (*link && *link != kernel)
        link = &(*link)->next;
    if (*link)
        *link = kernel->next;
    leati_write_unlock(&lock);
    if (kernel->code)
        leatc_kernel_gone(kernel->code);
    if (kernel->together)
        leatc_kernel_gone(kernel->together);
}

/* Returns the registered kernel of a function, or NULL. The caller holds the lock. */
static leat_registered_kernel *find(const void *function) LEATI_REQUIRES_SHARED(lock)
{
    leat_registered_kernel *kernel = *bucket_of(function);

    while (kernel && kernel->function != function)
        kernel = kernel->next;
    return kernel;
}

static const leat_cpu_kernel *code_of(const void *function, bool together)
{
    const leat_registered_kernel *kernel;
    const leat_cpu_kernel *code = NULL;

    leati_read_lock(&lock);
    kernel = find(function);
    if (kernel)
        code = together ? kernel->together : kernel->code;
    leati_read_unlock(&lock);
    return code;
}

const leat_cpu_kernel *leat_kernel_of_function(const void *function)
{
    return code_of(function, false);
}

const leat_cpu_kernel *leatc_kernel_together(const void *function)
{
    return code_of(function, true);
}

size_t leatc_function_shared(const void *function)
{
    const leat_registered_kernel *kernel;
    size_t bytes;

    leati_read_lock(&lock);
    kernel = find(function);
    bytes = kernel ? kernel->most_shared_bytes : SIZE_MAX;
    leati_read_unlock(&lock);
    return bytes;
}

void leatc_function_set_shared(const void *function, size_t bytes)
{
    leat_registered_kernel *kernel;

    leati_write_lock(&lock);
    kernel = find(function);
    if (kernel)
        kernel->most_shared_bytes = bytes;
    leati_write_unlock(&lock);
}

/* Returns true if symbol is the mangled name of a function called name, outside of namespaces. Such a symbol is
 * _Z, the length of the name, the name, and the types of the parameters. */
static bool is_mangled(const char *symbol, const char *name)
{
    char *rest;

    return !strncmp(symbol, "_Z", 2) && isdigit((unsigned char)symbol[2]) &&
           strtoul(symbol + 2, &rest, 10) == strlen(name) && !strncmp(rest, name, strlen(name));
}

const leat_registered_kernel *leatc_kernel_named(const char *symbol)
{
    const leat_registered_kernel *named = NULL;
    unsigned found = 0;

    leati_read_lock(&lock);
    for (unsigned i = 0; i < BUCKETS; i++)
        for (const leat_registered_kernel *kernel = buckets[i]; kernel; kernel = kernel->next)
            if (!strcmp(kernel->name, symbol) || is_mangled(symbol, kernel->name)) {
                named = kernel;
                found++;
            }
    leati_read_unlock(&lock);
    return found == 1 ? named : NULL; /* NULL if several match: overloaded functions and template instances share a
                                       * name */
}

/* ---- launches ---------------------------------------------------------------------------------------------- */

/* A stack of configurations, because the arguments of a launch may contain other launches. */
#define SHAPES_MAX 16
static _Thread_local leat_launch_shape shapes[SHAPES_MAX];
static _Thread_local unsigned shape_count;

void leat_launch_shape_put(const leat_launch_shape *shape)
{
    if (shape_count == SHAPES_MAX)
        memmove(shapes, shapes + 1, --shape_count * sizeof *shapes);
    shapes[shape_count++] = *shape;
}

int leat_launch_shape_take(leat_launch_shape *shape)
{
    if (!shape_count)
        return 0;
    *shape = shapes[--shape_count];
    return 1;
}
