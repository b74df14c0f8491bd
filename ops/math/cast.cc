// SPDX-License-Identifier: Apache-2.0
// cast: the same values in another dtype; cast_like, its gradient.
#include <cmath>
#include <type_traits>

#include "ops/op.h"
#include "ops/support/chunks.h"

namespace troupe::ops {
namespace {

using base::DType;
using base::Status;

/// f(T{}) for every dtype.
template <typename F>
Status with_any(DType dtype, F&& f) {
  switch (dtype) {
    case DType::f32:
      return f(float{});
    case DType::f64:
      return f(double{});
    case DType::f16:
      return f(base::F16{});
    case DType::bf16:
      return f(base::BF16{});
    case DType::i64:
      return f(std::int64_t{});
    case DType::i32:
      return f(std::int32_t{});
    case DType::i8:
      return f(std::int8_t{});
    case DType::u8:
      return f(std::uint8_t{});
    case DType::boolean:
      return f(bool{});
  }
  return base::error(base::Errc::internal, "no such dtype: {}", static_cast<int>(dtype));
}

template <typename T>
constexpr bool kIs16Bit = std::is_same_v<T, base::F16> || std::is_same_v<T, base::BF16>;

/// Floating values go towards zero and stop at the integer type's ends, NaN gives 0; integers wrap.
template <typename To, typename From>
To cast_value(From x) {
  if constexpr (std::is_same_v<To, From>) {
    return x;
  } else if constexpr (kIs16Bit<From>) {
    return cast_value<To>(static_cast<float>(x));
  } else if constexpr (kIs16Bit<To>) {
    return To(static_cast<double>(x));
  } else if constexpr (std::is_same_v<To, bool>) {
    return x != From{0};
  } else if constexpr (std::is_floating_point_v<From> && std::is_integral_v<To>) {
    using Limits = std::numeric_limits<To>;
    if (std::isnan(x)) return To{0};
    const double value = static_cast<double>(x);
    if (value <= static_cast<double>(Limits::min())) return Limits::min();
    if (value >= static_cast<double>(Limits::max())) return Limits::max();
    return static_cast<To>(value);
  } else {
    return static_cast<To>(x);
  }
}

Status run(const OpCall&, const KernelContext& context) {
  return with_any(context.inputs[0].dtype, [&](auto from_zero) {
    return with_any(context.outputs[0].dtype, [&](auto to_zero) {
      using From = decltype(from_zero);
      using To = decltype(to_zero);
      const From* x = context.inputs[0].as<From>();
      To* out = context.outputs[0].as<To>();
      parallel_ranges(context, context.outputs[0].elements(), [=](auto begin, auto end) {
        for (auto i = begin; i < end; ++i) out[i] = cast_value<To>(x[i]);
      });
      return Status();
    });
  });
}

/// Sets a dtype that is not known yet; another one is an error.
Status set_dtype(std::optional<DType>& dtype, std::optional<DType> value) {
  if (!value) return {};
  if (dtype && *dtype != *value) {
    return base::error(base::Errc::invalid_argument, "dtype {} where {} is expected",
                       base::dtype_name(*dtype), base::dtype_name(*value));
  }
  dtype = value;
  return {};
}

KernelDef cast_kernel() {
  KernelDef kernel = reference_kernel(run);
  kernel.takes_16_bits = true;
  return kernel;
}

OpDef cast_definition() {
  OpDef op;
  op.name = "cast";
  op.aliases = {"Cast"};
  op.doc =
      "`data` in another dtype. From floating to integer types values go towards zero and stop at "
      "the type's ends; NaN gives 0. To types of 16 bits they are rounded to the nearest.";
  op.params = {{"dtype", ParamType::dtype, std::nullopt, "The output's dtype."}};
  op.inputs = names({"data"});
  op.outputs = names({"out"});
  op.infer_dtype = [](const Params& params, auto& inputs, auto& outputs) {
    TROUPE_TRY(set_dtype(inputs[0], inputs[0]));
    return set_dtype(outputs[0], params.dtype("dtype"));
  };
  op.gradient = [](GradientBuilder& b) -> base::Result<std::vector<std::optional<Value>>> {
    return {{b.add1("cast_like", {*b.output_gradient(0), b.input(0)})}};
  };
  op.elementwise = true;
  op.maps_zero_to_zero = always;
  op.prepares_weights = true;
  op.kernels = {cast_kernel()};
  op.samples = {{.title = "to f64", .attributes = {{"dtype", "f64"}}, .inputs = {{3, 5}}},
                {.title = "to i32",
                 .attributes = {{"dtype", "i32"}},
                 .inputs = {{3, 5}},
                 .low = -9.0,
                 .high = 9.0,
                 .gradient = false}};
  return op;
}

OpDef cast_like_definition() {
  OpDef op;
  op.name = "cast_like";
  op.doc = "`data` in the dtype of `like`.";
  op.inputs = names({"data", "like"});
  op.outputs = names({"out"});
  op.infer_dtype = [](const Params&, auto& inputs, auto& outputs) {
    TROUPE_TRY(set_dtype(outputs[0], inputs[1]));
    return set_dtype(inputs[1], outputs[0]);
  };
  op.shape_only_inputs = {1};
  op.elementwise = true;
  op.maps_zero_to_zero = always;
  op.kernels = {cast_kernel()};
  op.samples = {{.title = "matrix", .inputs = {{3, 5}, {3, 5}}, .gradient = false}};
  return op;
}

}  // namespace

std::span<const OpDef> ops_cast() {
  static const std::vector<OpDef> operators = {cast_definition(), cast_like_definition()};
  return operators;
}

}  // namespace troupe::ops
