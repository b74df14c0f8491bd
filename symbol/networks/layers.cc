// SPDX-License-Identifier: Apache-2.0
// Layers as calls of operators.
#include "symbol/networks/layers.h"

#include <fmt/format.h>

namespace troupe::symbol {

namespace {

std::string square(std::int64_t extent) {
  return fmt::format("({0}, {0})", extent);
}

}  // namespace

Symbol Layers::convolution(const std::string& name, const Symbol& in, const Convolution& how,
                           bool bias) {
  ops::Attributes attributes = {{"kernel", square(how.kernel)},
                                {"pad", square(how.pad)},
                                {"num_filter", std::to_string(how.filters)},
                                {"no_bias", bias_.value_or(bias) ? "False" : "True"}};
  if (how.stride != 1) attributes["stride"] = square(how.stride);
  if (how.groups != 1) attributes["num_group"] = std::to_string(how.groups);
  return composer_.call("convolution", name, {in}, attributes);
}

Symbol Layers::batch_norm(const std::string& name, const Symbol& in, double eps) {
  return composer_.call(
      "batch_norm", name, {in},
      {{"fix_gamma", "False"}, {"momentum", "0.9"}, {"eps", fmt::format("{}", eps)}});
}

Symbol Layers::normalised(const std::string& name, const Symbol& in, const Convolution& how) {
  return batch_norm(name + "_bn", convolution(name, in, how, false), kBatchNormEps);
}

Symbol Layers::relu(const std::string& name, const Symbol& in) {
  return composer_.call("activation", name, {in}, {{"act_type", "relu"}});
}

Symbol Layers::pool(const std::string& name, const Symbol& in, const char* type, const Pool& how) {
  ops::Attributes attributes = {
      {"kernel", square(how.kernel)}, {"stride", square(how.stride)}, {"pool_type", type}};
  if (how.pad != 0) attributes["pad"] = square(how.pad);
  if (how.full) attributes["pooling_convention"] = "full";
  return composer_.call("pooling", name, {in}, attributes);
}

Symbol Layers::max_pool(const std::string& name, const Symbol& in, const Pool& how) {
  return pool(name, in, "max", how);
}

Symbol Layers::average_pool(const std::string& name, const Symbol& in, const Pool& how) {
  return pool(name, in, "avg", how);
}

Symbol Layers::global_average(const std::string& name, const Symbol& in) {
  return flatten("flatten", composer_.call("pooling", name, {in},
                                           {{"global_pool", "True"}, {"pool_type", "avg"}}));
}

Symbol Layers::flatten(const std::string& name, const Symbol& in) {
  return composer_.call("flatten", name, {in});
}

Symbol Layers::dropout(const std::string& name, const Symbol& in) {
  if (dropout_ == 0) return in;
  return composer_.call("dropout", name, {in}, {{"p", fmt::format("{}", dropout_)}});
}

Symbol Layers::dense(const std::string& name, const Symbol& in, std::int64_t hidden) {
  return composer_.call("fully_connected", name, {in}, {{"num_hidden", std::to_string(hidden)}});
}

Symbol Layers::scores(const std::string& name, const Symbol& in) {
  return dense(name, in, classes_);
}

Symbol Layers::add(const std::string& name, const Symbol& a, const Symbol& b) {
  return composer_.call("add_elemwise", name, {a, b});
}

Symbol Layers::concat(const std::string& name, std::vector<Symbol> parts) {
  return composer_.call("concat", name, std::move(parts), {{"dim", "1"}});
}

Symbol Layers::relu6(const std::string& name, const Symbol& in) {
  return composer_.call("clip", name, {in}, {{"a_min", "0"}, {"a_max", "6"}});
}

Symbol Layers::plain(Symbol in, const std::vector<PlainLayer>& layers) {
  int convolutions = 0, relus = 0, pools = 0, denses = 0, dropouts = 0;
  bool planes = false;
  for (const PlainLayer& layer : layers) {
    if (const auto* windows = std::get_if<Convolution>(&layer)) {
      in = convolution(fmt::format("conv{}", ++convolutions), in, *windows, true);
      in = relu(fmt::format("relu{}", ++relus), in);
      planes = true;
    } else if (const auto* windows_of_pool = std::get_if<Pool>(&layer)) {
      in = max_pool(fmt::format("pool{}", ++pools), in, *windows_of_pool);
    } else {
      if (planes) in = flatten("flatten", in);
      planes = false;
      const std::int64_t hidden = std::get<Dense>(layer).hidden;
      const std::string name = fmt::format("fc{}", ++denses);
      if (hidden == 0) return scores(name, in);
      in = relu(fmt::format("relu{}", ++relus), dense(name, in, hidden));
      in = dropout(fmt::format("drop{}", ++dropouts), in);
    }
  }
  return in;
}

base::Result<Symbol> Layers::loss(const Symbol& scores) {
  return composer_.finish(composer_.call("softmax_output", "softmax", {scores}));
}

}  // namespace troupe::symbol
