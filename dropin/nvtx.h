/*
 * nvtx.h - what a tool needs of NVTX 3, by its published interface (github.com/NVIDIA/NVTX).
 */
#ifndef DROPIN_NVTX_H
#define DROPIN_NVTX_H

#include <stddef.h>
#include <stdint.h>
#include <wchar.h>

enum {
    NVTX_TABLE_CALLBACKS = 1,

    NVTX_MODULE_CORE = 1,
    NVTX_MODULE_CORE2 = 5, /* calls with a domain */

    NVTX_CORE_MARK_ATTRIBUTES = 1,
    NVTX_CORE_MARK_TEXT = 2,
    NVTX_CORE_MARK_WIDE = 3,
    NVTX_CORE_PUSH_ATTRIBUTES = 8,
    NVTX_CORE_PUSH_TEXT = 9,
    NVTX_CORE_PUSH_WIDE = 10,
    NVTX_CORE_POP = 11,

    NVTX_CORE2_MARK = 1,
    NVTX_CORE2_PUSH = 4,
    NVTX_CORE2_POP = 5,
    NVTX_CORE2_REGISTER_TEXT = 10,
    NVTX_CORE2_REGISTER_WIDE = 11,

    NVTX_MESSAGE_TEXT = 1,
    NVTX_MESSAGE_WIDE = 2,
    NVTX_MESSAGE_REGISTERED = 3,

    NVTX_TEXT_BYTES = 256
};

struct nvtx_attributes {
    uint16_t version, size;
    uint32_t category;
    int32_t color_type;
    uint32_t color;
    int32_t payload_type, reserved;
    uint64_t payload;
    int32_t message_type;
    const void *message;
};

struct nvtx_callbacks {
    size_t size;
    /* Gives the places of a module's functions. Returns 0 if there is no such module. */
    int (*get_module)(int module, void ****table, unsigned *entries);
};

typedef const void *(*nvtx_get_export_table)(uint32_t table);

#endif
