// SPDX-License-Identifier: Apache-2.0
// sim_run SEED [COUNT] [--trace]: simulates seeds and says how they ended; with --trace every
// envelope that arrives. For looking into a seed that a test has named. Exit 1 when one failed.
#include <fmt/core.h>

#include <cstdlib>
#include <string_view>

#include "tests/sim/simulation.h"

int main(int argc, char** argv) {
  using namespace troupe::sim;
  const bool trace = argc > 2 && std::string_view(argv[argc - 1]) == "--trace";
  if (trace) --argc;
  if (argc < 2 || argc > 3) {
    fmt::print(stderr, "usage: sim_run SEED [COUNT] [--trace]\n");
    return 2;
  }
  const std::uint64_t first = std::strtoull(argv[1], nullptr, 10);
  const std::uint64_t count = argc > 2 ? std::strtoull(argv[2], nullptr, 10) : 1;
  std::uint64_t failed = 0;
  Outcome sum;
  for (std::uint64_t seed = first; seed < first + count; ++seed) {
    const SimJob job = make_sim_job(seed);
    Simulation simulation(job);
    if (trace) simulation.listen([](const std::string& line) { fmt::print("{}\n", line); });
    const Outcome outcome = simulation.run();
    sum.events += outcome.events;
    sum.updates += outcome.updates;
    sum.checkpoints += outcome.checkpoints;
    sum.virtual_ms += outcome.virtual_ms;
    if (count == 1) {
      fmt::print("{}\n{}\n", job.to_string(),
                 outcome.failure.empty() ? "undisturbed" : outcome.failure);
    }
    if (outcome.fault.empty()) continue;
    ++failed;
    fmt::print("{}\n\n", outcome.fault);
  }
  fmt::print("{} seeds, {} failed; {} events, {} updates, {} checkpoints, {} s of virtual time\n",
             count, failed, sum.events, sum.updates, sum.checkpoints, sum.virtual_ms / 1000);
  return failed == 0 ? 0 : 1;
}
