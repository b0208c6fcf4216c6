/*
 * test_ucx_abi.c - compares leat's own declarations of UCX with UCX's header, if it is installed.
 *
 * The compiler checks the values of constants, the offsets of struct members, and that every function of the list
 * has the parameters that the header declares, as far as their sizes can tell. leat's structs may be shorter than
 * UCX's, because UCX adds fields at the end.
 */
#include <stdio.h>

#if __has_include(<ucp/api/ucp.h>)

#include "abi.h"

#include "ucx_api.h"

#include <ucp/api/ucp.h>
#include <ucp/api/ucp_version.h>

#define CHECK_UCX(name, value) _Static_assert((long long)(name) == (value), #name);
LEATN_UCX_CONSTANT_LIST(CHECK_UCX)
#if UCP_API_MINOR >= 14
LEATN_UCX_NEW_CONSTANT_LIST(CHECK_UCX)
#endif

/* UCX's status has one byte, signed. */
_Static_assert(sizeof(ucx_status) == sizeof(ucs_status_t) && (ucs_status_t)-1 < 0, "ucs_status_t");
CHECK_ENUM(ucx_thread_mode, ucs_thread_mode_t);
CHECK_ENUM(ucx_memory_type, ucs_memory_type_t);
CHECK_ENUM(ucx_error_mode, ucp_err_handling_mode_t);
CHECK_TYPE(ucx_config, ucp_config_t *);
CHECK_TYPE(ucx_context, ucp_context_h);
CHECK_TYPE(ucx_worker, ucp_worker_h);
CHECK_TYPE(ucx_endpoint, ucp_ep_h);
CHECK_TYPE(ucx_address, ucp_address_t);
CHECK_TYPE(ucx_memory, ucp_mem_h);
CHECK_TYPE(ucx_status_pointer, ucs_status_ptr_t);
_Static_assert(sizeof(ucp_tag_t) == sizeof(uint64_t) && sizeof(ucp_datatype_t) == sizeof(uint64_t), "tag, datatype");

/* A struct of leat may end early, but not in the middle of the real one's last known field. */
#define CHECK_NOT_LONGER(ours, real) _Static_assert(sizeof(ours) <= sizeof(real), #real)

CHECK_NOT_LONGER(ucx_library_attributes, ucp_lib_attr_t);
CHECK_MEMBER(ucx_library_attributes, field_mask, ucp_lib_attr_t, field_mask);
CHECK_MEMBER(ucx_library_attributes, max_thread_mode, ucp_lib_attr_t, max_thread_level);

CHECK_NOT_LONGER(ucx_context_parameters, ucp_params_t);
CHECK_MEMBER(ucx_context_parameters, field_mask, ucp_params_t, field_mask);
CHECK_MEMBER(ucx_context_parameters, features, ucp_params_t, features);
CHECK_MEMBER(ucx_context_parameters, request_size, ucp_params_t, request_size);
CHECK_MEMBER(ucx_context_parameters, request_init, ucp_params_t, request_init);
CHECK_MEMBER(ucx_context_parameters, request_cleanup, ucp_params_t, request_cleanup);
CHECK_MEMBER(ucx_context_parameters, tag_sender_mask, ucp_params_t, tag_sender_mask);
CHECK_MEMBER(ucx_context_parameters, workers_shared, ucp_params_t, mt_workers_shared);
CHECK_MEMBER(ucx_context_parameters, endpoints, ucp_params_t, estimated_num_eps);
CHECK_MEMBER(ucx_context_parameters, processes_per_node, ucp_params_t, estimated_num_ppn);
CHECK_MEMBER(ucx_context_parameters, name, ucp_params_t, name);

/* The library writes this one, but only the fields of the mask. */
CHECK_NOT_LONGER(ucx_context_attributes, ucp_context_attr_t);
CHECK_MEMBER(ucx_context_attributes, field_mask, ucp_context_attr_t, field_mask);
CHECK_MEMBER(ucx_context_attributes, request_size, ucp_context_attr_t, request_size);
CHECK_MEMBER(ucx_context_attributes, thread_mode, ucp_context_attr_t, thread_mode);
CHECK_MEMBER(ucx_context_attributes, memory_types, ucp_context_attr_t, memory_types);

CHECK_NOT_LONGER(ucx_worker_parameters, ucp_worker_params_t);
CHECK_MEMBER(ucx_worker_parameters, field_mask, ucp_worker_params_t, field_mask);
CHECK_MEMBER(ucx_worker_parameters, thread_mode, ucp_worker_params_t, thread_mode);
CHECK_MEMBER(ucx_worker_parameters, cpu_mask, ucp_worker_params_t, cpu_mask);
CHECK_MEMBER(ucx_worker_parameters, events, ucp_worker_params_t, events);
CHECK_MEMBER(ucx_worker_parameters, user_data, ucp_worker_params_t, user_data);
CHECK_MEMBER(ucx_worker_parameters, event_fd, ucp_worker_params_t, event_fd);
CHECK_MEMBER(ucx_worker_parameters, flags, ucp_worker_params_t, flags);

