// SPDX-License-Identifier: Apache-2.0
// Ordering, columns, and how three tables share a window.
#include "apps/top_view.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "apps/job_report.h"
#include "base/units.h"
#include "control/gpu_slots.h"

namespace troupe::apps {
namespace {

using schemas::JobInfo;
using schemas::JobPhase;
using schemas::MachineInfo;
using schemas::RankInfo;
using schemas::RankPhase;

constexpr double kSecondsPerMs = 1e-3;

double seconds_of(std::uint64_t ms) {
  return static_cast<double>(ms) * kSecondsPerMs;
}

/// Escape sequences of a word's colour.
enum class Paint : std::uint8_t { plain, heading, good, bad, faint };

std::string_view sequence_of(Paint paint) {
  switch (paint) {
    case Paint::plain:
      return "";
    case Paint::heading:
      return "\033[1m";
    case Paint::good:
      return "\033[32m";
    case Paint::bad:
      return "\033[31m";
    case Paint::faint:
      return "\033[2m";
  }
  return "";
}

/// Text of others may hold anything; a line holds one column for each byte.
std::string printable(std::string text) {
  for (char& c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x20 || byte >= 0x7f) c = '?';
  }
  return text;
}

/// A table: a heading and rows of cells, numbers to the right.
struct Table {
  struct Column {
    std::string name;
    bool right = false;
  };
  struct Row {
    std::vector<std::string> cells;
    Paint paint = Paint::plain;
  };
  std::vector<Column> columns;
  std::vector<Row> rows;
};

/// A line cut to the window, painted as a whole.
std::string finish_line(std::string line, Paint paint, const TopWindow& window) {
  if (window.columns != 0 && line.size() > window.columns) line.resize(window.columns);
  line.erase(line.find_last_not_of(' ') + 1);
  const std::string_view sequence = window.color ? sequence_of(paint) : "";
  if (sequence.empty() || line.empty()) return line;
  return std::string(sequence) + line + "\033[0m";
}

std::string format_row(const Table& table, const std::vector<std::size_t>& widths,
                       const std::vector<std::string>& cells) {
  std::string line;
  for (std::size_t i = 0; i < cells.size(); ++i) {
    if (i > 0) line += "  ";
    line += table.columns[i].right ? fmt::format("{:>{}}", cells[i], widths[i])
                                   : fmt::format("{:<{}}", cells[i], widths[i]);
  }
  return line;
}

/// At most `lines` lines: the heading, rows, and how many more there are.
void append_table(const Table& table, std::size_t lines, const TopWindow& window,
                  std::vector<std::string>& out) {
  if (lines == 0) return;
  std::vector<std::size_t> widths;
  std::vector<std::string> names;
  for (const Table::Column& column : table.columns) {
    names.push_back(column.name);
    widths.push_back(column.name.size());
  }
  for (const Table::Row& row : table.rows) {
    for (std::size_t i = 0; i < row.cells.size(); ++i) {
      widths[i] = std::max(widths[i], row.cells[i].size());
    }
  }
  out.push_back(finish_line(format_row(table, widths, names), Paint::heading, window));
  std::size_t shown = table.rows.size();
  if (shown > lines - 1) shown = lines > 2 ? lines - 2 : 0;
  for (std::size_t i = 0; i < shown; ++i) {
    const Table::Row& row = table.rows[i];
    out.push_back(finish_line(format_row(table, widths, row.cells), row.paint, window));
  }
  if (shown < table.rows.size() && lines > 1) {
    out.push_back(
        finish_line(fmt::format("... {} more", table.rows.size() - shown), Paint::faint, window));
  }
}

// ---- order ----

/// 0: it runs; 1: it waits; 2: it has ended.
int class_of(const JobInfo& job) {
  if (schemas::is_final(job.phase)) return 2;
  return job.phase == JobPhase::pending ? 1 : 0;
}

/// Positions in the answer's list, which is in order of submission.
std::vector<std::size_t> order_of_jobs(const std::vector<JobInfo>& jobs) {
  std::vector<std::size_t> order(jobs.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    const int left = class_of(jobs[a]), right = class_of(jobs[b]);
    if (left != right) return left < right;
    return left == 2 ? a > b : a < b;
  });
  return order;
}

std::vector<MachineInfo> sorted_machines(std::vector<MachineInfo> machines) {
  std::stable_sort(machines.begin(), machines.end(),
                   [](const MachineInfo& a, const MachineInfo& b) { return a.name < b.name; });
  return machines;
}

/// Those that are waited for, then by steps done; those that are done last.
std::vector<RankInfo> sorted_ranks(std::vector<RankInfo> ranks) {
  const auto key = [](const RankInfo& rank) {
    const int first = rank.phase == RankPhase::missing ? 0 : rank.phase == RankPhase::done ? 2 : 1;
    return std::make_tuple(first, rank.step, rank.job, rank.rank);
  };
  std::stable_sort(ranks.begin(), ranks.end(),
                   [&](const RankInfo& a, const RankInfo& b) { return key(a) < key(b); });
  return ranks;
}

