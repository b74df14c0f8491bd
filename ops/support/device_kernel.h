// SPDX-License-Identifier: Apache-2.0
// Own kernels for GPUs, each a function of an index that is called for all of them. Files *.cu are
// compiled by nvcc, for devices and for the host; in builds without CUDA for the host alone. Where
// a run has no device's stream, the lane's threads call the function: so its arithmetic is tested
// on machines without a device. Sums are taken in f32, in f64 for tensors of f64.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <type_traits>
#include <utility>

#include "ops/kernel.h"
#include "ops/support/broadcast.h"
#include "ops/support/chunks.h"

#if defined(__CUDACC__)
#include <cuda_runtime.h>
/// In front of functions that devices call.
#define TROUPE_HOST_DEVICE __host__ __device__
#else
#define TROUPE_HOST_DEVICE
#endif

namespace troupe::ops {

/// What elements of T are computed in.
template <typename T>
using Wide = std::conditional_t<sizeof(T) == sizeof(base::F16), float, T>;

/// What a launch on `stream` failed with.
base::Status launch_error(const base::Stream& stream, const char* reason);

#if defined(__CUDACC__)
template <typename F>
__global__ void call_for_indices(std::int64_t count, F f) {
  const std::int64_t step = std::int64_t{blockDim.x} * gridDim.x;
  for (std::int64_t i = std::int64_t{blockDim.x} * blockIdx.x + threadIdx.x; i < count; i += step) {
    f(i);
  }
}
#endif

/// f(i) for all i in [0, count), in any order: issued on the context's stream, or, where it has no
/// device's, done on return. F is a plain struct whose operator() is TROUPE_HOST_DEVICE.
template <typename F>
base::Status for_each_index(const KernelContext& context, std::int64_t count, const F& f) {
  if (count == 0) return {};
  void* const stream = context.stream != nullptr ? context.stream->native() : nullptr;
  if (stream == nullptr) {
    parallel_ranges(context, count, [&f](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) f(i);
    });
    return {};
  }
#if defined(__CUDACC__)
  constexpr int kThreads = 256;
  constexpr std::int64_t kBlocksMax = 1 << 20;
  const auto blocks = std::min((count + kThreads - 1) / kThreads, kBlocksMax);
  call_for_indices<<<static_cast<unsigned>(blocks), kThreads, 0,
                     static_cast<cudaStream_t>(stream)>>>(count, f);
  const cudaError_t error = cudaGetLastError();
  if (error == cudaSuccess) return {};
  return launch_error(*context.stream, cudaGetErrorString(error));
#else
  TROUPE_CHECK(false, "a device's stream in a build without CUDA");
  return {};
#endif
}

/// Output elements, written or added to.
template <typename T>
struct DeviceOutput {
  T* data = nullptr;
  bool adds = false;

  TROUPE_HOST_DEVICE void store(std::int64_t i, Wide<T> value) const {
    data[i] = T(adds ? static_cast<Wide<T>>(data[i]) + value : value);
  }
};

/// Output `index` of a running call.
template <typename T>
DeviceOutput<T> device_output(const OpCall& call, const KernelContext& context, std::size_t index) {
  const bool adds = !call.modes.empty() && call.modes[index] == WriteMode::add;
  return {context.outputs[index].as<T>(), adds};
}

/// Elements of output 0's memory, the padding of blocked layouts included.
template <typename T>
std::int64_t flat_elements(const KernelContext& context) {
  return context.outputs[0].bytes() / static_cast<std::int64_t>(sizeof(T));
}

/// A kernel for GPUs that runs flat (make_flat()) on floating tensors of any width.
KernelDef device_kernel(std::function<base::Status(const OpCall&, const KernelContext&)> run);

/// device_kernel() from f(call, context, T{}), T the dtype of output 0.
template <typename F>
KernelDef real_device_kernel(F f) {
  return device_kernel([f](const OpCall& call, const KernelContext& context) {
    return with_real(context.outputs[0].dtype,
                     [&](auto zero) -> base::Status { return f(call, context, zero); });
  });
}

