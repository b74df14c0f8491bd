// SPDX-License-Identifier: Apache-2.0
// Draws by logical element: element e uses word e % 4 of Philox block e / 4; normal values take the
// pair of words that holds their element.
#include "store/initializer.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "base/random.h"

namespace troupe::store {
namespace {

using schemas::FanKind;
using schemas::InitializerKind;

struct Draw {
  schemas::Distribution distribution = schemas::Distribution::uniform;
  double scale = 0.0;
};

double fan_of(const base::Shape& shape, FanKind kind) {
  const double out = shape.rank() > 0 ? static_cast<double>(shape[0]) : 1.0;
  const double in = shape.rank() > 1 ? static_cast<double>(shape[1]) : out;
  const double window =
      shape.rank() > 2 ? static_cast<double>(shape.elements(2, shape.rank())) : 1.0;
  switch (kind) {
    case FanKind::in:
      return in * window;
    case FanKind::out:
      return out * window;
    case FanKind::average:
      break;
  }
  return (in + out) * window / 2.0;
}

Draw draw_of(const schemas::InitializerSpec& spec, const base::Shape& shape) {
  const double fan = std::max(fan_of(shape, spec.fan), 1.0);
  switch (spec.kind) {
    case InitializerKind::uniform:
      return {schemas::Distribution::uniform, spec.scale.value_or(0.07)};
    case InitializerKind::normal:
      return {schemas::Distribution::normal, spec.scale.value_or(0.01)};
    case InitializerKind::xavier:
      return {spec.distribution, std::sqrt(spec.scale.value_or(3.0) / fan)};
    case InitializerKind::msra:
    case InitializerKind::constant:  // is not drawn
      break;
  }
  const double slope = spec.scale.value_or(0.0);
  return {schemas::Distribution::normal, std::sqrt(2.0 / ((1.0 + slope * slope) * fan))};
}

std::array<double, 4> block_values(const Draw& draw, base::RandomKey key, std::uint64_t block) {
  const auto words = base::philox(key, block, 0, 0);
  std::array<double, 4> values{};
  if (draw.distribution == schemas::Distribution::uniform) {
    for (std::size_t i = 0; i < 4; ++i) {
      values[i] = draw.scale * (2.0 * base::uniform_f64(words[i]) - 1.0);
    }
    return values;
  }
  for (std::size_t pair = 0; pair < 4; pair += 2) {
    const auto normal = base::normal_pair(words[pair], words[pair + 1]);
    values[pair] = draw.scale * normal[0];
    values[pair + 1] = draw.scale * normal[1];
  }
  return values;
}

template <typename T>
void fill_drawn(const Draw& draw, base::RandomKey key, std::int64_t first, std::span<T> part) {
  std::array<double, 4> values{};
  std::uint64_t block = ~std::uint64_t{0};
  for (std::size_t i = 0; i < part.size(); ++i) {
    const std::uint64_t element = static_cast<std::uint64_t>(first) + i;
    if (element / 4 != block) {
      block = element / 4;
      values = block_values(draw, key, block);
    }
    part[i] = static_cast<T>(values[element % 4]);
  }
}

}  // namespace

ScaleRange scale_range(InitializerKind kind) {
  constexpr double kLargest = 1e38;
  return {kind == InitializerKind::constant ? -kLargest : 0.0, kLargest};
}

base::Status initialize(const schemas::InitializerSpec& job, std::uint64_t seed,
                        const schemas::KeyInfo& key, std::int64_t first,
                        const base::TensorView& part) {
  const schemas::InitializerSpec& spec = key.initializer ? *key.initializer : job;
  auto fill = [&]<typename T>(T) {
    const std::span<T> values(part.as<T>(), static_cast<std::size_t>(part.elements()));
    if (spec.kind == InitializerKind::constant) {
      std::fill(values.begin(), values.end(), static_cast<T>(spec.scale.value_or(0.0)));
    } else {
      fill_drawn(draw_of(spec, key.shape), base::random_key(seed, "init/" + key.name), first,
                 values);
    }
    return base::Status();
  };
  switch (part.dtype) {
    case base::DType::f32:
      return fill(float{});
    case base::DType::f64:
      return fill(double{});
    default:
      break;
  }
  return base::error(base::Errc::invalid_argument, "key '{}': no initial values of dtype {}",
                     key.name, base::dtype_name(part.dtype));
}

}  // namespace troupe::store
