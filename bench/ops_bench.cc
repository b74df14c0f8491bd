// SPDX-License-Identifier: Apache-2.0
// Operators: every kernel of every operator on the samples marked `benchmark`, dense f32 tensors.
// `--team=N` leads N threads (default 1); the other flags are Google Benchmark's.
#include <benchmark/benchmark.h>
#include <fmt/format.h>

#include <charconv>
#include <iostream>
#include <memory>
#include <string_view>
#include <vector>

#include "base/buffer.h"
#include "base/parallel.h"
#include "base/random.h"
#include "ops/table.h"

namespace troupe::ops {
namespace {

/// A call with its memory.
struct Prepared {
  std::shared_ptr<const Kernel> kernel;
  OpCall call;
  std::vector<base::Buffer> memory;
  std::vector<base::TensorView> inputs;
  std::vector<base::TensorView> outputs;
  base::Buffer scratch;
  double bytes = 0;

  base::TensorView add(const TensorDesc& desc) {
    base::TensorView view{nullptr, desc.dtype, desc.shape, desc.layout, {}};
    memory.push_back(base::make_host_buffer(static_cast<std::size_t>(view.bytes())));
    view.data = memory.back().data();
    bytes += static_cast<double>(view.bytes());
    return view;
  }
};

void fill(const base::TensorView& view, double low, double high) {
  const base::RandomKey key = base::random_key(1, "bench");
  for (std::int64_t i = 0; i < view.elements(); ++i) {
    const auto words = base::philox(key, static_cast<std::uint64_t>(i), 0, 0);
    const double value = low + (high - low) * base::uniform_f64(words[0]);
    if (view.dtype == base::DType::f32) view.as<float>()[i] = static_cast<float>(value);
    if (view.dtype == base::DType::i32) view.as<std::int32_t>()[i] = static_cast<int>(value);
  }
}

base::Result<OpCall> call_of(const OpDef& op, const Sample& sample, int team) {
  TROUPE_TRY_ASSIGN(Params params, parse_params(op, sample.attributes));
  std::vector<std::optional<base::DType>> in(sample.inputs.size(), base::DType::f32);
  std::vector<std::optional<base::DType>> out(op.outputs(params).size());
  for (const auto& [index, range] : sample.integers) in.at(static_cast<std::size_t>(index)).reset();
  TROUPE_TRY(infer_dtypes(op, params, in, out));
  std::vector<TensorDesc> inputs;
  for (std::size_t i = 0; i < in.size(); ++i) {
    inputs.push_back({in[i].value_or(base::DType::i32), sample.inputs[i], {}, false});
  }
  TROUPE_TRY_ASSIGN(OpCall call, make_call(op, std::move(params), std::move(inputs)));
  call.team = team;
  return call;
}

std::shared_ptr<Prepared> prepare_row(const OpCall& call, const KernelDef& candidate,
                                      const Sample& sample) {
  auto kernel = candidate.prepare(call);
  if (!kernel.ok()) return nullptr;
  auto row = std::make_shared<Prepared>();
  row->kernel = std::move(kernel).value();
  row->call = call;
  for (std::size_t i = 0; i < call.inputs.size(); ++i) {
    row->inputs.push_back(row->add(call.inputs[i]));
    const auto whole = sample.integers.find(static_cast<int>(i));
    const bool is_whole = whole != sample.integers.end();
    fill(row->inputs.back(), is_whole ? static_cast<double>(whole->second.first) : sample.low,
         is_whole ? static_cast<double>(whole->second.second) : sample.high);
  }
  for (const TensorDesc& desc : call.outputs) row->outputs.push_back(row->add(desc));
  row->scratch = base::make_host_buffer(row->kernel->scratch_bytes() + 64);
  return row;
}

void run_row(benchmark::State& state, const Prepared& row) {
  base::SlotStore slots;
  const KernelContext context{.inputs = row.inputs,
                              .outputs = row.outputs,
                              .scratch = {row.scratch.data(), row.kernel->scratch_bytes()},
                              .random_key = {7},
                              .team = row.kernel->threads(row.call.team),
                              .slots = &slots};
  for (auto unused : state) {
    const base::Status status = row.kernel->run(context);
    if (!status.ok()) {
      state.SkipWithError(status.text().c_str());
      break;
    }
  }
  const auto rate = [](double amount) {
    return benchmark::Counter(amount, benchmark::Counter::kIsIterationInvariantRate);
  };
  state.counters["bytes/s"] = rate(row.bytes);
  if (row.call.op->flops) state.counters["flop/s"] = rate(row.call.op->flops(row.call));
  state.SetLabel(row.kernel->name());
}

/// One row per kernel that takes the sample; the first is the one that the rules choose.
void add_rows(const OpDef& op, const Sample& sample, int team) {
  const auto call = call_of(op, sample, team);
  TROUPE_CHECK(call.ok(), call.status().to_string());
  const auto list = offers(call.value());
  TROUPE_CHECK(list.ok(), list.status().to_string());
  for (const Offer& offer : list.value()) {
    const KernelDef& candidate = *offer.maker;
    const auto row = prepare_row(call.value(), candidate, sample);
    if (!row) continue;
    std::string shapes;
    for (const base::Shape& shape : sample.inputs) shapes += shape.to_string() + "/";
    const std::string name =
        fmt::format("{}/{}/{}{}", op.name, sample.title, shapes, candidate.name);
    benchmark::RegisterBenchmark(name.c_str(),
                                 [row](benchmark::State& state) { run_row(state, *row); });
  }
}

/// The N of `--team=N`, taken out of the arguments; 1 where it is missing, 0 where it is no team.
int take_team(int& argc, char** argv) {
  constexpr std::string_view kFlag = "--team=";
  int team = 1;
  int kept = 1;
  for (int i = 1; i < argc; ++i) {
    const std::string_view argument = argv[i];
    if (argument.starts_with(kFlag)) {
      const char* digits = argv[i] + kFlag.size();
      const auto parsed = std::from_chars(digits, argv[i] + argument.size(), team);
      if (parsed.ec != std::errc() || team < 1) return 0;
    } else {
      argv[kept++] = argv[i];
    }
  }
  argc = kept;
  return team;
}

}  // namespace
}  // namespace troupe::ops

int main(int argc, char** argv) {
  const int team = troupe::ops::take_team(argc, argv);
  if (team == 0) {
    std::cerr << "--team takes a number of threads, 1 or more\n";
    return 2;
  }
  const auto table = troupe::ops::OpTable::build();
  for (const auto& op : table.all()) {
    for (const auto& sample : op.samples) {
      if (sample.benchmark) troupe::ops::add_rows(op, sample, team);
    }
  }
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  troupe::base::lead_team(team, [] { benchmark::RunSpecifiedBenchmarks(); });
  benchmark::Shutdown();
  return 0;
}
