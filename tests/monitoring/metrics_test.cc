// SPDX-License-Identifier: Apache-2.0
// Metrics: sums over cells and threads, buckets, collectors, the text that Prometheus reads.
#include "monitoring/metrics.h"

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>
#include <thread>
#include <vector>

#include "monitoring/process.h"
#include "tests/support/catch.h"

namespace troupe::monitoring {
namespace {

using Catch::Contains;

TEST_CASE("counters of one series add up exactly across threads and live scrapes", "[metrics]") {
  Metrics metrics;
  constexpr int kThreads = 4, kEach = 100'000;
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&metrics] {
      Counter& cell = metrics.counter(family("troupe_worker_steps_total"), {"0"});
      for (int n = 0; n < kEach; ++n) cell.add();
    });
  }
  CHECK_NOTHROW(metrics.exposition());
  for (std::thread& thread : threads) thread.join();
  CHECK_THAT(metrics.exposition(), Contains("troupe_worker_steps_total{rank=\"0\"} 400000\n"));
}

TEST_CASE("a series stands at 0 from the moment it is asked for", "[metrics]") {
  Metrics metrics;
  CHECK(metrics.exposition().empty());
  metrics.counter(family("troupe_kv_bytes_total"), {"1", "push"});
  CHECK_THAT(metrics.exposition(),
             Contains("# TYPE troupe_kv_bytes_total counter\n") &&
                 Contains("troupe_kv_bytes_total{level=\"1\",op=\"push\"} 0\n"));
}

TEST_CASE("gauges of one series are one gauge", "[metrics]") {
  Metrics metrics;
  Gauge& a = metrics.gauge(family("troupe_worker_epoch"), {"2"});
  Gauge& b = metrics.gauge(family("troupe_worker_epoch"), {"2"});
  CHECK(&a == &b);
  a.set(3);
  b.add(1);
  CHECK_THAT(metrics.exposition(), Contains("troupe_worker_epoch{rank=\"2\"} 4\n"));
}

TEST_CASE("an observation on a bound falls into that bound's bucket", "[metrics]") {
  Metrics metrics;
  Histogram& first = metrics.histogram(family("troupe_kv_staleness_steps"), {"2"});
  Histogram& second = metrics.histogram(family("troupe_kv_staleness_steps"), {"2"});
  first.observe(0);
  first.observe(4);
  second.observe(4);
  second.observe(1e9);
  const std::string text = metrics.exposition();
  CHECK_THAT(text, Contains("_bucket{level=\"2\",le=\"0\"} 1\n"));
  CHECK_THAT(text, Contains("_bucket{level=\"2\",le=\"3\"} 1\n"));
  CHECK_THAT(text, Contains("_bucket{level=\"2\",le=\"4\"} 3\n"));
  CHECK_THAT(text, Contains("_bucket{level=\"2\",le=\"256\"} 3\n"));
  CHECK_THAT(text, Contains("_bucket{level=\"2\",le=\"+Inf\"} 4\n"));
  CHECK_THAT(text, Contains("_count{level=\"2\"} 4\n"));
}

TEST_CASE("what collectors give is summed and leaves when their owner does", "[metrics]") {
  Metrics metrics;
  metrics.counter(family("troupe_data_records_total"), {"train"}).add(2);
  {
    const Collection collection = metrics.on_scrape([](Scrape& scrape) {
      scrape.value(family("troupe_data_records_total"), {"train"}, 5);
      scrape.value(family("troupe_job_step"), {"job-1"}, 5);
      scrape.value(family("troupe_job_step"), {"job-1"}, 7);
    });
    for (int twice = 0; twice < 2; ++twice) {
      const std::string text = metrics.exposition();
      CHECK_THAT(text, Contains("troupe_data_records_total{source=\"train\"} 7\n"));
      CHECK_THAT(text, Contains("troupe_job_step{train_job=\"job-1\"} 12\n"));
    }
  }
  CHECK_THAT(metrics.exposition(), !Contains("troupe_job_step"));
}

