// SPDX-License-Identifier: Apache-2.0
// Test support: walks the fields of any plain struct of this folder, so that random values and
// comparisons cover every field without a list that somebody could forget to extend.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <map>
#include <optional>
#include <random>
#include <string>
#include <tuple>
#include <type_traits>
#include <variant>
#include <vector>

#include "base/shape.h"
#include "schemas/codec.h"
#include "schemas/manifest.h"

namespace troupe::schemas::reflect {

struct Anything {
  template <typename T>
  operator T() const;  // NOLINT: stands for every type in field counting
};

template <typename T, typename... Args>
constexpr std::size_t field_count() {
  if constexpr (requires { T{Args{}..., Anything{}}; }) {
    return field_count<T, Args..., Anything>();
  } else {
    return sizeof...(Args);
  }
}

/// References to all fields of `t`.
template <typename T>
auto fields(T& t) {
  // clang-format off
  constexpr std::size_t n = field_count<std::remove_const_t<T>>();
  if constexpr (n == 1) { auto& [a] = t; return std::tie(a); }
  else if constexpr (n == 2) { auto& [a, b] = t; return std::tie(a, b); }
  else if constexpr (n == 3) { auto& [a, b, c] = t; return std::tie(a, b, c); }
  else if constexpr (n == 4) { auto& [a, b, c, d] = t; return std::tie(a, b, c, d); }
  else if constexpr (n == 5) { auto& [a, b, c, d, e] = t; return std::tie(a, b, c, d, e); }
  else if constexpr (n == 6) { auto& [a, b, c, d, e, f] = t; return std::tie(a, b, c, d, e, f); }
  else if constexpr (n == 7) {
    auto& [a, b, c, d, e, f, g] = t; return std::tie(a, b, c, d, e, f, g);
  } else if constexpr (n == 8) {
    auto& [a, b, c, d, e, f, g, h] = t; return std::tie(a, b, c, d, e, f, g, h);
  } else if constexpr (n == 9) {
    auto& [a, b, c, d, e, f, g, h, i] = t; return std::tie(a, b, c, d, e, f, g, h, i);
  } else if constexpr (n == 10) {
    auto& [a, b, c, d, e, f, g, h, i, j] = t; return std::tie(a, b, c, d, e, f, g, h, i, j);
  } else if constexpr (n == 11) {
    auto& [a, b, c, d, e, f, g, h, i, j, k] = t;
    return std::tie(a, b, c, d, e, f, g, h, i, j, k);
  } else if constexpr (n == 12) {
    auto& [a, b, c, d, e, f, g, h, i, j, k, l] = t;
    return std::tie(a, b, c, d, e, f, g, h, i, j, k, l);
  } else if constexpr (n == 13) {
    auto& [a, b, c, d, e, f, g, h, i, j, k, l, m] = t;
    return std::tie(a, b, c, d, e, f, g, h, i, j, k, l, m);
  } else if constexpr (n == 14) {
    auto& [a, b, c, d, e, f, g, h, i, j, k, l, m, o] = t;
    return std::tie(a, b, c, d, e, f, g, h, i, j, k, l, m, o);
  } else if constexpr (n == 15) {
    auto& [a, b, c, d, e, f, g, h, i, j, k, l, m, o, p] = t;
    return std::tie(a, b, c, d, e, f, g, h, i, j, k, l, m, o, p);
  } else {
    static_assert(n == 18, "a struct with another number of fields: add a line");
    auto& [a, b, c, d, e, f, g, h, i, j, k, l, m, o, p, q, r, s] = t;
    return std::tie(a, b, c, d, e, f, g, h, i, j, k, l, m, o, p, q, r, s);
  }
  // clang-format on
}

// Last enumerators.
inline Role last(Role) {
  return Role::parameter_server;
}
inline KeyKind last(KeyKind) {
  return KeyKind::loss_scale;
}
inline PushResult last(PushResult) {
  return PushResult::unknown;
}
inline JobPhase last(JobPhase) {
  return JobPhase::stopped;
}
inline RankPhase last(RankPhase) {
  return RankPhase::done;
}
inline Channel last(Channel) {
  return Channel::data;
}
inline base::Errc last(base::Errc) {
  return base::Errc::io_error;
}
inline base::DType last(base::DType) {
  return base::DType::boolean;
}
inline Period::Unit last(Period::Unit) {
  return Period::Unit::epochs;
}
inline BadRecord last(BadRecord) {
  return BadRecord::skip;
}
inline Decay last(Decay) {
  return Decay::weights;
}
inline ScheduleKind last(ScheduleKind) {
  return ScheduleKind::cosine;
}
inline InitializerKind last(InitializerKind) {
  return InitializerKind::constant;
}
inline FanKind last(FanKind) {
  return FanKind::out;
}
inline Distribution last(Distribution) {
  return Distribution::normal;
}
inline Hold last(Hold) {
  return Hold::until_scraped;
}
inline NonFinite last(NonFinite) {
  return NonFinite::ignore;
}
inline WorkerDevice last(WorkerDevice) {
  return WorkerDevice::gpu;
}
inline ConsistencyMode last(ConsistencyMode) {
  return ConsistencyMode::eventual;
}
inline Isa last(Isa) {
  return Isa::avx512;
}
inline LayoutChoice last(LayoutChoice) {
  return LayoutChoice::dense;
}
inline WireType last(WireType) {
  return WireType::f16;
}
inline Recompute last(Recompute) {
  return Recompute::automatic;
}

/// Random values that the codec accepts, all from one seed.
class Filler {
 public:
  explicit Filler(std::uint64_t seed) : random_(seed) {}

