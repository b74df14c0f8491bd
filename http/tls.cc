// SPDX-License-Identifier: Apache-2.0
// OpenSSL on the endpoint's sockets.
#include "http/tls.h"

#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

namespace troupe::http {
namespace {

/// Who speaks HTTP to a port of HTTPS reads this.
constexpr std::string_view kUseTls =
    "HTTP/1.1 400 Bad Request\r\nConnection: close\r\nContent-Type: text/plain\r\n"
    "Content-Length: 32\r\n\r\nthis port speaks HTTPS, not HTTP\n";

template <auto kFree>
struct Free {
  template <typename T>
  void operator()(T* thing) const {
    kFree(thing);
  }
};
using Bio = std::unique_ptr<BIO, Free<BIO_free_all>>;
using Certificate = std::unique_ptr<X509, Free<X509_free>>;
using Key = std::unique_ptr<EVP_PKEY, Free<EVP_PKEY_free>>;

Bio reader(const std::string& text) {
  return Bio(BIO_new_mem_buf(text.data(), static_cast<int>(text.size())));
}

/// Nobody is there whom OpenSSL could ask for a passphrase.
int no_passphrase(char* /*text*/, int /*bytes*/, int /*writing*/, void* encrypted) {
  *static_cast<bool*>(encrypted) = true;
  return -1;
}

SSL* session_of(void* session) {
  return static_cast<SSL*>(session);
}

}  // namespace

struct Tls::Impl {
  std::unique_ptr<SSL_CTX, Free<SSL_CTX_free>> context{SSL_CTX_new(TLS_server_method())};
};

Tls::Tls(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Tls::~Tls() = default;

base::Result<std::shared_ptr<const Tls>> Tls::create(const std::string& pem) {
  auto impl = std::make_unique<Impl>();
  SSL_CTX* context = impl->context.get();
  TROUPE_CHECK(context != nullptr && SSL_CTX_set_min_proto_version(context, TLS1_3_VERSION) == 1,
               "OpenSSL has no TLS 1.3");
  bool encrypted = false;
  const Key key(PEM_read_bio_PrivateKey(reader(pem).get(), nullptr, no_passphrase, &encrypted));
  const Bio certificates = reader(pem);
  bool own = true;
  bool taken = key != nullptr;
  while (taken) {
    const Certificate next(
        PEM_read_bio_X509(certificates.get(), nullptr, no_passphrase, &encrypted));
    if (next == nullptr) break;
    taken = own ? SSL_CTX_use_certificate(context, next.get()) == 1
                : SSL_CTX_add1_chain_cert(context, next.get()) == 1;
    own = false;
  }
  taken = taken && !own && SSL_CTX_use_PrivateKey(context, key.get()) == 1;
  ERR_clear_error();
  if (encrypted) {
    return base::error(base::Errc::data_loss,
                       "[tls] the private key is encrypted; one without a passphrase is needed");
  }
  if (!taken) {
    return base::error(base::Errc::data_loss, "[tls] needs a private key and its certificate, PEM");
  }
  SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_OFF);
  SSL_CTX_set_num_tickets(context, 0);
  SSL_CTX_set_mode(context, SSL_MODE_RELEASE_BUFFERS | SSL_MODE_ENABLE_PARTIAL_WRITE);
  // A peer may send records without a byte for the reader, without end: each is a call of its own.
  SSL_CTX_clear_mode(context, SSL_MODE_AUTO_RETRY);
  return std::shared_ptr<const Tls>(new Tls(std::move(impl)));
}

void Channel::FreeSession::operator()(void* session) const {
  SSL_free(session_of(session));
}

Channel::Channel(int descriptor, std::shared_ptr<const Tls> tls)
    : descriptor_(descriptor), tls_(std::move(tls)) {
  if (tls_ == nullptr) return;
  SSL* session = SSL_new(tls_->impl_->context.get());
  TROUPE_CHECK(session != nullptr && SSL_set_fd(session, descriptor) == 1,
               "no memory for a TLS session");
  SSL_set_accept_state(session);
  session_.reset(session);
}

Channel::Channel(Channel&& other) noexcept
    : descriptor_(std::exchange(other.descriptor_, -1)),
      tls_(std::move(other.tls_)),
      session_(std::move(other.session_)),
      receive_events_(other.receive_events_),
      send_events_(other.send_events_),
      heard_(other.heard_),
      fault_(std::move(other.fault_)) {}

Channel::~Channel() {
  if (descriptor_ >= 0) close(descriptor_);
}

Channel::Moved Channel::moved(int result, std::size_t bytes, short& events) {
  events = 0;
  if (result == 1) return {Progress::some, bytes};
  switch (SSL_get_error(session_of(session_.get()), result)) {
    case SSL_ERROR_WANT_READ:
      events = POLLIN;
      return {Progress::later, 0};
    case SSL_ERROR_WANT_WRITE:
      events = POLLOUT;
      return {Progress::later, 0};
    case SSL_ERROR_SSL: {
      const unsigned long error = ERR_peek_error();
      const char* reason = ERR_reason_error_string(error);
      fault_ = reason == nullptr ? "bytes that are no TLS" : reason;
      if (ERR_GET_REASON(error) == SSL_R_HTTP_REQUEST) {
        (void)!::send(descriptor_, kUseTls.data(), kUseTls.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
      }
      return {Progress::ended, 0};
    }
    default:
      return {Progress::ended, 0};
  }
}

Channel::Moved Channel::receive(std::span<char> place) {
  if (session_ != nullptr) {
    ERR_clear_error();
    std::size_t bytes = 0;
    const int result = SSL_read_ex(session_of(session_.get()), place.data(), place.size(), &bytes);
    return moved(result, bytes, receive_events_);
  }
  const ssize_t count = recv(descriptor_, place.data(), place.size(), MSG_DONTWAIT);
  heard_ |= count > 0;
  if (count > 0) return {Progress::some, static_cast<std::size_t>(count)};
  const bool later = count < 0 && (errno == EAGAIN || errno == EINTR);
  return {later ? Progress::later : Progress::ended, 0};
}

Channel::Moved Channel::send(std::string_view bytes) {
  if (session_ != nullptr) {
    ERR_clear_error();
    std::size_t done = 0;
    const int result = SSL_write_ex(session_of(session_.get()), bytes.data(), bytes.size(), &done);
    return moved(result, done, send_events_);
  }
  const ssize_t count =
      ::send(descriptor_, bytes.data(), bytes.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
  if (count >= 0) return {Progress::some, static_cast<std::size_t>(count)};
  const bool later = errno == EAGAIN || errno == EINTR;
  return {later ? Progress::later : Progress::ended, 0};
}

void Channel::finish() {
  ERR_clear_error();
  if (session_ != nullptr) SSL_shutdown(session_of(session_.get()));
  shutdown(descriptor_, SHUT_WR);
  receive_events_ = 0;
}

bool Channel::heard() const {
  if (session_ == nullptr) return heard_;
  return BIO_number_read(SSL_get_rbio(session_of(session_.get()))) > 0;
}

bool Channel::greeted() const {
  return session_ == nullptr || SSL_is_init_finished(session_of(session_.get())) == 1;
}

}  // namespace troupe::http
