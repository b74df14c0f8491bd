// SPDX-License-Identifier: Apache-2.0
// Cutting keys and placing slices; no state beyond the tables it makes.
#include "store/slice_layout.h"

#include <fmt/core.h>

#include <algorithm>
#include <numeric>

#include "base/dtype.h"

namespace troupe::store {

base::Result<SliceLayout> SliceLayout::create(std::span<const schemas::KeyInfo> keys,
                                              std::uint32_t shards, std::uint64_t slice_bytes) {
  if (keys.empty() || shards == 0) {
    return base::error(base::Errc::invalid_argument,
                       "[slices] {} keys over {} shards: both must be at least 1", keys.size(),
                       shards);
  }
  SliceLayout layout;
  layout.shards_ = shards;
  layout.first_of_key_.push_back(0);
  for (const schemas::KeyInfo& key : keys) TROUPE_TRY(layout.cut(key, slice_bytes));
  layout.place();
  return layout;
}

base::Status SliceLayout::cut(const schemas::KeyInfo& key, std::uint64_t slice_bytes) {
  using base::Errc;
  const std::size_t number = first_of_key_.size() - 1;
  if (key.id != number) {
    return base::error(Errc::invalid_argument, "[slices] key '{}' has id {} at position {}",
                       key.name, key.id, number);
  }
  if (key.kind == schemas::KeyKind::rows) {
    return base::error(Errc::unimplemented, "[slices] key '{}': sparse rows are not supported yet",
                       key.name);
  }
  for (const base::DType wire : {key.gradient_wire, key.weight_wire}) {
    if (wire == key.dtype || (base::is_floating(key.dtype) && base::is_16_bit(wire))) continue;
    return base::error(Errc::invalid_argument, "[slices] key '{}' of dtype {} cannot travel in {}",
                       key.name, base::dtype_name(key.dtype), base::dtype_name(wire));
  }
  TROUPE_TRY(base::check_shape(key.shape).with_context([&] {
    return fmt::format("[slices] key '{}' of dtype {}", key.name, base::dtype_name(key.dtype));
  }));
  const auto elements = static_cast<std::uint64_t>(key.shape.elements());
  const std::uint64_t size = base::dtype_size(key.dtype);
  const std::uint64_t most = std::max<std::uint64_t>(1, slice_bytes / size);
  if (elements == 0) {
    return base::error(Errc::invalid_argument, "[slices] key '{}' of shape {} has no elements",
                       key.name, key.shape.to_string());
  }
  std::uint32_t slice = 0;
  for (std::uint64_t offset = 0; offset < elements; offset += most) {
    const std::uint64_t count = std::min(most, elements - offset);
    slices_.push_back({{key.id, slice++},
                       offset,
                       count,
                       count * size,
                       count * base::dtype_size(key.gradient_wire),
                       count * base::dtype_size(key.weight_wire),
                       0});
  }
  first_of_key_.push_back(slices_.size());
  return {};
}

// Largest first, each to the shard that has the fewest bytes: no shard is fuller than the emptiest
// one by more than a slice. stable_sort and min_element keep ties in order, so every process places
// alike.
void SliceLayout::place() {
  std::vector<std::size_t> order(slices_.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), [this](std::size_t a, std::size_t b) {
    return slices_[a].bytes > slices_[b].bytes;
  });
  std::vector<std::uint64_t> load(shards_, 0);
  for (const std::size_t i : order) {
    const auto least = std::min_element(load.begin(), load.end());
    *least += slices_[i].bytes;
    slices_[i].shard = static_cast<std::uint32_t>(least - load.begin());
  }
}

std::span<const SliceInfo> SliceLayout::of_key(std::uint32_t key) const {
  TROUPE_CHECK(key < keys(), fmt::format("key {} of {} does not exist", key, keys()));
  return std::span(slices_).subspan(first_of_key_[key],
                                    first_of_key_[key + 1] - first_of_key_[key]);
}

bool SliceLayout::contains(const SliceId& id) const {
  return id.key < keys() && id.slice < first_of_key_[id.key + 1] - first_of_key_[id.key];
}

std::size_t SliceLayout::position(const SliceId& id) const {
  TROUPE_CHECK(contains(id), fmt::format("slice ({}, {}) does not exist", id.key, id.slice));
  return first_of_key_[id.key] + id.slice;
}

}  // namespace troupe::store
