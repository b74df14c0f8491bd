// SPDX-License-Identifier: Apache-2.0
// Opening a job.
#include "train/job.h"

#include <algorithm>
#include <map>
#include <set>
#include <string_view>
#include <vector>

#include "base/file.h"
#include "base/parallel.h"
#include "base/units.h"
#include "data/index.h"
#include "storage/storage.h"
#include "store/step_judge.h"
#include "store/updater.h"
#include "symbol/gradient.h"
#include "symbol/infer.h"
#include "symbol/networks/networks.h"
#include "train/score.h"

namespace troupe::train {
namespace {

base::Result<data::ImageShape> image_shape(const schemas::ModelSpec& model,
                                           const data::Dataset& dataset, data::OnDamage on_damage) {
  TROUPE_TRY_ASSIGN(const data::ImageShape found, dataset.first_image_shape(on_damage));
  if (model.input.empty()) return found;
  const std::vector<std::int64_t> sides = {found.channels, found.height, found.width};
  if (model.input == sides) return found;
  return base::error(base::Errc::invalid_argument, "model.input is {}, images of {} are {}",
                     base::Shape(std::span<const std::int64_t>(model.input)).to_string(),
                     dataset.path().string(), found.to_string());
}

/// The images of the test set are as those that the network learns from. Later ones may still
/// differ.
base::Status check_test_images(const Job& job, data::OnDamage on_damage) {
  auto found = job.test_data->first_image_shape(on_damage);
  if (!found.ok()) return found.status().with_context("data.test");
  if (*found == job.samples.image) return {};
  return base::error(base::Errc::invalid_argument, "data.test: images of {} are {}, those of {} {}",
                     job.test_data->path().string(), found->to_string(),
                     job.train_data->path().string(), job.samples.image.to_string());
}

/// A path of the job's `key`, below the root that an option of this program says.
base::Status inside(std::string_view key, const std::filesystem::path& path,
                    std::string_view option, const std::string& root) {
  return base::check_inside(path, root).with_context([&] {
    return fmt::format("{} is bound by {} {}", key, option, root);
  });
}

/// All files that a job reads and writes. What is in the folder of checkpoints is the job's own.
base::Status check_roots(const schemas::JobSpec& spec, const schemas::JobRoots& roots) {
  for (const auto& [key, records] :
       {std::pair("data.train", spec.data.train), std::pair("data.test", spec.data.test)}) {
    if (records.empty()) continue;
    TROUPE_TRY(inside(key, records, "--data-root", roots.data));
    TROUPE_TRY(inside(key, data::index_path(records), "--data-root", roots.data));
  }
  if (!spec.train.weights.empty()) {
    TROUPE_TRY(inside("train.weights", spec.train.weights, "--data-root", roots.data));
  }
  if (spec.checkpoint.dir.empty()) return {};
  return inside("checkpoint.dir", spec.checkpoint.dir, "--checkpoint-root", roots.checkpoints);
}

/// The network for errors.
std::string network_name(const schemas::ModelSpec& model) {
  return model.network.empty() ? model.symbol : fmt::format("network '{}'", model.network);
}

/// An error unless every output that reaches a parameter is a loss.
base::Status check_trains(const symbol::Symbol& network, const NetworkKeys& keys,
                          const ops::OpTable& table, bool scaled) {
  TROUPE_TRY_ASSIGN(const auto with_gradient, keys_with_gradient(table, network, keys.keys));
  std::vector<std::string> learned;
  for (const schemas::KeyInfo& key : keys.keys) {
    if (with_gradient[key.id]) learned.push_back(key.name);
  }
  if (learned.empty()) {
    return base::error(base::Errc::invalid_argument,
                       "there is nothing to learn: every parameter is frozen or no output depends "
                       "on it in a differentiable way");
  }
  const symbol::Graph graph = network.graph();
  TROUPE_TRY_ASSIGN(const auto dtypes,
                    symbol::infer_dtypes(graph, {{keys.inputs.data, keys.inputs.dtype}}));
  TROUPE_TRY_ASSIGN(
      const auto backward,
      symbol::differentiate(table, graph, learned, dtypes, scaled ? store::kLossScaleName : ""));
  for (const symbol::HeadGradient& gradient : backward.head_gradients) {
    if (!gradient.leads) continue;
    return base::error(base::Errc::invalid_argument,
                       "output {} is no loss and depends on parameters, so the network cannot be "
                       "trained: no value for {}; stop_gradient in front of it ends the way",
                       graph.value_name(graph.heads[gradient.head]), gradient.name);
  }
  return {};
}

/// An error naming the first parameter or state that no job can train: in another dtype than those
/// of jobs, or of a shape that hangs on the batch. `two`: the network's shapes for two samples.
base::Status check_keys(const symbol::Symbol& network, const NetworkKeys& keys,
                        const symbol::InferredShapes& two) {
  std::map<std::string_view, const schemas::KeyInfo*> known;
  for (const schemas::KeyInfo& key : keys.keys) {
    known[key.name] = &key;
    if (key.dtype == base::DType::f32 || key.dtype == base::DType::f64) continue;
    return base::error(base::Errc::invalid_argument,
                       "parameter '{}' is {}; those of a job are f32 or f64, whose products "
                       "numerics.dtype may narrow",
                       key.name, base::dtype_name(key.dtype));
  }
  const std::vector<std::string> names = network.list_arguments();
  for (std::size_t i = 0; i < names.size(); ++i) {
    const auto key = known.find(names[i]);
    if (key == known.end() || key->second->shape == two.arguments[i]) continue;
    return base::error(base::Errc::invalid_argument,
                       "parameter '{}' has shape {} for one sample and {} for two; an operator "
                       "that broadcasts, or __shape__, gives it one shape",
                       names[i], key->second->shape.to_string(), two.arguments[i].to_string());
  }
  return {};
}

/// True where a softmax leads to the value, and no operator with weights lies behind it: what
/// nothing normalises holds no probabilities. `weights`: names of variables.
bool behind_softmax(const symbol::Graph& graph, symbol::Value value,
                    const std::set<std::string>& weights) {
  const auto is_weight = [&](symbol::Value input) {
    return graph.node(input).is_variable() && weights.contains(graph.node(input).name);
  };
  std::set<std::string_view> operators;
  std::vector<bool> seen(graph.nodes.size(), false);
  std::vector<symbol::Value> open = {value};
  while (!open.empty()) {
    const symbol::Value next = open.back();
    open.pop_back();
    const symbol::GraphNode& node = graph.node(next);
    if (node.is_variable() || seen[symbol::node_index(next)]) continue;
    seen[symbol::node_index(next)] = true;
    operators.insert(node.op->name);
    if (std::ranges::any_of(node.inputs, is_weight)) continue;
    open.insert(open.end(), node.inputs.begin(), node.inputs.end());
  }
  return operators.contains("softmax_output") || operators.contains("softmax") ||
         (operators.contains("log_softmax") && operators.contains("exp"));
}

/// An error unless loss and accuracy can be read from the first output, whose shape for two samples
/// is `two`.
base::Status check_scored(const symbol::Symbol& network, const base::Shape& two) {
  const std::string name = network.list_outputs().front();
  if (two.rank() < 2 || two[0] != 2) {
    return base::error(base::Errc::invalid_argument,
                       "output {} has shape {} for two samples: loss and accuracy are read from "
                       "the first output, which must be (samples, classes)",
                       name, two.to_string());
  }
  const symbol::Graph graph = network.graph();
  const std::vector<std::string> weights = network.list_parameters();
  if (behind_softmax(graph, graph.heads.front(), {weights.begin(), weights.end()})) return {};
  return base::error(base::Errc::invalid_argument,
                     "output {} holds no probabilities, as no softmax leads to it: loss and "
                     "accuracy are read from the first output",
                     name);
}

/// What a job asks of a network beside something to learn. Gives how many classes the labels are
/// of, as accuracy reads them; 0 where some labels are left out, and so may be any number.
base::Result<std::uint32_t> check_network(const symbol::Symbol& network, const NetworkKeys& keys) {
  const InputSpec& inputs = keys.inputs;
  TROUPE_TRY_ASSIGN(const symbol::InferredShapes two,
                    network.infer_shapes({{inputs.data, batch_shape(2, inputs.sample)},
                                          {inputs.label, base::Shape{2}}}));
  TROUPE_TRY(check_keys(network, keys, two));
  const base::Shape& scored = two.outputs.front();
  TROUPE_TRY(check_scored(network, scored));
  const ops::Attributes reading = label_attributes(network);
  const auto ignores = reading.find("use_ignore");
  const bool leaves_out = ignores != reading.end() && ignores->second == "True";
  if (leaves_out || scored.rank() != 2 || scored[1] > INT32_MAX) return std::uint32_t{0};
  return static_cast<std::uint32_t>(scored[1]);
}

/// An error when the rate would never be the one that the optimizer is to have. Where max_steps
/// ends a job before, its schedule is that of the whole one.
base::Status check_warmup(const Job& job) {
  const schemas::Period& warmup = job.spec.train.schedule.warmup;
  const std::uint64_t steps = store::period_steps(warmup, job.steps_per_epoch());
  if (steps == 0 || steps < job.steps_total()) return {};
  return base::error(base::Errc::invalid_argument,
                     "train.schedule.warmup: {} of warm-up leave no step behind them: {} of {} "
                     "are {}",
                     base::format_counted(steps, "step"),
                     base::format_counted(job.spec.train.epochs, "epoch"),
                     base::format_counted(job.train_data->records(), "record"),
                     base::format_counted(job.steps_total(), "step"));
}

/// The dtype of weights and data in a job whose products are computed in `dtype`.
base::Result<base::DType> weight_dtype(base::DType dtype) {
  if (dtype == base::DType::f32 || dtype == base::DType::f64) return dtype;
  if (base::is_16_bit(dtype)) return base::DType::f32;
  return base::error(base::Errc::invalid_argument,
                     "numerics.dtype is {}; there are f32, f64, bf16 and f16",
                     base::dtype_name(dtype));
}

base::Result<std::shared_ptr<const symbol::KernelChoices>> kernel_choices(
    const schemas::NumericsSpec& numerics) {
  if (numerics.kernels.empty() && numerics.kernels_json.empty())
    return std::shared_ptr<const symbol::KernelChoices>();
  if (numerics.kernels_json.empty()) {
    return store::text_missing("numerics.kernels", numerics.kernels, "kernels_json");
  }
  auto choices = symbol::KernelChoices::from_json(numerics.kernels_json, numerics.kernels);
  if (!choices.ok()) return choices.status().with_context("numerics.kernels");
  return std::make_shared<const symbol::KernelChoices>(*std::move(choices));
}

}  // namespace

std::uint64_t Job::steps_end() const {
  return std::min(steps_total(), spec.train.max_steps.value_or(steps_total()));
}

store::UpdateRule Job::rule() const {
  return {spec.train.optimizer,
          spec.train.schedule,
          {steps_per_epoch(), steps_total()},
          spec.train.non_finite == schemas::NonFinite::fail,
          loss_scale()};
}

std::optional<store::LossScaleRule> Job::loss_scale() const {
  const schemas::NumericsSpec& numerics = spec.numerics;
  if (numerics.dtype != base::DType::f16) return std::nullopt;
  return store::LossScaleRule{numerics.loss_scale, numerics.loss_scale_steps};
}

data::SampleOptions Job::training_samples() const {
  data::SampleOptions augmented = samples;
  augmented.augment = {spec.data.augment.crop_padding, spec.data.augment.mirror, spec.seed};
  return augmented;
}

std::uint64_t Job::samples_before(std::uint64_t step) const {
  const data::Cursor cursor = orders->dealer().cursor(step);
  const std::uint64_t whole_steps = std::uint64_t{spec.ranks()} * spec.data.batch;
  return cursor.epoch * train_data->records() +
         std::min(cursor.step * whole_steps, train_data->records());
}

base::Status check_room(const Job& job, std::size_t ranks, std::size_t shards) {
  // Weights and gradients of a rank, of one on a GPU at most its gradients; weights, sums and
  // states of the servers.
  const bool gpu = job.spec.workers.device == schemas::WorkerDevice::gpu;
  const double copies_of_rank = gpu ? 1 : 2;
  const double arrived = gpu && shards == 0 ? 1 : 0;  // weights that links have read
  constexpr double kCopiesOfServers = 3;
  double parameters = 0;
  for (const schemas::KeyInfo& key : job.keys.keys) {
    parameters += static_cast<double>(key.shape.elements()) *
                  static_cast<double>(base::dtype_size(key.dtype));
  }
  const double servers = shards == 0 ? 0
                                     : kCopiesOfServers * static_cast<double>(shards) /
                                           static_cast<double>(job.spec.shards());
  const double needed =
      parameters * (copies_of_rank * static_cast<double>(ranks) + arrived + servers);
  const std::uint64_t present = storage::total_host_bytes();
  if (needed > static_cast<double>(present)) {
    const auto text = [](double bytes) {
      constexpr double kMost = 1e19;  // below 2^64
      return base::format_bytes(static_cast<std::uint64_t>(std::min(bytes, kMost)));
    };
    return base::error(base::Errc::resource_exhausted,
                       "the network's {} of parameters need {} here, this process can have {}",
                       text(parameters), text(needed), base::format_bytes(present));
  }
  // The program's own, its libraries', a rank's lanes and data threads, a server's.
  constexpr std::size_t kOfProcess = 12, kOfShard = 3;
  constexpr std::size_t kOfGpu = 6, kOfSums = 7;  // three more lanes; those that add gradients
  const std::size_t of_rank = 6 + (gpu ? kOfGpu : 0) + (gpu && ranks > 1 ? kOfSums : 0);
  return base::check_room_for_threads(
      kOfProcess + ranks * (of_rank + job.spec.workers.threads + job.spec.data.prefetch_threads) +
      shards * (kOfShard + job.spec.servers.threads));
}

base::Result<symbol::Symbol> make_job_network(const schemas::ModelSpec& model,
                                              const ops::OpTable& table) {
  if (model.network.empty()) {
    if (model.symbol_json.empty()) {
      return store::text_missing("model.symbol", model.symbol, "symbol_json");
    }
    auto symbol = symbol::Symbol::from_json(table, model.symbol_json);
    if (!symbol.ok()) return symbol.status().with_context(model.symbol);
    return symbol;
  }
  symbol::NetworkOptions options;
  options.classes = model.classes;
  options.dropout = model.dropout;
  options.bias = model.bias;
  return symbol::make_network(table, model.network, options);
}

base::Result<std::shared_ptr<const Job>> open_job(const schemas::JobSpec& spec,
                                                  const ops::OpTable& table,
                                                  const schemas::JobRoots& roots) {
  TROUPE_TRY(check_roots(spec, roots));
  auto job = std::make_shared<Job>();
  job->spec = spec;
  TROUPE_TRY_ASSIGN(job->network, make_job_network(spec.model, table));
  const data::OnDamage on_damage = spec.data.on_bad_record == schemas::BadRecord::skip
                                       ? data::OnDamage::skip
                                       : data::OnDamage::fail;
  auto train_data = data::Dataset::open(spec.data.train, on_damage);
  if (train_data.status().code() == base::Errc::not_found) {
    return base::error(base::Errc::not_found, "data.train: {}; troupe data pack makes such files",
                       train_data.status().text());
  }
  if (!train_data.ok()) return train_data.status().with_context("data.train");
  job->train_data = *std::move(train_data);
  if (!spec.data.test.empty()) {
    auto test_data = data::Dataset::open(spec.data.test, on_damage);
    if (!test_data.ok()) return test_data.status().with_context("data.test");
    job->test_data = *std::move(test_data);
    if (job->test_data->records() == 0) {
      return base::error(base::Errc::invalid_argument, "data.test: {}: holds no records",
                         spec.data.test);
    }
  }
  TROUPE_TRY_ASSIGN(job->samples.image, image_shape(spec.model, *job->train_data, on_damage));
  if (job->test_data != nullptr) TROUPE_TRY(check_test_images(*job, on_damage));
  job->samples.mean = spec.data.mean;
  job->samples.std = spec.data.std;
  job->samples.on_bad_record = on_damage;
  job->samples.record_bytes_max = spec.limits.record_bytes_max;
  TROUPE_TRY(data::check_options(job->training_samples()));
  InputSpec inputs;
  inputs.sample =
      base::Shape{job->samples.image.channels, job->samples.image.height, job->samples.image.width};
  TROUPE_TRY_ASSIGN(inputs.dtype, weight_dtype(spec.numerics.dtype));
  auto keys = network_keys(job->network, inputs, spec.train.keys);
  if (!keys.ok()) return keys.status().with_context(network_name(spec.model));
  job->keys = *std::move(keys);
  set_wires(job->keys.keys, spec.numerics.gradient_wire, spec.numerics.weight_wire);
  TROUPE_TRY_ASSIGN(job->kernels, kernel_choices(spec.numerics));
  const auto classes = check_network(job->network, job->keys);
  if (!classes.ok()) return classes.status().with_context(network_name(spec.model));
  job->samples.classes = *classes;
  const base::Status trains =
      check_trains(job->network, job->keys, table, job->loss_scale().has_value());
  if (!trains.ok()) return trains.with_context(network_name(spec.model));
  TROUPE_TRY(store::check_judged(spec));
  TROUPE_TRY(
      store::check_clip_norm(spec.train.optimizer.clip_norm).with_context("train.optimizer"));
  if (const auto rule = job->loss_scale()) {
    TROUPE_TRY(store::check_loss_scale(*rule).with_context("numerics"));
    TROUPE_TRY(add_loss_scale(job->keys).with_context(network_name(spec.model)));
  }
  TROUPE_TRY_ASSIGN(
      data::Dealer dealer,
      data::Dealer::create({job->train_data->records(), spec.ranks(), spec.data.batch, spec.seed}));
  job->orders = std::make_shared<data::EpochOrders>(std::move(dealer));
  TROUPE_TRY(check_warmup(*job));
  return std::shared_ptr<const Job>(std::move(job));
}

}  // namespace troupe::train
