// SPDX-License-Identifier: Apache-2.0
// What a bounded cache keeps, and what it lets go.
#include "base/lru_cache.h"

#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "tests/support/catch.h"

namespace troupe::base {
namespace {

struct Words {
  using Key = std::string;
  using View = std::string_view;
  static Key own(View word) { return std::string(word); }
  static View view(const Key& word) { return word; }
  static std::size_t hash(View word) { return std::hash<View>{}(word); }
  static bool equal(View a, View b) { return a == b; }
};

using Cache = LruCache<Words, std::shared_ptr<const int>>;

std::shared_ptr<const int> number(int value) {
  return std::make_shared<const int>(value);
}

TEST_CASE("a cache lets the entry go that was not used for longest") {
  Cache cache(2);
  cache.keep("one", number(1));
  cache.keep("two", number(2));
  REQUIRE(cache.find("one") != nullptr);
  cache.keep("three", number(3));
  CHECK(cache.size() == 2);
  CHECK(cache.find("two") == nullptr);
  REQUIRE(cache.find("one") != nullptr);
  CHECK(*cache.find("one") == 1);
  REQUIRE(cache.find("three") != nullptr);
  CHECK(*cache.find("three") == 3);
}

TEST_CASE("a cache owns its keys, and the first value of a key stays") {
  Cache cache(2);
  std::string word = "a word that is too long to lie inside its string";
  const std::shared_ptr<const int> first = number(1);
  CHECK(cache.keep(word, first) == first);
  CHECK(cache.keep(word, number(2)) == first);
  word.assign(word.size(), 'x');
  CHECK(cache.find("a word that is too long to lie inside its string") == first);
  CHECK(cache.find(word) == nullptr);
  CHECK(cache.size() == 1);
}

TEST_CASE("what a cache has let go lives on with its users") {
  Cache cache(1);
  cache.keep("one", number(1));
  const std::shared_ptr<const int> held = cache.find("one");
  cache.keep("two", number(2));
  CHECK(cache.find("one") == nullptr);
  REQUIRE(held != nullptr);
  CHECK(*held == 1);
}

}  // namespace
}  // namespace troupe::base
