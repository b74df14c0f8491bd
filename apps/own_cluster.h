// SPDX-License-Identifier: Apache-2.0
// OwnCluster: a coordinator in this process, and an authority that signs for one run: who joins and
// who asks has a certificate of it. All that is secret lies in a private folder that goes with it.
// One thread.
#pragma once

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "apps/metrics_options.h"
#include "base/status.h"
#include "cluster/job_client.h"
#include "monitoring/metrics.h"
#include "trust/authority.h"

namespace troupe::apps {

/// Removes it with all that is in it, as far as that can be done. Any thread.
void remove_folder(const std::filesystem::path& folder);

/// See the top of the file.
class OwnCluster {
 public:
  /// Makes the private folder (mode 0700, in the system's folder for temporary files) and the
  /// authority. Errors: the folder cannot be made.
  static base::Result<std::unique_ptr<OwnCluster>> make();
  /// Ends the coordinator and removes the folder.
  ~OwnCluster();
  OwnCluster(const OwnCluster&) = delete;
  OwnCluster& operator=(const OwnCluster&) = delete;

  /// Signs for an agent: its credentials as PEM, which are in no file here.
  base::Result<std::string> identity_of_agent(const std::string& name);
  /// Signs for nobody from here on: the authority's key is destroyed.
  void seal();

  /// The agents of a run, which nobody else joins.
  struct Agents {
    std::uint64_t count = 0;
    std::uint64_t join_wait_ms = 0;  ///< as base::Limits has it
  };
  /// Starts the coordinator on a port that the system chooses; returns once it listens. Errors:
  /// `host` is none of this machine's, the pages' port is in use.
  base::Status start(const std::string& host, const MetricsOptions& pages, const Agents& agents);
  /// Ends the coordinator; nothing happens when it has ended.
  void end();
  /// The coordinator's HOST:PORT, after start().
  const std::string& address() const { return address_; }
  /// A client who may do everything.
  base::Result<std::unique_ptr<cluster::JobClient>> connect() const;
  /// The private folder.
  const std::filesystem::path& folder() const { return folder_; }

 private:
  explicit OwnCluster(std::filesystem::path folder) : folder_(std::move(folder)) {}
  base::Result<std::string> sign(trust::Role role, const std::string& name);
  base::Status sign_own();
  void serve(const base::Address& listen, const base::Address& pages, const http::Guard& guard,
             const Agents& agents);

  const std::filesystem::path folder_;
  std::unique_ptr<trust::Authority> authority_;
  std::shared_ptr<const link::Tls> person_;
  std::string token_;
  monitoring::Metrics metrics_;
  std::string address_;            // the thread's, until listens_ is true
  base::Status status_;            // the same, until ended_ is true
  std::atomic<bool> told_{false};  // it listens, or it has ended
  std::atomic<bool> ended_{false};
  std::atomic<bool> stop_{false};
  std::thread thread_;
};

}  // namespace troupe::apps
