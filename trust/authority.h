// SPDX-License-Identifier: Apache-2.0
// Authority: a cluster's own, a folder with its key, what it has signed and what it has withdrawn.
// One process at a time; blocking; one thread.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "base/folder_lock.h"
#include "base/status.h"
#include "trust/credentials.h"

namespace troupe::trust {

/// A certificate that the authority has signed.
struct Issued {
  std::string serial;
  Identity identity;
  Validity validity;
  std::int64_t withdrawn = 0;  ///< when, Unix seconds; 0: it is not
};

/// See the top of the file. Holds the folder's lock while it lives.
class Authority {
 public:
  /// Makes the folder's files; already_exists where there are some. `now`: Unix seconds.
  static base::Result<Authority> create(const std::filesystem::path& folder,
                                        const std::string& cluster, Validity validity);
  /// Completes a list of what is withdrawn that could not be written. not_found: no authority is
  /// there; permission_denied: others may read its key; data_loss.
  static base::Result<Authority> open(const std::filesystem::path& folder);

  const std::string& cluster() const { return info_.identity.cluster; }
  /// In the order of signing.
  const std::vector<Issued>& issued() const { return issued_; }

  /// Signs for a coordinator or an agent, until the authority's own end at most. already_exists:
  /// another one that holds at `now` has this identity (withdraw it or renew it);
  /// permission_denied: a role that it does not sign; failed_precondition: the authority has ended.
  base::Result<Credentials> issue(Role role, const std::string& name, Validity validity,
                                  std::int64_t now);
  /// Signs anew for the holder of `old`: a new key, the same identity; the old one holds until its
  /// own end. permission_denied: it was withdrawn, or is of another authority; failed_precondition:
  /// the authority has ended.
  base::Result<Credentials> renew(const Credentials& old, Validity validity, std::int64_t now);
  /// Withdraws all of `role` and `name`, those that have ended, too, and writes deny_list(), also
  /// where all were withdrawn before. not_found: there was never one.
  base::Status revoke(Role role, const std::string& name, std::int64_t now);
  /// Takes a certificate that nobody has got out of the book again, so that its name is free.
  /// not_found: no certificate has this serial number.
  base::Status forget(const std::string& serial);
  /// The list of what is withdrawn, until seven days after its end or its withdrawing, PEM; also
  /// the file denied.pem in the folder.
  const std::string& deny_list() const { return deny_list_; }

 private:
  Authority() = default;
  base::Result<Credentials> sign(const Identity& identity, Validity validity, std::int64_t now);
  base::Status read_list();
  base::Status make_list(std::int64_t now);
  base::Status save() const;

  base::FolderLock lock_;
  std::filesystem::path folder_;
  KeyAndCertificate own_;
  CertificateInfo info_;
  std::vector<Issued> issued_;
  std::uint64_t lists_ = 0;  ///< made so far
  std::string deny_list_;
};

}  // namespace troupe::trust
