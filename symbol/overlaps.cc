// SPDX-License-Identifier: Apache-2.0
// Arrays in the order of their bytes: who overlaps others overlaps the one before that reaches
// furthest.
#include "symbol/overlaps.h"

#include <fmt/core.h>

#include <algorithm>
#include <optional>
#include <string>
#include <tuple>
#include <utility>

#include "ndarray/operands.h"

namespace troupe::symbol {

namespace {

using ndarray::NDArray;

/// A bound array.
struct Bound {
  const NDArray* array;
  std::string name;           ///< as an error says it
  std::optional<Value> head;  ///< of an output
  bool written;
  std::string variable = {};  ///< of an argument or a state

  const void* memory() const { return array->variable().state(); }
  std::size_t begin() const { return array->offset(); }
  std::size_t end() const { return array->offset() + array->bytes(); }
};

bool lies_before(const Bound& a, const Bound& b) {
  return std::tuple(a.memory(), a.begin()) < std::tuple(b.memory(), b.begin());
}

bool may_share(const Graph& graph, const Bound& output, const Bound& read) {
  if (!output.head || !output.array->same_memory(*read.array)) return false;
  if (read.written) return output.head == read.head;
  const GraphNode& node = graph.node(*output.head);
  if (node.is_variable()) return node.name == read.variable;
  for (std::size_t k = 0; node.op->assign && k < node.inputs.size(); ++k) {
    const GraphNode& input = graph.node(node.inputs[k]);
    const bool read_here = input.is_variable() && input.name == read.variable;
    const auto place = static_cast<std::size_t>(output.head->output);
    if (read_here && ndarray::may_overwrite(*node.op, k, place)) return true;
  }
  return false;
}

std::vector<Bound> bound_arrays(const Graph& graph, const std::vector<std::string>& names,
                                const Bindings& bindings) {
  std::vector<Bound> all;
  const auto add = [&all](const NDArray& array, Bound bound) {
    if (array && array.bytes() > 0) all.push_back(std::move(bound));
  };
  for (const auto* arrays : {&bindings.arguments, &bindings.auxiliary}) {
    for (const auto& [name, array] : *arrays) {
      add(array, {&array, fmt::format("'{}'", name), {}, false, name});
    }
  }
  for (const auto& [name, array] : bindings.gradients) {
    const auto request = bindings.grad_req.find(name);
    if (request == bindings.grad_req.end() || request->second == GradReq::null) continue;
    add(array, {&array, fmt::format("the gradient of '{}'", name), {}, true});
  }
  for (std::size_t i = 0; i < std::min(names.size(), bindings.outputs.size()); ++i) {
    const NDArray& array = bindings.outputs[i];
    add(array, {&array, fmt::format("output '{}'", names[i]), graph.heads[i], true});
  }
  return all;
}

}  // namespace

base::Status check_overlaps(const Graph& graph, const std::vector<std::string>& names,
                            const Bindings& bindings) {
  std::vector<Bound> all = bound_arrays(graph, names, bindings);
  std::stable_sort(all.begin(), all.end(), lies_before);
  // Of those before, the ones that reach furthest: of all, and of what is written.
  const Bound *any = nullptr, *written = nullptr;
  for (const Bound& next : all) {
    for (const Bound* before : {next.written ? any : nullptr, written}) {
      if (before == nullptr || before->memory() != next.memory()) continue;
      if (before->end() <= next.begin()) continue;
      if (may_share(graph, next, *before) || may_share(graph, *before, next)) continue;
      return base::error(base::Errc::invalid_argument,
                         "bind: {} and {} share memory, and one of them is written", before->name,
                         next.name);
    }
    const auto reaches = [&next](const Bound* furthest) {
      return furthest == nullptr || furthest->memory() != next.memory() ||
             furthest->end() < next.end();
    };
    if (reaches(any)) any = &next;
    if (next.written && reaches(written)) written = &next;
  }
  return {};
}

}  // namespace troupe::symbol
