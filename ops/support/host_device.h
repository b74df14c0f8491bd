// SPDX-License-Identifier: Apache-2.0
// Markers for functions that devices run; nothing in files that nvcc does not compile.
#pragma once

#if defined(__CUDACC__)
#include <cuda_runtime.h>
/// In front of functions that devices call.
#define TROUPE_HOST_DEVICE __host__ __device__
#else
#define TROUPE_HOST_DEVICE
#endif

#if defined(__CUDA_ARCH__)
/// In front of loops whose numbers shall stay in registers.
#define TROUPE_UNROLL _Pragma("unroll")
#else
#define TROUPE_UNROLL
#endif
