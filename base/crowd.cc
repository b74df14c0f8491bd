// SPDX-License-Identifier: Apache-2.0
// Numbers of hosts without what their owners may choose.
#include "base/crowd.h"

#include <arpa/inet.h>
#include <netinet/in.h>

#include <algorithm>
#include <cstdint>
#include <iterator>

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

}  // namespace troupe::base
