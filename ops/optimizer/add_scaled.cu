// SPDX-License-Identifier: Apache-2.0
// add_scaled on GPUs: product and sum are rounded one by one.
#include "ops/support/device_kernel.h"
#include "ops/table.h"

namespace troupe::ops {
namespace {

template <typename T>
struct AddScaledAt {
  using W = Wide<T>;
  static constexpr int kSize = DevicePack<T>::kSize;
  const T *lhs, *rhs, *factor;
  DeviceOutput<T> out;

  TROUPE_HOST_DEVICE static W sum(T left, T right, W by) {
    const W product = static_cast<W>(right) * by;
    return static_cast<W>(left) + product;
  }
  TROUPE_HOST_DEVICE void operator()(std::int64_t i) const {
    out.store(i, sum(lhs[i], rhs[i], static_cast<W>(*factor)));
  }
  TROUPE_HOST_DEVICE void pack(std::int64_t i) const {
    const DevicePack<T> left = pack_at(lhs, i), right = pack_at(rhs, i);
    const auto by = static_cast<W>(*factor);
    W results[kSize];
    TROUPE_UNROLL
    for (int k = 0; k < kSize; ++k) results[k] = sum(left.values[k], right.values[k], by);
    out.store_pack(i, results);
  }
  bool aligned() const { return packs_align(lhs) && packs_align(rhs) && packs_align(out.data); }
};

template <typename T>
base::Status run_add_scaled(const OpCall&, const KernelContext& context, T) {
  const AddScaledAt<T> at{context.inputs[0].as<T>(),
                          context.inputs[1].as<T>(),
                          context.inputs[2].as<T>(),
                          {context.outputs[0].as<T>()}};
  return for_each_pack<T>(context, flat_elements<T>(context), at.aligned(), at);
}

}  // namespace

std::span<const BackendKernel> kernels_add_scaled_cuda() {
  static const BackendKernel kernels[] = {
      {"add_scaled", real_device_kernel([](auto&&... x) { return run_add_scaled(x...); })}};
  return kernels;
}

}  // namespace troupe::ops
