// SPDX-License-Identifier: Apache-2.0
// Random graphs, bound in many ways: memory, recomputation, parts of a batch, engines and devices
// change no bit; kernels, layouts, fusion and products in 16 bits nothing beyond rounding. What
// rounding may do is measured: the network in f64 with noise behind every node, both ways. A
// failure is shown as a smaller graph. TROUPE_GRAPHS_FIRST and TROUPE_GRAPHS_COUNT: seeds to try.
#include <array>
#include <cstdlib>
#include <functional>

#include "symbol/arena.h"
#include "symbol/autotune.h"
#include "tests/support/delayed_stream.h"
#include "tests/symbol/bound.h"
#include "tests/symbol/random_graphs.h"

namespace troupe::symbol {
namespace {

using base::DType;
using base::Errc;
using ndarray::NDArray;

/// How a network is bound and run.
struct Way {
  ExecutorOptions options = {};
  DType dtype = DType::f32;
  int threads = 1;
  bool serial = false, delayed = false, from_json = false;
  bool watched = false;       ///< by a monitor
  bool scaled = false;        ///< gradients of losses, by a power of two
  bool dirty = false;         ///< the arena is full of NaN before each step
  bool turns = false;         ///< another executor uses the arena between steps
  std::uint64_t kernels = 0;  ///< other ones than the rule's, by this number; 0: those
  double noise = 0;           ///< behind every node
  std::uint64_t noise_seed = 0;
};

std::string text_of(const Way& way) {
  const ExecutorOptions& o = way.options;
  return fmt::format(
      "layouts {} reference {} winograd {} fused {} products {} {} kernels {} threads {} memory {} "
      "recompute {} budget {} sub_batch {} train {} predict {} serial {} delayed {} json {} "
      "turns {} dirty {} watched {} scaled {}",
      static_cast<int>(o.layouts), o.reference_only, o.winograd, o.fused,
      base::dtype_name(o.products), base::dtype_name(way.dtype), way.kernels, way.threads,
      static_cast<int>(o.memory), static_cast<int>(o.recompute), o.budget, o.sub_batch, o.train,
      o.predict, way.serial, way.delayed, way.from_json, way.turns, way.dirty, way.watched,
      way.scaled);
}

/// Times that follow from `number`, the call and the kernel alone.
MeasureFunction made_up_times(std::uint64_t number) {
  return [number](const ops::OpCall& call, const ops::Offer& offer) -> base::Result<double> {
    std::string text = call.op->name + " " + offer.maker->name;
    for (const auto& input : call.inputs) text += input.shape.to_string();
    return 1e-6 * static_cast<double>(1 + base::random_key(number, text).value % 1000);
  };
}

Bytes error_bytes(Errc code) {
  const auto bytes = std::as_bytes(std::span(base::errc_name(code)));
  return {bytes.begin(), bytes.end()};
}

/// Some steps of a network; results are bytes by step and name, or an error's name.
class Steps {
 public:
  Steps(const Recipe& recipe, const Way& way)
      : recipe_(recipe),
        way_(way),
        trains_(way.options.train && recipe.trains),
        predicts_(way.options.predict || !recipe.trains),
        stream_({.delay = std::chrono::microseconds(1)}),
        test_(!way.serial, engine_options()) {}

  Results run() {
    net_ = built(recipe_, way_.noise > 0);
    if (way_.from_json) net_ = Symbol::from_json(table(), net_.to_json()).value();
    Autotuner tuner(made_up_times(way_.kernels), test_.clock, 1e9);
    ExecutorOptions options = way_.options;
    options.train = trains_;
    options.predict = predicts_;
    if (way_.delayed) options.device = stream_.device();
    if (way_.kernels != 0) options.tuner = &tuner;
    arena_ = std::make_shared<Arena>(test_.runtime, options.device);
    if (way_.turns || way_.dirty) options.arena = arena_;
    if (way_.watched) options.monitor = [](const std::string&, const base::TensorView&) {};
    if (way_.scaled) {
      options.loss_scale = NDArray::from<float>(test_.runtime, {1}, std::array{kScale}).value();
    }
    auto made = bind(options);
    if (!made.ok()) return {{"bind", error_bytes(made.status().code())}};
    executor_ = std::move(made).value();
    arena_bytes = executor_->report().arena_bytes;
    options.train = false;
    if (way_.turns) other_ = bind(options).value();
    for (const int step : {0, 1, 4}) one_step(step);
    return results_;
  }

