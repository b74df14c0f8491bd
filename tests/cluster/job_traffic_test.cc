// SPDX-License-Identifier: Apache-2.0
// What a job moves over its links: two machines and one parameter server, each with links, actors
// and an engine of its own as in processes of their own, push and pull a key. Counted by the links.
#include <algorithm>
#include <future>
#include <memory>
#include <span>

#include "actors/device_server.h"
#include "actors/outflow.h"
#include "actors/parameter_server.h"
#include "actors/worker_state.h"
#include "data/batch_iterator.h"
#include "link/link_set.h"
#include "storage/storage.h"
#include "tests/link/link_support.h"
#include "tests/support/catch.h"

namespace troupe::cluster {
namespace {

using schemas::ActorId;
using schemas::Role;

constexpr std::uint32_t kMachines = 2;
constexpr std::uint64_t kRecords = 1'000'000;
constexpr std::chrono::minutes kWait{5};

std::shared_ptr<const train::Job> make_job(std::size_t bytes) {
  auto job = std::make_shared<train::Job>();
  job->spec.name = "traffic";
  job->spec.data.batch = 1;
  job->spec.workers.machines = kMachines;
  job->spec.servers.shards = 1;
  job->spec.train.optimizer.momentum = 0.9;
  schemas::KeyInfo key;
  key.name = "weight";
  key.shape = {static_cast<std::int64_t>(bytes / sizeof(float)), 1};
  job->keys.keys.push_back(std::move(key));
  job->orders = std::make_shared<data::EpochOrders>(
      data::Dealer::create({kRecords, kMachines, 1, job->spec.seed}).value());
  return job;
}

/// What a process of the job has for itself.
struct Process {
  Process(const std::shared_ptr<const train::Job>& the_job, ActorId actor)
      : self(actor),
        job(the_job),
        server_job(actors::open_server_job(job, table, std::span<const base::Device>()).value()),
        plan(actors::make_job_plan("traffic", 1, job->spec, job->keys.keys).value()) {}

  actors::JobParts parts() { return {actors, post_office, plan, job, table, clock}; }
  link::LinkEnd end_of(ActorId actor) const { return {actor, "here", plan.job, 1}; }
  void tell(ActorId actor, schemas::Message message) {
    schemas::Envelope envelope;
    envelope.job = plan.job;
    envelope.generation = 1;
    envelope.from = actors::kCoordinator;
    envelope.to = actor;
    envelope.message = std::move(message);
    post_office.post(std::move(envelope));
  }
  void open(ActorId actor) {
    schemas::Placement placement;
    for (std::uint32_t machine = 0; machine < kMachines; ++machine) {
      placement.machine_of_rank.push_back(machine);
      placement.machines.push_back(std::to_string(machine));
    }
    placement.machine_of_shard = {0};
    tell(actor, placement);
    tell(actor, schemas::TrainingStart{0, kRecords});
  }

  const ActorId self;
  const ops::OpTable table = ops::OpTable::build();
  base::SteadyClock clock;
  storage::Storage storage;
  std::shared_ptr<const train::Job> job;
  actors::ServerJob server_job;
  const actors::JobPlan plan;
  actors::ActorSystem actors;
  actors::PostOffice post_office;
};

/// The other end of a link, as a job's process has it.
class Peer final : public link::LinkHandler {
 public:
  Peer(ActorId peer, actors::PostOffice& post_office) : peer_(peer), post_office_(post_office) {}
  void open(std::shared_ptr<link::Link> link) {
    outflow_->begin([link](schemas::Envelope& envelope) {
      if (!link->has_room()) return false;
      CHECK(link->send(std::move(envelope)).ok());
      return true;
    });
    post_office_.open(peer_, [outflow = outflow_](schemas::Envelope envelope) {
      outflow->post(std::move(envelope));
    });
  }
  void on_envelope(schemas::Envelope envelope) override { post_office_.post(std::move(envelope)); }
  void on_drained() override { outflow_->drained(); }
  void on_down(const base::Status&) override { post_office_.close(peer_); }

 private:
  const ActorId peer_;
  actors::PostOffice& post_office_;
  const std::shared_ptr<actors::Outflow> outflow_ = std::make_shared<actors::Outflow>();
};

/// A rank that pushes the same gradient again and again.
class Rank final : public actors::JobRole<Rank, actors::WorkerState> {
 public:
  Rank(Process& process, std::uint32_t rank, base::Buffer gradient, std::uint64_t steps)
      : JobRole(process.parts(), {Role::worker, rank}, process.plan, rank),
        gradient_(std::move(gradient)),
        steps_(steps) {
    begin();
  }
  ~Rank() { end(); }
  std::future<void> done() { return done_.get_future(); }

 private:
  friend class actors::RoleShell<Rank, actors::WorkerState>;
  using JobRole::perform;
  void perform(const actors::StartTraining&) { post(actors::PullWanted{0, 0, true}); }
  void perform(const actors::GradientTaken&) {}
  void perform(const actors::WeightsReady& ready) {
    if (ready.step == steps_) return done_.set_value();
    post(actors::PushWanted{0, ready.step, 1.0, gradient_});
    post(actors::PullWanted{0, ready.step + 1, false});
  }
  void perform(const actors::Fail& fail) { FAIL_CHECK(fail.status.to_string()); }
  void perform(const actors::End&) {}

