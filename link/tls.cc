// SPDX-License-Identifier: Apache-2.0
// OpenSSL's context, and the rule by which a peer is believed.
#include "link/tls.h"

#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>

#include <algorithm>
#include <ctime>
#include <limits>
#include <set>
#include <span>
#include <utility>
#include <vector>

#include "base/hash.h"
#include "trust/pem.h"

namespace troupe::link {
namespace {

using base::Errc;
using base::Result;
using base::Status;

/// Bytes of the certificates that a peer may show.
constexpr long kChainBytesMax = 16'384;
constexpr int kDepthMax = 3;

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
using DenyList = std::unique_ptr<X509_CRL, Free<X509_CRL_free>>;
using ContextPtr = std::unique_ptr<SSL_CTX, Free<SSL_CTX_free>>;

Bio reader(const std::string& text) {
  return Bio(BIO_new_mem_buf(text.data(), static_cast<int>(text.size())));
}

std::vector<Certificate> read_certificates(const std::string& text) {
  const Bio bio = reader(text);
  std::vector<Certificate> found;
  while (X509* next = PEM_read_bio_X509(bio.get(), nullptr, trust::no_passphrase, nullptr)) {
    found.emplace_back(next);
  }
  ERR_clear_error();
  return found;
}

std::string hex_of(const ASN1_INTEGER* serial) {
  const auto* bytes = ASN1_STRING_get0_data(serial);
  return base::to_hex(std::span(bytes, static_cast<std::size_t>(ASN1_STRING_length(serial))));
}

/// Unix seconds; what cannot be read has ended.
std::int64_t end_of(const X509* certificate) {
  std::tm end{};
  if (ASN1_TIME_to_tm(X509_get0_notAfter(certificate), &end) == 1) return ::timegm(&end);
  ERR_clear_error();
  return 0;
}

Status check_serials(const std::set<std::string>& denied, const std::vector<std::string>& serials) {
  for (const std::string& each : serials) {
    if (denied.count(each) == 0) continue;
    return base::error(Errc::permission_denied, "its certificate is not believed: it was revoked");
  }
  return {};
}

Status refused(std::string_view what) {
  const char* reason = ERR_reason_error_string(ERR_peek_last_error());
  ERR_clear_error();
  return base::error(Errc::data_loss, "[tls] {}: {}", what,
                     reason == nullptr ? "it cannot be read" : reason);
}

}  // namespace

struct Tls::Impl {
  /// OpenSSL asks this in a handshake, on the thread that drives it.
  static int verify(X509_STORE_CTX* store, void* self);
  Status check(X509_STORE_CTX* store, Peer& peer) const;
  Status read_denied(const std::string& pem);

