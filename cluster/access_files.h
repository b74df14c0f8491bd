// SPDX-License-Identifier: Apache-2.0
// AccessFiles: what a coordinator keeps about people and machines in its folder: the tokens
// (tokens/tokens.json, which `troupe token` changes), what is revoked (denied.pem) and who has
// changed what (audit.log). Looked at now and then, by the main thread; the rest: any thread.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/mutex.h"
#include "cluster/file_stamp.h"
#include "cluster/identity_file.h"
#include "control/control_events.h"

namespace troupe::cluster {

/// See the top of the file.
class AccessFiles {
 public:
  static constexpr const char* kTokens = "tokens";
  static constexpr const char* kDenied = "denied.pem";
  static constexpr const char* kAudit = "audit.log";

  /// With an `identity` (of the coordinator) people need tokens in any case; without, as soon as
  /// one was made.
  AccessFiles(std::filesystem::path folder, std::shared_ptr<IdentityFile> identity);

  /// Reads what has changed, keeps the lists handed in, writes the changes noted: returns what the
  /// coordinator is to be told. `now`: Unix seconds. What cannot be read is tried again with each
  /// look and logged once; tokens then hold no more, and of what is revoked all that was known
  /// stays. Blocks.
  std::vector<control::CoordinatorEvent> look(std::int64_t now);

  /// For the next look().
  void take(control::TakeDenyList list);
  /// For the next look(), or a later one while audit.log cannot be written. Beyond kAuditsMax
  /// changes that wait, or kAuditsOfOneMax of the same `who`, the newest are only counted.
  void note(control::Audit change);
  static constexpr std::size_t kAuditsMax = 10'000;
  static constexpr std::size_t kAuditsOfOneMax = kAuditsMax / 2;
  /// Of a coordinator that ends: tries once more to write what waits. Returns how many changes are
  /// lost, which is logged.
  std::uint64_t end(std::int64_t now);

 private:
  void read_tokens(std::int64_t now, std::vector<control::CoordinatorEvent>& events);
  bool read_denied();
  void tell_newest(bool of_folder, std::vector<control::CoordinatorEvent>& events);
  control::DenyListRead keep(const control::TakeDenyList& list, std::int64_t now);
  void write_denied(std::int64_t now);
  base::Result<std::uint64_t> check(const std::string& pem) const;
  void take_audits(std::int64_t now);
  void write_audits(std::int64_t now);

  const std::filesystem::path folder_;
  const std::shared_ptr<IdentityFile> identity_;
  // The main thread's.
  bool looked_ = false;                   ///< what is new from now on somebody has changed
  std::optional<FileStamp> tokens_seen_;  ///< as last read; none: they could not be, and below
  std::optional<FileStamp> denied_seen_;
  base::Status tokens_fault_;  ///< not ok: they cannot be read, so nobody may anything
  base::Status denied_fault_;
  bool unwritten_ = false;          ///< the list in use is not in the folder yet
  base::Status write_fault_;        ///< why not
  std::int64_t written_tried_ = 0;  ///< when that was, Unix seconds
  bool had_book_ = false;           ///< of tokens
  std::vector<trust::Token> tokens_;
  std::int64_t judged_ = 0;  ///< when tokens were last judged, Unix seconds
  std::optional<control::TokensRead> told_;
  std::string list_seen_;           ///< the identity's, as last judged
  std::uint64_t told_list_ = 1;     ///< the newest one told; an authority's first withdraws nobody
  std::vector<std::string> lines_;  ///< to be written into audit.log
  std::uint64_t lines_left_out_ = 0;
  base::Status audit_fault_;      ///< of writing them
  std::int64_t audit_tried_ = 0;  ///< when that was, Unix seconds

  base::Mutex mutex_;
  std::vector<control::TakeDenyList> lists_ TROUPE_GUARDED_BY(mutex_);
  std::vector<control::Audit> audits_ TROUPE_GUARDED_BY(mutex_);
  /// Of audits_ and lines_, by who; their sum is kAuditsMax at most.
  std::map<std::string, std::size_t> waiting_of_ TROUPE_GUARDED_BY(mutex_);
  std::size_t waiting_ TROUPE_GUARDED_BY(mutex_) = 0;
  std::uint64_t audits_left_out_ TROUPE_GUARDED_BY(mutex_) = 0;
};

}  // namespace troupe::cluster
