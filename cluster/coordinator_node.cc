// SPDX-License-Identifier: Apache-2.0
// The coordinator's links, clock and web routes around its state machine.
#include "cluster/coordinator_node.h"

#include <array>
#include <ctime>
#include <map>
#include <mutex>
#include <nlohmann/json.hpp>
#include <thread>

#include "base/address.h"
#include "base/clock.h"
#include "base/folder_lock.h"
#include "base/log.h"
#include "cluster/start_finder.h"
#include "control/coordinator_state.h"
#include "link/link_set.h"
#include "link/metrics.h"
#include "monitoring/http_server.h"
#include "storage/storage.h"

namespace troupe::cluster {
namespace {

using control::CoordinatorEvent;
using control::PeerId;
using schemas::Role;

constexpr auto kTick = std::chrono::milliseconds(50);

/// What is counted as it happens.
struct JobFigures {
  explicit JobFigures(monitoring::Metrics& metrics)
      : queue_seconds(
            metrics.histogram(monitoring::family("troupe_coordinator_job_queue_seconds"))) {
    for (const schemas::JobPhase phase : kFinal) {
      finished[phase] =
          &metrics.counter(monitoring::family("troupe_coordinator_jobs_finished_total"),
                           {schemas::job_phase_name(phase)});
    }
  }
  static constexpr std::array kFinal = {schemas::JobPhase::succeeded, schemas::JobPhase::failed,
                                        schemas::JobPhase::stopped};
  monitoring::Histogram& queue_seconds;
  std::map<schemas::JobPhase, monitoring::Counter*> finished;
};

/// See run_coordinator.
class CoordinatorNode {
 public:
  CoordinatorNode(const CoordinatorNodeOptions& options, monitoring::Metrics& metrics)
      : options_(options),
        metrics_(metrics),
        figures_(metrics),
        unix_seconds_(static_cast<double>(std::time(nullptr)) -
                      static_cast<double>(clock_.now_ms()) * 1e-3),
        state_({options.version, options.limits}),
        links_(options.limits, storage_.pool(base::Device{})),
        finder_(
            options.find_start, [this](const control::StartFound& found) { post(found); },
            options.limits.jobs_max, options.limits.goodbye_ms) {}
  ~CoordinatorNode() { links_.stop(); }

  base::Status run();

 private:
  class PeerHandler;

  void post(const CoordinatorEvent& event);
  void perform(const control::ToPeer& send);
  void perform(const control::DropPeer& drop);
  void perform(const control::FindStart& find);
  void perform(const control::Note& note);
  void perform(const control::JobAdmitted& admitted) {
    figures_.queue_seconds.observe(static_cast<double>(admitted.queued_ms) * 1e-3);
  }
  void perform(const control::JobFinished& finished) {
    figures_.finished.at(finished.phase)->add();
  }
  PeerId add_peer(const std::shared_ptr<link::Link>& link);
  void peer_down(PeerId peer, const base::Status& reason);
  std::string targets();
  void scrape(monitoring::Scrape& scrape);
  void scrape_job(monitoring::Scrape& scrape, const control::ScrapedJob& shown) const;

  const CoordinatorNodeOptions options_;
  monitoring::Metrics& metrics_;
  base::SteadyClock clock_;
  JobFigures figures_;         // written under mutex_
  const double unix_seconds_;  // where clock_ stood at 0
  storage::Storage storage_;
  base::FolderLock lock_;
  std::mutex mutex_;  // of all below; effects run under it, in order
  control::CoordinatorState state_;
  std::map<PeerId, std::shared_ptr<link::Link>> peers_;
  PeerId next_peer_ = 1;
  std::string http_address_;  // of this process; empty until it serves
  link::LinkSet links_;  // its thread calls into all above, and, until it stops, into the finder
  StartFinder finder_;   // its thread calls into all above
};

class CoordinatorNode::PeerHandler final : public link::LinkHandler {
 public:
  PeerHandler(CoordinatorNode& node, const std::shared_ptr<link::Link>& link)
      : node_(node), peer_(node.add_peer(link)) {}
  void on_envelope(schemas::Envelope envelope) override {
    node_.post(control::PeerSaid{peer_, std::move(envelope.message)});
  }
  void on_down(const base::Status& reason) override { node_.peer_down(peer_, reason); }

