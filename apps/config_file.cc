// SPDX-License-Identifier: Apache-2.0
// ConfigFile over toml++, the only file that includes it.
#include "apps/config_file.h"

#include <fmt/core.h>
#include <toml++/toml.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <deque>
#include <optional>
#include <sstream>
#include <tuple>

#include "base/suggest.h"

namespace troupe::apps {
namespace {

constexpr std::string_view kSetOption = "--set ";
constexpr std::size_t kShownValueMax = 60;
constexpr std::size_t kShownFaultMax = 300;  // of the TOML parser: a sentence

/// An error with its place, for sorting. What is said of an override has a place in its text, too,
/// which nobody wants to see.
struct Fault {
  bool of_override = false;
  std::uint32_t line = 0;
  std::uint32_t column = 0;
  ConfigError error;
};

/// A "--set" value, parsed.
struct OverrideValue {
  std::string path;
  toml::table holder;  ///< {v = value}
  bool used = false;
  const toml::node& node() const { return *holder.get("v"); }
};

/// In order of place; overrides are last.
std::vector<ConfigError> sorted(std::vector<Fault> faults) {
  std::stable_sort(faults.begin(), faults.end(), [](const Fault& a, const Fault& b) {
    return std::tie(a.of_override, a.line, a.column) < std::tie(b.of_override, b.line, b.column);
  });
  std::vector<ConfigError> errors;
  for (Fault& fault : faults) errors.push_back(std::move(fault.error));
  return errors;
}

/// Whether it is digits and no more, of a number beyond 64 bits with a sign.
bool too_long_number(std::string_view text) {
  constexpr std::size_t kDigitsMax = 18;
  if (text.starts_with('-') || text.starts_with('+')) text.remove_prefix(1);
  text.remove_prefix(std::min(text.find_first_not_of('0'), text.size()));
  return text.size() > kDigitsMax && text.find_first_not_of("0123456789") == text.npos;
}

/// One printable line, of `bytes_max` at most.
std::string printable(std::string text, std::size_t bytes_max = kShownValueMax) {
  for (char& c : text) {
    if (static_cast<unsigned char>(c) < 0x20) c = ' ';
  }
  if (text.size() > bytes_max) text = text.substr(0, bytes_max) + "...";
  return text;
}

std::string shown(const toml::node& node) {
  if (const auto* text = node.as_string()) return '"' + printable(text->get()) + '"';
  // As people write it: toml++ would print 0.286 as 0.28599999999999998. The point tells why 1.0 is
  // no integer.
  if (const auto* number = node.as_floating_point()) {
    const std::string digits = fmt::format("{}", number->get());
    return digits.find_first_not_of("0123456789-") == std::string::npos ? digits + ".0" : digits;
  }
  std::ostringstream out;
  node.visit([&](const auto& value) { out << value; });
  return printable(out.str());
}

/// Large upper bounds are mentioned only to those who exceed them.
std::string expected_integer(const toml::node& node, const IntegerRange& range) {
  constexpr std::uint64_t kMentioned = 1'000'000;
  const auto* integer = node.as_integer();
  const bool above = integer != nullptr && integer->get() > 0 &&
                     static_cast<std::uint64_t>(integer->get()) > range.most;
  const auto* text = node.as_string();  // what is no TOML in an override is text
  const bool too_long = text != nullptr && too_long_number(text->get());
  return above || too_long || range.most <= kMentioned
             ? fmt::format("integer from {} to {}", range.least, range.most)
             : fmt::format("integer >= {}", range.least);
}

/// The upper bound is only mentioned where it is near or passed.
std::string expected_real(std::optional<double> value, const RealRange& range) {
  constexpr double kMentioned = 1e30;
  if (std::isinf(range.least)) return "number";
  const std::string above =
      fmt::format("number {} {}", range.above_least ? ">" : ">=", range.least);
  const bool mentioned = range.most < kMentioned || (value && *value > range.most);
  return mentioned ? fmt::format("{} and <= {}", above, range.most) : above;
}

std::optional<std::uint64_t> integer_of(const toml::node& node, const IntegerRange& range) {
  const auto* integer = node.as_integer();
  if (integer == nullptr || integer->get() < 0) return std::nullopt;
  const auto value = static_cast<std::uint64_t>(integer->get());
  if (value < range.least || value > range.most) return std::nullopt;
  return value;
}

std::optional<double> real_of(const toml::node& node) {
  const auto value = node.is_number() ? node.value<double>() : std::nullopt;
  return value && std::isfinite(*value) ? value : std::nullopt;
}

bool in_range(double value, const RealRange& range) {
  return value <= range.most && (range.above_least ? value > range.least : value >= range.least);
}

/// Dots of keys in one line. toml++ makes a table in a table for each part of a dotted key and
/// frees them by recursion: a long enough key would overflow the stack. No honest line comes near.
constexpr int kLineDotsMax = 64;

/// Whether the dot at `at` is the only one of a number. Digits may be a key's part, too: "1.1.1".
bool of_number(std::string_view line, std::size_t at) {
  constexpr std::string_view kOfNumbers = "0123456789_eE+-.";
  const auto digit = [&](std::size_t i) {
    return i < line.size() && std::isdigit(static_cast<unsigned char>(line[i])) != 0;
  };
  if (at == 0 || !digit(at - 1) || !digit(at + 1)) return false;
  const std::size_t before = line.find_last_not_of(kOfNumbers, at);
  const std::size_t begin = before == std::string_view::npos ? 0 : before + 1;
  const std::size_t end = std::min(line.find_first_not_of(kOfNumbers, at), line.size());
  // A key goes on there.
  const auto of_key = [&](std::size_t i) {
    return i < line.size() && (std::isalnum(static_cast<unsigned char>(line[i])) != 0 ||
                               line[i] == '"' || line[i] == '\'');
  };
  if (of_key(end) || (begin > 0 && of_key(begin - 1))) return false;
  return line.substr(begin, end - begin).find('.') == at - begin &&
         line.substr(at + 1, end - at - 1).find('.') == std::string_view::npos;
}

/// Whether a line is a comment, or words in a text of several lines, which it does not end.
bool is_comment(std::string_view line) {
  const std::size_t first = line.find_first_not_of(" \t");
  return first != std::string_view::npos && line[first] == '#' &&
         line.find_first_of("\"'") == std::string_view::npos;
}

/// The place of the first dot too many; {0, 0} where there is none.
toml::source_position excess_dot(std::string_view text) {
  for (toml::source_index number = 1; !text.empty(); ++number) {
    const std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(text.size(), line.size() + 1));
    if (is_comment(line)) continue;
    int dots = 0;
    for (std::size_t at = line.find('.'); at < line.size(); at = line.find('.', at + 1)) {
      if (of_number(line, at) || ++dots <= kLineDotsMax) continue;
      return {number, static_cast<toml::source_index>(at + 1)};
    }
  }
  return {0, 0};
}

}  // namespace

