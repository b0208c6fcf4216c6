/*
 * gpu.h - layouts by kernels: which one of leat's layout kernels copies a form, and what it is given.
 */
#ifndef LEATI_LAYOUT_GPU_H
#define LEATI_LAYOUT_GPU_H

#include "layout/form.h"

#include <leat/kernel.h>

struct leati_gpu_layout {
    const char *kernel; /* its name in the module of layout kernels; NULL where the form is empty */
    leat_dim3 grid, block;
    size_t shared_bytes;
    /* What else it takes: the argument without pointers. */
};

/* How GPUs best copy this form. Never fails: the kernel for single elements takes every form. */
void leati_gpu_layout_make(const struct leati_form *form, leat_layout_class class_of_plan,
                           struct leati_gpu_layout *gpu);

/* The most bytes that the argument of a kernel takes. */
#define LEATI_GPU_LAYOUT_ARGUMENT_BYTES 1024

/* Fills in the one argument of the kernel, a struct by value. list and wrong may be NULL. All are addresses that the
 * device reaches. */
void leati_gpu_layout_argument(const struct leati_form *form, const struct leati_gpu_layout *gpu, void *dst,
                               const void *src, const void *list, uint64_t *wrong,
                               unsigned char argument[LEATI_GPU_LAYOUT_ARGUMENT_BYTES]);

/* Kernel and tile in words, for the plan's text: one line without a newline. */
void leati_gpu_layout_text(const struct leati_gpu_layout *gpu, char *text, size_t text_bytes);

#endif
