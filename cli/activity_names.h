/* activity_names.h - names of kernels as the source has them. */
#ifndef CLI_ACTIVITY_NAMES_H
#define CLI_ACTIVITY_NAMES_H

/* Returns the name that a compiler of C++ has encoded ("_Z6kernelPf" is "kernel(float*)"), for free(). Returns
 * NULL if text is no such name, if it may be very long decoded, or if this machine has no library that decodes
 * them. */
char *activity_name_decode(const char *text);

#endif
