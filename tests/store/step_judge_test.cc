// SPDX-License-Identifier: Apache-2.0
// The verdict on a step: what it is made of, whatever shards there are, and facts that do not fit.
#include "store/step_judge.h"

#include <cmath>
#include <limits>

#include "store/loss_scale.h"
#include "tests/support/catch.h"

namespace troupe::store {
namespace {

using schemas::KeyInfo;
using schemas::KeyKind;
using schemas::StepFacts;
using schemas::StepVerdict;

constexpr JudgeRule kScaled{true, 0.0, true};
constexpr JudgeRule kClipped{false, 2.0, true};

/// A dense key of three slices, a state of one, the loss scale.
std::vector<KeyInfo> keys() {
  std::vector<KeyInfo> all(2);
  all[0].name = "weight";
  all[0].shape = base::Shape{6};
  all[1].id = 1;
  all[1].name = "mean";
  all[1].shape = base::Shape{2};
  all[1].kind = KeyKind::average;
  all.push_back(loss_scale_key(2));
  return all;
}

struct Judged {
  explicit Judged(const JudgeRule& rule, std::uint32_t shards = 2)
      : layout(SliceLayout::create(names, shards, 8).value()), judge(layout, names, rule) {}

  /// All shards' facts of a step, where slice i of the layout has `squares[i]`.
  std::vector<StepFacts> facts(std::uint64_t step, const std::vector<double>& squares,
                               double scale = 4.0, double count = 8.0) {
    std::map<std::uint32_t, StepFacts> by_shard;
    for (std::size_t i = 0; i < layout.slices().size(); ++i) {
      const std::uint32_t shard = layout.slices()[i].shard;
      StepFacts& one = by_shard[shard];
      one.step = step;
      one.shard = shard;
      one.count = count;
      one.slices.push_back({squares.at(i), 0});
      if (layout.slices()[i].id.key == 2) one.loss_scale = scale;
    }
    std::vector<StepFacts> all;
    for (auto& [shard, one] : by_shard) all.push_back(std::move(one));
    return all;
  }
  base::Result<std::optional<StepVerdict>> take(const std::vector<StepFacts>& all) {
    base::Result<std::optional<StepVerdict>> last = std::optional<StepVerdict>();
    for (const StepFacts& one : all) {
      if (last.ok()) last = judge.take(one);
    }
    return last;
  }
  /// Adds elements that are not finite to the layout's slice `position`.
  void spoil(std::vector<StepFacts>& all, std::size_t position, std::uint64_t count) {
    std::map<std::uint32_t, std::size_t> before;
    for (std::size_t i = 0; i < position; ++i) ++before[layout.slices()[i].shard];
    const std::uint32_t shard = layout.slices()[position].shard;
    for (StepFacts& one : all) {
      if (one.shard == shard) one.slices.at(before[shard]).not_finite = count;
    }
  }

