/*
 * hugepage.h - huge pages for the CPU device's memory, when it is first written.
 *
 * Copies that go down the columns of an array touch a page for each row, so that pages of 4 KiB cost a transpose a
 * good part of its speed. The CPU device's memory is a memory file, so that it can be mapped, moved and shared as
 * a GPU's is, and systems give those no huge pages by themselves. Since Linux 6.1 a program may ask for them,
 * piece by piece (MADV_COLLAPSE). Leat asks before the first write that it knows of; the 512 small pages that the
 * write would bring cost as much. Memory that nobody writes stays without pages, and pages that are there stay as
 * they are.
 */
#ifndef LEATI_HUGEPAGE_H
#define LEATI_HUGEPAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Pieces of 2 MiB in which a range of device memory lies, by address; 0 when it is too short to be worth it. */
uint64_t leati_hugepage_count(const void *ptr, size_t bytes);

/* Has any piece no page yet where the range begins in it? Asks the system about one after the other, until one has
 * none. */
bool leati_hugepage_any_missing(const void *ptr, size_t bytes);

/* Asks for piece i of the range, if it has no page there. For parts of a job on several threads. */
void leati_hugepage_collapse(const void *ptr, uint64_t i);

#endif
