// SPDX-License-Identifier: Apache-2.0
// Numbers of hosts without what their owners may choose; crowds are counted by them.
#include "base/crowd.h"

#include <arpa/inet.h>
#include <netinet/in.h>

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <map>

namespace troupe::base {

std::string crowd_of(const std::string& host) {
  constexpr int kNetworkBytes = 8;
  in6_addr number{};
  // "fe80::1%eth0" names an interface of this machine behind the number.
  if (inet_pton(AF_INET6, host.substr(0, host.find('%')).c_str(), &number) != 1) return host;
  char text[INET6_ADDRSTRLEN] = "";
  if (IN6_IS_ADDR_V4MAPPED(&number)) {
    return inet_ntop(AF_INET, &number.s6_addr[12], text, sizeof text);
  }
  std::fill(number.s6_addr + kNetworkBytes, std::end(number.s6_addr), std::uint8_t{0});
  return inet_ntop(AF_INET6, &number, text, sizeof text);
}

std::optional<std::size_t> who_gives_way(std::span<const Waiting> waiting, std::size_t room) {
  constexpr std::size_t kPartOfRoom = 8;
  std::map<std::string_view, std::size_t> counts;
  std::size_t most = 0;
  for (const Waiting& one : waiting) most = std::max(most, ++counts[one.crowd]);
  const bool crowded = most > room / kPartOfRoom;
  std::optional<std::size_t> found;
  for (std::size_t i = 0; i < waiting.size(); ++i) {
    if (crowded && counts.at(waiting[i].crowd) < most) continue;
    if (!found || waiting[i].weight < waiting[*found].weight) found = i;
  }
  return found;
}

}  // namespace troupe::base
