// SPDX-License-Identifier: Apache-2.0
// Augmented samples are windows of the padded image, mirrored or not, and functions of (seed,
// epoch, record) alone.
#include "data/augment.h"

#include <chrono>
#include <cstring>
#include <map>
#include <memory>
#include <numeric>
#include <set>

#include "data/batch_iterator.h"
#include "tests/data/data_fixtures.h"
#include "tests/support/catch.h"

namespace troupe::data {
namespace {

using Pixels = std::vector<std::uint8_t>;
using Key = std::pair<std::uint64_t, std::uint64_t>;  // epoch, record
using Samples = std::map<Key, std::vector<float>>;

constexpr std::chrono::milliseconds kPatience{20000};
constexpr ImageShape kShape{2, 6, 5};
constexpr std::uint64_t kRecords = 23, kEpochs = 3;

/// Value v becomes v, so that a sample can be read.
const PixelTable kAsIs = [] {
  PixelTable table{};
  std::iota(table.begin(), table.end(), 0.0F);
  return table;
}();

Pixels counted(const ImageShape& shape) {
  Pixels pixels(shape.pixels());
  std::iota(pixels.begin(), pixels.end(), std::uint8_t{1});
  return pixels;
}

std::vector<float> laid(const ImageShape& shape, const Placement& placement) {
  std::vector<float> out(shape.pixels(), -1.0F);
  lay_plane(counted(shape), shape, placement, kAsIs, out.data());
  return out;
}

/// The same by the definition, pixel by pixel.
std::vector<float> defined(const ImageShape& shape, const Placement& placement) {
  const Pixels pixels = counted(shape);
  const auto height = static_cast<std::int64_t>(shape.height);
  const auto width = static_cast<std::int64_t>(shape.width);
  std::vector<float> out;
  for (std::int64_t y = 0; y < height; ++y) {
    for (std::int64_t x = 0; x < width; ++x) {
      const std::int64_t row = y + placement.down;
      const std::int64_t column = (placement.mirrored ? width - 1 - x : x) + placement.right;
      const bool inside = row >= 0 && row < height && column >= 0 && column < width;
      out.push_back(inside ? pixels[static_cast<std::size_t>(row * width + column)] : 0);
    }
  }
  return out;
}

class HostPool final : public base::BufferPool {
 public:
  base::Result<base::Buffer> allocate(std::size_t bytes, std::string_view) override {
    return base::make_host_buffer(bytes);
  }
  base::Device device() const override { return {}; }
};

/// All samples of three epochs, as `ranks` ranks get them; each rank resumes at `first_step`.
Samples dealt(const std::filesystem::path& path, std::uint64_t ranks, const Augmentation& how,
              std::uint32_t threads = 1, std::uint64_t first_step = 0) {
  HostPool pool;
  base::SteadyClock clock;
  SampleOptions options;
  options.image = kShape;
  options.augment = how;
  const auto dataset = Dataset::open(path).value();
  const auto orders =
      std::make_shared<const EpochOrders>(Dealer::create({kRecords, ranks, 8 / ranks, 7}).value());
  const std::uint64_t steps = kEpochs * orders->dealer().steps_per_epoch();
  Samples samples;
  for (std::uint64_t rank = 0; rank < ranks; ++rank) {
    const BatchSources sources{dataset, make_training_plan(orders, rank, steps), &pool, &clock};
    const auto batches = BatchIterator::create(sources, options, {threads, 3}, first_step).value();
    for (std::uint64_t step = first_step; step < steps; ++step) {
      const Batch batch = *batches->next(kPatience).value();
      const auto images = batch.images.as<float>();
      for (std::size_t i = 0; i < batch.count(); ++i) {
        const auto begin = images.begin() + static_cast<std::ptrdiff_t>(i * kShape.bytes());
        samples[{batch.epoch, batch.records[i]}].assign(
            begin, begin + static_cast<std::ptrdiff_t>(kShape.bytes()));
      }
    }
  }
  return samples;
}

TEST_CASE("a placement moves and mirrors an image, and what comes from outside is 0") {
  for (const ImageShape& shape :
       {ImageShape{1, 4, 5}, ImageShape{1, 3, 4}, ImageShape{1, 1, 1}, ImageShape{1, 1, 7}}) {
    for (const bool mirrored : {false, true}) {
      for (std::int64_t down = -4; down <= 4; ++down) {
        for (std::int64_t right = -7; right <= 7; ++right) {
          const Placement placement{down, right, mirrored};
          CHECK(laid(shape, placement) == defined(shape, placement));
        }
      }
    }
  }
  CHECK(laid({1, 1, 3}, {0, 0, true}) == std::vector<float>{3, 2, 1});
  CHECK(laid({1, 2, 2}, {1, -1, false}) == std::vector<float>{0, 3, 0, 0});
}

TEST_CASE("placements reach every place alike, and mirroring half of the samples") {
  const Augmenter augmenter({2, true, 7});
  std::map<std::pair<std::int64_t, std::int64_t>, int> places;
  int mirrored = 0;
  constexpr int kDraws = 10'000;
  for (std::uint64_t record = 0; record < kDraws; ++record) {
    const Placement placement = augmenter.place(1, record);
    ++places[{placement.down, placement.right}];
    mirrored += placement.mirrored ? 1 : 0;
  }
  REQUIRE(places.size() == 25);
  for (const auto& [place, count] : places) {
    CHECK(std::abs(place.first) <= 2);
    CHECK(std::abs(place.second) <= 2);
    CHECK(count == Approx(kDraws / 25).epsilon(0.25));
  }
  CHECK(mirrored == Approx(kDraws / 2).epsilon(0.05));
}

TEST_CASE("placements depend on seed, epoch and record, and each purpose has its own numbers") {
  const Augmenter augmenter({100, true, 7});
  std::set<std::int64_t> downs;
  for (std::uint64_t epoch = 0; epoch < 8; ++epoch) downs.insert(augmenter.place(epoch, 3).down);
  for (std::uint64_t record = 0; record < 8; ++record) {
    downs.insert(augmenter.place(20, record).down);
  }
  for (std::uint64_t seed = 10; seed < 18; ++seed) {
    downs.insert(Augmenter({100, true, seed}).place(30, 3).down);
  }
  CHECK(downs.size() > 15);  // of 24, of 201 possible ones
  // Switching one off leaves the other as it was.
  const Augmenter crops({100, false, 7}), mirrors({0, true, 7}), nothing({0, false, 7});
  for (std::uint64_t record = 0; record < 50; ++record) {
    const Placement both = augmenter.place(2, record);
    CHECK(crops.place(2, record) == Placement{both.down, both.right, false});
    CHECK(mirrors.place(2, record) == Placement{0, 0, both.mirrored});
    CHECK(nothing.place(2, record) == Placement{});
  }
}

TEST_CASE("samples are the placed images, whatever the ranks, threads and the step of resuming") {
  test::TemporaryFolder folder;
  const auto path = folder / "x.rec";
  test::write_images(path, kRecords, kShape);
  const Augmentation how{2, true, 11};
  const Samples samples = dealt(path, 1, how);
  REQUIRE(samples.size() == kEpochs * kRecords);
  const Augmenter augmenter(how);
  for (const auto& [key, sample] : samples) {
    const auto& [epoch, record] = key;
    std::vector<float> expected(kShape.bytes());
    PixelTable table{};
    for (std::size_t v = 0; v < table.size(); ++v) {
      table[v] = static_cast<float>(static_cast<double>(v) / 255.0);
    }
    for (std::size_t c = 0; c < kShape.channels; ++c) {
      Pixels pixels(kShape.pixels());
      for (std::size_t p = 0; p < pixels.size(); ++p) {
        pixels[p] = static_cast<std::uint8_t>((record + c * pixels.size() + p) % 251);
      }
      lay_plane(pixels, kShape, augmenter.place(epoch, record), table,
                expected.data() + c * pixels.size());
    }
    CHECK(sample == expected);
  }
  CHECK(dealt(path, 4, how) == samples);
  CHECK(dealt(path, 2, how, 4) == samples);
  for (const auto& [key, sample] : dealt(path, 4, how, 2, 5)) CHECK(sample == samples.at(key));
  CHECK(dealt(path, 1, {2, true, 12}) != samples);
  CHECK(dealt(path, 1, {}) == dealt(path, 1, {0, false, 12}));
}

TEST_CASE("a padding that could leave nothing of an image is refused by name and value") {
  CHECK(check_augmentation({0, true}, {1, 1, 1}).ok());
  CHECK(check_augmentation({27, false}, {1, 28, 28}).ok());
  CHECK(check_augmentation({5, false}, {1, 6, 100}).ok());
  const base::Status large = check_augmentation({28, false}, {1, 28, 30});
  CHECK(large.code() == base::Errc::invalid_argument);
  CHECK_THAT(large.text(), Catch::Contains("data.augment.crop_padding is 28") &&
                               Catch::Contains("1 x 28 x 30") && Catch::Contains("at most 27"));
  CHECK_THAT(check_augmentation({1, false}, {3, 1, 1}).text(), Catch::Contains("at most 0"));
  SampleOptions options;
  options.image = kShape;
  options.augment.crop_padding = 5;
  CHECK_THAT(check_options(options).text(), Catch::Contains("data.augment.crop_padding is 5"));
}

}  // namespace
}  // namespace troupe::data
