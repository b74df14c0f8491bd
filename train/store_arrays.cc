// SPDX-License-Identifier: Apache-2.0
// Runs of keys in one block of memory each, and their copies.
#include "train/store_arrays.h"

#include <algorithm>
#include <array>
#include <utility>

#include "ndarray/flat_call.h"
#include "ndarray/run_kernel.h"

namespace troupe::train {

using ndarray::NDArray;
using schemas::KeyInfo;

namespace {

// As allocations of devices are; kernels may load that much at a time.
constexpr std::size_t kKeyAlignment = 256;

std::size_t aligned(std::size_t bytes) {
  return (bytes + kKeyAlignment - 1) / kKeyAlignment * kKeyAlignment;
}

std::size_t bytes_of(const KeyInfo& key) {
  return static_cast<std::size_t>(key.shape.elements()) * base::dtype_size(key.dtype);
}

/// The way of gradients from their device.
struct Journey {
  ndarray::Runtime& runtime;
  std::span<const KeyInfo> keys;
  base::Device device;
  std::size_t run_bytes = kRunBytes;
  bool to_host = true;  ///< the host has arrays, too
};

/// Where a key lies in its run.
struct Place {
  const KeyInfo* key = nullptr;
  base::DType wire = base::DType::f32;
  std::size_t offset = 0, travel_offset = 0;  // bytes
};

/// Bytes that a run's places take.
struct RunSize {
  std::size_t bytes = 0, travel_bytes = 0;
};

/// Ends a part where the next one can begin, so that parts have no gap between them.
RunSize close(RunPart& part) {
  const std::size_t wide = base::dtype_size(part.dtype);
  const std::size_t elements = aligned(static_cast<std::size_t>(part.elements) * wide) / wide;
  part.elements = static_cast<std::int64_t>(elements);
  return {part.offset + elements * wide,
          part.travel_offset + elements * base::dtype_size(part.wire)};
}

/// Places for keys, one behind the other, and the parts that they make. Keys that have the same
/// dtypes must be neighbours.
RunSize lay_out(std::vector<Place>& places, std::vector<RunPart>& parts) {
  RunSize size;
  for (Place& at : places) {
    const std::size_t wide = base::dtype_size(at.key->dtype), narrow = base::dtype_size(at.wire);
    if (parts.empty() || parts.back().dtype != at.key->dtype || parts.back().wire != at.wire) {
      if (!parts.empty()) size = close(parts.back());
      parts.push_back({at.key->dtype, at.wire, 0, size.bytes, size.travel_bytes, nullptr});
    }
    RunPart& part = parts.back();
    at.offset = aligned(size.bytes);
    const std::size_t before = (at.offset - part.offset) / wide;
    at.travel_offset = part.travel_offset + before * narrow;
    const std::size_t elements = before + bytes_of(*at.key) / wide;
    part.elements = static_cast<std::int64_t>(elements);
    size = {part.offset + elements * wide, part.travel_offset + elements * narrow};
  }
  return size;
}

/// A block of a pool, all of it zero when this returns.
base::Result<NDArray> make_block(ndarray::Runtime& runtime, base::BufferPool& pool,
                                 std::size_t bytes) {
  TROUPE_TRY_ASSIGN(base::Buffer block,
                    pool.allocate(std::max<std::size_t>(bytes, 1), "keys of a store"));
  NDArray all =
      NDArray::from_buffer(runtime, block.slice(0, bytes),
                           base::Shape{static_cast<std::int64_t>(bytes)}, base::DType::u8);
  TROUPE_TRY(all.clear());
  TROUPE_TRY(all.wait());
  return all;
}

/// The kernel that rounds a part on its device; null where nothing is rounded.
base::Result<std::shared_ptr<const ops::Kernel>> rounding(const Journey& journey,
                                                          const RunPart& part) {
  if (part.dtype == part.wire) return std::shared_ptr<const ops::Kernel>();
  ndarray::Runtime& runtime = journey.runtime;
  const int team = runtime.engine.team({journey.device, engine::LaneKind::copy});
  const ndarray::FlatCall call =
      ndarray::flat_cast(part.dtype, part.wire, part.elements, journey.device, team);
  TROUPE_TRY_ASSIGN(auto kernel, ndarray::flat_kernel(call, runtime.ops, runtime.kernels));
  TROUPE_CHECK(kernel->scratch_bytes() == 0, "a cast that wants scratch");
  return kernel;
}

/// The run of `ids`, in that order but for their dtypes.
base::Result<std::shared_ptr<const KeyRun>> make_run(const Journey& journey,
                                                     const std::vector<std::uint32_t>& ids) {
  auto run = std::make_shared<KeyRun>();
  std::vector<Place> places;
  for (const std::uint32_t id : ids) {
    places.push_back({&journey.keys[id], journey.keys[id].gradient_wire, 0, 0});
  }
  std::ranges::stable_sort(
      places, {}, [](const Place& place) { return std::pair(place.wire, place.key->dtype); });
  const RunSize size = lay_out(places, run->parts);
  ndarray::Runtime& runtime = journey.runtime;
  base::BufferPool& pool = runtime.storage.pool(journey.device);
  TROUPE_TRY_ASSIGN(const NDArray device, make_block(runtime, pool, size.bytes));
  run->device_block = device.buffer();
  for (RunPart& part : run->parts) {
    TROUPE_TRY_ASSIGN(part.rounds, rounding(journey, part));
    if (!part.rounds || run->rounded) continue;
    TROUPE_TRY_ASSIGN(run->rounded, make_block(runtime, pool, size.travel_bytes));
  }
  if (journey.to_host) {
    TROUPE_TRY_ASSIGN(
        const NDArray host,
        make_block(runtime, host_pool(runtime.storage, journey.device), size.travel_bytes));
    run->host_block = host.buffer();
  }
  for (const Place& at : places) {
    const KeyInfo& key = *at.key;
    run->keys.push_back(key.id);
    run->device.push_back(NDArray::from_buffer(
        runtime, run->device_block.slice(at.offset, bytes_of(key)), key.shape, key.dtype));
    TROUPE_TRY(run->device.back().status());
    if (!journey.to_host) continue;
    const std::size_t bytes =
        bytes_of(key) / base::dtype_size(key.dtype) * base::dtype_size(at.wire);
    run->host.push_back(NDArray::from_buffer(
        runtime, run->host_block.slice(at.travel_offset, bytes), key.shape, at.wire));
    TROUPE_TRY(run->host.back().status());
  }
  return std::shared_ptr<const KeyRun>(std::move(run));
}

/// A run of one key that a store sees as it is.
base::Result<std::shared_ptr<const KeyRun>> make_shared_run(ndarray::Runtime& runtime,
                                                            const KeyInfo& key,
                                                            base::Device device) {
  auto run = std::make_shared<KeyRun>();
  run->keys = {key.id};
  TROUPE_TRY_ASSIGN(NDArray array, NDArray::zeros(runtime, key.shape, key.dtype, device));
  run->device.push_back(std::move(array));
  return std::shared_ptr<const KeyRun>(std::move(run));
}

base::Result<StoreArrays::Runs> make_runs(const Journey& journey,
                                          const std::vector<std::uint32_t>& order) {
  StoreArrays::Runs runs;
  if (!ndarray::uses_stream(journey.device)) {
    for (const std::uint32_t id : order) {
      TROUPE_TRY_ASSIGN(runs.emplace_back(),
                        make_shared_run(journey.runtime, journey.keys[id], journey.device));
    }
    return runs;
  }
  std::vector<std::uint32_t> ids;
  std::size_t bytes = 0;
  for (const std::uint32_t id : order) {
    ids.push_back(id);
    bytes += bytes_of(journey.keys[id]);
    if (bytes < journey.run_bytes && id != order.back()) continue;
    TROUPE_TRY_ASSIGN(runs.emplace_back(), make_run(journey, std::exchange(ids, {})));
    bytes = 0;
  }
  return runs;
}

std::vector<engine::Variable> variables(const std::vector<NDArray>& arrays) {
  std::vector<engine::Variable> all;
  for (const NDArray& array : arrays) all.push_back(array.variable());
  return all;
}

/// Issues the filling of `rounded`: parts that keep their dtype are copied.
base::Status issue_rounding(const KeyRun& run, engine::RunContext& lane) {
  if (!run.rounded) return {};
  for (const RunPart& part : run.parts) {
    std::byte* const from = run.device_block.data() + part.offset;
    std::byte* const to = run.rounded.data() + part.travel_offset;
    if (!part.rounds) {
      const auto elements = static_cast<std::size_t>(part.elements);
      TROUPE_TRY(lane.stream->copy(to, from, elements * base::dtype_size(part.wire)));
      continue;
    }
    const std::array inputs = {ndarray::flat_view(from, part.dtype, part.elements)};
    const std::array outputs = {ndarray::flat_view(to, part.wire, part.elements)};
    const ndarray::KernelBuffers buffers{
        .inputs = inputs, .outputs = outputs, .scratch = {}, .fresh = true};
    TROUPE_TRY(ndarray::run_kernel(part.rounds, buffers, lane));
  }
  return {};
}

}  // namespace

base::BufferPool& host_pool(storage::Storage& storage, base::Device device) {
  return device.host_memory() ? storage.pool(base::Device{}) : storage.pinned_pool();
}

base::Result<StoreArrays> StoreArrays::create(ndarray::Runtime& runtime,
                                              std::span<const KeyInfo> keys,
                                              const std::vector<bool>& computed,
                                              base::Device device, std::size_t run_bytes,
                                              GradientWay way) {
  TROUPE_CHECK(way == GradientWay::to_host || ndarray::uses_stream(device),
               "gradients of a CPU that are to be added on devices");
  StoreArrays made;
  std::vector<std::uint32_t> backward, still;
  for (const KeyInfo& key : keys) {
    TROUPE_TRY_ASSIGN(made.parameters_.emplace_back(),
                      NDArray::zeros(runtime, key.shape, key.dtype, device));
    (!ndarray::uses_stream(device) || computed[key.id] ? backward : still).push_back(key.id);
  }
  std::ranges::reverse(backward);
  std::ranges::reverse(still);
  const Journey journey{runtime, keys, device, run_bytes, way != GradientWay::sum_member};
  TROUPE_TRY_ASSIGN(made.gradient_runs_, make_runs(journey, backward));
  for (const std::uint32_t id : still) {  // zero for good: the host's array serves the store
    TROUPE_TRY_ASSIGN(auto run, make_shared_run(runtime, keys[id], {}));
    made.gradient_runs_.push_back(std::move(run));
  }
  made.gradients_.resize(keys.size());
  made.pushed_.resize(keys.size());
  for (const auto& run : made.gradient_runs_) {
    for (std::size_t i = 0; i < run->keys.size(); ++i) {
      made.gradients_[run->keys[i]] = run->device[i];
      made.pushed_[run->keys[i]] = run->host.empty() ? run->device[i] : run->host[i];
    }
  }
  return made;
}

void StoreArrays::to_host(const std::shared_ptr<const KeyRun>& run, int priority) {
  if (run->host.empty()) return;
  const std::vector<engine::Variable> reads = variables(run->device);
  std::vector<engine::Variable> written = variables(run->host);
  if (run->rounded) written.push_back(run->rounded.variable());
  const engine::Lane lane{run->device.front().device(), engine::LaneKind::copy};
  const engine::Operation operation{.name = "gradients to the host",
                                    .reads = reads,
                                    .lane = lane,
                                    .priority = priority,
                                    .overwrites = written};
  ndarray::push_on_lane(run->device.front().runtime().engine, operation,
                        [run](engine::RunContext& context) -> base::Status {
                          TROUPE_TRY(issue_rounding(*run, context));
                          return context.stream->copy(run->host_block.data(),
                                                      run->travel_block().data(),
                                                      run->host_block.size());
                        });
}

void StoreArrays::round(const std::shared_ptr<const KeyRun>& run, int priority) {
  if (!run->rounded) return;
  // A failure is one of the gradients, which whoever waits for them sees.
  const std::vector<engine::Variable> changed = variables(run->device);
  const std::array written = {run->rounded.variable()};
  const engine::Lane lane{run->device.front().device(), engine::LaneKind::copy};
  const engine::Operation operation{.name = "gradients rounded",
                                    .reads = {},
                                    .writes = changed,
                                    .lane = lane,
                                    .priority = priority,
                                    .overwrites = written};
  ndarray::push_on_lane(
      run->device.front().runtime().engine, operation,
      [run](engine::RunContext& context) { return issue_rounding(*run, context); });
}

}  // namespace troupe::train
