// SPDX-License-Identifier: Apache-2.0
// Credentials: all that a process needs to show who it is and to check others, in one file: its
// key, its certificate with those above it, the authority, and what is withdrawn. Any thread.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "trust/certificate.h"

namespace troupe::trust {

/// See the top of the file. Texts are PEM.
struct Credentials {
  KeyAndCertificate own;
  std::string above;      ///< certificates between its own and the authority's; often none
  std::string authority;  ///< whose word is believed
  std::string deny_list;  ///< empty: nothing is known to be withdrawn
  CertificateInfo info;   ///< of its own certificate

  /// The file's text.
  std::string to_pem() const;
};

/// Reads to_pem()'s text: one key, its certificate first, the authority's last. data_loss: what is
/// missing; permission_denied: the certificates do not form a chain of identities.
base::Result<Credentials> parse_credentials(std::string_view pem);

/// Reads a file of them. permission_denied: others than its owner may read it.
base::Result<Credentials> read_credentials(const std::filesystem::path& file);

/// Replaces the file, which its owner alone may read.
base::Status write_credentials(const std::filesystem::path& file, const Credentials& credentials);

/// Puts a list of what is revoked into the credentials; false: they have it or a newer one already.
/// Errors: those of check_deny_list().
base::Result<bool> take_deny_list(Credentials& credentials, const std::string& pem);

/// Credentials for `subject` that `issuer` signs: an agent's, for a process of a job.
base::Result<Credentials> delegate(const Credentials& issuer, const Identity& subject,
                                   Validity validity);

}  // namespace troupe::trust