  template <typename T>
  void fill(T& t) {
    if constexpr (std::is_enum_v<T>) {
      t = static_cast<T>(below(static_cast<std::uint64_t>(last(t)) + 1));
    } else if constexpr (std::is_same_v<T, bool>) {
      t = below(2) == 1;
    } else if constexpr (std::is_integral_v<T>) {
      t = static_cast<T>(below(4) == 0 ? random_() : below(300));
    } else if constexpr (std::is_floating_point_v<T>) {
      t = static_cast<T>(below(8) == 0 ? 0.0
                                       : std::ldexp(1.0 + 1e-9 * below(1000), int(below(60)) - 30));
    } else if constexpr (std::is_base_of_v<std::variant_alternative_t<0, MessageVariant>, T> ||
                         std::is_aggregate_v<T>) {
      std::apply([&](auto&... field) { (fill(field), ...); }, fields(t));
      repair(t);
    }
  }
  void fill(std::string& t) {
    t.resize(below(40));
    for (char& c : t) c = static_cast<char>(below(256));
  }
  void fill(base::Shape& t) {
    t = {};
    for (auto rank = below(5); rank > 0; --rank) t.push_back(static_cast<std::int64_t>(below(50)));
  }
  void fill(base::Limits& t) {
    for (const auto& row : base::limit_table()) {
      t.*row.member = row.least + below(std::min<std::uint64_t>(row.most - row.least, 1'000'000));
    }
  }
  template <typename T, std::size_t N>
  void fill(std::array<T, N>& t) {
    for (T& each : t) fill(each);
  }
  template <typename T>
  void fill(std::vector<T>& t) {
    t.resize(below(8));
    for (T& each : t) fill(each);
  }
  template <typename K, typename V>
  void fill(std::map<K, V>& t) {
    for (auto count = below(6); count > 0; --count) {
      K key;
      fill(key);
      fill(t[key]);
    }
  }
  template <typename A, typename B>
  void fill(std::pair<A, B>& t) {
    fill(t.first);
    fill(t.second);
  }
  template <typename T>
  void fill(std::optional<T>& t) {
    t.reset();
    if (below(2) == 1) fill(t.emplace());
  }
  /// The message of position `type`.
  Message message(std::size_t type) {
    return message_at(type, std::make_index_sequence<kMessageTypes>());
  }

