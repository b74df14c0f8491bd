// SPDX-License-Identifier: Apache-2.0
// Batches are functions of the plan: whatever the threads, the queue and the place of resuming.
#include "data/batch_iterator.h"

#include <atomic>
#include <cmath>
#include <cstring>
#include <future>
#include <memory>
#include <thread>

#include "data/image_record.h"
#include "data/metrics.h"
#include "tests/data/data_fixtures.h"
#include "tests/data/image_fixtures.h"
#include "tests/support/catch.h"

namespace troupe::data {
namespace {

using base::Errc;
using std::chrono::milliseconds;
using test::TemporaryFolder;

constexpr milliseconds kPatience{20000};
constexpr ImageShape kShape{1, 6, 5};

class HostPool final : public base::BufferPool {
 public:
  base::Result<base::Buffer> allocate(std::size_t bytes, std::string_view holder) override {
    if (fails) return base::error(Errc::resource_exhausted, "no memory for {}", holder);
    ++allocations;
    return base::make_host_buffer(bytes);
  }
  base::Device device() const override { return {}; }

  std::atomic<bool> fails = false;
  std::atomic<int> allocations = 0;
};

/// A record file of 43 images, dealt to 3 ranks in batches of 4.
struct World {
  World() : path(folder / "x.rec"), offsets(test::write_images(path, 43, kShape)) {
    options.image = kShape;
    options.mean = {0.25F};
    options.std = {0.5F};
  }

  BatchSources sources(std::uint64_t rank, std::uint64_t steps) {
    auto dataset = Dataset::open(path);
    REQUIRE(dataset.ok());
    auto dealer = Dealer::create({43, 3, 4, 7});
    REQUIRE(dealer.ok());
    auto orders = std::make_shared<const EpochOrders>(*dealer);
    return {*dataset, make_training_plan(orders, rank, steps), &pool, &clock};
  }
  std::unique_ptr<BatchIterator> iterator(std::uint64_t rank, PrefetchOptions prefetch,
                                          std::uint64_t first_step = 0) {
    auto made = BatchIterator::create(sources(rank, 12), options, prefetch, first_step);
    REQUIRE(made.ok());
    return std::move(made).value();
  }

