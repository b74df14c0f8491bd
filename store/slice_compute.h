// SPDX-License-Identifier: Apache-2.0
// SliceCompute: the arithmetic behind slices' work: additions, updates, first values. One per
// process and job; the local store and both servers run it on their engines' threads. Immutable;
// any engine thread.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/buffer.h"
#include "base/dtype.h"
#include "base/status.h"
#include "ops/table.h"
#include "schemas/job_spec.h"
#include "schemas/messages.h"
#include "store/schedule.h"
#include "store/slice_layout.h"
#include "store/slice_owner.h"
#include "store/slice_values.h"
#include "store/updater.h"

namespace troupe::store {

/// Runs what SliceOwner and SliceSum ask for.
class SliceCompute {
 public:
  /// Errors name the optimizer or key: also a key whose multipliers the optimizer cannot obey,
  /// which is one given as a symbol; and a key of kind loss_scale without a rule for it, or the
  /// reverse.
  static base::Result<std::unique_ptr<SliceCompute>> create(const ops::OpTable& table,
                                                            std::span<const schemas::KeyInfo> keys,
                                                            const UpdateRule& rule);

  /// Optimizer slots of dense keys, in the order of SliceValues::slots.
  const std::vector<std::string>& slots() const;

  /// left + right in a new buffer, all in the key's gradient_wire: one rounding.
  base::Result<base::Buffer> add(const schemas::KeyInfo& key, const base::Buffer& left,
                                 const base::Buffer& right, const UpdateContext& context) const;
  /// What the sum of a judged step is like: of a dense key also its squares.
  Examined examine(const schemas::KeyInfo& key, const SliceExamination& examination) const;
  /// The next version of a slice; the schedule is evaluated here, from update.step. The values of a
  /// frozen key (lr_mult 0), and all values in a step that its verdict drops, stay what they are,
  /// in the same buffers. not_finite names the key when its sum has come in 16 bits with infinity
  /// or NaN, and as round() says.
  base::Result<SliceValues> update(const schemas::KeyInfo& key, const SliceUpdate& update,
                                   const UpdateContext& context) const;
  /// Initial values of a slice, by (seed, key, element), with slots of zeros.
  base::Result<SliceState> first(const schemas::KeyInfo& key, const SliceInfo& slice,
                                 const schemas::InitializerSpec& initializer, std::uint64_t seed,
                                 base::BufferPool& pool) const;
  /// `weight` with slots of zeros: the first state of given values.
  base::Result<SliceState> first_from(const schemas::KeyInfo& key, base::Buffer weight,
                                      base::BufferPool& pool) const;
  /// Sets SliceValues::rounded, for values that come from elsewhere; data_loss for a loss scale
  /// that no job can have. not_finite names the key when
  /// a weight is beyond the range of its weight_wire, unless the rule does not check.
  base::Status round(const schemas::KeyInfo& key, SliceValues& values,
                     base::BufferPool& pool) const;

 private:
  SliceCompute(const ops::OpTable& table, const UpdateRule& rule) : table_(table), rule_(rule) {}
  const Updater& updater(const schemas::KeyInfo& key) const;
  base::Result<SliceValues> next_scale(const SliceUpdate& update, base::BufferPool& pool) const;
  base::Status check_range(const schemas::KeyInfo& key, base::DType wire,
                           const base::Buffer& values, std::string_view what) const;
  base::Result<base::Buffer> sum_of(const schemas::KeyInfo& key, const SliceUpdate& update,
                                    base::BufferPool& pool) const;

  // Dtype, and the momentum of an average key or what multiplies the decay of a dense one.
  using UpdaterName = std::pair<base::DType, double>;
  UpdaterName name_of(const schemas::KeyInfo& key) const;
  base::Result<std::unique_ptr<Updater>> make_updater(const schemas::KeyInfo& key) const;

  const ops::OpTable& table_;
  UpdateRule rule_;
  std::map<UpdaterName, std::unique_ptr<Updater>> dense_;
  std::map<UpdaterName, std::unique_ptr<Updater>> average_;
  std::vector<std::string> no_slots_;
};

}  // namespace troupe::store
