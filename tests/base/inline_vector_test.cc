// SPDX-License-Identifier: Apache-2.0
// InlineVector is a vector whose values lie in it.
#include "base/inline_vector.h"

#include <vector>

#include "tests/support/catch.h"

namespace troupe::base {
namespace {

TEST_CASE("an inline vector holds what is put in, up to its size") {
  InlineVector<int, 3> v;
  CHECK(v.empty());
  v.push_back(4);
  v.push_back(5);
  CHECK(v == InlineVector<int, 3>{4, 5});
  CHECK_FALSE(v == InlineVector<int, 3>{4});
  CHECK(v.size() == 2);
  CHECK(v.front() == 4);
  CHECK(v.back() == 5);
  CHECK(std::vector<int>(v.begin(), v.end()) == std::vector{4, 5});
  CHECK(std::vector<int>(v.rbegin(), v.rend()) == std::vector{5, 4});
  v.pop_back();
  v.resize(3);
  CHECK(v == InlineVector<int, 3>{4, 0, 0});
  v.clear();
  CHECK(v.empty());
  CHECK(InlineVector<int, 3>::max_size() == 3);
}

}  // namespace
}  // namespace troupe::base
