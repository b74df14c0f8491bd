// SPDX-License-Identifier: Apache-2.0
// Networks are made call by call: what does not fit is no call.
#include "tests/symbol/random_graphs.h"

#include <fmt/core.h>

#include <algorithm>
#include <optional>
#include <set>
#include <string_view>

#include "tests/symbol/bound.h"

namespace troupe::symbol {
namespace {

using base::Shape;
using ops::Attributes;
using Indices = std::vector<std::size_t>;
using Variables = std::map<std::string, Symbol>;

/// Empty: there is no such call.
Symbol called(const Call& call, const std::vector<Symbol>& values, Variables& variables) {
  Composer c(table());
  if (call.op.empty()) return c.variable(call.name);
  Inputs inputs;
  for (const std::size_t input : call.inputs) inputs.positional.push_back(values[input]);
  for (const auto& [input, name] : call.named) {
    Symbol& variable = variables.emplace(name, c.variable(name)).first->second;
    // Weights that are computed.
    const bool bare = !name.ends_with("_tanh");
    inputs.named[input] =
        bare ? variable
             : c.call("activation", call.name + "_tanh", {variable}, {{"act_type", "tanh"}});
  }
  const auto made = c.finish(c.call(call.op, call.name, inputs, call.attributes));
  return made.ok() ? made.value() : Symbol();
}

/// `value` with noise of its own on the way forward and on the way back.
Symbol with_noise(const Symbol& value, const std::string& name) {
  Composer c(table());
  const Symbol both = c.call("multiply", name + "_both", {value, c.variable(name + "_noise")});
  const Symbol ahead =
      c.call("multiply", name + "_ahead", {value, c.variable(name + "_ahead_noise")});
  const Symbol kept = c.call("stop_gradient", name + "_kept", {ahead});
  return c.finish(c.call("add", name + "_noisy", {both, kept})).value();
}

}  // namespace

Symbol built(const Recipe& recipe, bool noisy) {
  std::vector<Symbol> values, exact, heads;
  Variables variables;
  for (const Call& call : recipe.calls) {
    const Symbol outputs = called(call, values, variables);
    const bool plain = !noisy || call.op.empty();
    for (std::size_t k = 0; k < outputs.output_count(); ++k) {
      const std::string name = fmt::format("{}_{}", call.name, k);
      values.push_back(plain ? outputs[k] : with_noise(outputs[k], name));
      // A loss must be a head itself.
      exact.push_back(!plain && table().at(call.op).is_loss ? outputs[k] : values.back());
    }
  }
  for (const std::size_t head : recipe.heads) heads.push_back(exact[head]);
  return Symbol::group(heads);
}

std::map<std::string, Shape> known_shapes(const Recipe& recipe, const Symbol& net) {
  std::map<std::string, Shape> known;
  const Names arguments = net.list_arguments();
  for (const Call& call : recipe.calls) {
    for (std::size_t k = 0; k < call.shapes.size(); ++k) {
      for (const std::string& name :
           {call.op.empty() ? call.name : "", fmt::format("{}_{}_noise", call.name, k),
            fmt::format("{}_{}_ahead_noise", call.name, k)}) {
        if (std::ranges::find(arguments, name) != arguments.end()) known[name] = call.shapes[k];
      }
    }
  }
  return known;
}

std::string text_of(const Recipe& recipe) {
  Indices call_of;
  for (std::size_t i = 0; i < recipe.calls.size(); ++i) {
    call_of.insert(call_of.end(), recipe.calls[i].shapes.size(), i);
  }
  std::set<std::size_t> used;
  for (const std::size_t head : recipe.heads) used.insert(call_of[head]);
  for (std::size_t i = recipe.calls.size(); i-- > 0;) {
    if (!used.contains(i)) continue;
    for (const std::size_t input : recipe.calls[i].inputs) used.insert(call_of[input]);
  }
  std::string text;
  for (std::size_t i = 0, value = 0; i < recipe.calls.size(); ++i) {
    const Call& call = recipe.calls[i];
    std::string line = call.op.empty() ? "variable " + call.name : call.op + " " + call.name;
    for (const std::size_t input : call.inputs) line += fmt::format(" %{}", input);
    for (const auto& [input, name] : call.named) line += fmt::format(" {}: {}", input, name);
    for (const auto& [key, setting] : call.attributes) line += fmt::format(" {}={}", key, setting);
    line += " ->";
    for (const Shape& shape : call.shapes)
      line += fmt::format(" %{} {}", value++, shape.to_string());
    if (used.contains(i)) text += line + "\n";
  }
  text += "heads";
  for (const std::size_t head : recipe.heads) text += fmt::format(" %{}", head);
  return text;
}

namespace {

/// Calls by how often they are made, the rank of their first input (0: any), and how many inputs
/// they have: 1; 2 of one shape, mostly; several of one shape (9). Of attributes' values in bars,
/// one is taken; "$axis" is one of the input's, "$from" its channels. What does not fit is no call.
struct Kind {
  std::size_t share;
  int rank;
  std::size_t inputs;
  const char* op;
  const char* attributes;
};

constexpr std::size_t kConvolutions = 5;  // the first ones
constexpr Kind kKinds[] = {
    {5, 4, 1, "convolution",
     "kernel=(3, 3);pad=(1, 1);stride=(1, 1)|(1, 1)|(2, 2)|(3, 1);num_filter=$filters;"
     "no_bias=True|False"},
    {3, 4, 1, "convolution",
     "kernel=(1, 1);stride=(1, 1)|(1, 1)|(2, 2);num_filter=$filters;no_bias=True|False"},
    {3, 4, 1, "convolution",
     "kernel=(3, 3);pad=(1, 1)|(0, 0)|(2, 2);dilate=(1, 1)|(2, 2);stride=(1, 1)|(2, 2);"
     "num_group=$from;num_filter=$from;no_bias=True|False"},
    {2, 4, 1, "convolution",
     "kernel=(1, 1)|(3, 3);pad=(0, 0)|(1, 1);num_group=2|4|8;num_filter=8|16|32"},
    {3, 4, 1, "convolution",
     "kernel=(5, 5)|(3, 3)|(2, 2)|(3, 1)|(1, 3);pad=(0, 0)|(1, 0)|(2, 2);stride=(1, 1)|(2, 2);"
     "dilate=(1, 1)|(1, 1)|(2, 2);num_filter=$filters"},
    {3, 4, 1, "deconvolution",
     "kernel=(1, 1)|(2, 2)|(3, 3)|(4, 4);stride=(1, 1)|(2, 2);pad=(0, 0)|(1, 0)|(1, 1);"
     "num_filter=$filters;no_bias=True|False"},
    {1, 4, 1, "deconvolution",
     "kernel=(2, 2)|(3, 3);stride=(2, 2);num_filter=$from;num_group=$from"},
    {6, 4, 1, "pooling",
     "kernel=(2, 2)|(3, 3)|(1, 1)|(3, 1);stride=(2, 2)|(1, 1)|(3, 3);pad=(0, 0)|(0, 0)|(1, 0)|(1, "
     "1);"
     "pool_type=max|max|avg;pooling_convention=valid|full;count_include_pad=True|False"},
    {2, 4, 1, "pooling", "global_pool=True;pool_type=max|avg"},
    {6, 4, 1, "batch_norm", "fix_gamma=True|False;use_global_stats=False|False|True"},
    {3, 0, 1, "batch_norm", "fix_gamma=True|False;eps=0.00002;axis=1|-1|$axis"},
    {1, 4, 1, "upsampling", "scale=1|2|3;sample_type=nearest;num_args=1"},
    {2, 4, 1, "pad",
     "mode=constant|edge|reflect;pad_width=(0, 0, 0, 0, 1, 0, 2, 1)|(0, 0, 0, 0, 0, 1, 0, 0);"
     "constant_value=0|0.5"},
    {2, 0, 1, "lrn", "nsize=1|3|5;alpha=0.1"},
    {7, 0, 1, "activation", "act_type=relu|relu|relu|sigmoid|tanh|softrelu|softsign"},
    {2, 0, 1, "leaky_relu", "act_type=leaky|elu|selu|gelu|prelu;slope=0.25|0.1|-0.5"},
    {2, 0, 1, "add_scalar", "scalar=0.5|-1.5"},
    {2, 0, 1, "multiply_scalar", "scalar=0.5|-1.5|2"},
    {1, 0, 1, "reverse_subtract_scalar", "scalar=1"},
    {1, 0, 1, "divide_scalar", "scalar=3"},
    {1, 0, 1, "clip", "a_min=-0.7;a_max=0.9"},
    {2, 0, 1, "dropout", "p=0.3|0.5;mode=training|training|always;axes=()|()|(0,)|(1,)"},
    {1, 0, 1, "copy", ""},
    {1, 0, 1, "stop_gradient", ""},
    {1, 0, 1, "ones_like", ""},
    {1, 0, 1, "silu", ""},
    {1, 0, 1, "negate", ""},
    {1, 0, 1, "square", ""},
    {1, 0, 1, "softmax", "axis=-1|1|$axis"},
    {1, 0, 1, "log_softmax", "axis=-1|1|$axis"},
    {1, 0, 1, "sum", "axis=($axis,)|();keepdims=True|False"},
    {1, 0, 1, "mean", "axis=($axis,);keepdims=True|False"},
    {1, 0, 1, "max", "axis=($axis,);keepdims=True|False"},
    {3, 0, 1, "flatten", ""},
    {1, 2, 1, "reshape", "shape=(0, -1, 1, 1)|(0, -1, 2, 2)|(-1, 0)"},
    {1, 0, 1, "reshape", "shape=(0, -1)|(-1, 0)|(-3, -2)|(0, 0, -1)"},
    {1, 0, 1, "expand_dims", "axis=0|1|-1|$axis"},
    {2, 4, 1, "transpose", "axes=(0, 2, 3, 1)|(1, 0, 2, 3)|(0, 1, 3, 2)|(0, 3, 1, 2)"},
    {1, 0, 1, "transpose", ""},
    {4, 0, 1, "slice_axis", "axis=1|1|$axis;begin=0|0|1|-2|8|16;end=None|None|1|2|-1|16"},
    {3, 0, 1, "split", "num_outputs=1|2|2|3|4;axis=1|1|$axis;squeeze_axis=False|False|True"},
    {3, 0, 1, "fully_connected", "num_hidden=1|3|8|10|17;no_bias=True|False;flatten=True"},
    {2, 0, 1, "fully_connected", "num_hidden=5|16;no_bias=True|False;flatten=False"},
    {4, 0, 2, "add", ""},
    {3, 0, 2, "add_elemwise", ""},
    {2, 0, 2, "subtract", ""},
    {3, 0, 2, "multiply", ""},
    {1, 0, 2, "reshape_like", ""},
    {1, 0, 2, "broadcast_like", ""},
    {1, 0, 2, "reduce_to_like", ""},
    {1, 0, 2, "dot", "transpose_a=True|False;transpose_b=True|False"},
    {3, 0, 9, "add_n", "num_args=$inputs"},
    {3, 0, 9, "concat", "num_args=$inputs;dim=1|1|$axis"},
};

constexpr std::int64_t kElementsMost = 12'000, kElementsOfLarge = 60'000;  // of a value

class Maker {
 public:
  explicit Maker(std::uint64_t seed) : random_(seed) {
    recipe_.seed = seed;
    large_ = random_.chance(30);
  }

