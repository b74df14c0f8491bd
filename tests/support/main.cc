// SPDX-License-Identifier: Apache-2.0
// main() of every test binary.
#define CATCH_CONFIG_MAIN
#include <catch2/catch.hpp>
