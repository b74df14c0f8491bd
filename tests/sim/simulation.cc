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
  dead_ = {};
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
  for (const std::uint64_t wish_ms : job_.faults.wishes_ms) {
    const bool last = job_.faults.last_wish && wish_ms == job_.faults.wishes_ms.back();
    at(wish_ms * 1000, [this, last] { want_cut(last); });
  }
  for (std::uint32_t i = 0; i < job_.faults.cuts; ++i) {
    at(random_.between(5'000, 600'000), [this] { cut_link(); });
  }
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
  outcome_.virtual_ms = now_us_ / 1000;
  check_memory();
  outcome_.staleness_max[1] = checker_->staleness_max(1);
  outcome_.staleness_max[2] = checker_->staleness_max(2);
  if (checker_->fault()) outcome_.fault = job_.to_string() + "\n" + *checker_->fault();
  return outcome_;
}

/// What all roles together may hold, per slice. At any time: the owner two buffers (weights,
/// momentum) of three versions and of two checkpoints, under eventual tiers a version more per
/// machine and tier; each rank a gradient, a sum on each tier. When nothing is under way any more:
/// three versions, a version per machine, and the ranks' gradients.
void Simulation::check_memory() {
  const std::size_t slices = plan_->layout.slices().size();
  const std::size_t extra = job_.sequential() ? 0 : 2 * job_.machines();
  outcome_.blocks_peak = memory_.peak();
  outcome_.blocks_bound = slices * (10 + extra + 3 * job_.ranks()) + payloads_peak_;
  if (outcome_.blocks_peak > outcome_.blocks_bound) {
    checker_->fail(fmt::format("{} buffers were alive at once, the bound is {}",
                               outcome_.blocks_peak, outcome_.blocks_bound));
  }
  if (!succeeded_) return;
  queue_ = {};
  const std::size_t rest = slices * (6 + extra + job_.ranks());
  outcome_.blocks_end = memory_.live();
  outcome_.blocks_end_bound = rest;
  if (memory_.live() > rest) {
    checker_->fail(
        fmt::format("{} buffers are alive at the end, the bound is {}", memory_.live(), rest));
  }
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
  links_.clear();
  unanswered_.clear();
  told_until_us_.clear();
  wishes_.clear();
  stopped_ = false;
  placement_ = {};
  placement_.generation = generation;
  placement_.start_step = step;
  placement_.machine_of_rank = job_.machine_of_rank;
  for (std::uint32_t machine = 0; machine < job_.machines(); ++machine) {
    placement_.machines.push_back(fmt::format("m{}", machine));
  }
  for (std::uint32_t shard = 0; shard < job_.spec.servers.shards; ++shard) {
    placement_.machine_of_shard.push_back(shard % job_.machines());
  }
  auto plan =
      actors::make_job_plan(job_.spec.name, generation, job_.spec, job_.keys, job_.slice_bytes);
  TROUPE_CHECK(plan.ok(), plan.status().to_string());
  plan_ = std::make_unique<actors::JobPlan>(std::move(plan).value());
  if (!checker_) checker_ = std::make_unique<Checker>(job_, memory_);
  checker_->begin(generation, step, plan_->layout);
  hire_all();
  job_state_ = std::make_unique<control::JobState>(
      control::JobRoster{job_.spec.name, generation, placement_, job_.spec.limits,
                         !job_.spec.checkpoint.dir.empty(), job_.total_steps()});
  drive(job_state_->handle(control::Begin{now_us_ / 1000}));
  at(kTickUs, [this, generation] { coordinator_tick(generation); });
}

void Simulation::hire_all() {
  for (std::uint32_t rank = 0; rank < job_.ranks(); ++rank) hire_worker(rank);
  for (std::uint32_t machine = 0; machine < job_.machines(); ++machine) {
    hire<actors::DeviceServerState>({schemas::Role::device_server, machine});
  }
  for (std::uint32_t shard = 0; shard < job_.spec.servers.shards; ++shard) {
    hire<actors::ParameterServerState>({schemas::Role::parameter_server, shard});
  }
  for (auto& [id, actor] : actors_) {
    event(id, actors::Tick{now_us_ / 1000});
    at(random_.between(0, kTickUs),
       [this, generation = generation_, whose = id] { tick(generation, whose); });
  }
}

