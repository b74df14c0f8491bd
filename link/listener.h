// SPDX-License-Identifier: Apache-2.0
// Listener: accepts connections and reads their Hello, and the proof of the job's secret where
// there is one, and nothing else, before its owner decides. Strangers cost little: a bounded number
// of them, a 4 KiB header, a deadline, a bounded number of log lines; and a host that sends many
// takes the places of its own. The I/O thread only, but for open().
// Private to this folder.
#pragma once

#include <asio/ip/tcp.hpp>
#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/address.h"
#include "base/log.h"
#include "link/link_core.h"

namespace troupe::link {

/// A connection that has said Hello, and proved the job's secret where there is one.
struct Greeted {
  std::shared_ptr<Connection> connection;
  std::string address;  ///< of the peer, HOST:PORT
  schemas::Hello hello;
  std::uint64_t acknowledged = 0;  ///< by the Hello's frame
  schemas::HelloReply reply;       ///< what it is to be answered
};

/// See the top of the file.
class Listener : public std::enable_shared_from_this<Listener> {
 public:
  /// Decides about a greeted connection: takes it over, or says why not, which the peer is told.
  using Admit = std::function<base::Status(const Greeted& greeted)>;
  /// Without a `secret` whoever says Hello is believed.
  Listener(std::shared_ptr<LinkContext> context, LinkEnd self, std::optional<base::Secret> secret,
           Admit admit);

  /// Binds and listens; returns the address with its real port. Before start(), any thread.
  base::Result<base::Address> open(const base::Address& address);
  void start() { accept(); }
  void tick(std::int64_t now_ms);
  void close();

 private:
  class Pending;

  void accept();
  void add(Socket socket, const base::Address& peer);
  void make_room();
  void remove(const Pending* pending);
  /// Says in one line which peer was turned away, and why.
  void note(const std::string& peer, std::string_view why);

  std::shared_ptr<LinkContext> context_;
  const LinkEnd self_;
  const std::optional<base::Secret> secret_;
  Admit admit_;
  asio::ip::tcp::acceptor acceptor_;
  bool paused_ = false;                          ///< accepting failed; tick() tries again
  std::list<std::shared_ptr<Pending>> pending_;  ///< oldest first
  base::LogBudget log_;                          ///< for strangers and failing accepts
};

}  // namespace troupe::link
