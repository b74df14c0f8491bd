// SPDX-License-Identifier: Apache-2.0
// Looking a token up, and judging it.
#include "control/access.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/secret.h"

namespace troupe::control {

using base::Errc;
using base::Status;

std::string Caller::to_string() const {
  if (!holder) return "somebody";
  return fmt::format("{} '{}'", trust::role_name(holder->role), holder->name);
}

/// Persons without a token left are strangers.
void Access::set(TokensRead tokens) {
  tokens_ = std::move(tokens);
  std::erase_if(refusals_, [this](const auto& entry) {
    return std::none_of(
        tokens_.tokens.begin(), tokens_.tokens.end(),
        [&entry](const KnownToken& known) { return known.token.name == entry.first; });
  });
}

/// All are looked at, however early one fits: the time taken says nothing.
const KnownToken* Access::find(const Caller& caller) const {
  const KnownToken* found = nullptr;
  if (!caller.token) return found;
  for (const KnownToken& known : tokens_.tokens) {
    if (base::equal_in_constant_time(known.token.hash, *caller.token)) found = &known;
  }
  return found;
}

std::string Access::name_of(const Caller& caller) const {
  if (caller.holder) return caller.holder->name;
  const KnownToken* known = find(caller);
  return known == nullptr ? "" : known->token.name;
}

std::optional<std::uint64_t> Access::note_refusal(const Caller& caller, std::uint64_t now_ms) {
  const KnownToken* known = find(caller);
  if (known == nullptr) return std::nullopt;
  const auto [entry, fresh] = refusals_.try_emplace(known->token.name);
  Refusals& refusals = entry->second;
  if (fresh || now_ms - refusals.since_ms >= kWindowMs) {
    refusals.since_ms = now_ms;
    refusals.told = 0;
  }
  if (refusals.told >= kRefusalsMax) {
    ++refusals.left_out;
    return std::nullopt;
  }
  ++refusals.told;
  return std::exchange(refusals.left_out, 0);
}

Status Access::check(const Caller& caller, trust::Right right) const {
  if (caller.holder && caller.holder->role != trust::Role::person) {
    return base::error(Errc::permission_denied, "{} is no person", caller.to_string());
  }
  if (!tokens_.needed) return {};
  if (tokens_.unread) {
    return base::error(Errc::permission_denied,
                       "the coordinator cannot read its tokens, so nobody may; its log says why");
  }
  if (!caller.token) {
    return base::error(
        Errc::permission_denied,
        "a token is missing: --token FILE or TROUPE_TOKEN_FILE; troupe token make, on "
        "the coordinator's machine, makes one");
  }
  const KnownToken* known = find(caller);
  if (known == nullptr) {
    return base::error(Errc::permission_denied, "the coordinator does not know this token");
  }
  const trust::Token& token = known->token;
  if (!known->refused.ok()) {
    return base::error(Errc::permission_denied, "token {} of '{}': {}", token.id, token.name,
                       known->refused.text());
  }
  if (caller.holder && caller.holder->name != token.name) {
    return base::error(Errc::permission_denied, "token {} is not of {}", token.id,
                       caller.to_string());
  }
  if (token.gives(right)) return {};
  std::string rights;
  for (const trust::Right each : token.rights) {
    rights += fmt::format("{}{}", rights.empty() ? "" : ", ", trust::right_name(each));
  }
  return base::error(Errc::permission_denied, "token {} of '{}' gives no right to {}; it gives {}",
                     token.id, token.name, trust::right_name(right), rights);
}

}  // namespace troupe::control
