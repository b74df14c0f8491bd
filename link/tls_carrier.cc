// SPDX-License-Identifier: Apache-2.0
// A TLS session between two buffers of bytes and a socket.
#include "link/tls_carrier.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <asio/buffer.hpp>
#include <asio/post.hpp>
#include <asio/write.hpp>
#include <cstring>
#include <string>
#include <string_view>
#include <utility>

#include "base/hash.h"
#include "link/frame.h"

namespace troupe::link {
namespace {

using base::Errc;
using base::Status;

/// Read from the socket at once, at first and at most.
constexpr std::size_t kGreetingBytes = 16'384;
constexpr std::size_t kReadBytes = 262'144;
/// Sealed before they are written to the socket: little, so that the peer opens the first records
/// while the next are sealed.
constexpr std::size_t kSealBytes = 32'768;
/// Waiting to be written. Of what the session itself answers (TLS's KeyUpdate) the peer decides how
/// much that is; whoever reads nothing is not read from any more, and goes as one that is silent.
constexpr std::size_t kUnwrittenBytesMax = 1'048'576;
/// The plain bytes of one record, at most.
constexpr std::size_t kRecordBytes = 16'384;
constexpr int kUnsentBytes = 262'144;

struct FreeSession {
  void operator()(SSL* session) const { SSL_free(session); }
};

/// Bytes from the socket that the session has not read, and bytes of the session for the socket.
struct Wires {
  std::vector<std::byte> in;
  std::size_t in_begin = 0;
  std::size_t in_end = 0;
  std::vector<std::byte> out;
};

Wires& wires_of(BIO* bio) {
  return *static_cast<Wires*>(BIO_get_data(bio));
}

int read_wire(BIO* bio, char* into, std::size_t bytes, std::size_t* done) {
  Wires& wires = wires_of(bio);
  BIO_clear_retry_flags(bio);
  *done = std::min(bytes, wires.in_end - wires.in_begin);
  if (*done == 0) {
    BIO_set_retry_read(bio);
    return 0;
  }
  std::memcpy(into, wires.in.data() + wires.in_begin, *done);
  wires.in_begin += *done;
  return 1;
}

int write_wire(BIO* bio, const char* from, std::size_t bytes, std::size_t* done) {
  Wires& wires = wires_of(bio);
  BIO_clear_retry_flags(bio);
  const auto* begin = reinterpret_cast<const std::byte*>(from);
  wires.out.insert(wires.out.end(), begin, begin + bytes);
  *done = bytes;
  return 1;
}

long control_wire(BIO*, int command, long, void*) {
  return command == BIO_CTRL_FLUSH ? 1 : 0;
}

/// OpenSSL's description of a source and sink; made once, never changed.
const BIO_METHOD* wire_method() {
  static const BIO_METHOD* method = [] {
    BIO_METHOD* made = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "wires");
    TROUPE_CHECK(made != nullptr, "no memory for OpenSSL's tables");
    BIO_meth_set_read_ex(made, read_wire);
    BIO_meth_set_write_ex(made, write_wire);
    BIO_meth_set_ctrl(made, control_wire);
    return made;
  }();
  return method;
}

/// What OpenSSL says of a session that has failed, in words of this program.
Status failure_of(const Status& refused, bool greeted) {
  const unsigned long error = ERR_peek_last_error();
  const int reason = ERR_GET_REASON(error);
  const char* text = ERR_reason_error_string(error);
  ERR_clear_error();
  if (!refused.ok()) return refused.with_context("[tls]");
  if (ERR_GET_LIB(error) == ERR_LIB_SSL && reason > SSL_AD_REASON_OFFSET) {
    return base::error(Errc::permission_denied, "[tls] the peer refused: {}", text);
  }
  if (reason == SSL_R_PEER_DID_NOT_RETURN_A_CERTIFICATE) {
    return base::error(Errc::permission_denied, "[tls] the peer shows no certificate");
  }
  if (!greeted) {
    return base::error(Errc::data_loss, "[tls] no greeting of TLS 1.3 came: {}",
                       text == nullptr ? "unknown bytes" : text);
  }
  return base::error(Errc::data_loss, "[tls] damaged bytes: {}", text == nullptr ? "?" : text);
}

/// A fatal alert of TLS: "protocol_version". What has no TLS can read that it should.
constexpr std::array kUseTls = {std::byte{0x15}, std::byte{0x03}, std::byte{0x03}, std::byte{0},
                                std::byte{2},    std::byte{2},    std::byte{70}};

/// Whether the peer's first bytes may be TLS; else what they are.
Status check_first(std::span<const std::byte> first, TlsEnd end) {
  constexpr std::byte kAlert{0x15};
  constexpr std::byte kGreeting{0x16};
  constexpr std::size_t kMarkBytes = 4;
  if (first[0] == kAlert || first[0] == kGreeting) return {};
  const std::string_view mark(reinterpret_cast<const char*>(first.data()),
                              std::min(first.size(), kMarkBytes));
  std::string what = fmt::format(
      "it begins with 0x{}",
      base::to_hex(std::span(reinterpret_cast<const std::uint8_t*>(mark.data()), mark.size())));
  if (mark == "TRPE") {
    what = "the peer speaks without TLS: it has no --identity";
  } else if (const std::string_view http = name_http(mark); !http.empty()) {
    what = http;
  }
  return base::error(Errc::data_loss, "[tls] no greeting of TLS 1.3 came{}: {}",
                     end == TlsEnd::dialing ? " back" : "", what);
}

class TlsCarrier final : public Carrier, public std::enable_shared_from_this<TlsCarrier> {
 public:
  TlsCarrier(Socket socket, std::shared_ptr<const Tls> tls, TlsEnd end);

