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
  return base::error(base::Errc::permission_denied, "{}: is of {}, not of the role {}",
                     file.string(), who.to_string(), trust::role_name(role));
}

base::Status IdentityFile::read() {
  // Before the text: what is replaced meanwhile is read again.
  const FileStamp seen = stamp_of(file_);
  TROUPE_TRY_ASSIGN(trust::Credentials read, trust::read_credentials(file_));
  const base::MutexLock lock(mutex_);
  if (!deny_list_.empty()) TROUPE_TRY(trust::take_deny_list(read, deny_list_).status());
  TROUPE_TRY_ASSIGN(auto tls, link::Tls::create(read));
  if (tls_ != nullptr && tls_->identity() != tls->identity()) {
    return base::error(base::Errc::permission_denied, "{}: is of {} now, no more of {}",
                       file_.string(), tls->identity().to_string(), tls_->identity().to_string());
  }
  credentials_ = std::move(read);
  tls_ = std::move(tls);
  seen_ = seen;
  return {};
}

base::Status IdentityFile::use_deny_list(const std::string& pem) {
  const base::MutexLock lock(mutex_);
  trust::Credentials changed = credentials_;
  TROUPE_TRY_ASSIGN(const bool newer, trust::take_deny_list(changed, pem));
  if (!newer) return {};
  TROUPE_TRY_ASSIGN(tls_, link::Tls::create(changed));
  credentials_ = std::move(changed);
  deny_list_ = pem;
  fresh_ = true;
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
  const FileStamp seen = stamp_of(file_);
  {
    const base::MutexLock lock(mutex_);
    if (std::exchange(fresh_, false)) return tls_;
    if (seen.gone() || seen == seen_) return nullptr;
  }
  // What cannot be read is tried again with each call: it may be for want of descriptors.
  const base::Status status = read();
  const base::MutexLock lock(mutex_);
  const bool told = status == std::exchange(fault_, status);
  if (!status.ok()) {
    if (!told) base::log_warn("{}; the credentials of before stay", status.text());
    return nullptr;
  }
  base::log_info("{}: read anew, certificate {}", file_.string(), credentials_.info.serial);
  return tls_;
}

}  // namespace troupe::cluster
