// SPDX-License-Identifier: Apache-2.0
// The links of a process, their thread and their clock tick; which accepted connection belongs to
// which link.
#include "link/link_set.h"

#include <pthread.h>
#include <sys/random.h>

#include <algorithm>
#include <asio/executor_work_guard.hpp>
#include <asio/post.hpp>
#include <atomic>
#include <csignal>
#include <future>
#include <map>
#include <thread>
#include <utility>

#include "base/address.h"
#include "base/log.h"
#include "base/mutex.h"
#include "link/link_core.h"
#include "link/listener.h"

namespace troupe::link {
namespace {

using base::Address;
using base::Errc;
using base::Result;
using base::Status;

/// Connections of one link.
constexpr std::uint32_t kLanesMax = 64;
/// Links of one certificate's holder where whoever has one may come: others need places, too.
constexpr std::ptrdiff_t kLinksOfHolderMax = 128;

std::uint64_t random_token() {
  std::uint64_t token = 0;
  const auto got = ::getrandom(&token, sizeof token, 0);
  TROUPE_CHECK(got == sizeof token, "the system has no random numbers");
  return token;
}

/// Debian writes a machine's own name into its /etc/hosts as 127.0.1.1.
void warn_of_loopback(const Address& address, const base::HostNumbers& numbers) {
  const auto loopback = [](const std::string& number) { return Address{number, 0}.loopback(); };
  if (address.loopback() || !std::all_of(numbers.begin(), numbers.end(), loopback)) return;
  base::log_warn(
      "[link] '{}' means {} on this machine, its loopback: no other machine can link here",
      address.host, numbers.front());
}

std::optional<trust::Identity> holder_of(const Greeted& greeted) {
  const Tls::Peer* peer = greeted.connection->peer();
  return peer == nullptr ? std::nullopt : std::optional(peer->identity);
}

Status stopped() {
  return base::error(Errc::cancelled, "[link] the process closes its links");
}

}  // namespace

class LinkSet::Impl {
 public:
  Impl(const base::Limits& limits, base::BufferPool& pool, std::shared_ptr<const Tls> tls,
       base::Resolver::LookUp look_up)
      : context_(std::make_shared<LinkContext>(limits, pool, std::move(tls), std::move(look_up))),
        guard_(context_->io.get_executor()),
        timer_(context_->io) {
    thread_ = std::thread([this] { run(); });
    context_->hurry = [this] { hurry(); };
    asio::post(context_->io, [this] { arm_tick(); });
  }
  ~Impl() { stop(); }
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

  Result<std::shared_ptr<Link>> dial(DialOptions options, std::shared_ptr<LinkHandler> handler);
  Result<std::string> listen(const std::string& text, LinkEnd self, Acceptor acceptor,
                             std::optional<base::Secret> secret, const base::PortRange& ports);
  Result<std::shared_ptr<Link>> adopt(int fd, Greeting greeting, LinkEnd self,
                                      std::shared_ptr<LinkHandler> handler);
  void renew(std::shared_ptr<const Tls> tls);
  void dial_anew();
  void stop();
  LinkSetFigures totals() const {
    const base::MutexLock lock(totals_mutex_);
    return totals_;
  }

 private:
  using Origin = LinkCore::Origin;

  Result<Address> read_address(const std::string& text) const;
  void run();
  void arm_tick();
  void hurry();
  void tick();
  void note_pauses();
  void sum_up();
  /// Registers a new link and runs `begin` on the I/O thread.
  void add(std::shared_ptr<LinkCore> link, std::function<void(LinkCore&)> begin);
  /// What a listener is, and who decides about those that greet it.
  struct Port {
    LinkEnd self;
    std::optional<base::Secret> secret;
    Acceptor acceptor;
  };
  Status admit(const Port& port, const Greeted& greeted);
  Result<std::shared_ptr<LinkCore>> find(const LinkEnd& self, const Greeted& greeted);
  Result<std::shared_ptr<LinkCore>> make(const Port& port, const Greeted& greeted);

  std::shared_ptr<LinkContext> context_;
  asio::executor_work_guard<asio::io_context::executor_type> guard_;
  asio::steady_timer timer_;
  std::thread thread_;
  std::atomic<bool> stopping_{false};
  // The I/O thread's.
  bool stopped_ = false;
  bool quiet_ = false;  ///< the next tick may be late
  std::vector<std::shared_ptr<LinkCore>> links_;
  std::map<std::uint64_t, std::shared_ptr<LinkCore>> accepted_;  ///< by token; also in links_
  std::vector<std::shared_ptr<Listener>> listeners_;
  LinkFigures ended_;  ///< of links that are no more
  base::AwakeClock::Pauses pauses_;