struct Section::Place {
  const toml::table* table;
  std::string path;

  /// Marks the key as known and finds its value.
  static const toml::node* look(Section& section, std::string_view key);
};

struct ConfigFile::Content {
  std::string name;
  toml::table root;
  bool parsed = false;
  std::deque<OverrideValue> overrides;
  std::vector<Fault> faults;
  std::vector<Fault> warnings;
  std::set<std::string> known_keys;

  void add(const toml::source_region& where, std::string key, std::string text) {
    faults.push_back(fault_at(where, std::move(key), std::move(text)));
  }

  Fault fault_at(const toml::source_region& where, std::string key, std::string text) const {
    Fault fault;
    fault.error.file = where.path ? *where.path : name;
    fault.error.key = std::move(key);
    fault.error.text = std::move(text);
    fault.of_override = fault.error.file.starts_with(kSetOption);
    fault.line = where.begin.line;
    fault.column = where.begin.column;
    if (fault.of_override || fault.line == 0) return fault;
    fault.error.line = fault.line;
    fault.error.column = fault.column;
    return fault;
  }

  /// The strongest override of exactly this path.
  const toml::node* override_of(std::string_view path) {
    const toml::node* node = nullptr;
    for (OverrideValue& value : overrides) {
      if (value.path != path) continue;
      value.used = true;
      node = &value.node();
    }
    return node;
  }

