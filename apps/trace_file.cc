// SPDX-License-Identifier: Apache-2.0
// Lines of a trace are read one by one: no document of a million events is built.
#include "apps/trace_file.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <string_view>
#include <type_traits>
#include <utility>

#include "base/file.h"

namespace troupe::apps {
namespace {

using base::Errc;
using base::Status;
using Event = nlohmann::json;

constexpr std::uint64_t kTraceBytesMax = std::uint64_t{2} << 30;
constexpr std::size_t kLineBytesMax = std::size_t{1} << 20;  // Troupe's are some kilobytes
constexpr std::string_view kHead = "{\"traceEvents\":[\n", kTail = "]}\n";

/// The text of a member, or nothing.
std::string text_of(const Event& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_string() ? found->get<std::string>() : std::string();
}

constexpr double kTimeMost = 1e15;  // microseconds: some decades

template <typename T>
bool read_number(const Event& object, const char* key, T& out) {
  const auto found = object.find(key);
  if (found == object.end()) return false;
  const bool fits = std::is_floating_point_v<T> ? found->is_number()
                    : std::is_unsigned_v<T>     ? found->is_number_unsigned()
                                                : found->is_number_integer();
  if (!fits) return false;
  out = found->get<T>();
  if constexpr (std::is_floating_point_v<T>) return std::abs(out) < kTimeMost;
  return true;
}

/// Puts events into a file, one after the other.
class Collector {
 public:
  /// False for what no trace of Troupe has.
  bool add(const Event& event);
  /// True behind the last event.
  bool complete() const { return complete_ && begun_.empty(); }
  TraceFile take() { return std::move(file_); }

 private:
  std::size_t work_of(const Event& event);
  bool add_run(const Event& event);
  bool add_flight(const Event& event, bool begins);
  bool add_meta(const Event& event);

  TraceFile file_;
  std::map<TracedWork, std::size_t> works_;
  std::map<std::uint64_t, double> begun_;  // flights, by their number
  bool complete_ = false;
};

std::size_t Collector::work_of(const Event& event) {
  TracedWork work;
  work.name = text_of(event, "name");
  if (const auto args = event.find("args"); args != event.end() && args->is_object()) {
    work.op = text_of(*args, "op");
    work.kernel = text_of(*args, "kernel");
    work.inputs = text_of(*args, "inputs");
    work.outputs = text_of(*args, "outputs");
    work.pass = text_of(*args, "pass");
  }
  const auto [place, fresh] = works_.try_emplace(std::move(work), file_.works.size());
  if (fresh) file_.works.push_back(place->first);
  return place->second;
}

bool Collector::add_run(const Event& event) {
  TracedSpan run;
  if (!read_number(event, "tid", run.row) || !read_number(event, "ts", run.begin_us) ||
      !read_number(event, "dur", run.length_us) || run.length_us < 0) {
    return false;
  }
  run.work = work_of(event);
  file_.runs.push_back(run);
  return true;
}

bool Collector::add_flight(const Event& event, bool begins) {
  std::uint64_t number = 0;
  double at_us = 0;
  if (!read_number(event, "id", number) || !read_number(event, "ts", at_us)) return false;
  if (begins) return begun_.emplace(number, at_us).second;
  const auto begin = begun_.find(number);
  if (begin == begun_.end() || at_us < begin->second) return false;
  file_.flights.push_back({work_of(event), 0, begin->second, at_us - begin->second});
  begun_.erase(begin);
  return true;
}

bool Collector::add_meta(const Event& event) {
  const auto args = event.find("args");
  if (args == event.end() || !args->is_object()) return false;
  if (text_of(event, "name") == "dropped") {
    complete_ = true;
    return read_number(*args, "events", file_.dropped);
  }
  std::int64_t row = 0;
  if (!read_number(event, "tid", row)) return false;
  file_.lanes[row] = text_of(*args, "name");
  return true;
}

bool Collector::add(const Event& event) {
  if (!event.is_object()) return false;
  const std::string kind = text_of(event, "ph");
  if (kind == "X") return add_run(event);
  if (kind == "b" || kind == "e") return add_flight(event, kind == "b");
  return kind == "M" && add_meta(event);
}

/// A line has an event, or both ends of a flight.
bool add_line(std::string_view line, Collector& collector) {
  if (line.size() > kLineBytesMax) return false;
  const Event events = Event::parse(fmt::format("[{}]", line), nullptr, false);
  return !events.is_discarded() && !events.empty() &&
         std::ranges::all_of(events, [&](const Event& event) { return collector.add(event); });
}

}  // namespace

base::Result<TraceFile> parse_trace(const std::string& name, std::string_view text) {
  // What is cut within its head is empty, not foreign.
  if (!text.starts_with(kHead) && !kHead.starts_with(text)) {
    return base::error(Errc::invalid_argument,
                       "{}: is no trace that 'troupe run --trace' has written", name);
  }
  const bool whole = text.ends_with(kTail);
  std::string_view rest = text.substr(std::min(text.size(), kHead.size()));
  if (whole) rest.remove_suffix(kTail.size());
  Collector collector;
  std::size_t line = 1;
  while (!rest.empty()) {
    ++line;
    const std::size_t end = rest.find('\n');
    std::string_view event = rest.substr(0, end);
    rest.remove_prefix(end == std::string_view::npos ? rest.size() : end + 1);
    if (event.ends_with(',')) event.remove_suffix(1);
    if (add_line(event, collector)) continue;
    if (rest.empty() && !whole) break;
    return base::error(Errc::data_loss, "{}: line {} is no event of a trace", name, line);
  }
  if (whole && collector.complete()) return collector.take();
  return base::error(Errc::data_loss, "{}: ends in line {}, before the end of the trace", name,
                     line);
}

base::Result<TraceFile> read_trace(const std::string& path) {
  TROUPE_TRY_ASSIGN(const std::string text, base::read_text_file(path, kTraceBytesMax));
  return parse_trace(path, text);
}

}  // namespace troupe::apps
