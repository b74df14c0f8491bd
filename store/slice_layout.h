// SPDX-License-Identifier: Apache-2.0
// SliceLayout: how a job's keys are cut into slices and which shard owns each. A pure function of
// the keys, the number of shards and the slice size, so everybody computes the same one. Immutable
// value; any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/status.h"
#include "schemas/messages.h"

namespace troupe::store {

using schemas::SliceId;

/// Bytes of a slice: 1 MiB of a key's dense row-major form.
inline constexpr std::uint64_t kSliceBytes = 1'048'576;

/// One slice: `elements` elements of the key from element `offset` on.
struct SliceInfo {
  SliceId id;
  std::uint64_t offset = 0;
  std::uint64_t elements = 0;
  std::uint64_t bytes = 0;           ///< in the key's dtype
  std::uint64_t gradient_bytes = 0;  ///< of a gradient or sum, in the key's gradient_wire
  std::uint64_t weight_bytes = 0;    ///< of weights on their way to workers, in its weight_wire
  std::uint32_t shard = 0;
};

/// All slices of a job, ordered by id.
class SliceLayout {
 public:
  /// Cuts by shape alone; slices go, largest first and ties by id, to the shard that has the fewest
  /// bytes so far (ties: the lowest). invalid_argument names a key that is empty, not numbered by
  /// its position, of kind rows, or whose wire types are neither its dtype nor, for a floating one,
  /// 16 bits.
  static base::Result<SliceLayout> create(std::span<const schemas::KeyInfo> keys,
                                          std::uint32_t shards,
                                          std::uint64_t slice_bytes = kSliceBytes);

  std::span<const SliceInfo> slices() const { return slices_; }
  /// The slices of one key, in order; CHECKs that the key exists.
  std::span<const SliceInfo> of_key(std::uint32_t key) const;
  std::uint32_t keys() const { return static_cast<std::uint32_t>(first_of_key_.size()) - 1; }
  std::uint32_t shards() const { return shards_; }

  /// For names from the wire.
  bool contains(const SliceId& id) const;
  /// Position in slices(); CHECKs that the slice exists.
  std::size_t position(const SliceId& id) const;
  const SliceInfo& info(const SliceId& id) const { return slices_[position(id)]; }
  /// The shard of slice (0, 0): its server writes the manifests.
  std::uint32_t first_shard() const { return slices_.front().shard; }

 private:
  SliceLayout() = default;
  base::Status cut(const schemas::KeyInfo& key, std::uint64_t slice_bytes);
  void place();

  std::vector<SliceInfo> slices_;
  std::vector<std::size_t> first_of_key_;  // one more entry than keys: the end
  std::uint32_t shards_ = 1;
};

}  // namespace troupe::store
