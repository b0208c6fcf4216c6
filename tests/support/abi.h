/*
 * abi.h - for the tests that hold leat's own declarations against a vendor's header: what the compiler checks.
 */
#ifndef ABI_H
#define ABI_H

#include <stddef.h>

/* One of our constants, under the vendor's name, which is the real one there. */
#define CHECK_CONSTANT(name, value) _Static_assert((long long)(name) == (value), #name);

#define CHECK_TYPE(ours, real) _Static_assert(__builtin_types_compatible_p(ours, real), #real)

/* An enumeration and the unsigned int that stands for it: same size, same alignment, no negative values. */
#define CHECK_ENUM(ours, real)                                                                                    \
    _Static_assert(sizeof(ours) == sizeof(real) && _Alignof(ours) == _Alignof(real) && (real)-1 > 0, #real)

#define CHECK_SIZE(ours, real)                                                                                    \
    _Static_assert(sizeof(ours) == sizeof(real) && _Alignof(ours) == _Alignof(real), #real)
#define CHECK_MEMBER(ours, our_member, real, real_member)                                                         \
    _Static_assert(offsetof(ours, our_member) == offsetof(real, real_member) &&                                   \
                       sizeof(((ours *)NULL)->our_member) == sizeof(((real *)NULL)->real_member),                 \
                   #real "." #real_member)

#endif
