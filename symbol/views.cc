// SPDX-License-Identifier: Apache-2.0
// Groups are found as disjoint sets are: each value knows where it lies in another, the one that
// names the group in itself.
#include "symbol/views.h"

namespace troupe::symbol {

ViewGroups::ViewGroups(const PlanRequest& request, const ValueNumbers& numbers, ViewKind kind)
    : kind_(kind), bytes_(request.value_bytes) {
  places_.reserve(numbers.size());
  for (std::size_t value = 0; value < numbers.size(); ++value) places_.push_back({value, 0});
  if (!goes_in_place(request.mode)) return;
  for (const NodeView& view : request.views) link(request, numbers, view);
  for (std::size_t value = 0; value < numbers.size(); ++value) find(value);
}

void ViewGroups::link(const PlanRequest& request, const ValueNumbers& numbers, const NodeView& of) {
  const GraphNode& node = request.graph->nodes[of.node];
  const std::size_t input = numbers[node.inputs[static_cast<std::size_t>(of.view.input)]];
  const std::size_t output = numbers.begin(of.node) + static_cast<std::size_t>(of.view.output);
  const auto gathered = [&](std::size_t value) {
    return !request.gathered.empty() && request.gathered[value];
  };
  if (!request.optional.empty() && request.optional[of.node]) return;
  if (request.external[input] || request.external[output] || gathered(output)) return;
  if (bytes_[input] == 0 || bytes_[output] == 0 || find(output).group != output) return;
  if (gathered(input) && bytes_[input] != bytes_[output]) return;
  const auto input_offset = static_cast<std::size_t>(of.view.input_offset);
  const auto output_offset = static_cast<std::size_t>(of.view.output_offset);
  const Place from = find(input);
  if (output_offset == 0 && input_offset + bytes_[output] <= bytes_[input]) {
    put(output, input, input_offset);
  } else if (input_offset == 0 && output_offset + bytes_[input] <= bytes_[output] &&
             from.offset == 0 && bytes_[from.group] == bytes_[input] && !gathered(from.group)) {
    put(from.group, output, output_offset);
  }
}

void ViewGroups::put(std::size_t lower, std::size_t upper, std::size_t offset) {
  const bool range = bytes_[lower] != bytes_[upper];
  if (range && kind_ == ViewKind::whole) return;
  const Place place = find(upper);
  const std::size_t begin = place.offset + offset;
  if (place.group == lower || piece_bytes(begin) != begin) return;
  places_[lower] = {place.group, begin};
  any_ranges_ = any_ranges_ || range;
}

ViewGroups::Place ViewGroups::find(std::size_t value) {
  Place found = places_[value];
  while (places_[found.group].group != found.group) {
    const Place& next = places_[found.group];
    found = {next.group, found.offset + next.offset};
  }
  std::size_t offset = found.offset;
  for (std::size_t at = value; at != found.group;) {
    const Place next = places_[at];
    places_[at] = {found.group, offset};
    offset -= next.offset;
    at = next.group;
  }
  return found;
}

void add_views(std::size_t node, const NodePlan& plan, std::vector<NodeView>& views) {
  if (plan.call.op == nullptr || !plan.call.op->views) return;
  ops::OpCall call = plan.call;
  for (std::size_t k = 0; k < call.inputs.size(); ++k) {
    call.inputs[k].layout = plan.offer.inputs[k];
  }
  for (std::size_t k = 0; k < call.outputs.size(); ++k) {
    if (k < call.modes.size() && call.modes[k] != ops::WriteMode::write) return;
    call.outputs[k].layout = plan.offer.outputs[k];
  }
  for (const ops::View& view : call.op->views(call)) views.push_back({node, view});
}

}  // namespace troupe::symbol
