/*
 * cupti_records.h - the beginnings of CUPTI's activity records, as far as leat reads them, from the documentation
 * of CUPTI. NVIDIA adds fields to the end of a record in later versions, and cuptiActivityGetNextRecord() knows
 * the sizes, so only the beginnings must be known. They are the same in all versions of CUPTI_VERSION_LIST.
 */
#ifndef CUPTI_RECORDS_H
#define CUPTI_RECORDS_H

#include <assert.h>
#include <stddef.h>
#include <stdint.h>

/* X(first, last): what cuptiGetVersion() returns: CUDA 11.8 to 12.9, and 13.0 to 13.5. */
#define CUPTI_VERSION_LIST(X)                                                                                     \
    X(18, 28)                                                                                                     \
    X(130000, 130599)

#define CUPTI_VERSIONS_TEXT "18 to 28 (CUDA 11.8 to 12.9) and 130000 to 130599 (13.0 to 13.5)"

/* Before this version CUPTI does not accept that there is no buffer. */
#define CUPTI_VERSION_NO_BUFFER 28

enum cupti_kind {
    CUPTI_KIND_MEMCPY = 1,
    CUPTI_KIND_MEMSET = 2,
    CUPTI_KIND_DRIVER = 4,
    CUPTI_KIND_RUNTIME = 5,
    CUPTI_KIND_CONCURRENT_KERNEL = 10,
    CUPTI_KIND_MEMCPY2 = 22 /* between devices */
};

enum cupti_result { CUPTI_OK = 0, CUPTI_NO_MORE_RECORDS = 12, CUPTI_OTHER_SUBSCRIBER = 39 };

enum cupti_domain { CUPTI_DOMAIN_DRIVER = 1, CUPTI_DOMAIN_RUNTIME = 2, CUPTI_DOMAINS = 3 };

enum { CUPTI_FLUSH_FORCED = 1, CUPTI_THREAD_ID_SYSTEM = 1 };

enum cupti_memory {
    CUPTI_MEMORY_PAGEABLE = 1,
    CUPTI_MEMORY_PINNED = 2,
    CUPTI_MEMORY_DEVICE = 3,
    CUPTI_MEMORY_ARRAY = 4,
    CUPTI_MEMORY_MANAGED = 5,
    CUPTI_MEMORY_DEVICE_STATIC = 6,
    CUPTI_MEMORY_MANAGED_STATIC = 7
};

struct cupti_kernel {
    uint32_t kind, before_start[3];
    uint64_t start, end, before_device;
    uint32_t device, context, stream, before_correlation[10];
    uint32_t correlation, before_name[2];
    const char *name;
};
static_assert(offsetof(struct cupti_kernel, start) == 16 && offsetof(struct cupti_kernel, device) == 40 &&
                  offsetof(struct cupti_kernel, stream) == 48 &&
                  offsetof(struct cupti_kernel, correlation) == 92 && offsetof(struct cupti_kernel, name) == 104,
              "CUpti_ActivityKernel8 to 13");

struct cupti_copy {
    uint32_t kind;
    uint8_t copy_kind, from, to, flags;
    uint64_t bytes, start, end;
    uint32_t device, context, stream, correlation;
};
static_assert(offsetof(struct cupti_copy, from) == 5 && offsetof(struct cupti_copy, start) == 16 &&
                  offsetof(struct cupti_copy, stream) == 40 && offsetof(struct cupti_copy, correlation) == 44,
              "CUpti_ActivityMemcpy5 to 7");

/* As cupti_copy, up to the stream. */
struct cupti_peer_copy {
    struct cupti_copy copy; /* correlation has another meaning */
    uint32_t before_correlation[3], correlation;
};
static_assert(offsetof(struct cupti_peer_copy, correlation) == 60, "CUpti_ActivityMemcpyPtoP4");

struct cupti_fill {
    uint32_t kind, value;
    uint64_t bytes, start, end;
    uint32_t device, context, stream, correlation;
    uint16_t flags, memory;
};
static_assert(offsetof(struct cupti_fill, start) == 16 && offsetof(struct cupti_fill, stream) == 40 &&
                  offsetof(struct cupti_fill, memory) == 50,
              "CUpti_ActivityMemset4 and 5");

struct cupti_call {
    uint32_t kind, call;
    uint64_t start, end;
    uint32_t process, thread, correlation, result;
};
static_assert(offsetof(struct cupti_call, start) == 8 && offsetof(struct cupti_call, thread) == 28 &&
                  offsetof(struct cupti_call, correlation) == 32,
              "CUpti_ActivityAPI");

#endif
