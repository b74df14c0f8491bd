// SPDX-License-Identifier: Apache-2.0
// The endpoint's two threads. The socket thread polls all sockets, reads heads, writes answers and
// keeps deadlines; the handler thread turns heads into answers. They exchange bytes by connection
// number, so a connection may vanish at any time.
#include "http/server.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <poll.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <deque>
#include <map>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/crowd.h"
#include "base/log.h"
#include "base/mutex.h"
#include "http/listener.h"
#include "http/peer.h"

namespace troupe::http {
namespace {

constexpr std::size_t kHeadBytesMax = 8'192;
/// Answers that their peers have not read yet, all together; a page beyond them is a 503.
constexpr std::size_t kAnswerBytesMax = 67'108'864;
constexpr std::int64_t kPollMostMs = 1'000;
constexpr std::int64_t kAcceptPauseMs = 100;
/// Peers of a port that are accepted before those that are there are read from again.
constexpr int kAcceptsOfTurn = 16;

constexpr std::string_view kHealthyPage =
    "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Type: text/plain\r\n"
    "Content-Length: 3\r\n\r\nok\n";
constexpr std::string_view kSlowPage =
    "HTTP/1.1 408 Request Timeout\r\nConnection: close\r\nContent-Length: 0\r\n\r\n";
constexpr std::string_view kSecretPage =
    "HTTP/1.1 401 Unauthorized\r\nConnection: close\r\nWWW-Authenticate: Bearer\r\n"
    "Content-Length: 0\r\n\r\n";
constexpr std::string_view kLargePage =
    "HTTP/1.1 431 Request Header Fields Too Large\r\nConnection: close\r\n"
    "Content-Length: 0\r\n\r\n";
constexpr std::string_view kBusyPage =
    "HTTP/1.1 503 Service Unavailable\r\nConnection: close\r\nContent-Length: 0\r\n\r\n";

enum class Stage : std::uint8_t { reading, answering, writing, closing };

/// One peer. Owned by the socket thread.
struct Connection {
  Connection(Channel c, std::string p, std::string host)
      : channel(std::move(c)), peer(std::move(p)), crowd(std::move(host)) {}
  Channel channel;
  std::string peer;  ///< its address
  std::string crowd;
  Stage stage = Stage::reading;
  std::string bytes;  ///< the head so far; when writing the answer
  std::size_t sent = 0;
  std::int64_t deadline_ms = 0;
  std::uint64_t scrape = 0;  ///< number of the /metrics answer in `bytes`; 0: another answer
  /// The least gives way first: who says nothing, who has its answer, who is still asking, who
  /// reads its answer.
  std::uint64_t weight() const {
    if (stage == Stage::closing) return 1;
    if (stage == Stage::writing) return 3;
    return channel.heard() ? 2 : 0;
  }
};

/// Bytes on their way between the two threads.
struct Parcel {
  std::uint64_t connection = 0;
  std::string bytes;
  std::uint64_t scrape = 0;
};

/// Counts answers; each thread has its own.
class RequestMetrics {
 public:
  explicit RequestMetrics(monitoring::Metrics& metrics) : metrics_(metrics) {}
  void count(const std::string& route, int status) {
    const std::string code = std::to_string(status);
    const auto [it, fresh] = counters_.try_emplace({route, code}, nullptr);
    if (fresh) {
      it->second =
          &metrics_.counter(monitoring::family("troupe_http_requests_total"), {route, code});
    }
    it->second->add();
  }
  void time(const std::string& route, double seconds) {
    const auto [it, fresh] = histograms_.try_emplace(route, nullptr);
    if (fresh) {
      it->second = &metrics_.histogram(monitoring::family("troupe_http_request_seconds"), {route});
    }
    it->second->observe(seconds);
  }

