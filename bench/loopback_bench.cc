// SPDX-License-Identifier: Apache-2.0
// Push and pull of one key through the company's two tiers over loopback, one process a role: each
// host process has a device server and one rank, each parameter server is a process of its own, and
// all are linked as in a job. The updater is sgd with momentum. Every rank pushes and pulls in step
// with the others; rank 0 prints the median, and how many bytes its machine's links have moved for
// each byte of gradients and weights.
//   bench_loopback [--workers=2] [--servers=1]
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <future>

#include <fmt/format.h>

#include "actors/device_server.h"
#include "actors/outflow.h"
#include "actors/parameter_server.h"
#include "actors/worker_state.h"
#include "actors/worker_store.h"
#include "bench/report.h"
#include "link/link_set.h"

namespace troupe::bench {
namespace {

using schemas::ActorId;
using schemas::Role;

constexpr unsigned kProcessSeconds = 240;  // then a process ends itself
constexpr std::uint64_t kRecords = 1'000'000'000;

/// A key's size, and how often it goes up and down.
struct Round {
  std::int64_t bytes;
  int repetitions;
};
constexpr std::array kRounds = {Round{4 << 10, 300}, Round{256 << 10, 150}, Round{4 << 20, 30},
                                Round{64 << 20, 9}};
constexpr int kWarmup = 3;

/// What every process of the job makes for itself.
struct Setup {
  Setup(std::uint32_t workers, std::uint32_t servers) {
    auto made = std::make_shared<train::Job>();
    made->spec.name = "loopback";
    made->spec.data.batch = 1;
    made->spec.workers.machines = workers;
    made->spec.servers.shards = servers;
    made->spec.train.optimizer.momentum = 0.9;
    for (const Round& round : kRounds) {
      schemas::KeyInfo key;
      key.id = static_cast<std::uint32_t>(made->keys.keys.size());
      key.name = fmt::format("key{}_weight", round.bytes);
      key.shape = base::Shape{round.bytes / static_cast<std::int64_t>(sizeof(float)), 1};
      made->keys.keys.push_back(std::move(key));
    }
    made->orders = std::make_shared<data::EpochOrders>(
        must(data::Dealer::create({kRecords, workers, 1, made->spec.seed})));
    job = std::move(made);
    server_job = must(actors::open_server_job(job, table, std::span<const base::Device>()));
    plan = std::make_unique<const actors::JobPlan>(
        must(actors::make_job_plan("loopback", 1, job->spec, job->keys.keys)));
  }

  actors::JobParts parts() { return {actors, post_office, *plan, job, table, clock}; }
  link::LinkEnd end(ActorId actor) const { return {actor, "loopback", plan->job, 1}; }
  base::BufferPool& pool() { return storage.pool(base::Device{}); }
  /// An actor of this process learns its placement and begins.
  void open(ActorId actor) {
    schemas::Placement placement;
    for (std::uint32_t i = 0; i < job->spec.ranks(); ++i) {
      placement.machine_of_rank.push_back(i);
      placement.machines.push_back(fmt::format("machine-{}", i));
    }
    placement.machine_of_shard.assign(job->spec.shards(), 0);
    tell(actor, placement);
    tell(actor, schemas::TrainingStart{0, kRecords});
  }
  void tell(ActorId actor, schemas::Message message) {
    schemas::Envelope envelope;
    envelope.job = plan->job;
    envelope.generation = 1;
    envelope.from = actors::kCoordinator;
    envelope.to = actor;
    envelope.message = std::move(message);
    post_office.post(std::move(envelope));
  }

