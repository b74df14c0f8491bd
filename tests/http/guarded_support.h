// SPDX-License-Identifier: Apache-2.0
// Test support: a certificate of 127.0.0.1 that signs itself, and a client that believes it.
#pragma once

#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>

#include <catch2/catch.hpp>
#include <memory>
#include <string>

#include "tests/support/http_client.h"

namespace troupe::http::test {

inline std::string text_of(BIO* bio) {
  char* data = nullptr;
  const long size = BIO_get_mem_data(bio, &data);
  std::string text(data, static_cast<std::size_t>(size));
  BIO_free(bio);
  return text;
}

/// A private key and its certificate, PEM.
struct KeyAndCertificate {
  std::string key;
  std::string certificate;
};

inline KeyAndCertificate make_certificate() {
  EVP_PKEY* key = EVP_EC_gen("P-256");
  X509* made = X509_new();
  X509_set_version(made, X509_VERSION_3);
  ASN1_INTEGER_set(X509_get_serialNumber(made), 1);
  X509_gmtime_adj(X509_getm_notBefore(made), -3'600);
  X509_gmtime_adj(X509_getm_notAfter(made), 3'600);
  X509_NAME_add_entry_by_txt(X509_get_subject_name(made), "CN", MBSTRING_ASC,
                             reinterpret_cast<const unsigned char*>("pages"), -1, -1, 0);
  X509_set_issuer_name(made, X509_get_subject_name(made));
  X509_set_pubkey(made, key);
  REQUIRE(X509_sign(made, key, EVP_sha256()) > 0);
  BIO* key_text = BIO_new(BIO_s_mem());
  BIO* certificate_text = BIO_new(BIO_s_mem());
  PEM_write_bio_PrivateKey(key_text, key, nullptr, nullptr, 0, nullptr, nullptr);
  PEM_write_bio_X509(certificate_text, made);
  X509_free(made);
  EVP_PKEY_free(key);
  return {text_of(key_text), text_of(certificate_text)};
}

/// The answer to `request` over TLS; empty: no TLS came about with who has that certificate.
inline std::string ask_tls(const base::Address& address, const std::string& certificate,
                           const std::string& request) {
  SSL_CTX* context = SSL_CTX_new(TLS_client_method());
  BIO* bio = BIO_new_mem_buf(certificate.data(), static_cast<int>(certificate.size()));
  X509* believed = PEM_read_bio_X509(bio, nullptr, nullptr, nullptr);
  X509_STORE_add_cert(SSL_CTX_get_cert_store(context), believed);
  SSL_CTX_set_verify(context, SSL_VERIFY_PEER, nullptr);
  X509_free(believed);
  BIO_free(bio);
  std::string answer;
  {
    const tests::HttpPeer peer(address);
    SSL* session = SSL_new(context);
    SSL_set_fd(session, peer.descriptor());
    if (SSL_connect(session) == 1) {
      SSL_write(session, request.data(), static_cast<int>(request.size()));
      char piece[4096];
      for (int got = 0; (got = SSL_read(session, piece, sizeof piece)) > 0;) {
        answer.append(piece, static_cast<std::size_t>(got));
      }
      // Its end was said, not cut off.
      CHECK(SSL_get_shutdown(session) == SSL_RECEIVED_SHUTDOWN);
    }
    SSL_free(session);
  }
  SSL_CTX_free(context);
  return answer;
}

}  // namespace troupe::http::test