  Recipe make() {
    const auto batch = static_cast<std::int64_t>(1 + random_.below(7));
    for (std::size_t i = random_.below(3) + 1; i-- > 0;) {
      const std::int64_t side = size();
      variable({batch, channels(), side, random_.chance(70) ? side : size()});
    }
    if (random_.chance(30)) variable({batch, channels()});
    const std::size_t calls = recipe_.calls.size() + 2 + random_.below(large_ ? 8 : 15);
    for (int tries = 0; tries < 100 && recipe_.calls.size() < calls; ++tries) step();
    if (random_.chance(50)) loss();
    choose_heads();
    return recipe_;
  }

 private:
  std::int64_t size() {
    if (large_) return random_.of<std::int64_t>({8, 12, 14, 16});
    return random_.of<std::int64_t>({1, 2, 3, 4, 5, 6, 7, 8, 9, 12});
  }
  std::int64_t channels() {
    if (large_) return random_.of<std::int64_t>({8, 16, 16, 20, 32, 32, 48});
    return random_.of<std::int64_t>({1, 2, 3, 5, 8, 16, 16, 17, 24, 32});
  }
  std::size_t last() const { return shapes_.size() - 1; }
  std::int64_t extent(std::size_t value, std::size_t axis) const {
    return shapes_[value].dims()[axis];
  }
  /// A value, a new one rather.
  std::size_t any() {
    return random_.chance(60) ? last() - random_.below(std::min<std::size_t>(shapes_.size(), 3))
                              : random_.below(shapes_.size());
  }
  /// Another of the same shape but for one axis; failing that, the value itself.
  std::size_t like(std::size_t value, std::size_t but = 9) {
    for (int i = 0; i < 10; ++i) {
      const std::size_t other = any();
      Shape shape = shapes_[other];
      if (other == value || shape.rank() != shapes_[value].rank()) continue;
      const int axis = static_cast<int>(but);
      if (axis < shape.rank()) shape.set(axis, shapes_[value][axis]);
      if (shape == shapes_[value]) return other;
    }
    return value;
  }