  std::uint64_t below(std::uint64_t limit) { return random_() % limit; }

 private:
  template <std::size_t... I>
  Message message_at(std::size_t type, std::index_sequence<I...>) {
    Message out;
    ((I == type ? fill(out.emplace<I>()) : void()), ...);
    return out;
  }

  // What the codec checks beyond types.
  template <typename T>
  void repair(T&) {}
  void repair(TreeNode& t) {
    t.level &= 1;
    if (t.begin > t.end) std::swap(t.begin, t.end);
  }
  void repair(GradientPush& t) {
    if (!t.abstains) return;
    t.count = 0.0;
    t.contributions.clear();
  }
  void repair(StepVerdict& t) { t.divisor = t.divisor == 0.0 ? 1.0 : std::fabs(t.divisor); }
  void repair(EvaluationReport& t) {
    if (t.correct > t.samples) std::swap(t.correct, t.samples);
  }
  void repair(Hello& t) {
    t.lanes = 1 + t.lanes % 8;
    t.lane %= t.lanes;
    t.channel = t.lane == 0 ? Channel::control : Channel::data;
  }
  void repair(Placement& t) {
    t.machines.resize(3);
    for (auto* places : {&t.machine_of_rank, &t.machine_of_shard}) {
      for (auto& machine : *places) machine %= 3;
    }
    t.shard_addresses.resize(below(2) * t.machine_of_shard.size());
    t.gpu_of_rank.resize(below(2) * t.machine_of_rank.size());
    for (std::uint32_t& gpu : t.gpu_of_rank) gpu %= kGpusMax;
  }
  void repair(RankInfo& t) {
    if (t.gpu) *t.gpu %= kGpusMax;
  }
  void repair(LaunchProcess& t) {
    if (t.actor.role != Role::parameter_server) t.gpus.resize(below(2) * t.ranks.size());
    for (std::uint32_t& gpu : t.gpus) gpu %= kGpusMax;
  }
  void repair(ShardFile& t) {
    t.name = "shard-" + std::to_string(t.shard);
    t.chunk_bytes = 1 + t.chunk_bytes % 1000;
    t.bytes = t.checksums.size() * t.chunk_bytes;
  }
  void repair(WorkersSpec& t) {
    t.machines %= 32;
    t.devices %= 32;
    t.threads = 1 + t.threads % kThreadsMax;
  }
  void repair(ServersSpec& t) {
    t.shards %= 1000;
    t.threads = 1 + t.threads % kThreadsMax;
  }
  void repair(ModelSpec& t) { t.input.resize(t.input.size() % 5); }

  std::mt19937_64 random_;
};

/// True when all fields are equal, numbers to the bit.
template <typename T>
bool same(const T& a, const T& b) {
  if constexpr (std::is_floating_point_v<T>) {
    return std::memcmp(&a, &b, sizeof a) == 0;
  } else if constexpr (requires { a.data(); }) {
    if (a.size() != b.size()) return false;
    for (std::size_t i = 0; i < a.size(); ++i) {
      if (!same(a[i], b[i])) return false;
    }
    return true;
  } else if constexpr (requires { a == b; }) {
    return a == b;
  } else {
    const auto x = fields(a);
    const auto y = fields(b);
    return std::apply(
        [&](const auto&... of_a) {
          return std::apply([&](const auto&... of_b) { return (same(of_a, of_b) && ...); }, y);
        },
        x);
  }
}
inline bool same(const Message& a, const Message& b) {
  if (a.index() != b.index()) return false;
  return std::visit([&](const auto& m) { return same(m, std::get<std::decay_t<decltype(m)>>(b)); },
                    a);
}

}  // namespace troupe::schemas::reflect
