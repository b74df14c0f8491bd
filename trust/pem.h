// SPDX-License-Identifier: Apache-2.0
// What readers of PEM text give OpenSSL, so that it asks nobody at a terminal for a passphrase.
#pragma once

namespace troupe::trust {

/// A passphrase callback that has none: what is encrypted is not read, and `*encrypted` (a bool, or
/// null) says that it was. Any PEM block may claim to be encrypted, also one that a peer has sent.
inline int no_passphrase(char* /*text*/, int /*bytes*/, int /*writing*/, void* encrypted) {
  if (encrypted != nullptr) *static_cast<bool*>(encrypted) = true;
  return -1;
}

}  // namespace troupe::trust
