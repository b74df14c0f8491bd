// SPDX-License-Identifier: Apache-2.0
// The only file that includes Catch2, of version 2 (Debian 12) or 3 (Debian 13). Tests say what
// both have: macros, Approx, and the matchers of strings as Catch::Contains, Catch::StartsWith,
// Catch::EndsWith and Catch::Matchers::Matches.
#pragma once

#if __has_include(<catch2/catch_test_macros.hpp>)
#include <catch2/catch_approx.hpp>
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators_all.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <string>

namespace Catch {
using Matchers::EndsWith;
using Matchers::StartsWith;
/// Version 3 calls the matcher of a part of a text so; its Contains is about elements.
inline Matchers::StringContainsMatcher Contains(const std::string& part) {
  return Matchers::ContainsSubstring(part);
}
}  // namespace Catch

using Catch::Approx;
#else
#include <catch2/catch.hpp>
#endif