 private:
  CoordinatorNode& node_;
  const PeerId peer_;
};

base::Status CoordinatorNode::run() {
  TROUPE_TRY_ASSIGN(const base::Address http, base::parse_loopback_address(options_.http));
  TROUPE_TRY(base::parse_loopback_address(options_.listen).status());
  auto taken = base::FolderLock::take(options_.state_folder);
  if (!taken.ok()) return taken.status().with_context("--state");
  lock_ = std::move(taken).value();
  monitoring::HttpRoutes routes;
  routes["/sd/targets"] = [this](const monitoring::HttpRequest&) {
    return monitoring::HttpReply{200, "application/json", targets()};
  };
  const auto collection =
      metrics_.on_scrape([this](monitoring::Scrape& values) { scrape(values); });
  const auto traffic = link::show_links(metrics_, links_);
  TROUPE_TRY_ASSIGN(const auto server, monitoring::HttpServer::start(http, options_.limits,
                                                                     metrics_, std::move(routes)));
  TROUPE_TRY_ASSIGN(
      const std::string address,
      links_.listen(options_.listen, {{Role::coordinator, 0}, "", "", 0},
                    [this](const schemas::Hello&, const std::shared_ptr<link::Link>& link)
                        -> base::Result<std::shared_ptr<link::LinkHandler>> {
                      return std::shared_ptr<link::LinkHandler>(
                          std::make_shared<PeerHandler>(*this, link));
                    }));
  {
    const std::lock_guard lock(mutex_);
    http_address_ = server->address().to_string();
  }
  options_.ready(address, http_address_);
  while (!options_.stop()) {
    post(control::TimePassed{static_cast<std::uint64_t>(clock_.now_ms())});
    std::this_thread::sleep_for(kTick);
  }
  links_.stop();
  return {};
}

PeerId CoordinatorNode::add_peer(const std::shared_ptr<link::Link>& link) {
  const std::lock_guard lock(mutex_);
  peers_[next_peer_] = link;
  return next_peer_++;
}

void CoordinatorNode::peer_down(PeerId peer, const base::Status& reason) {
  {
    const std::lock_guard lock(mutex_);
    peers_.erase(peer);
  }
  post(control::PeerLost{peer, reason.ok() ? "it left" : reason.text()});
}

void CoordinatorNode::post(const CoordinatorEvent& event) {
  const std::lock_guard lock(mutex_);
  for (const control::CoordinatorEffect& effect : state_.handle(event)) {
    std::visit([this](const auto& what) { perform(what); }, effect);
  }
}

void CoordinatorNode::perform(const control::ToPeer& send) {
  const auto peer = peers_.find(send.peer);
  if (peer == peers_.end()) return;
  schemas::Envelope envelope;
  envelope.message = send.message;
  const base::Status status = peer->second->send(std::move(envelope));
  // A reply too large for the wire would leave the peer waiting.
  if (!status.ok()) peer->second->abort(status);
}

void CoordinatorNode::perform(const control::DropPeer& drop) {
  const auto peer = peers_.find(drop.peer);
  if (peer == peers_.end()) return;
  perform(control::ToPeer{drop.peer, schemas::JobEnd{drop.reason.code(), drop.reason.text()}});
  peer->second->close(drop.reason.text());
}

void CoordinatorNode::perform(const control::FindStart& find) {
  if (finder_.add(find)) return;
  base::log_warn("job {}: {} jobs wait for their start to be looked up", find.job,
                 options_.limits.jobs_max);
}

void CoordinatorNode::perform(const control::Note& note) {
  if (note.warning) {
    base::log_warn("{}", note.text);
  } else {
    base::log_info("{}", note.text);
  }
}

std::string CoordinatorNode::targets() {
  nlohmann::json list = nlohmann::json::array();
  const std::lock_guard lock(mutex_);
  std::vector<control::ScrapeTarget> targets = state_.targets();
  if (!http_address_.empty()) targets.push_back({http_address_, "coordinator", "", "", ""});
  for (const control::ScrapeTarget& target : targets) {
    list.push_back({{"targets", {target.address}},
                    {"labels",
                     {{"role", target.role},
                      {"node", target.node},
                      {"ranks", target.ranks},  // "rank" is a label of the samples
                      {"train_job", target.job}}}});
  }
  return list.dump();
}

void CoordinatorNode::scrape(monitoring::Scrape& scrape) {
  const std::lock_guard lock(mutex_);
  const control::CoordinatorCounts counts = state_.counts();
  const auto number = [](std::uint64_t value) { return static_cast<double>(value); };
  for (int state = 0; state <= static_cast<int>(schemas::JobPhase::stopped); ++state) {
    const auto key = static_cast<schemas::JobPhase>(state);
    const auto found = counts.jobs.find(key);
    scrape.value(monitoring::family("troupe_coordinator_jobs"), {schemas::job_phase_name(key)},
                 found == counts.jobs.end() ? 0.0 : number(found->second));
  }
  scrape.value(monitoring::family("troupe_coordinator_nodes"), {"agent", "up"},
               number(counts.agents));
  const auto& devices = monitoring::family("troupe_coordinator_devices");
  scrape.value(devices, {"cpu", "used"}, number(counts.slots_used));
  scrape.value(devices, {"cpu", "free"}, number(counts.slots - counts.slots_used));
  for (const control::ScrapedJob& job : state_.scraped_jobs()) scrape_job(scrape, job);
}

void CoordinatorNode::scrape_job(monitoring::Scrape& scrape,
                                 const control::ScrapedJob& shown) const {
  const schemas::JobInfo& job = shown.info;
  const auto number = [](std::uint64_t value) { return static_cast<double>(value); };
  for (const std::uint32_t rank : shown.missing_ranks) {
    scrape.value(monitoring::family("troupe_job_missing_ranks"), {job.id, std::to_string(rank)},
                 1.0);
  }
  if (shown.checkpointed_ms != 0) {
    scrape.value(monitoring::family("troupe_job_last_checkpoint_timestamp_seconds"), {job.id},
                 unix_seconds_ + number(shown.checkpointed_ms) * 1e-3);
  }
  scrape.value(monitoring::family("troupe_job_step"), {job.id}, number(job.step));
  scrape.value(monitoring::family("troupe_job_samples_total"), {job.id}, number(job.samples));
  if (job.steps_total == 0) return;
  scrape.value(monitoring::family("troupe_job_progress_ratio"), {job.id},
               number(job.step) / number(job.steps_total));
  scrape.value(monitoring::family("troupe_job_loss"), {job.id, "train"}, job.loss);
  if (job.accuracy < 0.0) return;
  scrape.value(monitoring::family("troupe_job_accuracy_ratio"), {job.id, "test"}, job.accuracy);
}

}  // namespace

base::Status run_coordinator(const CoordinatorNodeOptions& options, monitoring::Metrics& metrics) {
  CoordinatorNode node(options, metrics);
  return node.run();
}

}  // namespace troupe::cluster
