// SPDX-License-Identifier: Apache-2.0
// Views that a kernel makes while it runs, in a piece of its scratch memory, since run() takes
// none.
#pragma once

#include <cstdint>
#include <memory>
#include <new>
#include <span>

#include "base/tensor_view.h"

namespace troupe::ops {

/// Views in scratch memory, for a scope: there may be any number of them. Layouts must not be
/// opaque, for the text of those is memory.
class ScratchViews {
 public:
  explicit ScratchViews(std::byte* memory) : views_(reinterpret_cast<base::TensorView*>(memory)) {}
  ~ScratchViews() { std::destroy_n(views_, count_); }
  ScratchViews(const ScratchViews&) = delete;
  ScratchViews& operator=(const ScratchViews&) = delete;

  /// Appends make(index, view) of every view in `from`; what was appended.
  template <typename Make>
  std::span<const base::TensorView> add(std::span<const base::TensorView> from, Make&& make) {
    base::TensorView* const first = views_ + count_;
    for (std::size_t i = 0; i < from.size(); ++i, ++count_) {
      ::new (views_ + count_) base::TensorView(make(i, from[i]));
    }
    return {first, from.size()};
  }

 private:
  base::TensorView* views_;
  std::size_t count_ = 0;
};

/// Bytes of a tensor or of views, as pieces of scratch memory are cut.
inline std::size_t scratch_piece(std::int64_t bytes) {
  constexpr std::size_t kAlignment = 64;
  return (static_cast<std::size_t>(bytes) + kAlignment - 1) / kAlignment * kAlignment;
}

}  // namespace troupe::ops
