// SPDX-License-Identifier: Apache-2.0
// Updater: how one slice's next version follows from the sum of its gradients. It is data: a graph
// of element-wise operators, given as a Symbol or by an optimizer's name, so servers run it without
// code from anybody. The local store and both servers use this one implementation. An Updater is
// immutable but for its cache of plans; any engine thread may apply it.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/buffer.h"
#include "base/dtype.h"
#include "base/mutex.h"
#include "base/status.h"
#include "engine/engine.h"
#include "ndarray/prepared_kernels.h"
#include "ops/table.h"
#include "schemas/job_spec.h"
#include "store/slice_values.h"
#include "symbol/graph.h"
#include "symbol/symbol.h"

namespace troupe::store {

/// invalid_argument: `key` of a job names the file `path`, whose text `field` should hold.
base::Status text_missing(std::string_view key, std::string_view path, std::string_view field);

/// What changes from step to step.
struct UpdateNumbers {
  double lr = 0.0;         ///< scheduled; where a tier is eventual times share / (1 + delay)
  double count = 1.0;      ///< divides the sum: samples; of a judged step also its divisor
  double share = 1.0;      ///< n / N: the part of a full step that the sum is
  std::uint64_t step = 0;  ///< this update's number for the slice, from 1
};

/// Where an update computes: new buffers come from `pool`, kernels from `kernels`.
struct UpdateContext {
  base::BufferPool& pool;
  ndarray::PreparedKernels& kernels;
  engine::RunContext& lane;
};

/// An updater's graph prepared for one number of elements.
struct UpdatePlan;

/// The graph's arguments: `weight`, `gradient`, then what it needs of `lr`, `count`, `step` (0-d);
/// every other argument is a slot, first filled with zeros. `gradient` is the sum over samples if
/// the graph has `count`, else the mean. Outputs: the new weight, then the new slots in
/// list_arguments() order.
class Updater {
 public:
  // `table` outlives the updater.

  /// invalid_argument naming the optimizer, its parameter, or the node that is not element-wise.
  static base::Result<std::unique_ptr<Updater>> create(const ops::OpTable& table,
                                                       const schemas::OptimizerSpec& spec,
                                                       base::DType dtype);

  /// For keys of kind average: state' = m^share * state + (1 - m^share) * sum / count, without
  /// slots.
  static base::Result<std::unique_ptr<Updater>> create_average(const ops::OpTable& table,
                                                               double momentum, base::DType dtype);

  const std::vector<std::string>& slots() const { return slots_; }
  base::DType dtype() const { return dtype_; }
  /// Whether the graph has the argument `lr`.
  bool reads_rate() const { return reads_rate_; }

  /// Slots of a slice of `elements` before its first update: zeros.
  base::Result<std::vector<base::Buffer>> first_slots(std::int64_t elements,
                                                      base::BufferPool& pool) const;
  /// The next version of a slice. Reads `current` and `gradient`, writes new buffers only.
  base::Result<SliceValues> apply(const SliceValues& current, const base::Buffer& gradient,
                                  const UpdateNumbers& numbers, const UpdateContext& context) const;

 private:
  static base::Result<std::unique_ptr<Updater>> from_symbol(const ops::OpTable& table,
                                                            const symbol::Symbol& update,
                                                            base::DType dtype);
  Updater(const ops::OpTable& table, symbol::Graph graph, std::vector<std::string> slots,
          base::DType dtype);
  base::Result<std::shared_ptr<const UpdatePlan>> plan(std::int64_t elements,
                                                       const UpdateContext& context) const;
  base::Result<std::shared_ptr<const UpdatePlan>> make_plan(std::int64_t elements,
                                                            const UpdateContext& context) const;

  const ops::OpTable& table_;
  const symbol::Graph graph_;
  const std::vector<std::string> slots_;
  const base::DType dtype_;
  const bool reads_rate_;
  mutable base::Mutex mutex_;
  // One plan per number of elements: a key has at most two (whole slices and the last).
  mutable std::map<std::int64_t, std::shared_ptr<const UpdatePlan>> plans_
      TROUPE_GUARDED_BY(mutex_);
};

}  // namespace troupe::store
