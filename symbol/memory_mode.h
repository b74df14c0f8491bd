// SPDX-License-Identifier: Apache-2.0
// What of an executor's memory may be shared. Plain value.
#pragma once

#include <cstdint>

namespace troupe::symbol {

/// How values may share memory. The bits of results are the same.
enum class MemoryMode : std::uint8_t {
  none,      ///< every value and scratch has bytes of its own
  in_place,  ///< an output may take the place of an input that nobody else needs
  share,     ///< bytes are used again when what they hold is not needed any more
  both,
};

}  // namespace troupe::symbol
