// SPDX-License-Identifier: Apache-2.0
// Binding a network for inspection, and the tables of what came out.
#include "apps/model_report.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <set>
#include <system_error>
#include <type_traits>
#include <vector>

#include "base/clock.h"
#include "base/text.h"
#include "base/units.h"
#include "engine/engine.h"
#include "gpu/inventory.h"
#include "gpu/stream.h"
#include "ndarray/runtime.h"
#include "ops/numerics.h"
#include "storage/storage.h"
#include "symbol/arena.h"
#include "symbol/autotune.h"
#include "symbol/describe.h"
#include "symbol/executor.h"
#include "symbol/gradient.h"
#include "symbol/infer.h"
#include "symbol/networks/networks.h"

namespace troupe::apps {
namespace {

using symbol::Symbol;

constexpr std::string_view kDataName = "data";
constexpr int kDigits = 3;

bool named_file(const std::string& name) {
  std::error_code unknown;
  const std::filesystem::file_status there = std::filesystem::status(name, unknown);
  return std::filesystem::exists(there) && !std::filesystem::is_directory(there);
}

base::Result<Symbol> load(const InspectOptions& options, const ops::OpTable& table) {
  const std::vector<std::string> names = symbol::network_names();
  const bool file = std::ranges::find(names, options.model) == names.end() &&
                    (options.model.ends_with(".json") || named_file(options.model));
  if (file && options.classes) {
    return base::error(base::Errc::invalid_argument,
                       "--classes {} is of built-in networks; {} has its own", *options.classes,
                       options.model);
  }
  if (file) return Symbol::load(table, options.model);
  symbol::NetworkOptions network;
  network.classes = options.classes;
  return symbol::make_network(table, options.model, network);
}

/// The shape of the first output of each node of network.graph(). (A variable and an operator's
/// output may have one name.)
base::Result<std::vector<base::Shape>> shapes_of(const Symbol& network, const base::Shape& data) {
  TROUPE_TRY_ASSIGN(const auto inferred,
                    network.internals().infer_shapes({{std::string(kDataName), data}}));
  std::vector<base::Shape> shapes;
  std::size_t place = 0;
  for (const symbol::GraphNode& node : network.graph().nodes) {
    shapes.push_back(inferred.outputs[place]);
    place += node.is_variable()
                 ? 1
                 : static_cast<std::size_t>(node.op->visible_output_count(node.params));
  }
  return shapes;
}

/// The shape of a sample as text.
std::string input_of(const InspectOptions& options) {
  if (options.input) return *options.input;
  constexpr std::string_view kOfFiles = "1,28,28";
  const symbol::NetworkInfo* network = symbol::find_network(options.model);
  if (network == nullptr) return std::string(kOfFiles);
  return fmt::format("{}", fmt::join(network->sample.dims(), ","));
}

base::Result<base::Shape> sample_shape(const InspectOptions& options) {
  TROUPE_TRY_ASSIGN(const base::Shape sample, base::parse_shape(input_of(options)));
  double elements = static_cast<double>(options.batch);
  for (const std::int64_t extent : sample.dims()) elements *= static_cast<double>(extent);
  constexpr std::uint64_t kElementsMax = std::uint64_t{1} << 31;
  if (!sample.complete() || sample.rank() == base::kRankMax || !(elements >= 1) ||
      elements > static_cast<double>(kElementsMax)) {
    return base::error(base::Errc::invalid_argument,
                       "no batch of {} of shape {} can be inspected: it "
                       "needs 1 number at least, and {} at most",
                       base::format_counted(static_cast<std::uint64_t>(options.batch), "sample"),
                       sample.to_string(), base::format_count(kElementsMax));
  }
  return sample;
}

/// Rows of cells, written in columns, and lines between them.
class TextTable {
 public:
  /// Cells that are too long lose their end. Names in them are from files: no terminal obeys them.
  void add(std::vector<std::string> row) {
    constexpr std::size_t kCellMost = 80;
    for (std::string& cell : row) {
      cell = base::shortened(base::printable(cell), kCellMost);
    }
    rows_.push_back(std::move(row));
  }
  /// A line that is no row: its length does not count.
  void note(std::string_view line) { rows_.push_back({base::printable(line)}); }
  std::string to_string() const {
    std::vector<std::size_t> widths;
    for (const auto& row : rows_) {
      if (row.size() == 1) continue;
      widths.resize(std::max(widths.size(), row.size()));
      for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
    }
    std::string text;
    for (const auto& row : rows_) {
      std::string line;
      for (std::size_t i = 0; i < row.size(); ++i) {
        line += fmt::format("{:<{}}  ", row[i], widths[i]);
      }
      text += line.substr(0, line.find_last_not_of(' ') + 1) + "\n";
    }
    return text;
  }

