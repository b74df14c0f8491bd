// SPDX-License-Identifier: Apache-2.0
// Markdown of operator definitions.
#include "ops/document.h"

#include <fmt/format.h>

#include <algorithm>

namespace troupe::ops {
namespace {

std::string_view type_name(ParamType type) {
  switch (type) {
    case ParamType::boolean:
      return "boolean";
    case ParamType::integer:
      return "integer";
    case ParamType::real:
      return "number";
    case ParamType::text:
      return "text";
    case ParamType::shape:
      return "list of integers";
    case ParamType::dtype:
      return "dtype";
  }
  return "";
}

std::string joined(const std::vector<std::string>& list) {
  return list.empty() ? "none" : fmt::format("`{}`", fmt::join(list, "`, `"));
}

std::string default_text(const ParamDef& param) {
  if (!param.initial) return "required";
  const std::string text = to_attribute(*param.initial);
  // The largest integer stands for "no limit", which people write as None.
  const bool unlimited = text == std::to_string(std::numeric_limits<std::int64_t>::max());
  return unlimited ? "None" : "`" + text + "`";
}

std::string param_table(const OpDef& op) {
  if (op.params.empty()) return "";
  std::string text = "\n| parameter | type | default | meaning |\n|---|---|---|---|\n";
  for (const ParamDef& param : op.params) {
    std::string type(type_name(param.type));
    if (!param.choices.empty()) type = joined(param.choices);
    text +=
        fmt::format("| `{}` | {} | {} | {} |\n", param.name, type, default_text(param), param.doc);
  }
  return text;
}

/// Properties worth a word, such as "random, not differentiable".
std::string properties(const OpDef& op) {
  std::vector<std::string> list;
  if (!op.gradient) {
    list.emplace_back(op.cuts_gradient ? "cuts the gradient" : "not differentiable");
  }
  if (op.elementwise) list.emplace_back("element-wise");
  if (op.random) list.emplace_back("random");
  if (op.is_loss) list.emplace_back("loss");
  if (op.assign) {
    list.emplace_back(op.in_place.size() > 1 ? "may overwrite the inputs that its outputs renew"
                                             : "may overwrite its first input");
  }
  if (op.predict_form) list.emplace_back("another form in prediction");
  return fmt::format("{}", fmt::join(list, ", "));
}

std::string section(const OpDef& op) {
  std::string text = fmt::format("\n## {}\n\n{}\n\n", op.name, op.doc);
  const auto params = Params::parse(op.params, op.samples.front().attributes);
  TROUPE_CHECK(params.ok(), "[" + op.name + "] the first sample's attributes do not parse");
  const auto outputs = op.outputs(params.value());
  const auto visible = static_cast<std::size_t>(op.visible_output_count(params.value()));
  text += fmt::format("- Inputs: {}\n", joined(op.inputs(params.value())));
  text += fmt::format("- Outputs: {}", joined({outputs.begin(), outputs.begin() + visible}));
  if (visible < outputs.size()) {
    text += fmt::format("; hidden: {}", joined({outputs.begin() + visible, outputs.end()}));
  }
  text += "\n";
  if (!op.aliases.empty()) text += fmt::format("- MXNet's names: {}\n", joined(op.aliases));
  if (!op.ignored.empty()) {
    std::vector<std::string> ignored;
    for (const IgnoredAttribute& each : op.ignored) ignored.push_back(each.name);
    text += fmt::format("- Read without effect: {}\n", joined(ignored));
  }
  const std::string words = properties(op);
  if (!words.empty()) text += fmt::format("- Properties: {}\n", words);
  return text + param_table(op);
}

}  // namespace

std::string operator_reference(const OpTable& table) {
  std::vector<const OpDef*> sorted;
  for (const OpDef& op : table.all()) sorted.push_back(&op);
  std::sort(sorted.begin(), sorted.end(),
            [](const OpDef* a, const OpDef* b) { return a->name < b->name; });
  std::string text =
      "# Operators\n\nWritten by `ops_doc` from the table of operators; do not edit. Inputs and "
      "outputs are those of the\noperator's first sample: variadic and optional ones depend on the "
      "parameters. Whatever is not said\notherwise takes f32 and f64.\n\n";
  for (const OpDef* op : sorted) {
    text += fmt::format("{}[{}](#{})", op == sorted.front() ? "" : " · ", op->name, op->name);
  }
  text += "\n";
  for (const OpDef* op : sorted) text += section(*op);
  return text;
}

}  // namespace troupe::ops
