// SPDX-License-Identifier: Apache-2.0
// Reading parameters from text attributes, and writing them back in one canonical form.
#include "ops/params.h"

#include <algorithm>
#include <bit>
#include <charconv>
#include <cmath>
#include <limits>
#include <type_traits>
#include <utility>

#include "base/text.h"

namespace troupe::ops {
namespace {

using base::Errc;
using base::error;
using base::Result;
using base::Shape;

std::string_view trimmed(std::string_view text) {
  const auto first = text.find_first_not_of(" \t\n");
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(" \t\n") - first + 1);
}

template <typename T>
std::optional<T> parse_number(std::string_view text) {
  text = trimmed(text);
  if (!text.empty() && text.front() == '+') text.remove_prefix(1);
  // Python 2 wrote long integers as 3L.
  if (std::is_integral_v<T> && text.ends_with('L')) text.remove_suffix(1);
  T value{};
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (text.empty() || code != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

template <typename T>
std::string shortest_text(T value) {
  std::array<char, 32> digits{};
  const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), value).ptr;
  return {digits.data(), end};
}

/// Unlike base::parse_shape it takes any negative number (axes counted from the end, MXNet's
/// reshape codes).
std::optional<Shape> parse_list(std::string_view text) {
  std::array<std::int64_t, base::kRankMax> numbers{};
  const auto count = parse_integers(text, numbers);
  if (!count) return std::nullopt;
  return Shape(std::span<const std::int64_t>(numbers).first(*count));
}

std::optional<bool> parse_boolean(std::string_view text) {
  text = trimmed(text);
  if (text == "True" || text == "true" || text == "1") return true;
  if (text == "False" || text == "false" || text == "0") return false;
  return std::nullopt;
}

std::string_view type_text(ParamType type) {
  switch (type) {
    case ParamType::boolean:
      return "True or False";
    case ParamType::integer:
      return "an integer";
    case ParamType::real:
      return "a number";
    case ParamType::text:
      return "text";
    case ParamType::shape:
      return "a list of integers such as (3, 3)";
    case ParamType::dtype:
      return "a dtype such as f32";
  }
  return "";
}

std::optional<ParamValue> parse_value(ParamType type, const std::string& text) {
  const auto wrap = [](auto parsed) -> std::optional<ParamValue> {
    if (!parsed) return std::nullopt;
    return ParamValue(*parsed);
  };
  switch (type) {
    case ParamType::boolean:
      return wrap(parse_boolean(text));
    case ParamType::integer:
      return wrap(parse_number<std::int64_t>(text));
    case ParamType::real:
      return wrap(parse_number<double>(text));
    case ParamType::text:
      return ParamValue(text);
    case ParamType::shape:
      return wrap(parse_list(text));
    case ParamType::dtype: {
      const auto dtype = base::parse_dtype(trimmed(text));
      if (dtype.ok()) return ParamValue(dtype.value());
      return std::nullopt;
    }
  }
  return std::nullopt;
}

/// Bounds of a parameter's numbers. Integers that have a lower bound are sizes: sums and products
/// of two of them must not overflow.
std::pair<double, double> bounds_of(const ParamDef& definition) {
  constexpr double kSizeMax = std::numeric_limits<std::int32_t>::max();
  const bool size = definition.type != ParamType::real && std::isfinite(definition.low);
  return {definition.low, size ? std::min(definition.high, kSizeMax) : definition.high};
}

bool in_range(const ParamDef& definition, const ParamValue& value) {
  const auto bounds = bounds_of(definition);
  const auto inside = [&](double x) { return x >= bounds.first && x <= bounds.second; };
  if (const auto* integer = std::get_if<std::int64_t>(&value)) {
    return inside(static_cast<double>(*integer));
  }
  if (const auto* real = std::get_if<double>(&value)) return inside(*real);
  if (const auto* list = std::get_if<Shape>(&value)) {
    return std::all_of(list->dims().begin(), list->dims().end(),
                       [&](std::int64_t d) { return inside(static_cast<double>(d)); });
  }
  if (const auto* text = std::get_if<std::string>(&value)) {
    const auto& choices = definition.choices;
    return choices.empty() || std::find(choices.begin(), choices.end(), *text) != choices.end();
  }
  return true;
}

std::string choices_text(const std::vector<std::string>& choices) {
  std::string text = "allowed:";
  for (const std::string& choice : choices) text += " " + choice;
  return text;
}

std::string allowed_text(const ParamDef& definition) {
  if (!definition.choices.empty()) return choices_text(definition.choices);
  const auto [low, high] = bounds_of(definition);
  if (std::isinf(low) && std::isinf(high)) return "allowed: any number";  // NaN is none
  if (std::isinf(high)) return fmt::format("allowed: {:.10g} or more", low);
  return fmt::format("allowed: {:.10g} to {:.10g}", low, high);
}

base::Status check_ignored(const IgnoredAttribute& attribute, const std::string& text) {
  const std::vector<std::string>& values = attribute.values;
  const bool any = values.empty();
  if (any || std::find(values.begin(), values.end(), trimmed(text)) != values.end()) return {};
  return error(Errc::invalid_argument, "parameter '{}' is '{}' ({})", attribute.name,
               base::shortened(text, base::kQuotedBytesMax), choices_text(values));
}

Result<ParamValue> checked_value(const ParamDef& definition, const Attributes& attributes) {
  const auto it = attributes.find(definition.name);
  const bool given = it != attributes.end() && !(it->second == "None" && definition.initial);
  if (!given) {
    if (definition.initial) return *definition.initial;
    return error(Errc::invalid_argument, "parameter '{}' is required ({})", definition.name,
                 type_text(definition.type));
  }
  const auto value = parse_value(definition.type, it->second);
  if (!value) {
    return error(Errc::invalid_argument, "parameter '{}' is '{}' but must be {}", definition.name,
                 base::shortened(it->second, base::kQuotedBytesMax), type_text(definition.type));
  }
  if (!in_range(definition, *value)) {
    return error(Errc::invalid_argument, "parameter '{}' is '{}' ({})", definition.name,
                 base::shortened(it->second, base::kQuotedBytesMax), allowed_text(definition));
  }
  return *value;
}

}  // namespace

