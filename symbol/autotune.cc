// SPDX-License-Identifier: Apache-2.0
// Running kernels against the clock, and choosing per call what suits all its nodes.
#include "symbol/autotune.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "base/random.h"
#include "ndarray/run_kernel.h"

namespace troupe::symbol {

namespace {

constexpr double kNanoseconds = 1e-9;
/// An offer whose rule says so many times the best one's is not run: a reference convolution would
/// take minutes.
constexpr double kHopeless = 8.0;
/// Runs of a kernel behind the first, at most, and how long they may take together before the next
/// one begins.
constexpr int kRunsMost = 7;
constexpr double kRunsSeconds = 0.2;

/// Numbers from 0 to 1 that are no denormals, whatever the layout: also good as labels of class 0.
/// Integers are 0.
void fill(const base::TensorView& view) {
  const auto bytes = static_cast<std::size_t>(view.bytes());
  std::fill_n(static_cast<std::byte*>(view.data), bytes, std::byte{0});
  if (!base::is_floating(view.dtype)) return;
  const base::Status filled = ops::with_real(view.dtype, [&](auto zero) {
    using T = decltype(zero);
    constexpr std::uint32_t kStride = 0x9e3779b9;  // of Weyl's sequence
    T* values = view.as<T>();
    for (std::size_t i = 0; i < bytes / sizeof(T); ++i) {
      values[i] = static_cast<T>(base::uniform_f32(static_cast<std::uint32_t>(i) * kStride));
    }
    return base::Status();
  });
  TROUPE_CHECK(filled.ok(), "every floating type is real");
}

/// A kernel with memory of its own.
struct Bench {
  std::shared_ptr<const ops::Kernel> kernel;
  std::vector<base::Buffer> memory;
  std::vector<base::TensorView> inputs, outputs;
  base::Buffer scratch;

  base::Status add(base::BufferPool& pool, const ops::TensorDesc& desc, const base::Layout& layout,
                   std::vector<base::TensorView>& views) {
    base::TensorView view{nullptr, desc.dtype, desc.shape, layout, {}};
    TROUPE_TRY_ASSIGN(base::Buffer buffer,
                      pool.allocate(static_cast<std::size_t>(view.bytes()), "autotune"));
    view.data = buffer.data();
    fill(view);
    memory.push_back(std::move(buffer));
    views.push_back(std::move(view));
    return {};
  }

  base::Result<double> seconds(engine::RunContext& lane, const base::Clock& clock) const {
    const ndarray::KernelBuffers buffers{
        .inputs = inputs, .outputs = outputs, .scratch = {scratch.data(), scratch.size()}};
    std::vector<double> runs;
    double sum = 0;
    TROUPE_TRY(ndarray::run_kernel(kernel, buffers, lane));
    do {
      const std::int64_t start = clock.now_ns();
      TROUPE_TRY(ndarray::run_kernel(kernel, buffers, lane));
      runs.push_back(static_cast<double>(clock.now_ns() - start) * kNanoseconds);
      sum += runs.back();
    } while (runs.size() < kRunsMost && sum < kRunsSeconds);
    const auto middle = runs.begin() + static_cast<std::ptrdiff_t>(runs.size() / 2);
    std::nth_element(runs.begin(), middle, runs.end());
    return *middle;
  }
};

base::Result<double> measure(ndarray::Runtime& runtime, const ops::OpCall& call,
                             const ops::Offer& offer) {
  Bench bench;
  TROUPE_TRY_ASSIGN(bench.kernel, offer.maker->prepare(call));
  base::BufferPool& pool = runtime.storage.pool(call.device);
  for (std::size_t i = 0; i < call.inputs.size(); ++i) {
    TROUPE_TRY(bench.add(pool, call.inputs[i], offer.inputs[i], bench.inputs));
  }
  for (std::size_t i = 0; i < call.outputs.size(); ++i) {
    TROUPE_TRY(bench.add(pool, call.outputs[i], offer.outputs[i], bench.outputs));
  }
  TROUPE_TRY_ASSIGN(bench.scratch, pool.allocate(offer.scratch_bytes, "autotune"));
  double seconds = 0;
  const engine::Variable done = runtime.engine.new_variable("autotune");
  const engine::Operation operation{.name = "autotune",
                                    .lane = {call.device, engine::LaneKind::compute},
                                    .overwrites = {&done, 1}};
  runtime.engine.push(operation, [&](engine::RunContext& lane) -> base::Status {
    TROUPE_TRY_ASSIGN(seconds, bench.seconds(lane, runtime.clock));
    return {};
  });
  TROUPE_TRY(runtime.engine.wait(done));
  return seconds;
}

}  // namespace

MeasureFunction measure_on(ndarray::Runtime& runtime) {
  return [&runtime](const ops::OpCall& call, const ops::Offer& offer) {
    return measure(runtime, call, offer);
  };
}

Autotuner::Autotuner(MeasureFunction measure, const base::Clock& clock, double seconds_max,
                     const std::atomic<bool>* stop)
    : measure_(std::move(measure)), clock_(clock), seconds_max_(seconds_max), stop_(stop) {}

void Autotuner::time(const std::string& signature, const ops::OpCall& call,
                     std::vector<ops::Offer>& offers) {
  Times& times = times_[signature];
  for (const ops::Offer& offer : offers) times.rule = std::min(times.rule, offer.seconds);
  std::vector<ops::Offer*> not_run;
  double rule = 0, best = std::numeric_limits<double>::infinity();
  for (ops::Offer& offer : offers) {
    const std::int64_t start = clock_.now_ns();
    base::Result<double> seconds = base::error(base::Errc::deadline_exceeded, "not run");
    // As long as the rule says, stretched as it was so far: one call may need all the time there
    // is.
    const double expected = offer.seconds * (rule_sum_ > 0 ? measured_sum_ / rule_sum_ : 1.0);
    const bool in_time = spent_ + expected < seconds_max_ && (stop_ == nullptr || !stop_->load());
    if (in_time && offer.seconds <= kHopeless * times.rule) seconds = measure_(call, offer);
    if (in_time && !seconds.ok()) times.failed = true;
    spent_ += static_cast<double>(clock_.now_ns() - start) * kNanoseconds;
    if (!seconds.ok()) {
      not_run.push_back(&offer);
      continue;
    }
    if (*seconds < best) rule = offer.seconds;
    best = std::min(best, *seconds);
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
  for (ops::Offer* offer : not_run) offer->seconds *= stretch;
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
