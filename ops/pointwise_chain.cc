// SPDX-License-Identifier: Apache-2.0
// The text of a chain, written and read.
#include "ops/pointwise_chain.h"

#include <fmt/core.h>

#include <algorithm>
#include <charconv>
#include <functional>
#include <optional>
#include <string_view>

#include "base/text.h"
#include "ops/jit/compiler.h"
#include "ops/table.h"

namespace troupe::ops {
namespace {

using base::Errc;
using base::Result;
using base::Status;

/// The parts of `text` between separators, without spaces around them.
std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  while (true) {
    const std::size_t end = std::min(text.find(separator), text.size());
    std::string_view part = text.substr(0, end);
    while (part.starts_with(' ')) part.remove_prefix(1);
    while (part.ends_with(' ')) part.remove_suffix(1);
    if (!part.empty() || separator != ' ') parts.push_back(part);
    if (end == text.size()) return parts;
    text.remove_prefix(end + 1);
  }
}

std::optional<std::size_t> parse_operand(std::string_view word) {
  std::size_t operand = 0;
  const auto [end, problem] = std::from_chars(word.data(), word.data() + word.size(), operand);
  if (problem != std::errc() || end != word.data() + word.size()) return std::nullopt;
  return operand;
}

std::string in_quotes(std::string_view text) {
  return "'" + base::shortened(text, base::kQuotedBytesMax) + "'";
}

/// The words behind the operator: operands, then attributes.
Status parse_words(std::span<const std::string_view> words, std::size_t before,
                   std::vector<std::size_t>& operands, Attributes& attributes) {
  for (const std::string_view word : words) {
    const std::size_t equals = word.find('=');
    if (equals != std::string_view::npos) {
      const std::string_view name = word.substr(0, equals);
      if (attributes.emplace(name, word.substr(equals + 1)).second) continue;
      return base::error(Errc::invalid_argument, "{} is given twice", in_quotes(name));
    }
    const std::optional<std::size_t> operand = parse_operand(word);
    if (!operand || *operand >= before) {
      return base::error(Errc::invalid_argument, "operand {} (there {})", in_quotes(word),
                         before == 1 ? "is only 0" : fmt::format("are 0 to {}", before - 1));
    }
    operands.push_back(*operand);
  }
  if (operands.size() <= kStepOperandsMost) return {};
  return base::error(Errc::invalid_argument, "{} operands (at most {})", operands.size(),
                     kStepOperandsMost);
}

/// A step that can take the `before` values of inputs and of the steps before it.
Result<PointwiseStep> parse_step(const OpTable& table, std::string_view text, std::size_t before) {
  const std::vector<std::string_view> words = split(text, ' ');
  if (words.empty()) return base::error(Errc::invalid_argument, "it is empty");
  PointwiseStep step;
  const std::string name = base::shortened(words.front(), base::kQuotedBytesMax);
  const Result<const OpDef*> op = table.find(name);
  if (!op.ok()) return base::error(Errc::invalid_argument, "{}", op.status().text());
  step.op = *op;
  if (!step.op->pointwise) {
    return base::error(Errc::invalid_argument, "{} is not element-wise", step.op->name);
  }
  Attributes attributes;
  TROUPE_TRY(parse_words(std::span(words).subspan(1), before, step.operands, attributes));
  attributes = with_num_args(*step.op, std::move(attributes), step.operands.size());
  TROUPE_TRY_ASSIGN(step.params, parse_params(*step.op, attributes));
  const std::size_t wanted = step.op->inputs(step.params).size();
  if (step.operands.size() != wanted) {
    return base::error(Errc::invalid_argument, "{} needs {} operand(s), {} given", step.op->name,
                       wanted, step.operands.size());
  }
  if (can_be_step(*step.op, step.params)) return step;
  return base::error(Errc::invalid_argument, "{} with these attributes is not element-wise",
                     step.op->name);
}

/// An error unless the operator takes numbers beside tensors where the step has both.
Status check_mixed(const PointwiseStep& step, const std::vector<bool>& is_number) {
  const base::Shape tensor{2};
  std::vector<base::Shape> inputs, outputs = {base::Shape::unknown()};
  for (const std::size_t operand : step.operands) {
    inputs.push_back(is_number[operand] ? base::Shape{} : tensor);
  }
  if (std::ranges::adjacent_find(inputs, std::not_equal_to<>()) == inputs.end()) return {};
  const Status status = infer_shapes(*step.op, step.params, inputs, outputs);
  if (status.ok() && outputs[0] == tensor) return {};
  return base::error(Errc::invalid_argument, "{} takes no number beside a tensor", step.op->name);
}

/// The inputs that are 0-d.
Result<std::vector<std::size_t>> parse_numbers(const Params& params, std::size_t inputs) {
  std::vector<std::size_t> numbers;
  const base::Shape& given = params.shape("numbers");
  for (const std::int64_t input : given.dims()) {
    const bool behind = numbers.empty() || input > static_cast<std::int64_t>(numbers.back());
    if (!behind || input >= static_cast<std::int64_t>(inputs)) {
      return base::error(Errc::invalid_argument,
                         "numbers: {} are not inputs of {}, each once and in order",
                         given.to_string(), inputs);
    }
    numbers.push_back(static_cast<std::size_t>(input));
  }
  return numbers;
}

}  // namespace

