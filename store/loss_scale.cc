// SPDX-License-Identifier: Apache-2.0
// The loss scale's rule, and its two numbers in a key's values.
#include "store/loss_scale.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>

#include "base/check.h"

namespace troupe::store {
namespace {

using Numbers = std::array<float, 2>;

}  // namespace

base::Status check_loss_scale(const LossScaleRule& rule) {
  int exponent = 0;
  const bool power = std::isfinite(rule.first) && std::frexp(rule.first, &exponent) == 0.5;
  if (!power || rule.first < 1.0 || rule.first > kLossScaleMost) {
    return base::error(base::Errc::invalid_argument,
                       "a loss scale of {} is no power of 2 from 1 to {}", rule.first,
                       kLossScaleMost);
  }
  if (rule.double_after <= kLossScaleStepsMax) return {};
  return base::error(base::Errc::invalid_argument,
                     "a loss scale that is doubled after {} steps; the limit is {}",
                     rule.double_after, kLossScaleStepsMax);
}

LossScale next_loss_scale(const LossScale& now, bool overflowed, const LossScaleRule& rule) {
  if (overflowed) return {std::max(1.0, now.scale / 2), 0};
  const std::uint64_t steps = std::min(now.steps + 1, kLossScaleStepsMax);
  if (rule.double_after == 0 || steps < rule.double_after) return {now.scale, steps};
  return {std::min(now.scale * 2, kLossScaleMost), 0};
}

schemas::KeyInfo loss_scale_key(std::uint32_t id) {
  schemas::KeyInfo key;
  key.id = id;
  key.name = kLossScaleName;
  key.shape = base::Shape{static_cast<std::int64_t>(std::tuple_size_v<Numbers>)};
  key.kind = schemas::KeyKind::loss_scale;
  return key;
}

base::Status check_loss_scale_values(const base::Buffer& values) {
  Numbers numbers{};
  if (values.size() != sizeof(numbers)) {
    return base::error(base::Errc::data_loss, "a loss scale of {} bytes", values.size());
  }
  std::memcpy(numbers.data(), values.data(), sizeof(numbers));
  const auto [scale, steps] = numbers;
  const bool counted = steps >= 0.0F && steps <= static_cast<float>(kLossScaleStepsMax) &&
                       std::trunc(steps) == steps;
  if (counted && check_loss_scale({scale, 0}).ok()) return {};
  return base::error(base::Errc::data_loss,
                     "a loss scale of {} after {} steps: no power of 2 from 1 to {}, or no number "
                     "of steps",
                     scale, steps, kLossScaleMost);
}

LossScale read_loss_scale(const base::Buffer& values) {
  Numbers numbers{};
  TROUPE_CHECK(values.size() == sizeof(numbers), "a loss scale of another size");
  std::memcpy(numbers.data(), values.data(), sizeof(numbers));
  return {numbers[0], static_cast<std::uint64_t>(numbers[1])};
}

void write_loss_scale(const LossScale& scale, const base::Buffer& values) {
  const Numbers numbers = {static_cast<float>(scale.scale), static_cast<float>(scale.steps)};
  TROUPE_CHECK(values.size() == sizeof(numbers), "a loss scale of another size");
  std::memcpy(values.data(), numbers.data(), sizeof(numbers));
}

}  // namespace troupe::store
