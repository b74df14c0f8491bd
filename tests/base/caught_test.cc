// SPDX-License-Identifier: Apache-2.0
// What is thrown becomes an error with a name and a cause.
#include "base/caught.h"

#include <new>
#include <stdexcept>

#include "tests/support/catch.h"

namespace troupe::base {
namespace {

TEST_CASE("what a function throws is its error", "[caught]") {
  CHECK(caught("add", [] { return Status(); }).ok());
  CHECK(caught("add", [] { return Result<int>(7); }).value() == 7);
  CHECK(caught("add", []() -> Result<int> { throw std::runtime_error("x"); }).status() ==
        Status(Errc::internal, "[add] its function threw x"));
  CHECK(caught("add", []() -> Status { throw std::bad_alloc(); }).code() ==
        Errc::resource_exhausted);
  CHECK(caught("add", []() -> Status { throw 1; }).text() ==
        "[add] its function threw something that is no std::exception");
}

}  // namespace
}  // namespace troupe::base
