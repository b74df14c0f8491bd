// SPDX-License-Identifier: Apache-2.0
// Drawing jobs, and their arithmetic.
#include "tests/sim/sim_job.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace troupe::sim {

using schemas::ConsistencyMode;

std::uint64_t Random::next() {
  state_ += 0x9e3779b97f4a7c15;
  std::uint64_t z = state_;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
  z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
  return z ^ (z >> 31);
}

std::uint64_t Random::between(std::uint64_t low, std::uint64_t high) {
  return low + next() % (high - low + 1);
}

bool Random::chance(double percent) {
  return static_cast<double>(next() >> 11) * 0x1.0p-53 * 100.0 < percent;
}

std::uint64_t mix(std::initializer_list<std::uint64_t> numbers) {
  std::uint64_t hash = 0;
  for (const std::uint64_t number : numbers) hash = Random(hash ^ number).next();
  return hash;
}

std::uint32_t SimJob::machines() const {
  return *std::max_element(machine_of_rank.begin(), machine_of_rank.end()) + 1;
}

std::uint64_t SimJob::epoch_steps() const {
  const std::uint64_t step = std::uint64_t{ranks()} * spec.data.batch;
  return (records + step - 1) / step;
}

std::uint64_t SimJob::total_steps() const {
  const std::uint64_t all = epoch_steps() * spec.train.epochs;
  return spec.train.max_steps ? std::min(all, *spec.train.max_steps) : all;
}

bool SimJob::sequential() const {
  return spec.consistency.device.mode == ConsistencyMode::sequential &&
         spec.consistency.cluster.mode == ConsistencyMode::sequential;
}

bool SimJob::is_barrier(std::uint64_t step) const {
  const std::uint64_t every = spec.checkpoint.dir.empty() ? 0 : spec.checkpoint.every.count;
  return is_epoch_end(step) || step == total_steps() || (every > 0 && step % every == 0);
}

std::uint64_t SimJob::samples(std::uint32_t rank, std::uint64_t step) const {
  const std::uint64_t whole = std::uint64_t{ranks()} * spec.data.batch;
  const std::uint64_t done = (step % epoch_steps()) * whole;
  const std::uint64_t left = records - done;
  if (left >= whole) return spec.data.batch;
  return left / ranks() + (rank < left % ranks() ? 1 : 0);
}

std::uint64_t SimJob::next_with_samples(std::uint32_t rank, std::uint64_t step) const {
  while (step < total_steps() && samples(rank, step) == 0) ++step;
  return step;
}

namespace {

bool draws_overflow(std::uint64_t seed, std::uint64_t step) {
  return mix({seed, step, 0xf16}) % 4 == 0;
}

}  // namespace

/// At a scale of 1 it would be the job's end.
bool SimJob::overflows(std::uint64_t step) const {
  return judged() && draws_overflow(seed, step) && loss_scale(step)[0] > 1.0;
}

std::uint64_t SimJob::samples_of_all(std::uint64_t step) const {
  std::uint64_t all = 0;
  for (std::uint32_t rank = 0; rank < ranks(); ++rank) all += samples(rank, step);
  return all;
}

std::array<double, 2> SimJob::loss_scale(std::uint64_t step) const {
  if (!judged()) return {1.0, 0.0};
  double scale = spec.numerics.loss_scale;
  double calm = 0.0;
  for (std::uint64_t each = 0; each < step; ++each) {
    if (samples_of_all(each) == 0) continue;
    const bool overflow = draws_overflow(seed, each) && scale > 1.0;
    calm = overflow ? 0.0 : calm + 1.0;
    if (overflow) scale /= 2;
    if (calm < static_cast<double>(spec.numerics.loss_scale_steps)) continue;
    scale *= 2;
    calm = 0.0;
  }
  return {scale, calm};
}

template <typename T>
T SimJob::initial(std::uint32_t key, std::uint64_t element) const {
  if (keys[key].kind == schemas::KeyKind::loss_scale) {
    return static_cast<T>(loss_scale(0).at(element));
  }
  return static_cast<T>(static_cast<double>(mix({seed, key, element}) >> 40) * 0x1.0p-24 - 0.5);
}

template <typename T>
T SimJob::gradient(std::uint32_t rank, std::uint64_t step, std::uint32_t key, std::uint64_t element,
                   T weight) const {
  if (keys[key].kind == schemas::KeyKind::loss_scale) return T{};
  // Magnitudes differ by rank so that another order of addition shows in the last bits.
  const T noise = static_cast<T>(
      static_cast<double>(mix({seed, rank, step, key, element}) >> 40) * 0x1.0p-24 - 0.5);
  const T scale = static_cast<T>(1 + 3 * (rank % 4));
  const auto count = static_cast<T>(samples(rank, step));
  // Running statistics are not part of what a rank computes with.
  const bool average = keys[key].kind == schemas::KeyKind::average;
  const auto scaled = static_cast<T>(average ? 1.0 : loss_scale(step)[0]);
  return scaled * (count * ((average ? T{} : weight * static_cast<T>(0.1)) + noise * scale));
}

