// SPDX-License-Identifier: Apache-2.0
// Access: what people may ask of a coordinator, by their tokens and certificates. Pure: no clock,
// thread or file; one owner.
#pragma once

#include <optional>
#include <string>
#include <utility>

#include "base/hash.h"
#include "base/status.h"
#include "control/control_events.h"

namespace troupe::control {

/// A peer as it has shown itself.
struct Caller {
  std::string address;                      ///< HOST:PORT
  std::optional<trust::Identity> holder;    ///< of its certificate; none: it needs none
  std::optional<base::Sha256Digest> token;  ///< hash of the token that it has shown
  /// "person 'alice'", "agent 'a'"; "somebody" without a certificate.
  std::string to_string() const;
};

/// See the top of the file.
class Access {
 public:
  void set(TokensRead tokens) { tokens_ = std::move(tokens); }
  /// Whether the caller may; permission_denied says what is missing. An agent is no person,
  /// whatever it shows.
  base::Status check(const Caller& caller, trust::Right right) const;
  /// The person's, by its token or certificate; empty: somebody's.
  std::string name_of(const Caller& caller) const;

 private:
  const KnownToken* find(const Caller& caller) const;

  TokensRead tokens_;
};

}  // namespace troupe::control
