/* pinned_chunks.h - shared by the tests of pinned memory: takes chunks of the device under test and gives them
 * back. */
#ifndef PINNED_CHUNKS_H
#define PINNED_CHUNKS_H

#include "harness.h"

#include "base/error.h"
#include "driver/fault/fault.h"
#include "driver/registry.h"
#include "pool/pinned.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define MIB ((size_t)1 << 20)

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define SANITIZED 1
#endif
#endif
#ifndef SANITIZED
#define SANITIZED 0
#endif

/* ---- chunks, and the memory of this process ----------------------------------------------------------------- */

static inline struct leati_driver *wrapper(const struct test_state *t)
{
    return t->device->driver;
}

/* Returns how many bytes of [ptr, ptr + bytes) are backed by a page, or -1 if a part is not mapped. */
static inline long long resident_bytes(const void *ptr, size_t bytes)
{
    size_t page_bytes = (size_t)sysconf(_SC_PAGESIZE), pages = bytes / page_bytes;
    unsigned char *there = test_buffer(pages);
    long long count = 0;

    if (mincore((void *)(uintptr_t)ptr, bytes, there)) {
        free(there);
        return -1;
    }
    for (size_t i = 0; i < pages; i++)
        count += there[i] & 1;
    free(there);
    return count * (long long)page_bytes;
}

/* Returns true if only this test changes the address space: no sanitizer, and no vendor's library. */
static inline bool addresses_are_ours(void)
{
    return !SANITIZED && test_on_cpu();
}

/* Returns the size of this process's address space; 0 if addresses_are_ours() is false. */
static inline size_t address_bytes(void)
{
    FILE *file = fopen("/proc/self/statm", "re");
    size_t pages = 0;

    assert_non_null(file);
    assert_int_equal(fscanf(file, "%zu", &pages), 1);
    fclose(file);
    return addresses_are_ours() ? pages * (size_t)sysconf(_SC_PAGESIZE) : 0;
}

/* Takes a chunk, checks it, and fills it. */
static inline void *take(leat_device *device, size_t bytes, uint64_t seed)
{
    void *ptr = NULL;

    OK(leati_pinned_take(device, bytes, &ptr));
    assert_non_null(ptr);
    assert_int_equal((uintptr_t)ptr % LEATI_PINNED_UNIT, 0);
    assert_int_equal(resident_bytes(ptr, bytes), bytes);
    test_pattern(ptr, bytes, seed);
    return ptr;
}

static inline void give_back(leat_device *device, void *ptr, size_t bytes, uint64_t seed)
{
    EXPECT_PATTERN(ptr, bytes, seed);
    OK(leati_pinned_give_back(device, ptr, bytes));
}

/* Fails unless the status is wanted and the message contains words. These tests call functions below the pool, so
 * the message lacks the prefix that the pool adds. */
static inline void refused(leat_status status, leat_status wanted, const char *words)
{
    assert_int_equal(status, wanted);
    if (!strstr(leat_last_error(), words))
        fail_msg("\"%s\" is not in: %s", words, leat_last_error());
}

/* ---- the driver under test, with changes that a test selects ------------------------------------------------ */

struct odd_driver {
    struct leati_driver base;
    struct leati_driver_ops ops;
    struct leati_driver *real;
    struct leat_device device;
    bool refuses_to_register, refuses_to_allocate, refuses_info;
    size_t device_offset; /* difference between the device's address and the host's */
    size_t skew;          /* added to the address that host_alloc returns */
    int node;
    void (*during_info)(struct odd_driver *odd);
    unsigned registered, allocated, asked; /* numbers of successful calls; asked: calls of device_info */
};

static inline struct odd_driver *odd_of(struct leati_driver *driver)
{
    return (struct odd_driver *)(void *)driver;
}

static inline leat_status odd_info(struct leati_driver *driver, int ordinal, leat_device_info *info)
{
    struct odd_driver *odd = odd_of(driver);

    odd->asked++;
    if (odd->during_info) {
        /* The hook reads messages, but this call may be one whose messages are suppressed. */
        unsigned quiet = leati_error_loud_begin();

        odd->during_info(odd);
        leati_error_loud_end(quiet);
    }
    if (odd->refuses_info)
        return leati_fail(LEAT_ERROR_DRIVER, "the driver does not know its device");
    LEATI_TRY(odd->real->ops->device_info(odd->real, ordinal, info));
    info->numa_node = odd->node;
    return LEAT_OK;
}

static inline leat_status odd_register(struct leati_driver *driver, void *device, void *ptr, size_t bytes)
{
    struct odd_driver *odd = odd_of(driver);

    if (odd->refuses_to_register)
        return leati_fail(LEAT_ERROR_DRIVER, "the limit of locked memory is reached");
    LEATI_TRY(odd->real->ops->host_register(odd->real, device, ptr, bytes));
    odd->registered++;
    return LEAT_OK;
}

static inline leat_status odd_unregister(struct leati_driver *driver, void *device, void *ptr)
{
    struct odd_driver *odd = odd_of(driver);

    LEATI_TRY(odd->real->ops->host_unregister(odd->real, device, ptr));
    odd->registered--;
    return LEAT_OK;
}

static inline leat_status odd_device_pointer(struct leati_driver *driver, void *device, void *ptr,
                                             void **device_pointer)
{
    struct odd_driver *odd = odd_of(driver);

    (void)device;
    *device_pointer = (char *)ptr + odd->device_offset;
    return LEAT_OK;
}

static inline leat_status odd_alloc(struct leati_driver *driver, void *device, size_t bytes, void **ptr)
{
    struct odd_driver *odd = odd_of(driver);
    void *memory;

    if (odd->refuses_to_allocate)
        return leati_fail(LEAT_ERROR_DEVICE_MEMORY, "the driver has none either");
    LEATI_TRY(odd->real->ops->host_alloc(odd->real, device, bytes + odd->skew, &memory));
    odd->allocated++;
    *ptr = (char *)memory + odd->skew;
    return LEAT_OK;
}

static inline leat_status odd_free(struct leati_driver *driver, void *device, void *ptr)
{
    struct odd_driver *odd = odd_of(driver);

    LEATI_TRY(odd->real->ops->host_free(odd->real, device, (char *)ptr - odd->skew));
    odd->allocated--;
    return LEAT_OK;
}

/* Returns a driver that exists until the program ends, because leat caches properties of a device under the
 * address of its driver. */
static inline struct odd_driver *odd_driver(const leat_device *device)
{
    static struct odd_driver made[32];
    static unsigned count;
    struct odd_driver *odd = &made[count++];

    assert_true(count <= sizeof made / sizeof made[0]);
    odd->real = device->driver;
    odd->base = *device->driver;
    odd->base.ops = &odd->ops;
    odd->ops = (struct leati_driver_ops){
        .device_info = odd_info,
        .host_alloc = odd_alloc,
        .host_free = odd_free,
        .host_register = odd_register,
        .host_unregister = odd_unregister,
        .host_device_pointer = odd_device_pointer,
    };
    odd->device.driver = &odd->base;
    odd->device.native = device->native;
    odd->device.ordinal = device->ordinal;
    odd->node = -1;
    return odd;
}

#endif
