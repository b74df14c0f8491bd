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

/// Forgets the refusals of whom `over` says so.
template <typename Over>
std::vector<Access::LeftOut> Access::end_windows(Over over) {
  std::vector<LeftOut> all;
  std::erase_if(refusals_, [&](const auto& entry) {
    const bool ends = over(entry.first, entry.second);
    if (ends && entry.second.left_out.count > 0) all.push_back(entry.second.left_out);
    return ends;
  });
  return all;
}

/// Whether there is room for one more in the person's window; without a name there always is.
bool Access::count(Counts& counts, const std::string& name, std::uint64_t now_ms, Most most) {
  if (name.empty()) return true;
  Counted& counted = counts.try_emplace(name, Counted{now_ms}).first->second;
  if (now_ms - counted.since_ms >= most.window_ms) counted = {now_ms};
  if (counted.count == most.count) return false;
  ++counted.count;
  return true;
}

std::vector<Access::LeftOut> Access::set(TokensRead tokens) {
  tokens_ = std::move(tokens);
  return end_windows([this](const std::string& name, const Refusals&) {
    return std::none_of(tokens_.tokens.begin(), tokens_.tokens.end(),
                        [&name](const KnownToken& known) { return known.token.name == name; });
  });
}

std::vector<Access::LeftOut> Access::take_left_out(std::uint64_t now_ms) {
  const auto over = [now_ms](const auto& entry) {
    return now_ms - entry.second.since_ms >= kWindowMs;
  };
  std::erase_if(changes_, over);
  std::erase_if(lists_, over);
  return end_windows([now_ms](const std::string&, const Refusals& refusals) {
    return now_ms - refusals.since_ms >= kWindowMs;
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

bool Access::withdrawn(const Caller& caller) const {
  const KnownToken* known = find(caller);
  return known != nullptr && known->token.withdrawn != 0;
}

bool Access::note_refusal(const Caller& caller, std::uint64_t now_ms) {
  const KnownToken* known = find(caller);
  if (known == nullptr) return false;
  const auto [entry, fresh] = refusals_.try_emplace(known->token.name);
  Refusals& refusals = entry->second;
  if (fresh) refusals.since_ms = now_ms;
  if (refusals.told < kRefusalsMax) {
    ++refusals.told;
    return true;
  }
  refusals.left_out = {caller.to_string(), known->token.name, caller.address,
                       refusals.left_out.count + 1};
  return false;
}

Status Access::count_change(const Caller& caller, std::uint64_t now_ms) {
  const bool agent = caller.holder && caller.holder->role != trust::Role::person;
  const std::string name = name_of(caller);
  const std::string who = agent ? caller.to_string() : fmt::format("person '{}'", name);
  if (name.empty() || count(changes_, who, now_ms, {kWindowMs, kChangesMax})) return {};
  return base::error(Errc::resource_exhausted,
                     "{} has made {} changes within {} s, which is the limit for one {}: try again "
                     "in a minute",
                     who, kChangesMax, kWindowMs / 1'000, agent ? "agent" : "person");
}

Status Access::count_list(const Caller& caller, std::uint64_t now_ms) {
  const std::string name = name_of(caller);
  if (count(lists_, name, now_ms, {kListsWindowMs, kListsMax})) return {};
  return base::error(Errc::resource_exhausted,
                     "person '{}' has asked for {} lists of jobs within {} s, which is the limit "
                     "for one person",
                     name, kListsMax, kListsWindowMs / 1'000);
}

Status Access::check(const Caller& caller, trust::Right right) const {
  if (caller.holder && caller.holder->role != trust::Role::person) {
    return base::error(Errc::permission_denied, "{} is no person", caller.to_string());
  }
  if (!caller.ended.ok()) return caller.ended.with_context(caller.to_string());
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
