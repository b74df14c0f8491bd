// SPDX-License-Identifier: Apache-2.0
// Link totals by their families.
#include "link/metrics.h"

namespace troupe::link {

using monitoring::family;

monitoring::Collection show_links(monitoring::Metrics& metrics, const LinkSet& links) {
  return metrics.on_scrape([&links](monitoring::Scrape& scrape) {
    const LinkSetFigures totals = links.totals();
    const auto show = [&](const monitoring::Family& row, monitoring::LabelValues labels,
                          std::uint64_t value) {
      scrape.value(row, labels, static_cast<double>(value));
    };
    show(family("troupe_net_peers"), {}, totals.links);
    show(family("troupe_net_own_pauses_total"), {}, totals.own_pauses);
    show(family("troupe_net_queued_bytes"), {}, totals.stats.queued_bytes);
    show(family("troupe_net_bytes_total"), {"sent"}, totals.stats.bytes_sent);
    show(family("troupe_net_bytes_total"), {"received"}, totals.stats.bytes_received);
    show(family("troupe_net_messages_total"), {"sent"}, totals.stats.frames_sent);
    show(family("troupe_net_messages_total"), {"received"}, totals.stats.frames_received);
    show(family("troupe_net_recoveries_total"), {"resumed"}, totals.stats.resumes);
    show(family("troupe_net_recoveries_total"), {"resent"}, totals.stats.frames_resent);
    show(family("troupe_net_recoveries_total"), {"duplicate"}, totals.stats.duplicates);
  });
}

}  // namespace troupe::link
