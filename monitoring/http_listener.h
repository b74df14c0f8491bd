// SPDX-License-Identifier: Apache-2.0
// A listening TCP socket with a name for errors. Used by HttpServer's socket thread.
#pragma once

#include <utility>

#include "base/address.h"
#include "base/status.h"

namespace troupe::monitoring {

/// Owns the socket.
class HttpListener {
 public:
  /// Looks the host up, binds and listens, non-blocking.
  static base::Result<HttpListener> open(const base::Address& address);
  HttpListener(HttpListener&& other) noexcept;
  HttpListener& operator=(HttpListener&&) = delete;
  ~HttpListener() { close(); }

  /// -1 when closed.
  int descriptor() const { return descriptor_; }
  /// The address bound, with its real port.
  const base::Address& address() const { return address_; }
  void close();

 private:
  HttpListener(int descriptor, base::Address address)
      : descriptor_(descriptor), address_(std::move(address)) {}
  int descriptor_ = -1;
  base::Address address_;
};

}  // namespace troupe::monitoring
