// SPDX-License-Identifier: Apache-2.0
// What is thrown becomes an error with a name and a cause.
#include "base/caught.h"

#include <exception>
#include <new>
#include <stdexcept>

#include "tests/support/catch.h"

namespace troupe::base {
namespace {

/// A function in which this is thrown.
template <typename R>
auto throwing(const std::exception_ptr& what) {
  return [what]() -> R { std::rethrow_exception(what); };
}

TEST_CASE("what a function throws is its error", "[caught]") {
  CHECK(caught("add", [] { return Status(); }).ok());
  CHECK(caught("add", [] { return Result<int>(7); }).value() == 7);
  CHECK(caught("add", throwing<Result<int>>(std::make_exception_ptr(std::runtime_error("x"))))
            .status() == Status(Errc::internal, "[add] its function threw x"));
  CHECK(caught("add", throwing<Status>(std::make_exception_ptr(std::bad_alloc()))).code() ==
        Errc::resource_exhausted);
  CHECK(caught("add", throwing<Status>(std::make_exception_ptr(1))).text() ==
        "[add] its function threw something that is no std::exception");
}

}  // namespace
}  // namespace troupe::base