CHECK_NOT_LONGER(ucx_worker_attributes, ucp_worker_attr_t);
CHECK_MEMBER(ucx_worker_attributes, field_mask, ucp_worker_attr_t, field_mask);
CHECK_MEMBER(ucx_worker_attributes, thread_mode, ucp_worker_attr_t, thread_mode);
CHECK_MEMBER(ucx_worker_attributes, address_flags, ucp_worker_attr_t, address_flags);
CHECK_MEMBER(ucx_worker_attributes, address, ucp_worker_attr_t, address);
CHECK_MEMBER(ucx_worker_attributes, address_bytes, ucp_worker_attr_t, address_length);

CHECK_SIZE(ucx_error_handler, ucp_err_handler_t);
CHECK_MEMBER(ucx_error_handler, call, ucp_err_handler_t, cb);
CHECK_MEMBER(ucx_error_handler, argument, ucp_err_handler_t, arg);

CHECK_NOT_LONGER(ucx_endpoint_parameters, ucp_ep_params_t);
CHECK_MEMBER(ucx_endpoint_parameters, field_mask, ucp_ep_params_t, field_mask);
CHECK_MEMBER(ucx_endpoint_parameters, address, ucp_ep_params_t, address);
CHECK_MEMBER(ucx_endpoint_parameters, error_mode, ucp_ep_params_t, err_mode);
CHECK_MEMBER(ucx_endpoint_parameters, error_handler, ucp_ep_params_t, err_handler);
CHECK_MEMBER(ucx_endpoint_parameters, user_data, ucp_ep_params_t, user_data);
CHECK_MEMBER(ucx_endpoint_parameters, flags, ucp_ep_params_t, flags);

CHECK_MEMBER(ucx_endpoint_attributes, field_mask, ucp_ep_attr_t, field_mask);
CHECK_MEMBER(ucx_endpoint_attributes, name, ucp_ep_attr_t, name);
CHECK_MEMBER(ucx_endpoint_attributes, local, ucp_ep_attr_t, local_sockaddr);
CHECK_MEMBER(ucx_endpoint_attributes, remote, ucp_ep_attr_t, remote_sockaddr);
#if UCP_API_MINOR >= 14
CHECK_NOT_LONGER(ucx_endpoint_attributes, ucp_ep_attr_t);
CHECK_MEMBER(ucx_endpoint_attributes, transports, ucp_ep_attr_t, transports);
CHECK_MEMBER(ucx_endpoint_attributes, transports.entries, ucp_ep_attr_t, transports.entries);
CHECK_MEMBER(ucx_endpoint_attributes, transports.count, ucp_ep_attr_t, transports.num_entries);
CHECK_MEMBER(ucx_endpoint_attributes, transports.entry_bytes, ucp_ep_attr_t, transports.entry_size);
CHECK_SIZE(ucx_transport, ucp_transport_entry_t);
CHECK_MEMBER(ucx_transport, transport, ucp_transport_entry_t, transport_name);
CHECK_MEMBER(ucx_transport, device, ucp_transport_entry_t, device_name);
#endif

CHECK_SIZE(ucx_tag_info, ucp_tag_recv_info_t);
CHECK_MEMBER(ucx_tag_info, tag, ucp_tag_recv_info_t, sender_tag);
CHECK_MEMBER(ucx_tag_info, bytes, ucp_tag_recv_info_t, length);

CHECK_NOT_LONGER(ucx_request_parameters, ucp_request_param_t);
CHECK_MEMBER(ucx_request_parameters, mask, ucp_request_param_t, op_attr_mask);
CHECK_MEMBER(ucx_request_parameters, flags, ucp_request_param_t, flags);
CHECK_MEMBER(ucx_request_parameters, request, ucp_request_param_t, request);
CHECK_MEMBER(ucx_request_parameters, call.sent, ucp_request_param_t, cb.send);
CHECK_MEMBER(ucx_request_parameters, call.received, ucp_request_param_t, cb.recv);
CHECK_MEMBER(ucx_request_parameters, datatype, ucp_request_param_t, datatype);
CHECK_MEMBER(ucx_request_parameters, user_data, ucp_request_param_t, user_data);
CHECK_MEMBER(ucx_request_parameters, reply_buffer, ucp_request_param_t, reply_buffer);
CHECK_MEMBER(ucx_request_parameters, memory_type, ucp_request_param_t, memory_type);
CHECK_MEMBER(ucx_request_parameters, info, ucp_request_param_t, recv_info.tag_info);
CHECK_MEMBER(ucx_request_parameters, memory, ucp_request_param_t, memh);