 private:
  monitoring::Metrics& metrics_;
  std::map<std::pair<std::string, std::string>, monitoring::Counter*> counters_;
  std::map<std::string, monitoring::Histogram*> histograms_;
};

/// What to log about a peer that was answered so; empty: nothing.
std::string_view fault_of(int status) {
  switch (status) {
    case 400:
      return "what it sent is no HTTP request";
    case 401:
      return "it shows no token, or a wrong one";
    case 408:
      return "no whole request head came in time";
    case 431:
      return "its request head is too long";
    default:
      return "";
  }
}

/// True when the head asks for /healthz.
bool asks_health(const std::string& head) {
  return head.rfind("GET /healthz ", 0) == 0 || head.rfind("GET /healthz?", 0) == 0;
}

}  // namespace

class Server::Impl {
 public:
  Impl(Listener listener, const base::Limits& limits, monitoring::Metrics& metrics, Options options)
      : listener_(std::move(listener)),
        limits_(limits),
        metrics_(metrics),
        guard_(std::move(options.guard)),
        router_(with_metrics(std::move(options.routes))),
        socket_counts_(metrics),
        wake_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
    TROUPE_CHECK(wake_ >= 0, "no eventfd for the HTTP endpoint");
    sockets_ = std::thread([this] { serve(); });
    try {
      handlers_ = std::thread([this] { handle(); });
    } catch (...) {
      // No thread is left. The other one must end first: std::thread would end the program in its
      // place, without the reason.
      end_sockets();
      close(wake_);
      throw;
    }
  }

  ~Impl() {
    end_sockets();
    {
      base::MutexLock lock(mutex_);
      handlers_may_end_ = true;
    }
    changed_.notify_all();
    handlers_.join();
    close(wake_);
  }

  const base::Address& address() const { return listener_.address(); }

  Scraped wait_scraped(std::uint64_t deadline_ms, const std::function<bool()>& give_up) {
    constexpr std::uint64_t kLookMs = 500;
    base::MutexLock lock(mutex_);
    const std::uint64_t wanted = scrapes_begun_ + 1;
    // By the clock: on a busy machine a pause is longer than what was asked for.
    const std::int64_t end_ms = clock_.now_ms() + static_cast<std::int64_t>(deadline_ms);
    while (!give_up()) {
      const auto left_ms =
          static_cast<std::uint64_t>(std::max<std::int64_t>(end_ms - clock_.now_ms(), 0));
      const std::uint64_t pause_ms = std::min(left_ms, kLookMs);
      if (changed_.wait_for(mutex_, std::chrono::milliseconds(pause_ms),
                            [&]() TROUPE_REQUIRES(mutex_) { return scrapes_sent_ >= wanted; })) {
        return Scraped::yes;
      }
      if (left_ms == 0) return Scraped::late;
    }
    return Scraped::given_up;
  }

 private:
  void end_sockets() {
    {
      base::MutexLock lock(mutex_);
      stopping_ = true;
    }
    wake();
    sockets_.join();
  }

  // ---- handler thread ----

  Routes with_metrics(Routes routes) {
    routes["/metrics"] = [this](const Request&) {
      return Reply{200, "text/plain; version=0.0.4; charset=utf-8", metrics_.exposition()};
    };
    return routes;
  }

  void handle() {
    RequestMetrics counts(metrics_);
    for (Parcel parcel; take_request(parcel);) {
      const std::string route = router_.route(parcel.bytes);
      // Only who gets the figures has scraped them: no HEAD, and nobody who is turned away.
      if (route == "/metrics" && parcel.bytes.starts_with("GET ")) parcel.scrape = next_scrape();
      const auto begin = clock_.now_ns();
      parcel.bytes = router_.answer(parcel.bytes);
      counts.time(route, static_cast<double>(clock_.now_ns() - begin) * 1e-9);
      const int status = status_of(parcel.bytes);
      constexpr int kOk = 200;
      if (status != kOk) parcel.scrape = 0;
      counts.count(route, status);
      {
        base::MutexLock lock(mutex_);
        answers_.push_back(std::move(parcel));
      }
      wake();
    }
  }

  bool take_request(Parcel& parcel) {
    base::MutexLock lock(mutex_);
    changed_.wait(
        mutex_, [&]() TROUPE_REQUIRES(mutex_) { return handlers_may_end_ || !requests_.empty(); });
    if (requests_.empty()) return false;
    parcel = std::move(requests_.front());
    requests_.pop_front();
    return true;
  }

  std::uint64_t next_scrape() {
    base::MutexLock lock(mutex_);
    return ++scrapes_begun_;
  }

  // ---- socket thread ----

