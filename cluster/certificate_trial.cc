// SPDX-License-Identifier: Apache-2.0
// A probe is a link that is closed as soon as it is up.
#include "cluster/certificate_trial.h"

#include <optional>
#include <utility>

#include "base/log.h"
#include "base/mutex.h"

namespace troupe::cluster {

/// Called on the links' thread, asked on the trial's.
class CertificateTrial::Probe final : public link::ControlHandler {
 public:
  void on_up() override {
    const base::MutexLock lock(mutex_);
    up_ = true;
  }
  void on_envelope(schemas::Envelope) override {}
  void on_down(const base::Status& reason) override {
    const base::MutexLock lock(mutex_);
    verdict_ = up_ ? base::Status() : reason;
  }
  /// Says goodbye once the peer has let it in; then the verdict follows.
  std::optional<base::Status> look() {
    const base::MutexLock lock(mutex_);
    if (up_ && link_ != nullptr) std::exchange(link_, nullptr)->close("a new certificate holds");
    return verdict_;
  }
  void keep(base::Result<std::shared_ptr<link::Link>> link) {
    const base::MutexLock lock(mutex_);
    if (link.ok()) {
      link_ = std::move(link).value();
    } else {
      verdict_ = link.status();
    }
  }

 private:
  base::Mutex mutex_;
  bool up_ TROUPE_GUARDED_BY(mutex_) = false;
  std::shared_ptr<link::Link> link_ TROUPE_GUARDED_BY(mutex_);
  std::optional<base::Status> verdict_ TROUPE_GUARDED_BY(mutex_);
};

CertificateTrial::CertificateTrial(link::LinkSet& links, link::DialOptions peer, std::string shown)
    : links_(links), peer_(std::move(peer)), shown_(std::move(shown)) {}

CertificateTrial::~CertificateTrial() = default;

void CertificateTrial::look(const std::string& serial, std::uint64_t now_ms) {
  if (probe_ != nullptr) {
    const auto verdict = probe_->look();
    if (!verdict) return;
    if (serial == tried_) return end(*verdict, now_ms);
    return begin(serial);  // it was replaced meanwhile: what was found out is of another one
  }
  if (serial == shown_ || (serial == tried_ && now_ms < next_ms_)) return;
  begin(serial);
}

void CertificateTrial::begin(const std::string& serial) {
  tried_ = serial;
  probe_ = std::make_shared<Probe>();
  probe_->keep(links_.dial(peer_, probe_));
}

void CertificateTrial::end(const base::Status& verdict, std::uint64_t now_ms) {
  probe_ = nullptr;
  next_ms_ = now_ms + kPauseMs;
  if (verdict.ok()) {
    shown_ = tried_;
    links_.dial_anew();
  } else if (verdict != told_) {
    base::log_warn(
        "the new certificate cannot be shown: {}; links stay as they are, and it is tried "
        "again every {} s",
        verdict.text(), kPauseMs / 1'000);
  }
  told_ = verdict;
}

}  // namespace troupe::cluster
