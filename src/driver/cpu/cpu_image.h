/*
 * cpu_image.h - checks that the dynamic loader can load an image of a shared object without crashing.
 */
#ifndef LEATI_CPU_IMAGE_H
#define LEATI_CPU_IMAGE_H

#include <leat/status.h>

#include <stddef.h>

/*
 * Returns LEAT_OK if everything that dlopen() and dlclose() read from the image lies inside the image and is
 * valid; otherwise IMAGE, with a message. The loader itself checks almost nothing, so a damaged image would crash
 * the process. This check does not examine code, constructors or the program's data.
 */
leat_status cpu_image_check(const void *image, size_t bytes);

#endif