/// What the ranks of one job say together.
struct Lag {
  std::uint64_t first = 0;     // the fastest rank's steps
  std::uint64_t last = 0;      // the slowest one's
  std::uint64_t heard_ms = 0;  // since any of them has reported
};

std::map<std::string, Lag> lags_of(const std::vector<RankInfo>& ranks) {
  std::map<std::string, Lag> lags;
  for (const RankInfo& rank : ranks) {
    const auto [at, added] = lags.emplace(rank.job, Lag{rank.step, rank.step, rank.heard_ms});
    if (added) continue;
    at->second.first = std::max(at->second.first, rank.step);
    at->second.last = std::min(at->second.last, rank.step);
    at->second.heard_ms = std::min(at->second.heard_ms, rank.heard_ms);
  }
  return lags;
}

// ---- tables ----

std::string percent_of(const JobInfo& job) {
  return job.steps_total == 0 ? "-" : fmt::format("{}%", job.step * 100 / job.steps_total);
}

std::string rate_text(double samples_per_second) {
  if (!(samples_per_second > 0)) return "-";
  return base::format_count(static_cast<std::uint64_t>(samples_per_second + 0.5));
}

Paint paint_of(JobPhase phase) {
  if (phase == JobPhase::running) return Paint::good;
  if (phase == JobPhase::failed) return Paint::bad;
  return schemas::is_final(phase) ? Paint::faint : Paint::plain;
}