std::optional<std::size_t> parse_integers(std::string_view text, std::span<std::int64_t> into) {
  text = trimmed(text);
  if (text == "None") return 0;
  if (text.size() >= 2 && ((text.front() == '(' && text.back() == ')') ||
                           (text.front() == '[' && text.back() == ']'))) {
    text = trimmed(text.substr(1, text.size() - 2));
  }
  std::size_t count = 0;
  while (!text.empty()) {
    const auto comma = text.find(',');
    const auto number = parse_number<std::int64_t>(text.substr(0, comma));
    if (!number || count == into.size()) return std::nullopt;
    into[count++] = *number;
    text = comma == std::string_view::npos ? "" : trimmed(text.substr(comma + 1));
  }
  return count;
}

Result<Params> Params::parse(const std::vector<ParamDef>& definitions, const Attributes& attributes,
                             const std::vector<IgnoredAttribute>& ignored) {
  Values values;
  for (const ParamDef& definition : definitions) {
    TROUPE_TRY_ASSIGN(ParamValue value, checked_value(definition, attributes));
    TROUPE_CHECK(value.index() == static_cast<std::size_t>(definition.type),
                 "default of parameter '" + definition.name + "' has another type");
    values.emplace(definition.name, std::move(value));
  }
  for (const auto& [name, text] : attributes) {
    if (values.contains(name)) continue;
    const auto harmless =
        std::find_if(ignored.begin(), ignored.end(),
                     [&wanted = name](const auto& i) { return i.name == wanted; });
    if (harmless != ignored.end()) {
      TROUPE_TRY(check_ignored(*harmless, text));
      continue;
    }
    std::string known;
    for (const ParamDef& definition : definitions) known += " " + definition.name;
    return error(Errc::invalid_argument, "unknown parameter '{}' (known:{})",
                 base::shortened(name, base::kQuotedBytesMax), known.empty() ? " none" : known);
  }
  Params params;
  if (!values.empty()) params.values_ = std::make_shared<const Values>(std::move(values));
  return params;
}

const Params::Values& Params::values() const {
  static const Values kNone;
  return values_ ? *values_ : kNone;
}

Attributes Params::to_attributes() const {
  Attributes attributes;
  for (const auto& [name, value] : values()) attributes.emplace(name, to_attribute(value));
  return attributes;
}

std::size_t Params::hash() const {
  std::size_t total = 0;
  const auto mix = [&total](std::size_t hash) { total = (total * 31) ^ hash; };
  for (const auto& [name, value] : values()) {
    mix(std::hash<std::string>{}(name));
    std::visit(
        [&](const auto& content) {
          using T = std::decay_t<decltype(content)>;
          if constexpr (std::is_same_v<T, Shape>) {
            for (const std::int64_t number : content.dims()) mix(std::hash<std::int64_t>{}(number));
          } else {
            mix(std::hash<T>{}(content));
          }
        },
        value);
  }
  return total;
}

bool operator==(const Params& a, const Params& b) {
  const auto same = [](const auto& x, const auto& y) {
    const auto* real_x = std::get_if<double>(&x.second);
    const auto* real_y = std::get_if<double>(&y.second);
    if (x.first != y.first || real_x == nullptr || real_y == nullptr) return x == y;
    return std::bit_cast<std::uint64_t>(*real_x) == std::bit_cast<std::uint64_t>(*real_y);
  };
  if (a.values_ == b.values_) return true;
  return std::equal(a.values().begin(), a.values().end(), b.values().begin(), b.values().end(),
                    same);
}

std::string to_attribute(const ParamValue& value) {
  switch (static_cast<ParamType>(value.index())) {
    case ParamType::boolean:
      return std::get<bool>(value) ? "True" : "False";
    case ParamType::integer:
      return shortest_text(std::get<std::int64_t>(value));
    case ParamType::real:
      return shortest_text(std::get<double>(value));
    case ParamType::text:
      return std::get<std::string>(value);
    case ParamType::shape: {
      std::string text = "(";
      const Shape& list = std::get<Shape>(value);
      for (std::int64_t number : list.dims()) {
        if (text.size() > 1) text += ", ";
        text += shortest_text(number);
      }
      return text + (list.rank() == 1 ? ",)" : ")");
    }
    case ParamType::dtype:
      return std::string(base::dtype_name(std::get<base::DType>(value)));
  }
  return {};
}

}  // namespace troupe::ops
