/*
 * leat/base.h - the rule about structs that can grow, which the other headers share.
 *
 * Structs that can grow. A struct whose first field is size may get further fields at its end in a later version
 * of leat. The caller sets size to the sizeof that it was compiled with; the struct's LEAT_..._INIT does that and
 * sets all other fields to 0, in C and in C++:
 *
 *     leat_pool_options options = LEAT_POOL_OPTIONS_INIT;
 *     leat_pointer_info info = LEAT_POINTER_INFO_INIT;
 *
 * In C a list of initialisers does the same: {.size = sizeof options, .name = "images"}. A program and a library
 * of different versions then work together:
 *
 *     - The library reads and writes no more than size bytes. If the struct is shorter than the library's, the
 *       fields that the program does not have are 0 (options) or are not returned (results).
 *     - If the struct is longer than the library's, the part that the library does not know must be 0, so that the
 *       program does not ask for it. Otherwise the call returns LEAT_ERROR_INVALID. It also does so for a size of
 *       0, and for a size that no version of the struct can have.
 *
 * Structs without size do not grow: they are elements of arrays, or plain values such as leat_dim3.
 */
#ifndef LEAT_BASE_H
#define LEAT_BASE_H

#include <stddef.h>
#include <stdint.h>

/* The value of LEAT_..._INIT for a struct that can grow. */
#ifdef __cplusplus
extern "C++" {
template <typename type> inline type leat_sized_init_()
{
    type made = type();

    made.size = sizeof(type);
    return made;
}
}
#define LEAT_SIZED_INIT_(type) leat_sized_init_<type>()
#else
/* clang-format off */
#define LEAT_SIZED_INIT_(type) {.size = sizeof(type)}
/* clang-format on */
#endif

#endif
