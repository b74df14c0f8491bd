// SPDX-License-Identifier: Apache-2.0
// Questions and answers over one link at a time.
#include "cluster/job_client.h"

#include <fmt/core.h>
#include <sys/random.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <optional>
#include <thread>

#include "base/clock.h"
#include "base/mutex.h"
#include "link/link_set.h"
#include "schemas/codec.h"
#include "storage/storage.h"

namespace troupe::cluster {

using base::Errc;
using base::Status;
using schemas::Role;

namespace {

/// A stop is noticed this soon.
constexpr std::uint64_t kLookMs = 50;
/// For a checkpoint the coordinator has as long as the job's own limits say, which this program
/// does not know, and then answers; a coordinator that is gone is noticed by the link. Asking again
/// would begin another checkpoint. So this only ends what would never end: a day.
constexpr std::uint64_t kCheckpointMs = 86'400'000;
/// A lost coordinator is told again this often.
constexpr std::int64_t kRemindMs = 30'000;

/// A name that no other command has: 128 random bits.
std::string make_request() {
  std::array<std::uint64_t, 2> bits{};
  const auto got = ::getrandom(bits.data(), sizeof bits, 0);
  TROUPE_CHECK(got == sizeof bits, "the system has no random numbers");
  return fmt::format("{:016x}{:016x}", bits[0], bits[1]);
}

/// The answer awaited over one link.
class Mailbox final : public link::ControlHandler {
 public:
  void on_up() override {
    const base::MutexLock lock(mutex_);
    up_ = true;
  }
  void on_envelope(schemas::Envelope envelope) override {
    const base::MutexLock lock(mutex_);
    // Behind the answer may come the end of the link, which says nothing of the question.
    if (!answer_) answer_ = std::move(envelope.message);
    changed_.notify_all();
  }
  void on_down(const Status& reason) override {
    const base::MutexLock lock(mutex_);
    down_ = base::error(Errc::unavailable, "{}{}", up_ ? "lost the coordinator: " : "",
                        reason.ok() ? "it ended" : reason.text());
    changed_.notify_all();
  }
  bool up() {
    const base::MutexLock lock(mutex_);
    return up_;
  }
  Status down() {
    const base::MutexLock lock(mutex_);
    return down_;
  }
  /// The answer, or nothing after `wait_ms`, or why none will come.
  base::Result<std::optional<schemas::Message>> wait(std::uint64_t wait_ms) {
    const base::MutexLock lock(mutex_);
    changed_.wait_for(mutex_, std::chrono::milliseconds(wait_ms),
                      [this]() TROUPE_REQUIRES(mutex_) { return answer_ || !down_.ok(); });
    if (answer_) return std::exchange(answer_, std::nullopt);
    if (!down_.ok()) return down_;
    return std::optional<schemas::Message>();
  }
  void wait_down(std::uint64_t wait_ms) {
    const base::MutexLock lock(mutex_);
    changed_.wait_for(mutex_, std::chrono::milliseconds(wait_ms),
                      [this]() TROUPE_REQUIRES(mutex_) { return !down_.ok(); });
  }

 private:
  base::Mutex mutex_;
  base::CondVar changed_;
  std::optional<schemas::Message> answer_ TROUPE_GUARDED_BY(mutex_);
  bool up_ TROUPE_GUARDED_BY(mutex_) = false;
  Status down_ TROUPE_GUARDED_BY(mutex_);
};

}  // namespace

/// The link, and who waits for an answer over it.
class JobClient::Impl {
 public:
  explicit Impl(JobClientOptions options)
      : options_(std::move(options)),
        links_(options_.limits, storage_.pool(base::Device{}), options_.tls) {}
  ~Impl() {
    if (!mailbox_->up() || !mailbox_->down().ok()) return;
    link_->close("the command has ended");
    mailbox_->wait_down(options_.limits.goodbye_ms);
  }