  void variable(const Shape& shape) {
    // What is no parameter, by its name, has samples if its first extent is the batch's.
    const char* kind = random_.chance(50) ? "x{}" : "x{}_label";
    const std::size_t number = recipe_.calls.size();
    keep({.op = "",
          .name = number == 0 ? "data" : fmt::format(fmt::runtime(kind), number),
          .shapes = {shape}});
  }

  void keep(Call call) {
    const Symbol outputs = called(call, values_, variables_);
    for (std::size_t k = 0; k < call.shapes.size(); ++k) values_.push_back(outputs[k]);
    shapes_.insert(shapes_.end(), call.shapes.begin(), call.shapes.end());
    recipe_.calls.push_back(std::move(call));
  }

  /// Adds the call if it is one.
  bool add(const std::string& op, Indices inputs, Attributes attributes = {},
           std::map<std::string, std::string> named = {}) {
    Call call{op, fmt::format("{}{}", op, recipe_.calls.size()), std::move(inputs),
              std::move(attributes), std::move(named)};
    Variables variables = variables_;
    const Symbol outputs = called(call, values_, variables);
    if (outputs.output_count() == 0) return false;
    const auto inferred = outputs.infer_shapes(known_shapes(recipe_, outputs));
    if (!inferred.ok() || !inferred.value().complete) return false;
    call.shapes = inferred.value().outputs;
    for (const Shape& shape : call.shapes) {
      const std::int64_t elements = shape.elements();
      if (elements == 0 || elements > (large_ ? kElementsOfLarge : kElementsMost) ||
          shape.rank() > 5)
        return false;
    }
    // Of very few numbers the gradient is next to nothing, but what rounding makes of it is not.
    if (op == "batch_norm" &&
        call.shapes[0].elements() < 4 * inferred.value().auxiliary.back()[0]) {
      return false;
    }
    keep(std::move(call));
    return true;
  }

