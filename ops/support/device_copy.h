// SPDX-License-Identifier: Apache-2.0
// Copies on GPUs between places that follow from an index: what shapes, axes and borders turn into.
// Pure functions of views; any thread.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <optional>

#include "ops/support/axis_copy.h"
#include "ops/support/borders.h"
#include "ops/support/device_kernel.h"

namespace troupe::ops {

/// Most axes of a CopyMap: those of a tensor, one of them in two parts.
inline constexpr int kCopyAxesMax = base::kRankMax + 1;

/// Where an element is read and written.
struct CopyPlace {
  std::int64_t from = 0, to = 0;
};

/// A box of indices, outermost axis first, and how far neighbours along each axis lie apart where a
/// copy reads and where it writes.
struct CopyMap {
  int rank = 0;
  std::int64_t count = 1;  ///< of indices
  Divider extent[kCopyAxesMax];
  std::int64_t from[kCopyAxesMax] = {}, to[kCopyAxesMax] = {};

  /// An axis inside of the others. One that they walk as if it were their own joins the last.
  void add(std::int64_t axis_extent, std::int64_t axis_from, std::int64_t axis_to) {
    if (axis_extent == 1) return;
    count *= axis_extent;
    const int last = rank - 1;
    if (rank > 0 && from[last] == axis_from * axis_extent && to[last] == axis_to * axis_extent) {
      extent[last] = Divider(extent[last].divisor() * axis_extent);
      from[last] = axis_from;
      to[last] = axis_to;
      return;
    }
    TROUPE_CHECK(rank < kCopyAxesMax, "a copy with too many axes");
    extent[rank] = Divider(axis_extent);
    from[rank] = axis_from;
    to[rank++] = axis_to;
  }
  /// Of the i-th index, row-major.
  TROUPE_HOST_DEVICE CopyPlace place(std::int64_t i) const {
    CopyPlace place;
    for (int axis = rank - 1; axis >= 0; --axis) {
      const Divider::Digits at = extent[axis].digits(i);
      const std::int64_t index = axis > 0 ? at.remainder : i;
      i = at.quotient;
      place.from += index * from[axis];
      place.to += index * to[axis];
    }
    return place;
  }
  /// The same in packs of `size` neighbours, all numbers counting packs; none, where the innermost
  /// axis's elements are no neighbours on both sides or a pack would not lie at a multiple of its
  /// size.
  std::optional<CopyMap> in_packs(std::int64_t size) const {
    const int last = rank - 1;
    if (rank == 0 || count == 0 || from[last] != 1 || to[last] != 1) return std::nullopt;
    CopyMap packs;
    for (int axis = 0; axis < rank; ++axis) {
      const std::int64_t own = extent[axis].divisor();
      if (axis < last && from[axis] % size == 0 && to[axis] % size == 0) {
        packs.add(own, from[axis] / size, to[axis] / size);
      } else if (axis == last && own % size == 0) {
        packs.add(own / size, 1, 1);
      } else {
        return std::nullopt;
      }
    }
    return packs;
  }
  /// True where both sides are walked alike.
  bool alike() const { return std::equal(from, from + rank, to); }
};

/// out[where it goes] = in[where it comes from].
template <typename T>
struct CopyAt {
  const T* in;
  DeviceOutput<T> out;
  CopyMap map;

  TROUPE_HOST_DEVICE void operator()(std::int64_t i) const {
    const CopyPlace place = map.place(i);
    if (out.adds) {
      out.store(place.to, static_cast<Wide<T>>(in[place.from]));
    } else {
      out.data[place.to] = in[place.from];
    }
  }
};

/// Writes a pack, or adds it where `out` adds.
template <typename T>
TROUPE_HOST_DEVICE void write_pack(const DeviceOutput<T>& out, std::int64_t i,
                                   const DevicePack<T>& pack) {
  if (!out.adds) {
    *reinterpret_cast<DevicePack<T>*>(out.data + i) = pack;
    return;
  }
  constexpr int kSize = DevicePack<T>::kSize;
  Wide<T> values[kSize];
  TROUPE_UNROLL
  for (int k = 0; k < kSize; ++k) values[k] = static_cast<Wide<T>>(pack.values[k]);
  out.store_pack(i, values);
}

/// CopyAt by packs; `map` counts them.
template <typename T>
struct CopyPackAt {
  const T* in;
  DeviceOutput<T> out;
  CopyMap map;