  mutable base::Mutex totals_mutex_;
  LinkSetFigures totals_ TROUPE_GUARDED_BY(totals_mutex_);
};

// ---- any thread ----

Result<Address> LinkSet::Impl::read_address(const std::string& text) const {
  return base::parse_address_within(
      text, context_->secured ? base::Reach::network : base::Reach::loopback);
}

void LinkSet::Impl::renew(std::shared_ptr<const Tls> tls) {
  TROUPE_CHECK(context_->secured && tls != nullptr, "credentials for links that had none");
  asio::post(context_->io, [this, tls = std::move(tls)]() mutable {
    context_->tls = std::move(tls);
    for (const auto& link : std::vector(links_)) link->check_revoked();
  });
}

void LinkSet::Impl::dial_anew() {
  asio::post(context_->io, [this] {
    for (const auto& link : std::vector(links_)) link->dial_anew();
  });
}

Result<std::shared_ptr<Link>> LinkSet::Impl::dial(DialOptions options,
                                                  std::shared_ptr<LinkHandler> handler) {
  TROUPE_CHECK(handler != nullptr, "a link without a handler");
  if (stopping_) return stopped();
  TROUPE_TRY_ASSIGN(const Address address, read_address(options.address));
  if (options.data_connections >= kLanesMax) {
    return base::error(Errc::invalid_argument, "[link] {} data connections; the limit is {}",
                       options.data_connections, kLanesMax - 1);
  }
  LinkCore::Plan plan{
      Origin::dialed, std::move(options.self),      std::move(options.peer), address.to_string(),
      random_token(), 1 + options.data_connections, options.secret,          {}};
  auto link = std::make_shared<LinkCore>(context_, std::move(plan));
  link->set_handler(std::move(handler));
  add(link, [address, wait_ms = options.wait_ms](LinkCore& core) { core.dial(address, wait_ms); });
  return std::shared_ptr<Link>(std::move(link));
}

Result<std::string> LinkSet::Impl::listen(const std::string& text, LinkEnd self, Acceptor acceptor,
                                          std::optional<base::Secret> secret,
                                          const base::PortRange& ports) {
  if (stopping_) return stopped();
  TROUPE_TRY_ASSIGN(const Address address, read_address(text));
  const std::uint64_t resolve_ms = context_->limits.resolve_ms;
  TROUPE_TRY_ASSIGN(const auto numbers, context_->resolver.resolve(address.host, resolve_ms));
  const Port port{self, secret, std::move(acceptor)};
  std::vector<std::shared_ptr<Listener>> made;
  const base::Listening listening{
      [&](const Address& at) -> Result<std::uint16_t> {
        auto listener = std::make_shared<Listener>(
            context_, self, secret,
            [this, port](const Greeted& greeted) { return admit(port, greeted); });
        TROUPE_TRY_ASSIGN(const Address bound, listener->open(at));
        made.push_back(std::move(listener));
        return bound.port;
      },
      [&made] { made.clear(); }};
  TROUPE_TRY_ASSIGN(const std::uint16_t bound, base::listen_at(address, ports, numbers, listening));
  warn_of_loopback(address, numbers);
  asio::post(context_->io, [this, listeners = std::move(made)] {
    for (const auto& listener : listeners) {
      if (stopped_) {
        listener->close();
      } else {
        listeners_.push_back(listener);
        listener->start();
      }
    }
  });
  return Address{address.host, bound}.to_string();
}

Result<std::shared_ptr<Link>> LinkSet::Impl::adopt(int fd, Greeting greeting, LinkEnd self,
                                                   std::shared_ptr<LinkHandler> handler) {
  TROUPE_CHECK(handler != nullptr, "a link without a handler");
  if (stopping_) return stopped();
  Socket socket(context_->io);
  asio::error_code error;
  socket.assign(asio::generic::stream_protocol(AF_UNIX, 0), fd, error);
  if (error) {
    return base::error(Errc::invalid_argument, "[link] descriptor {} is no socket: {}", fd,
                       error.message());
  }
  prepare_socket(socket, context_->limits);
  LinkCore::Plan plan{Origin::adopted, std::move(self), {}, "", random_token(), 1, {}, {}};
  plan.peer.name = "the other end of a socket pair";
  auto link = std::make_shared<LinkCore>(context_, std::move(plan));
  link->set_handler(std::move(handler));
  auto connection = std::make_shared<Connection>(make_plain_carrier(std::move(socket)),
                                                 greeting_limits(context_->limits));
  add(link, [connection, greeting](LinkCore& core) {
    core.adopt(connection, greeting == Greeting::speak);
  });
  return std::shared_ptr<Link>(std::move(link));
}

void LinkSet::Impl::add(std::shared_ptr<LinkCore> link, std::function<void(LinkCore&)> begin) {
  asio::post(context_->io, [this, link = std::move(link), begin = std::move(begin)] {
    if (stopped_) return link->go_down(stopped());
    links_.push_back(link);
    hurry();
    begin(*link);
  });
}

void LinkSet::Impl::stop() {
  TROUPE_CHECK(std::this_thread::get_id() != thread_.get_id(), "stop() in a link's handler");
  if (stopping_.exchange(true)) return;
  asio::post(context_->io, [this] {
    stopped_ = true;
    timer_.cancel();
    for (const auto& listener : listeners_) listener->close();
    for (const auto& link : std::exchange(links_, {})) link->go_down(stopped());
    listeners_.clear();
    accepted_.clear();
  });
  // What was cancelled or posted runs to its end; then run() returns.
  guard_.reset();
  thread_.join();
}

// ---- the I/O thread ----

void LinkSet::Impl::run() {
  sigset_t all;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_BLOCK, &all, nullptr);  // signals are the main thread's
  ::pthread_setname_np(::pthread_self(), "troupe-links");
  context_->io.run();
}

