// SPDX-License-Identifier: Apache-2.0
// The text of a chain, written and read.
#include "ops/pointwise_chain.h"

#include <fmt/core.h>

#include <algorithm>
#include <charconv>
#include <optional>
#include <string_view>

#include "gpu/inventory.h"
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

/// The words behind the operator: operands, then attributes.
Status parse_words(std::span<const std::string_view> words, std::size_t before,
                   std::vector<std::size_t>& operands, Attributes& attributes) {
  for (const std::string_view word : words) {
    const std::size_t equals = word.find('=');
    if (equals != std::string_view::npos) {
      attributes.emplace(word.substr(0, equals), word.substr(equals + 1));
      continue;
    }
    const std::optional<std::size_t> operand = parse_operand(word);
    if (!operand || *operand >= before) {
      return base::error(Errc::invalid_argument, "operand '{}' (there are 0 to {})", word,
                         before - 1);
    }
    operands.push_back(*operand);
  }
  return {};
}

/// A step that can take the `before` values of inputs and of the steps before it.
Result<PointwiseStep> parse_step(const OpTable& table, std::string_view text, std::size_t before) {
  const std::vector<std::string_view> words = split(text, ' ');
  if (words.empty()) return base::error(Errc::invalid_argument, "no operator");
  PointwiseStep step;
  TROUPE_TRY_ASSIGN(step.op, table.find(words.front()));
  Attributes attributes;
  TROUPE_TRY(parse_words(std::span(words).subspan(1), before, step.operands, attributes));
  attributes = with_num_args(*step.op, std::move(attributes), step.operands.size());
  TROUPE_TRY_ASSIGN(step.params, parse_params(*step.op, attributes));
  if (!can_be_step(*step.op, step.params)) {
    return base::error(Errc::invalid_argument, "{} with these parameters cannot be a step",
                       step.op->name);
  }
  const std::size_t wanted = step.op->inputs(step.params).size();
  if (step.operands.size() != wanted) {
    return base::error(Errc::invalid_argument, "{} takes {} operands, {} are given", step.op->name,
                       wanted, step.operands.size());
  }
  return step;
}

}  // namespace

bool can_be_step(const OpDef& op, const Params& params) {
  if (!op.pointwise || !op.pointwise(params)) return false;
  if (op.inputs(params).size() > kStepOperandsMost) return false;
  const Attributes attributes = params.to_attributes();
  return std::none_of(attributes.begin(), attributes.end(), [](const auto& attribute) {
    return attribute.second.find_first_of(" ;") != std::string::npos;
  });
}

bool worth_fusing(base::Device device) {
  if (device.kind != base::DeviceKind::cuda) return true;
  const std::vector<gpu::LibraryFacts>& found = gpu::libraries();
  return std::any_of(found.begin(), found.end(), [](const gpu::LibraryFacts& library) {
    return library.name == "NVRTC" && library.problem.empty();
  });
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

Result<PointwiseChain> parse_chain(const Params& params) {
  PointwiseChain chain;
  chain.inputs = static_cast<std::size_t>(params.integer("num_args"));
  const std::string& text = params.text("steps");
  const std::vector<std::string_view> steps = split(text, ';');
  if (steps.size() > kChainStepsMost) {
    return base::error(Errc::invalid_argument, "{} steps (at most {})", steps.size(),
                       kChainStepsMost);
  }
  const OpTable table = OpTable::build();
  for (const std::string_view step : steps) {
    const std::size_t index = chain.steps.size();
    auto parsed = parse_step(table, step, chain.inputs + index);
    if (!parsed.ok()) {
      return parsed.status().with_context(fmt::format("steps: '{}'", step));
    }
    chain.steps.push_back(*std::move(parsed));
  }
  return chain;
}

PointwiseChain chain_of(const Params& params) {
  Result<PointwiseChain> chain = parse_chain(params);
  TROUPE_CHECK(chain.ok(), chain.status().to_string());
  return *std::move(chain);
}

}  // namespace troupe::ops
