// SPDX-License-Identifier: Apache-2.0
// Random networks as lists of calls, which can be made smaller, and as symbols: with noise behind
// every call, too. What a seed gives is the same everywhere. One thread.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "symbol/symbol.h"

namespace troupe::symbol {

/// Draws that follow from a seed.
class Random {
 public:
  explicit Random(std::uint64_t seed) : engine_(seed) {}

  std::size_t below(std::size_t end) { return static_cast<std::size_t>(engine_() % end); }
  bool chance(std::size_t percent) { return below(100) < percent; }
  template <typename T>
  T of(std::initializer_list<T> list) {
    return list.begin()[below(list.size())];
  }

 private:
  std::mt19937_64 engine_;
};

/// A call, or a variable where `op` is empty. Values are numbered: outputs of all calls, in order.
struct Call {
  std::string op, name;
  std::vector<std::size_t> inputs = {};
  ops::Attributes attributes = {};
  std::map<std::string, std::string> named = {};  ///< variables, by the input's name
  std::vector<base::Shape> shapes = {};           ///< of the outputs
};

/// A network as calls, so that it can be made smaller.
struct Recipe {
  std::uint64_t seed = 0;
  std::vector<Call> calls = {};
  std::vector<std::size_t> heads = {};
  std::map<std::string, std::int64_t> classes = {};  ///< per variable of labels
  bool trains = true;
};

/// The network of a seed.
Recipe random_recipe(std::uint64_t seed);
/// Its symbol. `noisy`: variables "..._noise" multiply what every call gives, on the way forward
/// and, with other factors, on the way back.
Symbol built(const Recipe& recipe, bool noisy);
/// Shapes of variables that nothing else decides.
std::map<std::string, base::Shape> known_shapes(const Recipe& recipe, const Symbol& net);
/// The calls that heads need, for people.
std::string text_of(const Recipe& recipe);
/// Recipes that are a step smaller.
std::vector<Recipe> smaller(const Recipe& recipe);

}  // namespace troupe::symbol
