/*
 * ucx_api.h - declares the part of UCX's binary interface that leat uses: libucp.so.0, API 1.
 *
 * leat builds without UCX's headers. If they are installed, tests/net/test_ucx_abi.c compares all declarations
 * with them. The structs end with the last field that leat uses. UCX reads only the fields whose bits are set in a
 * struct's mask, and newer versions add fields at the end, so one declaration serves all versions of API 1. The
 * tests have compared them with 1.13 and with 1.22. Opaque types have the vendor's struct tags, so that one source
 * file may include both headers.
 */
#ifndef LEATN_UCX_API_H
#define LEATN_UCX_API_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/socket.h>

/* One byte, as in UCX: a function that returns it sets only the low 8 bits of the register. */
typedef int8_t ucx_status;

/* An address of a request, or a negative status in the form of an address, or NULL: complete. */
typedef void *ucx_status_pointer;

/* These stand for the vendor's enumerations. unsigned int has the same size and is passed in the same way. */
typedef unsigned int ucx_thread_mode;
typedef unsigned int ucx_memory_type;
typedef unsigned int ucx_error_mode;

typedef struct ucp_config *ucx_config;
typedef struct ucp_context *ucx_context;
typedef struct ucp_worker *ucx_worker;
typedef struct ucp_ep *ucx_endpoint;
typedef struct ucp_address ucx_address;
typedef struct ucp_mem *ucx_memory;

typedef struct ucx_library_attributes {
    uint64_t field_mask;
    ucx_thread_mode max_thread_mode;
} ucx_library_attributes;

typedef struct ucx_context_parameters {
    uint64_t field_mask;
    uint64_t features;
    size_t request_size;
    void (*request_init)(void *request);
    void (*request_cleanup)(void *request);
    uint64_t tag_sender_mask;
    int workers_shared; /* not 0: several threads use workers of the context */
    size_t endpoints;
    size_t processes_per_node;
    const char *name;
} ucx_context_parameters;

typedef struct ucx_context_attributes {
    uint64_t field_mask;
    size_t request_size;
    ucx_thread_mode thread_mode;
    uint64_t memory_types; /* bits: LEATN_UCS_MEMORY_TYPE_... */
} ucx_context_attributes;

typedef struct ucx_worker_parameters {
    uint64_t field_mask;
    ucx_thread_mode thread_mode;
    unsigned long cpu_mask[16];
    unsigned events;
    void *user_data;
    int event_fd;
    uint64_t flags;
} ucx_worker_parameters;

typedef struct ucx_worker_attributes {
    uint64_t field_mask;
    ucx_thread_mode thread_mode;
    uint32_t address_flags;
    ucx_address *address;
    size_t address_bytes;
} ucx_worker_attributes;

typedef struct ucx_error_handler {
    void (*call)(void *argument, ucx_endpoint endpoint, ucx_status status);
    void *argument;
} ucx_error_handler;

typedef struct ucx_endpoint_parameters {
    uint64_t field_mask;
    const ucx_address *address;
    ucx_error_mode error_mode;
    ucx_error_handler error_handler;
    void *user_data;
    unsigned flags;
} ucx_endpoint_parameters;

/* A transport of an endpoint, from 1.14. Both texts live as long as the endpoint. */
typedef struct ucx_transport {
    const char *transport;
    const char *device;
} ucx_transport;

typedef struct ucx_endpoint_attributes {
    uint64_t field_mask;
    char name[32];
    struct sockaddr_storage local;
    struct sockaddr_storage remote;
    struct {
        ucx_transport *entries;
        unsigned count; /* in: how many entries have room; out: how many UCX has filled */
        size_t entry_bytes;
    } transports; /* from 1.14 */
} ucx_endpoint_attributes;

typedef struct ucx_tag_info {
    uint64_t tag;
    size_t bytes;
} ucx_tag_info;

typedef struct ucx_request_parameters {
    uint32_t mask;
    uint32_t flags;
    void *request;
    union {
        void (*sent)(void *request, ucx_status status, void *user_data);
        void (*received)(void *request, ucx_status status, const ucx_tag_info *info, void *user_data);
    } call;
    uint64_t datatype;
    void *user_data;
    void *reply_buffer;
    ucx_memory_type memory_type;
    ucx_tag_info *info;
    ucx_memory memory;
} ucx_request_parameters;