  std::size_t arena_bytes = 0;

 private:
  static constexpr float kScale = 4;

  engine::EngineOptions engine_options() {
    engine::EngineOptions options{.threads = way_.threads};
    if (way_.delayed) options.streams = {&stream_};
    return options;
  }

  base::Result<std::unique_ptr<Executor>> bind(const ExecutorOptions& options) {
    TROUPE_TRY_ASSIGN(Bindings bindings,
                      allocate_bindings(test_.runtime, net_, known_shapes(recipe_, net_),
                                        way_.dtype, options.device));
    for (const auto& [name, array] : bindings.arguments) {
      if (recipe_.classes.contains(name) || name.ends_with("_noise")) continue;
      const std::uint64_t draw = base::random_key(recipe_.seed, "request " + name).value % 8;
      if (draw > 0) bindings.grad_req[name] = draw == 1 ? GradReq::add : GradReq::write;
    }
    return Executor::bind(test_.runtime, net_, std::move(bindings), options);
  }

  /// Numbers that follow from name, step and the recipe's seed, the same in all types, but for
  /// noise.
  void fill(const std::string& name, const NDArray& array, int step) const {
    std::vector<double> values(static_cast<std::size_t>(array.elements()));
    const auto drawn = [&, at = static_cast<std::uint64_t>(step)](std::uint64_t seed,
                                                                  std::size_t i) {
      const base::RandomKey key = base::random_key(seed, name);
      return base::uniform_f64(base::philox(key, i / 4, at, 0)[i % 4]);
    };
    const auto classes = recipe_.classes.find(name);
    double low = -1, high = 1;
    if (name.ends_with("gamma") || name.ends_with("_var"))
      std::tie(low, high) = std::pair(0.5, 1.5);
    if (name.find("_weight") != std::string::npos) {
      const double terms = static_cast<double>(array.elements() / array.shape()[0]);
      high = std::sqrt(3 / terms);
      low = -high;
    }
    for (std::size_t i = 0; i < values.size(); ++i) {
      const double noise = way_.noise * (2 * drawn(way_.noise_seed, i) - 1);
      const double value = low + (high - low) * drawn(recipe_.seed, i);
      values[i] = name.ends_with("_ahead_noise") ? noise : 1 + noise;
      if (!name.ends_with("_noise")) values[i] *= static_cast<double>(static_cast<float>(value));
      if (classes == recipe_.classes.end()) continue;
      values[i] = std::floor(drawn(recipe_.seed, i) * static_cast<double>(classes->second));
    }
    const std::vector<float> narrow(values.begin(), values.end());
    const bool wide = array.dtype() == DType::f64;
    REQUIRE(array.write(wide ? std::as_bytes(std::span(values)) : std::as_bytes(std::span(narrow)))
                .ok());
  }

  void prepare(Executor& executor, int step) const {
    for (const auto& [name, array] : executor.arguments()) fill(name, array, step);
    for (const auto& [name, array] : executor.auxiliary()) fill(name, array, step);
    REQUIRE(executor.set_step(step).ok());
  }

  void predict(Executor& executor, int step) {
    REQUIRE(executor.forward(false).ok());
    for (std::size_t i = 0; i < executor.outputs().size(); ++i) {
      results_[fmt::format("step {} predicted {}", step, i)] = bytes_of(executor.outputs()[i]);
    }
  }

