// SPDX-License-Identifier: Apache-2.0
// A program on an installed Troupe: adds two arrays on an engine of its own. Exit 1: wrong sum.
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
  const auto engine = engine::make_threaded_engine({}, clock);
  ndarray::Runtime runtime{*engine, storage, operators, kernels, clock};

  const std::vector<float> values = {1, 2, 3};
  const auto a = ndarray::NDArray::from<float>(runtime, {3}, values);
  if (!a.ok()) return 1;
  const auto sum = (a.value() + 2 * a.value()).to_vector<float>();
  std::printf("%zu operators\n", operators.all().size());
  return sum.ok() && sum.value() == std::vector<float>{3, 6, 9} ? 0 : 1;
}
