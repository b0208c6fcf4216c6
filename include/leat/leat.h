/*
 * leat/leat.h - all of leat's public headers.
 *
 * leat brings bytes to a GPU: it allocates memory there, moves data in and out at the speed of the link,
 * and runs kernels on it, with the same calls on an NVIDIA GPU and on no GPU at all. Start with
 * leat/device.h; each header opens with its model, the order of its calls and its threading rule.
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
#include <leat/status.h>
#include <leat/stream.h>
#include <leat/version.h>
#include <leat/virtual.h>

#endif
