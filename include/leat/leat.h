/*
 * leat/leat.h - all of leat's public headers.
 *
 * leat brings bytes to a GPU: it allocates memory there, moves data in and out at the speed of the link,
 * and runs kernels on it, with the same calls on an NVIDIA GPU and on no GPU at all. Start with
 * leat/device.h; each header opens with its model, the order of its calls and its threading rule.
 *
 * Verbs mean the same everywhere:
 *
 *     _create, _destroy    make and end an object. What create returns, the caller must destroy
 *     _open, _close        open and close a device, a file or a model
 *     _load, _unload       load and unload a module
 *     _alloc, _free        allocate and free memory
 *     _start, _destroy     _start starts work and returns an object that shows its progress; to destroy the object
 *                          does not stop the work
 *     _query               checks whether work is complete, and does not wait
 *     _synchronize, _wait  waits for work
 *     _get_info            describes an object or an address
 *     _get_stats           returns counts and figures
 *     _explain             describes in words what a call would do
 *     _list                describes element 0, 1, ... and fails past the last one
 *     _set_...             changes a setting
 */
#ifndef LEAT_LEAT_H
#define LEAT_LEAT_H

#include <leat/base.h>
#include <leat/copy.h>
#include <leat/device.h>
#include <leat/file.h>
#include <leat/kernel.h>
#include <leat/layout.h>
#include <leat/managed.h>
#include <leat/memory.h>
#include <leat/native.h>
#include <leat/pool.h>
#include <leat/share.h>
#include <leat/status.h>
#include <leat/storage.h>
#include <leat/stream.h>
#include <leat/trace.h>
#include <leat/version.h>
#include <leat/virtual.h>

#endif