 private:
  std::vector<std::vector<std::string>> rows_;
};

std::vector<LayerReport> describe_layers(const Symbol& network,
                                         const std::vector<base::Shape>& shapes,
                                         const symbol::ExecutorReport& report) {
  std::map<std::string, const symbol::NodeReport*> prepared;
  for (const symbol::NodeReport& node : report.nodes) prepared.emplace(node.name, &node);
  const symbol::Graph graph = network.graph();
  const std::vector<std::string> parameters = network.list_parameters();
  const std::vector<std::string> states = network.list_auxiliary_states();
  std::set<std::string> uncounted(parameters.begin(), parameters.end());
  std::set<std::string> unseen(states.begin(), states.end());
  std::vector<LayerReport> layers;
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    const symbol::GraphNode& node = graph.nodes[i];
    if (node.is_variable()) continue;
    LayerReport& layer = layers.emplace_back();
    for (const symbol::Value& input : node.inputs) {
      const symbol::GraphNode& source = graph.node(input);
      // A shared weight counts once.
      const bool parameter = source.is_variable() && uncounted.erase(source.name) != 0;
      const bool state = source.is_variable() && unseen.erase(source.name) != 0;
      if (!parameter && !state) continue;
      const base::Shape& shape = shapes[static_cast<std::size_t>(input.node)];
      layer.tensors.push_back({source.name, shape});
      if (parameter) layer.parameters += static_cast<std::uint64_t>(shape.elements());
    }
    layer.name = node.name;
    layer.op = node.op->name;
    layer.output = shapes[i];
    const auto found = prepared.find(node.name);
    if (found == prepared.end()) continue;
    layer.layout = found->second->layout;
    layer.multiply_adds = found->second->multiply_adds;
    layer.kernel = found->second->kernel;
    layer.declines = found->second->declines;
  }
  return layers;
}

/// A count of work as a whole number; the largest there is where it is more.
std::uint64_t whole_count(double count) {
  constexpr double kMost = 1.8e19;  // below 2^64
  return count < kMost ? static_cast<std::uint64_t>(count) : UINT64_MAX;
}

std::string summarize(const ModelReport& report, bool why) {
  std::string text = fmt::format(
      "\nparameters      {}\n"
      "planned memory  {} for training ({} unshared), {} for prediction\n"
      "live set        {} for training, {} for prediction: no plan of this order takes less\n"
      "prologue        {} of weights, folded or in kernels' layouts, kept between predictions\n"
      "outputs and gradients {}, kernels' scratch {} in sum, which the plan shares, {} results in "
      "place\n"
      "forward work    {:.{}f} GFLOP for a batch of {}, {} multiply-adds a sample\n",
      base::format_count(report.parameters), base::format_bytes(report.train_bytes),
      base::format_bytes(report.unshared_bytes), base::format_bytes(report.predict_bytes),
      base::format_bytes(report.live_set_bytes), base::format_bytes(report.predict_live_set_bytes),
      base::format_bytes(report.prologue_bytes), base::format_bytes(report.external_bytes),
      base::format_bytes(report.scratch_bytes), report.in_place, report.flops * 1e-9, kDigits,
      report.batch,
      base::format_count(whole_count(report.multiply_adds() / static_cast<double>(report.batch))));
  if (report.sub_batch > 0) {
    text += fmt::format(
        "sub-batches     of {} in the first {} of a prediction\n",
        base::format_counted(static_cast<std::uint64_t>(report.sub_batch), "sample"),
        base::format_counted(static_cast<std::uint64_t>(report.nodes_in_parts), "node"));
  }
  if (report.recomputed > 0) {
    text += fmt::format("recomputed      {} of the training step, {:.{}f} % of its time by rule\n",
                        base::format_counted(report.recomputed, "node"),
                        100 * report.recompute_seconds / report.step_seconds, kDigits);
  }
  if (report.stored_choices) {
    text += fmt::format("stored choices  decided {} of the training step\n",
                        base::format_counted(*report.stored_choices, "kernel"));
  }
  text += fmt::format("reorders        {}\n", report.reorders.size());
  for (const std::string& reorder : report.reorders) {
    if (why) text += "  " + base::printable(reorder) + "\n";
  }
  return text;
}

/// The shape of a batch.
base::Result<base::Shape> batch_shape(const InspectOptions& options) {
  TROUPE_TRY_ASSIGN(const base::Shape sample, sample_shape(options));
  std::vector<std::int64_t> extents = {options.batch};
  extents.insert(extents.end(), sample.dims().begin(), sample.dims().end());
  return base::Shape(extents);
}

/// For what nobody runs: more than any machine has.
constexpr std::uint64_t kAnyBytes = std::uint64_t{1} << 46;

/// The compute stream of a GPU that can be used; null for the CPU.
base::Result<std::unique_ptr<base::Stream>> stream_of(base::Device device) {
  if (device.kind != base::DeviceKind::cuda) return std::unique_ptr<base::Stream>();
  const base::Status usable = gpu::check_device(device);
  if (!usable.ok()) return base::error(base::Errc::resource_exhausted, "{}", usable.text());
  return gpu::make_stream(device, gpu::StreamPriority::normal);
}

/// What `use` finds with a runtime that has the options' threads and device; a Result.
template <typename F>
auto with_runtime(const InspectOptions& options, const ops::OpTable& table,
                  const storage::PoolOptions& memory, F&& use)
    -> std::invoke_result_t<F, ndarray::Runtime&> {
  TROUPE_TRY_ASSIGN(const std::unique_ptr<base::Stream> stream, stream_of(options.device));
  base::SteadyClock clock;
  storage::Storage storage(memory);
  ndarray::PreparedKernels kernels;
  engine::EngineOptions engine_options;
  engine_options.threads = options.threads;
  if (stream != nullptr) engine_options.streams = {stream.get()};
  const auto engine = engine::make_threaded_engine(engine_options, clock);
  ndarray::Runtime runtime{*engine, storage, table, kernels, clock};
  return use(runtime);
}

/// The parameters that have a gradient; jobs train networks with others, too, behind stop_gradient.
base::Result<std::vector<std::string>> with_gradient(const ops::OpTable& table,
                                                     const Symbol& network) {
  std::vector<std::string> names = network.list_parameters();
  const symbol::Graph graph = network.graph();
  TROUPE_TRY_ASSIGN(const auto dtypes, symbol::infer_dtypes(graph, {}));
  TROUPE_TRY_ASSIGN(const auto without, symbol::without_gradient(table, graph, names, dtypes));
  const std::set<std::string_view> unreached(without.begin(), without.end());
  std::erase_if(names, [&](const std::string& name) { return unreached.contains(name); });
  return names;
}

/// The network bound for training with all gradients and for prediction, as a worker does.
/// `tuner`: measures its kernels; null: nothing is measured.
base::Result<std::unique_ptr<symbol::Executor>> bind(ndarray::Runtime& runtime,
                                                     const InspectOptions& options,
                                                     const Symbol& network,
                                                     symbol::Autotuner* tuner = nullptr) {
  TROUPE_TRY_ASSIGN(const base::Shape data, batch_shape(options));
  symbol::ExecutorOptions how;
  how.device = options.device;
  how.plan_only = true;  // so it may be larger than the device: addresses will do
  how.layouts = options.dense ? base::LayoutPolicy::dense : base::LayoutPolicy::chosen;
  how.reference_only = options.reference_only;
  how.winograd = options.winograd;
  how.tf32 = options.tf32;
  how.products = options.products;
  how.memory = options.memory;
  how.recompute = options.recompute.value_or(symbol::recompute_by_default(options.device));
  how.budget = options.budget;
  how.sub_batch = options.sub_batch;
  how.tuner = tuner;
  if (!options.kernels.empty()) {
    TROUPE_TRY_ASSIGN(auto choices, symbol::KernelChoices::load(options.kernels));
    how.kernels = std::make_shared<const symbol::KernelChoices>(std::move(choices));
  }
  TROUPE_TRY_ASSIGN(
      symbol::Bindings bindings,
      symbol::allocate_bindings(runtime, network, {{std::string(kDataName), data}},
                                base::DType::f32, base::Device{}, symbol::Content::unspecified));
  TROUPE_TRY_ASSIGN(const auto learned, with_gradient(runtime.ops, network));
  for (const std::string& name : learned) {
    bindings.grad_req[name] = symbol::GradReq::write;
    const ndarray::NDArray& argument = bindings.arguments.at(name);
    TROUPE_TRY_ASSIGN(bindings.gradients[name],
                      ndarray::NDArray::empty(runtime, argument.shape(), argument.dtype()));
  }
  return symbol::Executor::bind(runtime, network, std::move(bindings), how);
}

/// What `look` finds in the bound network.
template <typename F>
auto with_executor(const InspectOptions& options, const ops::OpTable& table, const Symbol& network,
                   F&& look)
    -> base::Result<std::decay_t<std::invoke_result_t<F, const symbol::Executor&>>> {
  using Found = base::Result<std::decay_t<std::invoke_result_t<F, const symbol::Executor&>>>;
  // Plans, parameters and gradients are looked at and never written, so they may be larger than the
  // machine.
  const storage::PoolOptions memory{.limit_bytes = kAnyBytes, .arena_limit_bytes = kAnyBytes};
  return with_runtime(options, table, memory, [&](ndarray::Runtime& runtime) -> Found {
    TROUPE_TRY_ASSIGN(const auto executor, bind(runtime, options, network));
    return look(*executor);
  });
}

base::Result<ModelReport> report_on(const InspectOptions& options, const ops::OpTable& table,
                                    const Symbol& network) {
  TROUPE_TRY_ASSIGN(const base::Shape data, batch_shape(options));
  TROUPE_TRY_ASSIGN(const auto shapes, shapes_of(network, data));
  TROUPE_TRY_ASSIGN(const auto bound,
                    with_executor(options, table, network, [](const symbol::Executor& executor) {
                      return executor.report();
                    }));
  ModelReport report;
  report.layers = describe_layers(network, shapes, bound);
  for (const symbol::NodeReport& node : bound.nodes) {
    if (!node.backward) continue;
    report.gradients.push_back({node.name, node.op, node.outputs.empty() ? "" : node.outputs[0],
                                node.kernel, node.declines});
  }
  report.batch = options.batch;
  for (const LayerReport& layer : report.layers) report.parameters += layer.parameters;
  report.train_bytes = bound.arena_bytes;
  report.live_set_bytes = bound.live_set_bytes;
  report.unshared_bytes = bound.unshared_bytes;
  report.predict_bytes = bound.predict_bytes;
  report.predict_live_set_bytes = bound.predict_live_set_bytes;
  report.prologue_bytes = bound.prologue_bytes;
  report.sub_batch = bound.sub_batch;
  report.nodes_in_parts = bound.nodes_in_parts;
  report.external_bytes = bound.external_bytes;
  report.scratch_bytes = bound.scratch_bytes;
  if (!options.kernels.empty()) report.stored_choices = bound.stored_choices;
  report.in_place = static_cast<std::uint64_t>(bound.in_place);
  report.recomputed = static_cast<std::uint64_t>(bound.recomputed);
  report.recompute_seconds = bound.recompute_seconds;
  report.step_seconds = bound.step_seconds;
  report.flops = bound.flops;
  report.reorders = bound.reorders;
  return report;
}

base::Result<TunedModel> tune(const InspectOptions& options, const ops::OpTable& table,
                              const Symbol& network, double seconds,
                              const std::atomic<bool>& stop) {
  TunedModel tuned;
  if (!options.kernels.empty()) {
    TROUPE_TRY_ASSIGN(tuned.choices, symbol::KernelChoices::load(options.kernels));
  }
  std::vector<base::Device> devices;
  if (options.device != base::Device{}) devices.push_back(options.device);
  const std::string here = ops::numeric_class(options.threads, devices).to_string();
  std::string& machine = tuned.choices.machine;
  if (machine.find(here) == std::string::npos) machine += (machine.empty() ? "" : "; ") + here;
  const auto measure = [&](ndarray::Runtime& runtime) -> base::Status {
    symbol::Autotuner tuner(symbol::measure_on(runtime), runtime.clock, seconds, &stop);
    TROUPE_TRY(bind(runtime, options, network, &tuner).status());
    auto found = tuner.choices();
    tuned.measured = found.size();
    tuned.left = tuner.left();
    tuned.failed = tuner.failed();
    tuned.choices.calls.merge(std::move(found));  // what was there stays
    return {};
  };
  // What is measured is written, to the last page: the system would rather end the program than
  // give more memory than there is. The plan is not.
  constexpr double kShare = 0.9;
  const auto room =
      static_cast<std::uint64_t>(kShare * static_cast<double>(storage::available_host_bytes()));
  const storage::PoolOptions memory{.limit_bytes = room, .arena_limit_bytes = kAnyBytes};
  TROUPE_TRY(with_runtime(options, table, memory, measure));
  return tuned;
}

base::Result<std::string> dot_of(const InspectOptions& options, const ops::OpTable&,
                                 const Symbol& network) {
  TROUPE_TRY_ASSIGN(const base::Shape data, batch_shape(options));
  return symbol::to_dot(network, {{std::string(kDataName), data}});
}

base::Result<std::string> passes_of(const InspectOptions& options, const ops::OpTable& table,
                                    const Symbol& network) {
  return with_executor(options, table, network,
                       [](const symbol::Executor& executor) { return executor.dump(); });
}

/// What `look` finds about the network of the options; errors name both.
template <typename F>
auto look_at(const InspectOptions& options, F&& look)
    -> std::invoke_result_t<F, const InspectOptions&, const ops::OpTable&, const Symbol&> {
  const ops::OpTable table = ops::OpTable::build();
  TROUPE_TRY_ASSIGN(const Symbol network, load(options, table));
  auto found = look(options, table, network);
  if (found.ok()) return found;
  return found.status().with_context(fmt::format("{} with --input {} --batch {}", options.model,
                                                 input_of(options), options.batch));
}

}  // namespace