Table job_rows(const TopView& view, const std::map<std::string, Lag>& lags) {
  Table table;
  table.columns = {
      {"JOB"},        {"STATE"},     {"STEP", true},  {"DONE", true}, {"SAMPLES/S", true},
      {"LOSS", true}, {"LAG", true}, {"HEARD", true}, {"AGE", true},  {"NOTE"}};
  for (const std::size_t i : order_of_jobs(view.cluster.jobs)) {
    const JobInfo& job = view.cluster.jobs[i];
    const auto lag = lags.find(job.id);
    const bool ranked = lag != lags.end();
    table.rows.push_back(
        {{printable(job.id), std::string(schemas::job_phase_name(job.phase)), step_text(job),
          percent_of(job), rate_text(job.samples_per_second), loss_text(job),
          ranked ? base::format_count(lag->second.first - lag->second.last) : "-",
          ranked ? fmt::format("{}s", lag->second.heard_ms / 1'000) : "-",
          base::format_duration(seconds_of(job.age_ms)), printable(job.text)},
         paint_of(job.phase)});
  }
  return table;
}

/// What a machine does not offer, and why; empty: it offers all.
std::string fault_text(const MachineInfo& machine) {
  if (!machine.withheld.empty()) return "offers no slots: " + printable(machine.withheld);
  if (machine.lost_gpus.empty()) return "";
  return "offers no more: " + printable(control::lost_text(machine.lost_gpus));
}

Table machine_rows(const TopView& view) {
  Table table;
  table.columns = {{"MACHINE"}, {"SLOTS", true}, {"GPUS", true}, {"LINK"}, {"NOTE"}};
  for (const MachineInfo& machine : sorted_machines(view.cluster.machines)) {
    const std::string fault = fault_text(machine);
    table.rows.push_back(
        {{printable(machine.name), fmt::format("{}/{}", machine.slots_used, machine.slots),
          machine.gpus == 0 ? "-" : fmt::format("{}/{}", machine.gpus_used, machine.gpus),
          machine.cut ? "cut" : "up", fault},
         machine.cut || !fault.empty() ? Paint::bad : Paint::plain});
  }
  return table;
}

Table rank_rows(const TopView& view, const std::map<std::string, Lag>& lags) {
  Table table;
  table.columns = {{"RANK", true}, {"JOB"},          {"MACHINE"},         {"GPU", true},  {"PHASE"},
                   {"STEP", true}, {"BEHIND", true}, {"SAMPLES/S", true}, {"HEARD", true}};
  for (const RankInfo& rank : sorted_ranks(view.cluster.ranks)) {
    const bool done = rank.phase == RankPhase::done;
    table.rows.push_back(
        {{std::to_string(rank.rank), printable(rank.job), printable(rank.machine),
          rank.gpu ? std::to_string(*rank.gpu) : "-",
          std::string(schemas::rank_phase_name(rank.phase)), base::format_count(rank.step),
          base::format_count(lags.at(rank.job).first - rank.step),
          done ? "-" : rate_text(rank.samples_per_second),
          fmt::format("{}s", rank.heard_ms / 1'000)},
         rank.phase == RankPhase::missing ? Paint::bad
         : done                           ? Paint::faint
                                          : Paint::plain});
  }
  return table;
}

std::string summary_of(const TopView& view) {
  std::uint64_t running = 0, slots = 0, used = 0, gpus = 0, gpus_used = 0;
  for (const JobInfo& job : view.cluster.jobs) running += class_of(job) == 0 ? 1 : 0;
  for (const MachineInfo& machine : view.cluster.machines) {
    slots += machine.slots;
    used += machine.slots_used;
    gpus += machine.gpus;
    gpus_used += machine.gpus_used;
  }
  return fmt::format("{}, heard {:.1f} s ago: {}, {} at work{}; {}, {}/{} slots{} used",
                     view.coordinator, seconds_of(view.age_ms),
                     base::format_counted(view.cluster.jobs.size(), "job"), running,
                     view.cluster.text.empty() ? "" : ", " + view.cluster.text,
                     base::format_counted(view.cluster.machines.size(), "machine"), used, slots,
                     gpus == 0 ? "" : fmt::format(" and {}/{} GPUs", gpus_used, gpus));
}

Json json_of(const std::vector<schemas::LostGpu>& lost) {
  Json list = Json::array();
  for (const schemas::LostGpu& gpu : lost) list.push_back({{"index", gpu.index}, {"why", gpu.why}});
  return list;
}

/// How many lines each of three tables gets: none more than it needs, and what one leaves the
/// others may take. Of `room` lines; the first tables come first.
std::array<std::size_t, 3> share(std::size_t room, const std::array<std::size_t, 3>& wanted) {
  std::array<std::size_t, 3> given{};
  bool grown = true;
  while (room > 0 && grown) {
    grown = false;
    for (std::size_t i = 0; i < wanted.size() && room > 0; ++i) {
      if (given[i] == wanted[i]) continue;
      ++given[i];
      --room;
      grown = true;
    }
  }
  return given;
}

}  // namespace

std::vector<std::string> draw_top(const TopView& view, const TopWindow& window) {
  const auto lags = lags_of(view.cluster.ranks);
  const std::array<Table, 3> tables = {job_rows(view, lags), machine_rows(view),
                                       rank_rows(view, lags)};
  std::vector<std::string> lines = {finish_line(printable(summary_of(view)), Paint::plain, window)};
  if (!view.trouble.empty()) {
    lines.push_back(finish_line(
        printable(fmt::format("tries again for {} s: {}", view.left_ms / 1'000, view.trouble)),
        Paint::bad, window));
  }
  std::array<std::size_t, 3> wanted{};
  for (std::size_t i = 0; i < tables.size(); ++i) wanted[i] = tables[i].rows.size() + 1;
  std::array<std::size_t, 3> given = wanted;
  if (window.rows != 0) {
    const std::size_t taken = lines.size() + tables.size();  // an empty line before each table
    given = share(window.rows > taken ? window.rows - taken : 0, wanted);
  }
  for (std::size_t i = 0; i < tables.size(); ++i) {
    lines.emplace_back();
    append_table(tables[i], given[i], window, lines);
  }
  if (window.rows != 0 && lines.size() > window.rows) lines.resize(window.rows);
  return lines;
}

Json json_of(const TopView& view) {
  const auto lags = lags_of(view.cluster.ranks);
  Json jobs = Json::array(), machines = Json::array(), ranks = Json::array();
  for (const std::size_t i : order_of_jobs(view.cluster.jobs)) {
    const JobInfo& job = view.cluster.jobs[i];
    Json& entry = jobs.emplace_back(json_of(job));
    const auto lag = lags.find(job.id);
    const bool ranked = lag != lags.end();
    entry["lag_steps"] = ranked ? Json(lag->second.first - lag->second.last) : Json(nullptr);
    entry["heard_seconds"] = ranked ? Json(seconds_of(lag->second.heard_ms)) : Json(nullptr);
  }
  for (const MachineInfo& machine : sorted_machines(view.cluster.machines)) {
    machines.push_back({{"name", machine.name},
                        {"slots", machine.slots},
                        {"slots_used", machine.slots_used},
                        {"gpus", machine.gpus},
                        {"gpus_used", machine.gpus_used},
                        {"gpus_lost", json_of(machine.lost_gpus)},
                        {"link", machine.cut ? "cut" : "up"},
                        {"withheld", json_or_null(machine.withheld)}});
  }
  for (const RankInfo& rank : sorted_ranks(view.cluster.ranks)) {
    ranks.push_back({{"rank", rank.rank},
                     {"job", rank.job},
                     {"machine", rank.machine},
                     {"gpu", rank.gpu ? Json(*rank.gpu) : Json(nullptr)},
                     {"phase", schemas::rank_phase_name(rank.phase)},
                     {"step", rank.step},
                     {"behind_steps", lags.at(rank.job).first - rank.step},
                     {"samples_per_second", rank.samples_per_second},
                     {"heard_seconds", seconds_of(rank.heard_ms)}});
  }
  return {{"coordinator", view.coordinator},
          {"jobs", std::move(jobs)},
          {"machines", std::move(machines)},
          {"ranks", std::move(ranks)},
          {"note", json_or_null(view.cluster.text)}};
}

}  // namespace troupe::apps