  Attributes settings(std::string_view text, const Indices& inputs) {
    Attributes attributes;
    const Shape& shape = shapes_[inputs[0]];
    const auto set = [&](std::string& setting, const std::string& mark, std::int64_t number) {
      const std::size_t at = setting.find(mark);
      if (at != std::string::npos) setting.replace(at, mark.size(), std::to_string(number));
    };
    while (!text.empty()) {
      const std::size_t end = std::min(text.find(';'), text.size()), equals = text.find('=');
      std::vector<std::string> choices(1);
      for (const char c : text.substr(equals + 1, end - equals - 1)) {
        c == '|' ? choices.emplace_back() : choices.back() += c;
      }
      std::string setting = choices[random_.below(choices.size())];
      const auto rank = static_cast<std::size_t>(std::max(1, shape.rank()));
      set(setting, "$axis", static_cast<std::int64_t>(random_.below(rank)));
      set(setting, "$filters", channels());
      set(setting, "$inputs", static_cast<std::int64_t>(inputs.size()));
      if (shape.rank() > 1) set(setting, "$from", shape[1]);
      attributes[std::string(text.substr(0, equals))] = setting;
      text.remove_prefix(std::min(end + 1, text.size()));
    }
    return attributes;
  }

  bool make_call(const Kind& kind, std::size_t data) {
    const std::string op = kind.op;
    Indices inputs = {data};
    const std::size_t most = kind.inputs == 9 ? 1 + random_.below(4) : kind.inputs;
    const bool joins = op == "concat";
    if (kind.inputs == 2 && random_.chance(25)) {
      inputs.push_back(spread(data));
    }
    while (inputs.size() < most) {
      inputs.push_back(kind.inputs == 9 || random_.chance(70) ? like(data, joins ? 1 : 9) : any());
    }
    if (kind.inputs == 2 && random_.chance(40)) std::swap(inputs[0], inputs[1]);
    for (std::size_t& input : inputs) {  // rectifiers, which may go behind it
      if (!joins || random_.chance(60)) continue;
      if (add("activation", {input}, {{"act_type", "relu"}})) input = last();
    }
    Attributes attributes = settings(kind.attributes, inputs);
    const bool norm = op == "batch_norm";
    if (op != "convolution" && op != "fully_connected" && !norm) return add(op, inputs, attributes);
    const std::string input = norm ? random_.of({"gamma", "moving_mean"}) : "weight";
    auto& [shared, variable] = shared_[op + input];
    if (random_.chance(15) && !variable.empty()) {
      return add(op, inputs, shared, {{input, variable}});
    }
    const std::string name = fmt::format("v{}_{}{}", recipe_.calls.size(), input,
                                         !norm && random_.chance(10) ? "_tanh" : "");
    if (!add(op, inputs, attributes, {{input, name}})) return false;
    shared = attributes;
    variable = name;
    return true;
  }

