// SPDX-License-Identifier: Apache-2.0
// Tls: what an endpoint shows to whoever reads it, and Channel: the bytes of one peer, plain or
// under TLS 1.3 (OpenSSL), on a socket that never blocks. A Tls is immutable, any thread; a Channel
// belongs to one.
#pragma once

#include <poll.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "base/status.h"

namespace troupe::http {

/// See the top of the file. Readers show no certificate.
class Tls {
 public:
  /// From a private key, its certificate and those above it, in PEM. data_loss: what is missing or
  /// does not fit.
  static base::Result<std::shared_ptr<const Tls>> create(const std::string& pem);
  ~Tls();
  Tls(const Tls&) = delete;
  Tls& operator=(const Tls&) = delete;

 private:
  friend class Channel;
  struct Impl;
  explicit Tls(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

/// See the top of the file. Owns its socket.
class Channel {
 public:
  enum class Progress : std::uint8_t { some, later, ended };
  /// How far a call has come; `bytes` of `some`.
  struct Moved {
    Progress progress = Progress::later;
    std::size_t bytes = 0;
  };

  /// `descriptor` is a connected socket. Null `tls`: plain bytes.
  Channel(int descriptor, std::shared_ptr<const Tls> tls);
  Channel(Channel&& other) noexcept;
  Channel& operator=(Channel&&) = delete;
  ~Channel();

  int descriptor() const { return descriptor_; }
  /// `later`: nothing now; call again when receive_events() or send_events() come. `ended`: the
  /// peer has gone, or said what is not TLS, which fault() names.
  Moved receive(std::span<char> place);
  Moved send(std::string_view bytes);
  /// Ends the sending direction behind what was sent.
  void finish();
  /// What to poll for before the next receive() or send(): what the last one of its kind waits for,
  /// if for anything.
  short receive_events() const { return receive_events_ == 0 ? short{POLLIN} : receive_events_; }
  short send_events() const { return send_events_ == 0 ? short{POLLOUT} : send_events_; }
  /// The peer has sent something, and receive() has seen it.
  bool heard() const;
  /// False while the peer has not shaken hands: it can be told nothing.
  bool greeted() const;
  /// Why TLS failed; empty: it has not.
  const std::string& fault() const { return fault_; }

 private:
  struct FreeSession {
    void operator()(void* session) const;
  };
  Moved moved(int result, std::size_t bytes, short& events);

  int descriptor_;
  std::shared_ptr<const Tls> tls_;
  std::unique_ptr<void, FreeSession> session_;
  short receive_events_ = 0;  ///< 0: the last receive() waits for nothing
  short send_events_ = 0;
  bool heard_ = false;  ///< without TLS
  std::string fault_;
};

}  // namespace troupe::http
