// SPDX-License-Identifier: Apache-2.0
// The three libraries' hashes behind base's types.
#include "base/hash.h"

#include <isa-l/crc.h>
#include <openssl/evp.h>
#include <xxhash.h>

#include <algorithm>
#include <limits>

#include "base/check.h"

namespace troupe::base {

std::uint32_t crc32c(std::span<const std::byte> bytes, std::uint32_t seed) {
  // ISA-L takes the complemented register and an int length.
  std::uint32_t crc = ~seed;
  while (!bytes.empty()) {
    const auto n = std::min<std::size_t>(bytes.size(), std::numeric_limits<int>::max());
    auto* data = reinterpret_cast<unsigned char*>(const_cast<std::byte*>(bytes.data()));
    crc = crc32_iscsi(data, static_cast<int>(n), crc);
    bytes = bytes.subspan(n);
  }
  return ~crc;
}

std::uint64_t hash64(std::string_view text, std::uint64_t seed) {
  return XXH3_128bits_withSeed(text.data(), text.size(), seed).low64;
}

struct Sha256::State {
  State() : context(EVP_MD_CTX_new()) {
    TROUPE_CHECK(context != nullptr && EVP_DigestInit_ex(context, EVP_sha256(), nullptr) == 1,
                 "OpenSSL has no SHA-256");
  }
  ~State() { EVP_MD_CTX_free(context); }
  State(const State&) = delete;
  State& operator=(const State&) = delete;
  EVP_MD_CTX* context;
};

Sha256::Sha256() : state_(std::make_unique<State>()) {}
Sha256::~Sha256() = default;
Sha256::Sha256(Sha256&&) noexcept = default;
Sha256& Sha256::operator=(Sha256&&) noexcept = default;

void Sha256::update(std::span<const std::byte> bytes) {
  TROUPE_CHECK(EVP_DigestUpdate(state_->context, bytes.data(), bytes.size()) == 1,
               "SHA-256 failed");
}

void Sha256::update(std::string_view text) {
  update(std::as_bytes(std::span(text)));
}

void Sha256::update_u64(std::uint64_t number) {
  std::array<std::byte, 8> bytes;
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    bytes[i] = static_cast<std::byte>(number >> (8 * i));
  }
  update(bytes);
}

Sha256Digest Sha256::finish() {
  Sha256Digest digest{};
  TROUPE_CHECK(EVP_DigestFinal_ex(state_->context, digest.data(), nullptr) == 1, "SHA-256 failed");
  return digest;
}

Sha256Digest sha256(std::string_view text) {
  Sha256 hash;
  hash.update(text);
  return hash.finish();
}

std::string to_hex(std::span<const std::uint8_t> bytes) {
  constexpr char digits[] = "0123456789abcdef";
  std::string text;
  text.reserve(bytes.size() * 2);
  for (std::uint8_t byte : bytes) {
    text += digits[byte >> 4];
    text += digits[byte & 15];
  }
  return text;
}

}  // namespace troupe::base
