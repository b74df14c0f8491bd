// SPDX-License-Identifier: Apache-2.0
// Resolver: host names to numbers, looked up on threads of their own, since the system may take
// minutes. Who waits brings the deadline; the last good answer for each name is kept. Any thread.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/status.h"

namespace troupe::base {

/// The numbers of one host, IPv4 and IPv6, in the order in which they are to be tried.
using HostNumbers = std::vector<std::string>;

/// Asks the system (getaddrinfo); blocks as long as it likes. A number is its own answer. Error
/// unavailable: the name and the system's words.
Result<HostNumbers> look_up(const std::string& host);

/// See the top of the file.
class Resolver {
 public:
  using LookUp = std::function<Result<HostNumbers>(const std::string& host)>;
  using Answer = std::function<void(const Result<HostNumbers>& numbers)>;

  explicit Resolver(LookUp look_up = base::look_up);

  /// Begins to look `host` up, unless that is under way; calls `answer` with what came, or, where
  /// nothing good came, with what last did. A number is answered before this returns; a name on
  /// another thread, perhaps after this object's end, perhaps never.
  void ask(const std::string& host, Answer answer);
  /// What `host` last was; deadline_exceeded, with `deadline_ms` in its text, where it never was
  /// anything: for who asks no longer.
  Result<HostNumbers> last(const std::string& host, std::uint64_t deadline_ms) const;
  /// Asks, and blocks for `deadline_ms` at most; then last().
  Result<HostNumbers> resolve(const std::string& host, std::uint64_t deadline_ms);

 private:
  struct Shared;  // outlives this object while the system is asked
  std::shared_ptr<Shared> shared_;
};

}  // namespace troupe::base
