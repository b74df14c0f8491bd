// SPDX-License-Identifier: Apache-2.0
// Watching files, judging tokens by the clock, appending audit lines.
#include "cluster/access_files.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/file.h"
#include "base/log.h"
#include "base/units.h"

namespace troupe::cluster {
namespace {

namespace fs = std::filesystem;
using base::Errc;
using base::Status;

constexpr std::uint64_t kListBytesMax = 4'194'304;

control::KnownToken judged(const trust::Token& token, std::int64_t now) {
  control::KnownToken known{token, {}};
  if (token.withdrawn != 0) {
    known.refused = base::error(Errc::permission_denied, "it was withdrawn on {}",
                                base::format_date(token.withdrawn));
  } else if (trust::ended(token.validity, now)) {
    known.refused = base::error(Errc::permission_denied, "it was valid until {}",
                                base::format_date(token.validity.until));
  } else if (now < token.validity.from) {
    known.refused = base::error(Errc::permission_denied, "it is valid from {}",
                                base::format_date(token.validity.from));
  }
  return known;
}

std::string line_of(const control::Audit& change, std::int64_t now) {
  nlohmann::ordered_json line = {{"time", base::format_date(now)},
                                 {"who", change.who},
                                 {"what", change.what},
                                 {"from", change.from}};
  if (!change.refused.ok()) line["refused"] = change.refused.text();
  return line.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

/// All of it, or an errno.
int write_all(int descriptor, std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = ::write(descriptor, text.data(), text.size());
    if (written < 0 && errno != EINTR) return errno;
    if (written > 0) text.remove_prefix(static_cast<std::size_t>(written));
  }
  return 0;
}

/// Opened anew each time, so that it may be moved away meanwhile. All of it is there afterwards, or
/// nothing: no half line that the next one is glued to.
Status append(const fs::path& file, std::string_view text) {
  // A pipe would wait for its reader.
  const int descriptor =
      ::open(file.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NONBLOCK, 0600);
  int fault = descriptor < 0 ? errno : 0;
  struct stat before {};
  if (fault == 0 && ::fstat(descriptor, &before) != 0) fault = errno;
  const bool regular = fault != 0 || S_ISREG(before.st_mode);
  if (fault == 0 && regular) {
    fault = write_all(descriptor, text);
    if (fault != 0) (void)!::ftruncate(descriptor, before.st_size);
  }
  if (descriptor >= 0) ::close(descriptor);
  if (!regular) return base::error(Errc::invalid_argument, "{}: is no regular file", file.string());
  return fault == 0 ? Status() : base::file_error(file, "append to", fault);
}

}  // namespace

AccessFiles::AccessFiles(fs::path folder, std::shared_ptr<IdentityFile> identity)
    : folder_(std::move(folder)), identity_(std::move(identity)) {}

std::vector<control::CoordinatorEvent> AccessFiles::look(std::int64_t now) {
  std::vector<control::CoordinatorEvent> events;
  take_audits(now);
  // Looks come more often than seconds, and a full disk stays full for longer.
  if (audit_fault_.ok() || now != audit_tried_) write_audits(now);
  read_tokens(now, events);
  const bool took = read_denied();
  if (took) unwritten_ = false;  // what is there is the newest
  if (now != written_tried_) write_denied(now);
  std::vector<control::TakeDenyList> lists;
  {
    const base::MutexLock lock(mutex_);
    lists.swap(lists_);
  }
  for (const control::TakeDenyList& list : lists) events.emplace_back(keep(list, now));
  tell_newest(took, events);
  looked_ = true;
  return events;
}

void AccessFiles::take(control::TakeDenyList list) {
  constexpr std::size_t kListsMax = 16;
  const base::MutexLock lock(mutex_);
  if (lists_.size() < kListsMax) lists_.push_back(std::move(list));  // who asks asks again
}

void AccessFiles::note(control::Audit change) {
  const base::MutexLock lock(mutex_);
  const auto own = waiting_of_.find(change.who);
  if (waiting_ == kAuditsMax || (own != waiting_of_.end() && own->second == kAuditsOfOneMax)) {
    ++audits_left_out_;
    return;
  }
  ++waiting_;
  ++waiting_of_[change.who];
  audits_.push_back(std::move(change));
}

void AccessFiles::read_tokens(std::int64_t now, std::vector<control::CoordinatorEvent>& events) {
  const fs::path book = folder_ / kTokens / trust::TokenBook::kFile;
  const FileStamp seen = stamp_of(book);
  if (seen == tokens_seen_ && now == judged_) return;  // looks come more often than seconds
  judged_ = now;
  if (seen != tokens_seen_) {
    auto read = trust::TokenBook::read(folder_ / kTokens);
    had_book_ = had_book_ || !seen.gone() || read.ok();  // also one that could not be read
    if (read.status().code() == Errc::not_found) {
      // Removing tokens leaves a book without any. One that is gone was moved away, or its disk.
      if (had_book_) {
        read = base::error(Errc::not_found, "{}: is gone; only a new start does without tokens",
                           book.string());
      } else {
        read = std::vector<trust::Token>();
      }
    }
    // What could not be read is tried again with each look: it may be for want of descriptors.
    tokens_seen_ = read.ok() ? std::optional(seen) : std::nullopt;
    if (!read.ok() && read.status() != tokens_fault_) {
      base::log_warn("{}; until it can be read no token is valid", read.status().text());
    }
    tokens_fault_ = read.status();
    tokens_ = read.ok() ? std::move(read).value() : std::vector<trust::Token>();
  }
  control::TokensRead tokens;
  tokens.unread = !tokens_fault_.ok();
  tokens.needed = identity_ != nullptr || !tokens_.empty() || tokens.unread;
  for (const trust::Token& token : tokens_) tokens.tokens.push_back(judged(token, now));
  if (told_ && *told_ == tokens) return;
  told_ = tokens;
  events.emplace_back(std::move(tokens));
}

base::Result<std::uint64_t> AccessFiles::check(const std::string& pem) const {
  if (identity_ == nullptr) {
    return base::error(Errc::failed_precondition,
                       "this coordinator has no --identity: nobody here shows a certificate");
  }
  const std::string authority = identity_->credentials().authority;
  TROUPE_TRY_ASSIGN(const std::uint64_t number, trust::check_deny_list(pem, authority));
  // Of its own file, of the folder, or handed in: the newest.
  const std::string newest = identity_->credentials().deny_list;
  if (newest.empty()) return number;
  TROUPE_TRY_ASSIGN(const std::uint64_t known, trust::check_deny_list(newest, authority));
  if (number >= known) return number;
  return base::error(Errc::failed_precondition,
                     "list {} of what is revoked: the coordinator has list {}", number, known);
}

/// Copied there by hand, or of the coordinator's last life. True where it is one to use.
bool AccessFiles::read_denied() {
  const fs::path file = folder_ / kDenied;
  const FileStamp seen = stamp_of(file);
  if (seen == denied_seen_) return false;
  denied_seen_ = seen;
  if (seen.gone()) return false;  // what it said stays
  auto text = base::read_text_file(file, kListBytesMax);
  if (!text.ok()) denied_seen_.reset();  // as with tokens
  Status status = text.status();
  if (status.ok()) status = check(*text).status();
  if (status.ok()) status = identity_->use_deny_list(*text);
  const bool told = status == denied_fault_;
  denied_fault_ = status;
  if (!status.ok() && !told) base::log_warn("{}: {}", file.string(), status.text());
  return status.ok();
}

/// Whatever has brought it: the folder, or a certificate that was renewed after somebody's was
/// revoked.
void AccessFiles::tell_newest(bool of_folder, std::vector<control::CoordinatorEvent>& events) {
  if (identity_ == nullptr) return;
  const trust::Credentials own = identity_->credentials();
  if (own.deny_list.empty() || own.deny_list == list_seen_) return;
  list_seen_ = own.deny_list;
  const auto number = trust::check_deny_list(own.deny_list, own.authority);
  if (!number.ok() || *number <= told_list_) return;
  told_list_ = *number;
  control::DenyListRead read{0, {}, own.deny_list};
  const fs::path from = of_folder ? folder_ / kDenied : identity_->file();
  if (looked_) read.change = {"somebody", "hands in what is revoked", from.string()};
  events.emplace_back(std::move(read));
}

/// In use at once, and in the folder as soon as that can be written: who fills the disk keeps
/// nobody's certificate valid. A list of the same number is the one that is known.
control::DenyListRead AccessFiles::keep(const control::TakeDenyList& list, std::int64_t now) {
  const auto number = check(list.pem);
  if (!number.ok()) return {list.peer, number.status(), {}};
  told_list_ = std::max(told_list_, *number);
  const trust::Credentials own = identity_->credentials();
  const auto known = trust::check_deny_list(own.deny_list, own.authority);
  if (known.ok() && *known == *number) return {list.peer, {}, own.deny_list, list.change};
  const Status used = identity_->use_deny_list(list.pem);
  if (!used.ok()) return {list.peer, used, {}};
  unwritten_ = true;
  write_denied(now);
  return {list.peer, {}, list.pem, list.change};
}

void AccessFiles::write_denied(std::int64_t now) {
  if (!unwritten_) return;
  written_tried_ = now;
  const fs::path file = folder_ / kDenied;
  const std::string list = identity_->credentials().deny_list;
  const Status status = base::write_file_atomically(file, std::as_bytes(std::span(list)));
  if (!status.ok() && write_fault_.ok()) {
    base::log_error(
        "{}; what is revoked holds, and is lost if this program ends before it can "
        "write that",
        status.text());
  }
  write_fault_ = status;
  if (!status.ok()) return;
  unwritten_ = false;
  denied_seen_ = stamp_of(file);
}

std::uint64_t AccessFiles::end(std::int64_t now) {
  write_denied(now);
  take_audits(now);
  write_audits(now);
  const std::uint64_t lost = lines_.size() + lines_left_out_;
  if (lost > 0) {
    base::log_error("audit: {}; {} lost", audit_fault_.text(),
                    base::format_counted(lost, "line") + (lost == 1 ? " is" : " are"));
  }
  return lost;
}

void AccessFiles::take_audits(std::int64_t now) {
  std::vector<control::Audit> audits;
  {
    const base::MutexLock lock(mutex_);
    audits.swap(audits_);
    lines_left_out_ += std::exchange(audits_left_out_, 0);
  }
  for (const control::Audit& change : audits) lines_.push_back(line_of(change, now));
}

void AccessFiles::write_audits(std::int64_t now) {
  if (lines_.empty()) return;
  audit_tried_ = now;
  std::string text = fmt::format("{}", fmt::join(lines_, ""));
  if (lines_left_out_ > 0) {
    text += line_of({"", base::format_counted(lines_left_out_, "line") + " left out", "", {}}, now);
  }
  const Status status = append(folder_ / kAudit, text);
  if (status.ok()) {
    lines_.clear();
    lines_left_out_ = 0;
    const base::MutexLock lock(mutex_);
    waiting_ = audits_.size();
    waiting_of_.clear();
    for (const control::Audit& change : audits_) ++waiting_of_[change.who];
  } else if (status != audit_fault_) {
    base::log_error("audit: {}; what is to be written waits until it can be", status.text());
  }
  audit_fault_ = status;
}

}  // namespace troupe::cluster
