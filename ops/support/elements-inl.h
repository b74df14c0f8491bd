// SPDX-License-Identifier: Apache-2.0
// The frame of element-wise SIMD kernels: a file `<stem>.simd.cc` states what happens to one vector
// of elements, and this header cuts a call into chunks and chunks into vectors.
// Include it after <hwy/foreach_target.h>. Pure functions; any thread.
#include <hwy/cache_control.h>
#include <hwy/highway.h>

#include <algorithm>
#include <array>
#include <cstdint>

#include "ops/support/chunks.h"
#include "ops/support/memory-inl.h"
#include "ops/support/streaming.h"
#include "ops/support/variadic.h"

// Highway reads this file once per instruction set, each time into another namespace. From the last
// one on, once is enough.
#if HWY_ONCE
#pragma once
#endif

HWY_BEFORE_NAMESPACE();
namespace troupe::ops::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

/// What a run is given: the base of every `Elements`, which reads its own members from here.
struct ElementsCall {
  const OpCall& call;
  const KernelContext& context;

  template <typename T>
  const T* input(std::size_t index) const {
    return context.inputs[index].as<T>();
  }
  template <typename T>
  T* output(std::size_t index) const {
    return context.outputs[index].as<T>();
  }
};

/// Output 0 of a call: overwritten or added to, as the call says; a long one past the caches.
template <typename T>
struct ElementsOutput : ElementsCall {
  T* data = output<T>(0);
  bool adds = !call.modes.empty() && call.modes[0] == WriteMode::add;
  bool streams = !adds && worth_streaming(data, context.outputs[0].bytes()) && !is_read();

  /// Stores the vector `value` to the elements from `i` on.
  template <typename D, typename V>
  HWY_INLINE void store(D d, V value, std::int64_t i) const {
    if (adds) value = hn::Add(load(d, data + i), value);
    if constexpr (hn::MaxLanes(D()) == hn::MaxLanes(hn::ScalableTag<Computed<T>>())) {
      if (streams) return stream(d, value, data + i);
    }
    HWY_NAMESPACE::store(d, value, data + i);
  }

 private:
  bool is_read() const {
    return std::any_of(context.inputs.begin(), context.inputs.end(),
                       [this](const base::TensorView& input) { return input.data == data; });
  }
};

/// ((in0 + in1) + in2) + ... of the first `count` inputs of a call.
template <typename T>
class SummedInputs {
 public:
  SummedInputs(const KernelContext& context, std::size_t count) : count_(count) {
    for (std::size_t i = 0; i < count; ++i) data_[i] = context.inputs[i].as<T>();
  }

  template <typename D>
  HWY_INLINE hn::Vec<D> load(D d, std::int64_t at) const {
    auto sum = HWY_NAMESPACE::load(d, data_[0] + at);
    for (std::size_t i = 1; i < count_; ++i) {
      sum = hn::Add(sum, HWY_NAMESPACE::load(d, data_[i] + at));
    }
    return sum;
  }

 private:
  std::size_t count_;
  std::array<const T*, kSummedMost> data_ = {};
};

/// Elements [i, end) in steps of the tag's lanes, as many as fit; the first element left over.
template <typename D, typename Elements>
std::int64_t run_vectors(D d, const Elements& shared, std::int64_t i, std::int64_t end) {
  // A copy that no store can change: its members stay in registers.
  const Elements elements = shared;
  const auto step = static_cast<std::int64_t>(hn::Lanes(d));
  for (; i + step <= end; i += step) elements(d, i);
  return i;
}

/// Elements [begin, end): whole vectors, then one by one.
template <typename T, typename Elements>
void run_range(const Elements& elements, std::int64_t begin, std::int64_t end) {
  const std::int64_t rest = run_vectors(hn::ScalableTag<Computed<T>>(), elements, begin, end);
  run_vectors(hn::CappedTag<Computed<T>, 1>(), elements, rest, end);
}

/// Runs a call of T flat over the memory of output 0. `Elements<T>` is made once per run; its `void
/// operator()(D d, std::int64_t i) const`, marked HWY_INLINE, computes the elements of all outputs
/// from `i` on, as many as the tag `d`, of what T is computed in, has lanes.
template <template <typename> class Elements, typename T>
base::Status run_elements_of(const OpCall& call, const KernelContext& context) {
  const Elements<T> elements{{call, context}};
  const auto count = context.outputs[0].bytes() / static_cast<std::int64_t>(sizeof(T));
  parallel_ranges(context, count, [&](auto begin, auto end) {
    run_range<T>(elements, begin, end);
    hwy::FlushStream();
  });
  return {};
}

/// The same for f32, f64 and bf16.
template <template <typename> class Elements>
base::Status run_elements(const OpCall& call, const KernelContext& context) {
  return with_memory(context.outputs[0].dtype, [&](auto zero) {
    return run_elements_of<Elements, decltype(zero)>(call, context);
  });
}

/// The same for f32 and bf16.
template <template <typename> class Elements>
base::Status run_f32_elements(const OpCall& call, const KernelContext& context) {
  return context.outputs[0].dtype == base::DType::bf16
             ? run_elements_of<Elements, base::BF16>(call, context)
             : run_elements_of<Elements, float>(call, context);
}

}  // namespace troupe::ops::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