void LinkSet::Impl::arm_tick() {
  const std::int64_t period = tick_ms(context_->limits);
  timer_.expires_after(std::chrono::milliseconds(quiet_ ? period * kQuietTicks : period));
  timer_.async_wait([this](const asio::error_code& error) {
    if (error || stopped_) return;
    tick();
    arm_tick();
  });
}

/// Something has begun that has deadlines of its own.
void LinkSet::Impl::hurry() {
  if (!std::exchange(quiet_, false) || stopped_) return;
  arm_tick();
}

void LinkSet::Impl::tick() {
  const std::int64_t now_ms = context_->clock.now_ms();
  note_pauses();
  for (const auto& listener : listeners_) listener->tick(now_ms);
  for (const auto& link : links_) link->tick(now_ms);
  sum_up();
  std::erase_if(links_, [](const auto& link) { return link->is_down(); });
  std::erase_if(accepted_, [](const auto& entry) { return entry.second->is_down(); });
}

void LinkSet::Impl::note_pauses() {
  const base::AwakeClock::Pauses now = context_->clock.pauses();
  if (now.count == pauses_.count) return;
  base::log_warn(
      "[link] this process stood still for {} ms; no peer counts as silent for that time",
      now.total_ms - pauses_.total_ms);
  pauses_ = now;
}

void LinkSet::Impl::sum_up() {
  LinkSetFigures totals;
  totals.own_pauses = pauses_.count;
  for (const auto& link : links_) {
    if (link->is_down()) {
      ended_ += link->stats();  // tick() forgets it next
      ended_.queued_bytes = 0;
    } else {
      totals.stats += link->stats();
      ++totals.links;
    }
  }
  totals.stats += ended_;
  const base::MutexLock lock(totals_mutex_);
  quiet_ =
      totals.links == links_.size() && totals == totals_ &&
      std::all_of(links_.begin(), links_.end(), [](const auto& link) { return link->rests(); });
  totals_ = totals;
}

Status LinkSet::Impl::admit(const Port& port, const Greeted& greeted) {
  const LinkEnd& self = port.self;
  const schemas::Hello& hello = greeted.hello;
  if (hello.protocol != schemas::kProtocolVersion) {
    return base::error(Errc::version_mismatch, "[link] protocol version {} meets version {} of {}",
                       hello.protocol, schemas::kProtocolVersion, self.to_string());
  }
  if (hello.job != self.job || hello.generation != self.generation) {
    return base::error(Errc::failed_precondition,
                       "[link] job '{}' generation {} meets {} of job '{}' generation {}",
                       hello.job, hello.generation, self.to_string(), self.job, self.generation);
  }
  TROUPE_TRY(context_->check_peer(*greeted.connection, end_of(hello)));
  const bool first = hello.lane == 0 && !hello.resume;
  auto link = first ? make(port, greeted) : find(self, greeted);
  TROUPE_TRY(link.status());
  return (*link)->attach(hello.lane, greeted.connection, greeted.acknowledged, greeted.reply);
}

