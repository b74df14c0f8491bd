// SPDX-License-Identifier: Apache-2.0
// The process's HTTP endpoint: /metrics, /healthz and the program's own GET routes. One thread owns
// all sockets and never waits for one of them; it answers /healthz itself. A second thread runs the
// handlers. Peers that send slowly, read slowly or send garbage lose their connection, nothing
// more.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "base/address.h"
#include "base/limits.h"
#include "base/listening.h"
#include "base/status.h"
#include "http/guard.h"
#include "http/router.h"
#include "monitoring/metrics.h"

namespace troupe::http {

/// What an endpoint serves besides "/metrics" and "/healthz", to whom, and where.
struct Options {
  Routes routes;
  Guard guard;            ///< of all pages but /healthz
  base::PortRange ports;  ///< where the address has port 0
};

/// A running endpoint. Any thread.
class Server {
 public:
  /// Listens on `address` (port 0: any free one), or on all addresses of its name, and serves until
  /// destroyed. Uses http_connections_max, http_request_ms and resolve_ms of the limits. Routes are
  /// called on the endpoint's handler thread, one at a time; "/metrics" and "/healthz" are its own.
  /// An address in use is resource_exhausted, any other failure unavailable; both name the address.
  /// `metrics` outlives the result.
  static base::Result<std::unique_ptr<Server>> start(const base::Address& address,
                                                     const base::Limits& limits,
                                                     monitoring::Metrics& metrics,
                                                     Options options = {});
  /// Sends what is being answered (at most for http_request_ms), then closes.
  ~Server();
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  /// Where it listens, with the port that the system chose.
  const base::Address& address() const;
  enum class Scraped : std::uint8_t { yes, late, given_up };
  /// Waits until a /metrics answer that was made after this call has been sent whole; `late` when
  /// `deadline_ms` pass first. `give_up` is asked several times a second.
  Scraped wait_scraped(std::uint64_t deadline_ms, const std::function<bool()>& give_up);

 private:
  class Impl;
  explicit Server(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace troupe::http
