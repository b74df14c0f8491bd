// SPDX-License-Identifier: Apache-2.0
// WeighedAverage: a state's batch value times the batch's count, on its way into the store, where
// averages are added like gradients. Prepared once per executor and state; a step prepares and
// allocates nothing for it. One thread (the module's); what it pushes may end after it.
#pragma once

#include <memory>

#include "base/status.h"
#include "ndarray/ndarray.h"
#include "ndarray/runtime.h"
#include "ops/kernel.h"

namespace troupe::train {

/// See the top of the file.
class WeighedAverage : public std::enable_shared_from_this<WeighedAverage> {
 public:
  /// `sum` = `value` * `count`; `count` is 0-d of the same dtype, `sum` as `value`.
  static base::Result<std::shared_ptr<const WeighedAverage>> create(const ndarray::NDArray& value,
                                                                    const ndarray::NDArray& count,
                                                                    const ndarray::NDArray& sum);

  /// Pushes the product of what `value` and `count` hold then.
  void push(int priority) const;

 private:
  WeighedAverage(std::shared_ptr<const ops::Kernel> kernel, ndarray::NDArray value,
                 ndarray::NDArray count, ndarray::NDArray sum);
  base::Status run(engine::RunContext& lane) const;

  const std::shared_ptr<const ops::Kernel> kernel_;
  const ndarray::NDArray value_, count_, sum_;
};

/// Pushes that `count` (0-d, f32 or f64) holds `number` from now on.
base::Status set_count(const ndarray::NDArray& count, double number);

}  // namespace troupe::train
