// SPDX-License-Identifier: Apache-2.0
// The operator `multiply` with a 0-d operand: a number that changes is no attribute.
#include "train/weighed_average.h"

#include <array>
#include <utility>

#include "ndarray/run_kernel.h"
#include "train/store_arrays.h"

namespace troupe::train {

using ndarray::NDArray;

base::Result<std::shared_ptr<const WeighedAverage>> WeighedAverage::create(const NDArray& value,
                                                                           const NDArray& count,
                                                                           const NDArray& sum) {
  ndarray::Runtime& runtime = value.runtime();
  const ops::OpDef& multiply = runtime.ops.at("multiply");
  TROUPE_TRY_ASSIGN(ops::Params params, ops::parse_params(multiply, {}));
  TROUPE_TRY_ASSIGN(ops::OpCall call, ops::make_call(multiply, std::move(params),
                                                     {{value.dtype(), value.shape(), {}, false},
                                                      {count.dtype(), count.shape(), {}, false}}));
  call.device = value.device();
  call.team = runtime.engine.team({value.device(), engine::LaneKind::compute});
  TROUPE_TRY_ASSIGN(auto kernel, runtime.kernels.get(call));
  TROUPE_CHECK(kernel->scratch_bytes() == 0, "a product needs no scratch");
  return std::shared_ptr<const WeighedAverage>(
      new WeighedAverage(std::move(kernel), value, count, sum));
}

WeighedAverage::WeighedAverage(std::shared_ptr<const ops::Kernel> kernel, NDArray value,
                               NDArray count, NDArray sum)
    : kernel_(std::move(kernel)),
      value_(std::move(value)),
      count_(std::move(count)),
      sum_(std::move(sum)) {}

void WeighedAverage::push(int priority) const {
  engine::Engine& engine = value_.runtime().engine;
  const std::array reads = {value_.variable(), count_.variable()};
  const std::array writes = {sum_.variable()};
  const engine::Operation operation{.name = "weigh",
                                    .reads = reads,
                                    .lane = {value_.device(), engine::LaneKind::compute},
                                    .priority = priority,
                                    .overwrites = writes};
  auto run = [self = shared_from_this()](engine::RunContext& lane) { return self->run(lane); };
  if (ndarray::uses_stream(value_.device())) {
    engine.push_stream(operation, std::move(run));
  } else {
    engine.push(operation, std::move(run));
  }
}

base::Status WeighedAverage::run(engine::RunContext& lane) const {
  const std::array inputs = {value_.view(), count_.view()};
  const std::array outputs = {sum_.view()};
  return ndarray::run_kernel(kernel_, {.inputs = inputs, .outputs = outputs, .fresh = true}, lane);
}

base::Status set_count(const NDArray& count, double number) {
  ndarray::Runtime& runtime = count.runtime();
  TROUPE_TRY_ASSIGN(base::Buffer value,
                    host_pool(runtime.storage, count.device()).allocate(count.bytes(), "counts"));
  value = value.slice(0, count.bytes());
  if (count.dtype() == base::DType::f64) {
    value.as<double>()[0] = number;
  } else {
    value.as<float>()[0] = static_cast<float>(number);
  }
  return count.copy_from(std::move(value));
}

}  // namespace troupe::train
