// SPDX-License-Identifier: Apache-2.0
// The fully connected layers of AlexNet on few samples, three passes, against what memory allows:
// their weights are read, or their gradient is written, once. Rows: seconds to read and to write
// 1e9 bytes, then seconds of each pass. The check of a pass is its share of that bound: 1 would be
// as fast as memory.
//   bench_fully_connected [--batch=8] [--threads=1] [--repetitions=15]
#include <fmt/format.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/buffer.h"
#include "base/parallel.h"
#include "bench/report.h"
#include "ops/table.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "bench/fully_connected_bench.cc"
#include <hwy/cache_control.h>
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace troupe::bench::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

/// Reads `count` numbers, whole groups of four vectors.
float read_all(const float* from, std::int64_t count) {
  const hn::ScalableTag<float> d;
  const auto step = static_cast<std::int64_t>(hn::Lanes(d));
  auto a = hn::Zero(d), b = hn::Zero(d), c = hn::Zero(d), e = hn::Zero(d);
  for (std::int64_t i = 0; i + 4 * step <= count; i += 4 * step) {
    a = hn::Add(a, hn::LoadU(d, from + i));
    b = hn::Add(b, hn::LoadU(d, from + i + step));
    c = hn::Add(c, hn::LoadU(d, from + i + 2 * step));
    e = hn::Add(e, hn::LoadU(d, from + i + 3 * step));
  }
  return hn::GetLane(hn::SumOfLanes(d, hn::Add(hn::Add(a, b), hn::Add(c, e))));
}

/// Writes them past the caches.
void write_all(float* to, std::int64_t count) {
  const hn::ScalableTag<float> d;
  const auto step = static_cast<std::int64_t>(hn::Lanes(d));
  for (std::int64_t i = 0; i + step <= count; i += step) hn::Stream(hn::Set(d, 1.0F), d, to + i);
  hwy::FlushStream();
}

}  // namespace troupe::bench::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace troupe::bench {
namespace {

HWY_EXPORT(read_all);
HWY_EXPORT(write_all);

/// Seconds a byte, with all threads.
struct Memory {
  double read = 0.0, write = 0.0;
};

Memory measure_memory(int threads, int repetitions) {
  constexpr std::int64_t kNumbers = 9216 * 4096;  // those of the largest layer
  const base::Buffer buffer = base::make_host_buffer(kNumbers * sizeof(float));
  auto* const numbers = reinterpret_cast<float*>(buffer.data());
  constexpr std::int64_t kLine = 16;
  const std::int64_t part = kNumbers / threads / kLine * kLine;
  const auto billions = static_cast<double>(part * threads) * sizeof(float) * 1e-9;
  std::vector<float> sums(static_cast<std::size_t>(threads));
  const auto timed = [&](const char* name, auto&& work) {
    const Seconds seconds = measure(1, repetitions, billions, [&] {
      base::parallel_chunks(threads, threads, [&](std::int64_t thread) {
        work(numbers + thread * part, static_cast<std::size_t>(thread));
      });
    });
    print_row(name, seconds, sums.front());
    return seconds.wall * 1e-9;
  };
  Memory memory;
  memory.write = timed("write", [&](float* at, std::size_t) {
    HWY_DYNAMIC_DISPATCH(write_all)
    (at, part);
  });
  memory.read = timed("read", [&](float* at, std::size_t thread) {
    sums[thread] += HWY_DYNAMIC_DISPATCH(read_all)(at, part);
  });
  return memory;
}

/// One pass of one layer.
struct Pass {
  std::string title;
  const ops::OpDef& op;
  ops::Attributes attributes;
  std::vector<base::Shape> shapes;  ///< of the inputs
  double bound;                     ///< seconds for the weights alone
};

/// Runs a pass on the kernel that the rule chooses. Its tensors are ones.
void measure_pass(const Pass& pass, int threads, int repetitions) {
  std::vector<ops::TensorDesc> described;
  for (const base::Shape& shape : pass.shapes)
    described.push_back({base::DType::f32, shape, {}, false});
  const ops::Params params = must(ops::parse_params(pass.op, pass.attributes));
  ops::OpCall call = must(ops::make_call(pass.op, params, std::move(described)));
  call.team = threads;
  const std::unique_ptr<ops::Kernel> kernel = must(ops::prepare(call));
  std::vector<base::Buffer> memory;
  const auto place = [&](const std::vector<ops::TensorDesc>& list) {
    std::vector<base::TensorView> views;
    for (const ops::TensorDesc& desc : list) {
      base::TensorView view{nullptr, desc.dtype, desc.shape, {}, {}};
      memory.push_back(base::make_host_buffer(static_cast<std::size_t>(view.bytes())));
      view.data = memory.back().data();
      std::fill_n(view.as<float>(), view.elements(), 1.0F);
      views.push_back(view);
    }
    return views;
  };
  const std::vector<base::TensorView> inputs = place(call.inputs), outputs = place(call.outputs);
  const base::Buffer scratch = base::make_host_buffer(kernel->scratch_bytes() + 64);
  base::SlotStore slots;
  const ops::KernelContext context{.inputs = inputs,
                                   .outputs = outputs,
                                   .scratch = {scratch.data(), kernel->scratch_bytes()},
                                   .team = kernel->threads(threads),
                                   .slots = &slots};
  const Seconds seconds = measure(1, repetitions, 1.0, [&] { must(kernel->run(context)); });
  print_row(fmt::format("{} {}", pass.title, kernel->name()), seconds, pass.bound / seconds.wall);
}

int run(int argc, char** argv) {
  constexpr int kBatch = 8, kRepetitions = 15;
  const std::int64_t batch = option(argc, argv, "batch", kBatch);
  const int threads = option(argc, argv, "threads", 1);
  const int repetitions = option(argc, argv, "repetitions", kRepetitions);
  struct Layer {
    const char* name;
    std::int64_t inputs, outputs;
  };
  const ops::OpTable table = ops::OpTable::build();
  base::lead_team(threads, [&] {
    const Memory memory = measure_memory(threads, repetitions);
    for (const Layer& layer :
         {Layer{"fc6", 9216, 4096}, Layer{"fc7", 4096, 4096}, Layer{"fc8", 4096, 1000}}) {
      const base::Shape data{batch, layer.inputs}, weight{layer.outputs, layer.inputs};
      const base::Shape bias{layer.outputs}, gradient{batch, layer.outputs};
      const ops::Attributes attributes = {{"num_hidden", std::to_string(layer.outputs)}};
      const double bytes = static_cast<double>(weight.elements()) * sizeof(float);
      const auto pass = [&](const char* title, const char* op, std::vector<base::Shape> shapes,
                            double seconds_a_byte) {
        measure_pass({fmt::format("{} {}", layer.name, title), table.at(op), attributes,
                      std::move(shapes), bytes * seconds_a_byte},
                     threads, repetitions);
      };
      pass("forward", "fully_connected", {data, weight, bias}, memory.read);
      pass("data gradient", "fully_connected_backward_data", {gradient, weight, data}, memory.read);
      pass("weight gradient", "fully_connected_backward_weights", {gradient, data}, memory.write);
    }
  });
  return 0;
}

}  // namespace
}  // namespace troupe::bench

int main(int argc, char** argv) {
  return troupe::bench::run(argc, argv);
}
#endif  // HWY_ONCE