  const ops::OpTable table = ops::OpTable::build();
  base::SteadyClock clock;
  storage::Storage storage;
  std::shared_ptr<const train::Job> job;
  actors::ServerJob server_job;
  std::unique_ptr<const actors::JobPlan> plan;
  actors::ActorSystem actors;
  actors::PostOffice post_office;
};

/// The other end of a link.
class Peer final : public link::LinkHandler {
 public:
  explicit Peer(actors::PostOffice& post_office) : post_office_(post_office) {}
  void open(ActorId peer, std::shared_ptr<link::Link> link) {
    outflow_->begin([link = std::move(link)](schemas::Envelope& envelope) {
      if (!link->has_room()) return false;
      // A link that is down ends the benchmark by silence.
      static_cast<void>(link->send(std::move(envelope)).ok());
      return true;
    });
    post_office_.open(peer, [outflow = outflow_](schemas::Envelope envelope) {
      outflow->post(std::move(envelope));
    });
  }
  void on_envelope(schemas::Envelope envelope) override { post_office_.post(std::move(envelope)); }
  void on_drained() override { outflow_->drained(); }
  void on_down(const base::Status&) override {}

 private:
  actors::PostOffice& post_office_;
  const std::shared_ptr<actors::Outflow> outflow_ = std::make_shared<actors::Outflow>();
};

/// Serves until `orders` is closed; says its address on `answers`.
void serve(Setup& setup, std::uint32_t shard, int orders, int answers) {
  const ActorId self{Role::parameter_server, shard};
  const actors::ParameterServer server(setup.parts(), setup.server_job, shard);
  link::LinkSet links(setup.job->spec.limits, setup.pool());
  const auto address =
      must(links.listen("127.0.0.1:0", setup.end(self),
                        [&](const schemas::Hello& hello, const std::shared_ptr<link::Link>& link)
                            -> base::Result<std::shared_ptr<link::LinkHandler>> {
                          const auto peer = std::make_shared<Peer>(setup.post_office);
                          peer->open(hello.actor, link);
                          return std::shared_ptr<link::LinkHandler>(peer);
                        }));
  setup.open(self);
  const std::string line = address + "\n";
  TROUPE_CHECK(::write(answers, line.data(), line.size()) > 0, "no way to say the address");
  char nothing = 0;
  static_cast<void>(::read(orders, &nothing, 1));
  std::_Exit(0);
}

/// A rank's KVStore over the tiers, without data and network. `links`: of its machine.
class Rank final : public actors::JobRole<Rank, actors::WorkerState> {
 public:
  Rank(Setup& setup, std::uint32_t rank, const std::vector<std::shared_ptr<link::Link>>& links)
      : JobRole(setup.parts(), {Role::worker, rank}, *setup.plan, rank),
        setup_(setup),
        rank_(rank),
        links_(links),
        engine_(engine::make_threaded_engine({}, setup.clock)),
        store_(rank, setup.job->spec, runtime_,
               [this](actors::WorkerEvent event) { post(std::move(event)); }) {
    begin();
  }
  ~Rank() { end(); }

  void run() {
    must(store_.init(setup_.plan->keys, {}));
    setup_.open({Role::worker, rank_});
    started_.get_future().wait();
    for (std::uint32_t key = 0; key < kRounds.size(); ++key) exchange(key);
  }

 private:
  friend class actors::RoleShell<Rank, actors::WorkerState>;
  using JobRole::perform;
  void perform(const actors::StartTraining&) { started_.set_value(); }
  void perform(const actors::GradientTaken& taken) { store_.taken(taken); }
  void perform(actors::WeightsReady ready) { store_.ready(std::move(ready)); }
  void perform(const actors::Fail& fail) { must(fail.status); }
  void perform(const actors::End&) {}

  void exchange(std::uint32_t key) {
    const base::Shape shape = setup_.plan->keys[key].shape;
    const auto weight = must(ndarray::NDArray::zeros(runtime_, shape));
    const auto gradient = must(ndarray::NDArray::zeros(runtime_, shape));
    store_.pull(key, weight, {0, true, 0});
    must(weight.wait());
    const std::uint64_t before = link_bytes();
    std::uint64_t step = 0;
    const Seconds each = measure(kWarmup, kRounds[key].repetitions, 1.0, [&] {
      store_.push(key, gradient, {step, 1.0, 0});
      store_.pull(key, weight, {++step, false, 0});
      must(weight.wait());
    });
    if (rank_ != 0) return;
    const schemas::JobSpec& spec = setup_.job->spec;
    print_row(fmt::format("loopback {} workers {} servers {} B", spec.ranks(), spec.shards(),
                          kRounds[key].bytes),
              {each.wall, 0.0});
    const double needed = 2.0 * static_cast<double>(step) * static_cast<double>(kRounds[key].bytes);
    fmt::print("# links moved {:.3f} bytes for each one needed\n",
               static_cast<double>(link_bytes() - before) / needed);
  }
  std::uint64_t link_bytes() const {
    std::uint64_t bytes = 0;
    for (const auto& link : links_) {
      const link::LinkFigures figures = link->stats();
      bytes += figures.bytes_sent + figures.bytes_received;
    }
    return bytes;
  }

