// SPDX-License-Identifier: Apache-2.0
// Listening TCP sockets, one for each address of a host, on one port. Used by Server's socket
// thread.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "base/address.h"
#include "base/listening.h"
#include "base/status.h"

namespace troupe::http {

/// Owns the sockets.
class Listener {
 public:
  /// Looks the host up, for `resolve_ms` at most, binds and listens, non-blocking; where the
  /// address has no port, on one of `ports`.
  static base::Result<Listener> open(const base::Address& address, const base::PortRange& ports,
                                     std::uint64_t resolve_ms);
  Listener(Listener&& other) noexcept;
  Listener& operator=(Listener&&) = delete;
  ~Listener() { close(); }

  /// None when closed.
  const std::vector<int>& descriptors() const { return descriptors_; }
  /// The address bound, with its real port.
  const base::Address& address() const { return address_; }
  void close();

 private:
  explicit Listener(base::Address address) : address_(std::move(address)) {}
  base::Result<std::uint16_t> add(const base::Address& number);

  std::vector<int> descriptors_;
  base::Address address_;
};

}  // namespace troupe::http