  void serve() {
    // OpenSSL writes to sockets whose peer may have gone.
    sigset_t broken;
    sigemptyset(&broken);
    sigaddset(&broken, SIGPIPE);
    pthread_sigmask(SIG_BLOCK, &broken, nullptr);
    std::int64_t stop_deadline_ms = 0;
    for (;;) {
      wait_for_sockets();
      take_answers();
      expire();
      if (!stopping()) {
        accept_peers();
        continue;
      }
      listener_.close();
      if (stop_deadline_ms == 0) stop_deadline_ms = now_ms() + request_ms();
      drop_if([](const Connection& c) { return c.stage == Stage::reading; });
      if (connections_.empty() || now_ms() >= stop_deadline_ms) break;
    }
    drop_if([](const Connection&) { return true; });
  }

  /// Polls, and lets every ready connection make one step.
  void wait_for_sockets() {
    std::vector<pollfd> polled = {{wake_, POLLIN, 0}};
    std::vector<std::uint64_t> numbers = {0};
    const bool accepting = !listener_.descriptors().empty() && now_ms() >= accept_after_ms_;
    std::int64_t deadline = now_ms() + (accepting ? kPollMostMs : kAcceptPauseMs);
    for (const auto& [number, c] : connections_) {
      if (c.stage != Stage::answering) deadline = std::min(deadline, c.deadline_ms);
      const short events = c.stage == Stage::answering ? short{0}
                           : c.stage == Stage::writing ? c.channel.send_events()
                                                       : c.channel.receive_events();
      polled.push_back({c.channel.descriptor(), events, 0});
      numbers.push_back(number);
    }
    if (accepting) {
      for (const int descriptor : listener_.descriptors()) {
        polled.push_back({descriptor, POLLIN, 0});
      }
    }
    const auto timeout = std::max<std::int64_t>(0, deadline - now_ms());
    if (poll(polled.data(), polled.size(), static_cast<int>(timeout)) <= 0) return;
    std::uint64_t ignored = 0;
    if (polled[0].revents != 0) (void)!read(wake_, &ignored, sizeof ignored);
    for (std::size_t i = 1; i < numbers.size(); ++i) {
      if (polled[i].revents != 0) step(numbers[i]);
    }
  }

  void step(std::uint64_t number) {
    const auto it = connections_.find(number);
    if (it == connections_.end()) return;
    bool alive = true;
    switch (it->second.stage) {
      case Stage::reading:
        alive = read_head(number, it->second);
        break;
      case Stage::answering:
        alive = false;  // polled for nothing: only an error or hang-up wakes it
        break;
      case Stage::writing:
        alive = write_answer(it->second);
        break;
      case Stage::closing:
        alive = discard_input(it->second);
        break;
    }
    if (!alive) drop(it);
  }

  /// Reads what is there; false when the peer has gone.
  bool read_head(std::uint64_t number, Connection& c) {
    char buffer[4096];
    // To its end: what TLS has read already wakes nobody. Each turn takes at least a byte of a head
    // that is bounded; records without one end it.
    while (c.stage == Stage::reading) {
      const Channel::Moved moved = c.channel.receive(buffer);
      if (moved.progress == Channel::Progress::later) return true;
      if (moved.progress == Channel::Progress::ended) return note_fault(c);
      c.bytes.append(buffer, moved.bytes);
      const std::size_t end = c.bytes.find("\r\n\r\n");
      if (end != std::string::npos) {
        c.bytes.resize(end + 4);
        answer(number, c);
      } else if (c.bytes.size() > kHeadBytesMax) {
        answer_here(c, kLargePage, "other");
      }
    }
    return true;
  }

  /// False, after what was wrong with TLS has been told.
  bool note_fault(const Connection& c) {
    if (c.channel.fault().empty()) return false;
    log_.warn(now_ms(), fmt::format("HTTPS on {} turned away {}: {}",
                                    listener_.address().to_string(), c.peer, c.channel.fault()));
    return false;
  }

  void answer(std::uint64_t number, Connection& c) {
    if (asks_health(c.bytes)) {
      answer_here(c, kHealthyPage, "/healthz");
    } else if (!guard_.admits(c.bytes)) {
      answer_here(c, kSecretPage, "other");
    } else if (!hand_over(number, c)) {
      answer_here(c, kBusyPage, "other");
    }
  }

