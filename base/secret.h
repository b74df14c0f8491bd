// SPDX-License-Identifier: Apache-2.0
// Secrets that processes share, and proofs of knowing one without showing it: random numbers of the
// system, HMAC-SHA256 and a comparison that takes the same time wherever bytes differ (OpenSSL).
// Any thread. Secrets are not written into logs, command lines or environments.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string_view>

#include "base/hash.h"

namespace troupe::base {

/// 128 random bits: a secret, or a nonce that is used once.
using Secret = std::array<std::uint8_t, 16>;

/// From the system's generator, for cryptography; CHECKs that there is one.
Secret random_secret();

/// HMAC-SHA256 (RFC 2104) of `message` under a key of any length.
Sha256Digest hmac_sha256(std::span<const std::uint8_t> key, std::string_view message);

/// True when both are equal; takes as long where the first byte differs as where none does.
bool equal_in_constant_time(const Sha256Digest& a, const Sha256Digest& b);

}  // namespace troupe::base
