// SPDX-License-Identifier: Apache-2.0
// The keys of limits, and which of them must fit each other.
#include "apps/limits_file.h"

#include <fmt/core.h>

#include <set>
#include <string_view>
#include <utility>

#include "base/units.h"

namespace troupe::apps {
namespace {

/// One limit: a plain integer, or text with a unit where the name ends in one. False: it is wrong.
bool read_limit(Section& section, const base::LimitInfo& row, base::Limits& limits) {
  const bool duration = row.name.ends_with("_ms");
  const bool bytes = row.name.find("_bytes") != std::string_view::npos;
  std::uint64_t& out = limits.*row.member;
  if (section.kind(row.name) != ValueKind::text || (!duration && !bytes)) {
    return section.read(row.name, out, IntegerRange{row.least, row.most}) ||
           section.kind(row.name) == ValueKind::absent;
  }
  std::string text;
  section.read(row.name, text, EmptyText::allowed);
  const auto value = duration ? base::parse_duration_ms(text) : base::parse_bytes(text);
  if (!value.ok()) {
    section.fail(row.name, value.status().text());
  } else if (!row.allows(value.value())) {
    section.fail_value(row.name, value.value() == 0 && row.least == 1
                                     ? "more than 0"
                                     : fmt::format("{} to {}{}", row.least, row.most,
                                                   duration ? " ms" : " bytes"));
  } else {
    out = value.value();
    return true;
  }
  return false;
}

/// At one of the two that is given; with both, at the larger one.
void check_order(Section& section, const base::LimitOrder& order, const base::Limits& limits) {
  if (order.holds(limits)) return;
  const bool given = section.kind(order.high) != ValueKind::absent;
  const std::string times = order.times == 1 ? "" : fmt::format("{} times ", order.times);
  section.fail(given ? order.high : order.low,
               fmt::format("{} ({}) must be at least {}{} ({})", order.high,
                           base::limit_value(limits, order.high), times, order.low,
                           base::limit_value(limits, order.low)));
}

void read_limits(Section section, base::Limits& limits) {
  const base::Limits before = limits;  // of a file, which has been judged
  std::set<std::string_view> wrong;
  for (const base::LimitInfo& row : base::limit_table()) {
    if (!read_limit(section, row, limits)) wrong.insert(row.name);
  }
  for (const base::LimitOrder& order : base::limit_orders()) {
    if (wrong.contains(order.low) || wrong.contains(order.high)) continue;
    if (order.holds(before)) check_order(section, order, limits);
  }
  section.finish();
}

}  // namespace

LimitsFile read_limits_file(const std::string& path, base::FileKind kind) {
  LimitsFile result;
  const auto text = base::read_text_file(path, base::Limits().job_file_bytes_max, kind);
  if (!text.ok()) {
    result.errors.push_back({"", 0, 0, "", text.status().text()});
    return result;
  }
  ConfigFile file(path, text.value());
  if (file.parsed()) read_limits(file.root(), result.limits);
  result.errors = file.errors();
  for (ConfigError& error : result.errors) {
    if (error.key == "limits") error.text += "; keys stand here without the header [limits]";
  }
  return result;
}

void read_job_limits(Section& root, base::Limits& limits, std::vector<ConfigError>& errors) {
  if (root.kind("limits") == ValueKind::text) {
    std::string path;
    root.read("limits", path);
    LimitsFile file = read_limits_file(path, base::FileKind::regular);
    limits = file.limits;
    for (ConfigError& error : file.errors) {
      if (error.file.empty()) {
        root.fail("limits", error.text);  // it cannot be read
      } else {
        errors.push_back(std::move(error));
      }
    }
  } else if (root.kind("limits") != ValueKind::absent && root.kind("limits") != ValueKind::table) {
    root.fail_value("limits", "a table or the path of a limits file");
  }
  read_limits(root.section("limits"), limits);
}

}  // namespace troupe::apps