  std::vector<NDArray> head_gradients(int step) {
    std::vector<NDArray> gradients;
    const Graph graph = net_.graph();
    for (std::size_t i = 0; i < graph.heads.size() && !executor_->gradients().empty(); ++i) {
      const GraphNode& node = graph.node(graph.heads[i]);
      if (!node.is_variable() && node.op->is_loss) continue;
      const NDArray& output = executor_->outputs()[i];
      gradients.push_back(NDArray::zeros(test_.runtime, output.shape(), output.dtype()).value());
      fill(fmt::format("head {}", i), gradients.back(), step);
    }
    return gradients;
  }

  void train(int step) {
    REQUIRE(executor_->forward(true).ok());
    // Masks are those of the forward pass.
    if (way_.dirty) REQUIRE(executor_->set_step(step + 7).ok());
    const base::Status status = executor_->backward(head_gradients(step));
    REQUIRE(executor_->set_step(step).ok());
    if (!status.ok()) results_["backward"] = error_bytes(status.code());
    for (auto& [name, bytes] : results_of(*executor_)) {
      if (way_.scaled && executor_->gradients().contains(name)) {
        const std::span values(reinterpret_cast<float*>(bytes.data()), bytes.size() / 4);
        for (float& value : values) value /= kScale;
      }
      results_[fmt::format("step {} {}", step, name)] = std::move(bytes);
    }
  }

  void one_step(int step) {
    REQUIRE(test_.engine->wait(arena_->memory()->variable).ok());
    base::Buffer& bytes = arena_->memory()->buffer;
    if (way_.dirty && arena_->bytes() > 0) std::memset(bytes.data(), 0xff, arena_->bytes());
    prepare(*executor_, step);
    if (other_) {
      prepare(*other_, step);
      predict(*other_, step);
    }
    if (step == 1 && predicts_) predict(*executor_, step);
    if (step == 4 && trains_ && predicts_) {
      REQUIRE(executor_->forward(true).ok());  // nobody goes back from it
      predict(*executor_, step);
      CHECK(executor_->backward(head_gradients(step)).code() == Errc::failed_precondition);
    }
    if (trains_) train(step);
    if (predicts_) predict(*executor_, step);
  }

  const Recipe& recipe_;
  const Way& way_;
  const bool trains_, predicts_;
  tests::DelayedStream stream_;
  tests::TestRuntime test_;
  Symbol net_;
  Results results_;
  std::shared_ptr<Arena> arena_;
  std::unique_ptr<Executor> executor_, other_;
};

// ---- comparing ----

std::vector<double> numbers(const Bytes& bytes, DType dtype) {
  const auto converted = [&bytes](auto zero) {
    std::vector<decltype(zero)> values(bytes.size() / sizeof zero);
    std::memcpy(values.data(), bytes.data(), bytes.size());
    return std::vector<double>(values.begin(), values.end());
  };
  return dtype == DType::f64 ? converted(0.0) : converted(0.0F);
}

/// What a network gives in f64 on reference kernels, and how far noise moves it.
class Truth {
 public:
  explicit Truth(const Recipe& recipe)
      : recipe_(recipe), results_(Steps(recipe, way(0, 0)).run()) {}

  /// Numbers are of moderate size.
  bool tame() const {
    return std::ranges::all_of(results_, [](const auto& result) {
      if (!result.first.starts_with("step")) return true;
      return std::ranges::all_of(numbers(result.second, DType::f64),
                                 [](double value) { return std::abs(value) < 1e4; });
    });
  }

  /// Empty, or what is wrong with results that were rounded to `epsilon` on the way.
  std::string compare(const Results& got, DType dtype, double epsilon) {
    if (got.size() != results_.size()) return "other results";
    for (const auto& [name, bytes] : got) {
      const auto found = results_.find(name);
      if (found == results_.end()) return "not in f64: " + name;
      if (!name.starts_with("step") && found->second != bytes) return "another error: " + name;
      if (!name.starts_with("step")) continue;
      const std::vector<double> x = numbers(found->second, DType::f64), y = numbers(bytes, dtype);
      if (x.size() != y.size()) return name + " has another size";
      double scale = 0;
      for (const double value : x) scale = std::max(scale, std::abs(value));
      double allowed = epsilon * scale + std::min(5 * epsilon, 1e-5);
      const double off = largest_difference(x, y);
      for (const std::size_t runs : {4, 24}) {
        if (off > allowed)
          allowed += (runs == 4 ? 2 : epsilon > 1e-4 ? 12 : 5) * spread(name, x, epsilon, runs);
      }
      if (off > allowed) {
        return fmt::format("{} is {:.3g} off, of {:.3g}, and may be {:.3g}", name, off, scale,
                           allowed);
      }
    }
    return "";
  }