  /// Gives the head to the handler thread; false when too many wait for it. A quarter of the places
  /// is left for those who ask: nobody whose answer is being made gives way.
  bool hand_over(std::uint64_t number, Connection& c) {
    const auto waiting = static_cast<std::uint64_t>(
        std::count_if(connections_.begin(), connections_.end(),
                      [](const auto& entry) { return entry.second.stage == Stage::answering; }));
    if (waiting >= limits_.http_connections_max - limits_.http_connections_max / 4) return false;
    {
      base::MutexLock lock(mutex_);
      if (requests_.size() >= limits_.http_connections_max) return false;
      requests_.push_back({number, std::move(c.bytes), 0});
    }
    c.stage = Stage::answering;
    changed_.notify_all();
    return true;
  }

  void answer_here(Connection& c, std::string_view page, const std::string& route) {
    const std::string bytes(page);
    socket_counts_.count(route, status_of(bytes));
    begin_writing(c, bytes, 0);
  }

  void begin_writing(Connection& c, std::string bytes, std::uint64_t scrape) {
    c.stage = Stage::writing;
    c.bytes = std::move(bytes);
    c.scrape = scrape;
    c.deadline_ms = now_ms() + request_ms();
    const int status = status_of(c.bytes);
    const std::string_view fault = fault_of(status);
    if (fault.empty()) return;
    log_.warn(now_ms(), fmt::format("HTTP on {} answered {} with {}: {}",
                                    listener_.address().to_string(), c.peer, status, fault));
  }

  bool write_answer(Connection& c) {
    const Channel::Moved moved = c.channel.send(std::string_view(c.bytes).substr(c.sent));
    if (moved.progress == Channel::Progress::later) return true;
    if (moved.progress == Channel::Progress::ended) return note_fault(c);
    c.sent += moved.bytes;
    c.deadline_ms = now_ms() + request_ms();
    if (c.sent < c.bytes.size()) return true;
    if (c.scrape != 0) note_scrape(c.scrape);
    // Closing at once could reset the connection and cost the peer the answer's tail.
    c.channel.finish();
    c.stage = Stage::closing;
    c.bytes = {};
    return true;
  }

  static bool discard_input(const Connection& c) {
    char buffer[4096];
    const ssize_t count = recv(c.channel.descriptor(), buffer, sizeof buffer, MSG_DONTWAIT);
    return count > 0 || (count < 0 && (errno == EAGAIN || errno == EINTR));
  }

  void note_scrape(std::uint64_t number) {
    {
      base::MutexLock lock(mutex_);
      scrapes_sent_ = std::max(scrapes_sent_, number);
    }
    changed_.notify_all();
  }

  void take_answers() {
    std::deque<Parcel> answers;
    {
      base::MutexLock lock(mutex_);
      answers.swap(answers_);
    }
    for (Parcel& parcel : answers) {
      const auto it = connections_.find(parcel.connection);
      if (it == connections_.end()) continue;
      if (unread_bytes() + parcel.bytes.size() > kAnswerBytesMax) {
        answer_here(it->second, kBusyPage, "other");
      } else {
        begin_writing(it->second, std::move(parcel.bytes), parcel.scrape);
      }
    }
  }

  std::size_t unread_bytes() const {
    std::size_t bytes = 0;
    for (const auto& [number, c] : connections_) {
      if (c.stage == Stage::writing) bytes += c.bytes.size();
    }
    return bytes;
  }

  void expire() {
    const std::int64_t now = now_ms();
    for (auto& [number, c] : connections_) {
      if (c.stage != Stage::reading || now < c.deadline_ms) continue;
      if (c.channel.greeted()) {
        answer_here(c, kSlowPage, "other");
      } else {
        log_.warn(now, fmt::format("HTTPS on {} turned away {}: no whole greeting of TLS in time",
                                   listener_.address().to_string(), c.peer));
      }
    }
    drop_if(
        [&](const Connection& c) { return c.stage != Stage::answering && now >= c.deadline_ms; });
  }

  void accept_peers() {
    for (const int descriptor : listener_.descriptors()) accept_from(descriptor);
  }

  /// One gives way whose answer is not just being made. False: all are.
  bool make_room() {
    if (connections_.size() < limits_.http_connections_max) return true;
    std::vector<base::Waiting> waiting;  // the oldest first, as numbers grow
    std::vector<std::uint64_t> numbers;
    for (const auto& [number, c] : connections_) {
      if (c.stage == Stage::answering) continue;
      waiting.push_back({c.crowd, c.weight()});
      numbers.push_back(number);
    }
    const auto victim = base::who_gives_way(waiting, limits_.http_connections_max);
    if (!victim) return false;
    drop(connections_.find(numbers[*victim]));
    return true;
  }

