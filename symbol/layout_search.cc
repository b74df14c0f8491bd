// SPDX-License-Identifier: Apache-2.0
// Offers are asked for once per call; costs are those of the nodes and values around an exchange.
#include "symbol/layout_search.h"

#include <fmt/core.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "base/text.h"
#include "symbol/autotune.h"
#include "symbol/passes.h"
#include "symbol/prologue.h"

namespace troupe::symbol {

namespace {

using base::Layout;

constexpr int kSweepsMost = 8;
/// An exchange must gain more than rounding.
constexpr double kGain = 1e-9;

}  // namespace

LayoutSearch::LayoutSearch(const ops::OpTable& table, const Graph& graph, const ValueShapes& shapes,
                           const ValueDTypes& dtypes, const PrepareOptions& options, int team)
    : table_(table),
      graph_(graph),
      numbers_(graph),
      shapes_(shapes),
      dtypes_(dtypes),
      options_(options),
      team_(team),
      heads_(numbers_.size(), false),
      free_to_reorder_(numbers_.size(), false),
      aliases_(numbers_.size()),
      wants_(numbers_.size()),
      layouts_(numbers_.size()),
      plans_(graph.nodes.size()) {
  for (const Value head : graph.heads) heads_[numbers_[head]] = true;
  find_aliases();
}

void LayoutSearch::find_aliases() {
  const std::set<std::string> none;
  const std::set<std::string>& weights = options_.weights != nullptr ? *options_.weights : none;
  const std::vector<bool> prologue = prologue_nodes(graph_, weights);
  // The identity of a variable that is overwritten must have been taken before, and its reorders
  // are made in every pass.
  const bool overwrites = assigns(graph_);
  for (std::size_t i = 0; i < graph_.nodes.size(); ++i) {
    const GraphNode& node = graph_.nodes[i];
    const std::size_t first = numbers_.begin(i);
    const bool kept = node.is_variable() ? weights.contains(node.name) && !overwrites : prologue[i];
    for (std::size_t v = first; v < numbers_.end(i); ++v) free_to_reorder_[v] = kept;
    if (node.is_variable()) continue;
    if (node.op->identity_if_alike && !heads_[first] &&
        !(overwrites && graph_.node(node.inputs[0]).is_variable()) &&
        shapes_[numbers_[node.inputs[0]]] == shapes_[first]) {
      aliases_[first] = source_of(node.inputs[0]);
    }
  }
}

base::Result<std::vector<NodePlan>> LayoutSearch::run() {
  for (int sweep = 0; sweep <= kSweepsMost; ++sweep) {
    bool changed = false;
    for (std::size_t i = 0; i < graph_.nodes.size(); ++i) {
      if (graph_.nodes[i].is_variable() || falls_away(i)) continue;
      const base::Status status = choose(i, changed);
      if (!status.ok()) return status.with_context(node_label(graph_.nodes[i]));
    }
    if (!changed) break;
  }
  for (std::size_t i = 0; options_.tuner != nullptr && i < plans_.size(); ++i) {
    if (plans_[i].offer.maker == nullptr) continue;
    options_.tuner->weighed(ask(call_of_node(i, true)).signature, plans_[i].alternatives);
  }
  return std::move(plans_);
}

ops::OpCall LayoutSearch::call_of(const ops::OpDef& op, const ops::Params& params) const {
  ops::OpCall call;
  call.op = &op;
  call.params = params;
  call.device = options_.device;
  call.team = team_;
  call.reference_only = options_.reference_only;
  call.winograd = options_.winograd;
  call.tf32 = options_.tf32;
  return call;
}

/// The node's call as layouts are now, with inputs that the kernel may choose or that are fixed.
ops::OpCall LayoutSearch::call_of_node(std::size_t node, bool free_inputs) const {
  const GraphNode& n = graph_.nodes[node];
  ops::OpCall call = call_of(*n.op, n.params);
  const bool choose = options_.layouts == base::LayoutPolicy::chosen;
  for (const Value input : n.inputs) {
    const std::size_t v = source_of(input);
    call.inputs.push_back({dtypes_[v], shapes_[v], layouts_[v], choose && free_inputs});
  }
  for (std::size_t v = numbers_.begin(node); v < numbers_.end(node); ++v) {
    call.outputs.push_back({dtypes_[v], shapes_[v], Layout::dense(), choose});
  }
  return call;
}

const LayoutSearch::Asked& LayoutSearch::ask(const ops::OpCall& call) {
  const auto [it, added] = asked_.try_emplace(call);
  Asked& asked = it->second;
  if (!added) return asked;
  const bool tuned = options_.kernels != nullptr || options_.tuner != nullptr;
  if (tuned) asked.signature = call_signature(call, options_.train);
  if (options_.kernels != nullptr) asked.choice = options_.kernels->find(asked.signature);
  const std::string_view named =
      asked.choice == nullptr ? "" : std::string_view(asked.choice->kernel);
  base::Result<std::vector<ops::Offer>> offers =
      options_.tuner != nullptr && named.empty()
          ? options_.tuner->offers(call, &asked.declines)
          : ops::offers(call, &asked.declines, {.named = named});
  asked.status = offers.status();
  if (offers.ok()) asked.offers = *std::move(offers);
  if (tuned) heed_choices(call, asked);
  return asked;
}

/// Brings in what was stored and what is measured.
void LayoutSearch::heed_choices(const ops::OpCall& call, Asked& asked) const {
  const bool answered = asked.status.ok() || asked.status.code() == base::Errc::unimplemented;
  if (asked.choice != nullptr && answered) asked.status = check_choice(call, asked);
  if (options_.tuner == nullptr || asked.offers.empty()) return;
  // Of reorders nothing is chosen: the graph gets the first.
  if (call.op->name == "reorder") asked.offers.resize(1);
  if (asked.choice != nullptr) {
    Autotuner::recall(*asked.choice, asked.offers);
  } else {
    options_.tuner->time(asked.signature, call, asked.offers);
  }
}

base::Status LayoutSearch::check_choice(const ops::OpCall& call, const Asked& asked) const {
  const std::string& kernel = asked.choice->kernel;
  const auto refuse = [&](std::string_view why) {
    return base::error(base::Errc::invalid_argument, "{} chooses kernel '{}', {}",
                       options_.kernels->name, base::shortened(kernel, base::kQuotedBytesMax), why);
  };
  if (!asked.offers.empty()) return {};
  const auto& known = call.op->kernels;
  const auto found = std::ranges::find(known, kernel, &ops::KernelDef::name);
  if (found == known.end()) {
    std::string names;
    for (const ops::KernelDef& each : known) names += (names.empty() ? "" : ", ") + each.name;
    return refuse(fmt::format("which this build's operator does not have; it has {}", names));
  }
  const bool on_gpu = call.device.kind == base::DeviceKind::cuda;
  if (found->on_gpus != on_gpu) {
    return refuse(on_gpu ? "which is none for GPUs" : "which is for GPUs alone");
  }
  const auto decline = std::ranges::find(asked.declines, kernel, &ops::Decline::kernel);
  // One that was not asked is not the reference, and nothing else is wanted.
  return refuse(decline == asked.declines.end() ? "but only the reference kernels are wanted"
                                                : "which declines here: " + decline->reason);
}

bool LayoutSearch::leaves_layout(std::size_t node, const ops::Offer& offer) const {
  const GraphNode& n = graph_.nodes[node];
  for (std::size_t k = 0; k < n.inputs.size(); ++k) {
    const Layout& present = layouts_[source_of(n.inputs[k])];
    if (n.reads(k) && !present.is_dense() && offer.inputs[k] != present) return true;
  }
  return false;
}

void LayoutSearch::take(std::size_t node, const ops::Offer& offer) {
  const GraphNode& n = graph_.nodes[node];
  const ops::Offer& before = plans_[node].offer;
  for (std::size_t k = 0; k < n.inputs.size(); ++k) {
    if (!n.reads(k)) continue;
    const Layout* wanted = before.maker != nullptr ? &before.inputs[k] : nullptr;
    if (wanted != nullptr && *wanted == offer.inputs[k]) continue;
    change_want(source_of(n.inputs[k]), {node, k}, wanted, offer.inputs[k]);
  }
  plans_[node].offer = offer;
  for (std::size_t v = numbers_.begin(node); v < numbers_.end(node); ++v) {
    layouts_[v] = offer.outputs[v - numbers_.begin(node)];
  }
}

void LayoutSearch::change_want(std::size_t value, Reader reader, const Layout* before,
                               const Layout& now) {
  std::vector<Want>& wants = wants_[value];
  if (before != nullptr) std::ranges::find(wants, *before, &Want::layout)->readers.erase(reader);
  auto it = std::ranges::find(wants, now, &Want::layout);
  if (it == wants.end()) it = wants.insert(it, {now, {}});
  it->readers.insert(reader);
  std::erase_if(wants, [](const Want& want) { return want.readers.empty(); });
  std::ranges::sort(wants, {}, [](const Want& want) { return *want.readers.begin(); });
}

/// Takes the cheapest offer for a node while all others stay as they are. Kernels choose freely;
/// where one would only undo a layout, all are asked to take things as they are, too (element-wise
/// operators and pooling do).
base::Status LayoutSearch::choose(std::size_t node, bool& changed) {
  const ops::OpCall free_call = call_of_node(node, true);
  const Asked& freely = ask(free_call);
  std::vector<std::pair<ops::OpCall, const Asked*>> answers = {{free_call, &freely}};
  const bool choose = options_.layouts == base::LayoutPolicy::chosen;
  if (choose && (!freely.status.ok() || leaves_layout(node, freely.offers.front()))) {
    ops::OpCall as_it_is = call_of_node(node, false);
    const Asked& answer = ask(as_it_is);
    answers.emplace_back(std::move(as_it_is), &answer);
  }
  const NodePlan before = plans_[node];
  double least = std::numeric_limits<double>::infinity();
  if (before.offer.maker != nullptr) {
    least = before.offer.seconds + reorder_seconds_around(node) - kGain * before.offer.seconds;
  }
  NodePlan best = before;
  std::vector<Alternative> alternatives;
  for (const auto& [call, answer] : answers) {
    for (const ops::Offer& offer : answer->offers) {
      take(node, offer);
      const double reorders = reorder_seconds_around(node);
      alternatives.push_back({offer.maker->name, offer.kernel, offer.inputs, offer.outputs,
                              offer.scratch_bytes, offer.seconds, reorders});
      if (offer.seconds + reorders >= least) continue;
      least = offer.seconds + reorders;
      best = {call, offer, answer->declines, {}, answer->choice != nullptr};
    }
  }
  if (best.offer.maker == nullptr) {
    if (!freely.status.ok()) return freely.status;
    const std::string text = "no kernel's layouts can be reached by reorders";
    if (freely.choice == nullptr) return base::error(base::Errc::unimplemented, "{}", text);
    return base::error(base::Errc::invalid_argument, "{}; {} chooses '{}' alone", text,
                       options_.kernels->name, freely.choice->kernel);
  }
  changed = changed || best.offer.maker != before.offer.maker ||
            best.offer.inputs != before.offer.inputs || best.offer.outputs != before.offer.outputs;
  take(node, best.offer);
  plans_[node] = std::move(best);
  plans_[node].alternatives = std::move(alternatives);
  return {};
}

double LayoutSearch::reorder_seconds_around(std::size_t node) {
  const GraphNode& n = graph_.nodes[node];
  double seconds = 0.0;
  std::vector<std::size_t> seen;
  for (std::size_t k = 0; k < n.inputs.size(); ++k) {
    const std::size_t v = source_of(n.inputs[k]);
    if (!n.reads(k) || std::find(seen.begin(), seen.end(), v) != seen.end()) continue;
    seen.push_back(v);
    seconds += reorder_seconds(v);
  }
  for (std::size_t v = numbers_.begin(node); v < numbers_.end(node); ++v) {
    seconds += reorder_seconds(v);
  }
  return seconds;
}

/// Of one value, to every other layout that somebody wants; of those who have not been asked yet,
/// nothing is known.
double LayoutSearch::reorder_seconds(std::size_t value) {
  if (free_to_reorder_[value]) return 0.0;
  std::vector<Layout> wanted = {layouts_[value]};
  double seconds = 0.0;
  const auto want = [&](const Layout& layout) {
    if (std::find(wanted.begin(), wanted.end(), layout) != wanted.end()) return;
    wanted.push_back(layout);
    ops::OpCall call = call_of(table_.at("reorder"), {});
    call.inputs = {{dtypes_[value], shapes_[value], layouts_[value], false}};
    call.outputs = {{dtypes_[value], shapes_[value], layout, false}};
    const Asked& asked = ask(call);
    seconds +=
        asked.status.ok() ? asked.offers.front().seconds : std::numeric_limits<double>::infinity();
  };
  if (heads_[value]) want(Layout::dense());
  for (const Want& each : wants_[value]) want(each.layout);
  return seconds;
}

}  // namespace troupe::symbol
