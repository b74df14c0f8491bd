// SPDX-License-Identifier: Apache-2.0
// Runs of keys in one block of memory each, and their copies.
#include "train/store_arrays.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "ndarray/run_kernel.h"

namespace troupe::train {

using ndarray::NDArray;
using schemas::KeyInfo;

namespace {

// As allocations of devices are; kernels may load that much at a time.
constexpr std::size_t kKeyAlignment = 256;

std::size_t bytes_of(const KeyInfo& key) {
  return static_cast<std::size_t>(key.shape.elements()) * base::dtype_size(key.dtype);
}

/// One block of a pool for arrays at `offsets`, which are zero when it returns.
base::Result<std::vector<NDArray>> make_block(ndarray::Runtime& runtime, base::BufferPool& pool,
                                              std::span<const KeyInfo* const> keys,
                                              std::span<const std::size_t> offsets,
                                              std::size_t bytes) {
  TROUPE_TRY_ASSIGN(base::Buffer block,
                    pool.allocate(std::max<std::size_t>(bytes, 1), "keys of a store"));
  block = block.slice(0, bytes);
  {
    const NDArray all = NDArray::from_buffer(
        runtime, block, base::Shape{static_cast<std::int64_t>(bytes)}, base::DType::u8);
    TROUPE_TRY(all.clear());
    TROUPE_TRY(all.wait());
  }
  std::vector<NDArray> arrays;
  for (std::size_t i = 0; i < keys.size(); ++i) {
    arrays.push_back(NDArray::from_buffer(runtime, block.slice(offsets[i], bytes_of(*keys[i])),
                                          keys[i]->shape, keys[i]->dtype));
    TROUPE_TRY(arrays.back().status());
  }
  return arrays;
}

/// The run of `ids`, in that order.
base::Result<std::shared_ptr<const KeyRun>> make_run(ndarray::Runtime& runtime,
                                                     std::span<const KeyInfo> keys,
                                                     std::vector<std::uint32_t> ids,
                                                     base::Device device) {
  auto run = std::make_shared<KeyRun>();
  run->keys = std::move(ids);
  std::vector<const KeyInfo*> infos;
  std::vector<std::size_t> offsets;
  for (const std::uint32_t id : run->keys) {
    infos.push_back(&keys[id]);
    offsets.push_back((run->bytes + kKeyAlignment - 1) / kKeyAlignment * kKeyAlignment);
    run->bytes = offsets.back() + bytes_of(keys[id]);
  }
  base::BufferPool& pool = runtime.storage.pool(device);
  TROUPE_TRY_ASSIGN(run->device, make_block(runtime, pool, infos, offsets, run->bytes));
  base::BufferPool& host = host_pool(runtime, device);
  TROUPE_TRY_ASSIGN(run->host, make_block(runtime, host, infos, offsets, run->bytes));
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

std::vector<engine::Variable> variables(const std::vector<NDArray>& arrays) {
  std::vector<engine::Variable> all;
  for (const NDArray& array : arrays) all.push_back(array.variable());
  return all;
}

/// The arrays of `from` and `to` are those of one run, whose bytes are copied as they lie.
void push_copy(std::string_view name, const std::vector<NDArray>& from,
               const std::vector<NDArray>& to, engine::Lane lane, int priority,
               const std::shared_ptr<const KeyRun>& run) {
  const std::vector<engine::Variable> reads = variables(from), written = variables(to);
  const engine::Operation operation{
      .name = name, .reads = reads, .lane = lane, .priority = priority, .overwrites = written};
  ndarray::push_on_lane(run->device.front().runtime().engine, operation,
                        [run, source = from.front().chunk(),
                         target = to.front().chunk()](engine::RunContext& context) -> base::Status {
                          if (run->bytes == 0) return {};
                          return context.stream->copy(target->buffer.data(), source->buffer.data(),
                                                      run->bytes);
                        });
}

}  // namespace

base::BufferPool& host_pool(ndarray::Runtime& runtime, base::Device device) {
  storage::Storage& storage = runtime.storage;
  return device.host_memory() ? storage.pool(base::Device{}) : storage.pinned_pool();
}

base::Result<StoreArrays> StoreArrays::create(ndarray::Runtime& runtime,
                                              std::span<const KeyInfo> keys,
                                              const std::vector<bool>& computed,
                                              base::Device device, std::size_t run_bytes) {
  std::vector<std::uint32_t> order(keys.size());
  std::iota(order.begin(), order.end(), 0U);
  StoreArrays made;
  TROUPE_TRY_ASSIGN(made.weight_runs_, make_runs(runtime, keys, order, device, run_bytes));
  std::vector<std::uint32_t> backward, still;
  for (auto id = order.rbegin(); id != order.rend(); ++id) {
    (!ndarray::uses_stream(device) || computed[*id] ? backward : still).push_back(*id);
  }
  TROUPE_TRY_ASSIGN(made.gradient_runs_, make_runs(runtime, keys, backward, device, run_bytes));
  for (auto* arrays : {&made.parameters_, &made.gradients_, &made.pulled_, &made.pushed_}) {
    arrays->resize(keys.size());
  }
  for (const std::uint32_t id : still) {  // zero for good: the host's array serves the store
    TROUPE_TRY_ASSIGN(auto run, make_shared_run(runtime, keys[id], {}));
    made.gradient_runs_.push_back(std::move(run));
  }
  made.place(made.weight_runs_, made.parameters_, made.pulled_);
  made.place(made.gradient_runs_, made.gradients_, made.pushed_);
  return made;
}

base::Result<StoreArrays::Runs> StoreArrays::make_runs(ndarray::Runtime& runtime,
                                                       std::span<const KeyInfo> keys,
                                                       const std::vector<std::uint32_t>& order,
                                                       base::Device device, std::size_t run_bytes) {
  Runs runs;
  if (!ndarray::uses_stream(device)) {
    for (const std::uint32_t id : order) {
      TROUPE_TRY_ASSIGN(runs.emplace_back(), make_shared_run(runtime, keys[id], device));
    }
    return runs;
  }
  std::vector<std::uint32_t> ids;
  std::size_t bytes = 0;
  for (const std::uint32_t id : order) {
    ids.push_back(id);
    bytes += bytes_of(keys[id]);
    if (bytes < run_bytes && id != order.back()) continue;
    TROUPE_TRY_ASSIGN(runs.emplace_back(), make_run(runtime, keys, std::exchange(ids, {}), device));
    bytes = 0;
  }
  return runs;
}

void StoreArrays::place(const Runs& runs, std::vector<NDArray>& device,
                        std::vector<NDArray>& host) const {
  for (const auto& run : runs) {
    for (std::size_t i = 0; i < run->keys.size(); ++i) {
      device[run->keys[i]] = run->device[i];
      host[run->keys[i]] = run->host.empty() ? run->device[i] : run->host[i];
    }
  }
}

void StoreArrays::to_host(const std::shared_ptr<const KeyRun>& run, int priority) {
  if (run->host.empty()) return;
  const engine::Lane lane{run->device.front().device(), engine::LaneKind::copy};
  push_copy("gradients to the host", run->device, run->host, lane, priority, run);
}

void StoreArrays::to_device(const std::shared_ptr<const KeyRun>& run, int priority) {
  if (run->host.empty()) return;
  const engine::Lane lane{run->device.front().device(), engine::LaneKind::priority};
  push_copy("weights to the device", run->host, run->device, lane, priority, run);
}

}  // namespace troupe::train
