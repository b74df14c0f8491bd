// SPDX-License-Identifier: Apache-2.0
// Access: what people may ask of a coordinator, by their tokens and certificates. Pure: no clock,
// thread or file; one owner.
#pragma once

#include <cstdint>
#include <map>
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
  void set(TokensRead tokens);
  /// The tokens cannot be read at present, and nobody may.
  bool unread() const { return tokens_.unread; }
  /// Whether the caller may; permission_denied says what is missing. An agent is no person,
  /// whatever it shows.
  base::Status check(const Caller& caller, trust::Right right) const;
  /// The person's, by its token or certificate; empty: somebody's.
  std::string name_of(const Caller& caller) const;

  /// Refusals of one person that are told within kWindowMs, so that nobody fills a disk with them.
  static constexpr std::uint64_t kRefusalsMax = 20;
  static constexpr std::uint64_t kWindowMs = 60'000;
  /// Whether a refusal is to be told: none for strangers, whose token is not known, and for those
  /// who were refused too often; else how many refusals of the same person were not told before it.
  std::optional<std::uint64_t> note_refusal(const Caller& caller, std::uint64_t now_ms);

 private:
  struct Refusals {
    std::uint64_t since_ms = 0;
    std::uint64_t told = 0;
    std::uint64_t left_out = 0;
  };
  const KnownToken* find(const Caller& caller) const;

  TokensRead tokens_;
  std::map<std::string, Refusals> refusals_;  // by person
};

}  // namespace troupe::control
