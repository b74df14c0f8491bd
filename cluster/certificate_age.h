// SPDX-License-Identifier: Apache-2.0
// CertificateAge: how long a program's certificate still holds. Links that are up stay up when it
// ends, so nothing else would be seen of it until the next one is made: the log says it from some
// time before, metrics show the time.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "cluster/identity_file.h"
#include "monitoring/metrics.h"
#include "trust/certificate.h"

namespace troupe::cluster {

/// See the top of the file. One thread.
class CertificateAge {
 public:
  /// What the log should say now, at the time `now` (Unix seconds) of a certificate that holds for
  /// `validity`; empty: nothing. Once a day from two weeks before its end, or from the last third
  /// of a shorter life; and when it has ended.
  std::string look(const trust::Validity& validity, std::int64_t now);

 private:
  std::int64_t told_ = 0;     // when
  std::int64_t told_of_ = 0;  // which end
  bool ended_ = false;
};

/// Logs what `age` says of the identity's certificate, and how it is renewed. Null: nothing.
void watch_certificate(CertificateAge& age, const IdentityFile* identity);

/// So long before its certificate ends an agent gets nothing any more, by its own clock and by the
/// coordinator's.
inline constexpr std::int64_t kOfferAheadS = 2;

/// permission_denied with the file and the day when the certificate has ended. Null: ok.
base::Status check_certificate(const IdentityFile* identity, std::int64_t now);

/// Shows troupe_certificate_expiry_timestamp_seconds as long as the result lives; nothing for null.
[[nodiscard]] monitoring::Collection show_certificate(monitoring::Metrics& metrics,
                                                      std::shared_ptr<IdentityFile> identity);

}  // namespace troupe::cluster
