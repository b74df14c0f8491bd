// SPDX-License-Identifier: Apache-2.0
// Test support for links: a handler that records what it hears, plain sockets that speak frames by
// hand, and a proxy that cuts or garbles what passes. Every wait has a deadline.
#pragma once

#include <arpa/inet.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "base/address.h"
#include "base/hash.h"
#include "base/secret.h"
#include "link/frame.h"
#include "link/link_set.h"
#include "schemas/codec.h"
#include "tests/support/catch.h"

namespace troupe::link::test {

using base::Errc;
using base::Result;
using base::Status;
using schemas::Envelope;
using schemas::Role;

inline constexpr std::chrono::seconds kWait{20};

/// Host memory, counted.
class CountingPool final : public base::BufferPool {
 public:
  Result<base::Buffer> allocate(std::size_t bytes, std::string_view) override {
    held_ += bytes;
    auto* data = static_cast<std::byte*>(std::aligned_alloc(64, (bytes + 63) / 64 * 64));
    return base::Buffer(data, bytes, {}, [this, data, bytes] {
      std::free(data);
      held_ -= bytes;
    });
  }
  base::Device device() const override { return {}; }
  std::size_t held() const { return held_; }

 private:
  std::atomic<std::size_t> held_{0};
};

/// Records everything; waits until a condition on the record holds.
class Recorder final : public LinkHandler {
 public:
  void on_up() override {
    change([this] { ups += 1; });
  }
  void on_envelope(Envelope envelope) override {
    if (answer) answer(envelope);
    change([&] {
      if (!keeps) envelope.receipt = nullptr;
      envelopes.push_back(std::move(envelope));
    });
  }
  void on_interrupted(const Status& reason) override {
    change([&] { cuts.push_back(reason); });
  }
  void on_resumed() override {
    change([this] { resumes += 1; });
  }
  void on_drained() override {
    change([this] { drains += 1; });
  }
  void on_down(const Status& reason) override {
    change([&] { downs.push_back(reason); });
  }

  template <typename Condition>
  bool wait(Condition condition) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, kWait, condition);
  }
  bool wait_up() {
    return wait([this] { return ups == 1 || !downs.empty(); }) && downs.empty();
  }
  bool wait_envelopes(std::size_t count) {
    return wait([this, count] { return envelopes.size() >= count || !downs.empty(); }) &&
           envelopes.size() >= count;
  }
  /// Gives back the credit for what was kept, and keeps no more.
  void let_go() {
    change([this] {
      keeps = false;
      for (Envelope& envelope : envelopes) envelope.receipt = nullptr;
    });
  }
  Status wait_down() {
    if (!wait([this] { return !downs.empty(); })) return Status(Errc::internal, "never went down");
    return downs.front();
  }

  std::function<void(const Envelope&)> answer;  ///< on the I/O thread, before recording
  bool keeps = false;                           ///< envelopes, with the credit for them
  int ups = 0;
  int resumes = 0;
  int drains = 0;
  std::vector<Envelope> envelopes;
  std::vector<Status> cuts;
  std::vector<Status> downs;

 private:
  template <typename Change>
  void change(Change make) {
    {
      std::lock_guard lock(mutex_);
      make();
    }
    changed_.notify_all();
  }
  std::mutex mutex_;
  std::condition_variable changed_;
};

/// Short deadlines; tests must not depend on them being met early.
inline base::Limits quick_limits() {
  base::Limits limits;
  limits.ping_ms = 50;
  limits.silence_dead_ms = 10'000;
  limits.progress_ms = 5'000;
  limits.handshake_ms = 3'000;
  limits.retry_first_ms = 5;
  limits.retry_most_ms = 50;
  return limits;
}

inline LinkEnd server_end() {
  return {{Role::parameter_server, 1}, "beta", "job-1", 3};
}
inline LinkEnd worker_end() {
  return {{Role::device_server, 2}, "alpha", "job-1", 3};
}

