// SPDX-License-Identifier: Apache-2.0
// add_n on GPUs: the sum of any number of tensors, in the order of the inputs.
#include "ops/support/device_kernel.h"
#include "ops/support/variadic.h"
#include "ops/table.h"

namespace troupe::ops {
namespace {

/// ((in[0] + in[1]) + in[2]) + ... at one index.
template <typename T>
struct SumAt {
  const T* in[kVariadicInputsMax];
  std::size_t count;
  DeviceOutput<T> out;

  TROUPE_HOST_DEVICE void operator()(std::int64_t i) const {
    auto sum = static_cast<Wide<T>>(in[0][i]);
    for (std::size_t k = 1; k < count; ++k) sum += static_cast<Wide<T>>(in[k][i]);
    out.store(i, sum);
  }
  TROUPE_HOST_DEVICE void pack(std::int64_t i) const {
    constexpr int kSize = DevicePack<T>::kSize;
    Wide<T> sums[kSize] = {};
    for (std::size_t k = 0; k < count; ++k) {
      const DevicePack<T> addends = pack_at(in[k], i);
      for (int e = 0; e < kSize; ++e) {
        const auto addend = static_cast<Wide<T>>(addends.values[e]);
        sums[e] = k == 0 ? addend : sums[e] + addend;
      }
    }
    out.store_pack(i, sums);
  }
};

template <typename T>
base::Status run_add_n(const OpCall& call, const KernelContext& context, T) {
  SumAt<T> at{{}, context.inputs.size(), device_output<T>(call, context, 0)};
  bool aligned = packs_align(at.out.data);
  for (std::size_t k = 0; k < at.count; ++k) {
    at.in[k] = context.inputs[k].as<T>();
    aligned = aligned && packs_align(at.in[k]);
  }
  return for_each_pack<T>(context, flat_elements<T>(context), aligned, at);
}

}  // namespace

std::span<const BackendKernel> kernels_add_n_cuda() {
  static const BackendKernel kernels[] = {
      {"add_n", real_device_kernel([](auto&&... x) { return run_add_n(x...); })}};
  return kernels;
}

}  // namespace troupe::ops
