// SPDX-License-Identifier: Apache-2.0
// sgd_update and multi_sgd_update on GPUs: the reference's operations in its order, each rounded by
// itself.
#include "ops/support/device_kernel.h"
#include "ops/support/update.h"
#include "ops/table.h"

namespace troupe::ops {
namespace {

/// The tensors of a weight.
template <typename T>
struct SgdWeight {
  const T *weight, *gradient, *velocity;
  T *new_weight, *new_velocity;
  std::int64_t elements;

  bool aligned() const {
    return packs_align(weight) && packs_align(gradient) && packs_align(velocity) &&
           packs_align(new_weight) && packs_align(new_velocity);
  }
};

/// The step of one element.
template <typename T>
struct SgdRule {
  using W = Wide<T>;
  const T *rate, *count;
  W momentum, decay, limit;

  TROUPE_HOST_DEVICE void operator()(const T& weight, const T& gradient, const T& velocity,
                                     T& new_weight, T& new_velocity) const {
    const auto w = static_cast<W>(weight);
    W g = static_cast<W>(gradient) / static_cast<W>(*count);
    if (limit > W{0}) g = g < -limit ? -limit : (g > limit ? limit : g);
    g = g + w * decay;
    const W v = static_cast<W>(velocity) * momentum + g;
    new_weight = T(w - v * static_cast<W>(*rate));
    new_velocity = T(v);
  }
};

/// The packs of the first `weights` of a list, one behind the other. The last one of a weight may
/// be part of a pack.
template <typename T, int Most>
struct SgdPacks {
  SgdRule<T> rule;
  int weights = 0;
  std::int64_t first_packs[Most];  ///< of each weight
  SgdWeight<T> list[Most];
  bool aligned[Most];

  TROUPE_HOST_DEVICE int weight_of(std::int64_t index) const {
    int first = 0, behind = weights;
    while (behind - first > 1) {
      const int middle = (first + behind) / 2;
      (first_packs[middle] <= index ? first : behind) = middle;
    }
    return first;
  }

  TROUPE_HOST_DEVICE void operator()(std::int64_t index) const {
    constexpr int kSize = DevicePack<T>::kSize;
    const int at = weight_of(index);
    const SgdWeight<T>& own = list[at];
    const std::int64_t begin = (index - first_packs[at]) * kSize;
    if (aligned[at] && begin + kSize <= own.elements) {
      const DevicePack<T> weight = pack_at(own.weight, begin);
      const DevicePack<T> gradient = pack_at(own.gradient, begin);
      const DevicePack<T> velocity = pack_at(own.velocity, begin);
      DevicePack<T> new_weight, new_velocity;
      for (int k = 0; k < kSize; ++k) {
        rule(weight.values[k], gradient.values[k], velocity.values[k], new_weight.values[k],
             new_velocity.values[k]);
      }
      *reinterpret_cast<DevicePack<T>*>(own.new_weight + begin) = new_weight;
      *reinterpret_cast<DevicePack<T>*>(own.new_velocity + begin) = new_velocity;
      return;
    }
    const std::int64_t end = begin + kSize < own.elements ? begin + kSize : own.elements;
    for (std::int64_t i = begin; i < end; ++i) {
      rule(own.weight[i], own.gradient[i], own.velocity[i], own.new_weight[i], own.new_velocity[i]);
    }
  }
};

/// A launch of up to `Most` weights; begins anew behind each issue().
template <typename T, int Most>
class SgdLaunch {
 public:
  SgdLaunch(const Params& params, std::span<const base::TensorView> numbers) {
    const auto number = [&](const char* name) { return static_cast<Wide<T>>(params.real(name)); };
    packs_.rule = {numbers[0].as<T>(), numbers[1].as<T>(), number("momentum"), number("wd"),
                   number("clip_gradient")};
  }

  bool full() const { return packs_.weights == Most; }
  void add(std::span<const base::TensorView> in, std::span<const base::TensorView> out) {
    const SgdWeight<T> own{in[0].as<T>(),  in[1].as<T>(),  in[2].as<T>(),
                           out[0].as<T>(), out[1].as<T>(), out[0].elements()};
    if (own.elements == 0) return;
    constexpr std::int64_t kSize = DevicePack<T>::kSize;
    packs_.first_packs[packs_.weights] = count_;
    packs_.list[packs_.weights] = own;
    packs_.aligned[packs_.weights++] = own.aligned();
    count_ += (own.elements + kSize - 1) / kSize;
  }
  base::Status issue(const KernelContext& context) {
    TROUPE_TRY(for_each_index(context, count_, packs_));
    packs_.weights = 0;
    count_ = 0;
    return {};
  }

 private:
  SgdPacks<T, Most> packs_ = {};
  std::int64_t count_ = 0;
};

template <typename T>
base::Status run_sgd_update(const OpCall& call, const KernelContext& context, T) {
  SgdLaunch<T, 1> launch(call.params, context.inputs.subspan(3));
  launch.add(context.inputs, context.outputs);
  return launch.issue(context);
}

template <typename T>
base::Status run_multi_sgd_update(const OpCall& call, const KernelContext& context, T) {
  // A kernel's arguments are at most 4 KiB.
  constexpr int kMost = 64;
  static_assert(sizeof(SgdPacks<T, kMost>) <= 4000);
  SgdLaunch<T, kMost> launch(call.params, context.inputs.last(2));
  TROUPE_TRY(for_each_weight(3, call, context, [&](auto inputs, auto outputs) -> base::Status {
    launch.add(inputs, outputs);
    return launch.full() ? launch.issue(context) : base::Status();
  }));
  return launch.issue(context);
}

}  // namespace

std::span<const BackendKernel> kernels_sgd_update_cuda() {
  static const BackendKernel kernels[] = {
      {"sgd_update", real_device_kernel([](auto&&... x) { return run_sgd_update(x...); })},
      {"multi_sgd_update",
       real_device_kernel([](auto&&... x) { return run_multi_sgd_update(x...); })}};
  return kernels;
}

}  // namespace troupe::ops
