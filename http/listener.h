// SPDX-License-Identifier: Apache-2.0
// A listening TCP socket with a name for errors. Used by Server's socket thread.
#pragma once

#include <utility>

#include "base/address.h"
#include "base/status.h"

namespace troupe::http {

/// Owns the socket.
class Listener {
 public:
  /// Looks the host up, binds and listens, non-blocking.
  static base::Result<Listener> open(const base::Address& address);
  Listener(Listener&& other) noexcept;
  Listener& operator=(Listener&&) = delete;
  ~Listener() { close(); }

  /// -1 when closed.
  int descriptor() const { return descriptor_; }
  /// The address bound, with its real port.
  const base::Address& address() const { return address_; }
  void close();

 private:
  Listener(int descriptor, base::Address address)
      : descriptor_(descriptor), address_(std::move(address)) {}
  int descriptor_ = -1;
  base::Address address_;
};

}  // namespace troupe::http
