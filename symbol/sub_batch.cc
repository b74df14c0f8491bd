// SPDX-License-Identifier: Apache-2.0
// What may run in parts is marked along the graph; then sizes of parts and places to go over to the
// whole batch are compared by the memory that they need.
#include "symbol/sub_batch.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <utility>

#include "ops/roofline.h"
#include "ops/support/wide_loads.h"
#include "symbol/passes.h"
#include "symbol/plan_memory.h"
#include "symbol/prologue.h"

namespace troupe::symbol {

namespace {

/// The share of a prediction's time that reading weights once more for each part may take, by the
/// kernels' rules. Values that stay in the caches make up for it.
constexpr double kSlowerMost = 0.02;
/// Places at which the graph goes over to the whole batch that are looked at for a size of parts.
constexpr std::size_t kPlacesMost = 64;
/// Chosen parts have at least so many samples: kernels need some work for all of their threads.
constexpr std::int64_t kSamplesLeast = 4;
/// Planned memory that is not worth parts: caches have as much.
constexpr std::size_t kBytesLeast = std::size_t{16} << 20;

/// Nodes and values of a graph in another order.
PreparedGraph in_order(PreparedGraph from, const std::vector<std::size_t>& order) {
  PreparedGraph result;
  std::vector<std::int64_t> places(order.size());
  for (std::size_t i = 0; i < order.size(); ++i) places[order[i]] = static_cast<std::int64_t>(i);
  const auto moved = [&places](Value value) {
    return Value{places[node_index(value)], value.output};
  };
  for (const std::size_t index : order) {
    GraphNode node = std::move(from.graph.nodes[index]);
    for (Value& input : node.inputs) input = moved(input);
    for (std::size_t v = from.numbers.begin(index); v < from.numbers.end(index); ++v) {
      result.shapes.push_back(from.shapes[v]);
      result.dtypes.push_back(from.dtypes[v]);
      result.layouts.push_back(std::move(from.layouts[v]));
    }
    result.numbers.add_node(node.outputs);
    result.graph.nodes.push_back(std::move(node));
    result.kernels.push_back(std::move(from.kernels[index]));
    result.plans.push_back(std::move(from.plans[index]));
  }
  for (const Value head : from.graph.heads) result.graph.heads.push_back(moved(head));
  result.reorders = std::move(from.reorders);
  return result;
}

class SubBatcher {
 public:
  SubBatcher(PreparedGraph prepared, const std::set<std::string>& weights, std::int64_t wanted)
      : original_(std::move(prepared)), prepared_(original_), weights_(weights), wanted_(wanted) {}

  base::Result<PreparedGraph> run() {
    // Its readers must stay where they are.
    if (assigns(original_.graph)) return std::move(original_);
    mark();
    least_ = planned_live_set(request()).bytes;
    // Once more after each kernel that declines fewer samples.
    while (true) {
      bring_forward();
      const std::optional<Choice> choice = choose();
      if (!choice) return std::move(original_);
      TROUPE_TRY_ASSIGN(const bool taken, apply(*choice));
      if (taken) return std::move(prepared_);
      mark();
    }
  }

 private:
  struct Choice {
    std::int64_t samples = 0;
    std::size_t end = 0;  // the nodes [first_, end) run in parts
  };
  struct Part {
    ops::OpCall call;
    std::vector<base::Layout> inputs, outputs;
    std::shared_ptr<const ops::Kernel> kernel;
  };

  const GraphNode& node(std::size_t index) const { return prepared_.graph.nodes[index]; }
  std::size_t number(Value value) const { return prepared_.numbers[value]; }

  void mark();
  bool runs_in_parts(std::size_t index) const;
  void bring_forward();
  std::optional<Choice> choose() const;
  std::vector<std::size_t> places() const;
  PlanRequest request() const;
  std::size_t planned_bytes(const PlanRequest& whole, const Choice& choice) const;
  std::vector<double> weight_seconds() const;
  ops::OpCall call_of(std::size_t index, std::int64_t samples) const;
  std::vector<bool> sliced(const Choice& choice) const;
  bool begins_wide(std::size_t index, const std::vector<bool>& sliced) const;
  base::Result<bool> apply(const Choice& choice);

