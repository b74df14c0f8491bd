// SPDX-License-Identifier: Apache-2.0
// Questions and answers over one link.
#include "cluster/job_client.h"

#include <chrono>
#include <optional>

#include "base/mutex.h"
#include "link/link_set.h"
#include "schemas/codec.h"
#include "storage/storage.h"

namespace troupe::cluster {

using base::Errc;
using schemas::Role;

/// The link and the answer awaited.
class JobClient::Impl {
 public:
  explicit Impl(const base::Limits& limits)
      : limits_(limits),
        mailbox_(std::make_shared<Mailbox>()),
        links_(limits, storage_.pool(base::Device{})) {}

  base::Status dial(const std::string& address) {
    link::DialOptions dial;
    dial.address = address;
    dial.self = {{Role::agent, 0}, std::string(link::kCommandName), "", 0};
    dial.peer = {{Role::coordinator, 0}, "", "", 0};
    TROUPE_TRY_ASSIGN(link_, links_.dial(std::move(dial), mailbox_));
    return {};
  }

  template <typename Answer>
  base::Result<Answer> ask(schemas::Message question, std::uint64_t wait_ms) {
    schemas::Envelope envelope;
    envelope.to = {Role::coordinator, 0};
    envelope.message = std::move(question);
    mailbox_->clear();
    const base::Status sent = link_->send(std::move(envelope));
    if (!sent.ok()) return mailbox_->down().ok() ? sent : mailbox_->down();
    TROUPE_TRY_ASSIGN(schemas::Message message, mailbox_->wait(wait_ms));
    auto* answer = std::get_if<Answer>(&message);
    if (answer == nullptr) {
      return base::error(Errc::internal, "the coordinator answered with {}",
                         schemas::message_name(message.index()));
    }
    if (answer->code != Errc::ok) return base::Status(answer->code, answer->text);
    return std::move(*answer);
  }

  const base::Limits& limits() const { return limits_; }

 private:
  class Mailbox final : public link::LinkHandler {
   public:
    void on_up() override {
      const base::MutexLock lock(mutex_);
      up_ = true;
    }
    void on_envelope(schemas::Envelope envelope) override {
      const base::MutexLock lock(mutex_);
      answer_ = std::move(envelope.message);
      changed_.notify_all();
    }
    void on_down(const base::Status& reason) override {
      const base::MutexLock lock(mutex_);
      down_ = base::error(Errc::unavailable, "{}{}", up_ ? "lost the coordinator: " : "",
                          reason.ok() ? "it ended" : reason.text());
      changed_.notify_all();
    }
    void clear() {
      const base::MutexLock lock(mutex_);
      answer_.reset();
    }
    base::Status down() {
      const base::MutexLock lock(mutex_);
      return down_;
    }
    base::Result<schemas::Message> wait(std::uint64_t wait_ms) {
      const base::MutexLock lock(mutex_);
      const bool told =
          changed_.wait_for(mutex_, std::chrono::milliseconds(wait_ms),
                            [this]() TROUPE_REQUIRES(mutex_) { return answer_ || !down_.ok(); });
      if (answer_) return std::move(*answer_);
      if (told) return down_;
      return base::error(Errc::deadline_exceeded, "no answer of the coordinator within {} ms",
                         wait_ms);
    }

   private:
    base::Mutex mutex_;
    base::CondVar changed_;
    std::optional<schemas::Message> answer_ TROUPE_GUARDED_BY(mutex_);
    bool up_ TROUPE_GUARDED_BY(mutex_) = false;
    base::Status down_ TROUPE_GUARDED_BY(mutex_);
  };

  const base::Limits limits_;
  storage::Storage storage_;
  std::shared_ptr<Mailbox> mailbox_;
  std::shared_ptr<link::Link> link_;
  link::LinkSet links_;
};

JobClient::JobClient(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
JobClient::~JobClient() = default;

base::Result<std::unique_ptr<JobClient>> JobClient::connect(const std::string& address,
                                                            const base::Limits& limits) {
  auto impl = std::make_unique<Impl>(limits);
  TROUPE_TRY(impl->dial(address));
  return std::unique_ptr<JobClient>(new JobClient(std::move(impl)));
}

base::Result<std::string> JobClient::submit(const std::string& id, const schemas::JobSpec& spec) {
  TROUPE_TRY_ASSIGN(std::string text, schemas::encode_job_spec(spec));
  TROUPE_TRY_ASSIGN(const auto answer,
                    impl_->ask<schemas::JobSubmitted>(schemas::JobSubmit{id, std::move(text)},
                                                      impl_->limits().request_ms));
  return answer.id;
}

base::Result<std::vector<schemas::JobInfo>> JobClient::query(const std::string& id) {
  TROUPE_TRY_ASSIGN(
      auto answer, impl_->ask<schemas::JobList>(schemas::JobQuery{id}, impl_->limits().request_ms));
  return std::move(answer.jobs);
}

base::Result<schemas::JobInfo> JobClient::stop(const std::string& id) {
  const std::uint64_t wait_ms = impl_->limits().request_ms + 2 * impl_->limits().stop_grace_ms;
  TROUPE_TRY_ASSIGN(auto answer, impl_->ask<schemas::JobList>(schemas::JobStop{id}, wait_ms));
  if (answer.jobs.size() == 1) return std::move(answer.jobs.front());
  return base::error(Errc::internal, "the coordinator answered with {} jobs", answer.jobs.size());
}

}  // namespace troupe::cluster