  const toml::node* find(const void* table, std::string_view key, const std::string& path) {
    if (const toml::node* node = override_of(path)) return node;
    return table == nullptr ? nullptr : static_cast<const toml::table*>(table)->get(key);
  }
};

std::string ConfigError::to_string(std::string_view kind) const {
  std::string line_text = file.empty() ? "" : file + ":";
  if (line != 0) line_text += fmt::format("{}:{}:", line, column);
  return fmt::format("{}{}{}: {}{}{}", line_text, line_text.empty() ? "" : " ", kind, key,
                     key.empty() ? "" : ": ", text);
}

// ---- ConfigFile ----

ConfigFile::ConfigFile(std::string name, const std::string& text)
    : content_(std::make_unique<Content>()) {
  content_->name = std::move(name);
  const toml::source_position excess = excess_dot(text);
  if (excess.line != 0) {
    content_->add({excess, excess, {}}, "",
                  fmt::format("more than {} dots in a line", kLineDotsMax));
    return;
  }
  try {
    content_->root = toml::parse(text, std::string_view(content_->name));
    content_->parsed = true;
  } catch (const toml::parse_error& fault) {
    content_->add(fault.source(), "", printable(std::string(fault.description()), kShownFaultMax));
  }
}

ConfigFile::~ConfigFile() = default;

void ConfigFile::override_value(const std::string& assignment) {
  const std::string name = std::string(kSetOption) + printable(assignment);
  const toml::source_region where{{1, 1}, {1, 1}, std::make_shared<const std::string>(name)};
  const std::size_t equals = assignment.find('=');
  const std::string path = assignment.substr(0, equals);
  const bool named = !path.empty() && std::all_of(path.begin(), path.end(), [](unsigned char c) {
    return std::isalnum(c) || c == '_' || c == '-' || c == '.';
  });
  if (equals == std::string::npos || !named) {
    content_->add(where, "", "expected section.key=value");
    return;
  }
  const std::string value = assignment.substr(equals + 1);
  OverrideValue& entry = content_->overrides.emplace_back();
  entry.path = path;
  try {
    if (excess_dot(value).line == 0) {
      entry.holder = toml::parse("v = " + value, std::string_view(name));
    }
  } catch (const toml::parse_error&) {
    entry.holder.clear();
  }
  // Not TOML, or more than one value: then it is text, as people write it in a shell.
  if (entry.holder.size() != 1 || !entry.holder.contains("v")) {
    entry.holder = toml::parse("v = ''", std::string_view(name));
    *entry.holder.get("v")->as_string() = value;
  }
}

bool ConfigFile::parsed() const {
  return content_->parsed;
}

const std::set<std::string>& ConfigFile::known_keys() const {
  return content_->known_keys;
}

Section ConfigFile::root() {
  return Section(*this, {&content_->root, ""});
}

std::vector<ConfigError> ConfigFile::errors() const {
  std::vector<ConfigError> errors = sorted(content_->faults);
  for (const OverrideValue& value : content_->overrides) {
    if (value.used || !content_->parsed) continue;
    errors.push_back({*value.node().source().path, 0, 0, value.path, "unknown key"});
  }
  return errors;
}

std::vector<ConfigError> ConfigFile::warnings() const {
  return sorted(content_->warnings);
}

// ---- Section ----

Section::Section(ConfigFile& file, const Place& place)
    : file_(&file), table_(place.table), path_(place.path) {}

