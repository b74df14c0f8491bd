// SPDX-License-Identifier: Apache-2.0
// Several servers of one process at /metrics: sums, the lowest version, ranks that are missing.
#include "actors/metrics.h"

#include "tests/support/catch.h"

namespace troupe::actors {
namespace {

using Catch::Contains;
using schemas::Role;

TEST_CASE("servers of one level are summed, but for the lowest version", "[metrics]") {
  monitoring::Metrics metrics;
  ServerMetrics servers(metrics, "job-1");
  CHECK_THAT(metrics.exposition(), !Contains("troupe_kv"));
  const ServerObserver first = servers.observer({Role::parameter_server, 0});
  const ServerObserver second = servers.observer({Role::parameter_server, 1});
  const ServerObserver host = servers.observer({Role::device_server, 0});
  first.holdings({2, 3, 100, 7});
  second.holdings({1, 4, 50, 5});
  host.holdings({9, 6, 150, 4});
  first.computed({Computed::Kind::add, 1e-4, {}});
  second.computed({Computed::Kind::update, 1e-4, {}});
  second.computed({Computed::Kind::shard, 2.0, {}, 640});
  second.computed({Computed::Kind::shard, 2.0, base::error(base::Errc::data_loss, "full")});
  second.figures.spent({Spent::What::round, 1'000'000'000});
  first.missing({{1, 3}});
  second.missing({{3}});

  const std::string page = metrics.exposition();
  CHECK_THAT(page, Contains("troupe_kv_pending_pushes{level=\"2\"} 3\n"));
  CHECK_THAT(page, Contains("troupe_kv_keys{level=\"2\"} 7\n"));
  CHECK_THAT(page, Contains("troupe_kv_store_bytes{level=\"2\"} 150\n"));
  CHECK_THAT(page, Contains("troupe_kv_version{level=\"2\"} 5\n"));
  CHECK_THAT(page, Contains("troupe_kv_version{level=\"1\"} 4\n"));
  CHECK_THAT(page, Contains("troupe_kv_aggregate_seconds_count{level=\"2\"} 1\n"));
  CHECK_THAT(page, Contains("troupe_kv_update_seconds_count{level=\"2\"} 1\n"));
  CHECK_THAT(page, Contains("troupe_kv_round_seconds_sum{level=\"2\"} 1\n"));
  CHECK_THAT(page, Contains("troupe_checkpoint_seconds_count{op=\"shard\"} 1\n"));
  CHECK_THAT(page, Contains("troupe_checkpoint_bytes_total{op=\"shard\"} 640\n"));
  CHECK_THAT(page, Contains("troupe_checkpoint_failures_total{op=\"shard\"} 1\n"));
  CHECK_THAT(page, Contains("troupe_job_missing_ranks{train_job=\"job-1\",rank=\"1\"} 1\n"));
  CHECK_THAT(page, Contains("troupe_job_missing_ranks{train_job=\"job-1\",rank=\"3\"} 1\n"));

  first.missing({});
  second.missing({});
  CHECK_THAT(metrics.exposition(), !Contains("troupe_job_missing_ranks"));
}

TEST_CASE("norms, loss scales and dropped steps are shown where steps are judged", "[metrics]") {
  monitoring::Metrics metrics;
  ServerMetrics servers(metrics, "job-1");
  const ServerObserver judge = servers.observer({schemas::Role::parameter_server, 0});
  for (const char* name : {"gradient_norm", "loss_scale", "dropped_steps_total"}) {
    CHECK_THAT(metrics.exposition(), !Contains(std::string("troupe_kv_") + name));
  }
  judge.judged({0, false, 1.5, {}});  // of a job with clip_norm
  CHECK_THAT(metrics.exposition(), Contains("troupe_kv_gradient_norm 1.5\n"));
  CHECK_THAT(metrics.exposition(), !Contains("troupe_kv_loss_scale"));
  CHECK_THAT(metrics.exposition(), !Contains("troupe_kv_dropped_steps_total"));
  judge.judged({1, false, 2.5, 1024.0});
  CHECK_THAT(metrics.exposition(), Contains("troupe_kv_dropped_steps_total 0\n"));
  judge.judged({2, true, 0.0, 1024.0});
  judge.judged({3, true, 0.0, 512.0});
  const std::string page = metrics.exposition();
  CHECK_THAT(page, Contains("troupe_kv_gradient_norm 2.5\n"));
  CHECK_THAT(page, Contains("troupe_kv_loss_scale 512\n"));
  CHECK_THAT(page, Contains("troupe_kv_dropped_steps_total 2\n"));
}

TEST_CASE("only eventual tiers with a bound show one", "[metrics]") {
  monitoring::Metrics metrics;
  ServerMetrics servers(metrics, "job-1");
  schemas::ConsistencySpec consistency;
  servers.show_bounds(consistency);
  CHECK_THAT(metrics.exposition(), !Contains("troupe_kv_staleness_limit_steps"));
  consistency.cluster = {schemas::ConsistencyMode::eventual, 4};
  servers.show_bounds(consistency);
  const std::string page = metrics.exposition();
  CHECK_THAT(page, Contains("troupe_kv_staleness_limit_steps{level=\"2\"} 4\n"));
  CHECK_THAT(page, !Contains("troupe_kv_staleness_limit_steps{level=\"1\"}"));
}

}  // namespace
}  // namespace troupe::actors