/// A listening process: all its links share one recorder.
struct Server {
  explicit Server(const base::Limits& limits = quick_limits(),
                  std::optional<base::Secret> secret = std::nullopt,
                  std::shared_ptr<const Tls> tls = nullptr, const LinkEnd& self = server_end(),
                  const std::string& at = "127.0.0.1:0",
                  base::Resolver::LookUp look_up = base::look_up)
      : links(limits, pool, std::move(tls), std::move(look_up)) {
    const auto bound = links.listen(
        at, self,
        [this](const schemas::Hello&, const std::shared_ptr<Link>& l) {
          link = l;
          return Result<std::shared_ptr<LinkHandler>>(recorder);
        },
        secret);
    REQUIRE(bound.ok());
    address = *bound;
  }
  CountingPool pool;
  std::shared_ptr<Recorder> recorder = std::make_shared<Recorder>();
  std::shared_ptr<Link> link;  ///< the last accepted one; read after on_up
  std::string address;
  LinkSet links;
};

/// A dialing process.
struct Client {
  explicit Client(const base::Limits& limits = quick_limits(),
                  std::shared_ptr<const Tls> tls = nullptr,
                  base::Resolver::LookUp look_up = base::look_up)
      : links(limits, pool, std::move(tls), std::move(look_up)) {}
  Status dial(const std::string& address, std::uint32_t data = 1, std::uint64_t wait_ms = 0) {
    DialOptions options;
    options.address = address;
    options.self = self;
    options.peer = peer;
    options.data_connections = data;
    options.wait_ms = wait_ms;
    options.secret = secret;
    auto made = links.dial(std::move(options), recorder);
    if (made.ok()) link = *made;
    return made.status();
  }
  LinkEnd self = worker_end();
  LinkEnd peer = server_end();
  std::optional<base::Secret> secret;
  CountingPool pool;
  std::shared_ptr<Recorder> recorder = std::make_shared<Recorder>();
  std::shared_ptr<Link> link;
  LinkSet links;
};

/// A push of slice `slice` with `bytes` bytes derived from `step`.
inline Envelope push_of(std::uint32_t slice, std::uint64_t step, std::size_t bytes) {
  Envelope envelope;
  envelope.job = "job-1";
  envelope.generation = 3;
  envelope.view = 1;
  envelope.from = worker_end().actor;
  envelope.to = server_end().actor;
  schemas::GradientPush push;
  push.slice = {0, slice};
  push.step = step;
  push.count = 1.0;
  envelope.message = push;
  envelope.payload = base::make_host_buffer(bytes);
  for (std::size_t i = 0; i < bytes; ++i) {
    envelope.payload.data()[i] = static_cast<std::byte>(i * 31 + step);
  }
  return envelope;
}

inline bool same_bytes(const base::Buffer& a, const base::Buffer& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size()) == 0;
}

inline std::uint64_t step_of(const Envelope& envelope) {
  return std::get<schemas::GradientPush>(envelope.message).step;
}

// ---- plain sockets ----

