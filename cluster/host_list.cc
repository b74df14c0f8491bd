// SPDX-License-Identifier: Apache-2.0
// Reading of host lists.
#include "cluster/host_list.h"

#include <algorithm>
#include <charconv>
#include <set>

#include "base/address.h"
#include "base/name.h"
#include "control/rank_placement.h"

namespace troupe::cluster {
namespace {

using base::Errc;
using base::Result;

/// A word that ssh cannot take for an option.
bool plain_word(std::string_view word) {
  return base::plain_name(word) && !word.starts_with('-');
}

/// What stands before the number of places, and the number's text; without a number, "1".
struct Parts {
  std::string host;
  std::string_view slots = "1";
};

Result<Parts> split_places(std::string_view item, std::string_view rest) {
  Parts parts;
  if (rest.starts_with('[')) {
    const std::size_t end = rest.find(']');
    const std::size_t length = end == std::string_view::npos ? 0 : end - 1;
    parts.host = rest.substr(1, length);
    if (!base::is_number(parts.host) || parts.host.find(':') == std::string::npos) {
      return base::error(Errc::invalid_argument, "host '{}': no IPv6 address in brackets", item);
    }
    rest.remove_prefix(end + 1);
    if (rest.empty()) return parts;
    if (!rest.starts_with(':')) {
      return base::error(Errc::invalid_argument, "host '{}': after ']' comes :SLOTS", item);
    }
    parts.slots = rest.substr(1);
    return parts;
  }
  const std::size_t colon = rest.find(':');
  parts.host = rest.substr(0, colon);
  if (colon == std::string_view::npos) return parts;
  parts.slots = rest.substr(colon + 1);
  if (parts.slots.find(':') != std::string_view::npos) {
    return base::error(Errc::invalid_argument,
                       "host '{}': an IPv6 address stands in brackets, as [fd77::2]:4", item);
  }
  return parts;
}

Result<std::uint32_t> parse_slots(std::string_view item, std::string_view text) {
  std::uint32_t slots = 0;
  const char* end = text.data() + text.size();
  const auto [rest, code] = std::from_chars(text.data(), end, slots);
  if (code == std::errc() && rest == end && slots >= 1 && slots <= control::kSlotsMax) return slots;
  return base::error(Errc::invalid_argument, "host '{}': '{}' is not from 1 to {} slots", item,
                     text, control::kSlotsMax);
}

Result<RemoteHost> parse_host(std::string_view item) {
  const std::size_t at = item.find('@');
  const bool has_user = at != std::string_view::npos;
  const std::string_view user = has_user ? item.substr(0, at) : std::string_view();
  if (has_user && !plain_word(user)) {
    return base::error(Errc::invalid_argument, "host '{}': '{}' is no user: {}", item, user,
                       base::kPlainNameRule);
  }
  TROUPE_TRY_ASSIGN(const Parts parts, split_places(item, has_user ? item.substr(at + 1) : item));
  RemoteHost host;
  TROUPE_TRY_ASSIGN(host.slots, parse_slots(item, parts.slots));
  host.host = parts.host;
  host.name = parts.host;
  std::replace(host.name.begin(), host.name.end(), ':', '-');
  // A number may begin with its colons, which are '-' in the name.
  if (!base::is_number(host.host) && !plain_word(host.host)) {
    return base::error(Errc::invalid_argument, "host '{}': '{}' is no host: {}", item, host.host,
                       base::kPlainNameRule);
  }
  if (host.name.starts_with('-')) host.name.insert(host.name.begin(), '0');
  host.destination = has_user ? std::string(user) + "@" + host.host : host.host;
  return host;
}

}  // namespace

Result<std::vector<RemoteHost>> parse_host_list(std::string_view text) {
  std::vector<RemoteHost> hosts;
  std::set<std::string> names;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    TROUPE_TRY_ASSIGN(RemoteHost host, parse_host(text.substr(begin, end - begin)));
    if (!names.insert(host.name).second) {
      return base::error(Errc::invalid_argument, "host '{}' is there twice: once, with all places",
                         host.host);
    }
    hosts.push_back(std::move(host));
    begin = end + 1;
  }
  if (hosts.size() <= kRemoteHostsMax) return hosts;
  return base::error(Errc::resource_exhausted, "{} hosts: at most {}", hosts.size(),
                     kRemoteHostsMax);
}

std::uint64_t slots_of(const std::vector<RemoteHost>& hosts) {
  std::uint64_t slots = 0;
  for (const RemoteHost& host : hosts) slots += host.slots;
  return slots;
}

}  // namespace troupe::cluster
