// SPDX-License-Identifier: Apache-2.0
// Channels that are filled up with zeros and cut again, on the host.
#include "ops/nn/device_channels.h"

#include "tests/ops/tensors.h"
#include "tests/support/catch.h"

namespace troupe::ops {
namespace {

using base::DType;
using base::Shape;
using testing::Tensor;

/// Runs f(context) on the host.
template <typename F>
void on_host(F f) {
  KernelContext context{};
  context.team = 2;
  base::Status status;
  base::lead_team(context.team, [&] { status = f(context); });
  INFO(status.to_string());
  CHECK(status.ok());
}

TEST_CASE("rows of channels are filled up with zeros, and cut to what they were",
          "[device_channels]") {
  for (const DType dtype : {DType::f32, DType::bf16, DType::f16, DType::f64}) {
    for (const std::int64_t channels : {1, 3, 5}) {
      INFO(base::dtype_name(dtype) << ", " << channels << " channels");
      constexpr std::int64_t kWide = 8, kRows = 2 * 3 * 4;
      const Shape shape{2, channels, 3, 4};
      // Its elements count as lying in the order (2, 3, 4, channels).
      const Tensor own = testing::random_tensor(dtype, shape, "own", -1, 1);
      const Tensor filled = testing::random_tensor(dtype, Shape{kRows, kWide}, "old", 2, 3);
      on_host([&](const KernelContext& context) {
        return fill_channels(context, own.view(), kWide, filled.view().data);
      });
      CHECK(filled.guard_intact());
      std::int64_t wrong = 0;
      for (std::int64_t i = 0; i < kRows * kWide; ++i) {
        const std::int64_t channel = i % kWide;
        const double right = channel < channels ? own.at(i / kWide * channels + channel) : 0.0;
        wrong += filled.at(i) != right;
      }
      CHECK(wrong == 0);

      const Tensor cut = testing::random_tensor(dtype, shape, "before", -1, 1);
      for (const bool adds : {false, true}) {
        on_host([&](const KernelContext& context) {
          return cut_channels(context, filled.view().data, kWide, cut.view(), adds);
        });
        CHECK(cut.guard_intact());
        for (std::int64_t i = 0; i < cut.elements(); ++i) {
          const double once = own.at(i);
          wrong += cut.at(i) != (adds ? once + once : once);
        }
      }
      CHECK(wrong == 0);
    }
  }
}

}  // namespace
}  // namespace troupe::ops