  Setup& setup_;
  const std::uint32_t rank_;
  const std::vector<std::shared_ptr<link::Link>>& links_;
  ndarray::PreparedKernels kernels_;
  std::unique_ptr<engine::Engine> engine_;
  ndarray::Runtime runtime_{*engine_, setup_.storage, setup_.table, kernels_, setup_.clock};
  std::promise<void> started_;
  actors::WorkerStore store_;
};

/// A host process: level 1 and a rank, linked to all shards.
void host(Setup& setup, std::uint32_t machine, const std::vector<std::string>& addresses) {
  const ActorId self{Role::device_server, machine};
  const actors::DeviceServer server(setup.parts(), setup.server_job, machine);
  link::LinkSet links(setup.job->spec.limits, setup.pool());
  std::vector<std::shared_ptr<link::Link>> dialed;
  for (std::uint32_t shard = 0; shard < addresses.size(); ++shard) {
    const ActorId peer{Role::parameter_server, shard};
    link::DialOptions dial{addresses[shard], setup.end(self), setup.end(peer), 1, 5'000};
    const auto handler = std::make_shared<Peer>(setup.post_office);
    dialed.push_back(must(links.dial(std::move(dial), handler)));
    handler->open(peer, dialed.back());
  }
  setup.open(self);
  Rank rank(setup, machine, dialed);
  rank.run();
  std::_Exit(0);
}

std::string read_line(int from) {
  std::string line;
  for (char next = 0; ::read(from, &next, 1) == 1 && next != '\n';) line += next;
  return line;
}

template <typename F>
pid_t fork_role(F&& role) {
  const pid_t child = ::fork();
  TROUPE_CHECK(child >= 0, "fork failed");
  if (child != 0) return child;
  ::alarm(kProcessSeconds);
  role();
  std::_Exit(0);
}

int run(int argc, char** argv) {
  const auto workers = static_cast<std::uint32_t>(option(argc, argv, "workers", 2));
  const auto servers = static_cast<std::uint32_t>(option(argc, argv, "servers", 1));
  std::array<int, 2> orders{};
  TROUPE_CHECK(::pipe(orders.data()) == 0, "no pipe");
  std::vector<std::string> addresses;
  std::vector<pid_t> children;
  for (std::uint32_t shard = 0; shard < servers; ++shard) {
    std::array<int, 2> answers{};
    TROUPE_CHECK(::pipe(answers.data()) == 0, "no pipe");
    children.push_back(fork_role([&] {
      ::close(orders[1]);
      Setup setup(workers, servers);
      serve(setup, shard, orders[0], answers[1]);
    }));
    ::close(answers[1]);
    addresses.push_back(read_line(answers[0]));
    ::close(answers[0]);
  }
  std::vector<pid_t> hosts;
  for (std::uint32_t machine = 0; machine < workers; ++machine) {
    hosts.push_back(fork_role([&] {
      ::close(orders[1]);
      Setup setup(workers, servers);
      host(setup, machine, addresses);
    }));
  }
  int failures = 0;
  const auto reap = [&](pid_t child) {
    int status = 0;
    ::waitpid(child, &status, 0);
    failures += status == 0 ? 0 : 1;
  };
  for (const pid_t child : hosts) reap(child);
  ::close(orders[1]);  // the servers end
  for (const pid_t child : children) reap(child);
  return failures == 0 ? 0 : 1;
}

}  // namespace
}  // namespace troupe::bench

int main(int argc, char** argv) {
  return troupe::bench::run(argc, argv);
}
