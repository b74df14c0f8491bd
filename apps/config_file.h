// SPDX-License-Identifier: Apache-2.0
// A TOML file read key by key, with --set overrides on top, that gathers every error with line and
// column. Knows nothing of jobs. The only reader of TOML; one thread.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

namespace troupe::apps {

class ConfigFile;

/// What is wrong with a configuration file or with an override, or what a warning says of it.
struct ConfigError {
  std::string file;          ///< "job.toml", "--set data.batch=12B"; empty: `text` names it
  std::uint32_t line = 0;    ///< from 1; 0: of the whole file, or of an override
  std::uint32_t column = 0;  ///< from 1, where there is a line
  std::string key;           ///< "data.batch"; empty: no key is at fault
  std::string text;

  /// One line: "job.toml:3:15: error: data.batch: expected integer >= 1, got 0". `kind`: another
  /// word than "error".
  std::string to_string(std::string_view kind = "error") const;
};

/// Inclusive bounds of an integer.
struct IntegerRange {
  std::uint64_t least = 0;
  std::uint64_t most = std::numeric_limits<std::int64_t>::max();
};

/// Bounds of a real number; `least` itself may be excluded.
struct RealRange {
  double least = -std::numeric_limits<double>::infinity();
  double most = std::numeric_limits<double>::infinity();
  bool above_least = false;
};

/// Whether "" is a value: that of a path which may be left out.
enum class EmptyText : std::uint8_t { refused, allowed };

/// What a value of a configuration file is.
enum class ValueKind : std::uint8_t { absent, text, integer, table, other };

/// One table of a ConfigFile. A read of a key makes it known; `out` keeps its value when the key is
/// absent or wrong, and wrong values become errors of the file. Every read returns whether `out`
/// was set.
class Section {
 public:
  ValueKind kind(std::string_view key);
  bool read(std::string_view key, std::string& out, EmptyText empty = EmptyText::refused);
  bool read(std::string_view key, bool& out);
  bool read(std::string_view key, double& out, RealRange range = {});
  bool read(std::string_view key, std::uint64_t& out, IntegerRange range = {});
  bool read(std::string_view key, std::uint32_t& out, IntegerRange range = {});
  bool read(std::string_view key, std::vector<double>& out);
  bool read(std::string_view key, std::vector<std::uint64_t>& out);
  /// The position of the text among `names`.
  bool choose(std::string_view key, std::span<const std::string_view> names, std::size_t& out);
  /// The same for an enumeration whose values stand in the order of `names`.
  template <typename Enum>
  requires std::is_enum_v<Enum>
  bool choose(std::string_view key, std::span<const std::string_view> names, Enum& out) {
    std::size_t index = 0;
    if (!choose(key, names, index)) return false;
    out = static_cast<Enum>(index);
    return true;
  }
  /// A table inside; empty when absent. Text in its place is allowed for those who asked kind().
  Section section(std::string_view key);
  /// The tables of an array of tables, called "key[0]" and so on; none when absent.
  std::vector<Section> sections(std::string_view key);
  /// An error at the key, or at this table when the key is absent.
  void fail(std::string_view key, std::string_view text);
  /// A warning at the key, which must be there: its value is right, and does not do what it says.
  void warn(std::string_view key, std::string_view text);
  /// An error at the key: "expected EXPECTED, got VALUE".
  void fail_value(std::string_view key, std::string_view expected);
  /// Refuses the keys that nobody has read. Call last, once.
  void finish();

 private:
  friend class ConfigFile;
  struct Place;  // toml++'s node types stay in config_file.cc
  Section(ConfigFile& file, const Place& place);
  std::string full(std::string_view key) const;

  ConfigFile* file_;
  const void* table_;  ///< toml::table, or null
  std::string path_;   ///< "train.optimizer"; empty: root
  std::set<std::string, std::less<>> known_;
};

/// A parsed file and its errors. Sections refer to it.
class ConfigFile {
 public:
  /// `name` is what errors call the file. A syntax error is kept as the only error.
  ConfigFile(std::string name, const std::string& text);
  ~ConfigFile();
  ConfigFile(const ConfigFile&) = delete;
  ConfigFile& operator=(const ConfigFile&) = delete;

  /// Adds "section.key=value", stronger than the file and than earlier ones. The value is TOML, or
  /// text where it is none.
  void override_value(const std::string& assignment);
  /// Whether the text was TOML.
  bool parsed() const;
  Section root();
  /// The paths of all keys that sections were asked for, present or not.
  const std::set<std::string>& known_keys() const;
  /// All errors, in order of place.
  std::vector<ConfigError> errors() const;
  /// All warnings, likewise.
  std::vector<ConfigError> warnings() const;

 private:
  friend class Section;
  struct Content;
  std::unique_ptr<Content> content_;
};

}  // namespace troupe::apps
