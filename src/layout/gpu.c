/* gpu.c - see gpu.h. */
#include "layout/gpu.h"

#include <stdio.h>

void leati_gpu_layout_make(const struct leati_form *form, leat_layout_class class_of_plan,
                           struct leati_gpu_layout *gpu)
{
    (void)form;
    (void)class_of_plan;
    *gpu = (struct leati_gpu_layout){.kernel = NULL};
}

void leati_gpu_layout_text(const struct leati_gpu_layout *gpu, char *text, size_t text_bytes)
{
    snprintf(text, text_bytes, "%s", gpu->kernel ? gpu->kernel : "none");
}
