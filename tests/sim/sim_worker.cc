// SPDX-License-Identifier: Apache-2.0
// A rank's loop in virtual time.
#include "tests/sim/sim_worker.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <utility>

namespace troupe::sim {

SimWorker::SimWorker(const SimJob& job, const store::SliceLayout& layout, Memory& memory,
                     std::uint32_t rank, SimWorkerPorts ports)
    : job_(&job),
      layout_(&layout),
      memory_(&memory),
      rank_(rank),
      ports_(std::move(ports)),
      keys_(job.keys.size()) {
  for (std::uint32_t key = 0; key < keys_.size(); ++key) {
    std::size_t bytes = 0;
    for (const store::SliceInfo& slice : layout.of_key(key)) bytes += slice.gradient_bytes;
    keys_[key].gradient = memory.allocate(bytes);
    std::size_t offset = 0;
    for (const store::SliceInfo& slice : layout.of_key(key)) {
      memory.mark(keys_[key].gradient.slice(offset, slice.gradient_bytes));
      offset += slice.gradient_bytes;
    }
  }
}

SimWorker::~SimWorker() {
  for (std::uint32_t key = 0; key < keys_.size(); ++key) {
    std::size_t offset = 0;
    for (const store::SliceInfo& slice : layout_->of_key(key)) {
      if (offset > 0) memory_->forget(keys_[key].gradient.slice(offset, slice.gradient_bytes));
      offset += slice.gradient_bytes;
    }
  }
}

void SimWorker::start(std::uint64_t step) {
  start_ = step_ = step;
  for (std::uint32_t key = 0; key < keys_.size(); ++key) pull(key, step);
}

void SimWorker::pull(std::uint32_t key, std::uint64_t step) {
  ports_.event(actors::PullWanted{key, step, scores(step)});
}

/// Steps whose weights are scored: ends of epochs and the end.
bool SimWorker::scores(std::uint64_t step) const {
  return job_->is_epoch_end(step) || step == job_->total_steps();
}

/// Averages are needed for scores alone.
bool SimWorker::computes_with(std::uint32_t key) const {
  return job_->keys[key].kind != schemas::KeyKind::average;
}

void SimWorker::ready(const actors::WeightsReady& ready) {
  Key& key = keys_[ready.key];
  key.weights.clear();
  for (const base::Buffer& slice : ready.slices) {
    const auto bytes = slice.as<std::byte>();
    key.weights.insert(key.weights.end(), bytes.begin(), bytes.end());
  }
  key.loaded = ready.step;
  advance();
}

bool SimWorker::loaded() const {
  for (std::uint32_t key = 0; key < keys_.size(); ++key) {
    const bool needed = computes_with(key) || scores(step_) || step_ == start_;
    if (needed && keys_[key].loaded != step_) return false;
  }
  return true;
}

void SimWorker::advance() {
  if (computing_ || pushing_ || finished_ || !loaded()) return;
  if (scores(step_)) score();
  if (step_ == job_->total_steps()) {
    finished_ = true;
    return ports_.event(actors::Finish{step_});
  }
  computing_ = true;
  ports_.after_computing([this] { compute(); });
}

void SimWorker::score() {
  std::uint64_t digest = 1;
  for (const Key& key : keys_) {
    for (const std::byte byte : key.weights) digest = mix({digest, std::uint64_t(byte)});
  }
  schemas::EvaluationReport report;
  report.rank = rank_;
  report.epoch = step_ / job_->epoch_steps();
  report.step = step_;
  report.correct = digest;
  ports_.event(actors::Report{report});
}

void SimWorker::compute() {
  computing_ = false;
  pushing_ = true;
  for (Key& key : keys_) key.to_push = true;
  push_what_can_be();
}

void SimWorker::push_what_can_be() {
  const std::size_t first = ports_.chance(0, keys_.size() - 1);
  for (std::size_t i = 0; i < keys_.size(); ++i) {
    const auto id = static_cast<std::uint32_t>((first + i) % keys_.size());
    Key& key = keys_[id];
    if (!key.to_push || key.borrowed) continue;
    key.to_push = false;
    const std::uint64_t samples = job_->samples(rank_, step_);
    key.borrowed = true;
    if (samples > 0) write_gradient(id);
    ports_.event(actors::PushWanted{id, step_, static_cast<double>(samples),
                                    samples > 0 ? key.gradient : base::Buffer()});
    if (computes_with(id) || scores(step_ + 1)) pull(id, step_ + 1);
  }
  const bool waits =
      std::any_of(keys_.begin(), keys_.end(), [](const Key& k) { return k.to_push; });
  if (waits) return;
  pushing_ = false;
  ++step_;
  advance();
}

void SimWorker::write_gradient(std::uint32_t key) {
  if (job_->keys[key].dtype == base::DType::f32) {
    fill<float>(key);
  } else {
    fill<double>(key);
  }
  std::size_t offset = 0;
  for (const store::SliceInfo& slice : layout_->of_key(key)) {
    Origin& origin = memory_->origin(keys_[key].gradient.slice(offset, slice.gradient_bytes));
    origin.parts = {{rank_, step_}};
    origin.released = false;
    offset += slice.gradient_bytes;
  }
}

template <typename T>
void SimWorker::fill(std::uint32_t key) {
  const schemas::KeyInfo& info = job_->keys[key];
  const std::int64_t elements = info.shape.elements();
  std::vector<T> weights(static_cast<std::size_t>(elements)), gradient(weights.size());
  base::cast_values(info.weight_wire, keys_[key].weights.data(), info.dtype, weights.data(),
                    elements);
  for (std::size_t e = 0; e < gradient.size(); ++e) {
    gradient[e] = job_->gradient<T>(rank_, step_, key, e, weights[e]);
  }
  base::cast_values(info.dtype, gradient.data(), info.gradient_wire, keys_[key].gradient.data(),
                    elements);
}

/// Nobody may read the gradient any more, so whoever does shall see nonsense.
void SimWorker::taken(const actors::GradientTaken& taken) {
  Key& key = keys_[taken.key];
  key.borrowed = false;
  std::memset(key.gradient.data(), 0x7f, key.gradient.size());
  std::size_t offset = 0;
  for (const store::SliceInfo& slice : layout_->of_key(taken.key)) {
    memory_->origin(key.gradient.slice(offset, slice.gradient_bytes)).released = true;
    offset += slice.gradient_bytes;
  }
  if (pushing_) push_what_can_be();
}

}  // namespace troupe::sim