typedef struct ucx_map_parameters {
    uint64_t field_mask;
    void *address;
    size_t bytes;
    unsigned flags;
    unsigned protection;
    ucx_memory_type memory_type;
} ucx_map_parameters;

/* X(name, value). The names are UCX's, with LEATN_ in front. */
// clang-format off
#define LEATN_UCX_CONSTANT_LIST(X)                                                                                \
    X(UCS_OK, 0)                                                                                                  \
    X(UCS_INPROGRESS, 1)                                                                                          \
    X(UCS_ERR_NO_MEMORY, -4)                                                                                      \
    X(UCS_ERR_UNREACHABLE, -6)                                                                                    \
    X(UCS_ERR_MESSAGE_TRUNCATED, -9)                                                                              \
    X(UCS_ERR_BUSY, -15)                                                                                          \
    X(UCS_ERR_CANCELED, -16)                                                                                      \
    X(UCS_ERR_LAST, -100)                                                                                         \
    X(UCS_THREAD_MODE_SERIALIZED, 1)                                                                              \
    X(UCS_THREAD_MODE_MULTI, 2)                                                                                   \
    X(UCS_MEMORY_TYPE_HOST, 0)                                                                                    \
    X(UCS_MEMORY_TYPE_CUDA, 1)                                                                                    \
    X(UCS_MEMORY_TYPE_CUDA_MANAGED, 2)                                                                            \
    X(UCS_MEMORY_TYPE_ROCM, 3)                                                                                    \
    X(UCS_MEMORY_TYPE_ROCM_MANAGED, 4)                                                                            \
    X(UCP_LIB_ATTR_FIELD_MAX_THREAD_LEVEL, 1 << 0)                                                                \
    X(UCP_PARAM_FIELD_FEATURES, 1 << 0)                                                                           \
    X(UCP_PARAM_FIELD_MT_WORKERS_SHARED, 1 << 5)                                                                  \
    X(UCP_PARAM_FIELD_NAME, 1 << 8)                                                                               \
    X(UCP_FEATURE_TAG, 1 << 0)                                                                                    \
    X(UCP_FEATURE_WAKEUP, 1 << 4)                                                                                 \
    X(UCP_ATTR_FIELD_MEMORY_TYPES, 1 << 2)                                                                        \
    X(UCP_WORKER_PARAM_FIELD_THREAD_MODE, 1 << 0)                                                                 \
    X(UCP_WORKER_ATTR_FIELD_ADDRESS, 1 << 1)                                                                      \
    X(UCP_EP_PARAM_FIELD_REMOTE_ADDRESS, 1 << 0)                                                                  \
    X(UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE, 1 << 1)                                                               \
    X(UCP_EP_PARAM_FIELD_ERR_HANDLER, 1 << 2)                                                                     \
    X(UCP_ERR_HANDLING_MODE_PEER, 1)                                                                              \
    X(UCP_EP_CLOSE_FLAG_FORCE, 1 << 0)                                                                            \
    X(UCP_OP_ATTR_FIELD_CALLBACK, 1 << 1)                                                                         \
    X(UCP_OP_ATTR_FIELD_USER_DATA, 1 << 2)                                                                        \
    X(UCP_OP_ATTR_FIELD_FLAGS, 1 << 4)                                                                            \
    X(UCP_OP_ATTR_FIELD_MEMORY_TYPE, 1 << 6)                                                                      \
    X(UCP_OP_ATTR_FIELD_MEMH, 1 << 8)                                                                             \
    X(UCP_OP_ATTR_FLAG_NO_IMM_CMPL, 1 << 16)                                                                      \
    X(UCP_MEM_MAP_PARAM_FIELD_ADDRESS, 1 << 0)                                                                    \
    X(UCP_MEM_MAP_PARAM_FIELD_LENGTH, 1 << 1)                                                                     \
    X(UCP_MEM_MAP_PARAM_FIELD_MEMORY_TYPE, 1 << 4)