template <typename State>
Simulation::Actor& Simulation::hire(schemas::ActorId id) {
  const auto state = std::make_shared<State>(*plan_, id.index);
  std::shared_ptr<actors::DeviceFigures> figures;
  if constexpr (std::is_same_v<State, actors::DeviceServerState>) {
    figures = std::make_shared<actors::DeviceFigures>(
        *plan_, id.index, actors::FigureSinks{.staleness = [this](const actors::Staleness& seen) {
          checker_->observe(seen);
        }});
  }
  Actor& actor = actors_[id];
  actor.handle = [this, id, state, figures](Event event) {
    handle(id, *state, std::move(event), figures.get());
  };
  actor.waits_for = [state] { return state->waits_for(); };
  actor.mail = [state] { return state->mail_counters(); };
  actor.figures = figures;
  return actor;
}

template <typename State>
void Simulation::handle(const schemas::ActorId& id, State& state, Event event,
                        [[maybe_unused]] actors::DeviceFigures* figures) {
  std::vector<typename State::Effect> effects;
  std::visit(
      [&](auto& what) {
        using What = std::remove_reference_t<decltype(what)>;
        if constexpr (std::is_constructible_v<typename State::Event, What>) {
          typename State::Event own(std::move(what));
          if constexpr (std::is_same_v<State, actors::DeviceServerState>) {
            figures->arriving(own, static_cast<std::int64_t>(now_us_) * 1000);
          }
          effects = state.handle(std::move(own));
        } else {
          TROUPE_CHECK(false, "an event that the role does not know: " + id.to_string());
        }
      },
      event);
  if constexpr (std::is_same_v<State, actors::DeviceServerState>) {
    figures->leaving(effects, static_cast<std::int64_t>(now_us_) * 1000);
  }
  for (auto& effect : effects) {
    trace({4, static_cast<std::uint64_t>(id.role), id.index, effect.index()});
    std::visit([&](auto& what) { perform(id, std::move(what)); }, effect);
  }
}

void Simulation::hire_worker(std::uint32_t rank) {
  const schemas::ActorId id{schemas::Role::worker, rank};
  Actor& actor = hire<actors::WorkerState>(id);
  const std::uint64_t generation = generation_;
  SimWorkerPorts ports;
  ports.event = [this, id, generation](actors::WorkerEvent event) {
    at(0, [this, id, generation, event = std::move(event)] {
      if (generation != generation_) return;
      std::visit([&](const auto& what) { this->event(id, what); }, event);
    });
  };
  ports.after_computing = [this, id, generation](std::function<void()> done) {
    at(random_.between(500, 15'000), [this, id, generation, done = std::move(done)] {
      if (alive(generation, id)) done();
    });
  };
  ports.chance = [this](std::uint64_t low, std::uint64_t high) {
    return random_.between(low, high);
  };
  actor.loop = std::make_unique<SimWorker>(job_, plan_->layout, memory_, rank, std::move(ports));
  schemas::DatasetReport report;
  report.rank = rank;
  report.train.records = job_.records;
  event(id, actors::DatasetChecked{report});
}

void Simulation::tick(std::uint64_t generation, const schemas::ActorId& id) {
  if (!alive(generation, id)) return;
  event(id, actors::Tick{now_us_ / 1000});
  repeat_by_time(id);
  at(kTickUs, [this, generation, id] { tick(generation, id); });
}

void Simulation::coordinator_tick(std::uint64_t generation) {
  if (generation != generation_ || !job_state_) return;
  drive(job_state_->handle(control::Tick{now_us_ / 1000}));
  at(kTickUs, [this, generation] { coordinator_tick(generation); });
}