  ContextPtr context;
  std::set<std::string> denied;  ///< serial numbers, hex
  trust::Identity identity;
};

int Tls::Impl::verify(X509_STORE_CTX* store, void* self) {
  const auto* session =
      static_cast<SSL*>(X509_STORE_CTX_get_ex_data(store, SSL_get_ex_data_X509_STORE_CTX_idx()));
  auto& peer = *static_cast<Peer*>(SSL_get_app_data(session));
  peer.refused = static_cast<const Impl*>(self)->check(store, peer);
  if (peer.refused.ok()) return 1;
  if (X509_STORE_CTX_get_error(store) == X509_V_OK) {
    X509_STORE_CTX_set_error(store, X509_V_ERR_APPLICATION_VERIFICATION);
  }
  return 0;
}

/// Signatures and times first, then who may sign whom, then what is revoked.
Status Tls::Impl::check(X509_STORE_CTX* store, Peer& peer) const {
  if (X509_verify_cert(store) != 1) {
    const int error = X509_STORE_CTX_get_error(store);
    ERR_clear_error();
    return base::error(Errc::permission_denied, "its certificate is not believed: {}",
                       X509_verify_cert_error_string(error));
  }
  STACK_OF(X509)* verified = X509_STORE_CTX_get0_chain(store);
  std::vector<X509*> chain;
  peer.serials.clear();
  peer.until = std::numeric_limits<std::int64_t>::max();
  for (int i = 0; i < sk_X509_num(verified); ++i) {
    chain.push_back(sk_X509_value(verified, i));
    peer.serials.push_back(hex_of(X509_get0_serialNumber(chain.back())));
    peer.until = std::min(peer.until, end_of(chain.back()));
  }
  const auto leaf = trust::identity_of_chain(chain);
  if (!leaf.ok()) return leaf.status().with_context("its certificate is not believed");
  peer.identity = *leaf;
  const Status status = check_serials(denied, peer.serials);
  if (!status.ok()) X509_STORE_CTX_set_error(store, X509_V_ERR_CERT_REVOKED);
  return status;
}

/// Of a list that the authority has signed.
Status Tls::Impl::read_denied(const std::string& pem) {
  const DenyList list(
      PEM_read_bio_X509_CRL(reader(pem).get(), nullptr, trust::no_passphrase, nullptr));
  if (list == nullptr) return refused("the list of what is revoked");
  STACK_OF(X509_REVOKED)* entries = X509_CRL_get_REVOKED(list.get());
  for (int i = 0; i < sk_X509_REVOKED_num(entries); ++i) {
    denied.insert(hex_of(X509_REVOKED_get0_serialNumber(sk_X509_REVOKED_value(entries, i))));
  }
  return {};
}

Tls::Tls(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Tls::~Tls() = default;

const trust::Identity& Tls::identity() const {
  return impl_->identity;
}

Result<std::shared_ptr<const Tls>> Tls::create(const trust::Credentials& credentials) {
  auto impl = std::make_unique<Impl>();
  impl->identity = credentials.info.identity;
  impl->context.reset(SSL_CTX_new(TLS_method()));
  SSL_CTX* context = impl->context.get();
  if (context == nullptr || SSL_CTX_set_min_proto_version(context, TLS1_3_VERSION) != 1 ||
      SSL_CTX_set_ciphersuites(context,
                               "TLS_AES_128_GCM_SHA256:TLS_AES_256_GCM_SHA384:"
                               "TLS_CHACHA20_POLY1305_SHA256") != 1) {
    return refused("TLS 1.3");
  }
  const auto own = read_certificates(credentials.own.certificate);
  const auto above = read_certificates(credentials.above);
  const auto authority = read_certificates(credentials.authority);
  const Key key(PEM_read_bio_PrivateKey(reader(credentials.own.key).get(), nullptr,
                                        trust::no_passphrase, nullptr));
  if (own.empty() || authority.empty() || key == nullptr) return refused("the credentials");
  bool taken = SSL_CTX_use_certificate(context, own.front().get()) == 1 &&
               SSL_CTX_use_PrivateKey(context, key.get()) == 1 &&
               X509_STORE_add_cert(SSL_CTX_get_cert_store(context), authority.front().get()) == 1;
  for (const Certificate& each : above) {
    taken = taken && SSL_CTX_add1_chain_cert(context, each.get()) == 1;
  }
  if (!taken) return refused("the credentials");
  if (!credentials.deny_list.empty()) {
    TROUPE_TRY(trust::check_deny_list(credentials.deny_list, credentials.authority).status());
    TROUPE_TRY(impl->read_denied(credentials.deny_list));
  }
  // Sessions are short or long-lived, never resumed: each handshake looks at certificates.
  SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_OFF);
  SSL_CTX_set_num_tickets(context, 0);
  SSL_CTX_set_options(context, SSL_OP_NO_TICKET);
  SSL_CTX_set_mode(context, SSL_MODE_RELEASE_BUFFERS);
  SSL_CTX_set_max_cert_list(context, kChainBytesMax);
  SSL_CTX_set_verify_depth(context, kDepthMax);
  SSL_CTX_set_verify(context, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, nullptr);
  SSL_CTX_set_cert_verify_callback(context, Impl::verify, impl.get());
  return std::shared_ptr<const Tls>(new Tls(std::move(impl)));
}

Status Tls::check_revoked(const Peer& peer) const {
  return check_serials(impl_->denied, peer.serials);
}

SSL* Tls::make_session(Peer& peer) const {
  SSL* session = SSL_new(impl_->context.get());
  TROUPE_CHECK(session != nullptr, "no memory for a TLS session");
  SSL_set_app_data(session, &peer);
  return session;
}

}  // namespace troupe::link
