// SPDX-License-Identifier: Apache-2.0
// Slices of weights into arrays of hosts and devices.
#include "store/weight_arrivals.h"

#include <algorithm>
#include <array>
#include <span>
#include <utility>

#include "base/check.h"
#include "ndarray/flat_call.h"
#include "ndarray/run_kernel.h"
#include "store/convert.h"

namespace troupe::store {

using base::Buffer;
using ndarray::NDArray;

namespace {

/// CHECKs that slices fill an array.
void check_size(const WeightArrival::Slices& slices, base::DType wire, const NDArray& weight) {
  std::size_t bytes = 0;
  for (const Buffer& slice : slices) bytes += slice.size();
  TROUPE_CHECK(bytes / base::dtype_size(wire) == weight.bytes() / base::dtype_size(weight.dtype()),
               "weights of another size");
}

/// Issues the filling of a device's array with slices of its own dtype.
base::Status issue_copies(const WeightArrival::Slices& slices, const NDArray& weight,
                          base::Stream& stream) {
  std::byte* place = weight.data();
  for (const Buffer& slice : slices) {
    TROUPE_TRY(stream.copy(place, slice.data(), slice.size()));
    place += slice.size();
  }
  return {};
}

/// The same with slices that are widened on the way.
base::Status issue_widening(const WeightArrival::Slices& slices, base::DType wire,
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

void WeightArrival::fill() {
  check_size(slices(), wire_, host_);
  std::byte* place = host_.data();
  for (const Buffer& slice : slices()) place += convert_into(slice, wire_, host_.dtype(), place);
  slices().clear();
}

void WeightArrival::end(base::Status status) {
  engine::Completion completion = std::move(completion_);
  if (!host_ || !status.ok()) return completion.complete(std::move(status));
  if (engine::Engine::on_engine_thread()) {
    fill();
    return completion.complete();
  }
  // The pull holds the array's tag until its completion, so the copy names no variable.
  host_.runtime().engine.push({"weights", {}, {}, engine::kHostCopyLane, 0},
                              [arrival = shared_from_this(),
                               completion = std::move(completion)](engine::RunContext&) mutable {
                                arrival->fill();
                                completion.complete();
                                return base::Status();
                              });
}

WeightArrivals::~WeightArrivals() {
  for (const auto& [key, kept] : kept_) {
    if (!kept.on_device || !kept.there.engine_stands()) continue;
    const std::array there = {kept.there};
    runtime_.engine.push({"weights are read", {}, {}, engine::kHostCopyLane, 0, there},
                         [slices = kept.arrival->slices_,
                          waypoint = waypoint_](engine::RunContext&) { return base::Status(); });
  }
}

// Operations own no arrival, which owns the completion of one of them: what nobody will answer
// ends.
void WeightArrivals::pull(const schemas::KeyInfo& key, const NDArray& weight, int priority,
                          Ask ask) {
  Kept& kept = kept_[key.id];
  if (kept.arrival == nullptr) {
    kept.arrival = std::make_shared<WeightArrival>(key.weight_wire);
    kept.there = runtime_.engine.new_variable("weights on their way");
  }
  const bool host = !ndarray::uses_stream(weight.device());
  const std::array written = {kept.there, weight.variable()};
  const auto overwrites = std::span(written).first(host ? 2 : 1);
  runtime_.engine.push_async(
      {"pull", {}, {}, engine::kHostCopyLane, priority, overwrites},
      [weak = std::weak_ptr(kept.arrival), weight = host ? weight : NDArray(),
       ask = std::move(ask)](engine::RunContext&, engine::Completion completion) {
        const std::shared_ptr<WeightArrival> arrival = weak.lock();
        if (arrival == nullptr) return;  // the completion says so
        arrival->slices().clear();
        arrival->host_ = weight;
        arrival->completion_ = std::move(completion);
        ask(arrival);
      });
  if (!host) fill_device(kept, weight, priority);
}

void WeightArrivals::fill_device(Kept& kept, const NDArray& weight, int priority) {
  kept.on_device = true;
  const std::array there = {kept.there}, filled = {weight.variable()};
  const engine::Lane lane{weight.device(), engine::LaneKind::priority};
  runtime_.engine.push_stream({"weights", there, {}, lane, priority, filled},
                              [slices = kept.arrival->slices_, weight, wire = kept.arrival->wire_,
                               waypoint = waypoint_](engine::RunContext& context) -> base::Status {
                                check_size(*slices, wire, weight);
                                if (wire == weight.dtype())
                                  return issue_copies(*slices, weight, *context.stream);
                                return issue_widening(*slices, wire, weight, waypoint->bytes,
                                                      context);
                              });
}

}  // namespace troupe::store
