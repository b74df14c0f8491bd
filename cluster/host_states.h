// SPDX-License-Identifier: Apache-2.0
// HostStates: how far the hosts of `troupe run --hosts` have come: which have joined, which have
// ended, and what ssh and the agents said. A state machine without clock and thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "cluster/host_list.h"

namespace troupe::cluster {

/// See the top of the file. Hosts are known by their place in the list.
class HostStates {
 public:
  /// Of what a host says, so many lines of so many bytes are kept for an error.
  static constexpr std::size_t kLinesMax = 5;
  static constexpr std::size_t kLineBytesMax = 500;

  explicit HostStates(const std::vector<RemoteHost>& hosts);

  /// Takes output of the host's ssh, in any pieces; returns the lines that are whole now, shortened
  /// where they are very long.
  std::vector<std::string> heard(std::size_t host, std::string_view bytes);
  /// The host's ssh has ended, `how`: "exit 255".
  void ended(std::size_t host, const std::string& how);
  /// The machines that the coordinator has, by name.
  void joined(const std::set<std::string>& names);

  bool has_joined(std::size_t host) const { return hosts_.at(host).joined; }
  /// True when every host has joined once.
  bool all_joined() const;
  /// unavailable: an ssh has ended before its agent had joined; ok while all may still join.
  base::Status refused() const;
  /// unavailable: those that have not joined within `wait_ms`.
  base::Status late(std::uint64_t wait_ms) const;
  /// Slots on hosts whose ssh runs.
  std::uint64_t slots_left() const;
  /// "host 'b' has ended (exit 255): WORDS" for each that has; empty: none.
  std::string losses() const;

 private:
  struct Host {
    RemoteHost self;
    bool joined = false;
    std::string end;  // empty: its ssh runs
    std::string open_line;
    std::deque<std::string> lines;  // the last ones
  };
  static void close_line(Host& host, std::vector<std::string>& lines);
  static std::string words_of(const Host& host);

  std::vector<Host> hosts_;
};

}  // namespace troupe::cluster
