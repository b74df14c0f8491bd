// SPDX-License-Identifier: Apache-2.0
// The coordinator's links, background calls and web routes around its actor.
#include "cluster/coordinator_node.h"

#include <fmt/format.h>

#include <atomic>
#include <chrono>
#include <ctime>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <thread>
#include <utility>
#include <variant>

#include "actors/coordinator.h"
#include "actors/job_metrics.h"
#include "base/address.h"
#include "base/awake_wait.h"
#include "base/clock.h"
#include "base/folder_lock.h"
#include "base/log.h"
#include "base/mutex.h"
#include "base/secret.h"
#include "base/units.h"
#include "cluster/access_files.h"
#include "cluster/background_calls.h"
#include "cluster/certificate_age.h"
#include "cluster/checkpoint_dates.h"
#include "cluster/linked_peers.h"
#include "cluster/page_address.h"
#include "cluster/piece_desk.h"
#include "http/server.h"
#include "link/link_set.h"
#include "link/metrics.h"
#include "storage/storage.h"

namespace troupe::cluster {
namespace {

using control::PeerId;
using schemas::JobPhase;
using schemas::Role;

/// `stop` is a flag that a signal has set, and nobody can sleep on a flag.
constexpr std::chrono::milliseconds kStopLook{250};
/// How often it is looked whether this coordinator's own last copy in a folder has ended.
constexpr std::chrono::milliseconds kOwnLockLook{20};
/// Answers that a person has not read yet. Who asks on and reads nothing is cut off.
constexpr std::uint64_t kUnreadAnswersMax = 8'388'608;
/// The same of all people together: beyond it the one with the most of them is.
constexpr std::uint64_t kAllUnreadAnswersMax = 134'217'728;
/// A page waits this long for the coordinator's figures; Prometheus gives up after ten seconds.
constexpr std::chrono::milliseconds kAskDeadline{2'000};

/// Copies of checkpoints are long work, of all that runs: half of them may be one person's.
constexpr std::size_t kCopiesOfOneMax = BackgroundCalls::kThreadsMax / 2;
/// What is being collected is told of so often while it comes.
constexpr std::uint64_t kProgressMs = 1'000;

constexpr JobPhase kLastPhase = JobPhase::stopped;

double number(std::uint64_t value) {
  return static_cast<double>(value);
}

/// On whose behalf a folder is looked at: where nobody knows the person, for the job.
std::string group_of(const std::string& owner, const std::string& job) {
  return owner.empty() ? "job " + job : "person " + owner;
}

/// What is counted as it happens, on the coordinator's actor.
struct JobFigures {
  explicit JobFigures(monitoring::Metrics& metrics)
      : queue_seconds(
            metrics.histogram(monitoring::family("troupe_coordinator_job_queue_seconds"))) {
    for (int position = 0; position <= static_cast<int>(kLastPhase); ++position) {
      const auto phase = static_cast<JobPhase>(position);
      if (!schemas::is_final(phase)) continue;
      finished[phase] =
          &metrics.counter(monitoring::family("troupe_coordinator_jobs_finished_total"),
                           {schemas::job_phase_name(phase)});
    }
  }
  monitoring::Histogram& queue_seconds;
  std::map<JobPhase, monitoring::Counter*> finished;
};

/// What a scrape shows of the coordinator.
struct Shown {
  std::uint64_t now_ms = 0;
  control::CoordinatorFigures counts;
  std::vector<control::ScrapedJob> jobs;
};

/// A folder of copies that one job has alone.
struct HeldFolder {
  std::shared_ptr<base::FolderLock> lock;
  std::string owner;  ///< of the job
};

/// See run_coordinator.
class CoordinatorNode final : public actors::CoordinatorPorts {
 public:
  CoordinatorNode(const CoordinatorNodeOptions& options, monitoring::Metrics& metrics)
      : options_(options),
        metrics_(metrics),
        figures_(metrics),
        access_(options.state_folder, options.identity),
        coordinator_(actors_, clock_, *this,
                     {options.version, options.limits, options.pages_host, options.agents}),
        links_(options.limits, storage_.pool(base::Device{}),
               options.identity ? options.identity->tls() : nullptr),
        desk_(std::make_shared<PieceDesk>(options.limits.cut_ms)),
        searches_("the search for the start of job", options.limits.jobs_max,
                  options.limits.goodbye_ms),
        folders_("the look at the folder of job", options.limits.jobs_max,
                 options.limits.goodbye_ms),
        locked_("the lock of the folder of job", options.limits.jobs_max,
                options.limits.goodbye_ms),
        unlocked_("letting go of the folder of job", 2 * options.limits.jobs_max,
                  options.limits.goodbye_ms, kCopiesOfOneMax),
        copies_("the copy of a checkpoint of job", options.limits.jobs_max,
                options.limits.goodbye_ms, kCopiesOfOneMax),
        pieces_("a piece of", kPiecesWaitingMax, options.limits.goodbye_ms) {}
  /// Links first: they tell the coordinator. Then the coordinator, which uses what is below it.
  ~CoordinatorNode() override {
    desk_->end();
    ending_ = true;
    links_.stop();
    coordinator_.end();
    access_.end(base::unix_seconds());  // nothing is changed any more
    while (!locks_.empty()) CoordinatorNode::let_go_of_folder(locks_.begin()->first);
  }

  base::Status run();

  void send(PeerId peer, schemas::Message message) override;
  void drop(PeerId peer, const base::Status& reason) override;
  void find_start(control::FindStart find) override;
  void probe_folder(control::ProbeFolder wanted) override;
  void hold_folder(control::HoldFolder hold) override;
  void let_go_of_folder(const std::string& job) override;
  void collect_checkpoint(control::CollectCheckpoint collect) override;
  void end_collecting(const std::string& job) override;
  void serve_piece(control::ServePiece serve) override;
  void check_copy(const control::CheckCopy& copy) override;
  void drop_files(const schemas::DropCheckpoint& drop) override;
  void take_deny_list(control::TakeDenyList list) override { access_.take(std::move(list)); }
  void audit(control::Audit change) override { access_.note(std::move(change)); }
  void admitted(std::uint64_t queued_ms) override {
    figures_.queue_seconds.observe(number(queued_ms) * 1e-3);
  }
  void finished(JobPhase phase) override { figures_.finished.at(phase)->add(); }

 private:
  class PeerHandler;

  BackgroundCalls::Report goes_on(const std::string& job, std::uint64_t run);
  void look_at_files();
  void tell_end() const;
  http::Reply targets();
  void scrape(monitoring::Scrape& scrape);
  actors::JobSeries series_of(const control::ScrapedJob& shown) const TROUPE_REQUIRES(dates_mutex_);

  const CoordinatorNodeOptions options_;
  monitoring::Metrics& metrics_;
  base::SteadyClock clock_;
  JobFigures figures_;  // the actor's alone
  base::Mutex dates_mutex_;
  CheckpointDates dates_ TROUPE_GUARDED_BY(dates_mutex_);
  storage::Storage storage_;
  base::FolderLock lock_;
  LinkedPeers peers_;
  AccessFiles access_;
  base::LogBudget drops_;               // the actor's alone
  base::LogBudget faults_;              // the links' thread's alone
  std::atomic<bool> ending_{false};     // its links end with it, and nobody is told
  std::atomic<bool> late_told_{false};  // a scrape that got no answer
  base::Mutex mutex_;
  std::string http_address_ TROUPE_GUARDED_BY(mutex_);  // of this process; empty until it serves
  actors::ActorSystem actors_{1};
  actors::Coordinator coordinator_;
  link::LinkSet links_;  // its thread calls into all above
  const std::shared_ptr<PieceDesk> desk_;
  std::map<std::string, std::weak_ptr<OpenBatch>> collecting_;  // by job; the actor's alone
  // Folders of copies, by job; the actor's alone. What is done there holds one, too.
  std::map<std::string, HeldFolder> locks_;
  // Locks that were let go of, by job: a copy that is being written may still hold one.
  std::multimap<std::string, std::weak_ptr<base::FolderLock>> let_go_;
  std::uint64_t lets_ = 0;                                // so many
  std::vector<std::shared_ptr<base::FolderLock>> stuck_;  // nobody could let go of
  BackgroundCalls searches_;                              // their threads call into all above
  BackgroundCalls folders_;
  BackgroundCalls locked_;
  BackgroundCalls unlocked_;
  BackgroundCalls copies_;
  BackgroundCalls pieces_;
};

class CoordinatorNode::PeerHandler final : public link::ControlHandler {
 public:
  PeerHandler(CoordinatorNode& node, const std::shared_ptr<link::Link>& link)
      : node_(node), peer_(node.peers_.add(link)) {
    // Under TLS whoever is sent to an agent's port sees by its certificate who listens there; so a
    // machine may have other addresses and names than the one that it calls from.
    std::optional<std::string> host;
    if (node_.options_.identity == nullptr) {
      const auto address = base::parse_address(link->address());
      host = address.ok() ? address->host : "";
    }
    node_.coordinator_.post(
        control::PeerLinked{peer_, std::move(host), link->address(), link->holder()});
  }
  void on_envelope(schemas::Envelope envelope) override {
    auto* piece = std::get_if<schemas::FilePiece>(&envelope.message);
    if (piece != nullptr && node_.desk_->take(peer_, *piece)) return;
    node_.coordinator_.hear({peer_, std::move(envelope.message)});
  }
  void on_interrupted(const base::Status& reason) override {
    node_.coordinator_.post(control::PeerCut{peer_, reason.text()});
  }
  void on_resumed() override { node_.coordinator_.post(control::PeerBack{peer_}); }
  void on_down(const base::Status& reason) override {
    node_.peers_.remove(peer_);
    node_.desk_->lost(peer_, reason);
    if (node_.ending_) return;
    const bool fault = reason.code() == base::Errc::data_loss ||
                       reason.code() == base::Errc::deadline_exceeded ||
                       reason.code() == base::Errc::resource_exhausted;
    if (fault) node_.faults_.warn(node_.clock_.now_ms(), reason.text());
    node_.coordinator_.post(control::PeerLost{peer_, reason.ok() ? "it left" : reason.text()});
  }

 private:
  CoordinatorNode& node_;
  const PeerId peer_;
};

base::Status CoordinatorNode::run() {
  const base::Reach reach = options_.identity ? base::Reach::network : base::Reach::loopback;
  TROUPE_TRY(base::parse_address_within(options_.listen, reach).status());
  auto taken = base::FolderLock::take(options_.state_folder, {}, base::FileMode::secret);
  if (!taken.ok()) return taken.status().with_context("--state");
  lock_ = std::move(taken).value();
  look_at_files();  // before anybody can ask
  http::Routes routes;
  routes["/sd/targets"] = [this](const http::Request&) { return targets(); };
  const auto collection =
      metrics_.on_scrape([this](monitoring::Scrape& values) { scrape(values); });
  const auto traffic = link::show_links(metrics_, links_);
  TROUPE_TRY_ASSIGN(const auto server,
                    http::Server::start(options_.pages, options_.limits, metrics_,
                                        {std::move(routes), options_.guard, {}}));
  TROUPE_TRY_ASSIGN(
      const std::string address,
      links_.listen(
          options_.listen, {{Role::coordinator, 0}, "", "", 0},
          [this](const schemas::Hello& hello, const std::shared_ptr<link::Link>& link)
              -> base::Result<std::shared_ptr<link::LinkHandler>> {
            // Each keeps a place, whether it comes or not.
            if (hello.lanes != 1) {
              return base::error(base::Errc::invalid_argument,
                                 "a coordinator takes one connection a link, not {}", hello.lanes);
            }
            return std::shared_ptr<link::LinkHandler>(std::make_shared<PeerHandler>(*this, link));
          }));
  {
    const base::MutexLock lock(mutex_);
    http_address_ = page_address(server->address(), options_.pages_host).to_string();
  }
  options_.ready(address, page_address(server->address(), options_.pages_host).to_string());
  CertificateAge age;
  while (!options_.stop()) {
    std::this_thread::sleep_for(kStopLook);
    look_at_files();
    watch_certificate(age, options_.identity.get());
  }
  look_at_files();
  tell_end();
  return {};
}

void CoordinatorNode::look_at_files() {
  for (control::CoordinatorEvent& event : access_.look(base::unix_seconds())) {
    coordinator_.post(std::move(event));
  }
  if (options_.identity == nullptr) return;
  if (auto tls = options_.identity->renewed()) links_.renew(std::move(tls));
  for (auto& judged : peers_.judge(base::unix_seconds() + kOfferAheadS)) {
    coordinator_.post(std::move(judged));
  }
}

void CoordinatorNode::tell_end() const {
  const auto counts = coordinator_.ask(
      [](const control::CoordinatorState& state) { return state.counts(); }, kAskDeadline);
  std::uint64_t open = 0;
  if (counts.ok()) {
    for (const auto& [phase, jobs] : counts->jobs) {
      if (!schemas::is_final(phase)) open += jobs;
    }
  }
  if (open == 0) return base::log_info("ending, as it was asked to");
  base::log_warn("ending, as it was asked to; {} that {} or {} lost with it",
                 base::format_counted(open, "job"), open == 1 ? "waits" : "wait",
                 open == 1 ? "runs is" : "run are");
}

// ---- on the coordinator's actor ----

void CoordinatorNode::send(PeerId peer, schemas::Message message) {
  const auto link = peers_.find(peer);
  if (!link) return;
  if (std::holds_alternative<schemas::AgentWelcome>(message)) peers_.note_agent(peer);
  const bool answer = std::holds_alternative<schemas::JobList>(message) ||
                      std::holds_alternative<schemas::JobSubmitted>(message) ||
                      std::holds_alternative<schemas::JobCheckpointAnswer>(message);
  if (answer) {
    const auto deaf = peers_.deaf(peer, kUnreadAnswersMax, kAllUnreadAnswersMax);
    if (deaf) {
      deaf->abort(base::error(base::Errc::resource_exhausted,
                              "[coordinator] {} at {} asks and reads no answers",
                              deaf->peer().to_string(), deaf->address()));
    }
    if (deaf == link) return;
  }
  schemas::Envelope envelope;
  envelope.message = std::move(message);
  const base::Status status = link->send(std::move(envelope));
  // A reply too large for the wire would leave the peer waiting. A link that closes, closes.
  if (!status.ok() && status.code() != base::Errc::cancelled) link->abort(status);
}

void CoordinatorNode::drop(PeerId peer, const base::Status& reason) {
  const auto link = peers_.find(peer);
  if (!link) return;
  // First: who has been told may be gone before the next line runs.
  drops_.warn(clock_.now_ms(), fmt::format("turned away {} at {}: {}", link->peer().to_string(),
                                           link->address(), reason.text()));
  send(peer, schemas::JobEnd{reason.code(), reason.text()});
  link->close(reason.text());
}

/// Folders may be slow or dead: neither the coordinator nor other people's jobs wait for them. A
/// look-up may outlive this object, so it holds a copy of the function that does it.
void CoordinatorNode::find_start(control::FindStart find) {
  const std::string job = find.job;
  const std::uint64_t run = find.run;
  const std::string group = group_of(find.owner, job);
  const bool added = searches_.add({job, group, goes_on(job, run)},
                                   [this, look_up = options_.find_start, find = std::move(find)] {
                                     return [this, found = look_up(find)]() mutable {
                                       found.secret = base::random_secret();
                                       coordinator_.post(std::move(found));
                                     };
                                   });
  if (added) return;
  control::StartFound refused;
  refused.job = job;
  refused.run = run;
  refused.status = base::error(base::Errc::resource_exhausted,
                               "too many jobs wait for their start to be looked up");
  coordinator_.post(std::move(refused));
}

/// Told to a run: what it waits for comes nearer.
BackgroundCalls::Report CoordinatorNode::goes_on(const std::string& job, std::uint64_t run) {
  return [this, job, run] { coordinator_.post(control::WorkGoesOn{job, run}); };
}

void CoordinatorNode::probe_folder(control::ProbeFolder wanted) {
  schemas::FolderProbe probe = std::move(wanted.probe);
  if (wanted.choose) probe.nonce = base::to_hex(base::random_secret());
  const std::string key = fmt::format("{}, {}", probe.job, probe.file);
  look_at_folder(folders_, options_.files,
                 {key, group_of(wanted.owner, probe.job), goes_on(probe.job, probe.generation)},
                 probe, [this, nonce = probe.nonce](schemas::FolderProbeResult result) {
                   coordinator_.post(control::FolderProbed{std::move(result), nonce});
                 });
}

/// A lock that comes when the job is over is let go of with the call. A copy of the job's run
/// before this one may just be written to its disk, and holds the lock until then: it is no other
/// job.
void CoordinatorNode::hold_folder(control::HoldFolder hold) {
  HeldFolder& held = locks_[hold.job];
  const bool again = held.lock != nullptr;
  if (!again) held = {std::make_shared<base::FolderLock>(), hold.owner};
  const auto tell = [this, hold](const base::Result<schemas::NamedCheckpoint>& newest) {
    coordinator_.post(
        control::FolderHeld{hold.job, hold.run, newest.status(),
                            newest.ok() ? newest.value() : schemas::NamedCheckpoint()});
  };
  std::vector<std::weak_ptr<base::FolderLock>> before;
  const auto [first, last] = let_go_.equal_range(hold.job);
  for (auto it = first; it != last; ++it) before.push_back(it->second);
  const auto look = [hold, again, before, lock = held.lock,
                     files = options_.files]() -> base::Result<schemas::NamedCheckpoint> {
    base::AwakeWait left{std::chrono::milliseconds(hold.wait_ms)};
    for (const auto& own : before) {
      while (!own.expired()) {
        if (!left.sleep(kOwnLockLook)) {
          return base::error(base::Errc::unavailable,
                             "{}: the job's run before has not let go of it yet: a copy is being "
                             "written, or the folder hangs",
                             hold.folder);
        }
      }
    }
    if (!again) {
      TROUPE_TRY_ASSIGN(*lock, files.hold(hold));
    }
    return files.newest(hold.folder);
  };
  const auto call = [tell, look] { return [tell, newest = look()] { tell(newest); }; };
  const bool added = locked_.add(
      {"copies of " + hold.job, group_of(hold.owner, hold.job), goes_on(hold.job, hold.run)}, call);
  if (added) return;
  tell(base::error(base::Errc::resource_exhausted, "too many folders are looked at"));
}

/// In the background, too: to let go is to look into the folder. These calls wait for none that
/// wait for them. No call takes the place of another one, whose end would be here.
void CoordinatorNode::let_go_of_folder(const std::string& job) {
  auto held = locks_.extract(job);
  if (held.empty()) return;
  const std::string& name = held.key();  // `job` may have been a part of the map
  std::erase_if(let_go_, [](const auto& entry) { return entry.second.expired(); });
  auto& [lock, owner] = held.mapped();
  let_go_.emplace(name, lock);
  const auto last = std::make_shared<std::shared_ptr<base::FolderLock>>(std::move(lock));
  const auto call = [last] {
    last->reset();
    return [] {};
  };
  if (unlocked_.add({fmt::format("{} ({})", name, ++lets_), group_of(owner, name)}, call)) return;
  base::log_warn("job {}: its folder of copies stays locked until this coordinator ends", name);
  stuck_.push_back(std::move(*last));
}

/// One at a time for a job: its run waits for the end of one before it wants another.
void CoordinatorNode::collect_checkpoint(control::CollectCheckpoint collect) {
  end_collecting(collect.job);
  std::erase_if(collecting_, [](const auto& entry) { return entry.second.expired(); });
  // Called on the links' thread, which ends before this object.
  const auto last_told = std::make_shared<std::atomic<std::uint64_t>>(0);
  const auto batch =
      std::make_shared<OpenBatch>(desk_, [this, last_told, job = collect.job, run = collect.run] {
        const std::uint64_t now = clock_.now_ms();
        if (now - last_told->load() < kProgressMs) return;
        *last_told = now;
        coordinator_.post(control::WorkGoesOn{job, run});
      });
  collecting_[collect.job] = batch;
  const auto from = [&](PeerId peer) -> AskPiece {
    return [batch, peer, link = std::weak_ptr(peers_.find(peer)), folder = collect.folder,
            job = collect.job,
            run = collect.run](const std::string& file, std::uint64_t offset, std::uint64_t bytes) {
      return batch->ask(peer, link, {0, job, run, folder, file, offset, bytes});
    };
  };
  std::vector<AskPiece> of_manifest;
  for (const PeerId peer : collect.of_manifest) of_manifest.push_back(from(peer));
  std::vector<AskPiece> of_shard;
  for (const PeerId peer : collect.of_shard) of_shard.push_back(from(peer));
  const auto tell = [this, collect](const base::Status& status) {
    coordinator_.post(control::CheckpointCollected{collect.job, collect.run, collect.step,
                                                   collect.generation, status});
  };
  const auto folder = locks_.find(collect.job);
  const auto lock = folder == locks_.end() ? nullptr : folder->second.lock;
  // Nobody else's while this writes there.
  const auto call = [=, held = lock, work = options_.files.collect] {
    return [tell, status = work(collect, of_manifest, of_shard)] { tell(status); };
  };
  const bool added = copies_.add(
      {collect.job, group_of(collect.owner, collect.job), goes_on(collect.job, collect.run)}, call);
  if (added) return;
  tell(base::error(base::Errc::resource_exhausted, "too many checkpoints are copied"));
}

void CoordinatorNode::end_collecting(const std::string& job) {
  const auto ended = collecting_.extract(job);
  if (!ended) return;
  const auto batch = ended.mapped().lock();
  if (batch == nullptr) return;
  desk_->close(batch->number());
  // Takes the place of a copy that waits for its turn, and keeps the folder locked until then.
  copies_.add({job}, [] { return [] {}; });
}

void CoordinatorNode::serve_piece(control::ServePiece serve) {
  const auto link = peers_.find(serve.peer);
  if (!link) return;
  cluster::serve_piece(pieces_, options_.files, link, serve.query,
                       group_of(serve.owner, serve.query.job),
                       [](link::Link& to, const base::Status& why) { to.abort(why); });
}

void CoordinatorNode::check_copy(const control::CheckCopy& copy) {
  const auto call = [copy, look = options_.files.check] {
    return [status = look(copy.checkpoint), copy] {
      if (!status.ok()) base::log_warn("{}: {}", copy.checkpoint, status.text());
    };
  };
  if (copies_.add({copy.checkpoint, group_of(copy.owner, copy.checkpoint)}, call)) return;
  base::log_warn("{} is not looked through: too many checkpoints are copied", copy.checkpoint);
}

void CoordinatorNode::drop_files(const schemas::DropCheckpoint& drop) {
  drop_in_background(copies_, options_.files, drop);
}

// ---- pages ----

http::Reply CoordinatorNode::targets() {
  auto answer = coordinator_.ask(
      [](const control::CoordinatorState& state) { return state.targets(); }, kAskDeadline);
  if (!answer.ok()) return {503, "text/plain", answer.status().text() + "\n"};
  std::vector<control::ScrapeTarget> targets = std::move(answer).value();
  {
    const base::MutexLock lock(mutex_);
    if (!http_address_.empty()) targets.push_back({http_address_, "coordinator", "", "", ""});
  }
  nlohmann::json list = nlohmann::json::array();
  for (const control::ScrapeTarget& target : targets) {
    list.push_back({{"targets", {target.address}},
                    {"labels",
                     {{"role", target.role},
                      {"node", target.node},
                      {"ranks", target.ranks},  // "rank" is a label of the samples
                      {"train_job", target.job}}}});
  }
  return {200, "application/json", list.dump()};
}

/// Without an answer in time the scrape goes on without the coordinator's series: their absence,
/// beside the process's own, is what an alert can see.
void CoordinatorNode::scrape(monitoring::Scrape& scrape) {
  const auto answer = coordinator_.ask(
      [](const control::CoordinatorState& state) {
        return Shown{state.now_ms(), state.counts(), state.scraped_jobs()};
      },
      kAskDeadline);
  if (!answer.ok()) {
    if (!late_told_.exchange(true)) base::log_warn("/metrics: {}", answer.status().text());
    return;
  }
  late_told_ = false;
  const control::CoordinatorFigures& counts = answer->counts;
  for (int position = 0; position <= static_cast<int>(kLastPhase); ++position) {
    const auto phase = static_cast<JobPhase>(position);
    const auto found = counts.jobs.find(phase);
    scrape.value(monitoring::family("troupe_coordinator_jobs"), {schemas::job_phase_name(phase)},
                 found == counts.jobs.end() ? 0.0 : number(found->second));
  }
  scrape.value(monitoring::family("troupe_coordinator_nodes"), {"agent", "up"},
               number(counts.agents));
  const auto& devices = monitoring::family("troupe_coordinator_devices");
  const auto show_slots = [&](const char* kind, const control::SlotFigures& slots) {
    scrape.value(devices, {kind, "used"}, number(slots.used));
    scrape.value(devices, {kind, "free"}, number(slots.all - slots.used - slots.withheld));
    scrape.value(devices, {kind, "withheld"}, number(slots.withheld));
  };
  show_slots("cpu", counts.cpus);
  show_slots("gpu", counts.gpus);
  const base::MutexLock lock(dates_mutex_);
  dates_.look(answer->jobs, answer->now_ms, static_cast<double>(std::time(nullptr)));
  for (const control::ScrapedJob& job : answer->jobs) actors::show_job(series_of(job), scrape);
}

actors::JobSeries CoordinatorNode::series_of(const control::ScrapedJob& shown) const {
  const schemas::JobInfo& job = shown.info;
  actors::JobSeries series;
  series.job = job.id;
  series.samples = job.samples;
  series.step = job.step;
  series.steps_total = job.steps_total;
  series.missing_ranks = shown.missing_ranks;
  series.goodput = shown.goodput;
  series.resumes = shown.resumes;
  series.failed = job.phase == JobPhase::failed;
  series.checkpoint_unix_seconds = dates_.of(job.id);
  if (job.steps_total == 0) return series;
  series.loss = job.loss;
  if (job.accuracy >= 0.0) series.accuracy = job.accuracy;
  return series;
}

}  // namespace

base::Status run_coordinator(const CoordinatorNodeOptions& options, monitoring::Metrics& metrics) {
  CoordinatorNode node(options, metrics);
  return node.run();
}

}  // namespace troupe::cluster