  std::vector<KeyInfo> names = keys();
  SliceLayout layout;
  StepJudge judge;
};

const std::vector<double> kSquares = {9.0, 5.0, 2.0, 100.0, 0.0};  // 100: of a state, no gradient

TEST_CASE("the verdict comes with the last shard: norm and divisor", "[step_judge]") {
  for (const std::uint32_t shards : {1U, 2U, 3U}) {
    Judged judged(kScaled, shards);
    const auto all = judged.facts(3, kSquares);
    for (std::size_t i = 0; i + 1 < all.size(); ++i) {
      const auto open = judged.judge.take(all[i]);
      REQUIRE(open.ok());
      CHECK_FALSE(open->has_value());
      CHECK(judged.judge.missing().size() == all.size() - i - 1);
    }
    const auto verdict = judged.judge.take(all.back());
    REQUIRE(verdict.ok());
    CHECK(**verdict == StepVerdict{3, false, 4.0, 4.0 / (4.0 * 8.0)});
    CHECK(judged.judge.missing().empty());
    CHECK(judged.judge.reason().empty());
  }
}

TEST_CASE("the norm of all gradients is cut", "[step_judge]") {
  Judged judged(kClipped);
  const auto within = judged.take(judged.facts(0, kSquares, 0.0, 2.0));
  REQUIRE(within.ok());
  CHECK(**within == StepVerdict{0, false, 1.0, 2.0});
  const auto beyond = judged.take(judged.facts(1, kSquares, 0.0, 0.5));
  REQUIRE(beyond.ok());
  CHECK(**beyond == StepVerdict{1, false, 4.0, 8.0});
}

TEST_CASE("a step that overflows is dropped, and who did it is named", "[step_judge]") {
  Judged judged(kScaled);
  auto all = judged.facts(5, kSquares);
  judged.spoil(all, 1, 2);
  judged.spoil(all, 2, 3);
  judged.spoil(all, 3, 7);
  const auto verdict = judged.take(all);
  REQUIRE(verdict.ok());
  CHECK((*verdict)->skip);
  CHECK(judged.judge.reason() ==
        "step 5 does not count: the sum of 'weight' holds 5 values that are infinite or NaN; the "
        "loss scale falls from 4 to 2");
}

TEST_CASE("what no loss scale explains ends the job", "[step_judge]") {
  Judged scaled(kScaled);
  auto all = scaled.facts(5, kSquares, 1.0);
  scaled.spoil(all, 3, 1);
  const auto last = scaled.take(all);
  CHECK(last.status().code() == base::Errc::not_finite);
  CHECK_THAT(last.status().text(), Catch::Contains("[step 5]") && Catch::Contains("'mean'") &&
                                       Catch::Contains("the loss scale is 1 already"));

  Judged clipped(kClipped);
  all = clipped.facts(0, kSquares, 0.0);
  clipped.spoil(all, 0, 1);
  CHECK(clipped.take(all).status().code() == base::Errc::not_finite);

  Judged lenient(JudgeRule{true, 0.0, false});
  all = lenient.facts(5, kSquares, 2.0);
  lenient.spoil(all, 3, 1);
  CHECK((*lenient.take(all))->skip);
  all = lenient.facts(6, kSquares, 1.0);
  lenient.spoil(all, 3, 1);
  CHECK(lenient.take(all).status().code() == base::Errc::not_finite);

  Judged endless(kClipped);
  all = endless.facts(0, {std::numeric_limits<double>::infinity(), 0, 0, 0, 0}, 0.0);
  CHECK_THAT(endless.take(all).status().text(),
             Catch::Contains("the norm of all gradients is inf"));
}

TEST_CASE("facts come twice, and old ones are passed over", "[step_judge]") {
  Judged judged(kScaled);
  const auto first = judged.facts(0, kSquares);
  REQUIRE(first.size() == 2);
  CHECK_FALSE(judged.judge.take(first[0])->has_value());
  CHECK_FALSE(judged.judge.take(first[0])->has_value());
  CHECK(judged.judge.take(first[1])->has_value());
  CHECK((*judged.judge.take(first[0]))->step == 0);  // it has missed the verdict
  CHECK(judged.take(judged.facts(2, kSquares))->has_value());
  CHECK_FALSE(judged.judge.take(first[0])->has_value());
}

TEST_CASE("facts that do not fit are refused", "[step_judge]") {
  Judged judged(kScaled);
  auto all = judged.facts(0, kSquares);
  StepFacts strange = all[0];
  strange.shard = 9;
  CHECK(judged.judge.take(strange).status().code() == base::Errc::invalid_argument);
  StepFacts few = all[0];
  few.slices.pop_back();
  CHECK(judged.judge.take(few).status().code() == base::Errc::invalid_argument);
  REQUIRE(judged.judge.take(all[0]).ok());
  StepFacts other_step = all[1];
  other_step.step = 1;
  CHECK(judged.judge.take(other_step).status().code() == base::Errc::internal);
  StepFacts other_count = all[1];
  other_count.count = 7.0;
  CHECK(judged.judge.take(other_count).status().code() == base::Errc::internal);
  all[0].loss_scale = all[1].loss_scale = 0.0;
  Judged without(kScaled);
  CHECK(without.take(all).status().code() == base::Errc::internal);
}

TEST_CASE("a shard's facts are complete with its last slice", "[step_judge]") {
  FactsOfShard facts(1, 2);
  CHECK_FALSE(facts.take(1, 4, 8.0, {{2.0, 1}, 0.0})->has_value());
  const auto all = facts.take(0, 4, 8.0, {{3.0, 0}, 16.0});
  REQUIRE(all.ok());
  CHECK(**all == StepFacts{4, 1, 8.0, 16.0, {{3.0, 0}, {2.0, 1}}});
  CHECK_FALSE(facts.take(0, 5, 8.0, {})->has_value());
  CHECK((*facts.take(1, 5, 8.0, {}))->loss_scale == 0.0);
}

TEST_CASE("slices that were told of other counts end the job", "[step_judge]") {
  FactsOfShard counts(0, 2);
  REQUIRE(counts.take(0, 4, 8.0, {}).ok());
  const auto odd = counts.take(1, 4, 9.0, {});
  CHECK(odd.status().code() == base::Errc::invalid_argument);
  CHECK_THAT(odd.status().text(), Catch::Contains("8 samples, another has 9 of step 4"));
  FactsOfShard steps(0, 2);
  REQUIRE(steps.take(0, 4, 8.0, {}).ok());
  CHECK_FALSE(steps.take(1, 5, 8.0, {}).ok());
}

TEST_CASE("a norm is cut within f32, and where both tiers are sequential", "[step_judge]") {
  const double inf = std::numeric_limits<double>::infinity();
  for (const double good : {0.0, 1e-30, 1.0, 1e30}) CHECK(check_clip_norm(good).ok());
  for (const double bad : {-1.0, 5e-324, 1e31, inf, std::numeric_limits<double>::quiet_NaN()}) {
    CAPTURE(bad);
    CHECK(check_clip_norm(bad).code() == base::Errc::invalid_argument);
  }
  schemas::JobSpec job;
  job.consistency.cluster.mode = schemas::ConsistencyMode::eventual;
  CHECK(check_judged(job).ok());
  job.train.optimizer.clip_norm = 1.0;
  CHECK_THAT(check_judged(job).text(), Catch::Contains("train.optimizer.clip_norm needs whole"));
  job.numerics.dtype = base::DType::f16;
  CHECK_THAT(check_judged(job).text(), Catch::Contains("numerics.dtype = \"f16\" needs whole"));
  job.consistency = {};
  CHECK(check_judged(job).ok());

  Judged tiny(JudgeRule{false, 1e-30, true});
  CHECK_THAT(tiny.take(tiny.facts(0, {1e18, 0, 0, 0, 0}, 0.0)).status().text(),
             Catch::Contains("cannot be cut to 1e-30"));
}

}  // namespace
}  // namespace troupe::store
