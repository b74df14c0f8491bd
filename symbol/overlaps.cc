// SPDX-License-Identifier: Apache-2.0
// Arrays in the order of their bytes: each is compared with those before it that reach into it.
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
  if (!node.op->assign) return false;
  // As for imperative calls (ndarray/operands.cc): what else the node reads it must find unchanged.
  std::size_t read_here = 0, allowed = 0;
  for (std::size_t k = 0; k < node.inputs.size(); ++k) {
    const GraphNode& input = graph.node(node.inputs[k]);
    if (!input.is_variable() || input.name != read.variable) continue;
    ++read_here;
    const auto place = static_cast<std::size_t>(output.head->output);
    if (ndarray::may_overwrite(*node.op, k, place)) ++allowed;
  }
  return read_here == 1 && allowed == 1;
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
  std::vector<const Bound*> reaching;  // those before that reach into the next
  for (const Bound& next : all) {
    std::erase_if(reaching, [&next](const Bound* before) {
      return before->memory() != next.memory() || before->end() <= next.begin();
    });
    for (const Bound* before : reaching) {
      if (!next.written && !before->written) continue;
      if (may_share(graph, next, *before) || may_share(graph, *before, next)) continue;
      return base::error(base::Errc::invalid_argument,
                         "bind: {} and {} share memory, and one of them is written", before->name,
                         next.name);
    }
    reaching.push_back(&next);
  }
  return {};
}

}  // namespace troupe::symbol