  TROUPE_HOST_DEVICE void operator()(std::int64_t i) const {
    constexpr int kSize = DevicePack<T>::kSize;
    const CopyPlace place = map.place(i);
    write_pack(out, place.to * kSize, pack_at(in, place.from * kSize));
  }
};

/// A copy in which other elements are neighbours where it reads than where it writes: a thread
/// reads `lines` packs and writes as many.
struct CopyTiles {
  CopyMap map;  ///< of tiles; counts elements
  int lines = 0;
  bool run = false;  ///< what a tile writes is one run, in which its lines take turns
  std::int64_t from_step = 0, to_step = 0;  ///< between the packs that it reads, and writes
};

/// Tiles of packs of `size` for a copy; none, where packs would not lie at multiples of their size.
inline std::optional<CopyTiles> copy_tiles(const CopyMap& copy, std::int64_t size) {
  constexpr std::int64_t kRunMost = 4;  // lines of a run
  const auto neighbours = [&](const std::int64_t* steps) {
    return static_cast<int>(std::find(steps, steps + copy.rank, 1) - steps);
  };
  const int along = neighbours(copy.from), across = neighbours(copy.to);
  if (along == copy.rank || across == copy.rank || along == across) return std::nullopt;
  if (copy.rank == kCopyAxesMax) return std::nullopt;  // tiles may have an axis more
  const std::int64_t length = copy.extent[along].divisor(), lines = copy.extent[across].divisor();
  const bool run = lines <= kRunMost && copy.to[along] == lines;
  if (copy.count == 0 || length % size != 0 || (!run && lines % size != 0)) return std::nullopt;
  CopyTiles tiles{{}, static_cast<int>(run ? lines : size), run, copy.from[across], copy.to[along]};
  for (int axis = 0; axis < copy.rank; ++axis) {
    if (axis != along && copy.from[axis] % size != 0) return std::nullopt;
    if (axis != across && !(run && axis == along) && copy.to[axis] % size != 0) return std::nullopt;
    if (axis == along || axis == across) continue;
    tiles.map.add(copy.extent[axis].divisor(), copy.from[axis], copy.to[axis]);
  }
  // Neighbouring threads write next to each other a few times, and then read so.
  const std::int64_t across_tiles = run ? 1 : lines / size;
  const std::int64_t few = across_tiles % 4 == 0 ? 4 : across_tiles % 2 == 0 ? 2 : 1;
  tiles.map.add(across_tiles / few, tiles.from_step * size * few, size * few);
  tiles.map.add(length / size, size, tiles.to_step * size);
  tiles.map.add(few, tiles.from_step * size, size);
  return tiles;
}

/// One tile of CopyTiles with kLines lines.
template <typename T, int kLines, bool kRun>
struct CopyTileAt {
  static constexpr int kSize = DevicePack<T>::kSize;
  const T* in;
  DeviceOutput<T> out;
  CopyMap map;
  std::int64_t from_step, to_step;