  /// Bounded, so that what has been accepted is read before it could have to give way.
  void accept_from(int listening) {
    for (int i = 0; i < kAcceptsOfTurn && now_ms() >= accept_after_ms_; ++i) {
      sockaddr_storage name{};
      socklen_t size = sizeof name;
      const int descriptor = accept4(listening, reinterpret_cast<sockaddr*>(&name), &size,
                                     SOCK_CLOEXEC | SOCK_NONBLOCK);
      if (descriptor < 0) {
        // Out of descriptors the listener stays readable: pause instead of spinning.
        if (errno != EAGAIN && errno != EINTR && errno != ECONNABORTED) {
          accept_after_ms_ = now_ms() + kAcceptPauseMs;
        }
        return;
      }
      Channel channel(descriptor, guard_.tls);
      if (!make_room()) continue;
      const std::string peer = address_text(name, size);
      const auto it = connections_
                          .try_emplace(++last_number_, std::move(channel), peer,
                                       base::crowd_of(peer.substr(0, peer.rfind(':'))))
                          .first;
      it->second.deadline_ms = now_ms() + request_ms();
      if (!read_head(it->first, it->second)) drop(it);
    }
  }

  using Connections = std::map<std::uint64_t, Connection>;

  /// Nobody waits for its answer any more: its place among the requests is free.
  Connections::iterator drop(Connections::iterator it) {
    if (it->second.stage == Stage::answering) {
      base::MutexLock lock(mutex_);
      std::erase_if(requests_,
                    [&](const Parcel& parcel) { return parcel.connection == it->first; });
    }
    return connections_.erase(it);
  }

  template <typename Predicate>
  void drop_if(Predicate predicate) {
    for (auto it = connections_.begin(); it != connections_.end();) {
      it = predicate(it->second) ? drop(it) : std::next(it);
    }
  }

  // ---- both ----

  bool stopping() {
    base::MutexLock lock(mutex_);
    return stopping_;
  }
  std::int64_t now_ms() const { return clock_.now_ms(); }
  std::int64_t request_ms() const { return static_cast<std::int64_t>(limits_.http_request_ms); }
  void wake() {
    const std::uint64_t one = 1;
    (void)!write(wake_, &one, sizeof one);
  }

  Listener listener_;
  const base::Limits limits_;
  const base::SteadyClock clock_;
  monitoring::Metrics& metrics_;
  const Guard guard_;
  Router router_;
  RequestMetrics socket_counts_;
  const int wake_;

  Connections connections_;  // the socket thread's
  std::uint64_t last_number_ = 0;
  std::int64_t accept_after_ms_ = 0;
  base::LogBudget log_;

  base::Mutex mutex_;
  base::CondVar changed_;
  std::deque<Parcel> requests_ TROUPE_GUARDED_BY(mutex_);
  std::deque<Parcel> answers_ TROUPE_GUARDED_BY(mutex_);
  std::uint64_t scrapes_begun_ TROUPE_GUARDED_BY(mutex_) = 0;
  std::uint64_t scrapes_sent_ TROUPE_GUARDED_BY(mutex_) = 0;
  bool stopping_ TROUPE_GUARDED_BY(mutex_) = false;
  bool handlers_may_end_ TROUPE_GUARDED_BY(mutex_) = false;

  std::thread sockets_;
  std::thread handlers_;
};

base::Result<std::unique_ptr<Server>> Server::start(const base::Address& address,
                                                    const base::Limits& limits,
                                                    monitoring::Metrics& metrics, Options options) {
  TROUPE_TRY_ASSIGN(Listener listener, Listener::open(address, options.ports, limits.resolve_ms));
  auto impl = std::make_unique<Impl>(std::move(listener), limits, metrics, std::move(options));
  return std::unique_ptr<Server>(new Server(std::move(impl)));
}

Server::Server(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Server::~Server() = default;

const base::Address& Server::address() const {
  return impl_->address();
}

Server::Scraped Server::wait_scraped(std::uint64_t deadline_ms,
                                     const std::function<bool()>& give_up) {
  return impl_->wait_scraped(deadline_ms, give_up);
}

}  // namespace troupe::http
