// SPDX-License-Identifier: Apache-2.0
// RandomGenerator: an engine variable that holds (key, position). Each imperative call that draws
// writes it and advances the position by one, so a program draws the same numbers whatever runs in
// parallel. A handle: copies share the stream, and operations keep it alive.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>

#include "base/random.h"
#include "ndarray/runtime.h"

namespace troupe::ndarray {

/// Key and number of draws made so far; touched under the generator's tag only.
struct RandomState {
  base::RandomKey key;
  std::int64_t position = 0;
};

/// A stream of random numbers for imperative code.
class RandomGenerator {
 public:
  /// Stream `name` under `seed` (base::random_key).
  RandomGenerator(Runtime& runtime, std::uint64_t seed, std::string_view name = "imperative");

  const engine::Variable& variable() const { return holder_->variable; }
  /// The state, for operations that hold the write tag and a copy of the generator.
  RandomState* state() const { return &holder_->state; }

 private:
  struct Holder {
    RandomState state;
    engine::Variable variable;
  };
  std::shared_ptr<Holder> holder_;
};

}  // namespace troupe::ndarray