  /// A variable that broadcasts to a value.
  std::size_t spread(std::size_t value) {
    std::vector<std::int64_t> extents;
    for (const std::int64_t extent : shapes_[value].dims()) {
      extents.push_back(random_.chance(50) ? extent : 1);
    }
    const bool fewer = extents.size() > 1 && random_.chance(30);
    variable(Shape(std::span<const std::int64_t>(extents).subspan(fewer ? 1 : 0)));
    return last();
  }

  void step() {
    if (random_.chance(20)) return block();
    if (random_.chance(4)) return positive();
    if (random_.chance(4)) return loss();
    std::size_t sum = 0;
    for (const Kind& kind : kKinds) sum += kind.share;
    std::size_t drawn = random_.below(sum), index = 0;
    while (drawn >= kKinds[index].share) drawn -= kKinds[index++].share;
    const Kind& kind = kKinds[index];
    std::size_t data = any();
    for (int i = 0; i < 8 && kind.rank != 0 && shapes_[data].rank() != kind.rank; ++i) data = any();
    make_call(kind, data);
  }

  /// What fusion looks for: a convolution, a normalisation, a sum, a rectifier, a maximum.
  void block() {
    std::size_t data = any();
    for (int i = 0; i < 8 && shapes_[data].rank() != 4; ++i) data = any();
    const bool convolves = random_.chance(85);
    if (convolves && !make_call(kKinds[random_.below(kConvolutions)], data)) return;
    if (random_.chance(50)) add("batch_norm", {last()}, {{"fix_gamma", "False"}});
    if (random_.chance(40)) {
      Indices inputs = {last(), like(last())};
      if (random_.chance(50)) std::swap(inputs[0], inputs[1]);
      add(random_.of({"add", "add_elemwise", "add_elemwise"}), inputs);
    }
    if (random_.chance(60)) add("activation", {last()}, {{"act_type", "relu"}});
    if (random_.chance(25)) add("pooling", {last()}, {{"kernel", "(2, 2)"}, {"stride", "(2, 2)"}});
  }