  Status dial() {
    link::DialOptions dial;
    dial.address = options_.address;
    dial.self = {{Role::agent, 0}, std::string(link::kCommandName), "", 0};
    dial.peer = {{Role::coordinator, 0}, "", "", 0};
    mailbox_ = std::make_shared<Mailbox>();
    TROUPE_TRY_ASSIGN(link_, links_.dial(std::move(dial), mailbox_));
    if (options_.token.empty()) return {};
    schemas::Envelope envelope;
    envelope.to = {Role::coordinator, 0};
    envelope.message = schemas::PersonHello{options_.token};
    return link_->send(std::move(envelope));
  }

  /// Asks, and again while the coordinator is lost, until its grace is over.
  template <typename Answer>
  base::Result<Answer> ask(const schemas::Message& question, std::uint64_t wait_ms) {
    auto answer = ask_once<Answer>(question, wait_ms);
    if (!lost(answer.status())) return answer;
    const std::int64_t until_ms =
        clock_.now_ms() + static_cast<std::int64_t>(options_.limits.coordinator_grace_ms);
    std::int64_t remind_ms = 0;
    while (lost(answer.status()) && clock_.now_ms() < until_ms) {
      if (options_.on_lost && clock_.now_ms() >= remind_ms) {
        remind_ms = clock_.now_ms() + kRemindMs;
        options_.on_lost(answer.status(), static_cast<std::uint64_t>(until_ms - clock_.now_ms()));
      }
      TROUPE_TRY(pause(std::min<std::uint64_t>(
          options_.limits.retry_most_ms, static_cast<std::uint64_t>(until_ms - clock_.now_ms()))));
      link_->abort(base::error(Errc::cancelled, "the command asks over another link"));
      TROUPE_TRY(dial());
      answer = ask_once<Answer>(question, wait_ms);
    }
    return answer;
  }

  /// A question about one job.
  base::Result<schemas::JobInfo> ask_about(const schemas::Message& question,
                                           std::uint64_t wait_ms) {
    TROUPE_TRY_ASSIGN(auto answer, ask<schemas::JobList>(question, wait_ms));
    if (answer.jobs.size() == 1) return std::move(answer.jobs.front());
    return base::error(Errc::internal, "the coordinator answered with {} jobs", answer.jobs.size());
  }

  const base::Limits& limits() const { return options_.limits; }

 private:
  /// True when asking again may help: the coordinator was there.
  bool lost(const Status& status) {
    met_ = met_ || mailbox_->up();
    return met_ && status.code() == Errc::unavailable;
  }

  /// For `ms`, unless the command is to end.
  Status pause(std::uint64_t ms) {
    for (std::uint64_t slept = 0; slept < ms && !stopping(); slept += kLookMs) {
      std::this_thread::sleep_for(std::chrono::milliseconds(std::min(kLookMs, ms - slept)));
    }
    return stopping() ? stopped() : Status();
  }
  bool stopping() const { return options_.stop && options_.stop(); }
  static Status stopped() { return base::error(Errc::cancelled, "the command was stopped"); }

  base::Result<schemas::Message> exchange(const schemas::Message& question, std::uint64_t wait_ms) {
    schemas::Envelope envelope;
    envelope.to = {Role::coordinator, 0};
    envelope.message = question;
    const Status sent = link_->send(std::move(envelope));
    if (!sent.ok()) return mailbox_->down().ok() ? sent : mailbox_->down();
    const std::int64_t until_ms = clock_.now_ms() + static_cast<std::int64_t>(wait_ms);
    while (clock_.now_ms() < until_ms) {
      if (stopping()) return stopped();
      TROUPE_TRY_ASSIGN(std::optional<schemas::Message> answer, mailbox_->wait(kLookMs));
      if (answer) return *std::move(answer);
    }
    return base::error(Errc::unavailable, "no answer of the coordinator within {} ms", wait_ms);
  }