  void receive(std::span<std::byte> first, std::span<std::byte> second, Received received) override;
  void send(std::vector<std::span<const std::byte>> pieces, Progress progress, Sent sent) override;
  void bound_unsent() override;
  void finish() override;
  void close() override;
  const Tls::Peer* peer() const override { return greeted_ ? &peer_ : nullptr; }
  bool seals() const override { return true; }

 private:
  /// What receive() or send() was given.
  struct Receiving {
    std::span<std::byte> first;
    std::span<std::byte> second;
    Received received;
  };
  struct Sending {
    std::vector<std::span<const std::byte>> pieces;
    std::size_t piece = 0;  ///< the first with bytes to seal
    Progress progress;
    Sent sent;
  };

  void post_pump();
  void pump();
  void step();
  void greet();
  void open_records();
  void seal_records();
  void seal(std::span<const std::byte> bytes);
  void write_socket();
  void read_socket();
  void deliver();
  void complete_sending();
  bool clogged() const { return wires_.out.size() > kUnwrittenBytesMax; }
  std::string end_of(const asio::error_code& error) const;
  /// Of a call of OpenSSL that gave `result`, no success.
  void note_failure(int result);

  Socket socket_;
  const TlsEnd end_;
  const std::shared_ptr<const Tls> tls_;
  Tls::Peer peer_;
  Wires wires_;
  std::unique_ptr<SSL, FreeSession> session_;
  std::vector<std::byte> flying_;  ///< on their way into the socket
  std::vector<std::byte> record_;  ///< small pieces, until a record is full
  std::optional<Receiving> receiving_;
  std::optional<Sending> sending_;
  Status failed_;       ///< no more will come
  bool heard_ = false;  ///< the peer's first bytes have come
  bool greeted_ = false;
  bool hungry_ = false;  ///< the session wants more bytes of the peer
  bool reading_ = false;
  bool writing_ = false;
  bool finishing_ = false;
  bool posted_ = false;
  bool open_ = true;
};

TlsCarrier::TlsCarrier(Socket socket, std::shared_ptr<const Tls> tls, TlsEnd end)
    : socket_(std::move(socket)),
      end_(end),
      tls_(std::move(tls)),
      session_(tls_->make_session(peer_)) {
  BIO* bio = BIO_new(wire_method());
  TROUPE_CHECK(bio != nullptr, "no memory for a TLS session");
  BIO_set_data(bio, &wires_);
  BIO_set_init(bio, 1);
  SSL_set_bio(session_.get(), bio, bio);  // the session's now
  wires_.in.resize(kGreetingBytes);
  if (end == TlsEnd::dialing) {
    SSL_set_connect_state(session_.get());
  } else {
    SSL_set_accept_state(session_.get());
  }
}

void TlsCarrier::receive(std::span<std::byte> first, std::span<std::byte> second,
                         Received received) {
  receiving_ = Receiving{first, second, std::move(received)};
  post_pump();
}

void TlsCarrier::send(std::vector<std::span<const std::byte>> pieces, Progress progress,
                      Sent sent) {
  sending_ = Sending{std::move(pieces), 0, std::move(progress), std::move(sent)};
  post_pump();
}

void TlsCarrier::bound_unsent() {
  ::setsockopt(socket_.native_handle(), IPPROTO_TCP, TCP_NOTSENT_LOWAT, &kUnsentBytes,
               sizeof kUnsentBytes);
}

void TlsCarrier::finish() {
  finishing_ = true;
  post_pump();
}

void TlsCarrier::close() {
  open_ = false;
  asio::error_code ignored;
  socket_.close(ignored);
  // They may hold whoever holds this carrier.
  const auto self = shared_from_this();
  const auto receiving = std::exchange(receiving_, std::nullopt);
  const auto sending = std::exchange(sending_, std::nullopt);
}

/// Later, so that nothing is called back inside of a call.
void TlsCarrier::post_pump() {
  if (std::exchange(posted_, true)) return;
  asio::post(socket_.get_executor(), [self = shared_from_this()] {
    self->posted_ = false;
    self->pump();
  });
}

void TlsCarrier::pump() {
  if (open_) step();
}

/// All that can be done now; what then has to wait is the socket's turn.
void TlsCarrier::step() {
  ERR_clear_error();
  if (!greeted_ && failed_.ok()) greet();
  if (greeted_) {
    seal_records();
    if (!clogged()) open_records();
    if (!open_) return;
  }
  write_socket();
  if (!open_) return;
  complete_sending();
  if (!open_) return;
  deliver();
  if (open_ && hungry_ && failed_.ok() && !clogged()) read_socket();
}

void TlsCarrier::greet() {
  if (!heard_ && wires_.in_end > 0) {
    heard_ = true;
    failed_ = check_first(std::span(wires_.in).first(wires_.in_end), end_);
    if (!failed_.ok()) {
      // OpenSSL itself has no word for those who do not speak its language.
      if (end_ == TlsEnd::accepting) wires_.out.assign(kUseTls.begin(), kUseTls.end());
      return;
    }
  }
  const int result = SSL_do_handshake(session_.get());
  hungry_ = result != 1;
  if (result != 1) return note_failure(result);
  greeted_ = true;
}

void TlsCarrier::note_failure(int result) {
  const int kind = SSL_get_error(session_.get(), result);
  if (kind == SSL_ERROR_WANT_READ) {
    hungry_ = true;
  } else if (kind == SSL_ERROR_ZERO_RETURN) {
    failed_ = Status(Errc::unavailable, "connection closed");
  } else {
    failed_ = failure_of(peer_.refused, greeted_);
  }
}

/// Reads what has come into the places of receive(). Records without bytes for the reader are
/// passed over, at most those that one read of the socket has brought.
void TlsCarrier::open_records() {
  if (!receiving_ || !failed_.ok()) return;
  hungry_ = false;
  std::size_t total = 0;
  for (std::span<std::byte> place : {receiving_->first, receiving_->second}) {
    while (!place.empty()) {
      std::size_t bytes = 0;
      const int result = SSL_read_ex(session_.get(), place.data(), place.size(), &bytes);
      if (result != 1) {
        note_failure(result);
        break;
      }
      total += bytes;
      place = place.subspan(bytes);
    }
    if (!place.empty()) break;
  }
  if (total == 0) return;
  const Received received = std::move(receiving_->received);
  receiving_.reset();
  received({}, total);
}

void TlsCarrier::deliver() {
  if (failed_.ok() || !receiving_) return;
  const Received received = std::move(receiving_->received);
  receiving_.reset();
  received(failed_, 0);
}

/// Small pieces share a record, large ones fill their own.
void TlsCarrier::seal_records() {
  if (!sending_) return;
  Sending& sending = *sending_;
  while (sending.piece < sending.pieces.size() && wires_.out.size() < kSealBytes) {
    std::span<const std::byte>& piece = sending.pieces[sending.piece];
    if (record_.empty() && piece.size() >= kRecordBytes) {
      const std::size_t whole = piece.size() - piece.size() % kRecordBytes;
      const std::size_t bytes = std::min(whole, kSealBytes);
      seal(piece.first(bytes));
      piece = piece.subspan(bytes);
    } else {
      const std::size_t bytes = std::min(piece.size(), kRecordBytes - record_.size());
      record_.insert(record_.end(), piece.begin(), piece.begin() + static_cast<long>(bytes));
      piece = piece.subspan(bytes);
      if (record_.size() == kRecordBytes) {
        seal(record_);
        record_.clear();
      }
    }
    if (piece.empty()) ++sending.piece;
  }
  if (sending.piece == sending.pieces.size() && !record_.empty()) {
    seal(record_);
    record_.clear();
  }
}

void TlsCarrier::seal(std::span<const std::byte> bytes) {
  std::size_t done = 0;
  const int result = SSL_write_ex(session_.get(), bytes.data(), bytes.size(), &done);
  // The wires take everything, so there is nothing to wait for.
  if (result != 1 && failed_.ok()) failed_ = failure_of(peer_.refused, true);
}

void TlsCarrier::write_socket() {
  if (writing_) return;
  if (wires_.out.empty()) {
    if (!finishing_ || sending_) return;
    finishing_ = false;
    if (greeted_) SSL_shutdown(session_.get());  // seals its last record
    if (wires_.out.empty()) {
      asio::error_code ignored;
      socket_.shutdown(Socket::shutdown_send, ignored);
      return;
    }
  }
  std::swap(wires_.out, flying_);
  writing_ = true;
  asio::async_write(socket_, asio::buffer(flying_),
                    [self = shared_from_this()](const asio::error_code& error, std::size_t) {
                      self->writing_ = false;
                      self->flying_.clear();
                      if (!self->open_) return;
                      if (self->sending_ && !self->sending_->progress()) return;
                      // A broken socket is told by its reading side, after what has come.
                      if (error) self->wires_.out.clear();
                      if (!error || !self->reading_) self->pump();
                    });
}

void TlsCarrier::complete_sending() {
  if (!sending_ || sending_->piece < sending_->pieces.size()) return;
  if (writing_ || !wires_.out.empty() || !greeted_) return;
  const Sent sent = std::move(sending_->sent);
  sending_.reset();
  sent({});
}

/// A port without TLS closes on whoever greets by it, and can say nothing.
std::string TlsCarrier::end_of(const asio::error_code& error) const {
  if (error != asio::error::eof) return error.message();
  return greeted_ || end_ == TlsEnd::accepting
             ? "connection closed"
             : "connection closed on a greeting of TLS; perhaps that port has no --identity";
}

void TlsCarrier::read_socket() {
  if (reading_ || wires_.in_begin != wires_.in_end) return;
  reading_ = true;
  // It has been read to its end. Who sends much gets more room, once it is known who that is.
  const bool full = wires_.in_end == wires_.in.size();
  if (greeted_ && full && wires_.in.size() < kReadBytes) wires_.in.resize(2 * wires_.in.size());
  socket_.async_read_some(
      asio::buffer(wires_.in),
      [self = shared_from_this()](const asio::error_code& error, std::size_t bytes) {
        self->reading_ = false;
        if (!self->open_) return;
        self->wires_.in_begin = 0;
        self->wires_.in_end = bytes;
        if (error && self->failed_.ok()) {
          self->failed_ = Status(Errc::unavailable, self->end_of(error));
        }
        self->pump();
      });
}

}  // namespace

std::shared_ptr<Carrier> make_tls_carrier(Socket socket, std::shared_ptr<const Tls> tls,
                                          TlsEnd end) {
  return std::make_shared<TlsCarrier>(std::move(socket), std::move(tls), end);
}

}  // namespace troupe::link
