// SPDX-License-Identifier: Apache-2.0
// A program on an installed Troupe: computes with arrays on an engine of its own, which leads two
// threads. Exit 1: a wrong result.
#include <cstdio>
#include <vector>

#include <troupe/ndarray/invoke.h>
#include <troupe/ndarray/runtime.h>
#include <troupe/symbol/symbol.h>

using namespace troupe;

int main() {
  base::SteadyClock clock;
  storage::Storage storage;
  const ops::OpTable operators = ops::OpTable::build();
  ndarray::PreparedKernels kernels;
  const auto engine = engine::make_threaded_engine({.threads = 2}, clock);
  ndarray::Runtime runtime{*engine, storage, operators, kernels, clock};

  const std::vector<float> values = {1, 2, 3};
  const auto a = ndarray::NDArray::from<float>(runtime, {3}, values);
  if (!a.ok()) return 1;
  const auto sum = (a.value() + 2 * a.value()).to_vector<float>();
  if (!sum.ok() || sum.value() != std::vector<float>{3, 6, 9}) return 1;

  const std::vector<float> pixels(4 * 64 * 16 * 16, 1.0F);
  const std::vector<float> taps(64 * 64 * 3 * 3, 1.0F);
  const auto data = ndarray::NDArray::from<float>(runtime, {4, 64, 16, 16}, pixels);
  const auto weight = ndarray::NDArray::from<float>(runtime, {64, 64, 3, 3}, taps);
  const auto blurred =
      ndarray::call(runtime, "convolution", {data.value(), weight.value()},
                    {{"kernel", "(3, 3)"}, {"num_filter", "64"}, {"no_bias", "True"}});
  const auto result = blurred.to_vector<float>();
  if (!result.ok()) return std::fprintf(stderr, "%s\n", result.status().to_string().c_str()), 1;
  for (const float value : result.value()) {
    if (value != 64 * 3 * 3) return std::fprintf(stderr, "%g\n", value), 1;
  }
  std::printf("%zu operators\n", operators.all().size());
  return 0;
}