/* Constants that 1.13 does not have. */
#define LEATN_UCX_NEW_CONSTANT_LIST(X)                                                                            \
    X(UCP_EP_ATTR_FIELD_TRANSPORTS, 1 << 3)

/*
 * X(field, exported name, result, parameters): all functions that leat loads. Every version of API 1 from 1.11 has
 * them. ucs_status_string() is in libucs.so.0, which libucp.so.0 needs.
 */
#define LEATN_UCX_SYMBOL_LIST(X)                                                                                  \
    X(get_version, ucp_get_version, void, (unsigned *, unsigned *, unsigned *))                                   \
    X(get_version_string, ucp_get_version_string, const char *, (void))                                           \
    X(status_string, ucs_status_string, const char *, (ucx_status))                                               \
    X(library_query, ucp_lib_query, ucx_status, (ucx_library_attributes *))                                       \
    X(init, ucp_init_version, ucx_status,                                                                         \
      (unsigned, unsigned, const ucx_context_parameters *, const struct ucp_config *, ucx_context *))             \
    X(cleanup, ucp_cleanup, void, (ucx_context))                                                                  \
    X(context_query, ucp_context_query, ucx_status, (ucx_context, ucx_context_attributes *))                      \
    X(memory_map, ucp_mem_map, ucx_status, (ucx_context, const ucx_map_parameters *, ucx_memory *))               \
    X(memory_unmap, ucp_mem_unmap, ucx_status, (ucx_context, ucx_memory))                                         \
    X(worker_create, ucp_worker_create, ucx_status, (ucx_context, const ucx_worker_parameters *, ucx_worker *))   \
    X(worker_destroy, ucp_worker_destroy, void, (ucx_worker))                                                     \
    X(worker_query, ucp_worker_query, ucx_status, (ucx_worker, ucx_worker_attributes *))                          \
    X(worker_release_address, ucp_worker_release_address, void, (ucx_worker, ucx_address *))                      \
    X(worker_progress, ucp_worker_progress, unsigned, (ucx_worker))                                               \
    X(worker_get_descriptor, ucp_worker_get_efd, ucx_status, (ucx_worker, int *))                                 \
    X(worker_arm, ucp_worker_arm, ucx_status, (ucx_worker))                                                       \
    X(worker_signal, ucp_worker_signal, ucx_status, (ucx_worker))                                                 \
    X(endpoint_create, ucp_ep_create, ucx_status,                                                                 \
      (ucx_worker, const ucx_endpoint_parameters *, ucx_endpoint *))                                              \
    X(endpoint_close, ucp_ep_close_nbx, ucx_status_pointer, (ucx_endpoint, const ucx_request_parameters *))       \
    X(endpoint_query, ucp_ep_query, ucx_status, (ucx_endpoint, ucx_endpoint_attributes *))                        \
    X(endpoint_print, ucp_ep_print_info, void, (ucx_endpoint, FILE *))                                            \
    X(tag_send, ucp_tag_send_nbx, ucx_status_pointer,                                                             \
      (ucx_endpoint, const void *, size_t, uint64_t, const ucx_request_parameters *))                             \
    X(tag_receive, ucp_tag_recv_nbx, ucx_status_pointer,                                                          \
      (ucx_worker, void *, size_t, uint64_t, uint64_t, const ucx_request_parameters *))                           \
    X(request_status, ucp_request_check_status, ucx_status, (void *))                                             \
    X(request_cancel, ucp_request_cancel, void, (ucx_worker, void *))                                             \
    X(request_free, ucp_request_free, void, (void *))
// clang-format on

enum {
#define LEATN_UCX_ENUM(name, value) LEATN_##name = (value),
    LEATN_UCX_CONSTANT_LIST(LEATN_UCX_ENUM) LEATN_UCX_NEW_CONSTANT_LIST(LEATN_UCX_ENUM)
#undef LEATN_UCX_ENUM
};

struct leatn_ucx_api {
#define LEATN_UCX_FIELD(field, name, result, parameters) result(*field) parameters;
    LEATN_UCX_SYMBOL_LIST(LEATN_UCX_FIELD)
#undef LEATN_UCX_FIELD
};

#endif
