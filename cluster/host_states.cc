// SPDX-License-Identifier: Apache-2.0
// What hosts said, and how their start is going.
#include "cluster/host_states.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace troupe::cluster {

HostStates::HostStates(const std::vector<RemoteHost>& hosts) {
  for (const RemoteHost& host : hosts) {
    Host state;
    state.self = host;
    hosts_.push_back(std::move(state));
  }
}

std::vector<std::string> HostStates::heard(std::size_t index, std::string_view bytes) {
  Host& host = hosts_.at(index);
  std::vector<std::string> lines;
  for (const char c : bytes) {
    if (c == '\n') {
      close_line(host, lines);
    } else if (c != '\r' && host.open_line.size() < kLineBytesMax) {
      host.open_line += c;
    }
  }
  return lines;
}

void HostStates::close_line(Host& host, std::vector<std::string>& lines) {
  if (host.open_line.empty()) return;
  host.lines.push_back(host.open_line);
  if (host.lines.size() > kLinesMax) host.lines.pop_front();
  lines.push_back(std::exchange(host.open_line, {}));
}

void HostStates::ended(std::size_t index, const std::string& how) {
  Host& host = hosts_.at(index);
  std::vector<std::string> ignored;
  close_line(host, ignored);
  host.end = how;
}

void HostStates::joined(const std::set<std::string>& names) {
  for (Host& host : hosts_) host.joined = host.joined || names.contains(host.self.name);
}

bool HostStates::all_joined() const {
  return std::all_of(hosts_.begin(), hosts_.end(), [](const Host& host) { return host.joined; });
}

base::Status HostStates::refused() const {
  for (const Host& host : hosts_) {
    if (host.joined || host.end.empty()) continue;
    return base::error(base::Errc::unavailable, "host '{}': ssh ended ({}) and no agent joined{}",
                       host.self.host, host.end, words_of(host));
  }
  return {};
}

base::Status HostStates::late(std::uint64_t wait_ms) const {
  std::string text;
  for (const Host& host : hosts_) {
    if (host.joined) continue;
    text += fmt::format("{}host '{}'{}", text.empty() ? "" : "; ", host.self.host, words_of(host));
  }
  if (text.empty()) return {};
  return base::error(base::Errc::unavailable, "not joined within {} ms: {}", wait_ms, text);
}

std::uint64_t HostStates::slots_left() const {
  std::uint64_t slots = 0;
  for (const Host& host : hosts_) slots += host.end.empty() ? host.self.slots : 0;
  return slots;
}

std::string HostStates::losses() const {
  std::string text;
  for (const Host& host : hosts_) {
    if (host.end.empty()) continue;
    text += fmt::format("{}host '{}' has ended ({}){}", text.empty() ? "" : "; ", host.self.host,
                        host.end, words_of(host));
  }
  return text;
}

/// ": WORDS"; nothing from who said nothing.
std::string HostStates::words_of(const Host& host) {
  std::string text;
  for (const std::string& line : host.lines) text += (text.empty() ? ": " : " | ") + line;
  if (!host.open_line.empty()) text += (text.empty() ? ": " : " | ") + host.open_line;
  return text;
}

}  // namespace troupe::cluster
