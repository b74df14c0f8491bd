// SPDX-License-Identifier: Apache-2.0
// Reading, and looking whether there is something new.
#include "cluster/identity_file.h"

#include <utility>

#include "base/log.h"

namespace troupe::cluster {

base::Result<std::shared_ptr<IdentityFile>> IdentityFile::open(const std::filesystem::path& file,
                                                               trust::Role role) {
  std::shared_ptr<IdentityFile> opened(new IdentityFile(file));
  TROUPE_TRY(opened->read());
  const trust::Identity who = opened->credentials().info.identity;
  if (who.role == role) return opened;
  return base::error(base::Errc::permission_denied, "{}: is of {}, not of a {}", file.string(),
                     who.to_string(), trust::role_name(role));
}

base::Status IdentityFile::read() {
  std::error_code unknown;
  // Before the text: what is replaced meanwhile is read again.
  const auto changed = std::filesystem::last_write_time(file_, unknown);
  {
    const base::MutexLock lock(mutex_);
    changed_ = changed;
  }
  TROUPE_TRY_ASSIGN(trust::Credentials read, trust::read_credentials(file_));
  TROUPE_TRY_ASSIGN(auto tls, link::Tls::create(read));
  const base::MutexLock lock(mutex_);
  if (tls_ != nullptr && tls_->identity() != tls->identity()) {
    return base::error(base::Errc::permission_denied, "{}: is of {} now, no more of {}",
                       file_.string(), tls->identity().to_string(), tls_->identity().to_string());
  }
  credentials_ = std::move(read);
  tls_ = std::move(tls);
  return {};
}

trust::Credentials IdentityFile::credentials() const {
  const base::MutexLock lock(mutex_);
  return credentials_;
}

std::shared_ptr<const link::Tls> IdentityFile::tls() const {
  const base::MutexLock lock(mutex_);
  return tls_;
}

std::shared_ptr<const link::Tls> IdentityFile::renewed() {
  std::error_code unknown;
  const auto changed = std::filesystem::last_write_time(file_, unknown);
  {
    const base::MutexLock lock(mutex_);
    if (unknown || changed == changed_) return nullptr;
  }
  const base::Status status = read();
  if (!status.ok()) {
    base::log_warn("{}; the credentials of before stay", status.text());
    return nullptr;
  }
  base::log_info("{}: read anew, certificate {}", file_.string(), credentials().info.serial);
  return tls();
}

}  // namespace troupe::cluster
