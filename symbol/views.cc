// SPDX-License-Identifier: Apache-2.0
// Groups as chains of values: each knows where it lies in the next, the last one is the group.
#include "symbol/views.h"

namespace troupe::symbol {

ViewGroups::ViewGroups(const PlanRequest& request, const ValueNumbers& numbers, bool parts)
    : parts_(parts), bytes_(request.value_bytes) {
  places_.reserve(numbers.size());
  for (std::size_t value = 0; value < numbers.size(); ++value) places_.push_back({value, 0});
  if (!goes_in_place(request.mode)) return;
  for (const NodeView& view : request.views) link(request, numbers, view);
  for (std::size_t value = 0; value < numbers.size(); ++value) places_[value] = find(value);
}

void ViewGroups::link(const PlanRequest& request, const ValueNumbers& numbers, const NodeView& of) {
  const GraphNode& node = request.graph->nodes[of.node];
  const auto index = static_cast<std::size_t>(of.view.input);
  const std::size_t input = numbers[node.inputs[index]];
  const std::size_t output = numbers.begin(of.node) + static_cast<std::size_t>(of.view.output);
  if (!request.optional.empty() && request.optional[of.node]) return;
  for (const std::size_t value : {input, output}) {
    const bool gathered = !request.gathered.empty() && request.gathered[value];
    if (request.external[value] || gathered || bytes_[value] == 0) return;
  }
  const auto input_offset = static_cast<std::size_t>(of.view.input_offset);
  const auto output_offset = static_cast<std::size_t>(of.view.output_offset);
  const Place from = find(input);
  if (find(output).group != output) return;
  if (output_offset == 0 && input_offset + bytes_[output] <= bytes_[input]) {
    put(output, input, input_offset);
  } else if (input_offset == 0 && output_offset + bytes_[input] <= bytes_[output] &&
             from.group != output && from.offset == 0 && bytes_[from.group] == bytes_[input]) {
    put(from.group, output, output_offset);
  }
}

void ViewGroups::put(std::size_t lower, std::size_t upper, std::size_t offset) {
  const bool part = bytes_[lower] != bytes_[upper];
  if (part && !parts_) return;
  const Place place = find(upper);
  if (place.group == lower || piece_bytes(place.offset + offset) != place.offset + offset) return;
  places_[lower] = {place.group, place.offset + offset};
  any_parts_ = any_parts_ || part;
}

ViewGroups::Place ViewGroups::find(std::size_t value) const {
  Place place = places_[value];
  while (places_[place.group].group != place.group) {
    const Place& next = places_[place.group];
    place = {next.group, place.offset + next.offset};
  }
  return place;
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