  /// Roots, logarithms and quotients of what is above zero.
  void positive() {
    const std::size_t data = any();
    add("square", {data});
    if (!add("add_scalar", {last()}, {{"scalar", "0.5"}})) return;
    const char* op = random_.of({"sqrt", "log", "reverse_divide_scalar", "divide"});
    add(op, std::string_view(op) == "divide" ? Indices{data, last()} : Indices{last()});
  }

  void loss() {
    std::size_t data = any();
    if (shapes_[data].rank() > 2 && random_.chance(60) && add("flatten", {data})) data = last();
    const Shape shape = shapes_[data];
    if (shape.rank() < 2) return;
    const std::string label = fmt::format("y{}_label", recipe_.calls.size());
    Attributes attributes;
    if (random_.chance(20)) attributes = {{"use_ignore", "True"}, {"ignore_label", "1"}};
    const bool sum = shape.rank() == 2 && random_.chance(30);
    const bool multi = shape.rank() > 2 && random_.chance(60);
    if (!sum) attributes["grad_scale"] = random_.of({"1", "0.5"});
    if (multi) attributes["multi_output"] = "True";
    if (!sum && random_.chance(15)) attributes["smooth_alpha"] = "0.1";
    const char* op = sum ? "softmax_cross_entropy" : "softmax_output";
    if (!add(op, {data}, attributes, {{"label", label}})) return;
    recipe_.classes[label] = multi ? shape[1] : shape.elements() / shape[0];
  }

  void choose_heads() {
    std::set<std::size_t> read;
    for (const Call& call : recipe_.calls) read.insert(call.inputs.begin(), call.inputs.end());
    Indices& heads = recipe_.heads;
    for (std::size_t value = 0; value < shapes_.size(); ++value) {
      if (value == last() || random_.chance(read.contains(value) ? 6 : 50)) heads.push_back(value);
    }
    if (random_.chance(10)) heads.push_back(heads[random_.below(heads.size())]);
    if (random_.chance(10)) std::swap(heads.front(), heads.back());
  }

  Random random_;
  Recipe recipe_;
  bool large_ = false;  // enough for blocked layouts
  std::vector<Shape> shapes_;
  std::vector<Symbol> values_;
  Variables variables_;
  std::map<std::string, std::pair<Attributes, std::string>> shared_;  // weights, by operator
};

}  // namespace

Recipe random_recipe(std::uint64_t seed) {
  return Maker(seed).make();
}

std::vector<Recipe> smaller(const Recipe& recipe) {
  std::vector<Recipe> tries;
  std::size_t value = 0;
  for (std::size_t i = 0; recipe.heads.size() > 1 && i < recipe.heads.size(); ++i) {
    tries.push_back(recipe);
    tries.back().heads = {recipe.heads[i]};
    tries.push_back(recipe);
    tries.back().heads.erase(tries.back().heads.begin() + static_cast<std::ptrdiff_t>(i));
  }
  for (std::size_t i = 0; i < recipe.calls.size(); ++i) {
    const Call& call = recipe.calls[i];
    value += call.shapes.size();
    if (call.op.empty()) continue;
    if (call.shapes.size() == 1) {
      tries.push_back(recipe);
      tries.back().calls[i] = {.op = "", .name = fmt::format("x{}", i), .shapes = call.shapes};
    }
    if (recipe.heads.size() == 1 && recipe.heads[0] < value &&
        recipe.heads[0] + call.shapes.size() >= value) {
      tries.push_back(recipe);
      tries.back().heads = {call.inputs[0]};
    }
  }
  return tries;
}

}  // namespace troupe::symbol
