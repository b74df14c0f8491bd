// SPDX-License-Identifier: Apache-2.0
// Whole jobs by the company in one process: the local store's bits, whatever the number of shards;
// all modes learn; failures name their cause.
#include "actors/company.h"

#include <fmt/format.h>

#include <fstream>
#include <regex>
#include <set>

#include "base/hash.h"
#include "store/checkpoint.h"
#include "symbol/symbol.h"
#include "tests/support/catch.h"
#include "tests/support/job_files.h"
#include "tests/support/late_ranks.h"
#include "tests/support/whole_job.h"

namespace troupe::actors {
namespace {

using tests::JobOutcome;

tests::JobRun company_run(const CompanyOptions& options = {}) {
  return
      [options](const auto& job, const ops::OpTable& table, base::Clock& clock,
                train::JobObserver& seen) { return run_company(job, table, clock, seen, options); };
}

JobOutcome run(const ops::OpTable& table, const schemas::JobSpec& spec, bool company,
               const CompanyOptions& options = {}) {
  return tests::run_job(table, spec, company ? company_run(options) : tests::local_run());
}

std::string trained_hash(const ops::OpTable& table, const schemas::JobSpec& spec,
                         const std::string& out, bool company = true,
                         const CompanyOptions& options = {}) {
  return tests::trained_hash(table, spec, out, company ? company_run(options) : tests::local_run());
}

void write_data(const TestFolder& folder, std::uint64_t records) {
  train::write_test_records(folder.path() / "train.rec", records, 12);
  train::write_test_records(folder.path() / "test.rec", 40, 12);
}

TEST_CASE("the company ends in the local store's bits with any number of shards", "[company]") {
  const TestFolder folder("company-bits");
  write_data(folder, 203);
  const ops::OpTable table = ops::OpTable::build();
  schemas::JobSpec spec = train::test_job(folder.path(), "tiny-bn");
  const std::string local = trained_hash(table, spec, "local", false);
  for (std::uint32_t shards : {1U, 2U, 3U}) {
    spec.servers.shards = shards;
    CHECK(trained_hash(table, spec, fmt::format("company-{}", shards)) == local);
  }
  spec.train.max_steps = 9;
  CHECK(trained_hash(table, spec, "parts") != local);
  spec.train.max_steps.reset();
  CHECK(trained_hash(table, spec, "parts") == local);
}

TEST_CASE("workers on a device with streams end in the host's bits", "[company]") {
  const TestFolder folder("company-late");
  write_data(folder, 203);
  const ops::OpTable table = ops::OpTable::build();
  schemas::JobSpec spec = train::test_job(folder.path(), "tiny-bn");
  spec.servers.shards = 2;
  spec.numerics.gradient_wire = schemas::WireType::bf16;
  const std::string host = trained_hash(table, spec, "host", false);
  const tests::LateRanks late(spec.ranks(), 3);
  CHECK(trained_hash(table, spec, "late", true, {.run = late.on_device(), .server_observer = {}}) ==
        host);
  for (const std::size_t kind : {0U, 1U}) CHECK(late.added(kind) > 0);
  CHECK(late.launches() > 0);
  const CompanyOptions runs = {.run = late.on_device({.run_bytes = 1'000}), .server_observer = {}};
  CHECK(trained_hash(table, spec, "late-runs", true, runs) == host);

  spec.workers.gpu_sums = spec.workers.gpu_graphs = false;
  const tests::LateRanks plain(spec.ranks(), 3);
  CHECK(trained_hash(table, spec, "late-plain", true,
                     {.run = plain.on_device(), .server_observer = {}}) == host);
  for (const std::size_t kind : {0U, 1U, 2U}) CHECK(plain.ran(kind) > 0);
  for (const std::size_t kind : {0U, 1U}) CHECK(plain.added(kind) == 0);
  CHECK(plain.launches() == 0);
}

TEST_CASE("what travels in 16 bits ends in the local store's bits, too", "[company]") {
  const TestFolder folder("company-wires");
  write_data(folder, 203);
  const ops::OpTable table = ops::OpTable::build();
  schemas::JobSpec spec = train::test_job(folder.path(), "tiny-bn");
  // Three machines of two: sums of parts of the job travel, too.
  spec.workers.machines = 3;
  spec.workers.devices = 2;
  using schemas::WireType;
  std::set<std::string> hashes;
  for (const auto& [gradients, weights] :
       {std::pair(WireType::same, WireType::same), std::pair(WireType::bf16, WireType::same),
        std::pair(WireType::same, WireType::f16), std::pair(WireType::f16, WireType::bf16)}) {
    spec.numerics.gradient_wire = gradients;
    spec.numerics.weight_wire = weights;
    const std::string local = trained_hash(table, spec, "local", false);
    spec.servers.shards = 2;
    CHECK(trained_hash(table, spec, "company") == local);
    // Ranks that their groups do not hold together: other sums travel.
    spec.workers.machines = 2;
    spec.workers.devices = 3;
    const std::string wide = trained_hash(table, spec, "wide", false);
    CHECK(trained_hash(table, spec, "wide-company") == wide);
    spec.workers.machines = 3;
    spec.workers.devices = 2;
    // In two parts, the second from a checkpoint: what is kept is not rounded.
    spec.train.max_steps = 9;
    trained_hash(table, spec, "parts");
    spec.train.max_steps.reset();
    CHECK(trained_hash(table, spec, "parts") == local);
    CHECK(hashes.insert(local).second);
    for (const char* run : {"local", "company", "wide", "wide-company", "parts"}) {
      std::filesystem::remove_all(folder.path() / run);
    }
  }
}

TEST_CASE("steps that are judged end in the local store's bits, too", "[company]") {
  const TestFolder folder("company-judged");
  write_data(folder, 203);
  const ops::OpTable table = ops::OpTable::build();
  schemas::JobSpec spec = train::test_job(folder.path(), "tiny-bn");
  spec.workers.machines = 2;
  spec.workers.devices = 2;
  spec.servers.shards = 3;
  spec.train.optimizer.clip_norm = 0.05;
  const std::string clipped = trained_hash(table, spec, "clipped", false);
  CHECK(trained_hash(table, spec, "clipped-company") == clipped);
  // A scale that overflows at first; every later step counts.
  spec.numerics.dtype = base::DType::f16;
  spec.numerics.loss_scale = 262'144.0;
  const std::string local = trained_hash(table, spec, "local", false);
  CHECK(local != clipped);
  CHECK(trained_hash(table, spec, "company") == local);
  const tests::LateRanks late(spec.ranks(), 2);
  const CompanyOptions on_devices = {.run = late.on_device(), .server_observer = {}};
  CHECK(trained_hash(table, spec, "company-late", true, on_devices) == local);
  CHECK(late.added(0) > 0);
  spec.train.max_steps = 5;
  trained_hash(table, spec, "parts");
  spec.train.max_steps.reset();
  CHECK(trained_hash(table, spec, "parts") == local);
}

TEST_CASE("multipliers of keys give the same bits in the company as in the local store",
          "[company]") {
  const TestFolder folder("company-keys");
  write_data(folder, 100);
  const ops::OpTable table = ops::OpTable::build();
  schemas::JobSpec spec = train::test_job(folder.path(), "tiny-bn");
  const std::string plain = trained_hash(table, spec, "plain");
  spec.train.optimizer.decay = schemas::Decay::weights;
  spec.train.keys = {{"conv1_*", 0.0, {}}, {"fc1_weight", 0.5, 3.0}};
  const std::string local = trained_hash(table, spec, "local", false);
  CHECK(trained_hash(table, spec, "company") == local);
  CHECK(local != plain);
}

TEST_CASE("every combination of the tiers' modes learns", "[company]") {
  const TestFolder folder("company-modes");
  write_data(folder, 203);
  const ops::OpTable table = ops::OpTable::build();
  using Mode = schemas::ConsistencyMode;
  for (const Mode device : {Mode::sequential, Mode::eventual}) {
    for (const Mode cluster : {Mode::sequential, Mode::eventual}) {
      schemas::JobSpec spec = train::test_job(folder.path(), "tiny-bn");
      spec.consistency.device.mode = device;
      spec.consistency.cluster.mode = cluster;
      spec.train.epochs = 6;
      spec.checkpoint.dir = folder.path() / fmt::format("modes-{}{}", static_cast<int>(device),
                                                        static_cast<int>(cluster));
      const tests::LateRanks late(spec.ranks(), 2);
      CompanyOptions on_devices;
      on_devices.run = late.on_device();
      for (const CompanyOptions& options : {CompanyOptions(), on_devices}) {
        const JobOutcome outcome = run(table, spec, true, options);
        INFO(spec.checkpoint.dir << " " << outcome.status.to_string());
        REQUIRE(outcome.status.ok());
        CHECK(outcome.seen.scores.back().accuracy() > 0.7);
        CHECK(outcome.seen.steps.back() == 42);
        spec.checkpoint.dir += "-late";
      }
      CHECK((late.added(0) > 0) == (device == Mode::sequential));
    }
  }
}

TEST_CASE("max_staleness bounds what servers observe", "[company]") {
  const TestFolder folder("company-staleness");
  write_data(folder, 203);
  const ops::OpTable table = ops::OpTable::build();
  schemas::JobSpec spec = train::test_job(folder.path(), "tiny-bn");
  spec.consistency.device = {schemas::ConsistencyMode::eventual, 1};
  spec.consistency.cluster = {schemas::ConsistencyMode::eventual, 2};
  std::atomic<std::uint64_t> worst[3] = {};
  CompanyOptions options;
  options.server_observer = [&](schemas::ActorId) {
    ServerObserver observer;
    observer.figures.staleness = [&](const Staleness& seen) {
      std::atomic<std::uint64_t>& most = worst[seen.level];
      std::uint64_t before = most.load();
      while (before < seen.steps && !most.compare_exchange_weak(before, seen.steps)) {
      }
    };
    return observer;
  };
  const JobOutcome outcome = run(table, spec, true, options);
  INFO(outcome.status.to_string());
  REQUIRE(outcome.status.ok());
  CHECK(worst[1] <= 1);
  CHECK(worst[2] <= 2);
}

TEST_CASE("a sum beyond the range of f16 ends the job by key and step, where that is checked",
          "[company]") {
  const TestFolder folder("company-range");
  write_data(folder, 203);
  const ops::OpTable table = ops::OpTable::build();
  schemas::JobSpec spec = train::test_job(folder.path(), "mlp");
  spec.numerics.gradient_wire = schemas::WireType::f16;
  spec.data.std = {1e-6};  // large data, and so large gradients
  for (const bool company : {false, true}) {
    spec.train.non_finite = schemas::NonFinite::fail;
    const JobOutcome outcome = run(table, spec, company);
    INFO(outcome.status.to_string());
    CHECK(outcome.status.code() == base::Errc::not_finite);
    CHECK_THAT(outcome.status.text(), Catch::Contains("the sum of gradients of step ") &&
                                          Catch::Contains("beyond the range of f16"));
    spec.train.non_finite = schemas::NonFinite::ignore;
    spec.checkpoint.dir.clear();
    CHECK(run(table, spec, company).status.ok());
  }
}

/// Bytes pushed to device server 0 and from it.
std::pair<std::uint64_t, std::uint64_t> pushed_bytes(const ops::OpTable& table,
                                                     const schemas::JobSpec& spec) {
  std::atomic<std::uint64_t> from_workers{0};
  std::atomic<std::uint64_t> to_owners{0};
  CompanyOptions options;
  options.server_observer = [&](schemas::ActorId actor) {
    ServerObserver observer;
    if (actor == schemas::ActorId{schemas::Role::device_server, 0}) {
      observer.counters = [&](const ServerCounters& totals) {
        const auto& counters = std::get<DeviceServerCounters>(totals);
        from_workers = counters.worker_push_bytes;
        to_owners = counters.owner_push_bytes;
      };
    }
    return observer;
  };
  REQUIRE(run(table, spec, true, options).status.ok());
  return {from_workers, to_owners};
}

TEST_CASE("traffic to level 2 is the workers' divided by the devices", "[company]") {
  const TestFolder folder("company-traffic");
  write_data(folder, 203);
  const ops::OpTable table = ops::OpTable::build();
  schemas::JobSpec spec = train::test_job(folder.path(), "tiny-bn");
  const auto [from_workers, to_owners] = pushed_bytes(table, spec);
  CHECK(from_workers > 0);
  CHECK(from_workers == to_owners * spec.workers.devices);

  // In 16 bits half of it, but for vectors.
  spec.checkpoint.dir = folder.path() / "half";
  spec.numerics.gradient_wire = schemas::WireType::bf16;
  const auto [half_from_workers, half_to_owners] = pushed_bytes(table, spec);
  CHECK(half_from_workers == half_to_owners * spec.workers.devices);
  CHECK(static_cast<double>(half_to_owners) < 0.55 * static_cast<double>(to_owners));
  CHECK(half_to_owners >= to_owners / 2);
}

// flatten, fully_connected of fewer outputs than the records have labels, softmax_output that may
// leave some out: so records may have any.
std::string narrow_network(const ops::OpTable& table) {
  symbol::Composer composer(table);
  const symbol::Symbol flat = composer.call("flatten", "flat", {composer.variable("data")});
  const symbol::Symbol outputs =
      composer.call("fully_connected", "fc", {flat}, {{"num_hidden", "2"}});
  const auto network = composer.finish(
      composer.call("softmax_output", "softmax", {outputs}, {{"use_ignore", "True"}}));
  REQUIRE(network.ok());
  return network->to_json();
}

TEST_CASE("an operator that fails ends the job by its name", "[company]") {
  const TestFolder folder("company-operator");
  write_data(folder, 203);
  const ops::OpTable table = ops::OpTable::build();
  schemas::JobSpec spec = train::test_job(folder.path(), "");
  spec.model.symbol_json = narrow_network(table);
  for (const bool company : {false, true}) {
    const JobOutcome outcome = run(table, spec, company);
    CHECK_FALSE(outcome.status.ok());
    CHECK_THAT(outcome.status.text(), Catch::Contains("softmax"));
  }
}

TEST_CASE("a gradient that is not finite ends the job by rank, step and key", "[company]") {
  const TestFolder folder("company-finite");
  write_data(folder, 203);
  const ops::OpTable table = ops::OpTable::build();
  schemas::JobSpec spec = train::test_job(folder.path(), "mlp");
  spec.train.optimizer.lr = 1e30;
  const std::regex named("the gradient of '[a-z0-9_]+' of rank [0-3] at step [1-3] holds [0-9]+ ");
  for (const bool company : {false, true}) {
    spec.train.non_finite = schemas::NonFinite::fail;
    const JobOutcome outcome = run(table, spec, company);
    INFO(outcome.status.to_string());
    CHECK(outcome.status.code() == base::Errc::not_finite);
    CHECK(std::regex_search(outcome.status.text(), named));
    spec.train.non_finite = schemas::NonFinite::ignore;
    spec.checkpoint.dir.clear();
    CHECK(run(table, spec, company).status.ok());
  }
}

TEST_CASE("a last checkpoint that cannot be written fails the job", "[company]") {
  const TestFolder folder("company-last");
  write_data(folder, 203);
  const ops::OpTable table = ops::OpTable::build();
  schemas::JobSpec spec = train::test_job(folder.path(), "tiny-bn");
  spec.checkpoint.every.count = 0;
  spec.servers.shards = 1;
  const bool company = GENERATE(true, false);
  // A folder where the shard's file must go.
  std::filesystem::create_directories(spec.checkpoint.dir +
                                      "/step-14-g1-shard-0-of-1.safetensors/in-the-way");
  const JobOutcome outcome = run(table, spec, company);
  CHECK_FALSE(outcome.status.ok());
  CHECK_THAT(outcome.status.text(), Catch::Contains("step-14"));
}

TEST_CASE("damaged data fails the job by the rank's name, and a stop ends it", "[company]") {
  const TestFolder folder("company-fails");
  write_data(folder, 203);
  const ops::OpTable table = ops::OpTable::build();
  schemas::JobSpec spec = train::test_job(folder.path(), "tiny-bn");
  std::atomic<bool> stop{true};
  CompanyOptions options;
  options.run.stop = &stop;
  CHECK(run(table, spec, true, options).status.code() == base::Errc::cancelled);

  std::fstream file(spec.data.train, std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(100 * 188 + 60);
  file.write("garbage", 7);
  file.close();
  // A run that was stopped late has saved a step, and would go on only with the data as it was.
  spec.checkpoint.dir = folder.path() / "damaged";
  const JobOutcome outcome = run(table, spec, true);
  CHECK(outcome.status.code() == base::Errc::data_loss);
  CHECK_THAT(outcome.status.text(), Catch::Contains("worker") && Catch::Contains("train.rec"));
}

/// Asks for the end of the run when all ranks have done two steps.
class Impatient final : public train::JobObserver {
 public:
  void progress(const control::StepProgress& progress) override { stop = progress.step >= 2; }
  void scored(const control::EpochScore&) override {}
  void checkpointed(std::uint64_t step, const std::string&) override { cuts.push_back(step); }
  std::atomic<bool> stop{false};
  std::vector<std::uint64_t> cuts;
};

TEST_CASE("a run that is stopped saves what it has done, and ends in the same bits", "[company]") {
  const TestFolder folder("company-stop");
  write_data(folder, 203);
  const ops::OpTable table = ops::OpTable::build();
  schemas::JobSpec spec = train::test_job(folder.path(), "tiny-bn");
  spec.checkpoint.every.count = 0;
  spec.train.log_every = {1, schemas::Period::Unit::steps};
  spec.train.epochs = 40;
  const std::string whole = trained_hash(table, spec, "whole");
  const auto job = train::open_job(spec, table);
  REQUIRE(job.ok());
  base::SteadyClock clock;
  Impatient observer;
  CompanyOptions options;
  options.run.stop = &observer.stop;
  const base::Status status = GENERATE(true, false)
                                  ? run_company(*job, table, clock, observer, options)
                                  : train::run_local(*job, table, clock, observer, options.run);
  CHECK(status.code() == base::Errc::cancelled);
  REQUIRE(observer.cuts.size() == 1);
  CHECK(observer.cuts[0] > 2);
  CHECK(observer.cuts[0] < (*job)->steps_end());
  CHECK(run(table, spec, true).status.ok());
  const auto checkpoint = store::Checkpoint::open_newest(spec.checkpoint.dir);
  REQUIRE(checkpoint.ok());
  CHECK(base::to_hex((*checkpoint)->hash().value()) == whole);
}

}  // namespace
}  // namespace troupe::actors