/// A link goes on with the same holder's certificate alone, renewed or not.
Result<std::shared_ptr<LinkCore>> LinkSet::Impl::find(const LinkEnd& self, const Greeted& greeted) {
  const schemas::Hello& hello = greeted.hello;
  const auto it = accepted_.find(hello.token);
  const bool known = it != accepted_.end() && !it->second->is_down() &&
                     it->second->plan().peer.actor == hello.actor &&
                     it->second->plan().holder == holder_of(greeted) &&
                     it->second->plan().lanes == hello.lanes;
  if (known) return it->second;
  return base::error(Errc::not_found,
                     "[link] {} has no link with this peer: it was started anew "
                     "or has given the link up",
                     self.to_string());
}

Result<std::shared_ptr<LinkCore>> LinkSet::Impl::make(const Port& port, const Greeted& greeted) {
  const LinkEnd& self = port.self;
  const schemas::Hello& hello = greeted.hello;
  // A control connection that was cut before its greeting was answered comes again as the first.
  if (auto known = find(self, greeted); known.ok()) return known;
  if (accepted_.count(hello.token) != 0) {
    return base::error(Errc::already_exists, "[link] {} has this link already", self.to_string());
  }
  std::size_t connections = hello.lanes;
  for (const auto& [token, link] : accepted_) connections += link->plan().lanes;
  if (hello.lanes > kLanesMax || connections > context_->limits.connections_max) {
    return base::error(Errc::resource_exhausted,
                       "[link] {} would have {} connections; the limit is {}", self.to_string(),
                       connections, context_->limits.connections_max);
  }
  const auto holder = holder_of(greeted);
  const auto same = std::count_if(accepted_.begin(), accepted_.end(), [&](const auto& entry) {
    return entry.second->plan().holder == holder && !entry.second->is_down();
  });
  if (holder && !port.secret && same >= kLinksOfHolderMax) {
    return base::error(Errc::resource_exhausted, "[link] {} has {} links already",
                       holder->to_string(), same);
  }
  LinkCore::Plan plan{Origin::accepted, self,        end_of(hello), greeted.address,
                      hello.token,      hello.lanes, port.secret,   holder_of(greeted)};
  auto link = std::make_shared<LinkCore>(context_, std::move(plan));
  auto handler = port.acceptor(hello, link);
  if (!handler.ok()) {
    link->go_down(handler.status());
    return handler.status();
  }
  TROUPE_CHECK(*handler != nullptr, "an accepted link without a handler");
  link->set_handler(*std::move(handler));
  links_.push_back(link);
  accepted_.emplace(hello.token, link);
  return link;
}

// ---- the interface ----

LinkSet::LinkSet(const base::Limits& limits, base::BufferPool& pool, std::shared_ptr<const Tls> tls,
                 base::Resolver::LookUp look_up)
    : impl_(std::make_unique<Impl>(limits, pool, std::move(tls), std::move(look_up))) {}

void LinkSet::renew(std::shared_ptr<const Tls> tls) {
  impl_->renew(std::move(tls));
}

void LinkSet::dial_anew() {
  impl_->dial_anew();
}

LinkSet::~LinkSet() = default;

Result<std::shared_ptr<Link>> LinkSet::dial(DialOptions options,
                                            std::shared_ptr<LinkHandler> handler) {
  return impl_->dial(std::move(options), std::move(handler));
}

Result<std::string> LinkSet::listen(const std::string& address, LinkEnd self, Acceptor acceptor,
                                    std::optional<base::Secret> secret,
                                    const base::PortRange& ports) {
  return impl_->listen(address, std::move(self), std::move(acceptor), secret, ports);
}

Result<std::shared_ptr<Link>> LinkSet::adopt(int socket, Greeting greeting, LinkEnd self,
                                             std::shared_ptr<LinkHandler> handler) {
  return impl_->adopt(socket, greeting, std::move(self), std::move(handler));
}

LinkSetFigures LinkSet::totals() const {
  return impl_->totals();
}

void LinkSet::stop() {
  impl_->stop();
}

}  // namespace troupe::link
