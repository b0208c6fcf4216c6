/*
 * abi.h - defines macros by which tests compare leat's own declarations with a vendor's header at compile time.
 */
#ifndef ABI_H
#define ABI_H

#include <stddef.h>

/* A constant of leat must have the value that the vendor's header gives to the same name. */
#define CHECK_CONSTANT(name, value) _Static_assert((long long)(name) == (value), #name);

#define CHECK_TYPE(ours, real) _Static_assert(__builtin_types_compatible_p(ours, real), #real)

/* leat declares an enumeration of the vendor as unsigned int. Size and alignment must agree, and the vendor's type
 * must be unsigned. */
#define CHECK_ENUM(ours, real)                                                                                    \
    _Static_assert(sizeof(ours) == sizeof(real) && _Alignof(ours) == _Alignof(real) && (real)-1 > 0, #real)

#define CHECK_SIZE(ours, real)                                                                                    \
    _Static_assert(sizeof(ours) == sizeof(real) && _Alignof(ours) == _Alignof(real), #real)
#define CHECK_MEMBER(ours, our_member, real, real_member)                                                         \
    _Static_assert(offsetof(ours, our_member) == offsetof(real, real_member) &&                                   \
                       sizeof(((ours *)NULL)->our_member) == sizeof(((real *)NULL)->real_member),                 \
                   #real "." #real_member)

#endif
