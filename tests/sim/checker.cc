// SPDX-License-Identifier: Apache-2.0
// The invariants: exactly once, bits, staleness, barriers, checkpoints.
#include "tests/sim/checker.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <iterator>
#include <set>

namespace troupe::sim {
namespace {

template <typename T>
using Gradients = std::vector<std::optional<T>>;  // by rank; nothing: no samples

template <typename T>
std::optional<T> plus(base::DType wire, std::optional<T> a, std::optional<T> b) {
  if (!a) return b;
  if (!b) return a;
  return on_wire(wire, *a + *b);
}

/// members [begin, end), each by `value`; written without the production tree on purpose.
template <typename T, typename Value>
std::optional<T> balanced(base::DType wire, std::uint32_t begin, std::uint32_t end,
                          const Value& value) {
  if (end - begin == 1) return value(begin);
  std::uint32_t left = 1;
  while (left * 2 < end - begin) left *= 2;
  return plus(wire, balanced<T>(wire, begin, begin + left, value),
              balanced<T>(wire, begin + left, end, value));
}

template <typename T>
std::optional<T> tree_sum(base::DType wire, const Gradients<T>& gradients, std::uint32_t devices) {
  const auto group = [&](std::uint32_t g) {
    return balanced<T>(wire, g * devices, (g + 1) * devices,
                       [&](std::uint32_t rank) { return gradients[rank]; });
  };
  return balanced<T>(wire, 0, static_cast<std::uint32_t>(gradients.size()) / devices, group);
}

}  // namespace

Reference::Reference(const SimJob& job) {
  values_.resize(job.total_steps() + 1);
  for (auto& step : values_) step.resize(2 * job.keys.size());
  for (const schemas::KeyInfo& key : job.keys) {
    if (key.dtype == base::DType::f32) {
      run<float>(job, key);
    } else {
      run<double>(job, key);
    }
  }
}

template <typename T>
void Reference::run(const SimJob& job, const schemas::KeyInfo& key) {
  const auto elements = static_cast<std::uint64_t>(key.shape.elements());
  const bool scale = key.kind == schemas::KeyKind::loss_scale;
  const bool dense = key.kind == schemas::KeyKind::dense;
  for (std::uint64_t e = 0; e < elements; ++e) {
    T weight = job.initial<T>(key.id, e);
    T momentum{};
    for (std::uint64_t step = 0;; ++step) {
      for (int slot = 0; slot < 2; ++slot) {
        auto& bytes = values_[step][2 * key.id + static_cast<std::uint32_t>(slot)];
        bytes.resize(elements * sizeof(T));
        std::memcpy(bytes.data() + e * sizeof(T), slot == 0 ? &weight : &momentum, sizeof(T));
      }
      if (step == job.total_steps()) break;
      Gradients<T> gradients(job.ranks());
      double count = 0.0;
      for (std::uint32_t rank = 0; rank < job.ranks(); ++rank) {
        if (job.samples(rank, step) == 0) continue;
        const T sent = on_wire(key.weight_wire, weight);
        gradients[rank] = on_wire(key.gradient_wire, job.gradient<T>(rank, step, key.id, e, sent));
        count += static_cast<double>(job.samples(rank, step));
      }
      const auto sum = tree_sum(key.gradient_wire, gradients, job.spec.workers.devices);
      if (scale) weight = static_cast<T>(job.loss_scale(step + 1).at(e));
      if (!sum || scale || job.overflows(step)) continue;
      if (dense) count *= job.loss_scale(step)[0];
      job.update<T>(key, *sum, {count, 1.0, step}, weight, momentum);
    }
  }
}

Checker::Checker(const SimJob& job, Memory& memory) : job_(&job), memory_(&memory) {
  if (job.sequential()) reference_.emplace(job);
}

void Checker::fail(std::string text) {
  if (!fault_) fault_ = std::move(text);
}

void Checker::begin(std::uint64_t generation, std::uint64_t step,
                    const store::SliceLayout& layout) {
  generation_ = generation;
  layout_ = &layout;
  traffic_ = {};
  extra_ = {step};
  end_.reset();
  begun_ = step;
  digests_.erase(digests_.upper_bound(step), digests_.end());
  std::optional<std::uint64_t> updates;  // eventual: as many as rounds happened to form
  if (step == 0 || job_->sequential()) {
    updates = 0;
    for (std::uint64_t each = 0; each < step; ++each) {
      if (samples_below(each + 1) > samples_below(each) && !job_->overflows(each)) ++*updates;
    }
  }
  for (const store::SliceInfo& slice : layout_->slices()) {
    applied_[slice.id].assign(job_->ranks(), step);
    updates_[slice.id] = updates;
    samples_[slice.id] = {samples_below(step), std::vector<double>(job_->ranks())};
  }
}

void Checker::read(const base::Buffer& buffer) {
  if (memory_->origin(buffer).released) {
    fail("a gradient was read after its rank had been told that it was taken");
  }
}

std::vector<std::uint64_t> Checker::update(schemas::SliceId slice,
                                           const store::SliceUpdate& update) {
  const std::string what = fmt::format("update of slice ({}, {}) at version {}", slice.key,
                                       slice.slice, update.from.version);
  read(update.gradient);
  const std::vector<schemas::Contribution> parts = memory_->origin(update.gradient).parts;
  ledger_.push_back({generation_, slice, update.from.version, parts});
  std::vector<std::uint64_t>& applied = applied_[slice];
  double count = 0.0;
  for (const auto& [rank, step] : parts) {
    applied[rank] = job_->next_with_samples(rank, applied[rank]);
    if (step != applied[rank]) {
      fail(fmt::format("{}: rank {} step {} applied where step {} is next", what, rank, step,
                       applied[rank]));
    }
    applied[rank] = step + 1;
    count += static_cast<double>(job_->samples(rank, step));
  }
  if (count != update.count) {
    fail(fmt::format("{}: count {} for {} samples", what, update.count, count));
  }
  const double nominal = static_cast<double>(job_->ranks()) * job_->spec.data.batch;
  const double share = job_->sequential() ? 1.0 : count / nominal;
  if (share != update.share) {
    fail(fmt::format("{}: share {} instead of {}", what, update.share, share));
  }
  if (job_->sequential()) check_exact(applied, update.from.version + 1, what);
  check_timing(slice, update, parts, count, what);
  std::optional<std::uint64_t>& updates = updates_[slice];
  if (updates && update.from.updates != *updates) {
    fail(
        fmt::format("{}: {} updates before it instead of {}", what, update.from.updates, *updates));
  }
  check_verdict(update, what);
  updates = update.from.updates + (update.verdict.skip ? 0 : 1);
  return applied;
}

/// All slices of a step are told the same.
void Checker::check_verdict(const store::SliceUpdate& update, const std::string& what) {
  const schemas::StepVerdict& verdict = update.verdict;
  const double scale = job_->loss_scale(update.step)[0];
  if (verdict.skip != job_->overflows(update.step) || verdict.divisor != scale) {
    fail(fmt::format("{}: {} with the divisor {} instead of {}", what,
                     verdict.skip ? "dropped" : "taken", verdict.divisor, scale));
  }
}

double Checker::samples_below(std::uint64_t step) const {
  double sum = 0.0;
  for (std::uint64_t each = 0; each < step; ++each) {
    for (std::uint32_t rank = 0; rank < job_->ranks(); ++rank) {
      sum += static_cast<double>(job_->samples(rank, each));
    }
  }
  return sum;
}

/// A barrier's weights contain every step below it and nothing else, so what a rank had before a
/// step is known without asking anybody: its own last contribution's weights or the last barrier's.
void Checker::check_timing(const schemas::SliceId& slice, const store::SliceUpdate& update,
                           const std::vector<schemas::Contribution>& parts, double count,
                           const std::string& what) {
  // Told beside the sum: who contributed, those without a sample of a step included.
  std::vector<schemas::Contribution> told = job_->sequential() ? parts : update.contributions;
  std::vector<schemas::Contribution> with_samples;
  std::copy_if(told.begin(), told.end(), std::back_inserter(with_samples),
               [&](const auto& one) { return job_->samples(one.rank, one.step) > 0; });
  std::sort(with_samples.begin(), with_samples.end());
  if (with_samples != parts) fail(what + ": its contributions are not those of its sum");
  Samples& samples = samples_[slice];
  std::uint64_t lowest = job_->total_steps();
  double late = 0.0;
  for (const auto& [rank, step] : told) {
    lowest = std::min(lowest, step);
    std::uint64_t barrier = step;
    while (barrier > 0 && !is_barrier(barrier)) --barrier;
    const double had = std::max(samples.behind_rank[rank], samples_below(barrier));
    late = std::max(late, samples.total - had);
  }
  const double nominal = static_cast<double>(job_->ranks()) * job_->spec.data.batch;
  const double delay = job_->sequential() ? 0.0 : late / nominal;
  if (update.delay != delay) {
    fail(fmt::format("{}: delay {} instead of {}", what, update.delay, delay));
  }
  if (update.step != lowest) {
    fail(fmt::format("{}: the schedule's step {} instead of {}", what, update.step, lowest));
  }
  samples.total += count;
  for (const auto& [rank, step] : parts) samples.behind_rank[rank] = samples.total;
}

/// Every contribution of every rank to steps below `step`, and none later.
void Checker::check_exact(const std::vector<std::uint64_t>& applied, std::uint64_t step,
                          const std::string& what) {
  for (std::uint32_t rank = 0; rank < applied.size(); ++rank) {
    if (job_->next_with_samples(rank, applied[rank]) == job_->next_with_samples(rank, step)) {
      continue;
    }
    fail(fmt::format("{}: contains rank {} below step {} instead of {}", what, rank, applied[rank],
                     step));
  }
}

void Checker::check_staleness(const std::vector<std::uint64_t>& applied, std::uint64_t step,
                              std::uint32_t rank, const std::vector<std::uint32_t>& machine_of_rank,
                              const std::string& what) {
  const schemas::ConsistencySpec& modes = job_->spec.consistency;
  for (std::uint32_t other = 0; other < applied.size(); ++other) {
    const std::uint64_t next = job_->next_with_samples(other, applied[other]);
    std::uint64_t needed = 0;
    const auto need = [&](const schemas::TierSpec& tier) {
      const std::uint64_t bound = tier.max_staleness.value_or(0);
      const bool bounded = tier.max_staleness.has_value();
      if (bounded && step > bound) needed = std::max(needed, step - bound);
    };
    need(modes.cluster);
    const bool same = machine_of_rank[other] == machine_of_rank[rank];
    if (same) need(modes.device);
    // The rank's own step t - 1 is always in; device sequential: the machine's.
    if (other == rank) needed = step;
    if (same && modes.device.mode == schemas::ConsistencyMode::sequential) needed = step;
    if (next < job_->next_with_samples(other, needed)) {
      fail(fmt::format("{}: rank {} is contained below step {} only, needed is {}", what, other,
                       next, needed));
    }
  }
}

void Checker::check_bits(const base::Buffer& bytes, const store::SliceInfo& info,
                         std::uint64_t step, int slot, base::DType wire, const std::string& what) {
  const auto& whole = reference_->at(step, info.id.key, slot);
  const std::size_t offset = info.offset * (info.bytes / info.elements);
  std::vector<std::byte> expected(info.elements * base::dtype_size(wire));
  base::cast_values(job_->keys[info.id.key].dtype, whole.data() + offset, wire, expected.data(),
                    static_cast<std::int64_t>(info.elements));
  if (bytes.size() != expected.size() ||
      std::memcmp(expected.data(), bytes.data(), expected.size()) != 0) {
    fail(fmt::format("{}: slice ({}, {}) differs from the undisturbed run", what, info.id.key,
                     info.id.slice));
  }
}

void Checker::weights(const actors::WeightsReady& ready, std::uint32_t rank,
                      const std::vector<std::uint32_t>& machine_of_rank) {
  const std::string what =
      fmt::format("weights of key {} for rank {} step {}", ready.key, rank, ready.step);
  begun_ = std::max(begun_, ready.step);
  if (end_ && ready.step >= *end_) fail(what + ": the run was to end before it");
  const base::DType wire = job_->keys[ready.key].weight_wire;
  const auto slices = layout_->of_key(ready.key);
  for (std::size_t i = 0; i < slices.size(); ++i) {
    const Origin& origin = memory_->origin(ready.slices[i]);
    if (origin.checksum != Memory::checksum(ready.slices[i])) {
      fail(fmt::format("{}: slice {} changed after it was published", what, i));
    }
    if (job_->sequential() || is_barrier(ready.step)) {
      check_exact(origin.applied, ready.step, what);
    } else {
      check_staleness(origin.applied, ready.step, rank, machine_of_rank, what);
    }
    if (reference_) check_bits(ready.slices[i], slices[i], ready.step, 0, wire, what);
  }
}

void Checker::cut(std::uint64_t step, const std::vector<actors::CutSlice>& slices) {
  const std::string what = fmt::format("checkpoint of step {}", step);
  if (!is_barrier(step)) fail(what + ": nobody wanted one there");
  for (const actors::CutSlice& cut : slices) {
    const store::SliceInfo& info = layout_->info(cut.slice);
    std::vector<base::Buffer> buffers = cut.state.values.slots;
    buffers.insert(buffers.begin(), cut.state.values.weight);
    for (std::size_t i = 0; i < buffers.size(); ++i) {
      const Origin& origin = memory_->origin(buffers[i]);
      if (origin.checksum != Memory::checksum(buffers[i])) {
        fail(fmt::format("{}: a buffer changed after it was published", what));
      }
      check_exact(origin.applied, step, what);
      if (reference_) {
        check_bits(buffers[i], info, step, static_cast<int>(i), job_->keys[info.id.key].dtype,
                   what);
      }
    }
  }
}

void Checker::extra_cut(std::uint64_t step, bool last) {
  if (step <= begun_ && step < job_->total_steps()) {
    fail(fmt::format("a cut out of turn at step {}, and step {} has begun", step, begun_));
  }
  extra_.insert(step);
  if (last && step < job_->total_steps()) end_ = step;
}

void Checker::manifest(std::uint64_t step, const std::vector<schemas::SliceId>& slices) {
  std::set<schemas::SliceId> missing;
  for (const store::SliceInfo& info : layout_->slices()) missing.insert(info.id);
  for (const schemas::SliceId& slice : slices) {
    if (missing.erase(slice) == 0) fail(fmt::format("checkpoint {}: a slice twice", step));
  }
  if (!missing.empty()) {
    fail(fmt::format("checkpoint {}: slice ({}, {}) is missing", step, missing.begin()->key,
                     missing.begin()->slice));
  }
}

void Checker::observe(const actors::Staleness& seen) {
  staleness_max_[seen.level] = std::max(staleness_max_[seen.level], seen.steps);
  const schemas::ConsistencySpec& modes = job_->spec.consistency;
  const schemas::TierSpec& tier = seen.level == 1 ? modes.device : modes.cluster;
  if (tier.max_staleness && seen.steps > *tier.max_staleness) {
    fail(fmt::format("staleness {} observed at level {}, the bound is {}", seen.steps, seen.level,
                     *tier.max_staleness));
  }
}

void Checker::evaluation(std::uint64_t step, std::uint32_t rank, std::uint64_t digest) {
  const auto [entry, is_new] = digests_.try_emplace(step, digest);
  if (!is_new && entry->second != digest) {
    fail(fmt::format("rank {} scores other weights at the barrier of step {}", rank, step));
  }
}

void Checker::posted(const schemas::Envelope& envelope) {
  const auto server = [](const schemas::ActorId& id) {
    return id.role == schemas::Role::device_server || id.role == schemas::Role::parameter_server;
  };
  if (!server(envelope.from) || !server(envelope.to) || envelope.generation != generation_) return;
  if (auto wrong = traffic_.posted(envelope)) fail(std::move(*wrong));
}

void Checker::misfortune(const schemas::Envelope& envelope) {
  if (envelope.generation == generation_) traffic_.misfortune(envelope);
}

void Checker::resumed(const schemas::ActorId& one, const schemas::ActorId& other) {
  traffic_.resumed(one, other);
}

void Checker::end() {
  for (const auto& [slice, applied] : applied_) {
    check_exact(applied, job_->total_steps(),
                fmt::format("end of slice ({}, {})", slice.key, slice.slice));
  }
}

}  // namespace troupe::sim
