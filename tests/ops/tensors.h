// SPDX-License-Identifier: Apache-2.0
// Tensors for the tests of operators: owned memory with guards, random values, conversion between
// dense and blocked layouts, and the running of one call. A test's thread only.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "base/buffer.h"
#include "base/parallel.h"
#include "base/random.h"
#include "ops/table.h"
#include "tests/support/catch.h"
#include "tests/support/layout_offset.h"

namespace troupe::ops::testing {

using base::DType;
using base::Layout;
using base::Shape;

inline constexpr std::byte kGuard{0xa5};
inline constexpr std::size_t kGuardBytes = 64;

/// A tensor with its memory. New memory holds NaN, so that elements nobody wrote show up.
struct Tensor {
  DType dtype = DType::f32;
  Shape shape;
  Layout layout;
  base::Buffer memory;

  Tensor() = default;
  Tensor(DType type, const Shape& extents, const Layout& form = {})
      : dtype(type), shape(extents), layout(form) {
    memory = base::make_host_buffer(bytes() + kGuardBytes);
    std::memset(memory.data(), 0xff, bytes());
    std::memset(memory.data() + bytes(), int(kGuard), kGuardBytes);
  }

  std::size_t bytes() const {
    return std::size_t(layout.buffer_bytes(shape, base::dtype_size(dtype)));
  }
  base::TensorView view() const { return {memory.data(), dtype, shape, layout, {}}; }
  std::int64_t elements() const { return shape.elements(); }
  /// Also where the memory is a part of another tensor's, which has no guard behind it.
  bool guard_intact() const {
    if (memory.size() < bytes() + kGuardBytes) return true;
    return std::all_of(memory.data() + bytes(), memory.data() + bytes() + kGuardBytes,
                       [](std::byte b) { return b == kGuard; });
  }
  Tensor clone() const {
    Tensor copy(dtype, shape, layout);
    std::memcpy(copy.memory.data(), memory.data(), bytes());
    return copy;
  }
  bool same_bits(const Tensor& other) const {
    return dtype == other.dtype && shape == other.shape && layout == other.layout &&
           std::memcmp(memory.data(), other.memory.data(), bytes()) == 0;
  }
  /// Element `i` of a dense tensor as a number.
  double at(std::int64_t i) const {
    double value = 0;
    visit([&](auto* data) { value = double(data[i]); });
    return value;
  }
  void set(std::int64_t i, double value) {
    visit([&](auto* data) { data[i] = static_cast<std::decay_t<decltype(*data)>>(value); });
  }
  template <typename F>
  void visit(F&& f) const {
    void* data = memory.data();
    switch (dtype) {
      case DType::f32:
        return f(static_cast<float*>(data));
      case DType::f64:
        return f(static_cast<double*>(data));
      case DType::f16:
        return f(static_cast<base::F16*>(data));
      case DType::bf16:
        return f(static_cast<base::BF16*>(data));
      case DType::i64:
        return f(static_cast<std::int64_t*>(data));
      case DType::i32:
        return f(static_cast<std::int32_t*>(data));
      case DType::i8:
        return f(static_cast<std::int8_t*>(data));
      case DType::u8:
        return f(static_cast<std::uint8_t*>(data));
      case DType::boolean:
        return f(static_cast<bool*>(data));
    }
    FAIL("unknown dtype");
  }
};

/// The same values in another dtype (dense).
inline Tensor converted(const Tensor& from, DType dtype) {
  Tensor to(dtype, from.shape);
  for (std::int64_t i = 0; i < from.elements(); ++i) to.set(i, from.at(i));
  return to;
}

/// Uniform values in [low, high), or whole numbers there.
inline Tensor random_tensor(DType dtype, const Shape& shape, std::string_view name, double low,
                            double high, bool whole = false) {
  Tensor tensor(dtype, shape);
  const base::RandomKey key = base::random_key(11, name);
  for (std::int64_t i = 0; i < tensor.elements(); ++i) {
    const double unit = base::uniform_f64(base::philox(key, std::uint64_t(i), 0, 0)[0]);
    const double value = low + (high - low) * unit;
    tensor.set(i, whole ? std::floor(value) : double(float(value)));
  }
  return tensor;
}

/// A dense tensor in another layout, padding zero; and back.
inline Tensor packed(const Tensor& dense, const Layout& layout) {
  if (layout.is_dense()) return dense;
  Tensor result(dense.dtype, dense.shape, layout);
  std::memset(result.memory.data(), 0, result.bytes());
  for (std::int64_t i = 0; i < dense.elements(); ++i) {
    result.set(tests::offset_in(layout, dense.shape, i), dense.at(i));
  }
  return result;
}
inline Tensor unpacked(const Tensor& tensor) {
  if (tensor.layout.is_dense()) return tensor;
  Tensor dense(tensor.dtype, tensor.shape);
  for (std::int64_t i = 0; i < dense.elements(); ++i) {
    dense.set(i, tensor.at(tests::offset_in(tensor.layout, tensor.shape, i)));
  }
  return dense;
}
/// True when every byte of the padding is zero.
inline bool padding_is_zero(const Tensor& tensor) {
  const Tensor again = packed(unpacked(tensor), tensor.layout);
  return again.same_bits(tensor);
}

/// ||a - b|| / ||b|| over all elements, or ||a - b|| where b is zero; infinite where either is NaN
/// alone.
inline double distance(const Tensor& a, const Tensor& b) {
  double difference = 0;
  double norm = 0;
  for (std::int64_t i = 0; i < b.elements(); ++i) {
    const double x = a.at(i);
    const double y = b.at(i);
    if (x == y || (std::isnan(x) && std::isnan(y))) {
      norm += std::isfinite(y) ? y * y : 0.0;
      continue;
    }
    difference += (x - y) * (x - y);
    norm += y * y;
  }
  if (std::isnan(difference)) return std::numeric_limits<double>::infinity();
  return std::sqrt(difference) / (norm > 0 ? std::sqrt(norm) : 1.0);
}

/// How to run a call.
struct RunOptions {
  int team = 1;
  base::RandomKey key{42};
  std::int64_t step = 3;
};

/// Runs a prepared kernel on the tensors; scratch is filled with NaN and guarded.
inline void run_kernel(const Kernel& kernel, const std::vector<Tensor>& inputs,
                       const std::vector<Tensor>& outputs, const RunOptions& options) {
  std::vector<base::TensorView> in;
  std::vector<base::TensorView> out;
  for (const Tensor& tensor : inputs) in.push_back(tensor.view());
  for (const Tensor& tensor : outputs) out.push_back(tensor.view());
  const Tensor scratch(DType::u8, Shape{std::int64_t(kernel.scratch_bytes())});
  base::SlotStore slots;
  const KernelContext context{
      .inputs = in,
      .outputs = out,
      .scratch = {scratch.memory.data(), kernel.scratch_bytes()},
      .random_key = options.key,
      .random_step = options.step,
      .team = options.team,
      .slots = &slots,
  };
  base::Status status;
  base::lead_team(options.team, [&] { status = kernel.run(context); });
  INFO(status.to_string());
  REQUIRE(status.ok());
  CHECK(scratch.guard_intact());
  for (const Tensor& tensor : outputs) CHECK(tensor.guard_intact());
}

/// Descriptions of tensors for a call.
inline std::vector<TensorDesc> describe(const std::vector<Tensor>& tensors) {
  std::vector<TensorDesc> list;
  for (const Tensor& tensor : tensors) {
    list.push_back({tensor.dtype, tensor.shape, tensor.layout, false});
  }
  return list;
}
/// Fresh outputs of a call.
inline std::vector<Tensor> make_outputs(const OpCall& call) {
  std::vector<Tensor> outputs;
  for (const TensorDesc& desc : call.outputs) outputs.emplace_back(desc.dtype, desc.shape);
  return outputs;
}

/// One operator on dense tensors, with the reference kernel.
inline std::vector<Tensor> evaluate(const OpDef& op, const Params& params,
                                    const std::vector<Tensor>& inputs,
                                    const RunOptions& options = {}) {
  INFO(op.name);
  auto call = make_call(op, params, describe(inputs));
  INFO(call.status().to_string());
  REQUIRE(call.ok());
  call.value().reference_only = true;
  const auto kernel = prepare(call.value());
  INFO(kernel.status().to_string());
  REQUIRE(kernel.ok());
  const std::vector<Tensor> outputs = make_outputs(call.value());
  run_kernel(*kernel.value(), inputs, outputs, options);
  return outputs;
}
inline std::vector<Tensor> evaluate(const OpTable& table, std::string_view op,
                                    const std::vector<Tensor>& inputs,
                                    const Attributes& attributes = {}) {
  const auto params = parse_params(table.at(op), attributes);
  INFO(params.status().to_string());
  REQUIRE(params.ok());
  return evaluate(table.at(op), params.value(), inputs);
}

/// A graph builder that computes every node at once, in place of a graph.
class Evaluator : public GradientBuilder {
 public:
  Evaluator(const OpTable& table, const Params& params, const std::vector<Tensor>& inputs,
            const std::vector<Tensor>& outputs, const std::vector<Tensor>& output_gradients)
      : table_(table), params_(params), nodes_{inputs, outputs, output_gradients} {}

