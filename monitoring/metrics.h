// SPDX-License-Identifier: Apache-2.0
// A process's metrics: counters, gauges and histograms by family, gathered at each scrape. The
// program builds one Metrics and passes it down; it outlives everything that counts. Counting costs
// a relaxed load and store, never a lock. Families come from families.h only.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "monitoring/families.h"

namespace troupe::monitoring {

/// Values of a family's labels, in the family's order.
using LabelValues = std::initializer_list<std::string_view>;

/// A growing sum. One thread (or actor) at a time adds; ask Metrics for one per writer: those of
/// one series are added up at the scrape.
class Counter {
 public:
  void add(double amount = 1.0) {
    value_.store(value_.load(std::memory_order_relaxed) + amount, std::memory_order_relaxed);
  }
  double value() const { return value_.load(std::memory_order_relaxed); }

 private:
  std::atomic<double> value_{0.0};
};

/// A number that goes up and down. Any thread; the last set() stands. All who ask for one series
/// share one gauge.
class Gauge {
 public:
  void set(double value) { value_.store(value, std::memory_order_relaxed); }
  void add(double amount) { value_.fetch_add(amount, std::memory_order_relaxed); }
  double value() const { return value_.load(std::memory_order_relaxed); }

 private:
  std::atomic<double> value_{0.0};
};

/// Counts of observations by size. One writer at a time, like Counter.
class Histogram {
 public:
  static constexpr std::size_t kBucketsMax = 14;
  explicit Histogram(std::span<const double> bounds) : bounds_(bounds) {}
  void observe(double value);
  /// Observations at or below the i-th bound and above the one before; i = bounds: above all.
  std::uint64_t count(std::size_t i) const { return counts_[i].load(std::memory_order_relaxed); }
  double sum() const { return sum_.load(std::memory_order_relaxed); }
  std::span<const double> bounds() const { return bounds_; }

 private:
  std::span<const double> bounds_;
  std::array<std::atomic<std::uint64_t>, kBucketsMax + 1> counts_{};
  std::atomic<double> sum_{0.0};
};

/// Where a collector puts the values that it reads at a scrape.
class Scrape {
 public:
  virtual ~Scrape() = default;
  /// Adds to a series of a counter or gauge: what several collectors give is summed.
  virtual void value(const Family& family, LabelValues labels, double value) = 0;
};

/// Keeps a collector registered; its end removes the collector and waits for a scrape in progress.
/// Not to be destroyed inside a collector.
class Collection {
 public:
  Collection() = default;
  explicit Collection(std::function<void()> remove) : remove_(std::move(remove)) {}
  Collection(Collection&& other) noexcept : remove_(std::exchange(other.remove_, nullptr)) {}
  Collection& operator=(Collection&& other) noexcept {
    if (this != &other) {
      if (remove_) remove_();
      remove_ = std::exchange(other.remove_, nullptr);
    }
    return *this;
  }
  ~Collection() {
    if (remove_) remove_();
  }

 private:
  std::function<void()> remove_;
};

/// The metrics of one process. Any thread.
class Metrics {
 public:
  /// Series of one process, at most; what is asked for above counts but is not shown (logged once).
  static constexpr std::size_t kSeriesMax = 2'000;

  Metrics();
  ~Metrics();
  Metrics(const Metrics&) = delete;
  Metrics& operator=(const Metrics&) = delete;

  /// A new counter of the series, shown from now on, at 0 first. Lives as long as this.
  Counter& counter(const Family& family, LabelValues labels = {});
  /// The gauge of the series.
  Gauge& gauge(const Family& family, LabelValues labels = {});
  /// A new histogram of the series.
  Histogram& histogram(const Family& family, LabelValues labels = {});
  /// Calls `collector` at each scrape, on the scraping thread. It must not call Metrics.
  [[nodiscard]] Collection on_scrape(std::function<void(Scrape&)> collector);

  /// Everything in Prometheus' text format 0.0.4, families in the list's order.
  std::string exposition() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace troupe::monitoring
