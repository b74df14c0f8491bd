// SPDX-License-Identifier: Apache-2.0
// A background call for each job.
#include "cluster/start_finder.h"

#include <string>
#include <utility>

namespace troupe::cluster {

StartFinder::StartFinder(Find find, Found found, std::size_t waiting_max, std::uint64_t patience_ms)
    : find_(std::move(find)),
      found_(std::move(found)),
      calls_("the search for the start of job", waiting_max, patience_ms) {}

bool StartFinder::add(control::FindStart find) {
  std::string job = find.job;
  return calls_.add(std::move(job), [look_up = find_, tell = found_, find = std::move(find)]() {
    return [tell, found = look_up(find)] { tell(found); };
  });
}

}  // namespace troupe::cluster
