// SPDX-License-Identifier: Apache-2.0
// Certificates (X.509, keys on P-256) and lists of withdrawn ones, as PEM text: made, signed and
// read (OpenSSL). Who may sign whom is identity.h's. Pure but for random numbers; any thread.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "trust/identity.h"

struct x509_st;  // OpenSSL's X509

namespace troupe::trust {

/// When a certificate holds, Unix seconds, both included.
struct Validity {
  std::int64_t from = 0;
  std::int64_t until = 0;
  friend bool operator==(const Validity&, const Validity&) = default;
};

/// From a little before `now` on, as clocks of machines differ, for `seconds`.
Validity valid_for(std::int64_t now, std::int64_t seconds);

/// Whether it holds no more at `now`: its last second does not count, as OpenSSL judges.
bool ended(const Validity& validity, std::int64_t now);

/// "revoked" where `withdrawn` is not 0, else "expired" or "valid" at `now`.
std::string_view state_name(const Validity& validity, std::int64_t withdrawn, std::int64_t now);

/// A private key and the certificate for its public one, PEM.
struct KeyAndCertificate {
  std::string key;
  std::string certificate;
};

/// What stands in a certificate.
struct CertificateInfo {
  Identity identity;
  std::string serial;  ///< hex digits, lower case
  Validity validity;
  bool may_sign = false;
};

/// A certificate that holds no longer.
struct Withdrawn {
  std::string serial;
  std::int64_t when = 0;  ///< Unix seconds
};

/// A cluster's authority, signed by itself. invalid_argument: a bad name.
base::Result<KeyAndCertificate> make_authority(const std::string& cluster, Validity validity);

/// A new key and its certificate, signed by `issuer`. Errors: those of check_identity() and
/// check_issuer(); invalid_argument: the issuer's PEM cannot be read.
base::Result<KeyAndCertificate> make_certificate(const Identity& subject, Validity validity,
                                                 const KeyAndCertificate& issuer);

/// The list of what an authority has withdrawn (an X.509 CRL, PEM). `number` grows with each list.
base::Result<std::string> make_deny_list(std::span<const Withdrawn> withdrawn, std::uint64_t number,
                                         Validity validity, const KeyAndCertificate& issuer);

/// The number of a list that `authority` (PEM) has signed; data_loss: it cannot be read;
/// permission_denied: somebody else has signed it.
base::Result<std::uint64_t> check_deny_list(std::string_view pem, std::string_view authority);

/// data_loss: PEM that cannot be read; invalid_argument: the key is another certificate's.
base::Status check_key(const KeyAndCertificate& pem);

/// Of the first certificate in `pem`; data_loss: there is none, or one without an identity.
base::Result<CertificateInfo> read_certificate(std::string_view pem);

/// The leaf's identity in a chain, leaf first and authority last, whose signatures and times have
/// been checked already: each must be allowed to sign the one before. permission_denied says who
/// was not; data_loss: a certificate without an identity.
base::Result<Identity> identity_of_chain(std::span<x509_st* const> chain);

}  // namespace troupe::trust
