// SPDX-License-Identifier: Apache-2.0
// main() of every test binary.
#define CATCH_CONFIG_RUNNER  // read by version 2
#include "tests/support/catch.h"

#if __has_include(<catch2/catch_session.hpp>)
#include <catch2/catch_session.hpp>
#endif

int main(int count, char** arguments) {
  return Catch::Session().run(count, arguments);
}