  std::vector<Value> add(std::string_view op, std::vector<Value> inputs,
                         const Attributes& attributes) override {
    std::vector<Tensor> tensors;
    for (const Value& value : inputs) tensors.push_back(tensor(value));
    nodes_.push_back(call(op, std::move(tensors), attributes));
    std::vector<Value> values;
    for (std::size_t i = 0; i < nodes_.back().size(); ++i) {
      values.push_back({std::int64_t(nodes_.size()) - 1, int(i)});
    }
    return values;
  }
  const Params& params() const override { return params_; }
  int input_count() const override { return int(nodes_[0].size()); }
  Value input(int index) override { return {0, index}; }
  Value output(int index) override { return {1, index}; }
  std::optional<Value> output_gradient(int index) override {
    if (index >= int(nodes_[2].size())) return std::nullopt;
    return Value{2, index};
  }
  bool wanted(int) const override { return true; }
  const Tensor& tensor(const Value& value) const {
    return nodes_.at(std::size_t(value.node)).at(std::size_t(value.output));
  }

 protected:
  /// The results of a call of the gradient.
  virtual std::vector<Tensor> call(std::string_view op, std::vector<Tensor> inputs,
                                   const Attributes& attributes) {
    return evaluate(table_, op, inputs, attributes);
  }
  const OpTable& table_;

 private:
  const Params& params_;
  std::vector<std::vector<Tensor>> nodes_;
};

}  // namespace troupe::ops::testing
