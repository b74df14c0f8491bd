// SPDX-License-Identifier: Apache-2.0
// Reading and writing of quantities.
#include "base/units.h"

#include <array>
#include <cctype>
#include <charconv>
#include <cmath>
#include <ctime>

namespace troupe::base {
namespace {

struct Unit {
  std::string_view name;
  double factor;
};

constexpr std::array<Unit, 6> kDurations = {
    {{"ms", 1}, {"s", 1e3}, {"m", 60e3}, {"min", 60e3}, {"h", 3600e3}, {"d", 86400e3}}};

constexpr double kKibi = 1024.0;
constexpr std::array<Unit, 5> kBytes = {{{"", 1},
                                         {"k", kKibi},
                                         {"m", kKibi* kKibi},
                                         {"g", kKibi* kKibi* kKibi},
                                         {"t", kKibi* kKibi* kKibi* kKibi}}};

/// number x factor rounded, or an error when it does not fit or comes to nothing.
Result<std::uint64_t> scaled(std::string_view text, const Quantity& quantity, double factor) {
  constexpr double kMost = 9e18;
  const double value = std::round(quantity.number * factor);
  if (value > kMost) return error(Errc::invalid_argument, "'{}' is too large", text);
  // 0 often means something of its own.
  if (value == 0 && quantity.number > 0) {
    return error(Errc::invalid_argument, "'{}' is too small", text);
  }
  return static_cast<std::uint64_t>(value);
}

}  // namespace

Result<Quantity> parse_quantity(std::string_view text) {
  Quantity quantity;
  const auto [end, failed] =
      std::from_chars(text.data(), text.data() + text.size(), quantity.number);
  if (failed != std::errc() || !std::isfinite(quantity.number) || std::signbit(quantity.number)) {
    return error(Errc::invalid_argument, "'{}' does not begin with a number >= 0", text);
  }
  std::string_view unit = text.substr(static_cast<std::size_t>(end - text.data()));
  while (!unit.empty() && unit.front() == ' ') unit.remove_prefix(1);
  for (const char c : unit) {
    quantity.unit += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  }
  return quantity;
}

Result<std::uint64_t> parse_duration_ms(std::string_view text) {
  TROUPE_TRY_ASSIGN(const Quantity quantity, parse_quantity(text));
  for (const Unit& unit : kDurations) {
    if (quantity.unit == unit.name) return scaled(text, quantity, unit.factor);
  }
  return error(Errc::invalid_argument,
               "'{}' is no duration; write it like 250ms, 10s, 5m, 2h or 7d", text);
}

Result<std::uint64_t> parse_bytes(std::string_view text) {
  TROUPE_TRY_ASSIGN(const Quantity quantity, parse_quantity(text));
  std::string_view name = quantity.unit;
  if (name.ends_with('b')) name.remove_suffix(1);
  if (name.ends_with('i')) name.remove_suffix(1);
  for (const Unit& unit : kBytes) {
    if (name == unit.name) return scaled(text, quantity, unit.factor);
  }
  return error(Errc::invalid_argument, "'{}' is no size; write it like 512, 64k, 1.5m or 8g", text);
}

std::string format_duration(double seconds) {
  constexpr double kMost = 359'999'999;  // a wrong estimate must not overflow the display
  const auto total = static_cast<std::uint64_t>(std::llround(std::fmin(seconds, kMost)));
  const std::uint64_t hours = total / 3600, minutes = total / 60 % 60, rest = total % 60;
  return hours > 0 ? fmt::format("{}:{:02}:{:02}", hours, minutes, rest)
                   : fmt::format("{}:{:02}", minutes, rest);
}

std::string format_date(std::int64_t unix_seconds) {
  const std::time_t time = unix_seconds;
  std::tm parts{};
  if (::gmtime_r(&time, &parts) == nullptr) return std::to_string(unix_seconds);
  char text[64];
  return {text, std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &parts)};
}

std::string format_count(std::uint64_t number) {
  std::string text = std::to_string(number);
  for (std::size_t place = text.size(); place > 3;) {
    place -= 3;
    text.insert(place, 1, ',');
  }
  return text;
}

std::string format_counted(std::uint64_t number, std::string_view thing) {
  const std::string_view ending = number == 1 ? "" : thing.ends_with('s') ? "es" : "s";
  return fmt::format("{} {}{}", format_count(number), thing, ending);
}

std::string format_bytes(std::uint64_t bytes) {
  if (bytes < 1024) return fmt::format("{} B", bytes);
  constexpr std::array<std::string_view, 4> names = {"KiB", "MiB", "GiB", "TiB"};
  double value = static_cast<double>(bytes) / kKibi;
  std::size_t i = 0;
  for (; value >= kKibi && i + 1 < names.size(); ++i) value /= kKibi;
  return fmt::format("{:.1f} {}", value, names[i]);
}

}  // namespace troupe::base