  PreparedGraph original_;
  PreparedGraph prepared_;  // in another order
  const std::set<std::string>& weights_;
  const std::int64_t wanted_;
  std::set<std::string> declined_;  // names of nodes
  std::size_t least_ = 0;           // live set of the whole, in its own order
  std::int64_t batch_ = 0;
  std::vector<bool> prologue_, able_;  // per node
  std::vector<bool> samples_;          // per value: may be had in parts
  std::vector<bool> heads_;            // per value
  std::size_t first_ = 0, end_ = 0;    // the nodes that may run in parts, after bring_forward()
};

/// Finds the batch, and which nodes may run in parts of it.
void SubBatcher::mark() {
  const Graph& graph = prepared_.graph;
  prologue_ = prologue_nodes(graph, weights_);
  able_.assign(graph.nodes.size(), false);
  samples_.assign(prepared_.numbers.size(), false);
  heads_.assign(prepared_.numbers.size(), false);
  for (const Value head : graph.heads) heads_[number(head)] = true;
  batch_ = 0;
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    const std::size_t value = prepared_.numbers.begin(i);
    if (node(i).is_variable()) {
      const base::Shape& shape = prepared_.shapes[value];
      if (weights_.contains(node(i).name) || shape.rank() == 0 || shape[0] == 0) continue;
      if (batch_ == 0) batch_ = shape[0];
      samples_[value] = shape[0] == batch_;
    } else if (runs_in_parts(i)) {
      able_[i] = true;
      for (std::size_t v = value; v < prepared_.numbers.end(i); ++v) samples_[v] = true;
    }
  }
}

bool SubBatcher::runs_in_parts(std::size_t index) const {
  if (prologue_[index] || declined_.contains(node(index).name)) return false;
  if (!prepared_.kernels[index]->keeps_sample_bits()) return false;
  std::vector<bool> samples;
  for (const Value input : node(index).inputs) {
    const std::size_t value = number(input), from = node_index(input);
    samples.push_back(samples_[value]);
    if (samples.back() && !samples_in_line(prepared_.layouts[value])) return false;
    if (!samples.back() && !node(from).is_variable() && !prologue_[from]) return false;
  }
  for (std::size_t v = prepared_.numbers.begin(index); v < prepared_.numbers.end(index); ++v) {
    if (!samples_in_line(prepared_.layouts[v])) return false;
  }
  return ops::keeps_samples(prepared_.plans[index].call, samples);
}

/// Variables and the prologue, then what may run in parts, then the rest.
void SubBatcher::bring_forward() {
  const auto rank = [this](std::size_t i) {
    if (node(i).is_variable() || prologue_[i]) return 0;
    return able_[i] ? 1 : 2;
  };
  std::vector<std::size_t> order;
  for (int wanted = 0; wanted <= 2; ++wanted) {
    if (wanted == 1) first_ = order.size();
    for (std::size_t i = 0; i < prepared_.graph.nodes.size(); ++i) {
      if (rank(i) == wanted) order.push_back(i);
    }
    if (wanted == 1) end_ = order.size();
  }
  prepared_ = in_order(std::move(prepared_), order);
  mark();
}

/// Ends of the nodes that run in parts behind which fewer bytes are carried on than behind all
/// earlier ones; the last of them, if there are too many.
std::vector<std::size_t> SubBatcher::places() const {
  const std::size_t count = prepared_.graph.nodes.size();
  std::vector<std::size_t> last(prepared_.numbers.size(), 0);
  for (std::size_t i = 0; i < count; ++i) {
    for (const Value input : node(i).inputs) last[number(input)] = i;
  }
  std::vector<std::size_t> dead(count, 0);
  std::size_t carried = 0, least = std::numeric_limits<std::size_t>::max();
  std::vector<std::size_t> found;
  for (std::size_t i = first_; i < end_; ++i) {
    for (std::size_t v = prepared_.numbers.begin(i); v < prepared_.numbers.end(i); ++v) {
      if (heads_[v] || last[v] <= i) continue;
      const auto bytes = static_cast<std::size_t>(prepared_.layouts[v].buffer_bytes(
          prepared_.shapes[v], base::dtype_size(prepared_.dtypes[v])));
      carried += bytes;
      dead[last[v]] += bytes;
    }
    carried -= dead[i];
    if (carried > least) continue;
    least = carried;
    found.push_back(i + 1);
  }
  if (found.size() > kPlacesMost) found.erase(found.begin(), found.end() - kPlacesMost);
  return found;
}

/// What planning the whole batch needs.
PlanRequest SubBatcher::request() const {
  std::vector<bool> external = heads_;
  for (std::size_t i = 0; i < prepared_.graph.nodes.size(); ++i) {
    if (!node(i).is_variable() && !prologue_[i]) continue;
    for (std::size_t v = prepared_.numbers.begin(i); v < prepared_.numbers.end(i); ++v) {
      external[v] = true;
    }
  }
  return plan_request(prepared_, std::move(external));
}

std::size_t SubBatcher::planned_bytes(const PlanRequest& whole, const Choice& choice) const {
  PlanRequest request = whole;
  request.gathered = sliced(choice);
  request.gathered_from = first_;
  const auto samples = static_cast<std::size_t>(choice.samples);
  for (std::size_t i = first_; i < choice.end; ++i) {
    for (std::size_t v = prepared_.numbers.begin(i); v < prepared_.numbers.end(i); ++v) {
      if (request.gathered[v]) continue;
      request.value_bytes[v] = request.value_bytes[v] / static_cast<std::size_t>(batch_) * samples;
      request.value_kind[v] += static_cast<int>(prepared_.numbers.size());
    }
  }
  return planned_live_set(request).bytes;
}

/// The node's call for so many samples.
ops::OpCall SubBatcher::call_of(std::size_t index, std::int64_t samples) const {
  ops::OpCall call = prepared_.plans[index].call;
  const auto cut = [samples](ops::TensorDesc& tensor) {
    tensor.shape = of_samples(tensor.shape, samples);
    tensor.layout = of_samples(std::move(tensor.layout), samples);
  };
  for (std::size_t k = 0; k < call.inputs.size(); ++k) {
    if (samples_[number(node(index).inputs[k])]) cut(call.inputs[k]);
  }
  for (ops::TensorDesc& output : call.outputs) cut(output);
  return call;
}

/// Per node: seconds for reading its weights, as its kernel has them, once.
std::vector<double> SubBatcher::weight_seconds() const {
  std::vector<double> result(prepared_.graph.nodes.size(), 0.0);
  for (std::size_t i = first_; i < end_; ++i) {
    for (std::size_t k = 0; k < node(i).inputs.size(); ++k) {
      const std::size_t v = number(node(i).inputs[k]);
      if (samples_[v] || !node(i).reads(k)) continue;
      result[i] += static_cast<double>(prepared_.layouts[v].buffer_bytes(
          prepared_.shapes[v], base::dtype_size(prepared_.dtypes[v])));
    }
    result[i] /= ops::rule_processor().bytes_per_second;
  }
  return result;
}

std::optional<SubBatcher::Choice> SubBatcher::choose() const {
  if (first_ == end_ || batch_ < 2) return std::nullopt;
  const PlanRequest whole = request();
  std::size_t least = least_;
  const bool chosen = wanted_ == kChosenSubBatch;
  // A few samples are too little work for a GPU.
  const bool on_gpu = prepared_.plans[first_].call.device.kind == base::DeviceKind::cuda;
  if (chosen && (on_gpu || least < kBytesLeast)) return std::nullopt;
  double seconds = 0.0;
  for (std::size_t i = first_; i < prepared_.graph.nodes.size(); ++i) {
    seconds += prepared_.plans[i].offer.seconds;
  }
  const std::vector<std::size_t> ends = places();
  const std::vector<double> reading = weight_seconds();
  std::optional<Choice> best;
  for (std::int64_t parts = 2; parts <= batch_; parts *= 2) {
    // As even as possible.
    const std::int64_t count = chosen ? parts : (batch_ - 1) / std::min(wanted_, batch_) + 1;
    const std::int64_t samples = (batch_ + count - 1) / count;
    if (chosen && samples < kSamplesLeast) break;
    if (samples >= batch_) break;
    double lost = 0.0;
    std::size_t node = first_;
    for (const std::size_t end : ends) {
      for (; node < end; ++node) lost += static_cast<double>(count - 1) * reading[node];
      if (chosen && lost > kSlowerMost * seconds) break;
      const Choice choice{samples, end};
      const std::size_t bytes = planned_bytes(whole, choice);
      if (bytes >= least) continue;
      least = bytes;
      best = choice;
    }
    if (!chosen) break;
  }
  return best;
}

/// Values of nodes in parts that others read, or that have memory of their own.
std::vector<bool> SubBatcher::sliced(const Choice& choice) const {
  std::vector<bool> result(prepared_.numbers.size(), false);
  for (std::size_t i = 0; i < prepared_.graph.nodes.size(); ++i) {
    const bool in_parts = i >= first_ && i < choice.end;
    for (std::size_t v = prepared_.numbers.begin(i); v < prepared_.numbers.end(i); ++v) {
      if (in_parts ? heads_[v] : node(i).is_variable() && samples_[v]) result[v] = true;
    }
    for (const Value input : node(i).inputs) {
      const std::size_t from = node_index(input);
      if (!in_parts && from >= first_ && from < choice.end) result[number(input)] = true;
    }
  }
  return result;
}

/// Whether each sample of each whole value that the node reads or writes begins where wide loads
/// may.
bool SubBatcher::begins_wide(std::size_t index, const std::vector<bool>& sliced) const {
  const auto odd = [&](std::size_t v) {
    if (!sliced[v]) return false;
    const std::int64_t bytes = prepared_.layouts[v].buffer_bytes(
        prepared_.shapes[v], base::dtype_size(prepared_.dtypes[v]));
    return bytes / batch_ % ops::kWideLoadBytes != 0;
  };
  for (std::size_t v = prepared_.numbers.begin(index); v < prepared_.numbers.end(index); ++v) {
    if (odd(v)) return false;
  }
  return std::ranges::none_of(node(index).inputs, [&](Value input) { return odd(number(input)); });
}

/// Makes the kernels. False where one declined, or would lie in memory in another way.
base::Result<bool> SubBatcher::apply(const Choice& choice) {
  std::vector<Part> made;
  const std::vector<bool> whole_values = sliced(choice);
  for (std::size_t i = first_; i < choice.end; ++i) {
    const NodePlan& plan = prepared_.plans[i];
    Part part{call_of(i, choice.samples), {}, {}, nullptr};
    auto kernel = plan.offer.maker->prepare(part.call);
    bool fits = kernel.ok() && (*kernel)->name() == plan.offer.kernel;
    const auto cut = [&](const std::vector<base::Layout>& of,
                         const std::vector<ops::TensorDesc>& whole,
                         const std::vector<ops::TensorDesc>& tensors) {
      std::vector<base::Layout> layouts = of;
      for (std::size_t k = 0; k < of.size(); ++k) {
        const bool has_samples = whole[k].shape != tensors[k].shape;
        if (has_samples) layouts[k] = of_samples(std::move(layouts[k]), choice.samples);
      }
      return layouts;
    };
    part.inputs = cut(plan.offer.inputs, plan.call.inputs, part.call.inputs);
    part.outputs = cut(plan.offer.outputs, plan.call.outputs, part.call.outputs);
    const auto alike = [](std::vector<base::Layout> layouts, const std::vector<base::Layout>& of) {
      if (layouts.empty()) layouts.resize(of.size());
      return layouts == of;
    };
    fits = fits && (!(*kernel)->loads_wide() || begins_wide(i, whole_values)) &&
           alike((*kernel)->input_layouts(), part.inputs) &&
           alike((*kernel)->output_layouts(), part.outputs);
    if (!fits) {
      if (!kernel.ok() && kernel.status().code() != base::Errc::unimplemented) {
        return kernel.status().with_context(node_label(node(i)));
      }
      declined_.insert(node(i).name);
      return false;
    }
    part.kernel = *std::move(kernel);
    made.push_back(std::move(part));
  }
  SubBatch& sub = prepared_.sub_batch;
  sub = {batch_, choice.samples, std::vector<bool>(prepared_.graph.nodes.size(), false),
         whole_values};
  for (std::size_t i = first_; i < choice.end; ++i) {
    Part& part = made[i - first_];
    sub.nodes[i] = true;
    prepared_.plans[i].call = std::move(part.call);
    prepared_.plans[i].offer.inputs = std::move(part.inputs);
    prepared_.plans[i].offer.outputs = std::move(part.outputs);
    prepared_.plans[i].offer.scratch_bytes = part.kernel->scratch_bytes();
    prepared_.kernels[i] = std::move(part.kernel);
    for (std::size_t v = prepared_.numbers.begin(i); v < prepared_.numbers.end(i); ++v) {
      if (sub.sliced[v]) continue;
      prepared_.shapes[v] = of_samples(prepared_.shapes[v], choice.samples);
      prepared_.layouts[v] = of_samples(std::move(prepared_.layouts[v]), choice.samples);
    }
  }
  return true;
}

}  // namespace

bool samples_in_line(const base::Layout& layout) {
  if (layout.is_dense()) return true;
  if (layout.kind != base::Layout::Kind::blocked || layout.order.front() != 0) return false;
  return std::none_of(layout.blocks.begin(), layout.blocks.end(),
                      [](const base::InnerBlock& block) { return block.axis == 0; });
}

base::Shape of_samples(base::Shape shape, std::int64_t samples) {
  shape.set(0, samples);
  return shape;
}

base::Layout of_samples(base::Layout layout, std::int64_t samples) {
  if (layout.kind == base::Layout::Kind::blocked) layout.padded.set(0, samples);
  return layout;
}

base::Result<PreparedGraph> take_sub_batches(PreparedGraph prepared,
                                             const std::set<std::string>& weights,
                                             std::int64_t wanted) {
  return SubBatcher(std::move(prepared), weights, wanted).run();
}

}  // namespace troupe::symbol
