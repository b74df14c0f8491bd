// SPDX-License-Identifier: Apache-2.0
// Slices of weights into arrays of hosts and devices.
#include "store/weight_arrivals.h"

#include <algorithm>
#include <array>
#include <utility>

#include "base/check.h"
#include "ndarray/flat_call.h"
#include "ndarray/run_kernel.h"
#include "store/convert.h"

namespace troupe::store {

using base::Buffer;
using ndarray::NDArray;

namespace {

constexpr engine::Lane kHostCopy{{}, engine::LaneKind::copy};

/// Fills an array of the host and lets go of the slices.
void fill_host(WeightArrivals::Slices& slices, base::DType wire, const NDArray& weight) {
  std::byte* place = weight.data();
  for (const Buffer& slice : slices) place += convert_into(slice, wire, weight.dtype(), place);
  slices.clear();
}

/// Issues the filling of a device's array with slices of its own dtype.
base::Status issue_copies(const WeightArrivals::Slices& slices, const NDArray& weight,
                          base::Stream& stream) {
  std::byte* place = weight.data();
  for (const Buffer& slice : slices) {
    TROUPE_TRY(stream.copy(place, slice.data(), slice.size()));
    place += slice.size();
  }
  return {};
}

/// The same with slices that are widened on the way.
base::Status issue_widening(const WeightArrivals::Slices& slices, base::DType wire,
                            const NDArray& weight, Buffer& waypoint, engine::RunContext& lane) {
  ndarray::Runtime& runtime = weight.runtime();
  std::size_t largest = 0;
  for (const Buffer& slice : slices) largest = std::max(largest, slice.size());
  if (waypoint.size() < largest) {
    // Work that was issued reads the one before, which goes back to its pool.
    if (waypoint) TROUPE_TRY(lane.stream->record()->wait_on_host());
    TROUPE_TRY_ASSIGN(waypoint, runtime.storage.pool(weight.device()).allocate(largest, "weights"));
  }
  std::byte* place = weight.data();
  for (const Buffer& slice : slices) {
    const auto elements = static_cast<std::int64_t>(slice.size() / base::dtype_size(wire));
    const ndarray::FlatCall call =
        ndarray::flat_cast(wire, weight.dtype(), elements, weight.device(), lane.team);
    TROUPE_TRY_ASSIGN(const auto kernel, ndarray::flat_kernel(call, runtime.ops, runtime.kernels));
    TROUPE_CHECK(kernel->scratch_bytes() == 0, "a cast that wants scratch");
    TROUPE_TRY(lane.stream->copy(waypoint.data(), slice.data(), slice.size()));
    const std::array inputs = {ndarray::flat_view(waypoint.data(), wire, elements)};
    const std::array outputs = {ndarray::flat_view(place, weight.dtype(), elements)};
    const ndarray::KernelBuffers buffers{
        .inputs = inputs, .outputs = outputs, .scratch = {}, .fresh = true};
    TROUPE_TRY(ndarray::run_kernel(kernel, buffers, lane));
    place += static_cast<std::size_t>(elements) * base::dtype_size(weight.dtype());
  }
  return {};
}

}  // namespace

void WeightArrivals::pull(const schemas::KeyInfo& key, const NDArray& weight, int priority,
                          Ask ask) {
  Arrival& arrival = arrivals_[key.id];
  if (arrival.slices == nullptr) {
    arrival = {runtime_.engine.new_variable("weights on their way"), std::make_shared<Slices>()};
  }
  const std::array arrived = {arrival.variable};
  runtime_.engine.push_async({"pull", {}, {}, kHostCopy, priority, arrived},
                             [slices = arrival.slices, ask = std::move(ask)](
                                 engine::RunContext&, engine::Completion completion) {
                               slices->clear();
                               ask(slices, std::move(completion));
                             });
  const std::array filled = {weight.variable()};
  const bool host = !ndarray::uses_stream(weight.device());
  const engine::Lane lane =
      host ? kHostCopy : engine::Lane{weight.device(), engine::LaneKind::priority};
  ndarray::push_on_lane(runtime_.engine, {"weights", arrived, {}, lane, priority, filled},
                        [slices = arrival.slices, weight, wire = key.weight_wire,
                         waypoint = waypoint_](engine::RunContext& context) -> base::Status {
                          std::size_t bytes = 0;
                          for (const Buffer& slice : *slices) bytes += slice.size();
                          TROUPE_CHECK(bytes / base::dtype_size(wire) ==
                                           weight.bytes() / base::dtype_size(weight.dtype()),
                                       "weights of another size");
                          if (context.stream == nullptr) {
                            fill_host(*slices, wire, weight);
                            return {};
                          }
                          if (wire == weight.dtype())
                            return issue_copies(*slices, weight, *context.stream);
                          return issue_widening(*slices, wire, weight, waypoint->bytes, context);
                        });
}

}  // namespace troupe::store
