// SPDX-License-Identifier: Apache-2.0
// An authority, a token and a coordinator for one run.
#include "apps/own_cluster.h"

#include <fmt/format.h>
#include <stdlib.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "apps/checkpoint_files.h"
#include "apps/program.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"
#include "cluster/access_files.h"
#include "cluster/coordinator_node.h"
#include "cluster/page_address.h"
#include "monitoring/process.h"
#include "ops/numerics.h"
#include "train/resume.h"
#include "trust/token.h"

namespace troupe::apps {
namespace {

/// Longer than any run; the keys are gone with it.
constexpr std::int64_t kHoldsSeconds = 365 * 86'400;
constexpr const char* kPerson = "run";

trust::Validity validity() {
  return trust::valid_for(base::unix_seconds(), kHoldsSeconds);
}

}  // namespace

void remove_folder(const std::filesystem::path& folder) {
  std::error_code ignored;
  std::filesystem::remove_all(folder, ignored);
}

base::Result<std::unique_ptr<OwnCluster>> OwnCluster::make() {
  std::error_code code;
  const auto temporary = std::filesystem::temp_directory_path(code);
  if (code) return base::error(base::Errc::unavailable, "TMPDIR: {}", code.message());
  std::string pattern = (temporary / "troupe-run-XXXXXX").string();
  if (::mkdtemp(pattern.data()) == nullptr) {  // mode 0700
    return base::error(base::errc_of_errno(errno), "{}: {}", pattern, std::strerror(errno));
  }
  std::unique_ptr<OwnCluster> made(new OwnCluster(pattern));
  auto authority =
      trust::Authority::create(made->folder_ / "ca", fmt::format("run-{}", ::getpid()), validity());
  if (!authority.ok()) return authority.status();
  made->authority_ = std::make_unique<trust::Authority>(*std::move(authority));
  TROUPE_TRY(made->sign_own());
  return made;
}

void OwnCluster::end() {
  stop_ = true;
  if (thread_.joinable()) thread_.join();
}

OwnCluster::~OwnCluster() {
  end();
  authority_.reset();
  remove_folder(folder_);
}

base::Status OwnCluster::sign_own() {
  TROUPE_TRY_ASSIGN(const auto coordinator, authority_->issue(trust::Role::coordinator, "main",
                                                              validity(), base::unix_seconds()));
  TROUPE_TRY(trust::write_credentials(folder_ / "coordinator.pem", coordinator));
  TROUPE_TRY_ASSIGN(const auto person, authority_->issue(trust::Role::person, kPerson, validity(),
                                                         base::unix_seconds()));
  TROUPE_TRY_ASSIGN(person_, link::Tls::create(person));
  TROUPE_TRY_ASSIGN(auto book,
                    trust::TokenBook::open(folder_ / "state" / cluster::AccessFiles::kTokens));
  TROUPE_TRY_ASSIGN(token_, book.make(kPerson, {trust::Right::admin}, validity()));
  return {};
}

base::Result<std::string> OwnCluster::identity_of_agent(const std::string& name) {
  TROUPE_TRY_ASSIGN(const auto made,
                    authority_->issue(trust::Role::agent, name, validity(), base::unix_seconds()));
  return made.to_pem();
}

void OwnCluster::seal() {
  authority_.reset();
  remove_folder(folder_ / "ca");
}

base::Status OwnCluster::start(const std::string& host, const MetricsOptions& pages,
                               const Agents& agents) {
  TROUPE_TRY_ASSIGN(const base::Address where, pages.place());
  TROUPE_TRY_ASSIGN(http::Guard guard, pages.guard(where));
  thread_ = std::thread([this, listen = base::Address{host, 0}, where, guard = std::move(guard),
                         agents] { serve(listen, where, guard, agents); });
  told_.wait(false);
  if (!ended_) return {};
  return status_.ok() ? base::error(base::Errc::internal, "the coordinator has ended") : status_;
}

void OwnCluster::serve(const base::Address& listen, const base::Address& pages,
                       const http::Guard& guard, const Agents& agents) {
  const auto tell = [this] {
    told_ = true;
    told_.notify_all();
  };
  const auto run = [&]() -> base::Status {
    cluster::CoordinatorNodeOptions options;
    options.listen = listen.to_string();
    options.pages = pages;
    options.pages_host = pages_host(pages, listen);
    options.guard = guard;
    options.state_folder = (folder_ / "state").string();
    options.version = program_version();
    options.agents = agents.count;
    options.limits.join_wait_ms = agents.join_wait_ms;
    TROUPE_TRY_ASSIGN(options.identity, cluster::IdentityFile::open(folder_ / "coordinator.pem",
                                                                    trust::Role::coordinator));
    options.stop = [this] { return stop_.load(); };
    options.find_start = [](const control::FindStart& find) {
      return train::find_job_start(find, {});
    };
    options.files = checkpoint_files({});
    options.ready = [&](const std::string& address, const std::string& http) {
      base::log_info("coordinator on {}, {}://{}/metrics and /sd/targets", address,
                     guard.tls == nullptr ? "http" : "https", http);
      address_ = address;
      tell();
    };
    const auto process =
        monitoring::collect_process(metrics_, program_version(), ops::build_name(), "coordinator");
    return cluster::run_coordinator(options, metrics_);
  };
  status_ = run();
  ended_ = true;
  tell();
}

base::Result<std::unique_ptr<cluster::JobClient>> OwnCluster::connect() const {
  cluster::JobClientOptions options;
  options.address = address_;
  options.tls = person_;
  options.token = token_;
  return cluster::JobClient::connect(std::move(options));
}

}  // namespace troupe::apps
