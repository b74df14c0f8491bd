// SPDX-License-Identifier: Apache-2.0
// Silence: when somebody who is waited for has said nothing for long. The one policy of the whole
// company: each silence is told once after limits.missing_log_ms, and is the end after
// limits.stall_ms. Pure: it is told the time. One owner.
#pragma once

#include <cstdint>
#include <optional>

#include "base/limits.h"

namespace troupe::control {

/// What a look at a silence gives.
struct SilenceFinding {
  enum class Verdict : std::uint8_t {
    quiet,  ///< nothing to say
    warn,   ///< name who is waited for; comes once in a silence
    fail    ///< it has lasted too long
  };
  Verdict verdict = Verdict::quiet;
  std::uint64_t silent_ms = 0;  ///< so long already
};

/// See the top of the file.
class Silence {
 public:
  explicit Silence(const base::Limits& limits)
      : warn_ms_(limits.missing_log_ms), fail_ms_(limits.stall_ms) {}

  /// Something has come: the silence is over, and the next one is told again.
  void heard(std::uint64_t now_ms);
  /// Looks at the silence. One that nothing came before begins with the first look.
  SilenceFinding check(std::uint64_t now_ms);
  /// True from a warning until something is heard.
  bool warned() const { return warned_; }

 private:
  std::uint64_t warn_ms_;
  std::uint64_t fail_ms_;
  std::optional<std::uint64_t> since_ms_;
  bool warned_ = false;
};

}  // namespace troupe::control
