// SPDX-License-Identifier: Apache-2.0
// When to speak of a certificate's end.
#include "cluster/certificate_age.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/clock.h"
#include "base/log.h"
#include "base/units.h"

namespace troupe::cluster {
namespace {

constexpr std::int64_t kDay = 86'400;
constexpr std::int64_t kEarly = 14 * kDay;

}  // namespace

std::string CertificateAge::look(const trust::Validity& validity, std::int64_t now) {
  if (validity.until != told_of_) {
    *this = {};
    told_of_ = validity.until;
  }
  const std::int64_t left = validity.until - now;
  const std::int64_t life = validity.until - validity.from;
  if (left > std::min(kEarly, life / 3)) return "";
  const bool ended = trust::ended(validity, now);
  if (told_ != 0 && now - told_ < kDay && ended == ended_) return "";
  told_ = now;
  ended_ = ended;
  return fmt::format("certificate {} {}", ended ? "was valid until" : "is valid until",
                     base::format_date(validity.until));
}

void watch_certificate(CertificateAge& age, const IdentityFile* identity) {
  if (identity == nullptr) return;
  const trust::Credentials own = identity->credentials();
  const std::string text = age.look(own.info.validity, base::unix_seconds());
  if (text.empty()) return;
  base::log_warn("{}: its {}; renew it beside the authority with: troupe ca renew",
                 identity->file().string(), text);
}

base::Status check_certificate(const IdentityFile* identity, std::int64_t now) {
  if (identity == nullptr) return {};
  const trust::Validity validity = identity->credentials().info.validity;
  if (!trust::ended(validity, now)) return {};
  return base::error(base::Errc::permission_denied,
                     "{}: its certificate was valid until {}; renew it with: troupe ca renew",
                     identity->file().string(), base::format_date(validity.until));
}

monitoring::Collection show_certificate(monitoring::Metrics& metrics,
                                        std::shared_ptr<IdentityFile> identity) {
  return metrics.on_scrape([identity = std::move(identity)](monitoring::Scrape& scrape) {
    if (identity == nullptr) return;
    const trust::Credentials own = identity->credentials();
    scrape.value(monitoring::family("troupe_certificate_expiry_timestamp_seconds"), {},
                 static_cast<double>(own.info.validity.until));
  });
}

}  // namespace troupe::cluster
