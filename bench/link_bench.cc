// SPDX-License-Identifier: Apache-2.0
// A link beside a raw socket over loopback in the same run: throughput of messages of 4 KiB to
// 64 MiB (cut into frames of 1 MiB), and the round trip of a small one; plain, and under TLS beside
// OpenSSL on a blocking socket; and many greetings at once. Plain links have checksums.
#include <arpa/inet.h>
#include <benchmark/benchmark.h>
#include <netinet/tcp.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <optional>
#include <thread>
#include <vector>

#include "base/mutex.h"
#include "link/link_set.h"
#include "storage/storage.h"

namespace troupe::cluster {
namespace {

constexpr std::size_t kPiece = 1 << 20;

/// Counts what comes; answers each envelope where `echo` is set.
class Counter final : public link::LinkHandler {
 public:
  void on_envelope(schemas::Envelope envelope) override {
    if (echo) static_cast<void>(echo->send(std::move(envelope)).ok());
    const base::MutexLock lock(mutex_);
    if (++count_ == wanted_) changed_.notify_one();
  }
  void on_down(const base::Status&) override {}
  /// False when `more` envelopes do not come within a minute.
  bool wait_for(std::uint64_t more) {
    const base::MutexLock lock(mutex_);
    wanted_ = more;
    const bool came =
        changed_.wait_for(mutex_, std::chrono::minutes(1),
                          [this]() TROUPE_REQUIRES(mutex_) { return count_ >= wanted_; });
    count_ -= came ? wanted_ : 0;
    wanted_ = ~std::uint64_t{0};
    return came;
  }
  std::shared_ptr<link::Link> echo;

