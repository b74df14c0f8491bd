// SPDX-License-Identifier: Apache-2.0
// Lists of hosts: what is read, and what is refused by which words.
#include "cluster/host_list.h"

#include "tests/support/catch.h"

namespace troupe::cluster {
namespace {

using Catch::Contains;

std::string fault(const std::string& text) {
  return parse_host_list(text).status().text();
}

TEST_CASE("hosts have users, places, names and numbers", "[hosts]") {
  const auto hosts =
      parse_host_list("a:2,ann@node-2.lab:4,c,10.0.0.7:1,[fd77::2]:8,bob@[::9]").value();
  const std::vector<RemoteHost> expected = {
      {"a", "a", "a", 2},
      {"ann@node-2.lab", "node-2.lab", "node-2.lab", 4},
      {"c", "c", "c", 1},
      {"10.0.0.7", "10.0.0.7", "10.0.0.7", 1},
      {"fd77::2", "fd77::2", "fd77--2", 8},
      {"bob@::9", "::9", "0--9", 1},
  };
  CHECK(hosts == expected);
  CHECK(slots_of(hosts) == 17);
}

TEST_CASE("what is no host is named", "[hosts]") {
  CHECK_THAT(fault(""), Contains("host ''"));
  CHECK_THAT(fault("a:2,"), Contains("host ''"));
  CHECK_THAT(fault("a,,b"), Contains("host ''"));
  CHECK_THAT(fault("a:0"), Contains("host 'a:0': '0' is not from 1 to 4096"));
  CHECK_THAT(fault("a:4097"), Contains("'4097'"));
  CHECK_THAT(fault("a:"), Contains("host 'a:': ''"));
  CHECK_THAT(fault("a:two"), Contains("'two'"));
  CHECK_THAT(fault("a:-1"), Contains("'-1'"));
  CHECK_THAT(fault("a:2x"), Contains("'2x'"));
  CHECK_THAT(fault("fd77::2:4"), Contains("stands in brackets"));
  CHECK_THAT(fault("[fd77::2"), Contains("no IPv6 address in brackets"));
  CHECK_THAT(fault("[]:2"), Contains("no IPv6 address in brackets"));
  CHECK_THAT(fault("[10.0.0.7]:2"), Contains("no IPv6 address in brackets"));
  CHECK_THAT(fault("[fd77::2]4"), Contains("after ']' comes :SLOTS"));
  CHECK_THAT(fault("@a"), Contains("'' is no user"));
  CHECK_THAT(fault("ann@"), Contains("'' is no host"));
  CHECK_THAT(fault("ann@b@c"), Contains("'b@c' is no host"));
}

TEST_CASE("no host is an option of ssh or a shell's word", "[hosts]") {
  CHECK_THAT(fault("-oProxyCommand=x"), Contains("is no host"));
  CHECK_THAT(fault("-x"), Contains("'-x' is no host"));
  CHECK_THAT(fault("-x@a"), Contains("'-x' is no user"));
  CHECK_THAT(fault("a;b"), Contains("is no host"));
  CHECK_THAT(fault("a b"), Contains("is no host"));
  CHECK_THAT(fault("$(a)"), Contains("is no host"));
}

TEST_CASE("a host is there once, and hosts are not too many", "[hosts]") {
  CHECK_THAT(fault("a:2,b,a"), Contains("host 'a' is there twice"));
  // Agents of two users on one machine would have one name.
  CHECK_THAT(fault("ann@a,bob@a"), Contains("host 'a' is there twice"));
  std::string text = "h0";
  for (std::size_t i = 1; i < kRemoteHostsMax; ++i) text += ",h" + std::to_string(i);
  CHECK(parse_host_list(text)->size() == kRemoteHostsMax);
  CHECK(parse_host_list(text + ",more").status().code() == base::Errc::resource_exhausted);
}

}  // namespace
}  // namespace troupe::cluster
