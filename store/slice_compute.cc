// SPDX-License-Identifier: Apache-2.0
// Slices' arithmetic over operators of the table.
#include "store/slice_compute.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numeric>

#include "base/finite.h"
#include "base/float16.h"
#include "ndarray/flat_call.h"
#include "ndarray/run_kernel.h"
#include "store/convert.h"
#include "store/initializer.h"

namespace troupe::store {

using schemas::KeyInfo;
using schemas::KeyKind;

namespace {

bool frozen(const KeyInfo& key) {
  return key.kind == KeyKind::dense && key.lr_mult == 0.0;
}

/// What multiplies the optimizer's weight decay for a dense key.
double decay_of(const KeyInfo& key, const schemas::OptimizerSpec& optimizer) {
  if (key.wd_mult) return *key.wd_mult;
  if (optimizer.name.empty()) return 1.0;  // a symbol decays as it is written
  const bool weight = key.name.ends_with("_weight") || key.name.ends_with("_gamma");
  return weight || optimizer.decay == schemas::Decay::all ? 1.0 : 0.0;
}

base::Status check_loss_scale_key(std::span<const KeyInfo> keys, const UpdateRule& rule) {
  bool has = false;
  for (const KeyInfo& key : keys) {
    if (key.kind != KeyKind::loss_scale) continue;
    const KeyInfo right = loss_scale_key(key.id);
    if (has || key.shape != right.shape || key.dtype != right.dtype) {
      return base::error(base::Errc::invalid_argument,
                         "key '{}' of shape {} and dtype {} is not the one loss scale, which has "
                         "{} and {}",
                         key.name, key.shape.to_string(), base::dtype_name(key.dtype),
                         right.shape.to_string(), base::dtype_name(right.dtype));
    }
    has = true;
  }
  if (has != rule.loss_scale.has_value()) {
    return base::error(base::Errc::invalid_argument,
                       "the keys {} a loss scale, the rule of updates {}", has ? "have" : "lack",
                       has ? "does not" : "has one");
  }
  return has ? check_loss_scale(*rule.loss_scale) : base::Status();
}

/// In lanes, whose number is fixed: vector code, and the same bits everywhere.
template <typename T>
schemas::SliceFacts facts_of(const base::Buffer& values) {
  constexpr std::size_t kLanes = 8;
  const auto numbers = values.as<T>();
  std::array<double, kLanes> squares{};
  std::array<std::uint64_t, kLanes> odd{};
  const auto take = [&](std::size_t lane, T value) {
    const auto number = static_cast<double>(value);
    const bool finite = std::fabs(number) <= std::numeric_limits<double>::max();
    squares[lane] += finite ? number * number : 0.0;
    odd[lane] += finite ? 0 : 1;
  };
  std::size_t at = 0;
  for (; at + kLanes <= numbers.size(); at += kLanes) {
    for (std::size_t lane = 0; lane < kLanes; ++lane) take(lane, numbers[at + lane]);
  }
  for (std::size_t lane = 0; at + lane < numbers.size(); ++lane) take(lane, numbers[at + lane]);
  return {std::accumulate(squares.begin(), squares.end(), 0.0),
          std::accumulate(odd.begin(), odd.end(), std::uint64_t{0})};
}

schemas::SliceFacts facts_of(base::DType dtype, const base::Buffer& values) {
  switch (dtype) {
    case base::DType::f64:
      return facts_of<double>(values);
    case base::DType::bf16:
      return facts_of<base::BF16>(values);
    case base::DType::f16:
      return facts_of<base::F16>(values);
    default:
      return facts_of<float>(values);
  }
}

}  // namespace

base::Result<std::unique_ptr<SliceCompute>> SliceCompute::create(const ops::OpTable& table,
                                                                 std::span<const KeyInfo> keys,
                                                                 const UpdateRule& rule) {
  std::unique_ptr<SliceCompute> compute(new SliceCompute(table, rule));
  TROUPE_TRY(check_loss_scale_key(keys, rule));
  for (const KeyInfo& key : keys) {
    if (key.kind == KeyKind::loss_scale) continue;
    auto& updaters = key.kind == KeyKind::average ? compute->average_ : compute->dense_;
    auto& updater = updaters[compute->name_of(key)];
    if (updater == nullptr) {
      TROUPE_TRY_ASSIGN(updater, compute->make_updater(key));
    }
    if (key.kind == KeyKind::average || frozen(key) || key.lr_mult == 1.0) continue;
    if (updater->reads_rate()) continue;
    return base::error(
        base::Errc::invalid_argument,
        "key '{}' has the multiplier {} of the learning rate, which {} does not read", key.name,
        key.lr_mult, rule.optimizer.symbol);
  }
  return compute;
}

SliceCompute::UpdaterName SliceCompute::name_of(const KeyInfo& key) const {
  return {key.dtype, key.kind == KeyKind::average ? key.momentum : decay_of(key, rule_.optimizer)};
}

base::Result<std::unique_ptr<Updater>> SliceCompute::make_updater(const KeyInfo& key) const {
  if (key.kind == KeyKind::average) {
    return Updater::create_average(table_, key.momentum, key.dtype);
  }
  schemas::OptimizerSpec optimizer = rule_.optimizer;
  const double decay = decay_of(key, optimizer);
  if (optimizer.name.empty() && decay != 1.0) {
    return base::error(base::Errc::invalid_argument,
                       "key '{}' has the multiplier {} of weight decay, but {} decays as it is "
                       "written",
                       key.name, decay, optimizer.symbol);
  }
  optimizer.wd *= decay;
  auto made = Updater::create(table_, optimizer, key.dtype);
  if (made.ok() || optimizer.symbol.empty()) return made;
  return made.status().with_context("train.optimizer.symbol: " + optimizer.symbol);
}

const std::vector<std::string>& SliceCompute::slots() const {
  return dense_.empty() ? no_slots_ : dense_.begin()->second->slots();
}

const Updater& SliceCompute::updater(const KeyInfo& key) const {
  return *(key.kind == KeyKind::average ? average_ : dense_).at(name_of(key));
}

base::Result<base::Buffer> SliceCompute::add(const KeyInfo& key, const base::Buffer& left,
                                             const base::Buffer& right,
                                             const UpdateContext& context) const {
  TROUPE_CHECK(left.size() == right.size(), "addition of slices of different sizes");
  const base::DType dtype = key.gradient_wire;
  const auto elements = static_cast<std::int64_t>(left.size() / base::dtype_size(dtype));
  TROUPE_TRY_ASSIGN(
      const auto kernel,
      ndarray::flat_kernel(ndarray::flat_addition(dtype, elements, {}, context.lane.team), table_,
                           context.kernels));
  TROUPE_TRY_ASSIGN(base::Buffer sum, context.pool.allocate(left.size(), "gradient sums"));
  const auto view = [&](const base::Buffer& buffer) {
    return ndarray::flat_view(buffer.data(), dtype, elements);
  };
  const std::array inputs = {view(left), view(right)};
  const std::array outputs = {view(sum)};
  TROUPE_TRY_ASSIGN(base::Buffer scratch,
                    context.pool.allocate(kernel->scratch_bytes(), "gradient sums"));
  const ndarray::KernelBuffers buffers{.inputs = inputs,
                                       .outputs = outputs,
                                       .scratch = {scratch.data(), scratch.size()},
                                       .fresh = true};
  TROUPE_TRY(ndarray::run_kernel(kernel, buffers, context.lane).with_context(key.name));
  return sum;
}

Examined SliceCompute::examine(const KeyInfo& key, const SliceExamination& examination) const {
  const base::Buffer& sum = examination.gradient;
  if (key.kind == KeyKind::loss_scale) {
    return {{}, read_loss_scale(examination.values.weight).scale};
  }
  schemas::SliceFacts facts = facts_of(key.gradient_wire, sum);
  if (key.kind != KeyKind::dense) facts.squares = 0.0;  // a state's sum is no gradient
  return {facts, 0.0};
}

base::Result<SliceValues> SliceCompute::next_scale(const SliceUpdate& update,
                                                   base::BufferPool& pool) const {
  const LossScale now = read_loss_scale(update.from.values.weight);
  SliceValues next;
  TROUPE_TRY_ASSIGN(next.weight, pool.allocate(update.from.values.weight.size(), "weights"));
  write_loss_scale(next_loss_scale(now, update.verdict.skip, *rule_.loss_scale), next.weight);
  return next;
}

base::Result<SliceValues> SliceCompute::update(const KeyInfo& key, const SliceUpdate& update,
                                               const UpdateContext& context) const {
  if (key.kind == KeyKind::loss_scale) return next_scale(update, context.pool);
  if (frozen(key) || update.verdict.skip) return update.from.values;
  UpdateNumbers numbers;
  // The share makes a whole round move the weights equally far in every mode, in one sum or in
  // many; a late sum moves them less (decision 0010). Both factors are exactly 1 under
  // sequential.
  numbers.lr = update.share * key.lr_mult *
               learning_rate(rule_.schedule, rule_.optimizer.lr, rule_.span, update.step) /
               (1.0 + update.delay);
  numbers.count = update.count * (key.kind == KeyKind::dense ? update.verdict.divisor : 1.0);
  numbers.share = update.share;
  numbers.step = update.from.updates + 1;
  TROUPE_TRY_ASSIGN(const base::Buffer gradient, sum_of(key, update, context.pool));
  auto next = updater(key).apply(update.from.values, gradient, numbers, context);
  if (!next.ok()) return next.status().with_context("key '" + key.name + "'");
  TROUPE_TRY(round(key, *next, context.pool));
  return next;
}

/// What is infinite or NaN in `wire` has left its range: gradients of ranks are checked before.
base::Status SliceCompute::check_range(const KeyInfo& key, base::DType wire,
                                       const base::Buffer& values, std::string_view what) const {
  if (!base::is_16_bit(wire) || !rule_.check_range) return {};
  const std::uint64_t found = base::count_not_finite(wire, values.as<std::byte>());
  if (found == 0) return {};
  return base::error(base::Errc::not_finite,
                     "{} of '{}' holds {} values beyond the range of {}, in which it travels{}",
                     what, key.name, found, base::dtype_name(wire),
                     wire == base::DType::f16 ? "; bf16 has the range of f32" : "");
}

/// The update's gradient in the key's dtype. A value that becomes infinite in a rank or in an
/// addition stays so up to here.
base::Result<base::Buffer> SliceCompute::sum_of(const KeyInfo& key, const SliceUpdate& update,
                                                base::BufferPool& pool) const {
  const std::string what = fmt::format("the sum of gradients of step {}", update.step);
  TROUPE_TRY(check_range(key, key.gradient_wire, update.gradient, what));
  return convert(update.gradient, key.gradient_wire, key.dtype, pool, "gradient sums");
}

base::Status SliceCompute::round(const KeyInfo& key, SliceValues& values,
                                 base::BufferPool& pool) const {
  if (key.kind == KeyKind::loss_scale) {
    return check_loss_scale_values(values.weight).with_context("key '" + key.name + "'");
  }
  if (key.weight_wire == key.dtype) return {};
  TROUPE_TRY_ASSIGN(values.rounded,
                    convert(values.weight, key.dtype, key.weight_wire, pool, "weights"));
  return check_range(key, key.weight_wire, values.rounded, "the weight");
}

base::Result<SliceState> SliceCompute::first(const KeyInfo& key, const SliceInfo& slice,
                                             const schemas::InitializerSpec& initializer,
                                             std::uint64_t seed, base::BufferPool& pool) const {
  TROUPE_TRY_ASSIGN(base::Buffer weight, pool.allocate(slice.bytes, "weights"));
  if (key.kind == KeyKind::loss_scale) {
    write_loss_scale({rule_.loss_scale->first, 0}, weight);
    return first_from(key, std::move(weight), pool);
  }
  const base::TensorView part{
      weight.data(), key.dtype, base::Shape{static_cast<std::int64_t>(slice.elements)}, {}, {}};
  TROUPE_TRY(initialize(initializer, seed, key, static_cast<std::int64_t>(slice.offset), part));
  return first_from(key, std::move(weight), pool);
}

base::Result<SliceState> SliceCompute::first_from(const KeyInfo& key, base::Buffer weight,
                                                  base::BufferPool& pool) const {
  SliceState state;
  if (key.kind == KeyKind::loss_scale) {
    state.values.weight = std::move(weight);
    TROUPE_TRY(round(key, state.values, pool));
    return state;
  }
  const auto elements = static_cast<std::int64_t>(weight.size() / base::dtype_size(key.dtype));
  TROUPE_TRY_ASSIGN(state.values.slots, updater(key).first_slots(elements, pool));
  state.values.weight = std::move(weight);
  TROUPE_TRY(round(key, state.values, pool));
  return state;
}

}  // namespace troupe::store
