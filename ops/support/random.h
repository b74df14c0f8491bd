// SPDX-License-Identifier: Apache-2.0
// Operators that draw random tensors: row-major element e uses word e % 4 of Philox block e / 4 at
// (key, step), so that a value depends on nothing else.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "base/random.h"
#include "ops/support/chunks.h"
#include "ops/support/creation.h"

namespace troupe::ops {

/// creation_definition() of a random operator.
inline OpDef random_definition() {
  OpDef op = creation_definition();
  op.random = true;
  return op;
}

/// A small tensor that ends inside a block, and a large one for the benchmark.
inline std::vector<Sample> random_samples(Attributes attributes) {
  Sample small{.title = "matrix", .attributes = attributes, .gradient = false};
  Sample large{.title = "large", .attributes = attributes, .gradient = false, .benchmark = true};
  small.attributes.emplace("shape", "(3, 7)");
  large.attributes.emplace("shape", "(256, 1024)");
  return {small, large};
}

/// f(first element, elements, words) for every block of four elements of a tensor.
template <typename F>
void for_each_block(const KernelContext& context, std::int64_t elements, F&& f) {
  parallel_ranges(context, elements, [&](auto begin, auto end) {
    for (auto e = begin; e < end; e += 4) {
      const auto words = base::philox(context.random_key, static_cast<std::uint64_t>(e / 4),
                                      static_cast<std::uint64_t>(context.random_step), 0);
      f(e, static_cast<std::size_t>(std::min<std::int64_t>(4, end - e)), words);
    }
  });
}

}  // namespace troupe::ops
