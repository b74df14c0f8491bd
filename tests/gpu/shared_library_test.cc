// SPDX-License-Identifier: Apache-2.0
// Finding libraries and their functions at run time.
#include "gpu/shared_library.h"

#include "tests/support/catch.h"

namespace troupe::gpu {
namespace {

TEST_CASE("a library and its functions are found, or their absence has a reason", "[gpu]") {
  const auto math = SharedLibrary::open({"libnowhere.so.7", "libm.so.6"});
  REQUIRE(math.ok());
  CHECK(math->file() == "libm.so.6");
  const auto cosine = math->function<double(double)>("cos");
  REQUIRE(cosine.ok());
  CHECK((*cosine)(0.0) == 1.0);
  const auto missing = math->function<void()>("no_such_function");
  CHECK(missing.status().code() == base::Errc::failed_precondition);
  CHECK_THAT(missing.status().text(),
             Catch::Contains("libm.so.6 has no function no_such_function"));

  const base::Status nowhere = SharedLibrary::open({"libnowhere.so.7"}).status();
  CHECK(nowhere.code() == base::Errc::failed_precondition);
  CHECK_THAT(nowhere.text(), Catch::Contains("libnowhere.so.7"));
}

}  // namespace
}  // namespace troupe::gpu