  TemporaryFolder folder;
  std::filesystem::path path;
  std::vector<std::uint64_t> offsets;
  SampleOptions options;
  HostPool pool;
  base::SteadyClock clock;
};

bool equal_bytes(const base::Buffer& a, const base::Buffer& b) {
  return a.size() == b.size() && (a.empty() || std::memcmp(a.data(), b.data(), a.size()) == 0);
}

void check_equal(const std::vector<Batch>& a, const std::vector<Batch>& b) {
  REQUIRE(a.size() == b.size());
  for (std::size_t i = 0; i < a.size(); ++i) {
    CHECK(a[i].step == b[i].step);
    CHECK(a[i].records == b[i].records);
    CHECK(equal_bytes(a[i].images, b[i].images));
    CHECK(equal_bytes(a[i].labels, b[i].labels));
  }
}

std::vector<Batch> take_all(BatchIterator& iterator) {
  std::vector<Batch> batches;
  for (;;) {
    auto item = iterator.next(kPatience);
    REQUIRE(item.ok());
    if (!item->has_value()) return batches;
    batches.push_back(std::move(**item));
  }
}

TEST_CASE("samples are the dealt records, normalised, with their labels") {
  World world;
  const auto iterator = world.iterator(1, {2, 3});
  const auto sources = world.sources(1, 12);
  const auto batches = take_all(*iterator);
  REQUIRE(batches.size() == 12);
  for (const Batch& batch : batches) {
    std::vector<std::uint64_t> expected;
    sources.plan->records(batch.step, expected);
    REQUIRE(batch.records == expected);
    CHECK(batch.epoch == batch.step / 4);
    const auto images = batch.images.as<float>();
    const auto labels = batch.labels.as<float>();
    REQUIRE(images.size() == expected.size() * kShape.bytes());
    REQUIRE(labels.size() == expected.size());
    for (std::size_t i = 0; i < expected.size(); ++i) {
      CHECK(labels[i] == static_cast<float>(expected[i] % 10));
      for (std::size_t p = 0; p < kShape.bytes(); ++p) {
        const double pixel = static_cast<double>((expected[i] + p) % 251);
        const auto sample = static_cast<float>((pixel / 255.0 - 0.25) / 0.5);
        CHECK(images[i * kShape.bytes() + p] == sample);
      }
    }
  }
  // 43 records: three full steps of 12 and a last one of 3 + 2 + 2.
  CHECK(batches[3].count() == 2);
  const BatchFigures stats = iterator->stats();
  CHECK(stats.batches == 12);
  CHECK(stats.records == 3 * (4 + 4 + 4 + 2));
  CHECK(stats.bytes == stats.records * (24 + 16 + kShape.bytes()));
  CHECK(stats.queue_depth == 0);
}

TEST_CASE("threads and queue do not change a batch") {
  World world;
  const auto one = take_all(*world.iterator(0, {1, 1}));
  check_equal(one, take_all(*world.iterator(0, {4, 2})));
  check_equal(one, take_all(*world.iterator(0, {4, 16})));
  check_equal(one, take_all(*world.iterator(0, {1, 4})));
}

TEST_CASE("resuming at a step equals having continued") {
  World world;
  const auto all = take_all(*world.iterator(2, {2, 4}));
  for (const std::uint64_t step : {1, 4, 7, 12}) {
    const std::vector<Batch> rest(all.begin() + static_cast<std::ptrdiff_t>(step), all.end());
    check_equal(rest, take_all(*world.iterator(2, {4, 4}, step)));
    const auto moved = world.iterator(2, {2, 4});
    REQUIRE(moved->next(kPatience).ok());
    moved->seek(step);
    CHECK(moved->position() == step);
    check_equal(rest, take_all(*moved));
  }
}

TEST_CASE("the queue is bounded") {
  World world;
  const auto iterator = world.iterator(0, {4, 2});
  REQUIRE(iterator->next(kPatience).ok());
  while (iterator->stats().queue_depth < 2) std::this_thread::yield();
  // One taken and two ready: nothing further may have been begun, two buffers each.
  CHECK(world.pool.allocations == 6);
}

TEST_CASE("a damaged record fails its own batch, naming file and offset, again and again") {
  World world;
  std::vector<std::uint64_t> third;
  world.sources(0, 12).plan->records(2, third);
  test::flip_byte(world.path, world.offsets[third[1]] + 60);
  const auto iterator = world.iterator(0, {4, 8});
  CHECK(iterator->next(kPatience).ok());
  CHECK(iterator->next(kPatience).ok());
  for (int i = 0; i < 2; ++i) {
    const auto item = iterator->next(kPatience);
    CHECK(item.status().code() == Errc::data_loss);
    CHECK_THAT(item.status().text(),
               Catch::Contains("x.rec: record at offset " +
                               std::to_string(world.offsets[third[1]]) + ": checksum"));
    CHECK(iterator->position() == 2);
  }
  iterator->seek(3);
  CHECK(iterator->next(kPatience).ok());
}

TEST_CASE("skipping makes the batch of a damaged record one sample shorter") {
  World world;
  const auto whole = take_all(*world.iterator(0, {1, 1}));
  const auto third = whole[2].records;
  test::flip_byte(world.path, world.offsets[third[1]]);
  world.options.on_bad_record = OnDamage::skip;
  const auto iterator = world.iterator(0, {2, 4});
  const auto batches = take_all(*iterator);
  CHECK(batches[2].records == std::vector<std::uint64_t>{third[0], third[2], third[3]});
  CHECK(batches[2].skipped == 1);
  CHECK(batches[2].images.size() == 3 * kShape.bytes() * sizeof(float));
  const std::size_t sample = kShape.bytes() * sizeof(float);
  CHECK(equal_bytes(batches[2].images.slice(sample, sample),
                    whole[2].images.slice(2 * sample, sample)));
  CHECK(batches[2].labels.as<float>()[1] == static_cast<float>(third[2] % 10));
  // The record comes once in each of the three epochs.
  CHECK(batches.size() == 12);
  CHECK(iterator->stats().skipped >= 1);
}

TEST_CASE("a record above the limit of a job is a damaged one") {
  World world;
  world.options.record_bytes_max = 10;
  const auto item = world.iterator(0, {1, 1})->next(kPatience);
  CHECK(item.status().code() == Errc::data_loss);
  CHECK_THAT(item.status().text(), Catch::Contains("is above the limit of 10"));
}

TEST_CASE("images of another size or with other labels are errors even when skipping") {
  World world;
  world.options.on_bad_record = OnDamage::skip;
  world.options.image = {1, 28, 28};
  auto item = world.iterator(0, {1, 1})->next(kPatience);
  CHECK(item.status().code() == Errc::invalid_argument);
  CHECK_THAT(item.status().text(), Catch::Contains("x.rec: record at offset") &&
                                       Catch::Contains("the image is 1 x 6 x 5") &&
                                       Catch::Contains("expected 1 x 28 x 28"));
  world.options.image = kShape;
  world.options.labels = 3;
  item = world.iterator(0, {1, 1})->next(kPatience);
  CHECK_THAT(item.status().text(), Catch::Contains("the record has 1 labels, expected 3"));
  world.options.labels = 1;
  world.options.classes = 10;
  CHECK(take_all(*world.iterator(0, {1, 1})).size() == 12);
  world.options.classes = 1;
  item = world.iterator(0, {1, 1})->next(kPatience);
  CHECK(item.status().code() == Errc::invalid_argument);
  CHECK_THAT(item.status().text(), Catch::Contains("x.rec: record at offset") &&
                                       Catch::Contains("is none of the 1 classes"));
}

TEST_CASE("a label between two classes is none, and any number where there are no classes") {
  World world;
  const float label = 0.75F;
  const std::vector<std::uint8_t> pixels(kShape.bytes());
  test::Bytes record;
  encode_raw_record({&label, 1}, 0, kShape, pixels, record);
  world.path = world.folder / "y.rec";
  test::write_records(world.path, std::vector<test::Bytes>(43, record));
  world.options.classes = 10;
  const auto item = world.iterator(0, {1, 1})->next(kPatience);
  CHECK(item.status().code() == Errc::invalid_argument);
  CHECK_THAT(item.status().text(), Catch::Contains("label 0.75 is none of the 10 classes"));
  world.options.classes = 0;
  CHECK(world.iterator(0, {1, 1})->next(kPatience).ok());
}

TEST_CASE("memory that runs out surfaces at the batch") {
  World world;
  world.pool.fails = true;
  const auto iterator = world.iterator(0, {1, 1});
  CHECK(iterator->next(kPatience).status().code() == Errc::resource_exhausted);
  world.pool.fails = false;
  iterator->seek(0);
  CHECK(iterator->next(kPatience).ok());
}

/// A plan whose batches come only when the gate is opened.
class GatedPlan final : public BatchPlan {
 public:
  explicit GatedPlan(std::shared_future<void> gate) : gate_(std::move(gate)) {}
  std::uint64_t steps() const override { return 2; }
  std::uint64_t epoch(std::uint64_t) const override { return 0; }
  void records(std::uint64_t step, std::vector<std::uint64_t>& out) const override {
    asked_ = true;
    gate_.wait();
    out.clear();
    if (step == 0) out.push_back(5);
  }