template <typename T>
void SimJob::update(const schemas::KeyInfo& key, T sum, const Measure& measure, T& weight,
                    T& momentum) const {
  const T mean = sum / static_cast<T>(measure.count);
  if (key.kind == schemas::KeyKind::average) {
    const T keep = static_cast<T>(std::pow(key.momentum, measure.share));
    weight = keep * weight + (T{1} - keep) * mean;
    return;
  }
  const double rate = 0.05 / (1.0 + 0.01 * static_cast<double>(measure.step));
  const T lr = static_cast<T>(rate * measure.share);
  momentum = static_cast<T>(0.9) * momentum + mean + static_cast<T>(1e-3) * weight;
  weight = weight - lr * momentum;
}

template float SimJob::initial<float>(std::uint32_t, std::uint64_t) const;
template double SimJob::initial<double>(std::uint32_t, std::uint64_t) const;
template float SimJob::gradient<float>(std::uint32_t, std::uint64_t, std::uint32_t, std::uint64_t,
                                       float) const;
template double SimJob::gradient<double>(std::uint32_t, std::uint64_t, std::uint32_t, std::uint64_t,
                                         double) const;
template void SimJob::update<float>(const schemas::KeyInfo&, float, const Measure&, float&,
                                    float&) const;
template void SimJob::update<double>(const schemas::KeyInfo&, double, const Measure&, double&,
                                     double&) const;

namespace {

std::string tier_text(const schemas::TierSpec& tier) {
  if (tier.mode == ConsistencyMode::sequential) return "sequential";
  if (!tier.max_staleness) return "eventual";
  return fmt::format("eventual<={}", *tier.max_staleness);
}

schemas::TierSpec draw_tier(Random& random) {
  schemas::TierSpec tier;
  if (random.chance(50)) return tier;
  tier.mode = ConsistencyMode::eventual;
  if (random.chance(60)) tier.max_staleness = static_cast<std::uint32_t>(random.between(0, 3));
  return tier;
}

/// The job's own machines, or any other set of machines that each hold at least one rank.
std::vector<std::uint32_t> draw_placement(const schemas::JobSpec& spec, Random& random) {
  std::vector<std::uint32_t> machine_of_rank(spec.ranks());
  if (random.chance(50)) {
    for (std::uint32_t rank = 0; rank < spec.ranks(); ++rank) {
      machine_of_rank[rank] = rank / spec.workers.devices;
    }
    return machine_of_rank;
  }
  const auto machines = random.between(1, std::min(4U, spec.ranks()));
  for (std::uint32_t rank = 0; rank < spec.ranks(); ++rank) {
    machine_of_rank[rank] =
        static_cast<std::uint32_t>(rank < machines ? rank : random.between(0, machines - 1));
  }
  for (std::size_t i = machine_of_rank.size(); i > 1; --i) {
    std::swap(machine_of_rank[i - 1], machine_of_rank[random.between(0, i - 1)]);
  }
  return machine_of_rank;
}

/// A third of the keys of f32 travel in 16 bits, each way for itself.
base::DType draw_wire(Random& random, const schemas::KeyInfo& key) {
  if (key.dtype != base::DType::f32 || !random.chance(33)) return key.dtype;
  return random.chance(50) ? base::DType::bf16 : base::DType::f16;
}

std::vector<schemas::KeyInfo> draw_keys(Random& random) {
  std::vector<schemas::KeyInfo> keys;
  const auto count = random.between(2, 4);
  for (std::uint32_t id = 0; id < count; ++id) {
    schemas::KeyInfo key;
    key.id = id;
    key.name = fmt::format("key{}", id);
    key.shape = {static_cast<std::int64_t>(random.between(1, 9))};
    key.kind = id > 0 && random.chance(30) ? schemas::KeyKind::average : schemas::KeyKind::dense;
    key.momentum = key.kind == schemas::KeyKind::average ? 0.9 : 0.0;
    key.dtype = random.chance(70) ? base::DType::f32 : base::DType::f64;
    key.gradient_wire = draw_wire(random, key);
    key.weight_wire = draw_wire(random, key);
    keys.push_back(std::move(key));
  }
  return keys;
}

Faults draw_faults(Random& random) {
  Faults faults;
  faults.faults_end_ms = 2'000;
  if (random.chance(80)) {
    faults.drop_percent = static_cast<double>(random.between(0, 10));
    faults.double_percent = static_cast<double>(random.between(0, 10));
    faults.slow_percent = static_cast<double>(random.between(0, 5));
  }
  if (random.chance(20)) faults.disk_percent = 15;
  if (random.chance(35)) {
    faults.kill_ms = random.between(5, 400);
    faults.kill_role = static_cast<std::uint32_t>(random.next() >> 33);
  }
  if (random.chance(30)) faults.view_ms = random.between(5, 300);
  if (random.chance(30)) faults.cuts = static_cast<std::uint32_t>(random.between(1, 5));
  return faults;
}

/// Half of the jobs that write checkpoints are asked for some out of turn.
void draw_wishes(Random& random, Faults& faults) {
  if (!random.chance(50)) return;
  const auto count = random.between(1, 3);
  for (std::uint64_t i = 0; i < count; ++i) faults.wishes_ms.push_back(random.between(5, 300));
  std::sort(faults.wishes_ms.begin(), faults.wishes_ms.end());
  faults.last_wish = random.chance(30);
}

/// Half of all jobs have slow links; a step takes up to some hundred milliseconds on the slowest.
LinkShape draw_links(Random& random) {
  LinkShape links;
  if (random.chance(50)) links.bytes_per_ms = std::uint64_t{1} << random.between(3, 8);
  if (random.chance(50)) links.queue_bytes = std::uint64_t{1} << random.between(6, 11);
  return links;
}

}  // namespace

