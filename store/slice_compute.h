// SPDX-License-Identifier: Apache-2.0
// SliceCompute: the arithmetic behind slices' work: additions, updates, first values. One per
// process and job; the local store and both servers run it on their engines' threads. Immutable;
// any engine thread.
#pragma once

#include <map>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "schemas/messages.h"
#include "store/kvstore.h"
#include "store/slice_layout.h"
#include "store/slice_owner.h"
#include "store/updater.h"

namespace troupe::store {

/// Runs what SliceOwner and SliceSum ask for.
class SliceCompute {
 public:
  /// Errors name the optimizer or key.
  static base::Result<std::unique_ptr<SliceCompute>> create(const ops::OpTable& table,
                                                            std::span<const schemas::KeyInfo> keys,
                                                            const UpdateRule& rule);

  /// Optimizer slots of dense keys, in the order of SliceValues::slots.
  const std::vector<std::string>& slots() const;

  /// left + right in a new buffer, in the key's dtype.
  base::Result<base::Buffer> add(const schemas::KeyInfo& key, const base::Buffer& left,
                                 const base::Buffer& right, const UpdateContext& context) const;
  /// The next version of a slice; the schedule is evaluated here, from update.step.
  base::Result<SliceValues> update(const schemas::KeyInfo& key, const SliceUpdate& update,
                                   const UpdateContext& context) const;
  /// Initial values of a slice, by (seed, key, element), with slots of zeros.
  base::Result<SliceState> first(const schemas::KeyInfo& key, const SliceInfo& slice,
                                 const schemas::InitializerSpec& initializer, std::uint64_t seed,
                                 base::BufferPool& pool) const;
  /// `weight` with slots of zeros: the first state of given values.
  base::Result<SliceState> first_from(const schemas::KeyInfo& key, base::Buffer weight,
                                      base::BufferPool& pool) const;

 private:
  SliceCompute(const ops::OpTable& table, const UpdateRule& rule) : table_(table), rule_(rule) {}
  const Updater& updater(const schemas::KeyInfo& key) const;

  using UpdaterName = std::pair<base::DType, double>;  // dtype and momentum of an average key
  const ops::OpTable& table_;
  UpdateRule rule_;
  std::map<base::DType, std::unique_ptr<Updater>> dense_;
  std::map<UpdaterName, std::unique_ptr<Updater>> average_;
  std::vector<std::string> no_slots_;
};

}  // namespace troupe::store
