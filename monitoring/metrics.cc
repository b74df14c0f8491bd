// SPDX-License-Identifier: Apache-2.0
// Metrics: a Collectable of prometheus-cpp that adds up all cells of a series when it is scraped.
#include "monitoring/metrics.h"

#include <prometheus/collectable.h>
#include <prometheus/metric_family.h>
#include <prometheus/text_serializer.h>

#include <deque>
#include <limits>
#include <list>
#include <map>
#include <sstream>
#include <vector>

#include "base/check.h"
#include "base/log.h"
#include "base/mutex.h"

namespace troupe::monitoring {
namespace {

using LabelTexts = std::vector<std::string>;

/// Position of a row of families.h; anything else is a programmer's error.
std::size_t index_of(const Family& family) {
  const std::ptrdiff_t index = &family - kFamilies.data();
  TROUPE_CHECK(index >= 0 && static_cast<std::size_t>(index) < kFamilies.size(),
               "metric families come from the list only");
  return static_cast<std::size_t>(index);
}

LabelTexts texts_of(const Family& family, LabelValues labels) {
  TROUPE_CHECK(labels.size() == family.label_count(),
               std::string(family.name) + " is given a wrong number of label values");
  return {labels.begin(), labels.end()};
}

/// All cells of one series; only those of the family's type are used.
struct Series {
  std::vector<const Counter*> counters;
  std::vector<const Histogram*> histograms;
  Gauge* gauge = nullptr;
  double collected = 0.0;  ///< from collectors, of the scrape in progress
};

using SeriesByLabels = std::map<LabelTexts, Series>;

prometheus::MetricType prometheus_type(MetricType type) {
  switch (type) {
    case MetricType::counter:
      return prometheus::MetricType::Counter;
    case MetricType::gauge:
      return prometheus::MetricType::Gauge;
    case MetricType::histogram:
      break;
  }
  return prometheus::MetricType::Histogram;
}

void fill_histogram(const Family& family, const Series& series,
                    prometheus::ClientMetric::Histogram& out) {
  const std::span<const double> bounds = bucket_bounds(family.buckets);
  std::vector<std::uint64_t> counts(bounds.size() + 1, 0);
  for (const Histogram* cell : series.histograms) {
    for (std::size_t i = 0; i < counts.size(); ++i) counts[i] += cell->count(i);
    out.sample_sum += cell->sum();
  }
  for (std::size_t i = 0; i < counts.size(); ++i) {
    out.sample_count += counts[i];
    const double bound = i < bounds.size() ? bounds[i] : std::numeric_limits<double>::infinity();
    out.bucket.push_back({out.sample_count, bound});
  }
}

prometheus::ClientMetric to_client_metric(const Family& family, const LabelTexts& labels,
                                          const Series& series) {
  prometheus::ClientMetric metric;
  for (std::size_t i = 0; i < labels.size(); ++i) {
    metric.label.push_back({std::string(family.labels[i]), labels[i]});
  }
  switch (family.type) {
    case MetricType::counter:
      metric.counter.value = series.collected;
      for (const Counter* cell : series.counters) metric.counter.value += cell->value();
      break;
    case MetricType::gauge:
      metric.gauge.value = series.collected;
      if (series.gauge != nullptr) metric.gauge.value += series.gauge->value();
      break;
    case MetricType::histogram:
      fill_histogram(family, series, metric.histogram);
      break;
  }
  return metric;
}

/// The series of a scrape: those with cells, and those that collectors add.
class ScrapeTable final : public Scrape {
 public:
  explicit ScrapeTable(std::array<SeriesByLabels, kFamilies.size()> series)
      : series_(std::move(series)) {}

  void value(const Family& family, LabelValues labels, double value) override {
    TROUPE_CHECK(family.type != MetricType::histogram, "collectors give counters and gauges");
    series_[index_of(family)][texts_of(family, labels)].collected += value;
  }

  std::vector<prometheus::MetricFamily> families() const {
    std::vector<prometheus::MetricFamily> result;
    for (std::size_t i = 0; i < series_.size(); ++i) {
      if (series_[i].empty()) continue;
      const Family& row = kFamilies[i];
      prometheus::MetricFamily& out = result.emplace_back();
      out.name = row.name;
      out.help = row.help;
      out.type = prometheus_type(row.type);
      for (const auto& [labels, series] : series_[i]) {
        out.metric.push_back(to_client_metric(row, labels, series));
      }
    }
    return result;
  }

