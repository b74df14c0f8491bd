// SPDX-License-Identifier: Apache-2.0
// Which failed checkpoints end a run, and what it says then.
#include "store/checkpoint_failures.h"

#include "tests/support/catch.h"

namespace troupe::store {
namespace {

constexpr std::uint64_t kLastStep = 100;

base::Status full() {
  return {base::Errc::resource_exhausted, "no space left"};
}

TEST_CASE("as many failures in a row as the limit says end the run") {
  CheckpointFailures failures(3);
  CHECK(failures.settled(10, kLastStep, full()).ok());
  CHECK(failures.settled(20, kLastStep, full()).ok());
  const base::Status end = failures.settled(30, kLastStep, full());
  CHECK(end.code() == base::Errc::resource_exhausted);
  CHECK(end.text() == "3 checkpoints failed in a row, the last one of step 30: no space left");
}

TEST_CASE("a checkpoint that is written starts the count anew") {
  CheckpointFailures failures(2);
  for (std::uint64_t step = 10; step < kLastStep; step += 20) {
    CHECK(failures.settled(step, kLastStep, full()).ok());
    CHECK(failures.settled(step + 10, kLastStep, {}).ok());
  }
}

TEST_CASE("a limit of one ends the run with the first failure") {
  CHECK_FALSE(CheckpointFailures(1).settled(10, kLastStep, full()).ok());
}

TEST_CASE("the last step's checkpoint must be written, whatever the limit") {
  CheckpointFailures failures(1000);
  CHECK(failures.settled(kLastStep, kLastStep, {}).ok());
  const base::Status end = failures.settled(kLastStep, kLastStep, full());
  CHECK(end.code() == base::Errc::resource_exhausted);
  CHECK(end.text() == "the last checkpoint, of step 100, was not written: no space left");
}

}  // namespace
}  // namespace troupe::store
