// SPDX-License-Identifier: Apache-2.0
// The loader: records read, decoded and normalised per second, by one thread and through the
// prefetching iterator; dealing of an epoch. Samples are raw 1 x 28 x 28, as Fashion-MNIST packs
// to, in the page cache.
#include <benchmark/benchmark.h>

#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "base/buffer.h"
#include "base/clock.h"
#include "data/batch.h"
#include "data/batch_iterator.h"
#include "data/dealer.h"
#include "data/image_record.h"
#include "data/index.h"
#include "data/record_file.h"

namespace troupe::data {
namespace {

constexpr std::uint64_t kRecords = 60000;
constexpr ImageShape kShape{1, 28, 28};
constexpr std::uint64_t kBatch = 32;

class HostPool final : public base::BufferPool {
 public:
  base::Result<base::Buffer> allocate(std::size_t bytes, std::string_view) override {
    return base::make_host_buffer(bytes);
  }
  base::Device device() const override { return {}; }
};

/// A file of random images in the folder for temporary files, removed at the end.
class ImageFile {
 public:
  ImageFile() {
    std::string pattern = (std::filesystem::temp_directory_path() / "troupe-bench-XXXXXX").string();
    TROUPE_CHECK(::mkdtemp(pattern.data()) != nullptr, "no folder for temporary files");
    folder_ = pattern;
    RecordWriter writer(path());
    TROUPE_CHECK(writer.open().ok(), "cannot write the benchmark's records");
    std::vector<std::uint8_t> pixels(kShape.bytes());
    std::vector<std::byte> record;
    std::vector<IndexEntry> entries;
    const base::RandomKey key = base::random_key(1, "bench");
    for (std::uint64_t i = 0; i < kRecords; ++i) {
      const auto words = base::philox(key, i, 0, 0);
      for (std::size_t p = 0; p < pixels.size(); ++p) {
        pixels[p] = static_cast<std::uint8_t>(words[p % 4] >> p % 23);
      }
      const auto label = static_cast<float>(i % 10);
      encode_raw_record({&label, 1}, i, kShape, pixels, record);
      entries.push_back({i, writer.append(record).value()});
    }
    TROUPE_CHECK(writer.commit().ok() && write_index(index_path(path()), entries).ok(),
                 "cannot write the benchmark's records");
  }
  ~ImageFile() {
    std::error_code ignored;
    std::filesystem::remove_all(folder_, ignored);
  }
  ImageFile(const ImageFile&) = delete;
  ImageFile& operator=(const ImageFile&) = delete;
  std::filesystem::path path() const { return folder_ / "x.rec"; }

 private:
  std::filesystem::path folder_;
};

BatchSources make_sources(const ImageFile& file, HostPool& pool, const base::Clock& clock) {
  const auto dataset = Dataset::open(file.path()).value();
  const Dealer dealer = Dealer::create({kRecords, 1, kBatch, 7}).value();
  auto plan = make_training_plan(std::make_shared<const EpochOrders>(dealer), 0, ~0ULL);
  return {dataset, std::move(plan), &pool, &clock};
}

SampleOptions sample_options() {
  SampleOptions options;
  options.image = kShape;
  options.mean = {0.286F};
  options.std = {0.353F};
  return options;
}

void data_make_batch(benchmark::State& state) {
  const ImageFile file;
  HostPool pool;
  const base::SteadyClock clock;
  const BatchSources sources = make_sources(file, pool, clock);
  BatchMaker maker(sources.dataset, sample_options(), pool);
  std::vector<std::uint64_t> records;
  std::uint64_t step = 0;
  for (auto _ : state) {
    sources.plan->records(step, records);
    benchmark::DoNotOptimize(maker.make({step, 0, records}).value().images.data());
    ++step;
  }
  state.SetItemsProcessed(static_cast<std::int64_t>(step * kBatch));
}
BENCHMARK(data_make_batch)->UseRealTime();

void data_prefetch(benchmark::State& state) {
  const ImageFile file;
  HostPool pool;
  const base::SteadyClock clock;
  PrefetchOptions prefetch;
  prefetch.threads = static_cast<std::uint32_t>(state.range(0));
  prefetch.batches = 8;
  const auto iterator =
      BatchIterator::create(make_sources(file, pool, clock), sample_options(), prefetch).value();
  for (auto _ : state) {
    TROUPE_CHECK(iterator->next(std::chrono::seconds(10)).ok(), "no batch");
  }
  state.SetItemsProcessed(static_cast<std::int64_t>(iterator->stats().records));
}
BENCHMARK(data_prefetch)->ArgName("threads")->Arg(1)->Arg(2)->UseRealTime();

void data_scan(benchmark::State& state) {
  const ImageFile file;
  const auto opened = RecordFile::open(file.path()).value();
  std::int64_t records = 0;
  for (auto _ : state) {
    records +=
        static_cast<std::int64_t>(build_index(opened, OnDamage::fail, nullptr).value().size());
  }
  state.SetItemsProcessed(records);
  state.SetBytesProcessed(static_cast<std::int64_t>(opened->bytes()) *
                          static_cast<std::int64_t>(state.iterations()));
}
BENCHMARK(data_scan);

void data_epoch_order(benchmark::State& state) {
  const Dealer dealer = Dealer::create({kRecords, 4, kBatch, 7}).value();
  std::uint64_t epoch = 0;
  for (auto _ : state) benchmark::DoNotOptimize(dealer.order(epoch++).data());
  state.SetItemsProcessed(static_cast<std::int64_t>(epoch * kRecords));
}
BENCHMARK(data_epoch_order);

}  // namespace
}  // namespace troupe::data