  const base::Buffer gradient_;
  const std::uint64_t steps_;
  std::promise<void> done_;
};

/// The parameter server's process.
struct Owner {
  explicit Owner(const std::shared_ptr<const train::Job>& job)
      : process(job, {Role::parameter_server, 0}),
        server(process.parts(), process.server_job, 0),
        links(job->spec.limits, process.storage.pool({})) {
    const auto bound =
        links.listen("127.0.0.1:0", process.end_of(process.self),
                     [this](const schemas::Hello& hello, const std::shared_ptr<link::Link>& link)
                         -> base::Result<std::shared_ptr<link::LinkHandler>> {
                       const auto peer = std::make_shared<Peer>(hello.actor, process.post_office);
                       peer->open(link);
                       return std::shared_ptr<link::LinkHandler>(peer);
                     });
    REQUIRE(bound.ok());
    address = *bound;
    process.open(process.self);
  }
  ~Owner() { links.stop(); }

  Process process;
  actors::ParameterServer server;
  link::LinkSet links;
  std::string address;
};

/// A machine's process.
struct Host {
  Host(const std::shared_ptr<const train::Job>& job, std::uint32_t machine, const Process& owner,
       const std::string& address)
      : process(job, {Role::device_server, machine}),
        server(process.parts(), process.server_job, machine),
        links(job->spec.limits, process.storage.pool({})) {
    const auto peer = std::make_shared<Peer>(owner.self, process.post_office);
    link::DialOptions dial;
    dial.address = address;
    dial.self = process.end_of(process.self);
    dial.peer = process.end_of(owner.self);
    dial.data_connections = 1;
    dial.wait_ms = 5'000;
    auto dialed = links.dial(std::move(dial), peer);
    REQUIRE(dialed.ok());
    link = *dialed;
    peer->open(link);
    process.open(process.self);
  }
  ~Host() { links.stop(); }

  Process process;
  actors::DeviceServer server;
  std::unique_ptr<Rank> rank;
  link::LinkSet links;
  std::shared_ptr<link::Link> link;
};

struct Moved {
  std::uint64_t bytes = 0;
  std::uint64_t repeated = 0;  ///< letters of servers
};

/// `bytes_per_ms`: of the network; 0: loopback's own.
Moved run_job(std::size_t bytes, std::uint64_t steps, std::size_t bytes_per_ms) {
  const auto job = make_job(bytes);
  Owner owner(job);
  const link::test::Proxy slow(
      owner.address, [](int) { return link::test::Proxy::Blow(); }, bytes_per_ms);
  const base::Buffer gradient = base::make_host_buffer(bytes);
  std::fill_n(gradient.as<float>().data(), bytes / sizeof(float), 0.5F);
  std::vector<std::unique_ptr<Host>> hosts;
  std::vector<std::future<void>> done;
  for (std::uint32_t machine = 0; machine < kMachines; ++machine) {
    hosts.push_back(std::make_unique<Host>(job, machine, owner.process,
                                           bytes_per_ms == 0 ? owner.address : slow.address()));
    Host& host = *hosts.back();
    host.rank = std::make_unique<Rank>(host.process, machine, gradient, steps);
    done.push_back(host.rank->done());
    host.process.open({Role::worker, machine});
  }
  for (const auto& rank : done) REQUIRE(rank.wait_for(kWait) == std::future_status::ready);
  const auto repeated = [](const auto& state) { return state.mail_counters().repeated; };
  Moved moved;
  moved.repeated = owner.server.ask(repeated, kWait).value();
  for (const auto& host : hosts) {
    const link::LinkFigures figures = host->link->stats();
    moved.bytes += figures.bytes_sent + figures.bytes_received;
    moved.repeated += host->server.ask(repeated, kWait).value();
  }
  return moved;
}

/// Each machine's first weights, and per step its gradient up and the weights down.
std::uint64_t needed(std::size_t bytes, std::uint64_t steps) {
  return kMachines * bytes * (1 + 2 * steps);
}

TEST_CASE("64 MiB of weights cross a link once a step, up and down", "[traffic]") {
  constexpr std::size_t kBytes = 64 << 20;
  constexpr std::uint64_t kSteps = 3;
  const Moved moved = run_job(kBytes, kSteps, 0);
  CHECK(moved.repeated == 0);
  CHECK(moved.bytes >= needed(kBytes, kSteps));
  CHECK(100 * moved.bytes <= 105 * needed(kBytes, kSteps));
}

TEST_CASE("a slow network carries no byte more than a fast one", "[traffic]") {
  constexpr std::size_t kBytes = 4 << 20;
  constexpr std::uint64_t kSteps = 3;
  const Moved moved = run_job(kBytes, kSteps, 20'000);  // a step takes most of a second
  CHECK(moved.repeated == 0);
  CHECK(moved.bytes >= needed(kBytes, kSteps));
  CHECK(100 * moved.bytes <= 105 * needed(kBytes, kSteps));
}

}  // namespace
}  // namespace troupe::cluster
