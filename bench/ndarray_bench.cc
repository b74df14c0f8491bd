// SPDX-License-Identifier: Apache-2.0
// Cost of one small imperative operation in a dependent chain: a = a + b on 4 elements, with
// everything that an array costs (shape check, prepared kernel, memory, engine).
#include <benchmark/benchmark.h>

#include "ndarray/invoke.h"

namespace troupe::ndarray {
namespace {

constexpr int kOperations = 20'000;

void small_op_chain(benchmark::State& state) {
  const ops::OpTable table = ops::OpTable::build();
  storage::Storage storage;
  PreparedKernels kernels;
  base::SteadyClock clock;
  const auto engine = engine::make_threaded_engine({}, clock);
  Runtime runtime{*engine, storage, table, kernels, clock};
  NDArray a = NDArray::zeros(runtime, base::Shape{4}).value();
  const NDArray b = NDArray::zeros(runtime, base::Shape{4}).value();
  for (auto unused : state) {
    static_cast<void>(unused);
    for (int i = 0; i < kOperations; ++i) a = a + b;
    TROUPE_CHECK(a.wait().ok(), "the chain failed");
  }
  state.counters["per_op"] =
      benchmark::Counter(static_cast<double>(kOperations * state.iterations()),
                         benchmark::Counter::kIsRate | benchmark::Counter::kInvert);
}
BENCHMARK(small_op_chain)->UseRealTime()->MeasureProcessCPUTime();

}  // namespace
}  // namespace troupe::ndarray
