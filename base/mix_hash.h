// SPDX-License-Identifier: Apache-2.0
// Joining numbers to one hash, for keys of tables in memory: never written to files or sent.
#pragma once

#include <cstddef>
#include <cstdint>

namespace troupe::base {

/// `hash` of what came before and `value`, in this order (as in Boost's hash_combine).
inline void mix_hash(std::size_t& hash, std::uint64_t value) {
  hash ^= value + 0x9e3779b97f4a7c15ULL + (hash << 6) + (hash >> 2);
}

}  // namespace troupe::base
