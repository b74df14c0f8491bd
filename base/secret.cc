// SPDX-License-Identifier: Apache-2.0
// OpenSSL's HMAC and comparison behind base's types.
#include "base/secret.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <sys/random.h>

#include "base/check.h"

namespace troupe::base {

Secret random_secret() {
  Secret secret{};
  // So few bytes come whole or not at all.
  const auto got = ::getrandom(secret.data(), secret.size(), 0);
  TROUPE_CHECK(got == static_cast<ssize_t>(secret.size()), "the system has no random numbers");
  return secret;
}

Sha256Digest hmac_sha256(std::span<const std::uint8_t> key, std::string_view message) {
  Sha256Digest digest{};
  unsigned bytes = 0;
  const auto* made = HMAC(EVP_sha256(), key.data(), static_cast<int>(key.size()),
                          reinterpret_cast<const unsigned char*>(message.data()), message.size(),
                          digest.data(), &bytes);
  TROUPE_CHECK(made != nullptr && bytes == digest.size(), "HMAC-SHA256 failed");
  return digest;
}

bool equal_in_constant_time(const Sha256Digest& a, const Sha256Digest& b) {
  return CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0;
}

}  // namespace troupe::base
