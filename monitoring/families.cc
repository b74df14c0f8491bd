// SPDX-License-Identifier: Apache-2.0
// Bounds of the buckets and names of the types.
#include "monitoring/families.h"

#include <array>

namespace troupe::monitoring {
namespace {

constexpr std::size_t kBucketCount = 14;

constexpr std::array<double, kBucketCount> doubling(double first) {
  std::array<double, kBucketCount> bounds{};
  for (double& bound : bounds) {
    bound = first;
    first *= 2;
  }
  return bounds;
}

constexpr auto kRequests = doubling(50e-6);
constexpr auto kSteps = doubling(1e-3);
constexpr auto kRounds = doubling(0.2e-3);
constexpr auto kCheckpoints = doubling(0.1);
constexpr std::array<double, kBucketCount> kStaleness = {0, 1, 2,  3,  4,  5,   6,
                                                         7, 8, 16, 32, 64, 128, 256};

}  // namespace

std::span<const double> bucket_bounds(Buckets buckets) {
  switch (buckets) {
    case Buckets::none:
      break;
    case Buckets::requests:
      return kRequests;
    case Buckets::steps:
      return kSteps;
    case Buckets::rounds:
      return kRounds;
    case Buckets::checkpoints:
      return kCheckpoints;
    case Buckets::staleness:
      return kStaleness;
  }
  return {};
}

std::string_view metric_type_name(MetricType type) {
  constexpr std::array<std::string_view, 3> names = {"counter", "gauge", "histogram"};
  return names.at(static_cast<std::size_t>(type));
}

}  // namespace troupe::monitoring
