// SPDX-License-Identifier: Apache-2.0
// First values against their formulas: bounds, mean and spread over 100,000 elements, within five
// standard errors; names that choose constants; what values depend on and what not.
#include "store/initializer.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "tests/support/catch.h"

namespace troupe::store {
namespace {

using schemas::Distribution;
using schemas::FanKind;
using schemas::InitializerKind;
using schemas::InitializerSpec;

constexpr std::uint64_t kSeed = 7;

schemas::KeyInfo key_of(const std::string& name, const base::Shape& shape) {
  schemas::KeyInfo key;
  key.name = name;
  key.shape = shape;
  return key;
}

template <typename T = float>
std::vector<T> values(const InitializerSpec& spec, const schemas::KeyInfo& key, std::int64_t first,
                      std::int64_t count, std::uint64_t seed = kSeed) {
  std::vector<T> part(static_cast<std::size_t>(count));
  const base::TensorView view{part.data(), base::kDTypeOf<T>, base::Shape{count}, {}, {}};
  REQUIRE(initialize(spec, seed, key, first, view).ok());
  return part;
}

InitializerSpec spec_of(InitializerKind kind, std::optional<double> scale = {}) {
  InitializerSpec spec;
  spec.kind = kind;
  spec.scale = scale;
  return spec;
}

InitializerSpec xavier(FanKind fan, Distribution distribution, std::optional<double> scale = {}) {
  return {InitializerKind::xavier, scale, fan, distribution};
}

InitializerSpec msra(FanKind fan, std::optional<double> slope = {}) {
  return {InitializerKind::msra, slope, fan, Distribution::uniform};
}

struct Moments {
  double mean = 0.0, deviation = 0.0, fourth = 0.0, most = 0.0;
};

Moments moments(const std::vector<double>& drawn) {
  Moments m;
  const auto n = static_cast<double>(drawn.size());
  for (const double v : drawn) {
    m.mean += v / n;
    m.most = std::max(m.most, std::abs(v));
  }
  double square = 0.0;
  for (const double v : drawn) {
    const double d2 = (v - m.mean) * (v - m.mean);
    square += d2 / n;
    m.fourth += d2 * d2 / n;
  }
  m.deviation = std::sqrt(square);
  return m;
}

/// The standard error of a deviation s over n values is s sqrt((k - 1) / (4 n)), k the kurtosis:
/// 9 / 5 of a uniform, 3 of a normal distribution. That of a kurtosis is sqrt(24 / n) or less.
void check_spread(const Moments& m, double deviation, double kurtosis, std::size_t count) {
  const auto n = static_cast<double>(count);
  CHECK(std::abs(m.mean) < 5.0 * deviation / std::sqrt(n));
  CHECK(std::abs(m.deviation - deviation) <
        5.0 * deviation * std::sqrt((kurtosis - 1.0) / (4.0 * n)));
  CHECK(std::abs(m.fourth / std::pow(m.deviation, 4) - kurtosis) < 5.0 * std::sqrt(24.0 / n));
}

void check_uniform(const InitializerSpec& spec, const base::Shape& shape, double bound) {
  const auto drawn = values<double>(spec, key_of("w_weight", shape), 0, shape.elements());
  const Moments m = moments(drawn);
  CHECK(m.most <= bound);
  CHECK(m.most > 0.999 * bound);
  check_spread(m, bound / std::sqrt(3.0), 9.0 / 5.0, drawn.size());
}

void check_normal(const InitializerSpec& spec, const base::Shape& shape, double deviation) {
  const auto drawn = values<double>(spec, key_of("w_weight", shape), 0, shape.elements());
  const Moments m = moments(drawn);
  // Of 100,000 normal values the largest lies near 4.4 deviations.
  CHECK(m.most > 3.8 * deviation);
  CHECK(m.most < 6.5 * deviation);
  check_spread(m, deviation, 3.0, drawn.size());
}

const base::Shape kDense{500, 200};             // in 200, out 500
const base::Shape kConvolution{100, 40, 5, 5};  // in 40 * 25, out 100 * 25

TEST_CASE("uniform fills (-scale, scale)", "[initializer]") {
  check_uniform(spec_of(InitializerKind::uniform), kDense, 0.07);
  check_uniform(spec_of(InitializerKind::uniform, 0.5), kConvolution, 0.5);
}

TEST_CASE("normal has the deviation scale", "[initializer]") {
  check_normal(spec_of(InitializerKind::normal), kDense, 0.01);
  check_normal(spec_of(InitializerKind::normal, 2.0), kConvolution, 2.0);
}

TEST_CASE("xavier's bound or deviation is sqrt(magnitude / fan)", "[initializer]") {
  struct Case {
    FanKind fan;
    double dense, convolution;
  };
  const Case cases[] = {{FanKind::in, 200.0, 1000.0},
                        {FanKind::out, 500.0, 2500.0},
                        {FanKind::average, 350.0, 1750.0}};
  for (const Case& c : cases) {
    CAPTURE(static_cast<int>(c.fan));
    const InitializerSpec uniform = xavier(c.fan, Distribution::uniform);
    check_uniform(uniform, kDense, std::sqrt(3.0 / c.dense));
    check_uniform(uniform, kConvolution, std::sqrt(3.0 / c.convolution));
    const InitializerSpec normal = xavier(c.fan, Distribution::normal, 2.0);
    check_normal(normal, kDense, std::sqrt(2.0 / c.dense));
    check_normal(normal, kConvolution, std::sqrt(2.0 / c.convolution));
  }
  // What nobody has chosen: uniform, average, 3.
  check_uniform({}, kDense, std::sqrt(3.0 / 350.0));
}

TEST_CASE("msra's deviation is sqrt(2 / ((1 + slope^2) fan))", "[initializer]") {
  check_normal(msra(FanKind::in), kDense, std::sqrt(2.0 / 200.0));
  check_normal(msra(FanKind::in), kConvolution, std::sqrt(2.0 / 1000.0));
  check_normal(msra(FanKind::out), kConvolution, std::sqrt(2.0 / 2500.0));
  check_normal(msra(FanKind::average, 0.25), kDense, std::sqrt(2.0 / (1.0625 * 350.0)));
}

TEST_CASE("a key's own initialiser goes before the job's", "[initializer]") {
  const base::Shape shape{6};
  for (const auto kind : {InitializerKind::uniform, InitializerKind::normal,
                          InitializerKind::xavier, InitializerKind::msra}) {
    schemas::KeyInfo key = key_of("fc1_bias", shape);
    const auto drawn = values(spec_of(kind), key, 0, 6);
    CHECK(std::count(drawn.begin(), drawn.end(), drawn[0]) == 1);
    key.initializer = spec_of(InitializerKind::constant);
    CHECK(values(spec_of(kind), key, 2, 3) == std::vector<float>(3, 0.0F));
    key.initializer = spec_of(InitializerKind::constant, -1.5);
    CHECK(values(spec_of(kind), key, 2, 3) == std::vector<float>(3, -1.5F));
    key.initializer = spec_of(kind);
    CHECK(values(spec_of(InitializerKind::constant), key, 0, 6) == drawn);
  }
}

TEST_CASE("values depend on seed, key and element alone", "[initializer]") {
  for (const auto kind : {InitializerKind::uniform, InitializerKind::normal,
                          InitializerKind::xavier, InitializerKind::msra}) {
    const InitializerSpec spec = spec_of(kind);
    const schemas::KeyInfo key = key_of("conv1_weight", base::Shape{20, 1, 5, 5});
    const auto whole = values(spec, key, 0, 500);
    CHECK(values(spec, key, 0, 500) == whole);
    CHECK(values(spec, key, 0, 500, kSeed + 1) != whole);
    CHECK(values(spec, key_of("conv2_weight", key.shape), 0, 500) != whole);
    // Any cut, also inside a block of four values.
    for (const std::int64_t first : {1, 2, 3, 4, 123}) {
      const auto part = values(spec, key, first, 77);
      CHECK(std::equal(part.begin(), part.end(), whole.begin() + first));
    }
    const auto wide = values<double>(spec, key, 0, 500);
    CHECK(std::equal(whole.begin(), whole.end(), wide.begin(),
                     [](float narrow, double w) { return narrow == static_cast<float>(w); }));
  }
}

TEST_CASE("integers have no first values", "[initializer]") {
  std::vector<std::int32_t> part(4);
  const base::TensorView view{part.data(), base::DType::i32, base::Shape{4}, {}, {}};
  const base::Status refused = initialize({}, kSeed, key_of("fc1_weight", base::Shape{4}), 0, view);
  CHECK(refused.code() == base::Errc::invalid_argument);
  CHECK_THAT(refused.text(), Catch::Contains("'fc1_weight'") && Catch::Contains("i32"));
}

}  // namespace
}  // namespace troupe::store