CHECK_NOT_LONGER(ucx_map_parameters, ucp_mem_map_params_t);
CHECK_MEMBER(ucx_map_parameters, field_mask, ucp_mem_map_params_t, field_mask);
CHECK_MEMBER(ucx_map_parameters, address, ucp_mem_map_params_t, address);
CHECK_MEMBER(ucx_map_parameters, bytes, ucp_mem_map_params_t, length);
CHECK_MEMBER(ucx_map_parameters, flags, ucp_mem_map_params_t, flags);
CHECK_MEMBER(ucx_map_parameters, protection, ucp_mem_map_params_t, prot);
CHECK_MEMBER(ucx_map_parameters, memory_type, ucp_mem_map_params_t, memory_type);

/*
 * The functions. The types differ by name, so each line gives UCX's type of the function. The compiler compares it
 * with the header here. Its parameters must be as many as those of leat's list, in the same order; this is read by
 * people, and run by test_ucx.
 */
#define CHECK_FUNCTION(name, result, ...)                                                                         \
    _Static_assert(__builtin_types_compatible_p(__typeof__(&name), result(*)(__VA_ARGS__)), #name)

CHECK_FUNCTION(ucp_get_version, void, unsigned *, unsigned *, unsigned *);
CHECK_FUNCTION(ucp_get_version_string, const char *, void);
CHECK_FUNCTION(ucs_status_string, const char *, ucs_status_t);
CHECK_FUNCTION(ucp_lib_query, ucs_status_t, ucp_lib_attr_t *);
CHECK_FUNCTION(ucp_init_version, ucs_status_t, unsigned, unsigned, const ucp_params_t *, const ucp_config_t *,
               ucp_context_h *);
CHECK_FUNCTION(ucp_cleanup, void, ucp_context_h);
CHECK_FUNCTION(ucp_context_query, ucs_status_t, ucp_context_h, ucp_context_attr_t *);
CHECK_FUNCTION(ucp_mem_map, ucs_status_t, ucp_context_h, const ucp_mem_map_params_t *, ucp_mem_h *);
CHECK_FUNCTION(ucp_mem_unmap, ucs_status_t, ucp_context_h, ucp_mem_h);
CHECK_FUNCTION(ucp_worker_create, ucs_status_t, ucp_context_h, const ucp_worker_params_t *, ucp_worker_h *);
CHECK_FUNCTION(ucp_worker_destroy, void, ucp_worker_h);
CHECK_FUNCTION(ucp_worker_query, ucs_status_t, ucp_worker_h, ucp_worker_attr_t *);
CHECK_FUNCTION(ucp_worker_release_address, void, ucp_worker_h, ucp_address_t *);
CHECK_FUNCTION(ucp_worker_progress, unsigned, ucp_worker_h);
CHECK_FUNCTION(ucp_worker_get_efd, ucs_status_t, ucp_worker_h, int *);
CHECK_FUNCTION(ucp_worker_arm, ucs_status_t, ucp_worker_h);
CHECK_FUNCTION(ucp_worker_signal, ucs_status_t, ucp_worker_h);
CHECK_FUNCTION(ucp_ep_create, ucs_status_t, ucp_worker_h, const ucp_ep_params_t *, ucp_ep_h *);
CHECK_FUNCTION(ucp_ep_close_nbx, ucs_status_ptr_t, ucp_ep_h, const ucp_request_param_t *);
CHECK_FUNCTION(ucp_ep_query, ucs_status_t, ucp_ep_h, ucp_ep_attr_t *);
CHECK_FUNCTION(ucp_ep_print_info, void, ucp_ep_h, FILE *);
CHECK_FUNCTION(ucp_tag_send_nbx, ucs_status_ptr_t, ucp_ep_h, const void *, size_t, ucp_tag_t,
               const ucp_request_param_t *);
CHECK_FUNCTION(ucp_tag_recv_nbx, ucs_status_ptr_t, ucp_worker_h, void *, size_t, ucp_tag_t, ucp_tag_t,
               const ucp_request_param_t *);
CHECK_FUNCTION(ucp_request_check_status, ucs_status_t, void *);
CHECK_FUNCTION(ucp_request_cancel, void, ucp_worker_h, void *);
CHECK_FUNCTION(ucp_request_free, void, void *);

int main(void)
{
    printf("leat's declarations of UCX agree with the header of UCX %d.%d\n", UCP_API_MAJOR, UCP_API_MINOR);
    return 0;
}

#else

int main(void)
{
    printf("skipped: <ucp/api/ucp.h> is not installed (Debian: libucx-dev)\n");
    return 77;
}

#endif