/// A blocking TCP socket over loopback.
class Plain {
 public:
  Plain() = default;
  explicit Plain(int fd) : fd_(fd) {}
  Plain(Plain&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Plain& operator=(Plain&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~Plain() { close(); }
  void close() {
    if (fd_ >= 0) ::close(fd_);
    fd_ = -1;
  }
  /// Invalid when nobody listens there. Any thread; connect() asserts, on the test's own.
  static Plain try_connect(const std::string& address) {
    Plain socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    const sockaddr_in to = place(base::parse_address(address)->port);
    const auto* name = reinterpret_cast<const sockaddr*>(&to);
    if (::connect(socket.fd_, name, sizeof to) != 0) socket.close();
    return socket;
  }
  static Plain connect(const std::string& address) {
    Plain socket = try_connect(address);
    REQUIRE(socket.valid());
    return socket;
  }
  /// As another host, by a number of the loopback.
  static Plain connect_from(const char* host, const std::string& address) {
    Plain socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in from = place(0);
    REQUIRE(::inet_pton(AF_INET, host, &from.sin_addr) == 1);
    REQUIRE(::bind(socket.fd_, reinterpret_cast<const sockaddr*>(&from), sizeof from) == 0);
    const sockaddr_in to = place(base::parse_address(address)->port);
    REQUIRE(::connect(socket.fd_, reinterpret_cast<const sockaddr*>(&to), sizeof to) == 0);
    return socket;
  }
  /// A listening socket on a free port.
  static Plain listen(std::string& address) {
    const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in at = place(0);
    socklen_t size = sizeof at;
    REQUIRE(::bind(fd, reinterpret_cast<const sockaddr*>(&at), sizeof at) == 0);
    REQUIRE(::listen(fd, 128) == 0);
    REQUIRE(::getsockname(fd, reinterpret_cast<sockaddr*>(&at), &size) == 0);
    address = "127.0.0.1:" + std::to_string(ntohs(at.sin_port));
    return Plain(fd);
  }
  /// The next connection within the deadline; invalid when none came.
  Plain accept(int wait_ms = 20'000) const {
    if (!readable(wait_ms)) return {};
    return Plain(::accept(fd_, nullptr, nullptr));
  }
  bool valid() const { return fd_ >= 0; }
  int fd() const { return fd_; }
  bool readable(int wait_ms) const {
    pollfd ready{fd_, POLLIN, 0};
    return ::poll(&ready, 1, wait_ms) == 1;
  }
  bool send(std::string_view bytes) const {
    while (!bytes.empty()) {
      const auto sent = ::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (sent <= 0) return false;
      bytes.remove_prefix(static_cast<std::size_t>(sent));
    }
    return true;
  }
  /// Reads up to `count` bytes; fewer at the end of the stream or after the deadline.
  std::string read(std::size_t count) const {
    std::string bytes;
    while (bytes.size() < count && readable(20'000)) {
      char piece[4096];
      const auto got = ::recv(fd_, piece, std::min(sizeof piece, count - bytes.size()), 0);
      if (got <= 0) break;
      bytes.append(piece, static_cast<std::size_t>(got));
    }
    return bytes;
  }
  /// True when the peer closes within the deadline.
  bool closed_by_peer() const { return readable(20'000) && read(1 << 20).size() < (1 << 20); }

 private:
  static sockaddr_in place(std::uint16_t port) {
    sockaddr_in at{};
    at.sin_family = AF_INET;
    at.sin_port = htons(port);
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    return at;
  }
  int fd_ = -1;
};

/// A frame as bytes, with this protocol version in its head.
inline std::string frame_bytes(const Envelope& envelope, std::uint64_t sequence,
                               std::uint16_t version = schemas::kProtocolVersion) {
  const std::string header = schemas::encode_envelope(envelope).value();
  FrameHead head;
  head.version = version;
  head.type = static_cast<std::uint16_t>(envelope.message.index());
  head.job_hash = base::hash64(envelope.job);
  head.generation = envelope.generation;
  head.view = envelope.view;
  head.sequence = sequence;
  head.header_bytes = static_cast<std::uint32_t>(header.size());
  head.payload_bytes = static_cast<std::uint32_t>(envelope.payload.size());
  head.payload_checksum = base::crc32c({envelope.payload.data(), envelope.payload.size()});
  const auto bytes = encode_frame_head(head, std::as_bytes(std::span(header)));
  return std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size()) + header +
         std::string(reinterpret_cast<const char*>(envelope.payload.data()),
                     envelope.payload.size());
}

/// A Hello of worker_end() for the control connection of a link with `lanes` connections.
inline Envelope hello_of(std::uint64_t token, std::uint32_t lanes = 1) {
  Envelope envelope;
  envelope.job = "job-1";
  envelope.generation = 3;
  schemas::Hello hello;
  hello.job = "job-1";
  hello.generation = 3;
  hello.actor = worker_end().actor;
  hello.token = token;
  hello.lanes = lanes;
  envelope.message = hello;
  return envelope;
}

/// The envelope of the next frame that a plain socket receives; an error when it closes.
inline Result<Envelope> next_frame(const Plain& socket) {
  const std::string head = socket.read(kFrameHeadBytes);
  if (head.size() < kFrameHeadBytes) return Status(Errc::unavailable, "closed");
  std::uint32_t header_bytes = 0;
  std::uint32_t payload_bytes = 0;
  std::memcpy(&header_bytes, head.data() + 48, 4);
  std::memcpy(&payload_bytes, head.data() + 52, 4);
  const std::string header = socket.read(header_bytes);
  socket.read(payload_bytes);
  if (header.empty()) return Envelope{};
  return schemas::decode_envelope(std::as_bytes(std::span(header)));
}

/// Passes connections on to `target`. Each connection in turn asks `plan` for what to do: after how
/// many bytes towards the target to strike, and whether to flip a bit there instead of cutting.
/// `bytes_per_ms`: of all connections together, both ways; 0: as fast as it can.
class Proxy {
 public:
  struct Blow {
    std::size_t after = ~std::size_t{0};
    bool flip = false;
  };
  Proxy(std::string target, std::function<Blow(int connection)> plan, std::size_t bytes_per_ms = 0)
      : target_(std::move(target)),
        plan_(std::move(plan)),
        bytes_per_ms_(bytes_per_ms),
        listener_(Plain::listen(address_)) {
    thread_ = std::thread([this] { run(); });
  }
  ~Proxy() {
    stop_ = true;
    thread_.join();
  }
  const std::string& address() const { return address_; }

 private:
  struct Pair {
    Plain near;
    Plain far;
    Blow blow;
    std::size_t passed = 0;
  };

  void run() {
    std::vector<Pair> pairs;
    int count = 0;
    while (!stop_) {
      std::vector<pollfd> ready{{listener_.fd(), POLLIN, 0}};
      for (const Pair& pair : pairs) {
        ready.push_back({pair.near.fd(), POLLIN, 0});
        ready.push_back({pair.far.fd(), POLLIN, 0});
      }
      ::poll(ready.data(), ready.size(), 20);
      for (std::size_t i = pairs.size(); i-- > 0;) {
        const bool up = ready[1 + 2 * i].revents != 0;
        const bool down = ready[2 + 2 * i].revents != 0;
        if ((up && !pass_up(pairs[i])) || (down && !pass_down(pairs[i]))) {
          pairs.erase(pairs.begin() + static_cast<std::ptrdiff_t>(i));
        }
      }
      if (ready[0].revents != 0) {
        Plain near = listener_.accept();
        Plain far = Plain::try_connect(target_);
        const Blow blow = plan_(count++);
        if (far.valid()) pairs.push_back({std::move(near), std::move(far), blow, 0});
      }
    }
  }
  /// False: this connection ends here; so below.
  bool pass_down(const Pair& pair) const {
    char bytes[65'536];
    const auto got = ::recv(pair.far.fd(), bytes, sizeof bytes, 0);
    if (got <= 0) return false;
    take_time(static_cast<std::size_t>(got));
    return pair.near.send({bytes, static_cast<std::size_t>(got)});
  }
  void take_time(std::size_t bytes) const {
    if (bytes_per_ms_ == 0) return;
    std::this_thread::sleep_for(std::chrono::microseconds(1'000 * bytes / bytes_per_ms_));
  }
  bool pass_up(Pair& pair) const {
    char bytes[65'536];
    const auto got = ::recv(pair.near.fd(), bytes, sizeof bytes, 0);
    if (got <= 0) return false;
    auto count = static_cast<std::size_t>(got);
    const bool strikes = pair.passed <= pair.blow.after && pair.blow.after < pair.passed + count;
    if (strikes && pair.blow.flip) bytes[pair.blow.after - pair.passed] ^= 4;
    if (strikes && !pair.blow.flip) count = pair.blow.after - pair.passed;
    pair.passed += count;
    take_time(count);
    return pair.far.send({bytes, count}) && !(strikes && !pair.blow.flip);
  }

  std::string target_;
  std::function<Blow(int)> plan_;
  std::size_t bytes_per_ms_;
  std::string address_;
  Plain listener_;
  std::atomic<bool> stop_{false};
  std::thread thread_;
};

}  // namespace troupe::link::test
