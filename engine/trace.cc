// SPDX-License-Identifier: Apache-2.0
// Writes the Trace Event Format: "X" events for runs, "b"/"e" pairs for asynchronous flights.
#include "engine/trace.h"

#include <iterator>
#include <span>
#include <utility>

#include "base/file.h"

namespace troupe::engine {

namespace {

std::string json_text(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (static_cast<unsigned char>(c) < 0x20) {
      fmt::format_to(std::back_inserter(out), "\\u{:04x}", static_cast<int>(c));
    } else {
      out += c;
    }
  }
  return out + '"';
}

double microseconds(std::int64_t ns) {
  return static_cast<double>(ns) / 1000.0;
}

}  // namespace

Trace::Trace(std::string path, std::uint64_t events_max)
    : path_(std::move(path)), events_max_(events_max) {}

const std::string* Trace::keep(std::string_view text) {
  return &texts_.try_emplace(std::string(text), 0).first->first;
}

void Trace::add(const TracedRun& run, Event event) {
  const base::MutexLock lock(mutex_);
  if (events_.size() >= events_max_) {
    ++dropped_;
    return;
  }
  event.name = keep(run.name);
  if (!run.detail.empty()) event.detail = keep(run.detail);
  events_.push_back(event);
}

void Trace::add_run(const TracedRun& run, int row, std::int64_t begin_ns, std::int64_t end_ns) {
  add(run, {nullptr, nullptr, static_cast<std::uint64_t>(row), begin_ns, end_ns, false});
}

void Trace::add_flight(std::string_view name, std::uint64_t serial, std::int64_t begin_ns,
                       std::int64_t end_ns) {
  add({name, {}}, {nullptr, nullptr, serial, begin_ns, end_ns, true});
}

void Trace::name_row(int row, std::string name) {
  const base::MutexLock lock(mutex_);
  rows_.emplace_back(row, std::move(name));
}

base::Status Trace::write() {
  const base::MutexLock lock(mutex_);
  std::string out = "{\"traceEvents\":[\n";
  auto line = std::back_inserter(out);
  for (const auto& [row, name] : rows_) {
    fmt::format_to(line,
                   R"({{"name":"thread_name","ph":"M","pid":1,"tid":{},"args":{{"name":{}}}}},)",
                   row, json_text(name));
    out += '\n';
  }
  for (const Event& event : events_) {
    const std::string name = json_text(*event.name);
    const double begin = microseconds(event.begin_ns);
    if (event.flight) {
      constexpr const char* kFormat =
          R"({{"name":{},"cat":"async","ph":"{}","id":{},"pid":1,"tid":0,"ts":{:.3f}}},)";
      fmt::format_to(line, fmt::runtime(kFormat), name, "b", event.row_or_serial, begin);
      fmt::format_to(line, fmt::runtime(kFormat), name, "e", event.row_or_serial,
                     microseconds(event.end_ns));
    } else {
      const std::string arguments = event.detail == nullptr ? "" : ",\"args\":" + *event.detail;
      fmt::format_to(line, R"({{"name":{},"ph":"X","pid":1,"tid":{},"ts":{:.3f},"dur":{:.3f}{}}},)",
                     name, event.row_or_serial, begin, microseconds(event.end_ns - event.begin_ns),
                     arguments);
    }
    out += '\n';
  }
  fmt::format_to(line, R"({{"name":"dropped","ph":"M","pid":1,"tid":0,"args":{{"events":{}}}}}]}})",
                 dropped_);
  out += '\n';
  return base::write_file_atomically(path_, std::as_bytes(std::span(out)));
}

}  // namespace troupe::engine
