// SPDX-License-Identifier: Apache-2.0
// IdentityFile: the file that says who this program is, as `troupe ca issue` makes it; read again
// when it is replaced, so that certificates are renewed without a restart. Any thread.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <utility>

#include "base/mutex.h"
#include "base/status.h"
#include "cluster/file_stamp.h"
#include "link/tls.h"
#include "trust/credentials.h"

namespace troupe::cluster {

/// See the top of the file.
class IdentityFile {
 public:
  /// Errors: those of trust::read_credentials(), and permission_denied where the file is another
  /// role's.
  static base::Result<std::shared_ptr<IdentityFile>> open(const std::filesystem::path& file,
                                                          trust::Role role);

  const std::filesystem::path& file() const { return file_; }
  trust::Credentials credentials() const;
  std::shared_ptr<const link::Tls> tls() const;
  /// Reads the file again where it has changed; null: nothing is new since the last call, or it
  /// cannot be used, which is logged once.
  std::shared_ptr<const link::Tls> renewed();
  /// Takes a list of what is revoked, unless there is a newer one; renewed() gives what follows
  /// from it. Errors: those of trust::check_deny_list().
  base::Status use_deny_list(const std::string& pem);

 private:
  explicit IdentityFile(std::filesystem::path file) : file_(std::move(file)) {}
  base::Status read();

  const std::filesystem::path file_;
  mutable base::Mutex mutex_;
  FileStamp seen_ TROUPE_GUARDED_BY(mutex_);      // as last read
  base::Status fault_ TROUPE_GUARDED_BY(mutex_);  // of reading it since
  trust::Credentials credentials_ TROUPE_GUARDED_BY(mutex_);
  std::shared_ptr<const link::Tls> tls_ TROUPE_GUARDED_BY(mutex_);
  std::string deny_list_ TROUPE_GUARDED_BY(mutex_);  // the newest of those taken
  bool fresh_ TROUPE_GUARDED_BY(mutex_) = false;     // by a list
};

}  // namespace troupe::cluster
