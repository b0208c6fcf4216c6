/*
 * cudart12_names.h - included before every file of compat/cudart when it is compiled for libcudart.so.12.
 *
 * CUDA 13 changed the parameters or structs of the functions below. In libcudart.so.12 their names stand for the
 * functions of cudart12.c, which have the form of CUDA 12 and call those of compat/cudart under the names here.
 */
#ifndef FACES_CUDART12_NAMES_H
#define FACES_CUDART12_NAMES_H

#define cudaChooseDevice leat13_cudaChooseDevice
#define cudaGetDeviceProperties leat13_cudaGetDeviceProperties
#define cudaPointerGetAttributes leat13_cudaPointerGetAttributes
#define cudaGraphAddDependencies leat13_cudaGraphAddDependencies
#define cudaGraphRemoveDependencies leat13_cudaGraphRemoveDependencies
#define cudaGraphAddNode leat13_cudaGraphAddNode
#define cudaGraphGetEdges leat13_cudaGraphGetEdges
#define cudaGraphNodeGetDependencies leat13_cudaGraphNodeGetDependencies
#define cudaGraphNodeGetDependentNodes leat13_cudaGraphNodeGetDependentNodes
#define cudaMemAdvise leat13_cudaMemAdvise
#define cudaMemPrefetchAsync leat13_cudaMemPrefetchAsync
#define cudaMemPrefetchAsync_ptsz leat13_cudaMemPrefetchAsync_ptsz
#define cudaMemcpyBatchAsync leat13_cudaMemcpyBatchAsync
#define cudaMemcpyBatchAsync_ptsz leat13_cudaMemcpyBatchAsync_ptsz
#define cudaMemcpy3DBatchAsync leat13_cudaMemcpy3DBatchAsync
#define cudaMemcpy3DBatchAsync_ptsz leat13_cudaMemcpy3DBatchAsync_ptsz
#define cudaStreamGetCaptureInfo leat13_cudaStreamGetCaptureInfo
#define cudaStreamGetCaptureInfo_ptsz leat13_cudaStreamGetCaptureInfo_ptsz
#define cudaStreamUpdateCaptureDependencies leat13_cudaStreamUpdateCaptureDependencies
#define cudaStreamUpdateCaptureDependencies_ptsz leat13_cudaStreamUpdateCaptureDependencies_ptsz

#include <leat/compat/cuda_runtime_api.h>

/* The version that the library reports, and the forms of the driver's functions that it looks up. */
#undef CUDART_VERSION
#define CUDART_VERSION 12080

#endif
