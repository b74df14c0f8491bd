// SPDX-License-Identifier: Apache-2.0
// The mark of functions that devices call; nothing in files that nvcc does not compile.
#pragma once

#if defined(__CUDACC__)
#include <cuda_runtime.h>
#define TROUPE_HOST_DEVICE __host__ __device__
#else
#define TROUPE_HOST_DEVICE
#endif
