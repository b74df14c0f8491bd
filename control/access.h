// SPDX-License-Identifier: Apache-2.0
// Access: what people may ask of a coordinator, by their tokens and certificates. Pure: no clock,
// thread or file; one owner.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/hash.h"
#include "base/status.h"
#include "control/control_events.h"

namespace troupe::control {

/// A peer as it has shown itself.
struct Caller {
  std::string address;                      ///< HOST:PORT
  std::optional<trust::Identity> holder;    ///< of its certificate; none: it needs none
  std::optional<base::Sha256Digest> token;  ///< hash of the token that it has shown
  base::Status ended{};                     ///< not ok: it may nothing any more, but stays
  /// "person 'alice'", "agent 'a'"; "somebody" without a certificate.
  std::string to_string() const;
};

/// See the top of the file.
class Access {
 public:
  /// Refusals of one person that were not told.
  struct LeftOut {
    std::string who;   ///< as Caller::to_string()
    std::string name;  ///< of the token
    std::string from;  ///< HOST:PORT of the last one
    std::uint64_t count = 0;
  };

  /// Persons without a token left are strangers from now on: returns what was not told of them.
  std::vector<LeftOut> set(TokensRead tokens);
  /// The tokens cannot be read at present, and nobody may.
  bool unread() const { return tokens_.unread; }
  /// Whether the caller may; permission_denied says what is missing. An agent is no person,
  /// whatever it shows.
  base::Status check(const Caller& caller, trust::Right right) const;
  /// Somebody has ended the caller's token, and not its date.
  bool withdrawn(const Caller& caller) const;
  /// The person's, by its token or certificate; empty: somebody's.
  std::string name_of(const Caller& caller) const;

  /// Refusals of one person that are told within kWindowMs, so that nobody fills a disk with them.
  static constexpr std::uint64_t kRefusalsMax = 20;
  static constexpr std::uint64_t kWindowMs = 60'000;
  /// Whether a refusal is to be told: none for strangers, whose token is not known, and for those
  /// who were refused too often; these are counted.
  bool note_refusal(const Caller& caller, std::uint64_t now_ms);
  /// Changes of one person or agent within kWindowMs: each is a line in logs, among those of
  /// others.
  static constexpr std::uint64_t kChangesMax = 600;
  /// Before a change is made. resource_exhausted: too many were made. Without a name
  /// nobody is counted: who shows nothing may do everything, or nothing.
  base::Status count_change(const Caller& caller, std::uint64_t now_ms);
  /// Lists of all jobs for one person within kListsWindowMs: each is much work, and all others
  /// wait.
  static constexpr std::uint64_t kListsMax = 100;
  static constexpr std::uint64_t kListsWindowMs = 1'000;
  /// The same before a list is made.
  base::Status count_list(const Caller& caller, std::uint64_t now_ms);
  /// Of those whose window is over, what was not told in it: once.
  std::vector<LeftOut> take_left_out(std::uint64_t now_ms);

 private:
  struct Refusals {
    std::uint64_t since_ms = 0;
    std::uint64_t told = 0;
    LeftOut left_out;
  };
  /// What persons have asked for, by person, each in a window of its own.
  struct Counted {
    std::uint64_t since_ms = 0;
    std::uint64_t count = 0;
  };
  using Counts = std::map<std::string, Counted>;
  struct Most {
    std::uint64_t window_ms = 0;
    std::uint64_t count = 0;
  };
  static bool count(Counts& counts, const std::string& name, std::uint64_t now_ms, Most most);
  template <typename Over>
  std::vector<LeftOut> end_windows(Over over);
  const KnownToken* find(const Caller& caller) const;

  TokensRead tokens_;
  std::map<std::string, Refusals> refusals_;  // by person
  Counts changes_;
  Counts lists_;
};

}  // namespace troupe::control
