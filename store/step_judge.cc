// SPDX-License-Identifier: Apache-2.0
// Collecting a step's facts, and what follows from them.
#include "store/step_judge.h"

#include <fmt/format.h>

#include <cmath>
#include <limits>
#include <utility>

#include "base/check.h"

namespace troupe::store {

using base::Errc;
using schemas::StepFacts;
using schemas::StepVerdict;

JudgeRule judge_rule(const schemas::JobSpec& job) {
  return {job.numerics.dtype == base::DType::f16, job.train.optimizer.clip_norm,
          job.train.non_finite == schemas::NonFinite::fail};
}

JudgeRule judge_rule(const UpdateRule& rule) {
  return {rule.loss_scale.has_value(), rule.optimizer.clip_norm, rule.check_range};
}

base::Status check_judged(const schemas::JobSpec& job) {
  if (!judge_rule(job).judges() || job.consistency.sequential()) return {};
  return base::error(Errc::invalid_argument,
                     "{} needs whole steps: consistency.device and consistency.cluster must be "
                     "sequential",
                     job.numerics.dtype == base::DType::f16 ? "numerics.dtype = \"f16\""
                                                            : "train.optimizer.clip_norm");
}

base::Status check_clip_norm(double clip_norm) {
  constexpr double kLeast = 1e-30, kMost = 1e30;  // within f32, with room for counts
  if (clip_norm == 0.0 || (clip_norm >= kLeast && clip_norm <= kMost)) return {};
  return base::error(Errc::invalid_argument, "clip_norm is {}, neither 0 nor from {} to {}",
                     clip_norm, kLeast, kMost);
}

FactsOfShard::FactsOfShard(std::uint32_t shard, std::size_t slices) : slices_(slices) {
  facts_.shard = shard;
}

base::Result<std::optional<StepFacts>> FactsOfShard::take(std::size_t position, std::uint64_t step,
                                                          double count, const Examined& examined) {
  if (in_.empty()) {
    facts_.step = step;
    facts_.count = count;
    facts_.loss_scale = 0.0;
    facts_.slices.assign(slices_, {});
  }
  TROUPE_CHECK(position < slices_ && in_.insert(position).second, "a slice is examined twice");
  if (facts_.step != step || facts_.count != count) {
    return base::error(Errc::invalid_argument,
                       "[step {}] one slice of shard {} has {} samples, another has {} of step {}",
                       facts_.step, facts_.shard, facts_.count, count, step);
  }
  facts_.slices[position] = examined.facts;
  if (examined.loss_scale != 0.0) facts_.loss_scale = examined.loss_scale;
  if (in_.size() < slices_) return std::optional<StepFacts>();
  in_.clear();
  return std::optional(facts_);
}

StepJudge::StepJudge(const SliceLayout& layout, std::span<const schemas::KeyInfo> keys,
                     const JudgeRule& rule)
    : rule_(rule) {
  for (const SliceInfo& slice : layout.slices()) {
    const schemas::KeyInfo& key = keys[slice.id.key];
    if (key.kind == schemas::KeyKind::loss_scale) scale_shard_ = slice.shard;
    places_.push_back(
        {slice.shard, slices_of_[slice.shard]++, key.kind == schemas::KeyKind::dense, key.name});
  }
}

base::Result<std::optional<StepVerdict>> StepJudge::take(StepFacts facts) {
  const auto known = slices_of_.find(facts.shard);
  if (known == slices_of_.end() || known->second != facts.slices.size()) {
    return base::error(Errc::invalid_argument, "[step {}] shard {} tells of {} slices, not of {}",
                       facts.step, facts.shard, facts.slices.size(),
                       known == slices_of_.end() ? "none" : std::to_string(known->second));
  }
  if (last_ && facts.step <= last_->step) {
    return facts.step == last_->step ? last_ : std::nullopt;
  }
  if (!in_.empty()) {
    const StepFacts& open = in_.begin()->second;
    if (open.step != facts.step || open.count != facts.count) {
      return base::error(Errc::internal,
                         "[step {}] shard {} is at step {} with {} samples, shard {} has {}",
                         open.step, facts.shard, facts.step, facts.count, open.shard, open.count);
    }
  }
  const std::uint32_t shard = facts.shard;
  in_.try_emplace(shard, std::move(facts));
  if (in_.size() < slices_of_.size()) return std::optional<StepVerdict>();
  TROUPE_TRY_ASSIGN(last_, judge());
  in_.clear();
  return last_;
}

std::vector<std::uint32_t> StepJudge::missing() const {
  std::vector<std::uint32_t> shards;
  for (const auto& [shard, slices] : slices_of_) {
    if (!in_.empty() && !in_.contains(shard)) shards.push_back(shard);
  }
  return shards;
}

/// Squares are added in the layout's order, whatever shard has which slice: so the bits of a
/// clipped step do not depend on how many shards there are.
base::Result<StepVerdict> StepJudge::judge() {
  const StepFacts& any = in_.begin()->second;
  double squares = 0.0;
  const double scale = rule_.loss_scaled ? in_.at(scale_shard_).loss_scale : 1.0;
  if (!(scale >= 1.0) || !(any.count > 0.0)) {
    return base::error(Errc::internal, "[step {}] a loss scale of {} and {} samples", any.step,
                       scale, any.count);
  }
  if (rule_.loss_scaled) loss_scale_ = scale;
  const Place* beyond = nullptr;  // the first key that holds infinity or NaN
  std::uint64_t values = 0;
  for (const Place& place : places_) {
    const schemas::SliceFacts& facts = in_.at(place.shard).slices[place.position];
    if (place.gradient) squares += facts.squares;
    if (facts.not_finite == 0) continue;
    if (beyond == nullptr) beyond = &place;
    if (place.key == beyond->key) values += facts.not_finite;
  }
  StepVerdict verdict{any.step, beyond != nullptr && rule_.loss_scaled, scale, 0.0};
  reason_.clear();
  if (beyond != nullptr) {
    reason_ = fmt::format("the sum of '{}' holds {} values that are infinite or NaN", beyond->key,
                          values);
    const bool least = verdict.skip && scale <= 1.0;
    if (least || (rule_.check && !verdict.skip)) {
      return base::error(Errc::not_finite, "[step {}] {}{}", any.step, reason_,
                         least ? ", and the loss scale is 1 already; a lower train.optimizer.lr or "
                                 "numerics.dtype = \"bf16\" may help"
                               : "");
    }
    if (verdict.skip) {
      reason_ = fmt::format("step {} does not count: {}; the loss scale falls from {} to {}",
                            any.step, reason_, scale, scale / 2);
      return verdict;
    }
    reason_.clear();
  }
  verdict.norm = std::sqrt(squares) / (scale * any.count);
  if (!std::isfinite(verdict.norm)) {
    return base::error(Errc::not_finite, "[step {}] the norm of all gradients is {}", any.step,
                       verdict.norm);
  }
  if (rule_.clip_norm > 0.0 && verdict.norm > rule_.clip_norm) {
    verdict.divisor *= verdict.norm / rule_.clip_norm;
  }
  const double most = std::numeric_limits<float>::max();
  if (!(verdict.divisor * any.count < most)) {
    return base::error(Errc::not_finite,
                       "[step {}] gradients of the norm {} cannot be cut to {}: beyond f32",
                       any.step, verdict.norm, rule_.clip_norm);
  }
  return verdict;
}

}  // namespace troupe::store