const toml::node* Section::Place::look(Section& section, std::string_view key) {
  section.known_.emplace(key);
  const std::string path = section.full(key);
  section.file_->content_->known_keys.insert(path);
  return section.file_->content_->find(section.table_, key, path);
}

std::string Section::full(std::string_view key) const {
  return path_.empty() ? std::string(key) : fmt::format("{}.{}", path_, key);
}

ValueKind Section::kind(std::string_view key) {
  const std::string path = full(key);
  const toml::node* node = Place::look(*this, key);
  if (node == nullptr) {
    const auto& overrides = file_->content_->overrides;
    const bool inside = std::any_of(overrides.begin(), overrides.end(), [&](const auto& value) {
      return value.path.starts_with(path + ".");
    });
    return inside ? ValueKind::table : ValueKind::absent;
  }
  if (node->is_string()) return ValueKind::text;
  if (node->is_integer()) return ValueKind::integer;
  return node->is_table() ? ValueKind::table : ValueKind::other;
}

bool Section::read(std::string_view key, std::string& out, EmptyText empty) {
  const toml::node* node = Place::look(*this, key);
  if (node == nullptr) return false;
  const bool fits =
      node->is_string() && (empty == EmptyText::allowed || !node->as_string()->get().empty());
  if (!fits) {
    fail_value(key, "text");
    return false;
  }
  const std::string& text = node->as_string()->get();
  if (text.find('\0') != std::string::npos) {  // it would end a path too early
    fail(key, "has a NUL character");
    return false;
  }
  out = text;
  return true;
}

bool Section::read(std::string_view key, bool& out) {
  const toml::node* node = Place::look(*this, key);
  if (node == nullptr) return false;
  if (!node->is_boolean()) {
    fail_value(key, "true or false");
    return false;
  }
  out = node->as_boolean()->get();
  return true;
}

bool Section::read(std::string_view key, double& out, RealRange range) {
  const toml::node* node = Place::look(*this, key);
  if (node == nullptr) return false;
  const auto value = real_of(*node);
  if (!value || !in_range(*value, range)) {
    fail_value(key, expected_real(value, range));
    return false;
  }
  out = *value;
  return true;
}

bool Section::read(std::string_view key, std::uint64_t& out, IntegerRange range) {
  const toml::node* node = Place::look(*this, key);
  if (node == nullptr) return false;
  const auto value = integer_of(*node, range);
  if (!value) {
    fail_value(key, expected_integer(*node, range));
    return false;
  }
  out = *value;
  return true;
}

bool Section::read(std::string_view key, std::uint32_t& out, IntegerRange range) {
  range.most = std::min<std::uint64_t>(range.most, std::numeric_limits<std::int32_t>::max());
  std::uint64_t value = 0;
  if (!read(key, value, range)) return false;
  out = static_cast<std::uint32_t>(value);
  return true;
}

bool Section::read(std::string_view key, std::vector<double>& out) {
  const toml::node* node = Place::look(*this, key);
  if (node == nullptr) return false;
  std::vector<double> values;
  bool right = node->is_array();
  for (std::size_t i = 0; right && i < node->as_array()->size(); ++i) {
    const auto value = real_of(*node->as_array()->get(i));
    right = value.has_value();
    values.push_back(value.value_or(0));
  }
  if (!right) {
    fail_value(key, "an array of numbers");
    return false;
  }
  out = std::move(values);
  return true;
}

bool Section::read(std::string_view key, std::vector<std::uint64_t>& out) {
  const toml::node* node = Place::look(*this, key);
  if (node == nullptr) return false;
  std::vector<std::uint64_t> values;
  bool right = node->is_array();
  for (std::size_t i = 0; right && i < node->as_array()->size(); ++i) {
    const auto value = integer_of(*node->as_array()->get(i), {1});
    right = value.has_value();
    values.push_back(value.value_or(0));
  }
  if (!right) {
    fail_value(key, "an array of integers >= 1");
    return false;
  }
  out = std::move(values);
  return true;
}

