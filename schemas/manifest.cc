// SPDX-License-Identifier: Apache-2.0
// What checkpoints are called.
#include "schemas/manifest.h"

#include <fmt/core.h>

namespace troupe::schemas {

std::string checkpoint_name(std::uint64_t step, std::uint64_t generation) {
  return fmt::format("step-{}-g{}", step, generation);
}

}  // namespace troupe::schemas
