// SPDX-License-Identifier: Apache-2.0
// upsampling: every position of an image as a square of equal ones. Its gradient adds them up.
#include <algorithm>

#include "ops/nn/support.h"
#include "ops/support/axis_copy.h"
#include "ops/support/layout_map.h"

namespace troupe::ops {
namespace {

using base::Errc;
using base::Shape;
using base::Status;

/// Joins the extent of one axis of data with that of the output, which is `scale` times as large.
Status join_extents(Shape& data, Shape& output, int axis, std::int64_t scale) {
  if (data[axis] >= 0) {
    Shape expected = output;
    expected.set(axis, data[axis] * scale);  // 2^40 by a thousand at most
    return refine("output", output, expected);
  }
  if (output[axis] < 0) return {};
  if (output[axis] % scale != 0) {
    return base::error(Errc::invalid_argument, "axis {} of output {} is no multiple of scale {}",
                       axis, output.to_string(), scale);
  }
  data.set(axis, output[axis] / scale);
  return {};
}

Status infer(const Params& p, std::vector<Shape>& in, std::vector<Shape>& out) {
  constexpr std::int64_t kAny = base::kUnknownDim;
  TROUPE_TRY(refine("data", in[0], Shape{kAny, kAny, kAny, kAny}));
  TROUPE_TRY(refine("output", out[0], Shape{in[0][0], in[0][1], kAny, kAny}));
  TROUPE_TRY(refine("data", in[0], Shape{out[0][0], out[0][1], kAny, kAny}));
  for (const int axis : {2, 3}) {
    if (in[0][axis] == 0) {
      return base::error(Errc::invalid_argument, "data {} has an empty image", in[0].to_string());
    }
    TROUPE_TRY(join_extents(in[0], out[0], axis, p.integer("scale")));
  }
  return {};
}

/// Positions hold the channels of one block, one where there are none.
Status run(const OpCall& call, const KernelContext& context) {
  const TensorDesc& data = call.inputs[0];
  const std::int64_t scale = call.params.integer("scale");
  const std::int64_t height = data.shape[2], width = data.shape[3];
  const std::int64_t block = block_along(data.layout, 1);
  const std::int64_t rows = data.shape[0] * ((data.shape[1] + block - 1) / block) * height;
  return with_moved(data.dtype, [&](auto zero) {
    using T = decltype(zero);
    const std::int64_t from_row = width * block, to_row = from_row * scale;
    const std::int64_t row_elements = std::max<std::int64_t>(1, to_row * scale);
    parallel_ranges(
        context, rows,
        [&](std::int64_t begin, std::int64_t end) {
          for (std::int64_t row = begin; row < end; ++row) {
            const T* from = context.inputs[0].raw<T>() + row * from_row;
            T* const first = context.outputs[0].raw<T>() + row * scale * to_row;
            T* to = first;
            for (std::int64_t x = 0; x < width; ++x, from += block) {
              for (std::int64_t i = 0; i < scale; ++i) {
                // A loop: blocks are shorter than what a call of memmove costs.
                for (std::int64_t k = 0; k < block; ++k) *to++ = from[k];
              }
            }
            for (std::int64_t y = 1; y < scale; ++y) to = std::copy_n(first, to_row, to);
          }
        },
        std::max<std::int64_t>(1, kChunkElements / row_elements));
    return Status();
  });
}

/// Only channels may be cut into blocks, and axes must lie in their order.
Status check_blocks(const OpCall& call) {
  const base::Layout& layout = call.inputs[0].layout;
  const bool ordered = std::is_sorted(layout.order.begin(), layout.order.end());
  const bool channels = std::all_of(layout.blocks.begin(), layout.blocks.end(),
                                    [](const base::InnerBlock& block) { return block.axis == 1; });
  if (ordered && channels) return {};
  return base::error(Errc::unimplemented, "only blocks of channels, got {}", layout.to_string());
}

/// The sum over a square is its mean times its positions.
base::Result<std::vector<std::optional<Value>>> gradient(GradientBuilder& b) {
  const std::int64_t scale = b.params().integer("scale");
  const std::string square = to_attribute(Shape{scale, scale});
  const Value mean = b.add1("pooling", {*b.output_gradient(0)},
                            {{"kernel", square}, {"stride", square}, {"pool_type", "avg"}});
  return std::vector<std::optional<Value>>{
      b.add1("multiply_scalar", {mean}, {{"scalar", std::to_string(scale * scale)}})};
}

OpDef upsampling_definition() {
  OpDef op;
  op.name = "upsampling";
  op.mixed = MixedPrecision::as_inputs;
  op.aliases = {"UpSampling"};
  op.doc =
      "data (N, C, H, W) as (N, C, scale * H, scale * W): every position becomes a square of equal "
      "ones. MXNet's other forms are written as other operators: sample_type bilinear is "
      "deconvolution with num_group = num_filter = C, kernel `2 * scale - scale % 2`, stride "
      "`scale` and pad `scale / 2`; several inputs are an upsampling each and a concat or add_n.";
  op.params = {
      {.name = "scale",
       .type = ParamType::integer,
       .doc = "Positions of a square's side.",
       .low = 1,
       .high = 1000},
      {.name = "sample_type",
       .type = ParamType::text,
       .doc = "How positions between those of data are made.",
       .choices = {"nearest"}},
      {.name = "num_args",
       .type = ParamType::integer,
       .doc = "Number of inputs.",
       .low = 1,
       .high = 1},
  };
  op.ignored = {{"num_filter"}, {"multi_input_mode"}, {"workspace"}};
  op.inputs = names({"data"});
  op.outputs = names({"output"});
  op.infer_shape = infer;
  op.gradient = gradient;
  op.keeps_samples = samples_in_data;
  op.accumulates = {0};
  op.kernels = {blocked_copy_kernel(check_blocks, run), moving_kernel(reference_kernel(run))};
  const auto attributes = [](const char* scale) {
    return Attributes{{"scale", scale}, {"sample_type", "nearest"}, {"num_args", "1"}};
  };
  op.samples = {
      {.title = "by 2", .attributes = attributes("2"), .inputs = {{2, 3, 4, 5}}},
      {.title = "by 3, 17 channels", .attributes = attributes("3"), .inputs = {{1, 17, 3, 2}}},
      {.title = "14x14 to 28x28, batch 32",
       .attributes = attributes("2"),
       .inputs = {{32, 64, 14, 14}},
       .gradient = false,
       .benchmark = true},
  };
  return op;
}

}  // namespace

std::span<const OpDef> ops_upsampling() {
  static const std::vector<OpDef> ops = {upsampling_definition()};
  return ops;
}

}  // namespace troupe::ops