  /// A coordinator drops who has asked nothing for long, such as a command that was paused: it may
  /// come again, over another link. Any other reason is for good.
  static Status turned_away(const schemas::JobEnd& end) {
    const bool may_come_again =
        end.code == Errc::deadline_exceeded || end.code == Errc::unavailable;
    if (may_come_again) {
      return base::error(Errc::unavailable, "the coordinator has ended the link: {}", end.text);
    }
    if (end.code != Errc::ok) return Status(end.code, end.text);
    return base::error(Errc::internal, "the coordinator ends a job that this command has not");
  }

  template <typename Answer>
  base::Result<Answer> ask_once(const schemas::Message& question, std::uint64_t wait_ms) {
    TROUPE_TRY_ASSIGN(schemas::Message message, exchange(question, wait_ms));
    if (const auto* end = std::get_if<schemas::JobEnd>(&message)) return turned_away(*end);
    auto* answer = std::get_if<Answer>(&message);
    if (answer == nullptr) {
      return base::error(Errc::internal, "the coordinator answered with {}",
                         schemas::message_name(message.index()));
    }
    if (answer->code != Errc::ok) return Status(answer->code, answer->text);
    return std::move(*answer);
  }

  const JobClientOptions options_;
  base::SteadyClock clock_;
  storage::Storage storage_;
  std::shared_ptr<Mailbox> mailbox_;
  std::shared_ptr<link::Link> link_;
  bool met_ = false;  // the coordinator has greeted
  link::LinkSet links_;
};

JobClient::JobClient(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
JobClient::~JobClient() = default;

base::Result<std::unique_ptr<JobClient>> JobClient::connect(JobClientOptions options) {
  auto impl = std::make_unique<Impl>(std::move(options));
  TROUPE_TRY(impl->dial());
  return std::unique_ptr<JobClient>(new JobClient(std::move(impl)));
}

base::Result<std::string> JobClient::submit(const std::string& id, const schemas::JobSpec& spec) {
  TROUPE_TRY_ASSIGN(std::string text, schemas::encode_job_spec(spec));
  const schemas::JobSubmit question{id, std::move(text), make_request()};
  TROUPE_TRY_ASSIGN(const auto answer,
                    impl_->ask<schemas::JobSubmitted>(question, impl_->limits().request_ms));
  return answer.id;
}

base::Result<schemas::JobList> JobClient::list() {
  return impl_->ask<schemas::JobList>(schemas::JobQuery{}, impl_->limits().request_ms);
}

base::Result<schemas::JobList> JobClient::cluster() {
  return impl_->ask<schemas::JobList>(schemas::JobQuery{"", true}, impl_->limits().request_ms);
}

base::Result<schemas::JobInfo> JobClient::query(const std::string& id) {
  return impl_->ask_about(schemas::JobQuery{id}, impl_->limits().request_ms);
}

base::Result<StoppedJob> JobClient::stop(const std::string& id, bool checkpoint) {
  const base::Limits& limits = impl_->limits();
  const std::uint64_t wait_ms =
      checkpoint ? kCheckpointMs : limits.request_ms + 2 * limits.stop_grace_ms;
  TROUPE_TRY_ASSIGN(auto answer,
                    impl_->ask<schemas::JobList>(schemas::JobStop{id, checkpoint}, wait_ms));
  if (answer.jobs.size() == 1) return StoppedJob{answer.jobs.front(), answer.text};
  return base::error(Errc::internal, "the coordinator answered with {} jobs", answer.jobs.size());
}

base::Result<schemas::JobCheckpointAnswer> JobClient::checkpoint(const std::string& id) {
  return impl_->ask<schemas::JobCheckpointAnswer>(schemas::JobCheckpoint{id}, kCheckpointMs);
}

Status JobClient::deny(const std::string& pem) {
  return impl_->ask<schemas::DenyList>(schemas::DenyList{pem}, impl_->limits().request_ms).status();
}

}  // namespace troupe::cluster
