/*
 * cpu_image.h - checks that the dynamic loader can load an image of a shared object without crashing.
 */
#ifndef LEATI_CPU_IMAGE_H
#define LEATI_CPU_IMAGE_H

#include <leat/status.h>

#include <stddef.h>

/*
 * Returns IMAGE, with a message, unless everything that dlopen() and dlclose() read from the image lies inside it
 * and is valid. The check is needed because the loader itself checks almost nothing, so a damaged image crashes
 * the process. It does not examine code, constructors or the program's data.
 */
leat_status cpu_image_check(const void *image, size_t bytes);

#endif
