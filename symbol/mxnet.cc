// SPDX-License-Identifier: Apache-2.0
// From MXNet's files to symbols and back.
#include "symbol/mxnet.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <limits>
#include <utility>

namespace troupe::symbol {

namespace {

using base::Shape;

/// Keys that MXNet 0.8 wrote without underscores, for a node or, behind a name, for an input.
constexpr std::array<std::string_view, 5> kHiddenKeys = {"ctx_group", "lr_mult", "wd_mult",
                                                         "force_mirroring", "mirror_stage"};

/// Parameters that MXNet requires and that have a default here.
constexpr std::array<std::pair<std::string_view, std::string_view>, 3> kRequired = {
    {{"slice_axis", "axis"}, {"slice_axis", "begin"}, {"slice_axis", "end"}}};

/// Operators whose parameter "shape" says 0 in files where an extent is not known: the first state
/// of an unrolled RNN, whose batch its readers decide.
constexpr std::array<std::string_view, 3> kMakeShapes = {"full", "ones", "zeros"};

bool makes_shape(const ops::OpDef& op) {
  return std::find(kMakeShapes.begin(), kMakeShapes.end(), op.name) != kMakeShapes.end();
}

std::string hidden(std::string_view key) {
  return fmt::format("__{}__", key);
}

/// Moves one of kHiddenKeys that belongs to an input there; true when it was one.
bool move_to_input(const std::string& key, const std::string& value,
                   const std::vector<std::string>& inputs, const FileNode& node,
                   std::vector<FileNode>& nodes) {
  for (std::string_view suffix : kHiddenKeys) {
    if (!key.ends_with(fmt::format("_{}", suffix))) continue;
    const std::string input = key.substr(0, key.size() - suffix.size() - 1);
    const auto it = std::find(inputs.begin(), inputs.end(), input);
    const auto place = static_cast<std::size_t>(it - inputs.begin());
    if (it == inputs.end() || place >= node.inputs.size()) continue;
    FileNode& variable = nodes[node_index(node.inputs[place])];
    if (!variable.is_variable()) continue;
    variable.attributes[hidden(suffix)] = value;
    return true;
  }
  return false;
}

/// Where `shape` says nothing, target_shape does: 0 is what is left; keep_highest keeps axis 0.
void upgrade_reshape(ops::Attributes& attributes) {
  const auto take = [&attributes](const char* name) {
    const auto node = attributes.extract(name);
    return node.empty() ? std::string() : node.mapped();
  };
  const base::Result<Shape> target = base::parse_shape(take("target_shape"));
  const std::string keep = take("keep_highest");
  const auto shape = attributes.find("shape");
  const bool given = shape != attributes.end() && shape->second != "()" && shape->second != "[]";
  if (given || !target.ok() || target->rank() == 0) return;
  Shape codes = *target;
  for (int axis = 0; axis < codes.rank(); ++axis) {
    if (codes[axis] == 0) codes.set(axis, base::kUnknownDim);
  }
  if (keep == "True" || keep == "1") codes.set(0, 0);
  attributes["shape"] = ops::to_attribute(codes);
}

bool knows(const ops::OpDef& op, const std::string& name) {
  const auto same = [&name](const ops::IgnoredAttribute& each) { return each.name == name; };
  return op.find_param(name) != nullptr || std::any_of(op.ignored.begin(), op.ignored.end(), same);
}

void upgrade_call(const ops::OpDef& op, FileNode& node, std::vector<FileNode>& nodes) {
  ops::Attributes parameters, others;
  for (const auto* from : {&node.attributes, &node.user}) {
    for (const auto& [name, value] : *from) {
      (knows(op, name) ? parameters : others).emplace(name, value);
    }
  }
  if (op.name == "reshape") {
    for (const char* old : {"target_shape", "keep_highest"}) {
      if (auto it = others.extract(old); !it.empty()) parameters.insert(std::move(it));
    }
    upgrade_reshape(parameters);
  }
  if (const auto shape = parameters.find("shape"); makes_shape(op) && shape != parameters.end()) {
    const base::Result<Shape> known = declared_shape(shape->second);
    if (known.ok() && known->rank_known()) shape->second = ops::to_attribute(*known);
  }
  std::vector<std::string> inputs;
  const auto params = ops::Params::parse(
      op.params, ops::with_num_args(op, parameters, node.inputs.size()), op.ignored);
  if (params.ok()) inputs = op.inputs(*params);
  const ops::Attributes user = std::exchange(node.user, {});
  node.attributes = std::move(parameters);
  for (const auto& [name, value] : others) {
    const bool known = std::find(kHiddenKeys.begin(), kHiddenKeys.end(), name) != kHiddenKeys.end();
    if (!known && move_to_input(name, value, inputs, node, nodes)) continue;
    const bool marked = name.starts_with("__");
    node.attributes[known || (!marked && user.contains(name)) ? hidden(name) : name] = value;
  }
}

void upgrade_variable(FileNode& node) {
  ops::Attributes attributes = std::exchange(node.attributes, {});
  attributes.merge(std::exchange(node.user, {}));
  for (const auto& [name, value] : attributes) {
    const bool known = std::find(kHiddenKeys.begin(), kHiddenKeys.end(), name) != kHiddenKeys.end();
    node.attributes[known ? hidden(name) : name] = value;
  }
}

/// MXNet's first pooling pads with zeros, which may win a maximum, and divides by the whole window.
/// True where today's does the same.
bool pools_as_today(const FileNode& node) {
  const auto text = [&node](const char* name) {
    const auto found = node.attributes.find(name);
    return found == node.attributes.end() ? std::string() : found->second;
  };
  const std::string pad = text("pad");
  const bool padded = pad.find_first_of("123456789") != std::string::npos;
  return !padded && (text("pooling_convention") != "full" || text("pool_type") != "avg");
}

}  // namespace

void upgrade(const ops::OpTable& table, std::vector<FileNode>& nodes) {
  for (FileNode& node : nodes) {
    if (node.op == "Pooling_v1" && pools_as_today(node)) node.op = "Pooling";
    if (node.is_variable()) {
      upgrade_variable(node);
    } else if (const auto op = table.find(node.op); op.ok()) {
      upgrade_call(**op, node, nodes);
    }
  }
}

base::Result<Shape> declared_shape(std::string_view text) {
  if (text == "None") return Shape::unknown();
  std::string plain;  // "(2L, 3L)" is Python 2's
  for (const char c : text) {
    const bool suffix = c == 'L' && !plain.empty() && plain.back() >= '0' && plain.back() <= '9';
    if (!suffix) plain += c;
  }
  TROUPE_TRY_ASSIGN(Shape shape, base::parse_shape(plain));
  if (shape.rank() == 0) return Shape::unknown();
  for (int axis = 0; axis < shape.rank(); ++axis) {
    if (shape[axis] == 0) shape.set(axis, base::kUnknownDim);
  }
  return shape;
}

base::Result<std::optional<base::DType>> declared_dtype(std::string_view text) {
  int number = 0;
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (code != std::errc() || end != text.data() + text.size()) {
    TROUPE_TRY_ASSIGN(const base::DType dtype, base::parse_dtype(text));
    return std::optional(dtype);
  }
  if (number == -1) return std::optional<base::DType>();
  for (int i = 0; i < base::kDTypeCount; ++i) {
    const auto dtype = static_cast<base::DType>(i);
    if (base::mxnet_dtype_number(dtype) == number) return std::optional(dtype);
  }
  return base::error(base::Errc::invalid_argument, "MXNet's dtype {} is not known here", number);
}

const std::string& mxnet_name(const ops::OpDef& op) {
  return op.aliases.empty() ? op.name : op.aliases.front();
}

namespace {

std::string shape_text(Shape shape) {
  for (int axis = 0; axis < shape.rank(); ++axis) {
    if (shape[axis] == base::kUnknownDim) shape.set(axis, 0);
  }
  return ops::to_attribute(shape);
}

/// A parameter's text; the largest integer stands for "no limit".
std::string param_text(const ops::ParamDef& param, const ops::Params& params) {
  if (param.type == ops::ParamType::dtype) {
    return std::string(base::mxnet_dtype_name(params.dtype(param.name)));
  }
  const bool integer = param.type == ops::ParamType::integer;
  if (integer && params.integer(param.name) == std::numeric_limits<std::int64_t>::max()) {
    return "None";
  }
  return params.to_attributes().at(param.name);
}

}  // namespace

ops::Attributes mxnet_attributes(const GraphNode& node) {
  ops::Attributes attributes = node.extra;
  if (const auto it = attributes.find("__shape__"); it != attributes.end()) {
    const base::Result<Shape> shape = declared_shape(it->second);
    if (shape.ok()) it->second = shape->rank_known() ? shape_text(*shape) : "()";
  }
  if (const auto it = attributes.find("__dtype__"); it != attributes.end()) {
    const auto dtype = declared_dtype(it->second);
    if (dtype.ok()) {
      it->second = std::to_string(*dtype ? base::mxnet_dtype_number(**dtype) : -1);
    }
  }
  if (node.is_variable()) return attributes;
  const ops::Attributes given = node.params.to_attributes();
  for (const ops::ParamDef& param : node.op->params) {
    const std::pair<std::string_view, std::string_view> key{node.op->name, param.name};
    const bool required = std::find(kRequired.begin(), kRequired.end(), key) != kRequired.end();
    const bool usual = param.initial && ops::to_attribute(*param.initial) == given.at(param.name);
    if (!required && usual) continue;
    const bool shape = param.type == ops::ParamType::shape && makes_shape(*node.op);
    attributes.emplace(param.name, shape ? shape_text(node.params.shape(param.name))
                                         : param_text(param, node.params));
  }
  return attributes;
}

}  // namespace troupe::symbol
