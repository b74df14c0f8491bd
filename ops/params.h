// SPDX-License-Identifier: Apache-2.0
// Parameters of operators: typed values parsed once from text attributes (MXNet's form).
// Plain values; any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/dtype.h"
#include "base/shape.h"
#include "base/status.h"

namespace troupe::ops {

/// Attributes as symbol JSON keeps them: all values are text ("(3, 3)", "True", "0.9").
using Attributes = std::map<std::string, std::string>;

/// How the text of an attribute is parsed.
enum class ParamType : std::uint8_t { boolean, integer, real, text, shape, dtype };

/// A parsed value; the alternative follows ParamType's order.
using ParamValue = std::variant<bool, std::int64_t, double, std::string, base::Shape, base::DType>;

/// One parameter of an operator.
struct ParamDef {
  std::string name;
  ParamType type = ParamType::real;
  std::optional<ParamValue> initial;  ///< empty: required
  std::string doc;
  double low = -std::numeric_limits<double>::infinity();  ///< inclusive, for integer, real and each
                                                          ///< extent of shape
  double high = std::numeric_limits<double>::infinity();  ///< inclusive
  std::vector<std::string> choices = {};                  ///< text: the allowed values; empty: any
};

/// An attribute of MXNet's operator that changes nothing here: taken and dropped.
struct IgnoredAttribute {
  std::string name;
  std::vector<std::string> values = {};  ///< the only ones taken; empty: any
};

/// The parameters of one call, complete and checked. Copies share their values: passes copy nodes
/// by the thousand, and imperative calls one each.
class Params {
 public:
  /// Parses attributes against definitions; Python's None stands for the default. Unknown names
  /// that are not among `ignored`, missing required ones and values out of range are
  /// invalid_argument naming parameter, value and what is allowed.
  static base::Result<Params> parse(const std::vector<ParamDef>& definitions,
                                    const Attributes& attributes,
                                    const std::vector<IgnoredAttribute>& ignored = {});

  bool boolean(std::string_view name) const { return get<bool>(name); }
  std::int64_t integer(std::string_view name) const { return get<std::int64_t>(name); }
  double real(std::string_view name) const { return get<double>(name); }
  const std::string& text(std::string_view name) const { return get<std::string>(name); }
  const base::Shape& shape(std::string_view name) const { return get<base::Shape>(name); }
  base::DType dtype(std::string_view name) const { return get<base::DType>(name); }

  /// Canonical text of every parameter ("True", "0.9" in shortest round-trip form, "(3, 3)").
  Attributes to_attributes() const;
  /// Equal parameters have equal hashes.
  std::size_t hash() const;
  /// Numbers are equal when their bits are: 0 is not -0, and NaN is itself.
  friend bool operator==(const Params& a, const Params& b);

 private:
  template <typename T>
  const T& get(std::string_view name) const;
  using Values = std::map<std::string, ParamValue, std::less<>>;
  const Values& values() const;
  std::shared_ptr<const Values> values_;  // null: none
};

/// Reads a list of integers, "(1, -2)", "[1]", "3", "()" or Python's None for none, into the first
/// places of `into`; how many they are. Nothing where the text is no list or they do not fit.
std::optional<std::size_t> parse_integers(std::string_view text, std::span<std::int64_t> into);

/// Text of one value as to_attributes() writes it.
std::string to_attribute(const ParamValue& value);

template <typename T>
const T& Params::get(std::string_view name) const {
  const Values& all = values();
  const auto it = all.find(name);
  TROUPE_CHECK(it != all.end(), "operator has no parameter '" + std::string(name) + "'");
  const T* value = std::get_if<T>(&it->second);
  TROUPE_CHECK(value != nullptr, "parameter '" + std::string(name) + "' has another type");
  return *value;
}

}  // namespace troupe::ops