double ModelReport::multiply_adds() const {
  double sum = 0.0;
  for (const LayerReport& layer : layers) sum += layer.multiply_adds;
  return sum;
}

std::string ModelReport::to_string(bool why) const {
  TextTable table;
  const auto add_declines = [&table](const std::vector<ops::Decline>& declines) {
    for (const ops::Decline& decline : declines) {
      table.note(fmt::format("  {} declined: {}", decline.kernel, decline.reason));
    }
  };
  table.add(
      {"layer", "operator", "output", "layout", "parameters", "multiply-adds/batch", "kernel"});
  for (const LayerReport& layer : layers) {
    const bool fused = layer.kernel.empty();
    const std::uint64_t work = whole_count(layer.multiply_adds);
    table.add(
        {layer.name, layer.op, layer.output.to_string(), fused ? "" : layer.layout.to_string(),
         layer.parameters == 0 ? "" : base::format_count(layer.parameters),
         work == 0 ? "" : base::format_count(work), fused ? "(fused or left out)" : layer.kernel});
    if (why) add_declines(layer.declines);
  }
  std::string text = table.to_string();
  if (why) {
    table = {};
    table.add({"backward pass", "operator", "first output", "kernel"});
    for (const GradientReport& node : gradients) {
      table.add({node.name, node.op, node.output, node.kernel});
      add_declines(node.declines);
    }
    text += "\n" + table.to_string();
  }
  return text + summarize(*this, why);
}

