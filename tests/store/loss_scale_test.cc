// SPDX-License-Identifier: Apache-2.0
// How the loss scale moves, at its ends too, and what it is refused for.
#include "store/loss_scale.h"

#include <limits>

#include "tests/support/catch.h"

namespace troupe::store {
namespace {

TEST_CASE("an overflow halves the loss scale, calm steps double it", "[loss_scale]") {
  const LossScaleRule rule{8.0, 3};
  LossScale scale{rule.first, 0};
  scale = next_loss_scale(scale, true, rule);
  CHECK(scale == LossScale{4.0, 0});
  scale = next_loss_scale(scale, false, rule);
  scale = next_loss_scale(scale, false, rule);
  CHECK(scale == LossScale{4.0, 2});
  CHECK(next_loss_scale(scale, true, rule) == LossScale{2.0, 0});
  CHECK(next_loss_scale(scale, false, rule) == LossScale{8.0, 0});
}

TEST_CASE("the loss scale stays between 1 and its most", "[loss_scale]") {
  CHECK(next_loss_scale({1.0, 5}, true, {}) == LossScale{1.0, 0});
  CHECK(next_loss_scale({kLossScaleMost, 0}, false, {1.0, 1}) == LossScale{kLossScaleMost, 0});
  const LossScale never = next_loss_scale({4.0, kLossScaleStepsMax}, false, {4.0, 0});
  CHECK(never == LossScale{4.0, kLossScaleStepsMax});
}

TEST_CASE("a loss scale is a power of 2 in its range", "[loss_scale]") {
  CHECK(check_loss_scale({1.0, 1}).ok());
  CHECK(check_loss_scale({kLossScaleMost, kLossScaleStepsMax}).ok());
  const double inf = std::numeric_limits<double>::infinity();
  for (const double bad :
       {0.0, -2.0, 0.5, 3.0, 2 * kLossScaleMost, inf, std::numeric_limits<double>::quiet_NaN()}) {
    CAPTURE(bad);
    CHECK(check_loss_scale({bad, 1}).code() == base::Errc::invalid_argument);
  }
  CHECK_THAT(check_loss_scale({2.0, kLossScaleStepsMax + 1}).text(),
             Catch::Contains("after 16777217 steps"));
}

TEST_CASE("the values of its key hold both numbers", "[loss_scale]") {
  const schemas::KeyInfo key = loss_scale_key(7);
  CHECK(key.id == 7);
  CHECK(key.kind == schemas::KeyKind::loss_scale);
  const base::Buffer values = base::make_host_buffer(
      static_cast<std::size_t>(key.shape.elements()) * base::dtype_size(key.dtype));
  const LossScale scale{32'768.0, kLossScaleStepsMax};
  write_loss_scale(scale, values);
  CHECK(read_loss_scale(values) == scale);
  CHECK(check_loss_scale_values(values).ok());
}

TEST_CASE("values of a file that no loss scale has are refused", "[loss_scale]") {
  const base::Buffer values = base::make_host_buffer(2 * sizeof(float));
  const auto refused = [&values](float scale, float steps) {
    values.as<float>()[0] = scale;
    values.as<float>()[1] = steps;
    return check_loss_scale_values(values).code() == base::Errc::data_loss;
  };
  const float inf = std::numeric_limits<float>::infinity();
  const float nan = std::numeric_limits<float>::quiet_NaN();
  CHECK_FALSE(refused(4.0F, 3.0F));
  for (const float scale : {0.0F, -4.0F, 3.0F, 0.5F, inf, nan}) CHECK(refused(scale, 0.0F));
  for (const float steps : {-1.0F, 0.5F, 1e30F, inf, nan}) CHECK(refused(4.0F, steps));
  CHECK(check_loss_scale_values(base::make_host_buffer(4)).code() == base::Errc::data_loss);
}

}  // namespace
}  // namespace troupe::store