bool Section::choose(std::string_view key, std::span<const std::string_view> names,
                     std::size_t& out) {
  const toml::node* node = Place::look(*this, key);
  if (node == nullptr) return false;
  const std::string text = node->is_string() ? node->as_string()->get() : std::string();
  const auto it = std::find(names.begin(), names.end(), text);
  if (it != names.end()) {
    out = static_cast<std::size_t>(it - names.begin());
    return true;
  }
  std::string expected;
  for (std::size_t i = 0; i < names.size(); ++i) {
    expected += i == 0 ? "" : i + 1 == names.size() ? " or " : ", ";
    expected += fmt::format("\"{}\"", names[i]);
  }
  const std::vector<std::string> known(names.begin(), names.end());
  fail(key, fmt::format("expected {}, got {}{}", expected, shown(*node),
                        base::did_you_mean(text, known)));
  return false;
}

Section Section::section(std::string_view key) {
  const std::string path = full(key);
  const toml::node* node = Place::look(*this, key);
  const toml::table* table = node == nullptr ? nullptr : node->as_table();
  return Section(*file_, {table, path});
}

std::vector<Section> Section::sections(std::string_view key) {
  std::vector<Section> sections;
  const toml::node* node = Place::look(*this, key);
  if (node == nullptr) return sections;
  const toml::array* array = node->as_array();
  // An empty array is homogeneous of no type.
  if (array == nullptr || (!array->empty() && !array->is_homogeneous(toml::node_type::table))) {
    fail_value(key, "an array of tables");
    return sections;
  }
  for (std::size_t i = 0; i < array->size(); ++i) {
    sections.push_back(
        Section(*file_, {array->get(i)->as_table(), fmt::format("{}[{}]", full(key), i)}));
  }
  return sections;
}

void Section::fail(std::string_view key, std::string_view text) {
  ConfigFile::Content& content = *file_->content_;
  const toml::node* node = Place::look(*this, key);
  if (node == nullptr) node = static_cast<const toml::table*>(table_);
  const toml::source_region here =
      node != nullptr ? node->source() : toml::source_region{{}, {}, {}};
  content.add(here, full(key), std::string(text));
}

void Section::warn(std::string_view key, std::string_view text) {
  ConfigFile::Content& content = *file_->content_;
  const toml::node* node = Place::look(*this, key);
  if (node == nullptr) return;
  content.warnings.push_back(content.fault_at(node->source(), full(key), std::string(text)));
}

void Section::fail_value(std::string_view key, std::string_view expected) {
  const toml::node* node = Place::look(*this, key);
  fail(key, node == nullptr ? fmt::format("missing; expected {}", expected)
                            : fmt::format("expected {}, got {}", expected, shown(*node)));
}

void Section::finish() {
  ConfigFile::Content& content = *file_->content_;
  const std::vector<std::string> known(known_.begin(), known_.end());
  const auto refuse = [&](const toml::source_region& where, std::string_view key) {
    content.add(where, full(key),
                "unknown key" + base::did_you_mean(key.substr(0, key.find('.')), known));
  };
  if (table_ != nullptr) {
    for (const auto& [key, node] : *static_cast<const toml::table*>(table_)) {
      if (known_.count(key.str()) == 0) refuse(key.source(), key.str());
    }
  }
  const std::string prefix = path_.empty() ? "" : path_ + ".";
  for (OverrideValue& value : content.overrides) {
    if (value.used || !value.path.starts_with(prefix)) continue;
    const std::string key = value.path.substr(prefix.size());
    if (key.find('.') != std::string::npos && known_.count(key.substr(0, key.find('.'))) != 0) {
      continue;  // a table inside answers for it
    }
    value.used = true;
    refuse(value.node().source(), key);
  }
}

}  // namespace troupe::apps
