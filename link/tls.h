// SPDX-License-Identifier: Apache-2.0
// Tls: what the links of a process show to their peers and whom they believe, read once from
// credentials (OpenSSL). TLS 1.3 alone, both ends with certificates of one cluster. Immutable; any
// thread.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/status.h"
#include "trust/credentials.h"

struct ssl_st;  // OpenSSL's SSL

namespace troupe::link {

/// See the top of the file.
class Tls {
 public:
  /// data_loss or internal: what OpenSSL does not take of the credentials.
  static base::Result<std::shared_ptr<const Tls>> create(const trust::Credentials& credentials);
  ~Tls();
  Tls(const Tls&) = delete;
  Tls& operator=(const Tls&) = delete;

  /// Whose credentials these are.
  const trust::Identity& identity() const;

  // For the carrier.

  /// What a connection has found out about its peer.
  struct Peer {
    trust::Identity identity;
    std::vector<std::string> serials;  ///< of its certificates, hex
    std::int64_t until = 0;            ///< when the first of them ends, Unix seconds
    base::Status refused;              ///< why its certificates are not believed
  };
  /// permission_denied where one of the peer's certificates was revoked.
  base::Status check_revoked(const Peer& peer) const;
  /// A new session over a source and sink of bytes; `peer` outlives it and is written in it.
  /// Ownership passes to the caller.
  ssl_st* make_session(Peer& peer) const;

 private:
  struct Impl;
  explicit Tls(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace troupe::link
