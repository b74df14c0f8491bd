// SPDX-License-Identifier: Apache-2.0
// pooling (max, avg) and its gradient: definition, reference kernels, samples.
// Max pooling also gives, as a hidden output, which tap of its window each maximum came from; the
// gradient reads that byte instead of data and output. Pure functions of views; any thread.
#include "ops/nn/pooling.h"

#include <cmath>
#include <limits>

#include "ops/nn/support.h"

namespace troupe::ops {
namespace {

using base::DType;
using base::Shape;
using base::Status;

std::vector<ParamDef> params() {
  return {
      spatial("kernel", "(height, width) of the window; not needed for global pooling.", 1),
      spatial("stride", "Steps between windows; () = (1, 1).", 1),
      spatial("pad", "Positions added on both sides of each axis; () = (0, 0).", 0),
      {.name = "pool_type",
       .type = ParamType::text,
       .initial = std::string("max"),
       .doc = "Maximum or mean of each window.",
       .choices = {"max", "avg"}},
      {.name = "global_pool",
       .type = ParamType::boolean,
       .initial = false,
       .doc = "True: one window, the whole plane."},
      {.name = "pooling_convention",
       .type = ParamType::text,
       .initial = std::string("valid"),
       .doc = "valid: only windows inside the padded plane; full: also a last one that hangs over.",
       .choices = {"valid", "full"}},
      {.name = "count_include_pad",
       .type = ParamType::boolean,
       .initial = true,
       .doc = "True: a mean counts the padding inside its window."},
      {.name = "save_indices",
       .type = ParamType::boolean,
       .initial = true,
       .doc = "False: max pooling without its hidden output, for prediction."},
      layout_param(),
  };
}

bool is_max(const Params& p) {
  return p.text("pool_type") == "max";
}
bool has_indices(const Params& p) {
  return is_max(p) && p.boolean("save_indices");
}

/// Windows of fewer than 255 taps are counted in bytes; global ones may have any size.
DType index_dtype(const Params& p) {
  const Shape& kernel = p.shape("kernel");
  constexpr std::int64_t kPositions = 255;
  const bool small = !p.boolean("global_pool") && kernel.complete() && kernel.rank() == 2 &&
                     kernel[0] < kPositions && kernel[1] < kPositions &&
                     kernel[0] * kernel[1] < kPositions;
  return small ? DType::u8 : DType::i32;
}

Status infer(const Params& p, std::vector<Shape>& in, std::vector<Shape>& out) {
  constexpr std::int64_t kAny = base::kUnknownDim;
  TROUPE_TRY(refine("data", in[0], Shape{kAny, kAny, kAny, kAny}));
  TROUPE_TRY(refine("output", out[0], Shape{in[0][0], in[0][1], kAny, kAny}));
  TROUPE_TRY(refine("data", in[0], Shape{out[0][0], out[0][1], kAny, kAny}));
  TROUPE_TRY_ASSIGN(const auto windows, pooling_windows(p, in[0]));
  const bool full = p.text("pooling_convention") == "full";
  if (p.boolean("global_pool") && (in[0][2] == 0 || in[0][3] == 0)) {
    return base::error(base::Errc::invalid_argument, "global pooling of images without pixels: {}",
                       in[0].to_string());
  }
  Shape result{kAny, kAny, 1, 1};
  for (int axis = 0; axis < 2 && !p.boolean("global_pool"); ++axis) {
    const Window& window = windows[static_cast<std::size_t>(axis)];
    if (window.pad >= window.kernel) {
      return base::error(base::Errc::invalid_argument,
                         "pad {} must be smaller than the kernel's {}", window.pad, window.kernel);
    }
    TROUPE_TRY(check_window(window, in[0][axis + 2]));
    result.set(axis + 2, window.outputs(in[0][axis + 2], full));
  }
  TROUPE_TRY(refine("output", out[0], result));
  // Indices count the positions of a window in 32 bits.
  constexpr std::int64_t kPositionsMost = std::numeric_limits<std::int32_t>::max();
  const std::int64_t height = windows[0].kernel, width = windows[1].kernel;
  if (out.size() > 1 && height > 0 && width > kPositionsMost / height) {
    return base::error(base::Errc::invalid_argument,
                       "a window of {} x {} positions; the most is {}", height, width,
                       kPositionsMost);
  }
  return out.size() > 1 ? refine("indices", out[1], out[0]) : Status();
}

Status infer_types(const Params& p, std::vector<std::optional<DType>>& in,
                   std::vector<std::optional<DType>>& out) {
  if (out.size() > 1) TROUPE_TRY(fix_dtype("indices", out[1], index_dtype(p)));
  return unify_floating({&in[0], &out[0]});
}

Status infer_backward(const Params& p, std::vector<Shape>& in, std::vector<Shape>& out) {
  TROUPE_TRY(refine("data", in[1], out[0]));
  std::vector<Shape> inputs = {in[1]};
  std::vector<Shape> outputs(in.begin(), in.end());
  outputs.erase(outputs.begin() + 1);
  TROUPE_TRY(infer(p, inputs, outputs));
  in[0] = outputs[0];
  in[1] = out[0] = inputs[0];
  if (in.size() > 2) in[2] = outputs[1];
  return {};
}

Status infer_backward_types(const Params& p, std::vector<std::optional<DType>>& in,
                            std::vector<std::optional<DType>>& out) {
  if (in.size() > 2) TROUPE_TRY(fix_dtype("indices", in[2], index_dtype(p)));
  return unify_floating({&in[0], &in[1], &out[0]});
}

/// The part of one window that lies inside the input, and what a mean divides by.
struct Patch {
  std::array<std::int64_t, 2> start{}, begin{}, end{};
  std::int64_t divisor = 1;
};

Patch patch(const Pooling& v, std::int64_t y, std::int64_t x) {
  Patch result;
  const std::array<std::int64_t, 2> at = {y, x};
  for (std::size_t axis = 0; axis < 2; ++axis) {
    const Window& w = v.window[axis];
    result.start[axis] = w.position(at[axis], 0);
    const std::int64_t stop = std::min(result.start[axis] + w.kernel, v.input[axis] + w.pad);
    result.begin[axis] = std::max<std::int64_t>(result.start[axis], 0);
    result.end[axis] = std::min(stop, v.input[axis]);
    result.divisor *= v.count_pad
                          ? stop - result.start[axis]
                          : std::max<std::int64_t>(result.end[axis] - result.begin[axis], 0);
  }
  result.divisor = std::max<std::int64_t>(result.divisor, 1);
  return result;
}

/// Calls f(patch, output offset) for every window of a plane.
template <typename F>
void for_windows(const Pooling& v, F&& f) {
  for (std::int64_t y = 0; y < v.output[0]; ++y) {
    for (std::int64_t x = 0; x < v.output[1]; ++x) f(patch(v, y, x), y * v.output[1] + x);
  }
}

/// Calls f(input offset, tap) for every input position of a window.
template <typename F>
void for_positions(const Pooling& v, const Patch& p, F&& f) {
  for (std::int64_t y = p.begin[0]; y < p.end[0]; ++y) {
    for (std::int64_t x = p.begin[1]; x < p.end[1]; ++x) {
      f(y * v.input[1] + x, (y - p.start[0]) * v.window[1].kernel + x - p.start[1]);
    }
  }
}

/// Writes an index of either width.
void store_index(const base::TensorView& view, std::int64_t at, std::int64_t index) {
  if (view.dtype == DType::u8) {
    view.as<std::uint8_t>()[at] = static_cast<std::uint8_t>(index);
  } else {
    view.as<std::int32_t>()[at] = static_cast<std::int32_t>(index);
  }
}

template <typename T>
Status run_forward(const OpCall& call, const KernelContext& c, T) {
  const Pooling v = read_pooling(call.params, call.inputs[0].shape, call.outputs[0].shape);
  const bool indices = has_indices(call.params);
  c.parallel(v.planes, [&](std::int64_t plane) {
    const T* input = c.inputs[0].as<T>() + plane * v.input[0] * v.input[1];
    const std::int64_t base = plane * v.output[0] * v.output[1];
    for_windows(v, [&](const Patch& p, std::int64_t at) {
      double sum = 0.0;
      T best = std::numeric_limits<T>::lowest();
      std::int64_t where = -1;
      for_positions(v, p, [&](std::int64_t from, std::int64_t tap) {
        sum += static_cast<double>(input[from]);
        if (where >= 0 && !(input[from] > best) && !std::isnan(input[from])) return;
        best = input[from];
        where = tap;
      });
      c.outputs[0].as<T>()[base + at] =
          v.max ? best : static_cast<T>(sum / static_cast<double>(p.divisor));
      if (indices) store_index(c.outputs[1], base + at, std::max<std::int64_t>(where, 0));
    });
  });
  return {};
}

/// How far the place of a tap is from that of its window's first tap; bytes that are no tap are far
/// from nothing.
using TapPlaces = std::array<std::int64_t, 256>;

TapPlaces tap_places(const Pooling& v) {
  TapPlaces places{};
  const std::int64_t width = v.window[1].kernel;
  const auto taps = std::min<std::int64_t>(v.window[0].kernel * width, 256);
  for (std::int64_t tap = 0; tap < taps; ++tap) {
    places[std::size_t(tap)] = tap / width * v.input[1] + tap % width;
  }
  return places;
}

/// Adds the gradient of each window of a plane at the tap where its maximum was.
template <typename T, typename Index>
void scatter(const Pooling& v, const TapPlaces& places, const T* gradient, const Index* taps,
             T* output) {
  const Window& rows = v.window[0];
  const Window& columns = v.window[1];
  const auto within = [](std::int64_t begin, std::int64_t end, std::int64_t extent) {
    return begin >= 0 && end <= extent;
  };
  for (std::int64_t y = 0; y < v.output[0]; ++y) {
    const std::int64_t top = rows.position(y, 0);
    const bool rows_within = within(top, top + rows.kernel, v.input[0]);
    for (std::int64_t x = 0; x < v.output[1]; ++x, ++taps, ++gradient) {
      const std::int64_t left = columns.position(x, 0);
      if constexpr (std::is_same_v<Index, std::uint8_t>) {
        if (rows_within && within(left, left + columns.kernel, v.input[1])) {
          output[top * v.input[1] + left + places[*taps]] += *gradient;
          continue;
        }
      }
      // An index that names the padding passes no gradient.
      const std::int64_t row = rows.position(y, *taps / columns.kernel);
      const std::int64_t column = columns.position(x, *taps % columns.kernel);
      if (within(row, row + 1, v.input[0]) && within(column, column + 1, v.input[1])) {
        output[row * v.input[1] + column] += *gradient;
      }
    }
  }
}

/// Adds the gradient of each window of a plane to all its positions, in equal shares.
template <typename T>
void share_out(const Pooling& v, const T* gradient, T* output) {
  for_windows(v, [&](const Patch& p, std::int64_t at) {
    const T share = gradient[at] / static_cast<T>(p.divisor);
    for_positions(v, p, [&](std::int64_t to, std::int64_t) { output[to] += share; });
  });
}

template <typename T>
Status run_backward(const OpCall& call, const KernelContext& c, T) {
  const Pooling v = read_pooling(call.params, call.inputs[1].shape, call.inputs[0].shape);
  const TapPlaces places = tap_places(v);
  c.parallel(v.planes, [&](std::int64_t plane) {
    T* output = c.outputs[0].as<T>() + plane * v.input[0] * v.input[1];
    const std::int64_t base = plane * v.output[0] * v.output[1];
    const T* gradient = c.inputs[0].as<T>() + base;
    std::fill_n(output, v.input[0] * v.input[1], T{0});
    if (!v.max) {
      share_out(v, gradient, output);
    } else if (c.inputs[2].dtype == DType::u8) {
      scatter(v, places, gradient, c.inputs[2].as<std::uint8_t>() + base, output);
    } else {
      scatter(v, places, gradient, c.inputs[2].as<std::int32_t>() + base, output);
    }
  });
  return {};
}

base::Result<std::vector<std::optional<Value>>> gradient(GradientBuilder& b) {
  if (is_max(b.params()) && !has_indices(b.params())) {
    return base::error(base::Errc::invalid_argument,
                       "max pooling with save_indices = False has no gradient");
  }
  std::vector<Value> inputs = {*b.output_gradient(0), b.input(0)};
  if (has_indices(b.params())) inputs.push_back(b.output(1));
  return std::vector<std::optional<Value>>{
      b.add1("pooling_backward", std::move(inputs), b.params().to_attributes())};
}

base::Result<std::vector<Value>> predict_form(GradientBuilder& b) {
  Attributes attributes = b.params().to_attributes();
  // For whoever reads the indices in prediction too: the gradient, as a symbol.
  std::vector<Value> values = b.add("pooling", {b.input(0)}, attributes);
  attributes["save_indices"] = "False";
  values.front() = b.add1("pooling", {b.input(0)}, attributes);
  return values;
}

double flops(const OpCall& call) {
  const bool is_forward = call.op->name == "pooling";
  const TensorDesc& output = is_forward ? call.outputs[0] : call.inputs[0];
  const TensorDesc& data = is_forward ? call.inputs[0] : call.inputs[1];
  const Pooling v = read_pooling(call.params, data.shape, output.shape);
  return static_cast<double>(output.shape.elements()) *
         static_cast<double>(v.window[0].kernel * v.window[1].kernel);
}

struct Case {
  std::string title;
  Attributes attributes;
  Shape data, output;
  bool benchmark = false;
};

std::vector<Case> cases() {
  return {
      {"max 2x2", {{"kernel", "(2, 2)"}, {"stride", "(2, 2)"}}, {2, 3, 6, 8}, {2, 3, 3, 4}},
      {"max, windows aside, a column and a row left",
       {{"kernel", "(3, 2)"}, {"stride", "(3, 2)"}},
       {2, 3, 7, 51},
       {2, 3, 2, 25}},
      {"max, side by side, 16 channels",
       {{"kernel", "(2, 3)"}, {"stride", "(2, 3)"}},
       {2, 16, 4, 6},
       {2, 16, 2, 2}},
      {"max, overlapping, 17 channels",
       {{"kernel", "(3, 3)"}, {"stride", "(2, 2)"}},
       {1, 17, 7, 9},
       {1, 17, 3, 4}},
      {"max, overlapping, 16 channels",
       {{"kernel", "(3, 3)"}, {"stride", "(2, 2)"}, {"pad", "(1, 1)"}},
       {2, 16, 5, 7},
       {2, 16, 3, 4}},
      {"avg, padded, 8 channels",
       {{"kernel", "(2, 3)"}, {"stride", "(1, 2)"}, {"pad", "(1, 1)"}, {"pool_type", "avg"}},
       {2, 8, 4, 5},
       {2, 8, 5, 3}},
      {"avg, padded",
       {{"kernel", "(3, 3)"}, {"stride", "(2, 2)"}, {"pad", "(1, 1)"}, {"pool_type", "avg"}},
       {2, 3, 7, 6},
       {2, 3, 4, 3}},
      {"avg without padding in the mean",
       {{"kernel", "(3, 2)"},
        {"pad", "(1, 1)"},
        {"pool_type", "avg"},
        {"count_include_pad", "False"}},
       {1, 2, 5, 5},
       {1, 2, 5, 6}},
      {"avg, full",
       {{"kernel", "(3, 3)"},
        {"stride", "(2, 2)"},
        {"pool_type", "avg"},
        {"pooling_convention", "full"}},
       {2, 2, 6, 6},
       {2, 2, 3, 3}},
      {"global avg", {{"global_pool", "True"}, {"pool_type", "avg"}}, {2, 5, 4, 3}, {2, 5, 1, 1}},
      {"global max", {{"global_pool", "True"}}, {2, 5, 4, 3}, {2, 5, 1, 1}},
      {"lenet pool1, batch 32",
       {{"kernel", "(2, 2)"}, {"stride", "(2, 2)"}},
       {32, 20, 24, 24},
       {32, 20, 12, 12},
       true},
  };
}

OpDef define_forward() {
  OpDef op;
  op.name = "pooling";
  op.mixed = MixedPrecision::as_inputs;
  op.aliases = {"Pooling"};
  op.ignored = library_choices();
  op.ignored.push_back({"p_value"});
  op.doc =
      "Maximum or mean over windows of data (N, C, H, W). Padding never wins a maximum; a mean "
      "counts it unless `count_include_pad = False`. NaN wins a maximum. The hidden output "
      "`indices` holds row * kernel width + column of each maximum in its window, the first of "
      "equals, but the last NaN.\n\n"
      "With `pooling_convention = full` a last window may lie wholly in the padding: then the "
      "maximum is the lowest finite number, as in MXNet (in 16 bits -inf), the mean is 0, and no "
      "gradient passes.";
  op.params = params();
  op.inputs = names({"data"});
  op.outputs = [](const Params& p) { return with_optional({"output"}, "indices", has_indices(p)); };
  op.visible_outputs = 1;
  op.infer_shape = infer;
  op.infer_dtype = infer_types;
  op.gradient = gradient;
  op.predict_form = predict_form;
  op.keeps_hidden = "save_indices";
  op.accumulates = {0};
  op.keeps_samples = samples_in_data;
  op.flops = flops;
  // Padding alone gives the lowest number, which a relu behind it would change.
  op.commutes_with_relu = [](const Params& p, const Shape& input, const Shape& output) {
    return is_max(p) && !read_pooling(p, input, output).empty_window();
  };
  op.kernels = {floating_kernel([](auto&&... x) { return run_forward(x...); })};
  for (const Case& c : cases()) {
    op.samples.push_back({.title = c.title,
                          .attributes = c.attributes,
                          .inputs = {c.data},
                          .gradient = !c.benchmark,
                          .benchmark = c.benchmark});
  }
  op.samples.push_back({.title = "max, padded and full",
                        .attributes = {{"kernel", "(3, 3)"},
                                       {"stride", "(2, 2)"},
                                       {"pad", "(1, 1)"},
                                       {"pooling_convention", "full"}},
                        .inputs = {{2, 3, 6, 6}}});
  op.samples.push_back(
      {.title = "max, wide dense rows",
       .attributes = {{"kernel", "(3, 5)"}, {"stride", "(1, 3)"}, {"pad", "(1, 2)"}},
       .inputs = {{1, 1, 4, 700}},
       .gradient = false});
  op.samples.push_back(
      {.title = "max, dense rows at stride 2",
       .attributes = {{"kernel", "(3, 3)"}, {"stride", "(2, 2)"}, {"pad", "(1, 1)"}},
       .inputs = {{1, 2, 6, 1100}},
       .gradient = false});
  op.samples.push_back(
      {.title = "max of googlenet pool3, batch 8",
       .attributes = {{"kernel", "(3, 3)"}, {"stride", "(2, 2)"}, {"pooling_convention", "full"}},
       .inputs = {{8, 192, 56, 56}},
       .gradient = false,
       .benchmark = true});
  op.samples.push_back({.title = "max for prediction",
                        .attributes = {{"kernel", "(2, 2)"}, {"save_indices", "False"}},
                        .inputs = {{2, 3, 5, 5}},
                        .gradient = false});
  return op;
}

OpDef define_backward() {
  OpDef op;
  op.name = "pooling_backward";
  op.doc =
      "Gradient of pooling with respect to data: to the maximum's position (max) or in equal "
      "shares to the window (avg).";
  op.params = params();
  op.inputs = [](const Params& p) {
    return with_optional({"output_gradient", "data"}, "indices", is_max(p));
  };
  op.outputs = names({"data_gradient"});
  op.shape_only_inputs = {1};
  op.infer_shape = infer_backward;
  op.infer_dtype = infer_backward_types;
  op.accumulates = {0};
  op.flops = flops;
  op.kernels = {floating_kernel([](auto&&... x) { return run_backward(x...); })};
  for (const Case& c : cases()) {
    Sample sample{.title = c.title,
                  .attributes = c.attributes,
                  .inputs = {c.output, c.data},
                  .gradient = false,
                  .benchmark = c.benchmark};
    if (c.title.find("avg") == std::string::npos) {
      sample.inputs.push_back(c.output);
      // Every index below the smallest window's taps points into each of these cases' windows.
      sample.integers[2] = {0, 4};
    }
    op.samples.push_back(std::move(sample));
  }
  return op;
}

}  // namespace

std::span<const OpDef> ops_pooling() {
  static const std::vector<OpDef> ops = {define_forward(), define_backward()};
  return ops;
}

}  // namespace troupe::ops
