// SPDX-License-Identifier: Apache-2.0
// What an executor decided, as data and as text.
#include <fmt/ranges.h>

#include <algorithm>

#include "base/text.h"
#include "base/units.h"
#include "symbol/executor.h"
#include "symbol/program.h"
#include "symbol/work.h"

namespace troupe::symbol {

namespace {

constexpr double kMilliseconds = 1e3;

/// "data (32, 1, 28, 28) f32 dense"
std::string describe(const PreparedGraph& prepared, Value value) {
  const std::size_t v = prepared.numbers[value];
  return fmt::format("{} {} {} {}", base::printable(prepared.graph.value_name(value)),
                     prepared.shapes[v].to_string(), base::dtype_name(prepared.dtypes[v]),
                     prepared.layouts[v].to_string());
}

/// "dense, aBcd16b"
std::string join(const std::vector<base::Layout>& layouts) {
  std::vector<std::string> names;
  for (const base::Layout& layout : layouts) names.push_back(layout.to_string());
  return fmt::format("{}", fmt::join(names, ", "));
}

/// How much of its work on the whole batch a call of the node does: of its parts, all that are
/// needed.
double times_of_a_call(const SubBatch& sub, std::size_t node) {
  if (!sub.active() || !sub.nodes[node]) return 1.0;
  return static_cast<double>(sub.batch) / static_cast<double>(sub.samples);
}

NodeReport report_node(const PreparedGraph& prepared, std::size_t index) {
  const GraphNode& node = prepared.graph.nodes[index];
  NodeReport report;
  report.name = node.name;
  report.op = node.op->name;
  report.kernel = prepared.kernels[index]->name();
  report.scratch_bytes = prepared.kernels[index]->scratch_bytes();
  report.backward = node.backward;
  report.layout = prepared.layouts[prepared.numbers.begin(index)];
  report.declines = prepared.plans[index].declines;
  const Work work = call_work(prepared.plans[index].call);
  const double times = times_of_a_call(prepared.sub_batch, index);
  report.flops = work.flops * times;
  report.multiply_adds = work.multiply_adds * times;
  for (Value input : node.inputs) report.inputs.push_back(describe(prepared, input));
  for (int output = 0; output < node.outputs; ++output) {
    report.outputs.push_back(describe(prepared, {static_cast<std::int64_t>(index), output}));
  }
  return report;
}

/// What is alive where the plan needs most, the largest first: "  822083584 relu1_output".
std::string describe_peak(const PreparedGraph& prepared, const MemoryPlan& plan) {
  if (plan.pieces.empty()) return "";
  std::string text = fmt::format("  most is alive at {}:\n",
                                 base::printable(prepared.graph.nodes[plan.peak.node].name));
  for (const Alive& alive : alive_at_peak(prepared.graph, plan)) {
    text += fmt::format("      alive  {} {}\n", alive.bytes,
                        alive.value ? describe(prepared, *alive.value) : "scratch");
  }
  return text;
}

}  // namespace

void Executor::make_report() {
  const Program& program = train_ ? *train_ : *predict_;
  const PreparedGraph& prepared = program.prepared();
  for (std::size_t i = 0; i < prepared.graph.nodes.size(); ++i) {
    if (prepared.graph.nodes[i].is_variable()) continue;
    report_.nodes.push_back(report_node(prepared, i));
    report_.scratch_bytes += report_.nodes.back().scratch_bytes;
    if (prepared.plans[i].stored) ++report_.stored_choices;
    if (!prepared.graph.nodes[i].backward) report_.flops += report_.nodes.back().flops;
  }
  report_.reorders = prepared.reorders;
  report_.arena_bytes = program.plan().arena_bytes;
  if (predict_) {
    report_.arena_bytes = std::max(report_.arena_bytes, predict_->plan().arena_bytes);
    report_.predict_bytes = predict_->plan().arena_bytes;
    report_.predict_live_set_bytes = predict_->plan().peak.bytes;
    report_.prologue_bytes = predict_->prologue_bytes();
    const SubBatch& sub = predict_->prepared().sub_batch;
    report_.sub_batch = sub.samples;
    report_.nodes_in_parts = std::count(sub.nodes.begin(), sub.nodes.end(), true);
  }
  report_.unshared_bytes = program.plan().unshared_bytes;
  report_.live_set_bytes = program.plan().peak.bytes;
  report_.in_place = program.plan().in_place;
  for (const ndarray::NDArray& output : bindings_.outputs) report_.external_bytes += output.bytes();
  for (const auto& [name, gradient] : bindings_.gradients) {
    report_.external_bytes += gradient.bytes();
  }
  for (const auto& [name, request] : bindings_.grad_req) {
    if (train_ == nullptr || request == GradReq::null) continue;
    report_.parameters += static_cast<std::uint64_t>(bindings_.arguments.at(name).elements());
  }
}

std::string Executor::dump() const {
  std::string text;
  for (const Program* program : {train_.get(), predict_.get()}) {
    if (program == nullptr) continue;
    const PreparedGraph& prepared = program->prepared();
    const ValueNumbers& numbers = prepared.numbers;
    text += fmt::format(
        "{}: arena {} bytes, live set {} bytes, unshared {} bytes, {} outputs in place\n",
        program == train_.get() ? "training" : "prediction", program->plan().arena_bytes,
        program->plan().peak.bytes, program->plan().unshared_bytes, program->plan().in_place);
    if (const SubBatch& sub = prepared.sub_batch; sub.active()) {
      text += fmt::format("  {} of {} samples run in {} parts of {}\n",
                          base::format_counted(static_cast<std::uint64_t>(std::count(
                                                   sub.nodes.begin(), sub.nodes.end(), true)),
                                               "node"),
                          sub.batch, sub.parts(), sub.samples);
    }
    text += describe_peak(prepared, program->plan());
    for (std::size_t i = 0; i < prepared.graph.nodes.size(); ++i) {
      const GraphNode& node = prepared.graph.nodes[i];
      if (node.is_variable()) continue;
      text += fmt::format("  {}{} = {}({}){}\n", node.backward ? "< " : "> ",
                          base::printable(node.name), node.op->name, prepared.kernels[i]->name(),
                          prepared.plans[i].stored ? " by a stored choice" : "");
      for (const Alternative& offer : prepared.plans[i].alternatives) {
        text += fmt::format(
            "      offer  {} {} -> {}: {:.3f} ms, reorders around it {:.3f} ms, scratch {}\n",
            offer.kernel, join(offer.inputs), join(offer.outputs), offer.seconds * kMilliseconds,
            offer.reorder_seconds * kMilliseconds, offer.scratch_bytes);
      }
      for (Value input : node.inputs) {
        text += fmt::format("      reads  {}\n", describe(prepared, input));
      }
      for (std::size_t v = numbers.begin(i); v < numbers.end(i); ++v) {
        const Value output{static_cast<std::int64_t>(i), static_cast<int>(v - numbers.begin(i))};
        text +=
            fmt::format("      writes {} at {}\n", describe(prepared, output), program->place(v));
      }
    }
  }
  return text;
}

}  // namespace troupe::symbol
