// SPDX-License-Identifier: Apache-2.0
// Own kernels for GPUs, each a function of an index that is called for all of them. Files *.cu are
// compiled by nvcc, for devices and for the host; in builds without CUDA for the host alone. Where
// a run has no device's stream, the lane's threads call the function: so its arithmetic is tested
// on machines without a device. Sums are taken in f32, in f64 for tensors of f64.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <utility>

#include "ops/kernel.h"
#include "ops/support/broadcast.h"
#include "ops/support/chunks.h"
#include "ops/support/device_divide.h"
#include "ops/support/host_device.h"
#if defined(__CUDACC__)
#include "gpu/cuda_error.h"
#endif

namespace troupe::ops {

#if defined(__CUDACC__)
// Constants of the grid stay where the launch puts them: without the word, a struct with an array
// that is read at a running index is copied to local memory by every thread.
template <typename F>
__global__ void call_for_indices(std::int64_t count, const __grid_constant__ F f) {
  const std::int64_t step = std::int64_t{blockDim.x} * gridDim.x;
  for (std::int64_t i = std::int64_t{blockDim.x} * blockIdx.x + threadIdx.x; i < count; i += step) {
    f(i);
  }
}
#endif

/// f(i) for all i in [0, count), in any order: issued on the context's stream, or, where it has no
/// device's, done on return. F is a plain struct whose operator() is TROUPE_HOST_DEVICE. Sources
/// other than *.cu call it only with an F that no *.cu uses: the linker keeps one of the two.
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
  return gpu::launch_status(cudaGetLastError(), context.stream->device());
#else
  TROUPE_CHECK(false, "a device's stream in a build without CUDA");
  return {};
#endif
}

/// Neighbouring elements that a thread reads or writes at once: 16 bytes.
template <typename T>
struct alignas(16) DevicePack {
  static constexpr int kSize = 16 / static_cast<int>(sizeof(T));
  T values[kSize];
};
/// The pack at data[i]; `data + i` is aligned for it.
template <typename T>
TROUPE_HOST_DEVICE const DevicePack<T>& pack_at(const T* data, std::int64_t i) {
  return *reinterpret_cast<const DevicePack<T>*>(data + i);
}
/// Whether a pack may lie at `data`, or `data` is null.
inline bool packs_align(const void* data) {
  return reinterpret_cast<std::uintptr_t>(data) % alignof(DevicePack<float>) == 0;
}

/// Output elements, written or added to.
template <typename T>
struct DeviceOutput {
  T* data = nullptr;
  bool adds = false;

  /// The elements of a pack from i on.
  TROUPE_HOST_DEVICE void store_pack(std::int64_t i, const Wide<T>* values) const {
    DevicePack<T> pack;
    if (adds) pack = pack_at<T>(data, i);
    for (int k = 0; k < DevicePack<T>::kSize; ++k) {
      pack.values[k] = T(adds ? static_cast<Wide<T>>(pack.values[k]) + values[k] : values[k]);
    }
    *reinterpret_cast<DevicePack<T>*>(data + i) = pack;
  }

  TROUPE_HOST_DEVICE void store(std::int64_t i, Wide<T> value) const {
    data[i] = T(adds ? static_cast<Wide<T>>(data[i]) + value : value);
  }
};

/// f.pack(i) for a whole pack from element i on, f(i) for each element behind the last of them.
template <typename T, typename F>
struct PacksOf {
  F f;
  std::int64_t count;

  TROUPE_HOST_DEVICE void operator()(std::int64_t pack) const {
    const std::int64_t begin = pack * DevicePack<T>::kSize;
    if (begin + DevicePack<T>::kSize <= count) {
      f.pack(begin);
    } else {
      for (std::int64_t i = begin; i < count; ++i) f(i);
    }
  }
};

/// for_each_index() by packs of T. `aligned`: they may lie wherever f reads and writes; else, one
/// element at a time.
template <typename T, typename F>
base::Status for_each_pack(const KernelContext& context, std::int64_t count, bool aligned,
                           const F& f) {
  if (!aligned) return for_each_index(context, count, f);
  constexpr std::int64_t kSize = DevicePack<T>::kSize;
  return for_each_index(context, (count + kSize - 1) / kSize, PacksOf<T, F>{f, count});
}

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
  TROUPE_HOST_DEVICE void pack(std::int64_t i) const {
    constexpr int kSize = DevicePack<T>::kSize;
    DevicePack<T> packs[Arity];
    for (std::size_t k = 0; k < Arity; ++k) packs[k] = pack_at(in[k], i);
    Wide<T> results[kSize];
    for (int k = 0; k < kSize; ++k) {
      const auto x = static_cast<Wide<T>>(packs[0].values[k]);
      if constexpr (Arity == 1) {
        results[k] = f(x);
      } else {
        results[k] = f(x, static_cast<Wide<T>>(packs[1].values[k]));
      }
    }
    out.store_pack(i, results);
  }
  bool aligned() const {
    bool all = packs_align(out.data);
    for (const T* each : in) all = all && packs_align(each);
    return all;
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
    return for_each_pack<T>(context, flat_elements<T>(context), at.aligned(), at);
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

/// BroadcastWalk for devices.
struct DeviceBroadcast {
  struct Axis {
    Divider extent;
    std::int64_t stride_a, stride_b;
  };
  int rank = 0;
  Axis axes[base::kRankMax];

  explicit DeviceBroadcast(const BroadcastWalk& walk) : rank(walk.rank) {
    for (std::size_t axis = 0; axis < static_cast<std::size_t>(rank); ++axis) {
      axes[axis] = {Divider(walk.extent[axis]), walk.stride_a[axis], walk.stride_b[axis]};
    }
  }
};

/// out[i] = f(a, b) of the elements that are broadcast to i.
template <typename T, typename F>
struct BroadcastAt {
  const T* a;
  const T* b;
  DeviceOutput<T> out;
  DeviceBroadcast walk;
  F f;

  TROUPE_HOST_DEVICE void operator()(std::int64_t i) const {
    std::int64_t rest = i, at_a = 0, at_b = 0;
    for (int axis = walk.rank - 1; axis >= 0; --axis) {
      const DeviceBroadcast::Axis& own = walk.axes[axis];
      const Divider::Digits at = own.extent.digits(rest);
      const std::int64_t index = axis > 0 ? at.remainder : rest;
      rest = at.quotient;
      at_a += index * own.stride_a;
      at_b += index * own.stride_b;
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
      const PointwiseAt<2, T, F> at{{a, b}, out, f};
      return for_each_pack<T>(context, flat_elements<T>(context), at.aligned(), at);
    }
    const DeviceBroadcast walk(broadcast_walk(shape, call.inputs[0].shape, call.inputs[1].shape));
    return for_each_index(context, shape.elements(), BroadcastAt<T, F>{a, b, out, walk, f});
  });
}

}  // namespace troupe::ops