  /// Returns when a batch is being made.
  void wait_asked() const {
    while (!asked_) std::this_thread::yield();
  }

 private:
  std::shared_future<void> gate_;
  mutable std::atomic<bool> asked_ = false;
};

TEST_CASE("waits end at their deadline, a step without samples is an empty batch") {
  World world;
  std::promise<void> gate;
  auto sources = world.sources(0, 1);
  sources.plan = std::make_shared<GatedPlan>(gate.get_future().share());
  const auto iterator = BatchIterator::create(sources, world.options, {1, 1});
  REQUIRE(iterator.ok());
  const auto late = (*iterator)->next(milliseconds(5));
  CHECK(late.status().code() == Errc::deadline_exceeded);
  CHECK_THAT(late.status().text(), Catch::Contains("x.rec: the batch of step 0"));
  CHECK((*iterator)->stats().starved_seconds > 0);
  gate.set_value();
  const auto first = (*iterator)->next(kPatience);
  REQUIRE(first.ok());
  CHECK((*first)->records == std::vector<std::uint64_t>{5});
  const auto second = (*iterator)->next(kPatience);
  REQUIRE(second.ok());
  REQUIRE(second->has_value());
  CHECK((*second)->count() == 0);
  CHECK((*second)->images.empty());
  CHECK((*second)->labels.empty());
  CHECK_FALSE((*iterator)->next(kPatience)->has_value());
}

TEST_CASE("a move while a batch is being made drops it: each step comes once") {
  World world;
  std::promise<void> gate;
  auto sources = world.sources(0, 1);
  const auto plan = std::make_shared<GatedPlan>(gate.get_future().share());
  sources.plan = plan;
  const auto iterator = BatchIterator::create(sources, world.options, {1, 1});
  REQUIRE(iterator.ok());
  plan->wait_asked();
  (*iterator)->seek(0);
  gate.set_value();
  const auto first = (*iterator)->next(kPatience);
  REQUIRE(first.ok());
  CHECK((*first)->records == std::vector<std::uint64_t>{5});
  CHECK((*iterator)->next(kPatience).ok());
  const auto end = (*iterator)->next(kPatience);
  REQUIRE(end.ok());
  CHECK_FALSE(end->has_value());
  CHECK((*iterator)->stats().batches == 2);
}

TEST_CASE("an iterator that starts behind the last step is at its end") {
  World world;
  const auto item = world.iterator(0, {1, 1}, 12)->next(milliseconds(0));
  REQUIRE(item.ok());
  CHECK_FALSE(item->has_value());
}

TEST_CASE("an iterator can be destroyed while batches are being made") {
  World world;
  std::promise<void> gate;
  auto sources = world.sources(0, 1);
  const auto plan = std::make_shared<GatedPlan>(gate.get_future().share());
  sources.plan = plan;
  auto iterator = BatchIterator::create(sources, world.options, {1, 1});
  REQUIRE(iterator.ok());
  plan->wait_asked();
  std::thread opener([&gate] {
    std::this_thread::sleep_for(milliseconds(20));
    gate.set_value();
  });
  iterator->reset();  // waits for the batch of step 0
  opener.join();
  CHECK(world.pool.allocations == 2);  // its images and labels, and no further batch
}

TEST_CASE("JPEG and PNG records feed batches of colour images") {
  const TemporaryFolder folder;
  const auto path = folder / "c.rec";
  const ImageShape shape{3, 8, 16};
  const std::vector<std::uint8_t> pixels(shape.bytes(), 128);
  std::vector<test::Bytes> payloads(3);
  const float label = 4;
  encode_image_record({&label, 1}, 0, test::encode_jpeg(pixels, shape), payloads[0]);
  encode_image_record({&label, 1}, 1, test::encode_png(pixels, shape), payloads[1]);
  encode_raw_record({&label, 1}, 2, shape, pixels, payloads[2]);
  test::write_records(path, payloads);
  const auto dataset = Dataset::open(path);
  REQUIRE(dataset.ok());
  SampleOptions options;
  options.image = shape;
  options.mean = {0.1F, 0.2F, 0.3F};
  options.std = {1, 2, 4};
  HostPool pool;
  const base::SteadyClock clock;
  BatchSources sources{*dataset, make_evaluation_plan({3, 1, 3, 0}, 0), &pool, &clock};
  const auto iterator = BatchIterator::create(sources, options, {1, 1});
  REQUIRE(iterator.ok());
  const auto batch = (*iterator)->next(kPatience);
  REQUIRE(batch.ok());
  const auto images = (*batch)->images.as<float>();
  REQUIRE(images.size() == 3 * shape.bytes());
  for (std::size_t i = 0; i < 3; ++i) {
    for (std::size_t c = 0; c < 3; ++c) {
      const double mean = options.mean[c];
      const auto sample = static_cast<float>((128 / 255.0 - mean) / options.std[c]);
      const float found = images[(i * 3 + c) * shape.pixels() + 77];
      CHECK(std::abs(found - sample) < (i == 0 ? 0.01F : 1e-7F));
    }
  }
}

TEST_CASE("metrics of two iterators of one source are added up") {
  World world;
  const auto first = world.iterator(0, {1, 2});
  const auto second = world.iterator(1, {1, 2});
  monitoring::Metrics metrics;
  const auto show = [&metrics](const BatchIterator& iterator) {
    return metrics.on_scrape([&iterator](monitoring::Scrape& scrape) {
      scrape_batches(scrape, iterator.stats(), "train");
    });
  };
  const auto shown = show(*first);
  {
    const auto also_shown = show(*second);
    REQUIRE(first->next(kPatience).ok());
    REQUIRE(second->next(kPatience).ok());
    const std::string text = metrics.exposition();
    CHECK_THAT(text, Catch::Contains("troupe_data_records_total{source=\"train\"} 8\n"));
    CHECK_THAT(text, Catch::Contains("troupe_data_bad_records_total{source=\"train\","
                                     "reason=\"damaged\"} 0\n"));
  }
  CHECK_THAT(metrics.exposition(),
             Catch::Contains("troupe_data_batches_total{source=\"train\"} 1\n"));
}

TEST_CASE("the times of batches are those of their stages") {
  World world;
  monitoring::Metrics metrics;
  BatchSources sources = world.sources(0, 12);
  monitoring::Histogram& seconds = batch_seconds(metrics, "train");
  sources.batch_seconds = &seconds;
  const auto made = BatchIterator::create(std::move(sources), world.options, {2, 2});
  REQUIRE(made.ok());
  for (int step = 0; step < 12; ++step) REQUIRE((*made)->next(kPatience).ok());
  const StageTimes stages = (*made)->stats().stages;
  CHECK(stages.read_ns > 0);
  CHECK(stages.decode_ns > 0);
  CHECK(stages.read_ns + stages.decode_ns <= stages.total_ns);
  CHECK(seconds.sum() == Approx(static_cast<double>(stages.total_ns) * 1e-9));
  CHECK_THAT(metrics.exposition(),
             Catch::Contains("troupe_data_batch_seconds_count{source=\"train\"} 12\n"));
}

TEST_CASE("options that no batch can have are refused") {
  World world;
  const auto code = [&](SampleOptions options, PrefetchOptions prefetch) {
    return BatchIterator::create(world.sources(0, 1), std::move(options), prefetch).status().code();
  };
  const SampleOptions good = world.options;
  CHECK(code(good, {0, 1}) == Errc::invalid_argument);
  CHECK(code(good, {65, 1}) == Errc::invalid_argument);
  CHECK(code(good, {1, 0}) == Errc::invalid_argument);
  SampleOptions bad = good;
  bad.mean = {0.1F, 0.2F};
  CHECK(code(bad, {1, 1}) == Errc::invalid_argument);
  bad = good;
  bad.std = {0.0F};
  CHECK(code(bad, {1, 1}) == Errc::invalid_argument);
  bad = good;
  bad.image = {0, 4, 4};
  CHECK(code(bad, {1, 1}) == Errc::invalid_argument);
  bad = good;
  bad.labels = 0;
  CHECK(code(bad, {1, 1}) == Errc::invalid_argument);
}

}  // namespace
}  // namespace troupe::data