  TROUPE_HOST_DEVICE void operator()(std::int64_t i) const {
    const CopyPlace place = map.place(i);
    DevicePack<T> lines[kLines];
    TROUPE_UNROLL
    for (int k = 0; k < kLines; ++k) lines[k] = pack_at(in, place.from + k * from_step);
    // Where all is one run there are as many packs in it as lines, else as many as elements of one.
    TROUPE_UNROLL
    for (int j = 0; j < (kRun ? kLines : kSize); ++j) {
      DevicePack<T> pack;
      TROUPE_UNROLL
      for (int k = 0; k < kSize; ++k) {
        if constexpr (kRun) {
          const int at = j * kSize + k;
          pack.values[k] = lines[at % kLines].values[at / kLines];
        } else {
          pack.values[k] = lines[k].values[j];
        }
      }
      write_pack(out, place.to + (kRun ? j * kSize : j * to_step), pack);
    }
  }
};

template <typename T>
base::Status copy_by_tiles(const KernelContext& context, const CopyTiles& tiles, const T* in,
                           const DeviceOutput<T>& out) {
  const auto issue = [&]<int kLines, bool kRun>() {
    const CopyTileAt<T, kLines, kRun> at{in, out, tiles.map, tiles.from_step, tiles.to_step};
    return for_each_index(context, tiles.map.count, at);
  };
  if (!tiles.run) return issue.template operator()<DevicePack<T>::kSize, false>();
  if (tiles.lines == 2) return issue.template operator()<2, true>();
  if (tiles.lines == 3) return issue.template operator()<3, true>();
  return issue.template operator()<4, true>();
}

/// Copies, or adds where `out` adds. Nothing, where all would be written to where it lies.
template <typename T>
base::Status copy_elements(const KernelContext& context, const CopyMap& map, const T* in,
                           const DeviceOutput<T>& out) {
  if (in == out.data && !out.adds && map.alike()) return {};
  const std::optional<CopyMap> packs = map.in_packs(DevicePack<T>::kSize);
  if (packs && packs_align(in) && packs_align(out.data)) {
    return for_each_index(context, packs->count, CopyPackAt<T>{in, out, *packs});
  }
  if constexpr (sizeof(T) > 1) {  // tiles of bytes would take too many registers
    const std::optional<CopyTiles> tiles = copy_tiles(map, DevicePack<T>::kSize);
    if (tiles && packs_align(in) && packs_align(out.data)) {
      return copy_by_tiles(context, *tiles, in, out);
    }
  }
  return for_each_index(context, map.count, CopyAt<T>{in, out, map});
}

/// copy_axis() between dense tensors on a device.
template <typename T>
base::Status copy_device_axis(const KernelContext& context, const T* in, const AxisView& in_view,
                              DeviceOutput<T> out, const AxisView& out_view,
                              const AxisRange& range) {
  const std::int64_t inner = in_view.inner;
  CopyMap map;
  map.add(in_view.outer, in_view.extent * inner, out_view.extent * inner);
  map.add(range.count, inner, inner);
  map.add(inner, 1, 1);
  out.data += range.to * inner;
  return copy_elements(context, map, in + range.from * inner, out);
}

/// The map that writes a dense tensor and reads what is broadcast to it, operand a of `walk`.
inline CopyMap broadcast_map(const BroadcastWalk& walk) {
  CopyMap map;
  std::int64_t to = 1;
  for (int axis = 0; axis < walk.rank; ++axis) to *= walk.extent[static_cast<std::size_t>(axis)];
  for (std::size_t axis = 0; axis < static_cast<std::size_t>(walk.rank); ++axis) {
    to /= std::max<std::int64_t>(1, walk.extent[axis]);
    map.add(walk.extent[axis], walk.stride_a[axis], to);
  }
  return map;
}

/// A dense tensor with a border around it.
template <typename T>
struct BorderAt {
  const T* in;
  DeviceOutput<T> out;
  Borders borders;
  Wide<T> constant;

  TROUPE_HOST_DEVICE void operator()(std::int64_t i) const {
    std::int64_t rest = i, from = 0, stride = 1;
    for (int axis = borders.rank - 1; axis >= 0; --axis) {
      const Border& border = borders[axis];
      const std::int64_t at = borders.source(border, rest % border.padded());
      if (at < 0) return out.store(i, constant);
      rest /= border.padded();
      from += at * stride;
      stride *= border.extent;
    }
    out.store(i, static_cast<Wide<T>>(in[from]));
  }
};

/// Copies bits that are not looked at.
template <typename Bits>
struct MoveAt {
  const Bits* in;
  Bits* out;
  TROUPE_HOST_DEVICE void operator()(std::int64_t i) const { out[i] = in[i]; }
  TROUPE_HOST_DEVICE void pack(std::int64_t i) const {
    *reinterpret_cast<DevicePack<Bits>*>(out + i) = pack_at(in, i);
  }
};

/// Input 0's memory to output 0's; nothing where they are one.
inline base::Status move_all(const KernelContext& context) {
  const base::TensorView &in = context.inputs[0], &out = context.outputs[0];
  if (in.data == out.data) return {};
  return with_moved(out.dtype, [&](auto zero) {
    using Bits = decltype(zero);
    return for_each_pack<Bits>(context, out.bytes() / static_cast<std::int64_t>(sizeof(Bits)),
                               packs_align(in.data) && packs_align(out.data),
                               MoveAt<Bits>{in.raw<Bits>(), out.raw<Bits>()});
  });
}

/// A kernel for GPUs that runs flat on tensors of any type.
KernelDef any_device_kernel(std::function<base::Status(const OpCall&, const KernelContext&)> run);

}  // namespace troupe::ops
