// SPDX-License-Identifier: Apache-2.0
// One thread for each name that is being looked up. Nobody joins it: it may hang in the system.
#include "base/resolver.h"

#include <netdb.h>
#include <sys/socket.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <optional>
#include <system_error>
#include <thread>
#include <utility>

#include "base/address.h"
#include "base/mutex.h"

namespace troupe::base {

Result<HostNumbers> look_up(const std::string& host) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const int failed = ::getaddrinfo(host.c_str(), nullptr, &hints, &found);
  if (failed != 0) {
    return error(Errc::unavailable, "looking up '{}': {}", host, ::gai_strerror(failed));
  }
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> release(found, &::freeaddrinfo);
  HostNumbers numbers;
  for (const addrinfo* each = found; each != nullptr; each = each->ai_next) {
    char text[NI_MAXHOST];
    if (::getnameinfo(each->ai_addr, each->ai_addrlen, text, sizeof text, nullptr, 0,
                      NI_NUMERICHOST) != 0) {
      continue;
    }
    if (std::find(numbers.begin(), numbers.end(), text) == numbers.end())
      numbers.emplace_back(text);
  }
  if (!numbers.empty()) return numbers;
  return error(Errc::unavailable, "looking up '{}': it has no address", host);
}

struct Resolver::Shared {
  explicit Shared(LookUp ask) : ask_system(std::move(ask)) {}
  /// Keeps what is good, and tells all who wait for `host`.
  void finish(const std::string& host, Result<HostNumbers> numbers);

  const LookUp ask_system;
  Mutex mutex;
  std::map<std::string, HostNumbers> good TROUPE_GUARDED_BY(mutex);
  std::map<std::string, std::vector<Answer>> waiting TROUPE_GUARDED_BY(mutex);  // one thread each
};

void Resolver::Shared::finish(const std::string& host, Result<HostNumbers> numbers) {
  std::vector<Answer> told;
  {
    const MutexLock lock(mutex);
    told = std::move(waiting[host]);
    waiting.erase(host);
    if (numbers.ok()) {
      good[host] = *numbers;
    } else if (const auto kept = good.find(host); kept != good.end()) {
      numbers = kept->second;
    }
  }
  for (const Answer& answer : told) answer(numbers);
}

Resolver::Resolver(LookUp look_up) : shared_(std::make_shared<Shared>(std::move(look_up))) {}

void Resolver::ask(const std::string& host, Answer answer) {
  if (is_number(host)) return answer(HostNumbers{host});
  {
    const MutexLock lock(shared_->mutex);
    auto& waiting = shared_->waiting[host];
    waiting.push_back(std::move(answer));
    if (waiting.size() > 1) return;
  }
  try {
    std::thread([shared = shared_, host] {
      shared->finish(host, shared->ask_system(host));
    }).detach();
  } catch (const std::system_error& failure) {
    shared_->finish(host, error(Errc::unavailable, "looking up '{}': no thread for it: {}", host,
                                failure.what()));
  }
}

Result<HostNumbers> Resolver::last(const std::string& host, std::uint64_t deadline_ms) const {
  const MutexLock lock(shared_->mutex);
  const auto kept = shared_->good.find(host);
  if (kept != shared_->good.end()) return kept->second;
  return error(Errc::deadline_exceeded, "looking up '{}': no answer within {} ms", host,
               deadline_ms);
}

Result<HostNumbers> Resolver::resolve(const std::string& host, std::uint64_t deadline_ms) {
  struct Call {
    Mutex mutex;
    CondVar changed;
    std::optional<Result<HostNumbers>> numbers TROUPE_GUARDED_BY(mutex);
  };
  const auto call = std::make_shared<Call>();
  ask(host, [call](const Result<HostNumbers>& numbers) {
    {
      const MutexLock lock(call->mutex);
      call->numbers = numbers;
    }
    call->changed.notify_all();
  });
  {
    const MutexLock lock(call->mutex);
    call->changed.wait_for(call->mutex, std::chrono::milliseconds(deadline_ms),
                           [&]()
                               TROUPE_REQUIRES(call->mutex) { return call->numbers.has_value(); });
    if (call->numbers) return *call->numbers;
  }
  return last(host, deadline_ms);
}

}  // namespace troupe::base