std::vector<bool> PointwiseChain::is_number() const {
  std::vector<bool> is(inputs, false);
  for (const std::size_t input : numbers) is[input] = true;
  for (const PointwiseStep& step : steps) {
    is.push_back(std::ranges::all_of(step.operands, [&is](std::size_t k) { return is[k]; }));
  }
  return is;
}

bool can_be_step(const OpDef& op, const Params& params) {
  if (!op.pointwise || !op.pointwise(params)) return false;
  if (op.inputs(params).size() > kStepOperandsMost) return false;
  const Attributes attributes = params.to_attributes();
  return std::none_of(attributes.begin(), attributes.end(), [](const auto& attribute) {
    return attribute.second.find_first_of(" ;") != std::string::npos;
  });
}

Result<bool> worth_fusing(base::Device device) {
  if (device.kind != base::DeviceKind::cuda) return true;
  const base::Status usable = jit::check_compiler(device);
  if (usable.code() == base::Errc::resource_exhausted) return usable;
  return usable.ok();
}

std::string to_text(const PointwiseChain& chain) {
  std::string text;
  for (const PointwiseStep& step : chain.steps) {
    text += (text.empty() ? "" : "; ") + step.op->name;
    for (const std::size_t operand : step.operands) text += " " + std::to_string(operand);
    for (const auto& [name, value] : step.params.to_attributes()) {
      text += fmt::format(" {}={}", name, value);
    }
  }
  return text;
}

Attributes to_attributes(const PointwiseChain& chain) {
  std::vector<std::int64_t> numbers(chain.numbers.begin(), chain.numbers.end());
  return {{"num_args", std::to_string(chain.inputs)},
          {"numbers", base::Shape(std::span<const std::int64_t>(numbers)).to_string()},
          {"steps", to_text(chain)}};
}

Result<PointwiseChain> parse_chain(const Params& params) {
  PointwiseChain chain;
  chain.inputs = static_cast<std::size_t>(params.integer("num_args"));
  TROUPE_TRY_ASSIGN(chain.numbers, parse_numbers(params, chain.inputs));
  const std::string& text = params.text("steps");
  if (text.size() > kChainTextMost) {
    return base::error(Errc::invalid_argument, "steps: {} bytes (at most {})", text.size(),
                       kChainTextMost);
  }
  if (std::ranges::any_of(text, [](char c) { return c < ' ' || c > '~'; })) {
    return base::error(Errc::invalid_argument, "steps: {} is not one line of ASCII",
                       in_quotes(text));
  }
  const std::vector<std::string_view> steps = split(text, ';');
  if (steps.size() > kChainStepsMost) {
    return base::error(Errc::invalid_argument, "steps: {} of them (at most {})", steps.size(),
                       kChainStepsMost);
  }
  const OpTable table = OpTable::build();
  for (const std::string_view step : steps) {
    const std::size_t index = chain.steps.size();
    auto parsed = parse_step(table, step, chain.inputs + index);
    if (!parsed.ok()) {
      return parsed.status().with_context(fmt::format("step {}, {}", index + 1, in_quotes(step)));
    }
    chain.steps.push_back(*std::move(parsed));
  }
  const std::vector<bool> is_number = chain.is_number();
  if (is_number.back()) {
    return base::error(Errc::invalid_argument, "steps: the last one is of numbers alone");
  }
  for (std::size_t i = 0; i < chain.steps.size(); ++i) {
    const Status status = check_mixed(chain.steps[i], is_number);
    if (status.ok()) continue;
    return status.with_context(fmt::format("step {}, {}", i + 1, in_quotes(steps[i])));
  }
  return chain;
}

PointwiseChain chain_of(const Params& params) {
  Result<PointwiseChain> chain = parse_chain(params);
  TROUPE_CHECK(chain.ok(), chain.status().to_string());
  return *std::move(chain);
}

}  // namespace troupe::ops