 private:
  base::Mutex mutex_;
  base::CondVar changed_;
  std::uint64_t count_ TROUPE_GUARDED_BY(mutex_) = 0;
  std::uint64_t wanted_ TROUPE_GUARDED_BY(mutex_) = ~std::uint64_t{0};
};

/// Of a process of the job "bench" on the machine `name`; one authority for the program.
trust::Credentials credentials(const std::string& name) {
  constexpr trust::Validity kLong{0, 4'000'000'000};
  static const auto authority = trust::make_authority("bench", kLong).value();
  trust::Credentials agent;
  agent.own =
      trust::make_certificate({"bench", trust::Role::agent, name}, kLong, authority).value();
  agent.info = trust::read_certificate(agent.own.certificate).value();
  agent.authority = authority.certificate;
  const auto who = trust::process_identity(agent.info.identity, "bench", 1);
  return trust::delegate(agent, who, kLong).value();
}

std::shared_ptr<const link::Tls> tls(bool wanted, const std::string& name = "a") {
  return wanted ? link::Tls::create(credentials(name)).value() : nullptr;
}

/// Two ends of a link in one process, each with its own thread and pool.
struct Pair {
  explicit Pair(bool echo, bool secured = false)
      : server(limits, server_memory.pool({}), tls(secured)),
        client(limits, client_memory.pool({}), tls(secured)) {
    const link::LinkEnd end{{schemas::Role::parameter_server, 0}, "a", "bench", 1};
    const auto address = server.listen(
        "127.0.0.1:0", end, [this, echo](const auto&, const std::shared_ptr<link::Link>& accepted) {
          if (echo) there->echo = accepted;
          return base::Result<std::shared_ptr<link::LinkHandler>>(there);
        });
    link = client.dial({*address, end, end, 1, 0}, here).value();
  }
  base::Limits limits;
  storage::Storage server_memory;
  storage::Storage client_memory;
  std::shared_ptr<Counter> here = std::make_shared<Counter>();
  std::shared_ptr<Counter> there = std::make_shared<Counter>();
  link::LinkSet server;
  link::LinkSet client;
  std::shared_ptr<link::Link> link;
};

schemas::Envelope push_of(std::uint32_t slice, base::Buffer payload) {
  schemas::Envelope envelope;
  envelope.job = "bench";
  envelope.generation = 1;
  schemas::GradientPush push;
  push.slice = {0, slice};
  envelope.message = push;
  envelope.payload = std::move(payload);
  return envelope;
}

void throughput(benchmark::State& state, bool secured) {
  Pair pair(false, secured);
  const auto bytes = static_cast<std::size_t>(state.range(0));
  const std::size_t piece = std::min(bytes, kPiece);
  const auto pieces = static_cast<std::uint32_t>(bytes / piece);
  const base::Buffer payload = base::make_host_buffer(bytes);
  for (auto unused : state) {
    static_cast<void>(unused);
    for (std::uint32_t i = 0; i < pieces; ++i) {
      const auto sent = pair.link->send(push_of(i, payload.slice(i * piece, piece)));
      if (!sent.ok()) return state.SkipWithError(sent.text().c_str());
    }
    if (!pair.there->wait_for(pieces)) return state.SkipWithError("envelopes are missing");
  }
  state.SetBytesProcessed(state.iterations() * state.range(0));
}

void link_throughput(benchmark::State& state) {
  throughput(state, false);
}

void tls_link_throughput(benchmark::State& state) {
  throughput(state, true);
}

void link_round_trip(benchmark::State& state) {
  Pair pair(true);
  for (auto unused : state) {
    static_cast<void>(unused);
    const auto sent = pair.link->send(push_of(0, {}));
    if (!sent.ok()) return state.SkipWithError(sent.text().c_str());
    if (!pair.here->wait_for(1)) return state.SkipWithError("no answer");
  }
}

/// A connected pair of TCP sockets.
struct RawPair {
  RawPair() {
    const int listener = ::socket(AF_INET, SOCK_STREAM, 0);
    sockaddr_in at{};
    at.sin_family = AF_INET;
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof at;
    ::bind(listener, reinterpret_cast<const sockaddr*>(&at), sizeof at);
    ::listen(listener, 1);
    ::getsockname(listener, reinterpret_cast<sockaddr*>(&at), &size);
    near = ::socket(AF_INET, SOCK_STREAM, 0);
    ::connect(near, reinterpret_cast<const sockaddr*>(&at), sizeof at);
    far = ::accept(listener, nullptr, nullptr);
    ::close(listener);
    const int on = 1;
    ::setsockopt(near, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    ::setsockopt(far, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  }
  ~RawPair() {
    ::close(near);
    ::close(far);
  }
  int near = -1;
  int far = -1;
};

bool send_all(int fd, const char* data, std::size_t bytes) {
  for (std::size_t done = 0; done < bytes;) {
    const auto sent = ::send(fd, data + done, bytes - done, MSG_NOSIGNAL);
    if (sent <= 0) return false;
    done += static_cast<std::size_t>(sent);
  }
  return true;
}

bool read_all(int fd, char* data, std::size_t bytes) {
  for (std::size_t done = 0; done < bytes;) {
    const auto got = ::recv(fd, data + done, bytes - done, 0);
    if (got <= 0) return false;
    done += static_cast<std::size_t>(got);
  }
  return true;
}

/// The other end answers each message of `bytes` with one byte.
void raw(benchmark::State& state, std::size_t bytes) {
  RawPair pair;
  std::thread reader([&pair, bytes] {
    std::vector<char> place(bytes);
    while (read_all(pair.far, place.data(), bytes) && send_all(pair.far, place.data(), 1)) {
    }
  });
  const std::vector<char> data(bytes, 'x');
  char answer = 0;
  for (auto unused : state) {
    static_cast<void>(unused);
    send_all(pair.near, data.data(), bytes);
    read_all(pair.near, &answer, 1);
  }
  ::shutdown(pair.near, SHUT_WR);
  reader.join();
}

void raw_throughput(benchmark::State& state) {
  raw(state, static_cast<std::size_t>(state.range(0)));
  state.SetBytesProcessed(state.iterations() * state.range(0));
}

void raw_round_trip(benchmark::State& state) {
  raw(state, 64);
}

/// OpenSSL on one end of a RawPair.
struct RawTls {
  RawTls(int fd, bool accepting) : context(SSL_CTX_new(TLS_method())) {
    const trust::Credentials shown = credentials("a");
    BIO* bio = BIO_new_mem_buf(shown.own.certificate.data(), -1);
    X509* certificate = PEM_read_bio_X509(bio, nullptr, nullptr, nullptr);
    BIO_free(bio);
    bio = BIO_new_mem_buf(shown.own.key.data(), -1);
    EVP_PKEY* key = PEM_read_bio_PrivateKey(bio, nullptr, nullptr, nullptr);
    BIO_free(bio);
    SSL_CTX_use_certificate(context, certificate);
    SSL_CTX_use_PrivateKey(context, key);
    SSL_CTX_set_ciphersuites(context, "TLS_AES_128_GCM_SHA256");
    X509_free(certificate);
    EVP_PKEY_free(key);
    session = SSL_new(context);
    SSL_set_fd(session, fd);
    accepting ? SSL_set_accept_state(session) : SSL_set_connect_state(session);
  }
  ~RawTls() {
    SSL_free(session);
    SSL_CTX_free(context);
  }
  bool send(const char* data, std::size_t bytes) const {
    std::size_t done = 0;
    return SSL_write_ex(session, data, bytes, &done) == 1;
  }
  bool read(char* data, std::size_t bytes) const {
    for (std::size_t got = 0; bytes > 0; data += got, bytes -= got) {
      if (SSL_read_ex(session, data, bytes, &got) != 1) return false;
    }
    return true;
  }
  SSL_CTX* context;
  SSL* session;
};

void raw_tls_throughput(benchmark::State& state) {
  const auto bytes = static_cast<std::size_t>(state.range(0));
  RawPair pair;
  std::thread reader([&pair, bytes] {
    const RawTls tls(pair.far, true);
    std::vector<char> place(bytes);
    while (tls.read(place.data(), bytes) && tls.send(place.data(), 1)) {
    }
  });
  {
    const RawTls tls(pair.near, false);
    const std::vector<char> data(bytes, 'x');
    char answer = 0;
    for (auto unused : state) {
      static_cast<void>(unused);
      tls.send(data.data(), bytes);
      tls.read(&answer, 1);
    }
  }
  ::shutdown(pair.near, SHUT_WR);
  reader.join();
  state.SetBytesProcessed(state.iterations() * state.range(0));
}

/// Counts links that are up, of one end.
class Ups final : public link::LinkHandler {
 public:
  void on_up() override {
    const base::MutexLock lock(mutex_);
    ++count_;
    changed_.notify_one();
  }
  void on_envelope(schemas::Envelope) override {}
  void on_down(const base::Status&) override {}
  bool wait_for(std::int64_t wanted) {
    const base::MutexLock lock(mutex_);
    return changed_.wait_for(mutex_, std::chrono::minutes(1),
                             [this, wanted]() TROUPE_REQUIRES(mutex_) { return count_ == wanted; });
  }

 private:
  base::Mutex mutex_;
  base::CondVar changed_;
  std::int64_t count_ TROUPE_GUARDED_BY(mutex_) = 0;
};

/// So many links under TLS dial one listener at the same moment, as agents do whose coordinator
/// comes back; until all are up. Half of them show another certificate: no holder has more than 128
/// links.
void tls_handshakes(benchmark::State& state) {
  const auto shown = tls(true);
  const auto other = tls(true, "b");
  for (auto unused : state) {
    static_cast<void>(unused);
    base::Limits limits;
    storage::Storage memory;
    link::LinkSet server(limits, memory.pool({}), shown);
    std::array<link::LinkSet, 2> clients{link::LinkSet(limits, memory.pool({}), shown),
                                         link::LinkSet(limits, memory.pool({}), other)};
    const link::LinkEnd end{{schemas::Role::parameter_server, 0}, "a", "bench", 1};
    const auto ups = std::make_shared<Ups>();
    const auto there = std::make_shared<Counter>();
    const auto address = server.listen("127.0.0.1:0", end, [&](const auto&, const auto&) {
      return base::Result<std::shared_ptr<link::LinkHandler>>(there);
    });
    for (std::int64_t i = 0; i < state.range(0); ++i) {
      link::LinkEnd self = end;
      if (i % 2 == 1) self.name = "b";
      link::DialOptions dial{*address, self, end, 0, 60'000, std::nullopt};
      static_cast<void>(clients[i % 2].dial(std::move(dial), ups).ok());
    }
    if (!ups->wait_for(state.range(0))) return state.SkipWithError("links are missing");
  }
}

BENCHMARK(raw_throughput)
    ->Arg(4 << 10)
    ->Arg(64 << 10)
    ->Arg(1 << 20)
    ->Arg(16 << 20)
    ->Arg(64 << 20)
    ->UseRealTime();
BENCHMARK(link_throughput)
    ->Arg(4 << 10)
    ->Arg(64 << 10)
    ->Arg(1 << 20)
    ->Arg(16 << 20)
    ->Arg(64 << 20)
    ->UseRealTime();
BENCHMARK(raw_tls_throughput)->Arg(64 << 10)->Arg(1 << 20)->Arg(64 << 20)->UseRealTime();
BENCHMARK(tls_link_throughput)->Arg(64 << 10)->Arg(1 << 20)->Arg(64 << 20)->UseRealTime();
BENCHMARK(tls_handshakes)->Arg(200)->Iterations(5)->Unit(benchmark::kMillisecond)->UseRealTime();
BENCHMARK(raw_round_trip)->UseRealTime();
BENCHMARK(link_round_trip)->UseRealTime();

}  // namespace
}  // namespace troupe::cluster
