// SPDX-License-Identifier: Apache-2.0
// A stream of random numbers behind an engine variable.
#include "ndarray/random_generator.h"

namespace troupe::ndarray {

RandomGenerator::RandomGenerator(Runtime& runtime, std::uint64_t seed, std::string_view name)
    : holder_(std::make_shared<Holder>()) {
  holder_->state.key = base::random_key(seed, name);
  holder_->variable = runtime.engine.new_variable("random generator");
}

}  // namespace troupe::ndarray
