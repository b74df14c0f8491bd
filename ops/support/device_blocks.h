// SPDX-License-Identifier: Apache-2.0
// Own kernels for GPUs whose threads work together: blocks of threads with shared memory take units
// of work. The host takes the same units one after the other, with the same arithmetic.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <utility>

#include "ops/support/device_kernel.h"
#include "ops/support/scratch_views.h"

namespace troupe::ops {

/// Threads of a block.
inline constexpr int kBlockThreads = 256;

#if defined(__CUDACC__)
template <typename F>
__global__ void __launch_bounds__(kBlockThreads)
    call_for_units(std::int64_t count, const __grid_constant__ F f) {
  __shared__ alignas(16) unsigned char shared[F::kSharedBytes];
  for (std::int64_t unit = blockIdx.x; unit < count; unit += gridDim.x) {
    f.on_device(unit, shared);
    __syncthreads();  // before the next unit writes to `shared`
  }
}
#endif

/// All units in [0, count): f.on_device(unit, shared) by a block's threads together, issued on the
/// context's stream; or, where it has no device's, f.on_host(unit), done on return. F is a plain
/// struct; `shared` has F::kSharedBytes bytes.
template <typename F>
base::Status for_each_unit(const KernelContext& context, std::int64_t count, const F& f) {
  if (count == 0) return {};
  void* const stream = context.stream != nullptr ? context.stream->native() : nullptr;
  if (stream == nullptr) {
    context.parallel(count, [&f](std::int64_t unit) { f.on_host(unit); });
    return {};
  }
#if defined(__CUDACC__)
  constexpr std::int64_t kBlocksMax = 1 << 20;
  const auto blocks = static_cast<unsigned>(std::min(count, kBlocksMax));
  call_for_units<<<blocks, kBlockThreads, 0, static_cast<cudaStream_t>(stream)>>>(count, f);
  return gpu::launch_status(cudaGetLastError(), context.stream->device());
#else
  TROUPE_CHECK(false, "a device's stream in a build without CUDA");
  return {};
#endif
}

/// Cuts a kernel's scratch memory into arrays. The same calls on a ScratchCut without memory count
/// the bytes.
class ScratchCut {
 public:
  explicit ScratchCut(std::byte* memory = nullptr) : memory_(memory) {}

  template <typename T>
  T* take(std::int64_t count) {
    const std::size_t at = bytes_;
    bytes_ += scratch_piece(count * static_cast<std::int64_t>(sizeof(T)));
    return memory_ == nullptr ? nullptr : reinterpret_cast<T*>(memory_ + at);
  }
  std::size_t bytes() const { return bytes_; }

 private:
  std::byte* memory_;
  std::size_t bytes_ = 0;
};

/// The call with all layouts fixed; unimplemented where the kernel does not take one.
using FixLayouts = std::function<base::Result<OpCall>(OpCall)>;
/// Says whether all tensors of four axes may have their channels last (channels_last.h), instead of
/// being dense; empty: they may not.
using MayBeLast = std::function<bool(const OpCall&)>;

/// All tensors lie alike.
FixLayouts fix_together(MayBeLast may_be_last);
/// Each tensor of four axes may be dense or have its channels last. Where it may lie in any way, an
/// input is as it lies now, or dense; an output is as input `like` is, without `like` dense.
base::Result<OpCall> fix_each(OpCall call, std::optional<std::size_t> like);

/// A kernel for GPUs, the first input of any floating type, with scratch memory. `run` and
/// `scratch` get a call whose layouts are fixed.
KernelDef layouts_device_kernel(
    FixLayouts fix, std::function<base::Status(const OpCall&, const KernelContext&)> run,
    std::function<std::size_t(const OpCall&)> scratch);

/// layouts_device_kernel() from f(call, context, what cut(call, ScratchCut&, T{}) takes), T the
/// dtype of the first input.
template <typename F, typename Cut>
KernelDef cut_device_kernel(FixLayouts fix, F f, Cut cut) {
  return layouts_device_kernel(
      std::move(fix),
      [f, cut](const OpCall& call, const KernelContext& context) {
        return with_real(call.inputs[0].dtype, [&](auto zero) -> base::Status {
          ScratchCut scratch(context.scratch.data());
          return f(call, context, cut(call, scratch, zero));
        });
      },
      [cut](const OpCall& call) {
        ScratchCut scratch;
        const base::Status known = with_real(call.inputs[0].dtype, [&](auto zero) -> base::Status {
          cut(call, scratch, zero);
          return {};
        });
        TROUPE_CHECK(known.ok(), "a dtype that was accepted");
        return scratch.bytes();
      });
}
/// cut_device_kernel() for tensors that lie alike.
template <typename F, typename Cut>
KernelDef planes_device_kernel(MayBeLast may_be_last, F f, Cut cut) {
  return cut_device_kernel(fix_together(std::move(may_be_last)), f, cut);
}
/// The same from f(call, context, T{}), without scratch memory.
template <typename F>
KernelDef planes_device_kernel(MayBeLast may_be_last, F f) {
  return layouts_device_kernel(
      fix_together(std::move(may_be_last)),
      [f](const OpCall& call, const KernelContext& context) {
        return with_real(call.inputs[0].dtype,
                         [&](auto zero) -> base::Status { return f(call, context, zero); });
      },
      [](const OpCall&) { return std::size_t{0}; });
}

/// planes_device_kernel() for dense tensors only.
template <typename... F>
KernelDef blocks_device_kernel(F... f) {
  return planes_device_kernel({}, f...);
}
/// For planes_device_kernel(): channels may always be last.
inline bool always_may_be_last(const OpCall&) {
  return true;
}

}  // namespace troupe::ops
