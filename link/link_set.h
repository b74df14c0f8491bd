// SPDX-License-Identifier: Apache-2.0
// LinkSet: makes and owns the links of one process, and the one thread that does their I/O. Dial,
// listen or adopt an inherited socket. Any thread may call; destroy it from none of its handlers.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "base/buffer.h"
#include "base/limits.h"
#include "base/listening.h"
#include "base/resolver.h"
#include "base/secret.h"
#include "base/status.h"
#include "link/link.h"
#include "link/tls.h"

namespace troupe::link {

/// Whom to dial, and as whom.
struct DialOptions {
  std::string address;  ///< HOST:PORT; without TLS on the loopback
  LinkEnd self;
  LinkEnd peer;                        ///< who should be there; for errors
  std::uint32_t data_connections = 0;  ///< 0: all messages on the control connection
  std::uint64_t wait_ms = 0;           ///< go on trying for this long; 0: one attempt
  /// Both ends must prove that they know it; what does not is nobody, and is not spoken to.
  std::optional<base::Secret> secret;
};

/// All links of a process, those that have ended included.
struct LinkSetFigures {
  LinkFigures stats;
  std::uint64_t links = 0;       ///< alive now
  std::uint64_t own_pauses = 0;  ///< of this process, not counted as its peers' silence
  friend bool operator==(const LinkSetFigures&, const LinkSetFigures&) = default;
};

/// Decides about a peer that has said Hello, on the I/O thread: gives the handler of the new link,
/// or an error that the peer receives as its refusal. `link` may be kept; it is up soon.
using Acceptor = std::function<base::Result<std::shared_ptr<LinkHandler>>(
    const schemas::Hello& hello, const std::shared_ptr<Link>& link)>;

/// See the top of the file.
class LinkSet {
 public:
  /// Payloads come from `pool`, which must live longer than all buffers taken from it. With `tls`
  /// all connections but adopted ones speak it, and may leave the loopback. Names are looked up by
  /// `look_up`, within limits.resolve_ms.
  LinkSet(const base::Limits& limits, base::BufferPool& pool,
          std::shared_ptr<const Tls> tls = nullptr, base::Resolver::LookUp look_up = base::look_up);
  /// New connections use these credentials; links stay, but those whose peer is revoked by now, and
  /// a connection that has not greeted yet is judged by them, too.
  /// For a LinkSet that has some already.
  void renew(std::shared_ptr<const Tls> tls);
  /// Cuts all links that this end has dialed, and dials them again, so that their peers see what
  /// renew() has brought. Nothing is lost, as by any cut that heals.
  void dial_anew();
  /// stop(), then ends the thread.
  ~LinkSet();
  LinkSet(const LinkSet&) = delete;
  LinkSet& operator=(const LinkSet&) = delete;

  /// A link to a listener. Returns at once; the handler hears on_up or on_down. Redials when a
  /// connection is cut. A name is looked up for each dialing, and all its addresses are tried in
  /// turn. Errors: an address that is no HOST:PORT, or off the loopback without TLS.
  base::Result<std::shared_ptr<Link>> dial(DialOptions options,
                                           std::shared_ptr<LinkHandler> handler);
  /// Accepts links whose Hello names `self`'s job and generation. With a `secret` the peer must
  /// prove that it knows it, and learns nothing of `self` before; without one it must say something
  /// behind its Hello within limits.handshake_ms. Port 0: a free one of `ports`. A name is looked
  /// up once, which may block for limits.resolve_ms, and means all its addresses that this machine
  /// has. Returns HOST:PORT with the bound port. Errors: address as above; resource_exhausted (port
  /// in use); unavailable with the system's reason.
  base::Result<std::string> listen(const std::string& address, LinkEnd self, Acceptor acceptor,
                                   std::optional<base::Secret> secret = std::nullopt,
                                   const base::PortRange& ports = {});
  /// A link over one connected stream socket (a socketpair's end), which it takes over. One side
  /// must greet (the child), the other waits for it until limits.start_ms. Never redials: a closed
  /// socket is the end.
  enum class Greeting : std::uint8_t { speak, wait };
  base::Result<std::shared_ptr<Link>> adopt(int socket, Greeting greeting, LinkEnd self,
                                            std::shared_ptr<LinkHandler> handler);
  /// Closes listeners and takes all links down with `cancelled`; waits until all handlers have
  /// heard it. Nothing can be made afterwards.
  void stop();
  /// As of the last tick, 100 ms ago at most, 500 ms if nothing had happened by then.
  LinkSetFigures totals() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace troupe::link
