// SPDX-License-Identifier: Apache-2.0
// Reading MXNet's attributes of variables. Names and defaults are those of mxnet/initializer.py
// 1.9.1.
#include "train/key_attributes.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "base/text.h"
#include "store/initializer.h"

namespace troupe::train {
namespace {

using nlohmann::json;
using schemas::FanKind;
using schemas::InitializerKind;
using schemas::InitializerSpec;

template <typename... Args>
base::Status refused(fmt::format_string<Args...> format, Args&&... args) {
  return base::error(base::Errc::invalid_argument, "{}",
                     fmt::format(format, std::forward<Args>(args)...));
}

/// What a file says, as an error quotes it.
std::string shown(std::string_view text) {
  return base::shortened(text, base::kQuotedBytesMax);
}

/// A finite number, also one in quotes: MXNet takes both.
std::optional<double> number_of(std::string_view text) {
  double value = 0.0;
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool whole = code == std::errc() && end == text.data() + text.size();
  return whole && std::isfinite(value) ? std::optional(value) : std::nullopt;
}

std::optional<double> number_of(const json& value) {
  if (value.is_string()) return number_of(std::string_view(value.get_ref<const std::string&>()));
  if (!value.is_number() || !std::isfinite(value.get<double>())) return std::nullopt;
  return value.get<double>();
}

/// The arguments of one initialiser, each a number or a text and taken once.
class Arguments {
 public:
  Arguments(std::string name, json given) : name_(std::move(name)), given_(std::move(given)) {}

  base::Status number(const char* key, std::optional<double>& out) {
    const auto found = given_.find(key);
    if (found == given_.end()) return {};
    out = number_of(*found);
    if (!out) return refused("{} {} is {}, no number", name_, key, shown(found->dump()));
    given_.erase(found);
    return {};
  }
  /// One of `names`; the choice at its position.
  template <typename Choice, std::size_t N>
  base::Status choose(const char* key, const std::pair<std::string_view, Choice> (&names)[N],
                      Choice& out) {
    const auto found = given_.find(key);
    if (found == given_.end()) return {};
    for (const auto& [name, choice] : names) {
      if (*found != name) continue;
      out = choice;
      given_.erase(found);
      return {};
    }
    return refused("{} {} {} is unknown", name_, key, shown(found->dump()));
  }
  base::Status finish() const {
    if (given_.empty()) return {};
    return refused("{} takes no argument '{}'", name_, shown(given_.begin().key()));
  }

 private:
  std::string name_;
  json given_;
};

constexpr std::pair<std::string_view, FanKind> kFans[] = {
    {"avg", FanKind::average}, {"in", FanKind::in}, {"out", FanKind::out}};
constexpr std::pair<std::string_view, schemas::Distribution> kDistributions[] = {
    {"uniform", schemas::Distribution::uniform}, {"gaussian", schemas::Distribution::normal}};

base::Result<InitializerSpec> make_initializer(const std::string& name, json given) {
  Arguments arguments(name, std::move(given));
  InitializerSpec spec;
  if (name == "zero" || name == "zeros") {
    spec = {InitializerKind::constant, 0.0};
  } else if (name == "one" || name == "ones") {
    spec = {InitializerKind::constant, 1.0};
  } else if (name == "constant") {
    spec.kind = InitializerKind::constant;
    TROUPE_TRY(arguments.number("value", spec.scale));
    if (!spec.scale) return refused("constant needs its argument 'value'");
  } else if (name == "uniform") {
    spec = {InitializerKind::uniform, 0.07};
    TROUPE_TRY(arguments.number("scale", spec.scale));
  } else if (name == "normal") {
    spec = {InitializerKind::normal, 0.01};
    TROUPE_TRY(arguments.number("sigma", spec.scale));
  } else if (name == "xavier") {
    spec = {InitializerKind::xavier, 3.0};
    TROUPE_TRY(arguments.choose("rnd_type", kDistributions, spec.distribution));
    TROUPE_TRY(arguments.choose("factor_type", kFans, spec.fan));
    TROUPE_TRY(arguments.number("magnitude", spec.scale));
  } else if (name == "msraprelu") {
    spec = {InitializerKind::msra, 0.25};
    TROUPE_TRY(arguments.choose("factor_type", kFans, spec.fan));
    TROUPE_TRY(arguments.number("slope", spec.scale));
  } else {
    return refused(
        "initialiser '{}' is unknown (known: constant, msraprelu, normal, one, uniform, xavier, "
        "zero)",
        shown(name));
  }
  TROUPE_TRY(arguments.finish());
  const store::ScaleRange scales = store::scale_range(spec.kind);
  if (spec.scale && (*spec.scale < scales.least || *spec.scale > scales.most)) {
    return refused("{} of {} is not in [{}, {}]", name, *spec.scale, scales.least, scales.most);
  }
  return spec;
}

}  // namespace

base::Result<InitializerSpec> parse_initializer(std::string_view text) {
  if (text.size() > kInitializerBytesMax) {
    return refused("has {} bytes; the limit is {}", text.size(), kInitializerBytesMax);
  }
  std::string name(text);
  json arguments = json::object();
  if (text.starts_with('[')) {
    json parsed = json::parse(text, nullptr, false);
    if (!parsed.is_array() || parsed.size() != 2 || !parsed[0].is_string() ||
        !parsed[1].is_object()) {
      return refused("is neither a name nor [\"NAME\", {{ARGUMENTS}}]");
    }
    // Values are copied and written by functions that call themselves at each level.
    for (const auto& [key, value] : parsed[1].items()) {
      if (value.is_primitive()) continue;
      return refused("argument '{}' is neither a number nor a text", shown(key));
    }
    name = parsed[0].get<std::string>();
    arguments = std::move(parsed[1]);
  }
  std::transform(name.begin(), name.end(), name.begin(),
                 [](unsigned char letter) { return static_cast<char>(std::tolower(letter)); });
  return make_initializer(name, std::move(arguments));
}

base::Result<KeyAttributes> read_key_attributes(const symbol::GraphNode& variable) {
  KeyAttributes read;
  const auto init = variable.extra.find("__init__");
  if (init != variable.extra.end() && !init->second.empty()) {
    auto spec = parse_initializer(init->second);
    if (!spec.ok()) {
      return spec.status().with_context(
          fmt::format("variable '{}': __init__ '{}'", shown(variable.name), shown(init->second)));
    }
    read.initializer = *spec;
  }
  for (const auto& [name, out] :
       {std::pair("__lr_mult__", &read.lr_mult), std::pair("__wd_mult__", &read.wd_mult)}) {
    const auto given = variable.extra.find(name);
    if (given == variable.extra.end()) continue;
    *out = number_of(std::string_view(given->second));
    if (*out) continue;
    return refused("variable '{}': {} '{}' is no number", shown(variable.name), name,
                   shown(given->second));
  }
  return read;
}

}  // namespace troupe::train
