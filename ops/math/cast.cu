// SPDX-License-Identifier: Apache-2.0
// cast and cast_like on GPUs, between all types.
#include <limits>
#include <type_traits>

#include "ops/support/device_copy.h"
#include "ops/table.h"

namespace troupe::ops {
namespace {

/// Between floating types of at most 32 bits, where f32 holds every number.
template <typename From, typename To>
struct NarrowCastAt {
  /// Of which a pack has most elements.
  using Narrow = std::conditional_t<sizeof(From) < sizeof(To), From, To>;
  const From* in;
  To* out;

  TROUPE_HOST_DEVICE void operator()(std::int64_t i) const {
    out[i] = To(static_cast<float>(in[i]));
  }
  TROUPE_HOST_DEVICE void pack(std::int64_t i) const {
    constexpr int kSize = DevicePack<Narrow>::kSize;
    constexpr int kIn = DevicePack<From>::kSize, kOut = DevicePack<To>::kSize;
    From values[kSize];
    TROUPE_UNROLL
    for (int at = 0; at < kSize; at += kIn) {
      const DevicePack<From> some = pack_at(in, i + at);
      TROUPE_UNROLL
      for (int k = 0; k < kIn; ++k) values[at + k] = some.values[k];
    }
    TROUPE_UNROLL
    for (int at = 0; at < kSize; at += kOut) {
      DevicePack<To> some;
      TROUPE_UNROLL
      for (int k = 0; k < kOut; ++k) some.values[k] = To(static_cast<float>(values[at + k]));
      *reinterpret_cast<DevicePack<To>*>(out + i + at) = some;
    }
  }
};

/// From any type: numbers pass through f64 or i64, which hold all of them.
template <typename To>
struct CastAt {
  const void* in;
  base::DType type;
  To* out;

  TROUPE_HOST_DEVICE void operator()(std::int64_t i) const {
    switch (type) {
      case base::DType::f32:
        return store_real(i, static_cast<double>(static_cast<const float*>(in)[i]));
      case base::DType::f64:
        return store_real(i, static_cast<const double*>(in)[i]);
      case base::DType::f16:
        return store_real(i, static_cast<double>(static_cast<const base::F16*>(in)[i]));
      case base::DType::bf16:
        return store_real(i, static_cast<double>(static_cast<const base::BF16*>(in)[i]));
      case base::DType::i64:
        return store_whole(i, static_cast<const std::int64_t*>(in)[i]);
      case base::DType::i32:
        return store_whole(i, static_cast<const std::int32_t*>(in)[i]);
      case base::DType::i8:
        return store_whole(i, static_cast<const std::int8_t*>(in)[i]);
      case base::DType::u8:
        return store_whole(i, static_cast<const std::uint8_t*>(in)[i]);
      case base::DType::boolean:
        return store_whole(i, static_cast<const bool*>(in)[i] ? 1 : 0);
    }
  }

  /// Towards zero, and to the type's ends at most; NaN gives 0.
  TROUPE_HOST_DEVICE void store_real(std::int64_t i, double x) const {
    if constexpr (std::is_same_v<To, bool>) {
      out[i] = x != 0.0;
    } else if constexpr (std::is_integral_v<To>) {
      constexpr To kLow = std::numeric_limits<To>::min(), kHigh = std::numeric_limits<To>::max();
      if (x != x) {
        out[i] = To{0};
      } else if (x <= static_cast<double>(kLow)) {
        out[i] = kLow;
      } else {
        out[i] = x >= static_cast<double>(kHigh) ? kHigh : static_cast<To>(x);
      }
    } else {
      out[i] = To(x);
    }
  }

  /// Wraps.
  TROUPE_HOST_DEVICE void store_whole(std::int64_t i, std::int64_t x) const {
    if constexpr (std::is_same_v<To, bool>) {
      out[i] = x != 0;
    } else if constexpr (sizeof(To) == sizeof(base::F16) && !std::is_integral_v<To>) {
      out[i] = To(static_cast<double>(x));
    } else {
      out[i] = static_cast<To>(x);
    }
  }
};

template <typename To>
base::Status cast_any(const KernelContext& context) {
  const base::TensorView& in = context.inputs[0];
  return for_each_index(context, flat_elements<To>(context),
                        CastAt<To>{in.data, in.dtype, context.outputs[0].as<To>()});
}

template <typename From, typename To>
base::Status cast_narrow(const KernelContext& context) {
  const NarrowCastAt<From, To> cast{context.inputs[0].as<From>(), context.outputs[0].as<To>()};
  using Narrow = typename NarrowCastAt<From, To>::Narrow;
  return for_each_pack<Narrow>(context, flat_elements<To>(context),
                               packs_align(cast.in) && packs_align(cast.out), cast);
}

/// From another type, to a floating type of at most 32 bits.
template <typename To>
base::Status cast_to_narrow(const KernelContext& context) {
  switch (context.inputs[0].dtype) {
    case base::DType::f32:
      return cast_narrow<float, To>(context);
    case base::DType::f16:
      return cast_narrow<base::F16, To>(context);
    case base::DType::bf16:
      return cast_narrow<base::BF16, To>(context);
    default:
      return cast_any<To>(context);
  }
}

base::Status run_cast(const OpCall&, const KernelContext& context) {
  if (context.inputs[0].dtype == context.outputs[0].dtype) return move_all(context);
  switch (context.outputs[0].dtype) {
    case base::DType::f32:
      return cast_to_narrow<float>(context);
    case base::DType::f16:
      return cast_to_narrow<base::F16>(context);
    case base::DType::bf16:
      return cast_to_narrow<base::BF16>(context);
    case base::DType::f64:
      return cast_any<double>(context);
    case base::DType::i64:
      return cast_any<std::int64_t>(context);
    case base::DType::i32:
      return cast_any<std::int32_t>(context);
    case base::DType::i8:
      return cast_any<std::int8_t>(context);
    case base::DType::u8:
      return cast_any<std::uint8_t>(context);
    case base::DType::boolean:
      return cast_any<bool>(context);
  }
  return base::error(base::Errc::internal, "cast to no dtype");
}

}  // namespace

std::span<const BackendKernel> kernels_cast_cuda() {
  static const BackendKernel kernels[] = {{"cast", any_device_kernel(run_cast)},
                                          {"cast_like", any_device_kernel(run_cast)}};
  return kernels;
}

}  // namespace troupe::ops
