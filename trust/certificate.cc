// SPDX-License-Identifier: Apache-2.0
// X.509 by OpenSSL.
#include "trust/certificate.h"

#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>

#include <memory>

#include "base/secret.h"
#include "trust/pem.h"
#include "trust/validity.h"

namespace troupe::trust {
namespace {

using base::Errc;
using base::Result;
using base::Status;

template <auto kFree>
struct Free {
  template <typename T>
  void operator()(T* thing) const {
    kFree(thing);
  }
};
void free_names(GENERAL_NAMES* names) {
  sk_GENERAL_NAME_pop_free(names, GENERAL_NAME_free);
}
void free_text(char* text) {
  OPENSSL_free(text);
}
using Bio = std::unique_ptr<BIO, Free<BIO_free_all>>;
using Key = std::unique_ptr<EVP_PKEY, Free<EVP_PKEY_free>>;
using Certificate = std::unique_ptr<X509, Free<X509_free>>;
using DenyList = std::unique_ptr<X509_CRL, Free<X509_CRL_free>>;
using Revoked = std::unique_ptr<X509_REVOKED, Free<X509_REVOKED_free>>;
using Extension = std::unique_ptr<X509_EXTENSION, Free<X509_EXTENSION_free>>;
using Time = std::unique_ptr<ASN1_TIME, Free<ASN1_TIME_free>>;
using Integer = std::unique_ptr<ASN1_INTEGER, Free<ASN1_INTEGER_free>>;
using Number = std::unique_ptr<BIGNUM, Free<BN_free>>;
using Names = std::unique_ptr<GENERAL_NAMES, Free<free_names>>;

/// A call of the library that fails for no reason of ours, such as want of memory.
Status library_error(std::string_view what) {
  const char* reason = ERR_reason_error_string(ERR_peek_last_error());
  ERR_clear_error();
  return base::error(Errc::internal, "[certificate] {}: {}", what,
                     reason == nullptr ? "unknown reason" : reason);
}

Status unreadable(std::string_view what) {
  ERR_clear_error();
  return base::error(Errc::data_loss, "[certificate] no {} in PEM form", what);
}

Bio reader(std::string_view text) {
  return Bio(BIO_new_mem_buf(text.data(), static_cast<int>(text.size())));
}

std::string text_of(BIO* bio) {
  char* data = nullptr;
  const long bytes = BIO_get_mem_data(bio, &data);
  return {data, static_cast<std::size_t>(bytes)};
}

Result<std::string> key_text(EVP_PKEY* key) {
  const Bio bio(BIO_new(BIO_s_mem()));
  if (PEM_write_bio_PKCS8PrivateKey(bio.get(), key, nullptr, nullptr, 0, nullptr, nullptr) != 1) {
    return library_error("writing a key");
  }
  return text_of(bio.get());
}

Result<std::string> certificate_text(X509* certificate) {
  const Bio bio(BIO_new(BIO_s_mem()));
  if (PEM_write_bio_X509(bio.get(), certificate) != 1) {
    return library_error("writing a certificate");
  }
  return text_of(bio.get());
}

/// A signed one: what its holder shows and proves.
struct Signer {
  Key key;
  Certificate certificate;
};

Result<Signer> read_signer(const KeyAndCertificate& pem) {
  Signer signer;
  bool encrypted = false;
  signer.key.reset(
      PEM_read_bio_PrivateKey(reader(pem.key).get(), nullptr, no_passphrase, &encrypted));
  if (encrypted) {
    ERR_clear_error();
    return base::error(Errc::data_loss, "[certificate] the private key is encrypted");
  }
  if (signer.key == nullptr) return unreadable("private key");
  signer.certificate.reset(
      PEM_read_bio_X509(reader(pem.certificate).get(), nullptr, no_passphrase, nullptr));
  if (signer.certificate == nullptr) return unreadable("certificate");
  if (X509_check_private_key(signer.certificate.get(), signer.key.get()) == 1) return signer;
  ERR_clear_error();
  return base::error(Errc::invalid_argument, "[certificate] the key is another certificate's");
}

/// The identity is the one URI among the alternative names.
Result<Identity> identity_of(X509* certificate) {
  const Names names(static_cast<GENERAL_NAMES*>(
      X509_get_ext_d2i(certificate, NID_subject_alt_name, nullptr, nullptr)));
  const int count = names == nullptr ? 0 : sk_GENERAL_NAME_num(names.get());
  for (int i = 0; i < count; ++i) {
    const GENERAL_NAME* name = sk_GENERAL_NAME_value(names.get(), i);
    if (name->type != GEN_URI) continue;
    const ASN1_IA5STRING* uri = name->d.uniformResourceIdentifier;
    const std::string_view text(reinterpret_cast<const char*>(ASN1_STRING_get0_data(uri)),
                                static_cast<std::size_t>(ASN1_STRING_length(uri)));
    return parse_identity(text);
  }
  return base::error(Errc::data_loss, "[certificate] it names no identity of a cluster");
}

std::string serial_text(const ASN1_INTEGER* serial) {
  const Number number(ASN1_INTEGER_to_BN(serial, nullptr));
  const std::unique_ptr<char, Free<free_text>> hex(BN_bn2hex(number.get()));
  std::string text(hex.get());
  for (char& c : text) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return text;
}

Integer serial_of(const std::string& hex) {
  BIGNUM* number = nullptr;
  const int taken = BN_hex2bn(&number, hex.c_str());
  const Number owned(number);
  TROUPE_CHECK(taken > 0 && hex.size() == static_cast<std::size_t>(taken),
               "a serial number in hex");
  return Integer(BN_to_ASN1_INTEGER(number, nullptr));
}

Result<std::int64_t> unix_seconds(const ASN1_TIME* time) {
  const Time epoch(ASN1_TIME_set(nullptr, 0));
  int days = 0;
  int seconds = 0;
  if (ASN1_TIME_diff(&days, &seconds, epoch.get(), time) != 1) {
    ERR_clear_error();
    return base::error(Errc::data_loss, "[certificate] a time in it cannot be read");
  }
  return std::int64_t{days} * 86'400 + seconds;
}

bool add_extension(X509* certificate, X509* issuer, int kind, const std::string& value) {
  X509V3_CTX context;
  X509V3_set_ctx(&context, issuer, certificate, nullptr, nullptr, 0);
  const Extension extension(X509V3_EXT_conf_nid(nullptr, &context, kind, value.c_str()));
  return extension != nullptr && X509_add_ext(certificate, extension.get(), -1) == 1;
}

/// What the holder may do. An agent's chain ends with its processes: path length 0.
bool add_rights(X509* certificate, X509* issuer, const Identity& subject) {
  const bool signs = subject.role == Role::authority || subject.role == Role::agent;
  const std::string basic = subject.role == Role::authority ? "critical,CA:TRUE,pathlen:1"
                            : signs                         ? "critical,CA:TRUE,pathlen:0"
                                                            : "critical,CA:FALSE";
  std::string usage = "critical,digitalSignature";
  if (signs) usage += ",keyCertSign";
  if (subject.role == Role::authority) usage += ",cRLSign";
  return add_extension(certificate, issuer, NID_basic_constraints, basic) &&
         add_extension(certificate, issuer, NID_key_usage, usage) &&
         (subject.role == Role::authority ||
          add_extension(certificate, issuer, NID_ext_key_usage, "serverAuth,clientAuth")) &&
         add_extension(certificate, issuer, NID_subject_key_identifier, "hash") &&
         add_extension(certificate, issuer, NID_authority_key_identifier, "keyid") &&
         add_extension(certificate, issuer, NID_subject_alt_name, "URI:" + subject.uri());
}

bool add_name(X509_NAME* name, const char* field, std::string_view value) {
  return X509_NAME_add_entry_by_txt(name, field, MBSTRING_UTF8,
                                    reinterpret_cast<const unsigned char*>(value.data()),
                                    static_cast<int>(value.size()), -1, 0) == 1;
}

bool set_subject(X509* certificate, const Identity& subject) {
  X509_NAME* name = X509_get_subject_name(certificate);
  // A common name has 64 letters at most; the identity is the URI.
  return add_name(name, "O", subject.cluster) && add_name(name, "OU", role_name(subject.role)) &&
         add_name(name, "CN", std::string_view(subject.name).substr(0, 64));
}

/// 127 random bits: a serial number is positive.
std::string new_serial() {
  base::Secret bits = base::random_secret();
  bits[0] = static_cast<std::uint8_t>((bits[0] & 0x7f) | 0x40);
  return base::to_hex(bits);
}

/// Signed by `issuer`, or by itself where that is null.
Result<KeyAndCertificate> make_signed(const Identity& subject, Validity validity,
                                      const Signer* issuer) {
  TROUPE_TRY(check_validity(validity).with_context("[certificate] of " + subject.to_string()));
  const Key key(EVP_EC_gen("P-256"));
  const Certificate made(X509_new());
  if (key == nullptr || made == nullptr) return library_error("making a key");
  X509* certificate = made.get();
  X509* above = issuer == nullptr ? certificate : issuer->certificate.get();
  const Integer serial = serial_of(new_serial());
  const bool filled = X509_set_version(certificate, X509_VERSION_3) == 1 &&
                      X509_set_serialNumber(certificate, serial.get()) == 1 &&
                      ASN1_TIME_set(X509_getm_notBefore(certificate), validity.from) != nullptr &&
                      ASN1_TIME_set(X509_getm_notAfter(certificate), validity.until) != nullptr &&
                      set_subject(certificate, subject) &&
                      X509_set_issuer_name(certificate, X509_get_subject_name(above)) == 1 &&
                      X509_set_pubkey(certificate, key.get()) == 1 &&
                      add_rights(certificate, above, subject);
  EVP_PKEY* signing = issuer == nullptr ? key.get() : issuer->key.get();
  if (!filled || X509_sign(certificate, signing, EVP_sha256()) == 0) {
    return library_error("making a certificate");
  }
  KeyAndCertificate pem;
  TROUPE_TRY_ASSIGN(pem.key, key_text(key.get()));
  TROUPE_TRY_ASSIGN(pem.certificate, certificate_text(certificate));
  return pem;
}

}  // namespace

Validity valid_for(std::int64_t now, std::int64_t seconds) {
  constexpr std::int64_t kSkewSeconds = 300;
  return {now - kSkewSeconds, now + seconds};
}

bool ended(const Validity& validity, std::int64_t now) {
  return validity.until <= now;
}

std::string_view state_name(const Validity& validity, std::int64_t withdrawn, std::int64_t now) {
  if (withdrawn != 0) return "revoked";
  return ended(validity, now) ? "expired" : "valid";
}

Result<KeyAndCertificate> make_authority(const std::string& cluster, Validity validity) {
  const Identity identity{cluster, Role::authority, cluster};
  TROUPE_TRY(check_identity(identity));
  return make_signed(identity, validity, nullptr);
}

Result<KeyAndCertificate> make_certificate(const Identity& subject, Validity validity,
                                           const KeyAndCertificate& issuer) {
  TROUPE_TRY(check_identity(subject));
  TROUPE_TRY_ASSIGN(const Signer signer, read_signer(issuer));
  TROUPE_TRY_ASSIGN(const Identity above, identity_of(signer.certificate.get()));
  TROUPE_TRY(check_issuer(above, subject));
  return make_signed(subject, validity, &signer);
}

Result<std::string> make_deny_list(std::span<const Withdrawn> withdrawn, std::uint64_t number,
                                   Validity validity, const KeyAndCertificate& issuer) {
  TROUPE_TRY_ASSIGN(const Signer signer, read_signer(issuer));
  const DenyList list(X509_CRL_new());
  const Time from(ASN1_TIME_set(nullptr, validity.from));
  const Time until(ASN1_TIME_set(nullptr, validity.until));
  const Integer count(ASN1_INTEGER_new());
  bool made =
      list != nullptr && from != nullptr && until != nullptr &&
      ASN1_INTEGER_set_uint64(count.get(), number) == 1 &&
      X509_CRL_set_version(list.get(), X509_CRL_VERSION_2) == 1 &&
      X509_CRL_set_issuer_name(list.get(), X509_get_subject_name(signer.certificate.get())) == 1 &&
      X509_CRL_set1_lastUpdate(list.get(), from.get()) == 1 &&
      X509_CRL_set1_nextUpdate(list.get(), until.get()) == 1 &&
      X509_CRL_add1_ext_i2d(list.get(), NID_crl_number, count.get(), 0, 0) == 1;
  for (const Withdrawn& each : withdrawn) {
    Revoked entry(X509_REVOKED_new());
    const Integer serial = serial_of(each.serial);
    const Time when(ASN1_TIME_set(nullptr, each.when));
    made = made && entry != nullptr &&
           X509_REVOKED_set_serialNumber(entry.get(), serial.get()) == 1 &&
           X509_REVOKED_set_revocationDate(entry.get(), when.get()) == 1 &&
           X509_CRL_add0_revoked(list.get(), entry.get()) == 1;
    if (made) entry.release();  // the list's now
  }
  made = made && X509_CRL_sort(list.get()) == 1 &&
         X509_CRL_sign(list.get(), signer.key.get(), EVP_sha256()) != 0;
  const Bio bio(BIO_new(BIO_s_mem()));
  if (!made || PEM_write_bio_X509_CRL(bio.get(), list.get()) != 1) {
    return library_error("making a deny list");
  }
  return text_of(bio.get());
}

Result<std::uint64_t> check_deny_list(std::string_view pem, std::string_view authority) {
  const Certificate signer(
      PEM_read_bio_X509(reader(authority).get(), nullptr, no_passphrase, nullptr));
  if (signer == nullptr) return unreadable("certificate");
  const DenyList list(PEM_read_bio_X509_CRL(reader(pem).get(), nullptr, no_passphrase, nullptr));
  if (list == nullptr) return unreadable("list of what is revoked");
  // All of the text is handed on, to programs that take no more than one list.
  constexpr std::string_view kBegin = "-----BEGIN ";
  if (pem.find(kBegin) != pem.rfind(kBegin)) {
    return base::error(Errc::data_loss, "more than one PEM block, where one list is needed");
  }
  if (X509_CRL_verify(list.get(), X509_get0_pubkey(signer.get())) != 1) {
    ERR_clear_error();
    return base::error(Errc::permission_denied,
                       "the list of what is revoked is not signed by the cluster's authority");
  }
  const Integer count(static_cast<ASN1_INTEGER*>(
      X509_CRL_get_ext_d2i(list.get(), NID_crl_number, nullptr, nullptr)));
  std::uint64_t number = 0;
  if (count == nullptr || ASN1_INTEGER_get_uint64(&number, count.get()) != 1) {
    return unreadable("list of what is revoked");
  }
  return number;
}

Status check_key(const KeyAndCertificate& pem) {
  return read_signer(pem).status();
}

Result<CertificateInfo> read_certificate(std::string_view pem) {
  const Certificate certificate(
      PEM_read_bio_X509(reader(pem).get(), nullptr, no_passphrase, nullptr));
  if (certificate == nullptr) return unreadable("certificate");
  CertificateInfo info;
  TROUPE_TRY_ASSIGN(info.identity, identity_of(certificate.get()));
  info.serial = serial_text(X509_get0_serialNumber(certificate.get()));
  TROUPE_TRY_ASSIGN(info.validity.from, unix_seconds(X509_get0_notBefore(certificate.get())));
  TROUPE_TRY_ASSIGN(info.validity.until, unix_seconds(X509_get0_notAfter(certificate.get())));
  info.may_sign = X509_check_ca(certificate.get()) == 1;
  return info;
}

Result<Identity> identity_of_chain(std::span<X509* const> chain) {
  if (chain.empty()) return base::error(Errc::permission_denied, "no certificate");
  TROUPE_TRY_ASSIGN(const Identity leaf, identity_of(chain.front()));
  Identity below = leaf;
  for (X509* certificate : chain.subspan(1)) {
    TROUPE_TRY_ASSIGN(Identity above, identity_of(certificate));
    TROUPE_TRY(check_issuer(above, below));
    below = std::move(above);
  }
  if (below.role == Role::authority && leaf.role != Role::authority) return leaf;
  return base::error(Errc::permission_denied, "{} is nobody's word but its own", leaf.to_string());
}

}  // namespace troupe::trust