/// out[i] = f(in0[i], in1[i], ...).
template <std::size_t Arity, typename T, typename F>
struct PointwiseAt {
  const T* in[Arity];
  DeviceOutput<T> out;
  F f;

  TROUPE_HOST_DEVICE void operator()(std::int64_t i) const {
    if constexpr (Arity == 1) {
      out.store(i, f(static_cast<Wide<T>>(in[0][i])));
    } else {
      static_assert(Arity == 2);
      out.store(i, f(static_cast<Wide<T>>(in[0][i]), static_cast<Wide<T>>(in[1][i])));
    }
  }
};

/// out[i] = f(in0[i], ...) over `Arity` inputs of the output's shape, where f = make(params,
/// Wide<T>{}) takes and returns Wide<T>. `make` is called once per run, on the host.
template <std::size_t Arity, typename Make>
KernelDef pointwise_device_kernel(Make make) {
  return real_device_kernel([make](const OpCall& call, const KernelContext& context, auto zero) {
    using T = decltype(zero);
    const auto f = make(call.params, Wide<T>{});
    PointwiseAt<Arity, T, std::remove_const_t<decltype(f)>> at{
        {}, device_output<T>(call, context, 0), f};
    for (std::size_t k = 0; k < Arity; ++k) at.in[k] = context.inputs[k].as<T>();
    return for_each_index(context, flat_elements<T>(context), at);
  });
}

/// pointwise_device_kernel() for a function without parameters.
template <std::size_t Arity, typename F>
KernelDef plain_device_kernel(F f) {
  return pointwise_device_kernel<Arity>([f](const Params&, auto) { return f; });
}

/// x -> f(x, number).
template <typename W, typename F>
struct WithNumber {
  F f;
  W number;
  TROUPE_HOST_DEVICE W operator()(W x) const { return f(x, number); }
};

/// out = f(data, scalar), see scalar_definition().
template <typename F>
KernelDef scalar_device_kernel(F f) {
  return pointwise_device_kernel<1>([f](const Params& params, auto zero) {
    using W = decltype(zero);
    return WithNumber<W, F>{f, static_cast<W>(params.real("scalar"))};
  });
}

/// out[i] = f(a, b) of the elements that are broadcast to i.
template <typename T, typename F>
struct BroadcastAt {
  const T* a;
  const T* b;
  DeviceOutput<T> out;
  BroadcastWalk walk;
  F f;

  TROUPE_HOST_DEVICE void operator()(std::int64_t i) const {
    std::int64_t rest = i, at_a = 0, at_b = 0;
    for (int axis = walk.rank - 1; axis >= 0; --axis) {
      const std::int64_t extent = walk.extent[axis];
      const std::int64_t index = axis > 0 ? rest % extent : rest;
      rest /= extent;
      at_a += index * walk.stride_a[axis];
      at_b += index * walk.stride_b[axis];
    }
    out.store(i, f(static_cast<Wide<T>>(a[at_a]), static_cast<Wide<T>>(b[at_b])));
  }
};

/// out = f(a, b) with broadcasting.
template <typename F>
KernelDef broadcast_device_kernel(F f) {
  return real_device_kernel([f](const OpCall& call, const KernelContext& context, auto zero) {
    using T = decltype(zero);
    const base::Shape& shape = context.outputs[0].shape;
    const T* a = context.inputs[0].as<T>();
    const T* b = context.inputs[1].as<T>();
    const DeviceOutput<T> out = device_output<T>(call, context, 0);
    if (call.inputs[0].shape == call.inputs[1].shape) {
      return for_each_index(context, flat_elements<T>(context),
                            PointwiseAt<2, T, F>{{a, b}, out, f});
    }
    const BroadcastWalk walk = broadcast_walk(shape, call.inputs[0].shape, call.inputs[1].shape);
    return for_each_index(context, shape.elements(), BroadcastAt<T, F>{a, b, out, walk, f});
  });
}

}  // namespace troupe::ops
