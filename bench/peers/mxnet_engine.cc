// SPDX-License-Identifier: Apache-2.0
// MXNet's dependency engine through its C interface: no-ops in the same graphs as
// bench/engine_bench.cc pushes, one JSON line a row. Compiled by peers.py where MXNet is:
//   c++ -O2 -std=c++20 -I. -Iinclude/of/mxnet bench/peers/mxnet_engine.cc libmxnet.so
#include <mxnet/c_api.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <random>

#include "bench/report.h"

namespace {

using Arrays = std::vector<NDArrayHandle>;

constexpr std::size_t kOperations = 20'000;
constexpr int kRepetitions = 9;
constexpr std::array<std::int32_t, 2> kCpu = {1, 0};  // a context: device type, device

void must(int code) {
  if (code == 0) return;
  std::fprintf(stderr, "%s\n", MXGetLastError());
  std::_Exit(1);
}

Arrays make_arrays(std::size_t count) {
  Arrays arrays(count);
  const std::uint32_t shape = 1;
  for (NDArrayHandle& array : arrays) must(MXNDArrayCreate(&shape, 1, 1, 0, 0, &array));
  return arrays;
}

void nothing(void*, void*) {}

void push(NDArrayHandle* reads, int read_count, NDArrayHandle* written) {
  must(MXEnginePushSyncND(nothing, nullptr, nullptr, kCpu.data(), reads, read_count, written, 1,
                          nullptr, 0, "nothing"));
}

template <typename F>
void row(const char* what, F&& push_one) {
  const auto each = troupe::bench::measure(2, kRepetitions, kOperations, [&] {
    for (std::size_t i = 0; i < kOperations; ++i) push_one(i);
    must(MXNDArrayWaitAll());
  });
  troupe::bench::print_row(what, each);
}

}  // namespace

int main() {
  Arrays arrays = make_arrays(100);
  row("independent", [&](std::size_t i) { push(nullptr, 0, &arrays[i % 64]); });
  row("chain", [&](std::size_t) { push(nullptr, 0, &arrays[0]); });
  row("fan_out_in", [&](std::size_t i) {
    if (i % 9 == 8) return push(&arrays[1], 8, &arrays[0]);
    push(&arrays[0], 1, &arrays[1 + i % 9]);
  });
  std::mt19937 random(7);
  Arrays picks;
  for (std::size_t i = 0; i < kOperations; ++i) {
    const std::size_t first = random() % 100;
    const std::size_t step = 1 + random() % 49;  // three different ones
    for (std::size_t k = 0; k < 3; ++k) picks.push_back(arrays[(first + k * step) % 100]);
  }
  row("random_graph", [&](std::size_t i) { push(&picks[3 * i], 2, &picks[3 * i + 2]); });
  return 0;
}
