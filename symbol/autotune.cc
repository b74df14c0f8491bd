// SPDX-License-Identifier: Apache-2.0
// Weighing measured kernels, and choosing per call what suits all its nodes.
#include "symbol/autotune.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

namespace troupe::symbol {

namespace {

constexpr double kNanoseconds = 1e-9;
constexpr double kNever = std::numeric_limits<double>::infinity();
/// An offer whose rule says so many times the best one's is not run: a reference convolution would
/// take minutes.
constexpr double kHopeless = 8.0;
/// What a kernel by choice must gain: runs differ by so much, and other kernels give other bits.
constexpr double kWorthIt = 0.97;

}  // namespace

Autotuner::Autotuner(MeasureFunction measure, const base::Clock& clock, double seconds_max,
                     const std::atomic<bool>* stop)
    : measure_(std::move(measure)), clock_(clock), seconds_max_(seconds_max), stop_(stop) {}

bool Autotuner::in_time(double seconds) const {
  return spent_ + seconds < seconds_max_ && (stop_ == nullptr || !stop_->load());
}

double Autotuner::expected_cost(double by_rule) const {
  const double run = by_rule * (rule_sum_ > 0 ? measured_sum_ / rule_sum_ : 1.0);
  return seconds_of_runs(run) + (measured_ > 0 ? beside_runs_ / measured_ : 0.0);
}

base::Result<std::vector<ops::Offer>> Autotuner::offers(const ops::OpCall& call,
                                                        std::vector<ops::Decline>* declines) {
  const std::int64_t start = clock_.now_ns();
  auto list = ops::offers(call, declines, {.by_choice = in_time()});
  spent_ += static_cast<double>(clock_.now_ns() - start) * kNanoseconds;
  return list;
}

void Autotuner::time(const std::string& signature, const ops::OpCall& call,
                     std::vector<ops::Offer>& offers) {
  Times& times = times_[signature];
  for (const ops::Offer& offer : offers) times.rule = std::min(times.rule, offer.seconds);
  std::vector<ops::Offer*> not_run;
  double rule = 0, best = kNever, plain = kNever;
  for (ops::Offer& offer : offers) {
    const std::int64_t start = clock_.now_ns();
    base::Result<double> seconds = base::error(base::Errc::deadline_exceeded, "not run");
    const double by_rule = offer.seconds;
    const bool timely = in_time(expected_cost(by_rule));
    if (timely && by_rule <= kHopeless * times.rule) seconds = measure_(call, offer);
    if (timely && !seconds.ok()) times.failed = true;
    if (seconds.status().code() == base::Errc::data_loss) times.wrong.insert(offer.maker->name);
    const double cost = static_cast<double>(clock_.now_ns() - start) * kNanoseconds;
    spent_ += cost;
    if (!seconds.ok()) {
      not_run.push_back(&offer);
      continue;
    }
    ++measured_;
    beside_runs_ += std::max(0.0, cost - seconds_of_runs(*seconds));
    if (*seconds < best) rule = by_rule;
    best = std::min(best, *seconds);
    if (!offer.maker->by_choice) plain = std::min(plain, *seconds);
    offer.seconds = *seconds;
    const auto [known, added] = times.kernels.emplace(offer.maker->name, *seconds);
    if (!added) known->second = std::min(known->second, *seconds);
  }
  if (not_run.size() < offers.size()) {
    times.measured = std::min(times.measured, best);
    measured_sum_ += best;
    rule_sum_ += rule;
  }
  // The rule's seconds are stretched as they were for the same call or, failing that, for all.
  const bool known = std::isfinite(times.measured) && times.rule > 0;
  const double all = rule_sum_ > 0 ? measured_sum_ / rule_sum_ : 1.0;
  const double stretch = known ? times.measured / times.rule : all;
  for (ops::Offer* offer : not_run) {
    offer->seconds = offer->maker->by_choice ? kNever : offer->seconds * stretch;
  }
  std::erase_if(offers, [plain](const ops::Offer& offer) {
    return offer.maker->by_choice && (offer.seconds == kNever || offer.seconds > kWorthIt * plain);
  });
  std::stable_sort(offers.begin(), offers.end(),
                   [](const ops::Offer& a, const ops::Offer& b) { return a.seconds < b.seconds; });
}

void Autotuner::recall(const KernelChoice& choice, std::vector<ops::Offer>& offers) {
  for (ops::Offer& offer : offers) {
    const auto stored = choice.seconds.find(offer.maker->name);
    if (stored != choice.seconds.end()) offer.seconds = stored->second;
  }
}

void Autotuner::weighed(const std::string& signature,
                        const std::vector<Alternative>& alternatives) {
  SecondsOfKernels& node = weighed_[signature].emplace_back();
  for (const Alternative& offer : alternatives) {
    const double seconds = offer.seconds + offer.reorder_seconds;
    const auto [known, added] = node.emplace(offer.maker, seconds);
    if (!added) known->second = std::min(known->second, seconds);
  }
}

std::map<std::string, KernelChoice> Autotuner::choices() const {
  std::map<std::string, KernelChoice> result;
  for (const auto& [signature, nodes] : weighed_) {
    const auto times = times_.find(signature);
    if (times == times_.end()) continue;
    const SecondsOfKernels& measured = times->second.kernels;
    const std::set<std::string>& wrong = times->second.wrong;
    // A kernel that was not offered to all nodes of the call is none for it.
    SecondsOfKernels sums = nodes.front();
    for (auto sum = sums.begin(); sum != sums.end();) {
      const auto& kernel = sum->first;
      const bool everywhere = std::all_of(nodes.begin() + 1, nodes.end(), [&](const auto& node) {
        const auto it = node.find(kernel);
        if (it != node.end()) sum->second += it->second;
        return it != node.end();
      });
      sum = everywhere ? std::next(sum) : sums.erase(sum);
    }
    const auto least = std::min_element(
        sums.begin(), sums.end(), [](const auto& a, const auto& b) { return a.second < b.second; });
    if (least == sums.end() || !measured.contains(least->first)) continue;
    if (wrong.contains(least->first)) continue;  // in another of the signature's calls
    result[signature] = {least->first, measured};
  }
  return result;
}

std::size_t Autotuner::count_unmeasured(bool failed) const {
  return static_cast<std::size_t>(
      std::count_if(weighed_.begin(), weighed_.end(), [&](const auto& call) {
        const auto times = times_.find(call.first);
        return times != times_.end() && times->second.kernels.empty() &&
               times->second.failed == failed;
      }));
}

}  // namespace troupe::symbol