Json json_of(const ModelReport& report) {
  const auto json_of_declines = [](const std::vector<ops::Decline>& declines) {
    Json list = Json::array();
    for (const ops::Decline& decline : declines) {
      list.push_back({{"kernel", decline.kernel}, {"reason", decline.reason}});
    }
    return list;
  };
  const auto json_of_tensors = [](const std::vector<TensorReport>& tensors) {
    Json list = Json::array();
    for (const TensorReport& tensor : tensors) {
      list.push_back({{"name", tensor.name}, {"shape", json_of(tensor.shape)}});
    }
    return list;
  };
  Json layers = Json::array();
  for (const LayerReport& layer : report.layers) {
    layers.push_back(
        {{"name", layer.name},
         {"operator", layer.op},
         {"output_shape", json_of(layer.output)},
         {"layout", json_or_null(layer.kernel.empty() ? "" : layer.layout.to_string())},
         {"tensors", json_of_tensors(layer.tensors)},
         {"parameters", layer.parameters},
         {"multiply_adds", layer.multiply_adds},
         {"kernel", json_or_null(layer.kernel)},
         {"declined", json_of_declines(layer.declines)}});
  }
  Json gradients = Json::array();
  for (const GradientReport& node : report.gradients) {
    gradients.push_back({{"name", node.name},
                         {"operator", node.op},
                         {"output", node.output},
                         {"kernel", node.kernel},
                         {"declined", json_of_declines(node.declines)}});
  }
  return {{"layers", std::move(layers)},
          {"gradients", std::move(gradients)},
          {"batch", report.batch},
          {"parameters", report.parameters},
          {"train_bytes", report.train_bytes},
          {"live_set_bytes", report.live_set_bytes},
          {"unshared_bytes", report.unshared_bytes},
          {"predict_bytes", report.predict_bytes},
          {"predict_live_set_bytes", report.predict_live_set_bytes},
          {"prologue_bytes", report.prologue_bytes},
          {"sub_batch", report.sub_batch},
          {"nodes_in_parts", report.nodes_in_parts},
          {"external_bytes", report.external_bytes},
          {"scratch_bytes", report.scratch_bytes},
          {"in_place", report.in_place},
          {"recomputed", report.recomputed},
          {"recompute_seconds", report.recompute_seconds},
          {"step_seconds", report.step_seconds},
          {"stored_choices", json_or_null(report.stored_choices)},
          {"forward_flops", report.flops},
          {"multiply_adds", report.multiply_adds()},
          {"reorders", report.reorders}};
}

base::Result<ModelReport> inspect_model(const InspectOptions& options) {
  return look_at(options, report_on);
}

base::Result<std::string> model_dot(const InspectOptions& options) {
  return look_at(options, dot_of);
}

base::Result<std::string> model_passes(const InspectOptions& options) {
  return look_at(options, passes_of);
}

base::Result<TunedModel> autotune_model(const InspectOptions& options, double seconds,
                                        const std::atomic<bool>& stop) {
  return look_at(options,
                 [&](const InspectOptions& how, const ops::OpTable& table, const Symbol& network) {
                   return tune(how, table, network, seconds, stop);
                 });
}

}  // namespace troupe::apps
