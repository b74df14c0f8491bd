// SPDX-License-Identifier: Apache-2.0
// Cost of allocate + release from the cache, alone and among threads, beside malloc's; and of
// blocks that come from the system each time.
#include <benchmark/benchmark.h>

#include <cstdlib>

#include "storage/storage.h"

namespace troupe::storage {
namespace {

void cached(benchmark::State& state) {
  static Storage* shared = nullptr;  // one per run of all its threads
  if (state.thread_index() == 0) shared = new Storage();
  const auto bytes = static_cast<std::size_t>(state.range(0));
  for (auto unused : state) {
    static_cast<void>(unused);
    benchmark::DoNotOptimize(shared->pool({}).allocate(bytes, "bench"));
  }
  if (state.thread_index() == 0) delete std::exchange(shared, nullptr);
}

void cached_pool_at_hand(benchmark::State& state) {
  Storage storage;
  base::BufferPool& pool = storage.pool({});
  const auto bytes = static_cast<std::size_t>(state.range(0));
  for (auto unused : state) {
    static_cast<void>(unused);
    benchmark::DoNotOptimize(pool.allocate(bytes, "bench"));
  }
}

void system_each_time(benchmark::State& state) {
  Storage storage({.cache_bytes_max = 1});
  base::BufferPool& pool = storage.pool({});
  const auto bytes = static_cast<std::size_t>(state.range(0));
  for (auto unused : state) {
    static_cast<void>(unused);
    benchmark::DoNotOptimize(pool.allocate(bytes, "bench"));
  }
}

void plain_malloc(benchmark::State& state) {
  const auto bytes = static_cast<std::size_t>(state.range(0));
  for (auto unused : state) {
    static_cast<void>(unused);
    void* memory = std::malloc(bytes);
    benchmark::DoNotOptimize(memory);
    std::free(memory);
  }
}

/// One byte a page, as whoever takes memory does in the end.
void write_pages(void* memory, std::size_t bytes) {
  for (std::size_t i = 0; i < bytes; i += 4096) static_cast<volatile char*>(memory)[i] = 1;
}

void cached_pool_at_hand_written(benchmark::State& state) {
  Storage storage;
  base::BufferPool& pool = storage.pool({});
  const auto bytes = static_cast<std::size_t>(state.range(0));
  write_pages(pool.allocate(bytes, "bench").value().data(), bytes);  // the first comes from nowhere
  for (auto unused : state) {
    static_cast<void>(unused);
    const base::Buffer buffer = pool.allocate(bytes, "bench").value();
    write_pages(buffer.data(), bytes);
  }
}

void plain_malloc_written(benchmark::State& state) {
  const auto bytes = static_cast<std::size_t>(state.range(0));
  for (auto unused : state) {
    static_cast<void>(unused);
    void* memory = std::malloc(bytes);
    write_pages(memory, bytes);
    std::free(memory);
  }
}

BENCHMARK(cached)->Arg(4096)->ThreadRange(1, 4)->UseRealTime();
BENCHMARK(cached_pool_at_hand)->Arg(4096)->Arg(1 << 24);
BENCHMARK(cached_pool_at_hand_written)->Arg(4096)->Arg(1 << 24)->Arg(1 << 26);
BENCHMARK(system_each_time)->Arg(4096)->Arg(1 << 24);
BENCHMARK(plain_malloc)->Arg(4096)->Arg(1 << 24);
BENCHMARK(plain_malloc_written)->Arg(4096)->Arg(1 << 24)->Arg(1 << 26);

}  // namespace
}  // namespace troupe::storage
