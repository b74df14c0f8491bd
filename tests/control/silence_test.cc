// SPDX-License-Identifier: Apache-2.0
// A silence is told once, ends the job when it lasts, and is over with the first sign of progress.
#include "control/silence.h"

#include "tests/support/catch.h"

namespace troupe::control {
namespace {

using Verdict = SilenceFinding::Verdict;

Silence short_silence() {
  base::Limits limits;
  limits.missing_log_ms = 100;
  limits.stall_ms = 1'000;
  return Silence(limits);
}

TEST_CASE("a silence is told once, then it is the end") {
  Silence silence = short_silence();
  silence.heard(50);
  CHECK(silence.check(149).verdict == Verdict::quiet);
  CHECK_FALSE(silence.warned());
  const SilenceFinding told = silence.check(150);
  CHECK(told.verdict == Verdict::warn);
  CHECK(told.silent_ms == 100);
  CHECK(silence.warned());
  CHECK(silence.check(1'049).verdict == Verdict::quiet);
  const SilenceFinding end = silence.check(1'050);
  CHECK(end.verdict == Verdict::fail);
  CHECK(end.silent_ms == 1'000);
}

TEST_CASE("any progress ends a silence, and the next one is told again") {
  Silence silence = short_silence();
  silence.heard(0);
  CHECK(silence.check(100).verdict == Verdict::warn);
  silence.heard(900);
  CHECK_FALSE(silence.warned());
  CHECK(silence.check(999).verdict == Verdict::quiet);
  CHECK(silence.check(1'000).verdict == Verdict::warn);
}

TEST_CASE("a silence that nothing came before begins with the first look") {
  Silence silence = short_silence();
  CHECK(silence.check(5'000).verdict == Verdict::quiet);
  CHECK(silence.check(5'100).verdict == Verdict::warn);
  CHECK(silence.check(6'000).verdict == Verdict::fail);
}

TEST_CASE("a clock that is looked at late skips the warning") {
  Silence silence = short_silence();
  silence.heard(0);
  CHECK(silence.check(2'000).verdict == Verdict::fail);
}

}  // namespace
}  // namespace troupe::control
