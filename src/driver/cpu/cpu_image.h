/*
 * cpu_image.h - is the image of a shared object one that the dynamic loader can take?
 */
#ifndef LEATI_CPU_IMAGE_H
#define LEATI_CPU_IMAGE_H

#include <leat/status.h>

#include <stddef.h>

/*
 * IMAGE, with a message, unless all that dlopen() and dlclose() read of the image lies in it and means something:
 * the loader checks next to nothing, and what is wrong ends the process. Code is not looked at, and neither is
 * data of the program's own: what a changed instruction does, or a constructor, nobody can tell.
 */
leat_status cpu_image_check(const void *image, size_t bytes);

#endif
