// SPDX-License-Identifier: Apache-2.0
// Guard: who may read an endpoint's pages, and whether they travel under TLS; read once from files.
// Immutable; any thread.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string_view>

#include "base/hash.h"
#include "base/status.h"
#include "http/tls.h"

namespace troupe::http {

/// The files of a Guard; empty: none.
struct GuardFiles {
  std::filesystem::path tls;    ///< PEM: a private key, its certificate, those above it
  std::filesystem::path token;  ///< one line
};

/// See the top of the file. By default everybody may, without TLS.
struct Guard {
  std::shared_ptr<const Tls> tls;           ///< null: bytes travel as they are
  std::optional<base::Sha256Digest> token;  ///< of the token's text

  /// Errors name the file: permission_denied (others than its owner may read it), data_loss (no
  /// key, no certificate, no token), those of reading.
  static base::Result<Guard> open(const GuardFiles& files);
  /// Whether a request with this head may have what it asks for: "Authorization: Bearer TOKEN".
  /// Takes as long where the first byte of the token is wrong as where the last is.
  bool admits(std::string_view head) const;
};

}  // namespace troupe::http
