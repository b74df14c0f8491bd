// SPDX-License-Identifier: Apache-2.0
// Training on an installed Troupe, as part of a program and of a shared library: a small network
// learns which quarter of an image is bright, from a record file that is written first. Then its
// weights are saved and loaded again.
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <troupe/data/batch_iterator.h>
#include <troupe/data/image_record.h>
#include <troupe/data/record_file.h>
#include <troupe/ndarray/safetensors.h>
#include <troupe/store/local_store.h>
#include <troupe/symbol/networks/networks.h>
#include <troupe/train/module.h>

namespace {

using namespace troupe;

constexpr std::uint64_t kRecords = 64;
constexpr std::uint64_t kBatch = 8;
constexpr std::uint64_t kEpochs = 20;
constexpr std::uint32_t kSide = 12;

base::Status write_images(const std::filesystem::path& path) {
  data::RecordWriter writer(path);
  TROUPE_TRY(writer.open());
  for (std::uint32_t i = 0; i < kRecords; ++i) {
    const std::vector<float> label = {static_cast<float>(i % 4)};
    std::vector<std::uint8_t> pixels;
    for (std::uint32_t y = 0; y < kSide; ++y) {
      for (std::uint32_t x = 0; x < kSide; ++x) {
        const std::uint32_t quarter = 2 * (y >= kSide / 2) + (x >= kSide / 2);
        const std::uint32_t noise = (i * 7 + y * 31 + x * 17) % 64;
        pixels.push_back(static_cast<std::uint8_t>(noise + (quarter == i % 4 ? 150 : 0)));
      }
    }
    std::vector<std::byte> record;
    data::encode_raw_record(label, i, {1, kSide, kSide}, pixels, record);
    TROUPE_TRY(writer.append(record).status());
  }
  return writer.commit();
}

/// Saves the weights and loads them again; data_loss where they differ.
base::Status keep_weights(ndarray::Runtime& runtime, const train::Module& module,
                          const std::filesystem::path& path) {
  std::map<std::string, ndarray::NDArray> weights;
  std::uint32_t key = 0;
  for (const auto& info : module.keys()) weights[info.name] = module.parameter(key++);
  TROUPE_TRY(ndarray::save_arrays(path, weights));
  TROUPE_TRY_ASSIGN(const auto loaded, ndarray::load_arrays(runtime, path));
  for (const auto& [name, array] : weights) {
    TROUPE_TRY_ASSIGN(const auto before, array.to_vector<float>());
    TROUPE_TRY_ASSIGN(const auto after, loaded.at(name).to_vector<float>());
    if (before != after) return base::error(base::Errc::data_loss, "{} differs", name);
  }
  return {};
}

/// The accuracy on what it has trained on.
base::Result<double> train_on(const std::filesystem::path& path) {
  base::SteadyClock clock;
  storage::Storage storage;
  base::BufferPool& pool = storage.pool(base::Device{});
  const ops::OpTable operators = ops::OpTable::build();
  ndarray::PreparedKernels kernels;
  const auto engine = engine::make_threaded_engine({}, clock);
  ndarray::Runtime runtime{*engine, storage, operators, kernels, clock};

  TROUPE_TRY_ASSIGN(const auto dataset, data::Dataset::open(path));
  TROUPE_TRY_ASSIGN(data::Dealer dealer,
                    data::Dealer::create({dataset->records(), 1, kBatch, /*seed=*/7}));
  train::FitOptions fit;
  fit.steps.epoch_steps = dealer.steps_per_epoch();
  fit.steps.total = kEpochs * dealer.steps_per_epoch();
  fit.rule.optimizer.lr = 0.1;
  const auto orders = std::make_shared<data::EpochOrders>(std::move(dealer));
  data::SampleOptions samples;
  samples.image = {1, kSide, kSide};
  const data::BatchSources sources{dataset, data::make_training_plan(orders, 0, fit.steps.total),
                                   &pool, &clock};
  TROUPE_TRY_ASSIGN(const auto batches, data::BatchIterator::create(sources, samples, {}));

  symbol::NetworkOptions network;
  network.classes = 4;
  TROUPE_TRY_ASSIGN(const symbol::Symbol net, symbol::make_network(operators, "mlp", network));
  train::ModuleOptions options;
  options.inputs.sample = {1, kSide, kSide};
  TROUPE_TRY_ASSIGN(const auto module, train::Module::create(runtime, net, options));
  TROUPE_TRY(module->init_params(schemas::InitializerSpec{}));
  const store::LocalStoreOptions how{.batch = kBatch, .steps = fit.steps};
  TROUPE_TRY_ASSIGN(const auto store, store::LocalStore::create({operators, pool, kernels}, how));
  const auto rank_store = store->rank_store(0, runtime);
  TROUPE_TRY(module->fit(*batches, *rank_store, fit));
  TROUPE_TRY(keep_weights(runtime, *module, path.parent_path() / "weights.safetensors"));

  const data::BatchSources again{dataset, data::make_evaluation_plan({kRecords, 1, kBatch, 0}, 0),
                                 &pool, &clock};
  TROUPE_TRY_ASSIGN(const auto scored, data::BatchIterator::create(again, samples, {}));
  TROUPE_TRY_ASSIGN(const train::MetricValues metrics, module->score(*scored));
  return metrics.at("accuracy").mean();
}

}  // namespace

/// 0, or 1 after an error or where nothing was learned.
extern "C" int train_quarters(const char* folder) {
  const std::filesystem::path path = std::filesystem::path(folder) / "images.rec";
  const troupe::base::Status written = write_images(path);
  const auto accuracy = written.ok() ? train_on(path) : troupe::base::Result<double>(written);
  if (!accuracy.ok()) {
    std::fprintf(stderr, "%s\n", accuracy.status().to_string().c_str());
    return 1;
  }
  std::printf("accuracy %.3f\n", *accuracy);
  return *accuracy > 0.9 ? 0 : 1;
}
