// SPDX-License-Identifier: Apache-2.0
// Sums, medians, gaps, and their tables.
#include "apps/trace_report.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <map>
#include <utility>

#include "base/check.h"
#include "base/text.h"
#include "base/units.h"

namespace troupe::apps {
namespace {

constexpr double kUsPerMs = 1e3, kUsPerSecond = 1e6, kPercent = 100;
constexpr std::size_t kLabelWidthMax = 48;

/// Times of one group, while they are gathered.
struct Gathered {
  std::vector<double> lengths_us;
  std::map<std::size_t, double> by_work;  // total of each
};

double median(std::vector<double>& values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  if (values.size() % 2 == 1) return *middle;
  return (*middle + *std::max_element(values.begin(), middle)) / 2;
}

TraceGroup group_of(const std::string& label, Gathered& gathered, const TraceFile& trace,
                    double all_us) {
  TraceGroup group;
  group.label = label;
  group.works = gathered.by_work.size();
  const auto most =
      std::max_element(gathered.by_work.begin(), gathered.by_work.end(),
                       [](const auto& a, const auto& b) { return a.second < b.second; });
  group.work = trace.works[most->first];
  TimeFigures& times = group.times;
  times.count = gathered.lengths_us.size();
  for (const double length : gathered.lengths_us) times.total_us += length;
  times.mean_us = times.total_us / static_cast<double>(times.count);
  times.median_us = median(gathered.lengths_us);
  times.share = all_us > 0 ? times.total_us / all_us : 0;
  return group;
}

std::string lane_label(const TraceFile& trace, std::int64_t row) {
  const auto found = trace.lanes.find(row);
  return found == trace.lanes.end() ? fmt::format("row {}", row) : found->second;
}

std::string label_of(const TraceFile& trace, const TracedSpan& span, TraceKey by) {
  const TracedWork& work = trace.works[span.work];
  switch (by) {
    case TraceKey::op:
      return work.op.empty() ? work.name : work.op;
    case TraceKey::name:
      return work.name;
    case TraceKey::kernel:
      return work.kernel.empty() ? "(no kernel)" : work.kernel;
    case TraceKey::lane:
      return lane_label(trace, span.row);
  }
  return work.name;
}

std::vector<TraceGroup> groups_of(const TraceFile& trace, const std::vector<TracedSpan>& spans,
                                  TraceKey by) {
  std::map<std::string, Gathered> gathered;
  double all_us = 0;
  for (const TracedSpan& span : spans) {
    Gathered& group = gathered[label_of(trace, span, by)];
    group.lengths_us.push_back(span.length_us);
    group.by_work[span.work] += span.length_us;
    all_us += span.length_us;
  }
  std::vector<TraceGroup> groups;
  for (auto& [label, group] : gathered) groups.push_back(group_of(label, group, trace, all_us));
  std::stable_sort(groups.begin(), groups.end(), [](const TraceGroup& a, const TraceGroup& b) {
    return a.times.total_us > b.times.total_us;
  });
  return groups;
}

TraceLane lane_of(const TraceFile& trace, std::int64_t row, std::vector<TracedSpan> runs,
                  double span_us) {
  TraceLane lane;
  lane.row = row;
  lane.name = lane_label(trace, row);
  lane.runs = runs.size();
  std::sort(runs.begin(), runs.end(),
            [](const TracedSpan& a, const TracedSpan& b) { return a.begin_us < b.begin_us; });
  for (std::size_t i = 0; i < runs.size(); ++i) {
    lane.busy_us += runs[i].length_us;
    if (i == 0) continue;
    const double idle_from = runs[i - 1].begin_us + runs[i - 1].length_us;
    const double gap = runs[i].begin_us - idle_from;
    if (gap < kGapUs) continue;
    ++lane.gaps;
    lane.gaps_us += gap;
    if (gap <= lane.longest_gap_us) continue;
    lane.longest_gap_us = gap;
    lane.longest_gap_begin_us = idle_from;
    lane.before_gap = trace.works[runs[i - 1].work].name;
    lane.behind_gap = trace.works[runs[i].work].name;
  }
  lane.utilisation = span_us > 0 ? lane.busy_us / span_us : 0;
  return lane;
}

/// Long names lose their middle.
std::string shortened(const std::string& text) {
  constexpr std::size_t kKept = kLabelWidthMax / 2 - 1;
  if (text.size() <= kLabelWidthMax) return text;
  return text.substr(0, kKept) + ".." + text.substr(text.size() - kKept);
}

std::size_t shown_of(std::size_t rows, std::size_t top) {
  return top == 0 ? rows : std::min(rows, top);
}

/// What is said of a row's work: all that its runs have in common.
std::string remark(const TraceGroup& group, TraceKey by) {
  const TracedWork& work = group.work;
  if (work.op.empty() || by == TraceKey::lane) return "";
  const std::string more =
      group.works > 1 ? "; " + base::format_counted(group.works - 1, "other call") : "";
  if (by == TraceKey::op) return work.kernel + more;
  const std::string shapes = work.inputs + " -> " + work.outputs;
  if (by == TraceKey::kernel) return fmt::format("{} {}{}", work.op, shapes, more);
  return fmt::format("{} {}{}", work.kernel, shapes, more);
}

/// How a key is called: in options and JSON, and over its rows and what is remarked of them.
struct KeyNames {
  std::string_view name, head, remark;
};
constexpr std::array<KeyNames, 4> kKeyNames = {{{"op", "OPERATION", "KERNEL OF MOST OF IT"},
                                                {"name", "NAME", "KERNEL, SHAPES"},
                                                {"kernel", "KERNEL", "MOST OF IT"},
                                                {"lane", "LANE", ""}}};

const KeyNames& names_of(TraceKey by) {
  return kKeyNames[static_cast<std::size_t>(by)];
}

void add_line(std::string& text, std::string line) {
  line.erase(line.find_last_not_of(' ') + 1);
  text += base::printable(line) + "\n";
}

void add_groups(std::string& text, const std::vector<TraceGroup>& groups, TraceKey by,
                std::size_t top) {
  const std::size_t shown = shown_of(groups.size(), top);
  std::size_t width = names_of(by).head.size();
  for (std::size_t i = 0; i < shown; ++i) {
    width = std::max(width, shortened(groups[i].label).size());
  }
  add_line(text,
           fmt::format("{:<{}} {:>9} {:>11} {:>6} {:>11} {:>11}  {}", names_of(by).head, width,
                       "COUNT", "TOTAL ms", "SHARE", "MEAN us", "MEDIAN us", names_of(by).remark));
  for (std::size_t i = 0; i < shown; ++i) {
    const TimeFigures& times = groups[i].times;
    add_line(text, fmt::format("{:<{}} {:>9} {:>11.3f} {:>5.1f}% {:>11.1f} {:>11.1f}  {}",
                               shortened(groups[i].label), width, base::format_count(times.count),
                               times.total_us / kUsPerMs, times.share * kPercent, times.mean_us,
                               times.median_us, remark(groups[i], by)));
  }
  if (shown == groups.size()) return;
  double rest_us = 0, rest_share = 0;
  for (std::size_t i = shown; i < groups.size(); ++i) {
    rest_us += groups[i].times.total_us;
    rest_share += groups[i].times.share;
  }
  add_line(text, fmt::format("{:<{}} {:>9} {:>11.3f} {:>5.1f}%",
                             fmt::format("{} more", base::format_count(groups.size() - shown)),
                             width, "", rest_us / kUsPerMs, rest_share * kPercent));
}

void add_lanes(std::string& text, const TraceReport& report) {
  std::size_t width = std::string_view("LANE").size();
  for (const TraceLane& lane : report.lanes) width = std::max(width, shortened(lane.name).size());
  add_line(text, fmt::format("{:<{}} {:>4} {:>9} {:>11} {:>6} {:>8} {:>11} {:>11}  {}", "LANE",
                             width, "ROW", "RUNS", "BUSY ms", "BUSY", "GAPS", "IN GAPS ms",
                             "LONGEST ms", "BETWEEN"));
  for (const TraceLane& lane : report.lanes) {
    const std::string between =
        lane.gaps == 0
            ? ""
            : fmt::format("{} and {}", shortened(lane.before_gap), shortened(lane.behind_gap));
    add_line(text,
             fmt::format("{:<{}} {:>4} {:>9} {:>11.3f} {:>5.1f}% {:>8} {:>11.3f} {:>11.3f}  {}",
                         shortened(lane.name), width, lane.row, base::format_count(lane.runs),
                         lane.busy_us / kUsPerMs, lane.utilisation * kPercent,
                         base::format_count(lane.gaps), lane.gaps_us / kUsPerMs,
                         lane.longest_gap_us / kUsPerMs, between));
  }
}

Json json_of_groups(const std::vector<TraceGroup>& groups, std::size_t top) {
  Json list = Json::array();
  for (std::size_t i = 0; i < shown_of(groups.size(), top); ++i) {
    const auto& [label, times, work, works] = groups[i];
    list.push_back({{"label", label},
                    {"count", times.count},
                    {"total_seconds", times.total_us / kUsPerSecond},
                    {"share", times.share},
                    {"mean_seconds", times.mean_us / kUsPerSecond},
                    {"median_seconds", times.median_us / kUsPerSecond},
                    {"works", works},
                    {"name", work.name},
                    {"operator", json_or_null(work.op)},
                    {"kernel", json_or_null(work.kernel)},
                    {"inputs", json_or_null(work.inputs)},
                    {"outputs", json_or_null(work.outputs)},
                    {"pass", json_or_null(work.pass)}});
  }
  return list;
}

}  // namespace

TraceKey trace_key(std::string_view name) {
  const auto found = std::ranges::find(kKeyNames, name, &KeyNames::name);
  TROUPE_CHECK(found != kKeyNames.end(), "a trace has no such key");
  return static_cast<TraceKey>(found - kKeyNames.begin());
}

TraceReport report_of(const TraceFile& trace, TraceKey by) {
  TraceReport report;
  report.by = by;
  report.runs = trace.runs.size();
  report.dropped = trace.dropped;
  std::map<std::int64_t, std::vector<TracedSpan>> rows;
  for (const auto& [row, name] : trace.lanes) rows[row];
  if (!trace.runs.empty()) {
    double begin = trace.runs.front().begin_us, end = begin;
    for (const TracedSpan& run : trace.runs) {
      begin = std::min(begin, run.begin_us);
      end = std::max(end, run.begin_us + run.length_us);
      rows[run.row].push_back(run);
    }
    report.span_us = end - begin;
  }
  report.groups = groups_of(trace, trace.runs, by);
  report.flights = groups_of(trace, trace.flights, TraceKey::name);
  for (auto& [row, runs] : rows) {
    report.lanes.push_back(lane_of(trace, row, std::move(runs), report.span_us));
  }
  return report;
}

std::string text_of(const TraceReport& report, std::size_t top) {
  std::string text = fmt::format("{} on {} in {:.3f} s\n", base::format_counted(report.runs, "run"),
                                 base::format_counted(report.lanes.size(), "thread"),
                                 report.span_us / kUsPerSecond);
  if (report.dropped > 0) {
    text += fmt::format("{} came when the trace was full and are not in it\n",
                        base::format_counted(report.dropped, "event"));
  }
  text += "\n";
  add_groups(text, report.groups, report.by, top);
  text += "\n";
  add_lanes(text, report);
  if (report.flights.empty()) return text;
  text += "\nAsynchronous, from their begin to their completion:\n";
  add_groups(text, report.flights, TraceKey::name, top);
  return text;
}

Json json_of(const TraceReport& report, const std::string& file, std::size_t top) {
  Json lanes = Json::array();
  for (const TraceLane& lane : report.lanes) {
    lanes.push_back({{"lane", lane.name},
                     {"row", lane.row},
                     {"runs", lane.runs},
                     {"busy_seconds", lane.busy_us / kUsPerSecond},
                     {"utilisation", lane.utilisation},
                     {"gaps", lane.gaps},
                     {"gaps_seconds", lane.gaps_us / kUsPerSecond},
                     {"longest_gap_seconds", lane.longest_gap_us / kUsPerSecond},
                     {"longest_gap_begin_seconds", lane.longest_gap_begin_us / kUsPerSecond},
                     {"before_gap", json_or_null(lane.before_gap)},
                     {"behind_gap", json_or_null(lane.behind_gap)}});
  }
  return {{"file", file},
          {"runs", report.runs},
          {"seconds", report.span_us / kUsPerSecond},
          {"dropped", report.dropped},
          {"by", names_of(report.by).name},
          {"groups_total", report.groups.size()},
          {"groups", json_of_groups(report.groups, top)},
          {"lanes", std::move(lanes)},
          {"flights_total", report.flights.size()},
          {"flights", json_of_groups(report.flights, top)}};
}

}  // namespace troupe::apps
