// SPDX-License-Identifier: Apache-2.0
// Slices' arithmetic over operators of the table.
#include "store/slice_compute.h"

#include <array>

#include "ndarray/run_kernel.h"
#include "store/initializer.h"

namespace troupe::store {

using schemas::KeyInfo;
using schemas::KeyKind;

base::Result<std::unique_ptr<SliceCompute>> SliceCompute::create(const ops::OpTable& table,
                                                                 std::span<const KeyInfo> keys,
                                                                 const UpdateRule& rule) {
  std::unique_ptr<SliceCompute> compute(new SliceCompute(table, rule));
  for (const KeyInfo& key : keys) {
    if (key.kind == KeyKind::average) {
      auto& updater = compute->average_[{key.dtype, key.momentum}];
      if (updater != nullptr) continue;
      TROUPE_TRY_ASSIGN(updater, Updater::create_average(table, key.momentum, key.dtype));
    } else {
      auto& updater = compute->dense_[key.dtype];
      if (updater != nullptr) continue;
      TROUPE_TRY_ASSIGN(updater, Updater::create(table, rule.optimizer, key.dtype));
    }
  }
  return compute;
}

const std::vector<std::string>& SliceCompute::slots() const {
  return dense_.empty() ? no_slots_ : dense_.begin()->second->slots();
}

const Updater& SliceCompute::updater(const KeyInfo& key) const {
  return key.kind == KeyKind::average ? *average_.at({key.dtype, key.momentum})
                                      : *dense_.at(key.dtype);
}

base::Result<base::Buffer> SliceCompute::add(const KeyInfo& key, const base::Buffer& left,
                                             const base::Buffer& right,
                                             const UpdateContext& context) const {
  TROUPE_CHECK(left.size() == right.size(), "addition of slices of different sizes");
  const auto elements = static_cast<std::int64_t>(left.size() / base::dtype_size(key.dtype));
  const ops::TensorDesc tensor{key.dtype, base::Shape{elements}, {}, false};
  ops::OpCall call;
  call.op = &table_.at("add");
  TROUPE_TRY_ASSIGN(call.params, ops::Params::parse(call.op->params, {}));
  call.inputs = {tensor, tensor};
  call.outputs = {tensor};
  call.team = context.lane.team;
  TROUPE_TRY_ASSIGN(const auto kernel, context.kernels.get(call));
  TROUPE_TRY_ASSIGN(base::Buffer sum, context.pool.allocate(left.size(), "gradient sums"));
  const auto view = [&](const base::Buffer& buffer) {
    return base::TensorView{buffer.data(), key.dtype, tensor.shape, {}, {}};
  };
  const std::array inputs = {view(left), view(right)};
  const std::array outputs = {view(sum)};
  const ndarray::KernelBuffers buffers{.inputs = inputs, .outputs = outputs, .fresh = true};
  TROUPE_TRY(ndarray::run_kernel(kernel, buffers, context.lane).with_context(key.name));
  return sum;
}

base::Result<SliceValues> SliceCompute::update(const KeyInfo& key, const SliceUpdate& update,
                                               const UpdateContext& context) const {
  UpdateNumbers numbers;
  // The share makes a whole round move the weights equally far in every mode, in one sum or in
  // many; a late sum moves them less (decision 0010). Both factors are exactly 1 under
  // sequential.
  numbers.lr = update.share *
               learning_rate(rule_.schedule, rule_.optimizer.lr, rule_.span, update.step) /
               (1.0 + update.delay);
  numbers.count = update.count;
  numbers.share = update.share;
  numbers.step = update.from.updates + 1;
  auto next = updater(key).apply(update.from.values, update.gradient, numbers, context);
  if (!next.ok()) return next.status().with_context("key '" + key.name + "'");
  return next;
}

base::Result<SliceState> SliceCompute::first(const KeyInfo& key, const SliceInfo& slice,
                                             const schemas::InitializerSpec& initializer,
                                             std::uint64_t seed, base::BufferPool& pool) const {
  TROUPE_TRY_ASSIGN(base::Buffer weight, pool.allocate(slice.bytes, "weights"));
  const base::TensorView part{
      weight.data(), key.dtype, base::Shape{static_cast<std::int64_t>(slice.elements)}, {}, {}};
  TROUPE_TRY(initialize(initializer, seed, key, static_cast<std::int64_t>(slice.offset), part));
  return first_from(key, std::move(weight), pool);
}

base::Result<SliceState> SliceCompute::first_from(const KeyInfo& key, base::Buffer weight,
                                                  base::BufferPool& pool) const {
  SliceState state;
  const auto elements = static_cast<std::int64_t>(weight.size() / base::dtype_size(key.dtype));
  TROUPE_TRY_ASSIGN(state.values.slots, updater(key).first_slots(elements, pool));
  state.values.weight = std::move(weight);
  return state;
}

}  // namespace troupe::store