 private:
  static Way way(double noise, std::uint64_t seed) {
    Way way{.dtype = DType::f64, .noise = noise, .noise_seed = seed};
    way.options = {.layouts = base::LayoutPolicy::dense,
                   .reference_only = true,
                   .fused = false,
                   .memory = MemoryMode::none,
                   .recompute = Recompute::none};
    return way;
  }

  static double largest_difference(const std::vector<double>& x, const std::vector<double>& y) {
    double largest = 0;
    for (std::size_t i = 0; i < x.size(); ++i) {
      const double difference = std::abs(x[i] - y[i]);
      largest = std::max(largest, std::isnan(difference) ? 1e30 : difference);
    }
    return largest;
  }

  double spread(const std::string& name, const std::vector<double>& exact, double epsilon,
                std::size_t runs) {
    std::vector<Results>& noisy = noisy_[epsilon];
    while (noisy.size() < runs) {
      noisy.push_back(Steps(recipe_, way(epsilon, noisy.size() + 1)).run());
    }
    double largest = 0;
    for (const Results& results : noisy) {
      largest = std::max(largest, largest_difference(exact, numbers(results.at(name), DType::f64)));
    }
    return largest;
  }

  const Recipe& recipe_;
  const Results results_;
  std::map<double, std::vector<Results>> noisy_;
};

// ---- ways ----

/// Kernels, and what their numbers are rounded to, about.
std::pair<Way, double> random_kernels(Random& random) {
  Way way;
  way.options.layouts = random.of({base::LayoutPolicy::dense, base::LayoutPolicy::chosen});
  way.options.reference_only = random.chance(20);
  way.options.fused = random.chance(60);
  way.options.winograd = random.chance(60);
  way.threads = random.of({1, 1, 2});  // which may decide about bits
  if (random.chance(40)) way.kernels = 1 + random.below(1'000'000);
  switch (random.below(20)) {
    case 0:
    case 1:
    case 2:
      way.dtype = DType::f64;
      return {way, 1e-13};
    case 3:
    case 4:
    case 5:
      way.options.products = DType::bf16;
      return {way, 8e-3};
    case 6:
      way.options.products = DType::f16;
      return {way, 1e-3};
    default:
      return {way, 2e-6};
  }
}

bool ends_in_losses(const Recipe& recipe) {
  const Graph graph = built(recipe, false).graph();
  return std::ranges::all_of(graph.heads, [&](Value head) {
    return !graph.node(head).is_variable() && graph.node(head).op->is_loss;
  });
}

/// Another way to the same bits.
Way random_way(const Recipe& recipe, const Way& first, Random& random, std::size_t arena_bytes) {
  Way way = first;
  ExecutorOptions& options = way.options;
  options.memory =
      random.of({MemoryMode::none, MemoryMode::in_place, MemoryMode::share, MemoryMode::both});
  options.recompute =
      random.of({Recompute::none, Recompute::cheap, Recompute::sqrt, Recompute::budget});
  options.budget = arena_bytes / 100 * (60 + random.below(50));
  options.sub_batch = static_cast<std::int64_t>(random.below(8));
  way.delayed = way.threads == 1 && random.chance(30);
  way.serial = !way.delayed && random.chance(30);
  way.from_json = random.chance(25);
  way.dirty = random.chance(40);
  way.watched = !way.delayed && random.chance(15);
  const bool wide = way.dtype == DType::f32 && options.products == DType::f32;
  way.scaled = wide && ends_in_losses(recipe) && random.chance(50);
  if (way.kernels != 0) return way;  // their times depend on what is bound before
  options.train = random.chance(85);
  options.predict = !options.train || random.chance(85);
  way.turns = options.predict && random.chance(25);
  return way;
}

/// Empty, or what is not the same.
std::string difference(const Results& expected, const Results& got, const Way& way) {
  if (way.options.recompute == Recompute::budget && got.contains("bind") &&
      got.at("bind") == error_bytes(Errc::resource_exhausted)) {
    return "";
  }
  // Losses that are read by others are refused then.
  if (way.scaled && got.contains("bind")) return "";
  for (const auto& [name, bytes] : got) {
    const auto found = expected.find(name);
    if (found == expected.end() || found->second != bytes) return name + " differs";
  }
  return "";
}

/// Empty, or what a way gets wrong: beside `other`, which has the same kernels, or beside f64.
std::string failure(const Recipe& recipe, const Way& way, double epsilon, const Way* other) {
  const Results results = Steps(recipe, way).run();
  if (other != nullptr) return difference(results, Steps(recipe, *other).run(), *other);
  Truth truth(recipe);
  return truth.tame() ? truth.compare(results, way.dtype, epsilon) : "";
}

void report(Recipe recipe, const Way& way, double epsilon, const Way* other) {
  std::string what = failure(recipe, way, epsilon, other);
  for (bool again = true; again;) {
    again = false;
    for (const Recipe& attempt : smaller(recipe)) {
      const std::string found = failure(attempt, way, epsilon, other);
      if (found.empty()) continue;
      what = found;
      recipe = attempt;
      again = true;
      break;
    }
  }
  FAIL_CHECK("seed " << recipe.seed << ": " << what << "\n"
                     << text_of(recipe) << "\n"
                     << text_of(way) << "\n"
                     << (other != nullptr ? text_of(*other) : "beside f64"));
}

/// Returns how many bindings were compared.
int check_graph(std::uint64_t seed) {
  Recipe recipe = random_recipe(seed);
  Random random(seed + 1'000'000'007);
  Way plain;
  plain.options = {.layouts = base::LayoutPolicy::dense, .reference_only = true, .fused = false};
  if (Steps(recipe, plain).run().contains("bind")) {
    // Gradients of what no output depends on are refused, in all ways.
    const std::string what = failure(recipe, Way(), 2e-6, nullptr);
    if (!what.empty()) FAIL_CHECK("seed " << seed << ": " << what << "\n" << text_of(recipe));
    recipe.trains = false;
  }
  Truth truth(recipe);
  if (!truth.tame()) return 0;
  int bindings = 0;
  for (const auto& [way, epsilon] : {std::pair(plain, 2e-6), std::pair(Way(), 2e-6),
                                     random_kernels(random), random_kernels(random)}) {
    Steps steps(recipe, way);
    const Results results = steps.run();
    ++bindings;
    if (!truth.compare(results, way.dtype, epsilon).empty()) report(recipe, way, epsilon, nullptr);
    for (int i = 0; i < 3; ++i, ++bindings) {
      const Way other = random_way(recipe, way, random, steps.arena_bytes);
      if (difference(results, Steps(recipe, other).run(), other).empty()) continue;
      report(recipe, way, epsilon, &other);
      break;
    }
  }
  return bindings;
}

std::uint64_t number_of(const char* name, std::uint64_t otherwise) {
  const char* text = std::getenv(name);
  return text == nullptr ? otherwise : std::strtoull(text, nullptr, 10);
}

TEST_CASE("random graphs give the same however they are bound") {
  const std::uint64_t first = number_of("TROUPE_GRAPHS_FIRST", 1);
  const std::uint64_t count = number_of("TROUPE_GRAPHS_COUNT", 24);
  int bindings = 0;
  for (std::uint64_t seed = first; seed < first + count; ++seed) bindings += check_graph(seed);
  CHECK(bindings > 0);
  UNSCOPED_INFO(bindings << " bindings");
}

}  // namespace
}  // namespace troupe::symbol
