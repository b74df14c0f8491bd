// SPDX-License-Identifier: Apache-2.0
// What benchmark programs that are no Google Benchmark share: timed repetitions and one JSON line a
// row, the same as peers/timing.py prints, so that peers.py can set them side by side. One thread.
#pragma once

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include "base/status.h"

namespace troupe::bench {

/// Ends the program with a reason.
template <typename T>
T must(base::Result<T> result) {
  if (result.ok()) return std::move(result).value();
  std::fprintf(stderr, "%s\n", result.status().to_string().c_str());
  std::_Exit(1);
}
inline void must(const base::Status& status) {
  if (status.ok()) return;
  std::fprintf(stderr, "%s\n", status.to_string().c_str());
  std::_Exit(1);
}

/// Seconds of the clock, and of all this process's threads on processors.
struct Seconds {
  double wall = 0.0;
  double cpu = 0.0;
};

inline Seconds now() {
  timespec cpu{};
  ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &cpu);
  const auto wall = std::chrono::steady_clock::now().time_since_epoch();
  return {std::chrono::duration<double>(wall).count(),
          static_cast<double>(cpu.tv_sec) + 1e-9 * static_cast<double>(cpu.tv_nsec)};
}

inline double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const std::size_t half = values.size() / 2;
  return values.size() % 2 != 0 ? values[half] : (values[half - 1] + values[half]) / 2;
}

/// Medians over `repetitions` calls of `f`, after `warmup` calls, each divided by `items`.
template <typename F>
Seconds measure(int warmup, int repetitions, double items, F&& f) {
  std::vector<double> wall;
  std::vector<double> cpu;
  for (int i = 0; i < warmup + repetitions; ++i) {
    const Seconds begin = now();
    f();
    const Seconds end = now();
    if (i < warmup) continue;
    wall.push_back((end.wall - begin.wall) / items);
    cpu.push_back((end.cpu - begin.cpu) / items);
  }
  return {median(wall), median(cpu)};
}

/// One row; `check`: a number that peers must agree on before times mean anything, e.g. a loss.
inline void print_row(std::string_view what, const Seconds& each, double check = 0.0) {
  std::printf(R"({"what": "%.*s", "seconds": %.6g, "cpu_seconds": %.6g, "check": %.9g})"
              "\n",
              static_cast<int>(what.size()), what.data(), each.wall, each.cpu, check);
  std::fflush(stdout);
}

/// What stands behind `--name=` among the arguments; empty: no such argument.
inline std::string_view text_option(int argc, char** argv, std::string_view name) {
  for (int i = 1; i < argc; ++i) {
    const std::string_view argument = argv[i];
    if (!argument.starts_with("--") || !argument.substr(2).starts_with(name)) continue;
    if (argument.size() <= name.size() + 3 || argument[name.size() + 2] != '=') continue;
    return argument.substr(name.size() + 3);
  }
  return {};
}

/// The whole number behind `--name=` among the arguments, or `otherwise`; ends the program when it
/// is none.
inline int option(int argc, char** argv, std::string_view name, int otherwise) {
  const std::string_view digits = text_option(argc, argv, name);
  if (digits.empty()) return otherwise;
  int value = 0;
  const auto read = std::from_chars(digits.begin(), digits.end(), value);
  if (read.ec == std::errc() && read.ptr == digits.end() && value > 0) return value;
  std::fprintf(stderr, "--%.*s=%.*s: a whole number above 0 is wanted\n",
               static_cast<int>(name.size()), name.data(), static_cast<int>(digits.size()),
               digits.data());
  std::exit(2);
}

}  // namespace troupe::bench
