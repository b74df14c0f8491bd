// SPDX-License-Identifier: Apache-2.0
// The processors' peak: fused multiply-adds of f32 on the widest vectors, from registers alone, on
// all threads at once. One row: seconds a thousand million operations (a multiply-add counts as 2).
//   bench_fma [--threads=1] [--repetitions=15]
#include "base/parallel.h"
#include "bench/report.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "bench/fma_bench.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace troupe::bench::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

/// Operations of `rounds` rounds; `sink` keeps their result alive.
double multiply_add(int rounds, float* sink) {
  const hn::ScalableTag<float> d;
  using Vector = hn::Vec<decltype(d)>;
  // Two a cycle with four cycles each need eight chains; 16 registers hold twelve and the factors.
  constexpr int kChains = 12;
  const Vector factor = hn::Set(d, 0.999F), term = hn::Set(d, 0.001F);
  // Different numbers, or the compiler would compute equal chains once.
  float start = 1.0F;
  const auto next = [&] { return hn::Set(d, start += 0.0625F); };
  Vector a = next(), b = next(), c = next(), e = next(), f = next(), g = next();
  Vector h = next(), i = next(), j = next(), k = next(), l = next(), m = next();
  for (int round = 0; round < rounds; ++round) {
    a = hn::MulAdd(a, factor, term);
    b = hn::MulAdd(b, factor, term);
    c = hn::MulAdd(c, factor, term);
    e = hn::MulAdd(e, factor, term);
    f = hn::MulAdd(f, factor, term);
    g = hn::MulAdd(g, factor, term);
    h = hn::MulAdd(h, factor, term);
    i = hn::MulAdd(i, factor, term);
    j = hn::MulAdd(j, factor, term);
    k = hn::MulAdd(k, factor, term);
    l = hn::MulAdd(l, factor, term);
    m = hn::MulAdd(m, factor, term);
  }
  const Vector sum = hn::Add(
      hn::Add(hn::Add(a, b), hn::Add(c, e)),
      hn::Add(hn::Add(hn::Add(f, g), hn::Add(h, i)), hn::Add(hn::Add(j, k), hn::Add(l, m))));
  *sink = hn::GetLane(sum);
  return 2.0 * kChains * rounds * static_cast<double>(hn::Lanes(d));
}

}  // namespace troupe::bench::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace troupe::bench {
namespace {

HWY_EXPORT(multiply_add);

int run(int argc, char** argv) {
  constexpr int kRounds = 4'000'000, kRepetitions = 15;
  const int threads = option(argc, argv, "threads", 1);
  const int repetitions = option(argc, argv, "repetitions", kRepetitions);
  double billions = 0.0;
  std::vector<float> sinks(static_cast<std::size_t>(threads));
  base::lead_team(threads, [&] {
    const auto work = [&] {
      base::parallel_chunks(threads, threads, [&](std::int64_t thread) {
        const double done =
            HWY_DYNAMIC_DISPATCH(multiply_add)(kRounds, &sinks[static_cast<std::size_t>(thread)]);
        if (thread == 0) billions = done * threads * 1e-9;
      });
    };
    work();  // the first call only counts
    print_row("fma peak", measure(1, repetitions, billions, work), sinks.front());
  });
  return 0;
}

}  // namespace
}  // namespace troupe::bench

int main(int argc, char** argv) {
  return troupe::bench::run(argc, argv);
}
#endif  // HWY_ONCE