 private:
  std::array<SeriesByLabels, kFamilies.size()> series_;
};

}  // namespace

void Histogram::observe(double value) {
  std::size_t i = 0;
  while (i < bounds_.size() && value > bounds_[i]) ++i;
  counts_[i].store(count(i) + 1, std::memory_order_relaxed);
  sum_.store(sum() + value, std::memory_order_relaxed);
}

class Metrics::Impl final : public prometheus::Collectable {
 public:
  std::vector<prometheus::MetricFamily> Collect() const override {
    ScrapeTable table(copy_series());
    base::MutexLock lock(collectors_mutex_);
    for (const auto& collector : collectors_) collector(table);
    return table.families();
  }

  Counter& counter(const Family& family, LabelValues labels) {
    base::MutexLock lock(mutex_);
    Counter& cell = counters_.emplace_back();
    if (Series* series = find(family, MetricType::counter, labels)) {
      series->counters.push_back(&cell);
    }
    return cell;
  }

  Gauge& gauge(const Family& family, LabelValues labels) {
    base::MutexLock lock(mutex_);
    Series* series = find(family, MetricType::gauge, labels);
    if (series == nullptr) return gauges_.emplace_back();
    if (series->gauge == nullptr) series->gauge = &gauges_.emplace_back();
    return *series->gauge;
  }

  Histogram& histogram(const Family& family, LabelValues labels) {
    base::MutexLock lock(mutex_);
    Histogram& cell = histograms_.emplace_back(bucket_bounds(family.buckets));
    if (Series* series = find(family, MetricType::histogram, labels)) {
      series->histograms.push_back(&cell);
    }
    return cell;
  }

  Collection add(std::function<void(Scrape&)> collector) {
    base::MutexLock lock(collectors_mutex_);
    const auto place = collectors_.insert(collectors_.end(), std::move(collector));
    return Collection([this, place] { remove(place); });
  }

 private:
  using Collectors = std::list<std::function<void(Scrape&)>>;

  void remove(Collectors::iterator place) {
    base::MutexLock lock(collectors_mutex_);
    collectors_.erase(place);
  }

  /// The place of a series; nullptr when the process has too many.
  Series* find(const Family& family, MetricType type, LabelValues labels) TROUPE_REQUIRES(mutex_) {
    TROUPE_CHECK(family.type == type, std::string(family.name) + " is of another type");
    SeriesByLabels& by_labels = series_[index_of(family)];
    LabelTexts texts = texts_of(family, labels);
    if (const auto it = by_labels.find(texts); it != by_labels.end()) return &it->second;
    if (series_count_ == kSeriesMax) {
      if (!std::exchange(limit_logged_, true)) {
        base::log_warn("more than {} metric series; {} and later ones are not shown", kSeriesMax,
                       family.name);
      }
      return nullptr;
    }
    ++series_count_;
    return &by_labels[std::move(texts)];
  }

  std::array<SeriesByLabels, kFamilies.size()> copy_series() const {
    base::MutexLock lock(mutex_);
    return series_;
  }

  mutable base::Mutex mutex_;
  std::array<SeriesByLabels, kFamilies.size()> series_ TROUPE_GUARDED_BY(mutex_);
  std::size_t series_count_ TROUPE_GUARDED_BY(mutex_) = 0;
  bool limit_logged_ TROUPE_GUARDED_BY(mutex_) = false;
  std::deque<Counter> counters_ TROUPE_GUARDED_BY(mutex_);
  std::deque<Gauge> gauges_ TROUPE_GUARDED_BY(mutex_);
  std::deque<Histogram> histograms_ TROUPE_GUARDED_BY(mutex_);
  mutable base::Mutex collectors_mutex_;
  Collectors collectors_ TROUPE_GUARDED_BY(collectors_mutex_);
};

Metrics::Metrics() : impl_(std::make_unique<Impl>()) {}
Metrics::~Metrics() = default;

Counter& Metrics::counter(const Family& family, LabelValues labels) {
  return impl_->counter(family, labels);
}

Gauge& Metrics::gauge(const Family& family, LabelValues labels) {
  return impl_->gauge(family, labels);
}

Histogram& Metrics::histogram(const Family& family, LabelValues labels) {
  return impl_->histogram(family, labels);
}

Collection Metrics::on_scrape(std::function<void(Scrape&)> collector) {
  return impl_->add(std::move(collector));
}

std::string Metrics::exposition() const {
  std::ostringstream out;
  prometheus::TextSerializer().Serialize(out, impl_->Collect());
  return out.str();
}

}  // namespace troupe::monitoring
