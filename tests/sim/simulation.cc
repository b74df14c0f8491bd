// SPDX-License-Identifier: Apache-2.0
// Virtual time, and the life of a job: launch, kill, new view, restart, end.
#include "tests/sim/simulation.h"

#include <fmt/format.h>

namespace troupe::sim {
namespace {

/// After the last fault a job must end within this time.
constexpr std::uint64_t kPatienceMs = 60'000;
constexpr std::uint64_t kTickUs = 20'000;
constexpr std::uint64_t kEventsMax = 2'000'000;

}  // namespace

Simulation::Simulation(const SimJob& job, Bug bug)
    : job_(job), bug_(bug), random_(mix({job.seed, 2})) {}

Simulation::~Simulation() {
  actors_.clear();
}

void Simulation::at(std::uint64_t delay_us, std::function<void()> action) {
  queue_.push(
      {now_us_ + delay_us, entries_++, std::make_shared<std::function<void()>>(std::move(action))});
}

void Simulation::trace(std::initializer_list<std::uint64_t> numbers) {
  outcome_.trace = mix({outcome_.trace, now_us_, mix(numbers)});
}

Outcome Simulation::run() {
  launch(1, 0);
  if (job_.faults.kill_ms) at(*job_.faults.kill_ms * 1000, [this] { kill(); });
  if (job_.faults.view_ms) at(*job_.faults.view_ms * 1000, [this] { new_view(); });
  const std::uint64_t deadline_us = (job_.faults.faults_end_ms + kPatienceMs) * 1000;
  while (!queue_.empty() && !succeeded_ && !checker_->fault()) {
    const Entry entry = queue_.top();
    queue_.pop();
    now_us_ = entry.time_us;
    ++outcome_.events;
    if (now_us_ > deadline_us || outcome_.events > kEventsMax) {
      checker_->fail("the job does not end:" + dump());
      break;
    }
    (*entry.action)();
  }
  if (!checker_->fault() && !succeeded_) checker_->fail("nothing is left to do:" + dump());
  if (succeeded_) checker_->end();
  outcome_.virtual_ms = now_us_ / 1000;
  outcome_.blocks_peak = memory_.peak();
  outcome_.staleness_max[1] = checker_->staleness_max(1);
  outcome_.staleness_max[2] = checker_->staleness_max(2);
  if (checker_->fault()) outcome_.fault = job_.to_string() + "\n" + *checker_->fault();
  return outcome_;
}

/// Starts the job anew from the weights of `step`: other processes, perhaps elsewhere.
void Simulation::launch(std::uint64_t generation, std::uint64_t step) {
  if (generation > 1) {
    // Whoever starts a failed job again may have other machines and another number of shards.
    job_.spec.servers.shards = static_cast<std::uint32_t>(random_.between(1, 3));
    if (random_.chance(50)) {
      job_.machine_of_rank.assign(job_.ranks(), 0);
    }
  }
  generation_ = generation;
  start_step_ = step;
  view_ = 1;
  reports_.clear();
  done_.clear();
  actors_.clear();
  auto plan =
      actors::make_job_plan(job_.spec.name, generation, job_.spec, job_.keys, job_.slice_bytes);
  TROUPE_CHECK(plan.ok(), plan.status().to_string());
  plan_ = std::make_unique<actors::JobPlan>(std::move(plan).value());
  if (!checker_) checker_ = std::make_unique<Checker>(job_, memory_);
  checker_->begin(generation, step, plan_->layout);
  for (std::uint32_t rank = 0; rank < job_.ranks(); ++rank) hire_worker(rank);
  for (std::uint32_t machine = 0; machine < job_.machines(); ++machine) {
    hire<actors::DeviceServerState>({schemas::Role::device_server, machine});
  }
  for (std::uint32_t shard = 0; shard < job_.spec.servers.shards; ++shard) {
    hire<actors::ParameterServerState>({schemas::Role::parameter_server, shard});
  }
  schemas::Placement placement;
  placement.machine_of_rank = job_.machine_of_rank;
  placement.start_step = step;
  for (auto& [id, actor] : actors_) {
    announce(id, placement);
    const auto phase = random_.between(0, kTickUs);
    at(phase, [this, generation, id = id] { tick(generation, id); });
  }
}

template <typename State>
Simulation::Actor& Simulation::hire(schemas::ActorId id) {
  auto state = std::make_shared<State>(*plan_, id.index);
  Actor& actor = actors_[id];
  actor.handle = [state](actors::Event event) { return state->handle(std::move(event)); };
  actor.waits_for = [state] { return state->waits_for(); };
  actor.state = state;
  return actor;
}

void Simulation::hire_worker(std::uint32_t rank) {
  const schemas::ActorId id{schemas::Role::worker, rank};
  Actor& actor = hire<actors::WorkerState>(id);
  const std::uint64_t generation = generation_;
  SimWorkerPorts ports;
  ports.event = [this, id, generation](actors::Event event) {
    at(0, [this, id, generation, event = std::move(event)] {
      if (generation == generation_) this->event(id, event);
    });
  };
  ports.after_computing = [this, generation](std::function<void()> done) {
    at(random_.between(500, 15'000), [this, generation, done = std::move(done)] {
      if (generation == generation_) done();
    });
  };
  ports.chance = [this](std::uint64_t low, std::uint64_t high) {
    return random_.between(low, high);
  };
  actor.loop = std::make_unique<SimWorker>(job_, plan_->layout, memory_, rank, std::move(ports));
  schemas::DatasetReport report;
  report.rank = rank;
  report.records = job_.records;
  event(id, actors::DatasetChecked{report});
}

void Simulation::tick(std::uint64_t generation, const schemas::ActorId& id) {
  if (generation != generation_) return;
  event(id, actors::Tick{now_us_ / 1000});
  at(kTickUs, [this, generation, id] { tick(generation, id); });
}

/// A role dies: the job fails and says whose death it was; a person starts it again.
void Simulation::kill() {
  const std::size_t victim = job_.faults.kill_role % (actors_.size() + 1);
  std::string name = "coordinator 0";
  if (victim < actors_.size()) {
    name = std::next(actors_.begin(), static_cast<std::ptrdiff_t>(victim))->first.to_string();
  }
  killed_ = true;
  fail_job(fmt::format("{} died", name));
}

void Simulation::fail_job(std::string text) {
  trace({1, generation_});
  outcome_.failed_role = std::move(text);
  const std::uint64_t generation = generation_ + 1;
  const std::uint64_t step = checkpoints_.empty() ? 0 : checkpoints_.rbegin()->first;
  actors_.clear();  // nothing of the failed run acts any more; its messages still arrive
  generation_ = generation;
  at(random_.between(1'000, 30'000), [this, generation, step] { launch(generation, step); });
}

void Simulation::new_view() {
  if (actors_.empty()) return;
  ++view_;
  schemas::Placement placement;
  placement.view = view_;
  placement.machine_of_rank = job_.machine_of_rank;
  placement.start_step = start_step_;
  for (auto& [id, actor] : actors_) announce(id, placement);
}

void Simulation::succeed() {
  succeeded_ = true;
  for (auto& [id, actor] : actors_) {
    if (id.role == schemas::Role::device_server) {
      const auto& state = *std::static_pointer_cast<actors::DeviceServerState>(actor.state);
      outcome_.worker_bytes += state.counters().worker_push_bytes;
      outcome_.owner_bytes += state.counters().owner_push_bytes;
      outcome_.repeated += state.mail_counters().repeated;
    }
  }
}

std::string Simulation::dump() {
  std::string text;
  for (const auto& [id, actor] : actors_) {
    const std::string waits = actor.waits_for();
    if (!waits.empty()) text += fmt::format("\n  {}: {}", id.to_string(), waits);
  }
  return text.empty() ? " nobody waits" : text;
}

}  // namespace troupe::sim
