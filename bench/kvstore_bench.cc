// SPDX-License-Identifier: Apache-2.0
// Push and pull of one key by two ranks through the local store: the whole way of a gradient (tree
// of additions, sgd with momentum, a new version, copies into both ranks' arrays). bytes_per_second
// counts both directions of both ranks, as the peers' scripts do.
#include <benchmark/benchmark.h>

#include <memory>
#include <vector>

#include "ndarray/ndarray.h"
#include "store/local_store.h"

namespace troupe::train {
namespace {

constexpr std::uint32_t kRanks = 2;
constexpr int kWarmup = 3;

/// A rank's engine, arrays and store.
struct Rank {
  explicit Rank(const ops::OpTable& table)
      : engine(engine::make_threaded_engine({}, clock)),
        runtime{*engine, storage, table, kernels, clock} {}

  base::SteadyClock clock;
  storage::Storage storage;
  ndarray::PreparedKernels kernels;
  std::unique_ptr<engine::Engine> engine;
  ndarray::Runtime runtime;
  ndarray::NDArray weight, gradient;
  std::unique_ptr<store::KVStore> rank_store;
};

void push_pull(benchmark::State& state) {
  const std::int64_t elements = state.range(0) / static_cast<std::int64_t>(sizeof(float));
  const ops::OpTable table = ops::OpTable::build();
  storage::Storage storage;
  ndarray::PreparedKernels kernels;
  schemas::KeyInfo key;
  key.name = "weight";
  key.shape = base::Shape{elements};
  store::StepPlan plan;
  plan.total = store::kNoStep - 1;
  plan.epoch_steps = plan.total;
  const store::LocalStoreOptions options{.workers = {.devices = kRanks}, .steps = plan};
  const store::LocalStoreParts parts{table, storage.pool(base::Device{}), kernels};
  const std::unique_ptr<store::LocalStore> store =
      store::LocalStore::create(parts, options).value();
  store::UpdateRule rule;
  rule.optimizer.momentum = 0.9;

  std::vector<std::unique_ptr<Rank>> ranks;
  for (std::uint32_t r = 0; r < kRanks; ++r) {
    Rank& rank = *ranks.emplace_back(std::make_unique<Rank>(table));
    rank.weight = ndarray::NDArray::zeros(rank.runtime, key.shape).value();
    rank.gradient = ndarray::NDArray::zeros(rank.runtime, key.shape).value();
    rank.rank_store = store->rank_store(r, rank.runtime);
    const std::vector<ndarray::NDArray> values = {rank.weight};
    TROUPE_CHECK(rank.rank_store->init({&key, 1}, values).ok(), "init failed");
  }
  for (const auto& rank : ranks)
    TROUPE_CHECK(rank->rank_store->set_updater(rule).ok(), "no updater");

  std::uint64_t step = 0;
  const auto exchange = [&] {
    for (const auto& rank : ranks) {
      rank->rank_store->push(0, rank->gradient, {step, 1.0, 0});
      rank->rank_store->pull(0, rank->weight, {step + 1, false, 0});
    }
    for (const auto& rank : ranks) TROUPE_CHECK(rank->weight.wait().ok(), "pull failed");
    ++step;
  };
  for (int i = 0; i < kWarmup; ++i) exchange();  // the first ones make the store's memory
  for (auto unused : state) {
    static_cast<void>(unused);
    exchange();
  }
  state.SetBytesProcessed(state.iterations() * state.range(0) * 2 * kRanks);
}

BENCHMARK(push_pull)
    ->Arg(4 << 10)
    ->Arg(256 << 10)
    ->Arg(4 << 20)
    ->Arg(64 << 20)
    ->UseRealTime()
    ->MeasureProcessCPUTime()
    ->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace troupe::train
