/*
 * hugepage.h - gives the CPU device's memory huge pages before it is first written.
 *
 * A copy down the columns of an array touches one page per row, so with pages of 4 KiB a transpose is much slower.
 * The CPU device's virtual memory, which pools use, is a memory file (it can be mapped, moved and shared as a
 * GPU's memory can), and by default systems give memory files no huge pages. Since Linux 6.1 a program can request
 * them for each 2 MiB piece (MADV_COLLAPSE). leat requests them before the first write that it knows of. That
 * costs no more than faulting in 512 small pages. Memory that is never written gets no pages, and existing small
 * pages stay small.
 */
#ifndef LEATI_HUGEPAGE_H
#define LEATI_HUGEPAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Returns how many aligned pieces of 2 MiB the range touches; 0 if it is too short to be worth huge pages. */
uint64_t leati_hugepage_count(const void *ptr, size_t bytes);

/* Returns true if some 2 MiB piece of the range has no page yet at the range's first byte in it. Makes one system
 * call for each piece, until it finds one without a page. */
bool leati_hugepage_any_missing(const void *ptr, size_t bytes);

/* Requests a huge page for piece i of the range, unless the range's first byte in it already has a page. Several
 * threads may call this at once for different pieces. */
void leati_hugepage_collapse(const void *ptr, uint64_t i);

#endif