void judge(SimJob& job) {
  job.spec.numerics.dtype = base::DType::f16;
  job.spec.numerics.loss_scale = 64.0;
  job.spec.numerics.loss_scale_steps = 3;
  schemas::KeyInfo key;
  key.id = static_cast<std::uint32_t>(job.keys.size());
  key.name = "loss_scale";
  key.shape = {2};
  key.kind = schemas::KeyKind::loss_scale;
  // f16 would become infinite by itself, which this world does not look for.
  for (schemas::KeyInfo& other : job.keys) {
    if (other.gradient_wire == base::DType::f16) other.gradient_wire = base::DType::bf16;
  }
  job.keys.push_back(std::move(key));
}

SimJob make_sim_job(std::uint64_t seed) {
  Random random(mix({seed, 1}));
  SimJob job;
  job.seed = seed;
  schemas::JobSpec& spec = job.spec;
  spec.name = fmt::format("sim-{}", seed);
  spec.seed = seed;
  spec.workers.machines = static_cast<std::uint32_t>(random.between(1, 4));
  spec.workers.devices = static_cast<std::uint32_t>(random.between(1, 3));
  if (spec.ranks() > 8) spec.workers.devices = 2;
  spec.servers.shards = static_cast<std::uint32_t>(random.between(1, 3));
  spec.consistency.device = draw_tier(random);
  spec.consistency.cluster = draw_tier(random);
  spec.data.batch = static_cast<std::uint32_t>(random.between(1, 3));
  const std::uint64_t whole = std::uint64_t{spec.ranks()} * spec.data.batch;
  job.records = whole * random.between(1, 4) + (random.chance(70) ? random.between(1, whole) : 0);
  spec.train.epochs = static_cast<std::uint32_t>(random.between(1, 3));
  if (random.chance(20)) spec.train.max_steps = random.between(1, 8);
  if (random.chance(85)) {
    spec.checkpoint.dir = "disk";
    spec.checkpoint.every = {random.between(0, 4), schemas::Period::Unit::steps};
  }
  spec.limits.retry_first_ms = 40;
  spec.limits.retry_most_ms = 320;
  spec.limits.letter_ask_ms = 500;
  job.keys = draw_keys(random);
  job.slice_bytes = 8 * random.between(1, 3);
  job.machine_of_rank = draw_placement(spec, random);
  job.faults = draw_faults(random);
  job.links = draw_links(random);
  if (!spec.checkpoint.dir.empty()) draw_wishes(random, job.faults);
  if (job.sequential() && random.chance(50)) judge(job);
  return job;
}

std::string SimJob::to_string() const {
  return fmt::format(
      "seed {}:{} {}x{} ranks on machines [{}], {} shards, device {}, cluster {}, {} steps of "
      "epochs "
      "of {}, checkpoints every {}{}, drop {}%, double {}%, slow {}%, {} cuts, links of {} "
      "bytes/ms "
      "and {} bytes, checkpoints wanted at [{}] ms{}{}",
      seed, judged() ? " judged," : "", spec.workers.machines, spec.workers.devices,
      fmt::join(machine_of_rank, " "), spec.servers.shards, tier_text(spec.consistency.device),
      tier_text(spec.consistency.cluster), total_steps(), epoch_steps(),
      spec.checkpoint.every.count, spec.checkpoint.dir.empty() ? " (off)" : "", faults.drop_percent,
      faults.double_percent, faults.slow_percent, faults.cuts, links.bytes_per_ms,
      links.queue_bytes, fmt::join(faults.wishes_ms, " "), faults.last_wish ? " and a stop" : "",
      faults.kill_ms ? fmt::format(", a kill at {} ms", *faults.kill_ms) : "");
}

}  // namespace troupe::sim
