// SPDX-License-Identifier: Apache-2.0
// What random calls of operators are drawn from: parameters and shapes by operator, values, dtypes,
// and tensors between guards. A test's thread only.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <functional>
#include <limits>
#include <map>
#include <numeric>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "ops/support/layout_map.h"
#include "tests/ops/tensors.h"

namespace troupe::ops::testing {

class Random {
 public:
  explicit Random(std::uint64_t seed) : bits_(seed) {}
  std::int64_t in(std::int64_t low, std::int64_t high) {
    return low + std::int64_t(bits_() % std::uint64_t(high - low + 1));
  }
  bool one_in(std::int64_t n) { return in(1, n) == 1; }
  double unit() { return double(bits_() >> 11) * 0x1.0p-53; }
  template <typename T>
  T of(std::initializer_list<T> list) {
    return list.begin()[in(0, std::int64_t(list.size()) - 1)];
  }
  std::string text(std::initializer_list<const char*> list) { return of(list); }
  std::string boolean() { return text({"True", "False"}); }
  /// An extent, 0 now and then, such that `room` elements hold it.
  std::int64_t extent(std::int64_t room) {
    if (one_in(40)) return 0;
    const std::int64_t each = of<std::int64_t>(
        {1, 1, 2, 3, 4, in(1, 9), in(1, 9), in(5, 40),
         of<std::int64_t>({7, 8, 11, 13, 16, 17, 31, 32, 37, 64, 101, 256, 257, 1009})});
    return std::min(each, std::max<std::int64_t>(room, 1));
  }
  Shape shape(int rank_min, int rank_max) {
    const auto rank = in(rank_min, rank_max);
    std::int64_t room = one_in(40) ? 150'000 : 3000;
    std::vector<std::int64_t> dims;
    for (int axis = 0; axis < rank; ++axis) {
      dims.push_back(
          extent(axis + 1 == rank && one_in(3) ? room : std::min<std::int64_t>(room, 300)));
      if (room > 100'000 && axis + 1 == rank) dims.back() = room / 2 + in(0, 7);
      room /= std::max<std::int64_t>(dims.back(), 1);
    }
    if (dims.size() > 1 && one_in(2)) std::swap(dims.front(), dims.back());
    return Shape(dims);
  }
  int axis(const Shape& shape) { return int(in(-shape.rank(), shape.rank() - 1)); }

 private:
  std::mt19937_64 bits_;
};

/// What values inputs get.
enum class Values { plain, ties, special, wide, tiny };

/// A call before inference: shapes that are left out or unknown follow from the others.
struct Draw {
  Attributes attributes;
  std::vector<Shape> shapes;
  std::map<int, std::pair<std::int64_t, std::int64_t>> labels;  ///< inputs with numbers of classes
};
using Maker = std::function<void(Random&, Draw&)>;
using Makers = std::map<std::string, Maker>;

inline std::string list(std::initializer_list<std::int64_t> values) {
  return Shape(values).to_string();
}
inline std::string number(Random& r) {
  return r.text({"0", "1", "-1", "0.5", "3", "-2.5", "0.001", "7", "1e30", "-0.1"});
}
/// Some of the axes of a tensor of this rank, as an attribute.
inline std::string some_axes(Random& r, int rank) {
  std::string text;
  for (int axis = 0; axis < rank; ++axis) {
    if (r.one_in(2)) text += fmt::format("{},", r.one_in(4) ? axis - rank : axis);
  }
  return "(" + text + ")";
}
/// A shape that broadcasts to `shape`; of no fewer axes where `whole`.
inline Shape narrowed(Random& r, const Shape& shape, bool whole = false) {
  Shape result;
  const int first = whole || r.one_in(2) || shape.rank() == 0 ? 0 : int(r.in(0, shape.rank()));
  const bool all = r.one_in(3);
  for (int axis = first; axis < shape.rank(); ++axis) {
    result.push_back(!all && r.one_in(3) ? 1 : shape[axis]);
  }
  return result;
}

inline void add_pointwise(Makers& m) {
  for (const char* name : {"copy", "exp", "log", "negate", "silu", "sqrt", "square", "zeros_like",
                           "ones_like", "stop_gradient", "reorder", "flatten"}) {
    m[name] = [](Random& r, Draw& d) { d.shapes = {r.shape(0, 5)}; };
  }
  for (const char* name : {"add_scalar", "subtract_scalar", "multiply_scalar", "divide_scalar",
                           "reverse_subtract_scalar", "reverse_divide_scalar"}) {
    m[name] = [](Random& r, Draw& d) { d = {{{"scalar", number(r)}}, {r.shape(0, 5)}, {}}; };
  }
  for (const char* name : {"add", "subtract", "multiply", "divide"}) {
    m[name] = [](Random& r, Draw& d) {
      const Shape shape = r.shape(0, 5);
      d.shapes = {narrowed(r, shape), r.one_in(2) ? shape : narrowed(r, shape)};
      if (r.one_in(2)) std::swap(d.shapes[0], d.shapes[1]);
    };
    m[std::string(name) + "_elemwise"] = [](Random& r, Draw& d) { d.shapes = {r.shape(0, 5)}; };
  }
  m["activation"] = [](Random& r, Draw& d) {
    d = {{{"act_type", r.text({"relu", "sigmoid", "tanh", "softrelu", "softsign"})}},
         {r.shape(0, 5)},
         {}};
  };
  m["leaky_relu"] = [](Random& r, Draw& d) {
    const std::string type = r.text({"leaky", "prelu", "elu", "selu", "gelu"});
    d = {{{"act_type", type}, {"slope", r.text({"0.25", "0", "-0.5", "1", "2"})}},
         {r.shape(type == "prelu" ? 2 : 0, 5)},
         {}};
    if (type == "prelu" && r.one_in(3)) d.shapes.push_back({1});
    if (type == "prelu" && d.shapes.size() == 1) d.shapes.push_back({d.shapes[0][1]});
  };
  m["clip"] = [](Random& r, Draw& d) {
    d = {
        {{"a_min", r.text({"-1", "0", "-0.1", "-inf"})}, {"a_max", r.text({"1", "0", "0.3", "6"})}},
        {r.shape(0, 5)},
        {}};
  };
}

inline void add_more_pointwise(Makers& m) {
  m["cast"] = [](Random& r, Draw& d) {
    d = {{{"dtype", r.text({"f32", "f64", "f16", "bf16", "i64", "i32", "i8", "u8", "bool"})}},
         {r.shape(0, 4)},
         {}};
  };
  m["cast_like"] = [](Random& r, Draw& d) { d.shapes = {r.shape(0, 4), r.shape(0, 2)}; };
  m["dropout"] = [](Random& r, Draw& d) {
    d.shapes = {r.shape(1, 4)};
    d.attributes = {{"p", r.text({"0", "0.1", "0.5", "0.9", "1"})}};
    if (r.one_in(3)) d.attributes["axes"] = some_axes(r, d.shapes[0].rank());
  };
  m["add_n"] = [](Random& r, Draw& d) {
    d = {{{"num_args", std::to_string(r.in(1, 9))}}, {r.shape(0, 4)}, {}};
  };
  m["fused_pointwise"] = [](Random& r, Draw& d) {
    const auto inputs = r.in(1, 4), steps = r.in(1, 9);
    std::string text;
    for (std::int64_t step = 0; step < steps; ++step) {
      const auto operand = [&] {
        return step > 0 && r.one_in(2) ? inputs + step - 1 : r.in(0, inputs + step - 1);
      };
      const std::string one =
          r.text({"exp {}", "negate {}", "square {}", "sqrt {}", "log {}", "silu {}", "copy {}",
                  "clip {} a_min=-1 a_max=0.5", "activation {} act_type=tanh",
                  "multiply_scalar {} scalar=3", "leaky_relu {} act_type=elu",
                  "activation {} act_type=relu", "divide_scalar {} scalar=7"});
      const std::string two = r.text({"add", "subtract", "multiply", "divide"});
      text += step > 0 ? "; " : "";
      text += r.one_in(2) ? fmt::format(fmt::runtime(one), operand())
                          : fmt::format("{} {} {}", two, operand(), operand());
    }
    d = {{{"num_args", std::to_string(inputs)}, {"steps", text}}, {r.shape(0, 4)}, {}};
    if (inputs > 1 && r.one_in(3)) d.attributes["numbers"] = list({inputs - 1});
  };
}

inline void add_shapes(Makers& m) {
  for (const char* name : {"broadcast_like", "reduce_to_like"}) {
    const bool from_small = std::string(name) == "broadcast_like";
    m[name] = [from_small](Random& r, Draw& d) {
      const Shape shape = r.shape(0, 5);
      const Shape small = narrowed(r, shape, from_small);
      d.shapes = from_small ? std::vector{small, shape} : std::vector{shape, small};
    };
  }
  m["concat"] = [](Random& r, Draw& d) {
    const Shape shape = r.shape(1, 4);
    const int dim = r.axis(shape);
    d.shapes.assign(std::size_t(r.in(1, 5)), shape);
    for (Shape& each : d.shapes) each.set((dim + shape.rank()) % shape.rank(), r.in(0, 9));
    d.attributes = {{"dim", std::to_string(dim)}};
  };
  m["expand_dims"] = [](Random& r, Draw& d) {
    d.shapes = {r.shape(0, 5)};
    const int rank = d.shapes[0].rank();
    d.attributes = {{"axis", std::to_string(r.in(-rank - 1, rank))}};
  };
}

inline void add_pads_and_forms(Makers& m) {
  m["pad"] = [](Random& r, Draw& d) {
    d.shapes = {r.shape(4, 5)};
    std::string widths = "0,0,0,0";
    for (int axis = 2; axis < d.shapes[0].rank(); ++axis) {
      widths += fmt::format(",{},{}", r.in(0, 3), r.in(0, 3));
    }
    d.attributes = {{"mode", r.text({"constant", "edge", "reflect"})},
                    {"pad_width", "(" + widths + ")"},
                    {"constant_value", number(r)}};
  };
  m["reshape"] = [](Random& r, Draw& d) {
    d = {{{"shape", r.text({"(-1,)", "(0,-1)", "(-2,)", "(-3,-2)", "(-1,0)", "(0,-3)", "(1,-1)",
                            "(-4,1,-1,-2)", "(-1,1,1)", "()", "(2,-1)", "(0,0,-1)"})},
          {"reverse", r.boolean()}},
         {r.shape(0, 4)},
         {}};
  };
  m["reshape_like"] = [](Random& r, Draw& d) {
    const Shape shape = r.shape(0, 4);
    Shape other{shape.elements()};
    if (r.one_in(2)) other.push_back(1);
    d.shapes = {shape, other};
  };
  m["slice_axis"] = [](Random& r, Draw& d) {
    d.shapes = {r.shape(1, 4)};
    const int axis = r.axis(d.shapes[0]);
    const auto extent = d.shapes[0][(axis + d.shapes[0].rank()) % d.shapes[0].rank()];
    const auto begin = r.in(0, extent), end = r.in(begin, extent);
    d.attributes = {
        {"axis", std::to_string(axis)},
        {"begin", std::to_string(r.one_in(4) && begin < extent ? begin - extent : begin)},
        {"end", r.one_in(4) ? "None" : std::to_string(end)}};
  };
}

inline void add_cuts_and_constants(Makers& m) {
  m["split"] = [](Random& r, Draw& d) {
    Shape shape = r.shape(1, 4);
    const int axis = r.axis(shape);
    const auto parts = r.in(1, 6), each = r.one_in(3) ? 1 : r.in(0, 5);
    shape.set((axis + shape.rank()) % shape.rank(), parts * each);
    d = {{{"num_outputs", std::to_string(parts)},
          {"axis", std::to_string(axis)},
          {"squeeze_axis", each == 1 ? r.boolean() : "False"}},
         {shape},
         {}};
  };
  m["transpose"] = [](Random& r, Draw& d) {
    d.shapes = {r.shape(0, 5)};
    std::vector<std::int64_t> axes(std::size_t(d.shapes[0].rank()));
    std::iota(axes.begin(), axes.end(), 0);
    for (std::size_t i = axes.size(); i > 1; --i) {
      std::swap(axes[i - 1], axes[std::size_t(r.in(0, std::int64_t(i) - 1))]);
    }
    if (!r.one_in(5)) d.attributes["axes"] = Shape(axes).to_string();
  };
  m["upsampling"] = [](Random& r, Draw& d) {
    d = {{{"scale", std::to_string(r.in(1, 4))}, {"sample_type", "nearest"}, {"num_args", "1"}},
         {r.shape(4, 4)},
         {}};
  };
  for (const char* name : {"full", "zeros", "ones", "uniform", "normal"}) {
    m[name] = [name](Random& r, Draw& d) {
      d.attributes = {{"shape", r.shape(0, 4).to_string()},
                      {"dtype", r.text({"f32", "f64", "f16", "bf16", "i32"})}};
      if (std::string(name) == "full") d.attributes["value"] = number(r);
    };
  }
}

inline void add_sums(Makers& m) {
  for (const char* name : {"sum", "mean", "max"}) {
    m[name] = [](Random& r, Draw& d) {
      d.shapes = {r.shape(0, 5)};
      d.attributes = {{"axis", some_axes(r, d.shapes[0].rank())},
                      {"keepdims", r.boolean()},
                      {"exclude", r.one_in(4) ? "True" : "False"}};
    };
  }
  m["dot"] = [](Random& r, Draw& d) {
    const std::string a = r.boolean(), b = r.boolean();
    const auto depth = r.extent(300);
    const auto operand = [&](bool first) {
      const Shape rest = r.one_in(4) ? r.shape(0, 2) : Shape{r.extent(70)};
      std::vector<std::int64_t> dims(rest.dims().begin(), rest.dims().end());
      dims.insert(first ? dims.begin() : dims.end(), depth);
      return Shape(dims);
    };
    d = {{{"transpose_a", a}, {"transpose_b", b}},
         {operand(a == "True"), operand(b == "False")},
         {}};
  };
  m["fully_connected"] = [](Random& r, Draw& d) {
    d = {{{"num_hidden", std::to_string(std::max<std::int64_t>(r.extent(70), 1))},
          {"no_bias", r.boolean()},
          {"flatten", r.boolean()}},
         {r.shape(1, 4)},
         {}};
  };
  for (const char* name : {"softmax", "log_softmax"}) {
    m[name] = [](Random& r, Draw& d) {
      d.shapes = {r.shape(1, 4)};
      d.attributes = {{"axis", std::to_string(r.axis(d.shapes[0]))}};
    };
  }
}

inline void add_labelled(Makers& m) {
  const auto ignore = [](Random& r, Draw& d) {
    d.attributes["use_ignore"] = r.boolean();
    d.attributes["ignore_label"] = r.text({"-1", "0", "2", "255"});
  };
  for (const char* name : {"accuracy_count", "cross_entropy_sum", "softmax_cross_entropy"}) {
    const bool matrix = std::string(name) == "softmax_cross_entropy";
    m[name] = [matrix, ignore](Random& r, Draw& d) {
      d.shapes = {r.shape(matrix ? 2 : 1, matrix ? 2 : 4)};
      const int rank = d.shapes[0].rank(), axis = matrix ? 1 : r.axis(d.shapes[0]);
      if (!matrix) d.attributes = {{"axis", std::to_string(axis)}};
      d.labels[1] = {0, d.shapes[0][(axis + rank) % rank]};
      ignore(r, d);
    };
  }
  m["softmax_output"] = [ignore](Random& r, Draw& d) {
    const Shape data = r.shape(2, 4);
    const bool multi = r.one_in(2), keeps = r.one_in(2);
    d = {{{"multi_output", multi ? "True" : "False"},
          {"preserve_shape", keeps ? "True" : "False"},
          {"grad_scale", r.text({"1", "0.5", "-3"})},
          {"smooth_alpha", r.text({"0", "0", "0.1", "1"})}},
         {data},
         {}};
    const int axis = multi ? 1 : data.rank() - 1;
    d.labels[1] = {0, multi || keeps ? data[axis] : data.elements(1, data.rank())};
    Shape kept = data;
    kept.set(1, 1);
    if (multi && r.one_in(3)) d.shapes.push_back(kept);
    ignore(r, d);
  };
}

inline void add_networks(Makers& m) {
  const auto pair = [](Random& r, std::int64_t low, std::int64_t high) {
    const auto one = r.in(low, high);
    return list({one, r.one_in(2) ? one : r.in(low, high)});
  };
  const auto planes = [](Random& r, std::int64_t channels) {
    return Shape{r.in(r.one_in(20) ? 0 : 1, 3), channels, r.in(1, 17), r.in(1, 23)};
  };
  const auto window = [pair](Random& r, Draw& d) {
    const bool usual = r.one_in(3);  // what Winograd's form takes
    d.attributes = {{"kernel", usual ? "(3, 3)" : pair(r, 1, r.one_in(9) ? 7 : 4)}};
    if (usual ? r.one_in(5) : r.one_in(2)) d.attributes["stride"] = pair(r, 1, 4);
    if (usual ? r.one_in(5) : r.one_in(2)) d.attributes["pad"] = pair(r, 0, 4);
    if (usual && !r.one_in(5)) d.attributes["pad"] = "(1, 1)";
  };
  for (const bool turned : {false, true}) {
    m[turned ? "deconvolution" : "convolution"] = [=](Random& r, Draw& d) {
      window(r, d);
      const bool even = r.one_in(2);  // what blocks of channels and Winograd's form take
      const auto some = [&r, even] {
        return even ? r.of<std::int64_t>({8, 16, 16, 24, 32, 48})
                    : r.of<std::int64_t>({1, 2, 3, 4, 8, 16, 17, r.in(1, 33)});
      };
      const auto groups = !even && r.one_in(2) ? r.of<std::int64_t>({2, 3, 8, 16}) : 1;
      const auto of_group = [&r, &some, groups] {
        return groups > 1 && r.one_in(2) ? 1 : std::min<std::int64_t>(some(), 48 / groups);
      };
      const auto each = of_group(), filters = groups * of_group();
      if (r.one_in(even ? 8 : 4)) d.attributes["dilate"] = pair(r, 1, 3);
      d.attributes["num_filter"] = std::to_string(filters);
      d.attributes["num_group"] = std::to_string(groups);
      d.attributes["no_bias"] = r.boolean();
      if (turned && r.one_in(3)) d.attributes["adj"] = pair(r, 0, 2);
      if (turned && r.one_in(6)) d.attributes["target_shape"] = pair(r, 1, 30);
      if (!turned && r.one_in(2)) d.attributes["act_type"] = "relu";
      if (!turned && r.one_in(3)) d.attributes["with_sum"] = "True";
      d.shapes = {planes(r, groups * each)};
    };
  }
  m["pooling"] = [=](Random& r, Draw& d) {
    window(r, d);
    d.attributes["pool_type"] = r.text({"max", "avg"});
    d.attributes["pooling_convention"] = r.text({"valid", "full"});
    d.attributes["count_include_pad"] = r.boolean();
    if (r.one_in(5)) d.attributes["global_pool"] = "True";
    if (r.one_in(4)) d.attributes["save_indices"] = "False";
    d.shapes = {planes(r, r.of<std::int64_t>({1, 3, 8, 16, 17, r.in(0, 40)}))};
  };
}

inline void add_norms_and_updates(Makers& m) {
  m["lrn"] = [](Random& r, Draw& d) {
    d = {{{"nsize", std::to_string(2 * r.in(0, 4) + 1)},
          {"alpha", r.text({"0.0001", "1", "0.1"})},
          {"beta", r.text({"0.75", "0.5", "1", "2"})},
          {"knorm", r.text({"1", "2"})}},
         {r.shape(2, 5)},
         {}};
  };
  for (const char* name : {"batch_norm", "batch_norm_inference", "batch_norm_fold"}) {
    const std::string op = name;
    m[name] = [op](Random& r, Draw& d) {
      d.shapes = {r.shape(op == "batch_norm_fold" ? 1 : 2, 5)};
      d.attributes = {{"eps", r.text({"0.001", "0.00001", "1"})}, {"fix_gamma", r.boolean()}};
      if (op == "batch_norm_fold") {
        d.attributes["no_bias"] = r.boolean();
        return;
      }
      if (r.one_in(2)) d.attributes["axis"] = std::to_string(r.axis(d.shapes[0]));
      if (r.one_in(2)) d.attributes["act_type"] = "relu";
      if (r.one_in(3)) d.attributes["with_sum"] = "True";
      if (op == "batch_norm") d.attributes["use_global_stats"] = r.one_in(4) ? "True" : "False";
    };
  }
  m["add_scaled"] = [](Random& r, Draw& d) { d.shapes = {r.shape(0, 4)}; };
  m["average_update"] = [](Random& r, Draw& d) {
    d = {{{"momentum", r.text({"0.9", "0", "1", "0.5"})}}, {r.shape(0, 4)}, {}};
  };
  for (const bool many : {false, true}) {
    m[many ? "multi_sgd_update" : "sgd_update"] = [many](Random& r, Draw& d) {
      d.attributes = {{"momentum", r.text({"0", "0.9"})},
                      {"wd", r.text({"0", "0.01"})},
                      {"clip_gradient", r.text({"-1", "0", "0.75"})}};
      const auto weights = many ? r.in(1, 5) : 1;
      if (many) d.attributes["num_weights"] = std::to_string(weights);
      for (std::int64_t k = 0; k < weights; ++k) {
        d.shapes.push_back(r.shape(0, 3));
        if (k + 1 < weights) d.shapes.insert(d.shapes.end(), 2, Shape::unknown());
      }
    };
  }
}

/// How calls of each operator that is no other's gradient are drawn.
inline Makers all_makers() {
  Makers m;
  for (const auto add :
       {add_pointwise, add_more_pointwise, add_shapes, add_pads_and_forms, add_cuts_and_constants,
        add_sums, add_labelled, add_networks, add_norms_and_updates}) {
    add(m);
  }
  return m;
}

inline DType draw_dtype(Random& r) {
  return r.of({DType::f32, DType::f32, DType::f32, DType::f32, DType::f64, DType::f64, DType::f16,
               DType::f16, DType::bf16, DType::bf16, DType::bf16, DType::i64, DType::i32, DType::i8,
               DType::u8, DType::boolean});
}

inline double draw_value(Random& r, Values values, DType dtype, bool elementwise) {
  const double inf = std::numeric_limits<double>::infinity();
  const double huge = dtype == DType::f16 ? 6e4 : dtype == DType::f64 ? 1e308 : 3e38;
  const double least = dtype == DType::f16 ? 6e-5 : dtype == DType::f64 ? 2.3e-308 : 1.2e-38;
  const double sign = r.one_in(2) ? 1 : -1;
  if (values == Values::ties) return double(r.in(-2, 2));
  if (values == Values::wide) return sign * std::exp2(40 * r.unit() - 20);
  if (values == Values::tiny) return sign * least * std::exp2(6 * r.unit() - 5);
  if (values == Values::special && r.one_in(elementwise ? 6 : 50)) {
    if (r.one_in(2)) return r.of({std::nan(""), inf, -inf, sign * 0.0});
    return elementwise ? sign * r.of({huge, least, least / 8, 1.0, 88.8, 11.1, 1e-4})
                       : sign * least;
  }
  return sign * 2 * r.unit();
}

inline Tensor draw_tensor(Random& r, const std::string& name, const TensorDesc& desc, Values values,
                          bool elementwise, const std::pair<std::int64_t, std::int64_t>* label) {
  const bool positive = name.find("var") != std::string::npos || name == "probability" ||
                        name == "count" || name == "share";
  Tensor tensor(desc.dtype, desc.shape);
  for (std::int64_t i = 0; i < tensor.elements(); ++i) {
    double value = 0;
    if (label != nullptr) {
      value = double(r.in(label->first, std::max(label->first, label->second - 1)));
    } else if (desc.dtype == DType::boolean) {
      value = double(r.in(0, 1));
    } else if (!base::is_floating(desc.dtype)) {
      value = double(r.in(desc.dtype == DType::u8 ? 0 : -100, 100));
    } else {
      value = draw_value(r, values, desc.dtype, elementwise);
      if (positive) value = std::abs(value) + (values == Values::plain ? 0.05 : 0.0);
    }
    tensor.set(i, value);
  }
  return tensor;
}

/// A tensor between guards, `shift` elements behind where a pool would put it.
inline Tensor guarded(DType dtype, const Shape& shape, const Layout& layout, int poison,
                      std::int64_t shift = 0) {
  Tensor tensor;
  tensor.dtype = dtype;
  tensor.shape = shape;
  tensor.layout = layout;
  const std::size_t before = kGuardBytes + std::size_t(shift) * base::dtype_size(dtype);
  const base::Buffer whole = base::make_host_buffer(before + tensor.bytes() + kGuardBytes);
  std::memset(whole.data(), int(kGuard), whole.size());
  tensor.memory = whole.slice(before, tensor.bytes() + kGuardBytes);
  std::memset(tensor.memory.data(), poison, tensor.bytes());
  return tensor;
}
inline bool guards_intact(const Tensor& tensor) {
  const std::byte* data = tensor.memory.data();
  return tensor.guard_intact() &&
         std::all_of(data - kGuardBytes, data, [](std::byte b) { return b == kGuard; });
}
inline Tensor moved(const Tensor& tensor, std::int64_t shift) {
  Tensor copy = guarded(tensor.dtype, tensor.shape, tensor.layout, 0, shift);
  std::memcpy(copy.memory.data(), tensor.memory.data(), tensor.bytes());
  return copy;
}

/// The same bits, but any NaN for NaN.
inline bool alike(const Tensor& a, const Tensor& b) {
  if (a.same_bits(b)) return true;
  if (!base::is_floating(a.dtype) || a.bytes() != b.bytes()) return false;
  const std::size_t size = base::dtype_size(a.dtype);
  for (std::int64_t i = 0; i < std::int64_t(a.bytes() / size); ++i) {
    if (std::isnan(a.at(i)) && std::isnan(b.at(i))) continue;
    const std::size_t at = std::size_t(i) * size;
    if (std::memcmp(a.memory.data() + at, b.memory.data() + at, size) != 0) return false;
  }
  return true;
}

/// Dense, or with the channels last or in blocks.
inline Layout draw_layout(Random& r, const Shape& shape) {
  if (shape.rank() < 2 || r.one_in(3)) return {};
  Layout layout;
  layout.kind = Layout::Kind::blocked;
  layout.order.push_back(0);
  const bool last = r.one_in(2);
  for (int axis = last ? 2 : 1; axis < shape.rank(); ++axis) layout.order.push_back(axis);
  if (last) layout.order.push_back(1);
  if (!last || r.one_in(8)) layout.blocks.push_back({1, r.of<std::int64_t>({4, 8, 16})});
  return layout_for(layout, shape);
}

/// Operators that only move elements: any kernel gives the reference's bits.
inline bool moves(const OpDef& op) {
  static const std::set<std::string> names = {
      "concat",  "concat_backward", "split",         "slice_axis", "slice_axis_backward",
      "reshape", "transpose",       "expand_dims",   "copy",       "flatten",
      "reorder", "reshape_like",    "stop_gradient", "upsampling", "broadcast_like"};
  return names.contains(op.name);
}
/// Operators whose kernels may spread NaN and infinity over padding or a tile.
inline bool spreads(const OpDef& op) {
  return op.name.find("convolution") != std::string::npos;
}

/// The rows [begin, begin + rows) of a dense tensor.
inline Tensor rows_of(const Tensor& tensor, std::int64_t begin, std::int64_t rows) {
  Shape shape = tensor.shape;
  shape.set(0, rows);
  Tensor result(tensor.dtype, shape);
  const std::size_t row = tensor.bytes() / std::size_t(tensor.shape[0]);
  std::memcpy(result.memory.data(), tensor.memory.data() + row * std::size_t(begin),
              result.bytes());
  return result;
}

inline std::int64_t environment(const char* name, std::int64_t otherwise) {
  const char* text = std::getenv(name);
  return text != nullptr ? std::strtoll(text, nullptr, 10) : otherwise;
}
inline bool left_out(const OpDef& op) {
  const char* only = std::getenv("TROUPE_FUZZ_OP");
  return only != nullptr && op.name.find(only) == std::string::npos;
}

}  // namespace troupe::ops::testing