/// A role dies. Its agent tells the coordinator; when that is the victim the agents, after a grace,
/// stop everybody.
void Simulation::kill() {
  if (actors_.empty() || !job_state_ || job_state_->ended()) return;
  const std::size_t victim = job_.faults.kill_role % (actors_.size() + 1);
  trace({1, generation_, victim});
  const std::uint64_t delay_us = random_.between(100, 50'000);
  if (victim == actors_.size()) {
    victim_ = "coordinator";
    job_state_.reset();
    return at(delay_us,
              [this] { job_ended(base::Status(base::Errc::unavailable, "the coordinator died")); });
  }
  const schemas::ActorId id =
      std::next(actors_.begin(), static_cast<std::ptrdiff_t>(victim))->first;
  dead_ = actors_.extract(id);  // its buffers may still be in others' hands
  victim_ = job_state_->roster().placement.name_of(id);
  at(delay_us, [this] {
    drive(job_state_->handle(
        control::Abort{base::error(base::Errc::unavailable, "{} died", victim_)}));
  });
}

void Simulation::drive(const std::vector<control::JobState::Effect>& effects) {
  for (const control::JobState::Effect& effect : effects) {
    std::visit([this](const auto& what) { perform(what); }, effect);
  }
}

void Simulation::perform(const control::Send<schemas::ActorId>& send) {
  schemas::Message message = send.message;
  if (auto* cut = std::get_if<schemas::ExtraCut>(&message)) {
    const bool to_rank_holder = send.to.role == schemas::Role::device_server;
    if (!to_rank_holder && send.to.index == 0) checker_->extra_cut(cut->step, cut->last);
    if (bug_ == Bug::torn_cut && !to_rank_holder && send.to.index == 1) ++cut->step;
    if (bug_ == Bug::running_on && to_rank_holder) cut->last = false;
  }
  announce(send.to, message);
}

/// Somebody wants a checkpoint now; with the last of a run it is to be stopped.
void Simulation::want_cut(bool last) {
  if (!job_state_ || job_state_->ended()) return;
  // A run that begins with the job's last checkpoint is over before anybody can ask (RunState).
  if (placement_.start_step == job_.total_steps()) return;
  trace({6, generation_, last});
  wishes_[++wishes_told_] = {last, checker_->begun()};
  drive(job_state_->handle(control::CutWanted{wishes_told_, last}));
}

/// A wish fails when the disk does, with the job, and before there is anything to save.
void Simulation::perform(const control::CutSettled& settled) {
  const auto wish = wishes_.extract(settled.wish);
  if (wish.empty()) return checker_->fail("a wish is settled that nobody has");
  const base::Errc code = settled.status.code();
  const bool excused = job_state_->ended() || !job_state_->trains() ||
                       (code == base::Errc::resource_exhausted && disk_faults_ > 0);
  if (!settled.status.ok() && !excused) {
    return checker_->fail("a checkpoint out of turn: " + settled.status.to_string());
  }
  if (settled.status.ok()) {
    ++outcome_.cuts;
    const bool whole = checkpoints_.contains(settled.step);
    if (!whole) checker_->fail(fmt::format("the cut at step {} is not there", settled.step));
    if (settled.step <= wish.mapped().begun && settled.step < job_.total_steps()) {
      checker_->fail(fmt::format("the cut at step {} lacks step {}, which had begun before it",
                                 settled.step, wish.mapped().begun));
    }
    if (wish.mapped().last && checkpoints_.rbegin()->first != settled.step) {
      checker_->fail(fmt::format("the run's last cut is {}, not {}", checkpoints_.rbegin()->first,
                                 settled.step));
    }
  }
  const bool done = settled.status.ok() && settled.step == job_.total_steps();
  if (!wish.mapped().last || job_state_->ended() || done) return;
  stopped_ = true;
  drive(
      job_state_->handle(control::Abort{base::error(base::Errc::cancelled, "stopped by request")}));
}

void Simulation::perform(const control::End& end) {
  job_ended(end.status);
}

/// A success is the end; after a failure everything stops and a person starts the job again.
void Simulation::job_ended(const base::Status& status) {
  if (status.ok()) return succeed();
  outcome_.failure = status.text();
  const bool asked_for = stopped_ && status.code() == base::Errc::cancelled;
  if (!asked_for && (victim_.empty() || outcome_.failure.find(victim_) == std::string::npos)) {
    return checker_->fail("the job failed: " + status.to_string());
  }
  at(random_.between(1'000, 30'000), [this] {
    const std::uint64_t step = checkpoints_.empty() ? 0 : checkpoints_.rbegin()->first;
    dead_ = {};
    actors_.clear();  // nothing of the failed run acts any more; its messages still arrive
    launch(generation_ + 1, step);
  });
}

void Simulation::new_view() {
  if (!job_state_ || job_state_->ended()) return;
  ++placement_.view;
  for (auto& [id, actor] : actors_) announce(id, placement_);
}

void Simulation::succeed() {
  succeeded_ = true;
  checker_->end();
  for (auto& [id, actor] : actors_) {
    outcome_.repeated += actor.mail().repeated;
    outcome_.asked += actor.mail().asked;
    if (!actor.figures) continue;
    outcome_.worker_bytes += actor.figures->counters().worker_push_bytes;
    outcome_.owner_bytes += actor.figures->counters().owner_push_bytes;
  }
  if (job_.faults.none() && outcome_.repeated > 0) {
    checker_->fail(
        fmt::format("nothing went wrong, and {} letters were sent again", outcome_.repeated));
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