TEST_CASE("a flood of series is cut at the limit", "[metrics]") {
  Metrics metrics;
  for (std::size_t i = 0; i < Metrics::kSeriesMax + 10; ++i) {
    metrics.counter(family("troupe_worker_steps_total"), {std::to_string(i)}).add();
  }
  const std::string text = metrics.exposition();
  CHECK_THAT(text, Contains("{rank=\"1999\"} 1\n") && !Contains("{rank=\"2000\"}"));
}

TEST_CASE("the list holds each name once, with rules kept", "[metrics]") {
  std::set<std::string_view> names;
  for (const Family& row : families()) {
    INFO(row.name);
    CHECK(names.insert(row.name).second);
    CHECK((row.name.starts_with("troupe_") || row.name.starts_with("process_")));
    CHECK(row.help.back() == '.');
    CHECK((row.type == MetricType::counter) == row.name.ends_with("_total"));
    CHECK((row.type == MetricType::histogram) == (row.buckets != Buckets::none));
    CHECK(bucket_bounds(row.buckets).size() <= Histogram::kBucketsMax);
  }
}

/// The text of all sources but the list itself.
std::string all_sources() {
  std::string text;
  const std::filesystem::path root = TROUPE_SOURCE_DIR;
  for (const char* folder : {"monitoring", "http", "storage", "engine", "data", "link", "store",
                             "train", "actors", "cluster", "apps"}) {
    if (!std::filesystem::exists(root / folder)) continue;
    for (const auto& entry : std::filesystem::directory_iterator(root / folder)) {
      if (entry.path().extension() != ".cc") continue;
      std::ifstream file(entry.path());
      text.append(std::istreambuf_iterator<char>(file), {});
    }
  }
  return text;
}

TEST_CASE("no family is listed that nobody feeds", "[metrics]") {
  const std::string sources = all_sources();
  REQUIRE(sources.size() > 100'000);
  for (const Family& row : families()) {
    INFO(row.name);
    CHECK(sources.find("family(\"" + std::string(row.name) + "\")") != std::string::npos);
  }
}

TEST_CASE("a process tells of its memory, time and log", "[metrics]") {
  Metrics metrics;
  const Collection collection = collect_process(metrics, "0.1.0", "test", "worker");
  const std::string text = metrics.exposition();
  for (const Family& row : families()) {
    if (row.name.starts_with("process_")) CHECK_THAT(text, Contains(std::string(row.name) + " "));
  }
  CHECK_THAT(text, Contains("build=\"test\"") && Contains("level=\"error\"} "));
}

/// Registers a series of every family.
void fill(Metrics& metrics, const Family& row) {
  const auto with = [&](LabelValues labels) {
    if (row.type == MetricType::counter) metrics.counter(row, labels).add();
    if (row.type == MetricType::gauge) metrics.gauge(row, labels).set(1.5);
    if (row.type == MetricType::histogram) metrics.histogram(row, labels).observe(0.003);
  };
  if (row.label_count() == 0) with({});
  if (row.label_count() == 1) with({"a"});
  if (row.label_count() == 2) with({"a", "\"b\"\n\\"});
  if (row.label_count() == 3) with({"a", "b", "c"});
}

TEST_CASE("promtool finds no fault in any family", "[metrics]") {
  if (std::system("command -v promtool > /dev/null") != 0) {
    WARN("promtool is not installed; the text format was not checked by it");
    return;
  }
  Metrics metrics;
  for (const Family& row : families()) fill(metrics, row);
  const auto path = std::filesystem::temp_directory_path() / "troupe-exposition.txt";
  std::ofstream(path) << metrics.exposition();
  CHECK(std::system(("promtool check metrics < " + path.string() + " 1>&2").c_str()) == 0);
  std::filesystem::remove(path);
}

}  // namespace
}  // namespace troupe::monitoring
