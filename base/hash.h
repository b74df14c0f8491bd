// SPDX-License-Identifier: Apache-2.0
// Checksums and hashes over host bytes: CRC32C (ISA-L), XXH3-128 (xxHash), SHA-256 (OpenSSL).
// Pure functions, any thread; a Sha256 object belongs to one thread at a time.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace troupe::base {

/// CRC-32C (Castagnoli), the standard form: crc32c("123456789") = 0xe3069283.
/// `seed` continues from an earlier result, so crc32c(b, crc32c(a)) = crc32c(a + b).
std::uint32_t crc32c(std::span<const std::byte> bytes, std::uint32_t seed = 0);

/// First 64 bits of XXH3-128 with `seed`; the source of every random key.
std::uint64_t hash64(std::string_view text, std::uint64_t seed = 0);

/// 32 bytes of SHA-256.
using Sha256Digest = std::array<std::uint8_t, 32>;

/// Incremental SHA-256.
class Sha256 {
 public:
  Sha256();
  ~Sha256();
  Sha256(Sha256&&) noexcept;
  Sha256& operator=(Sha256&&) noexcept;

  void update(std::span<const std::byte> bytes);
  void update(std::string_view text);
  /// Adds a number as 8 little-endian bytes.
  void update_u64(std::uint64_t number);
  /// Ends the computation; the object must not be used afterwards.
  Sha256Digest finish();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// SHA-256 of a text in one call.
Sha256Digest sha256(std::string_view text);

/// Lower-case hexadecimal, two digits per byte.
std::string to_hex(std::span<const std::uint8_t> bytes);

}  // namespace troupe::base
