// SPDX-License-Identifier: Apache-2.0
// Operators on large tensors against what the device's memory gives: every kernel that takes a
// call, the bytes of its inputs and outputs per second, and their share of what a copy moves, which
// is taken before and behind the rows; multiply-adds for products.
//   bench_device [--gpu] [--mib=N] [--only=TEXT] [--repetitions=7]
// --gpu: on the first GPU; else on the host, by one thread. --mib: of a tensor in f32 (256 on a
// GPU, else 16). --only: rows whose operator has this in its name.
#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "base/parallel.h"
#include "bench/measured_network.h"
#include "bench/report.h"
#include "gpu/stream.h"
#include "ops/table.h"
#include "storage/storage.h"

namespace troupe::bench {
namespace {

using base::DType;
using base::Shape;

struct Case {
  std::string title, op;
  ops::Attributes attributes;
  std::vector<Shape> inputs;
  bool product = false;  ///< judged by its multiply-adds
};

/// The device, its memory, and what issues its work.
class Device {
 public:
  explicit Device(bool gpu) : device_{gpu ? base::DeviceKind::cuda : base::DeviceKind::cpu, 0} {
    if (gpu) stream_ = must(gpu::make_stream(device_, gpu::StreamPriority::normal));
  }
  base::Device device() const { return device_; }

  /// Zero, but for f32 that read as 1 where `ones`.
  base::Buffer make(std::size_t bytes, bool ones = false) {
    base::Buffer buffer =
        must(storage_.pool(device_).allocate(std::max<std::size_t>(bytes, 1), "bench"));
    if (bytes == 0) return buffer;
    if (stream_ == nullptr) {
      std::fill_n(buffer.data(), bytes, std::byte{0});
    } else {
      must(stream_->clear(buffer.data(), bytes));
    }
    if (ones) put_ones(buffer, bytes);
    return buffer;
  }

  base::Status run(const ops::Kernel& kernel, ops::KernelContext context) {
    context.stream = stream_.get();
    context.slots = &slots_;
    return kernel.run(context);
  }
  void copy(const base::Buffer& to, const base::Buffer& from) {
    if (stream_ == nullptr) {
      std::copy_n(from.data(), from.size(), to.data());
    } else {
      must(stream_->copy(to.data(), from.data(), from.size()));
    }
  }
  void wait() {
    if (stream_ != nullptr) must(stream_->record()->wait_on_host());
  }

 private:
  void put_ones(const base::Buffer& buffer, std::size_t bytes) {
    const std::vector<float> ones(bytes / sizeof(float), 1.0F);
    const auto* from = reinterpret_cast<const std::byte*>(ones.data());
    if (stream_ == nullptr) {
      std::copy_n(from, ones.size() * sizeof(float), buffer.data());
    } else {
      must(stream_->copy(buffer.data(), from, ones.size() * sizeof(float)));
      wait();
    }
  }

  const base::Device device_;
  std::unique_ptr<base::Stream> stream_;
  storage::Storage storage_;
  base::SlotStore slots_;
};

/// The shapes of ResNet-50's parameters, three times each, then those of the step's numbers.
std::vector<Shape> update_shapes(const ops::OpTable& table) {
  const MeasuredNetwork network = measured_network(table, "resnet50", 1);
  const auto inferred = must(network.net.infer_shapes({{"data", network.data}}));
  const std::vector<std::string> parameters = network.net.list_parameters();
  const std::vector<std::string> arguments = network.net.list_arguments();
  std::vector<Shape> shapes;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    if (std::ranges::find(parameters, arguments[i]) == parameters.end()) continue;
    shapes.insert(shapes.end(), 3, inferred.arguments[i]);
  }
  shapes.insert(shapes.end(), 2, Shape());
  return shapes;
}

/// All rows, for tensors of about `n` elements, a multiple of 2^18.
std::vector<Case> cases(const ops::OpTable& table, std::int64_t n) {
  const Shape flat{n};
  const Shape images{n / (64 * 56 * 56), 64, 56, 56};
  const Shape channels{64};
  const ops::Attributes sgd = {{"momentum", "0.9"}, {"wd", "1e-4"}};
  const std::vector<Shape> weights = update_shapes(table);
  ops::Attributes many = sgd;
  many["num_weights"] = std::to_string(weights.size() / 3);
  const std::int64_t side = n >= (1 << 24) ? 4096 : 512;
  const ops::Attributes product = {{"num_hidden", std::to_string(side)}};
  return {
      {"sum of two", "add", {}, {flat, flat}},
      {"relu", "activation", {{"act_type", "relu"}}, {flat}},
      {"exp", "exp", {}, {flat}},
      {"chain of 5",
       "fused_pointwise",
       {{"num_args", "3"},
        {"steps",
         "multiply_elemwise 0 1; add_elemwise 3 2; multiply_scalar 4 scalar=0.5; "
         "activation 5 act_type=sigmoid; subtract_elemwise 6 0"}},
       {flat, flat, flat}},
      {"w += factor * g", "add_scaled", {}, {flat, flat, {}}},
      {"one weight", "sgd_update", sgd, {flat, flat, flat, {}, {}}},
      {"ResNet-50's weights", "multi_sgd_update", many, weights},
      {"to one number", "sum", {}, {flat}},
      {"rows", "sum", {{"axis", "1"}}, {{n / 4096, 4096}}},
      {"columns", "sum", {{"axis", "0"}}, {{n / 4096, 4096}}},
      {"rows of 1,024", "softmax", {}, {{n / 1024, 1024}}},
      {"both axes long", "transpose", {}, {{4096, n / 4096}}},
      {"channels last", "transpose", {{"axes", "(0,2,3,1)"}}, {images}},
      {"64 channels of 56 x 56",
       "batch_norm",
       {},
       {images, channels, channels, channels, channels}},
      {"64 channels of 56 x 56",
       "batch_norm_backward",
       {},
       {images, images, channels, channels, channels}},
      {"3 x 3, stride 2",
       "pooling",
       {{"kernel", "(3,3)"}, {"stride", "(2,2)"}, {"pool_type", "max"}},
       {images}},
      {"square", "fully_connected", product, {{side, side}, {side, side}, {side}}, true},
      {"square", "dot", {}, {{side, side}, {side, side}}, true},
  };
}

/// A call with its memory.
class Row {
 public:
  Row(Device& device, const ops::OpCall& call) : device_(device), call_(call) {
    for (const ops::TensorDesc& desc : call.inputs) inputs_.push_back(view(desc, true));
    for (const ops::TensorDesc& desc : call.outputs) outputs_.push_back(view(desc, false));
  }

  /// Seconds of a run.
  double seconds(const ops::Kernel& kernel, int repetitions) {
    const base::Buffer scratch = device_.make(kernel.scratch_bytes());
    const ops::KernelContext context{.inputs = inputs_,
                                     .outputs = outputs_,
                                     .scratch = {scratch.data(), kernel.scratch_bytes()},
                                     .random_key = {7}};
    constexpr int kRuns = 10;
    return measure(1, repetitions, kRuns,
                   [&] {
                     for (int i = 0; i < kRuns; ++i) must(device_.run(kernel, context));
                     device_.wait();
                   })
        .wall;
  }
  double bytes() const { return bytes_; }

 private:
  base::TensorView view(const ops::TensorDesc& desc, bool ones) {
    base::TensorView made{nullptr, desc.dtype, desc.shape, desc.layout, {}};
    const auto size = static_cast<std::size_t>(made.bytes());
    memory_.push_back(device_.make(size, ones && desc.dtype == DType::f32));
    made.data = memory_.back().data();
    bytes_ += static_cast<double>(size);
    return made;
  }

  Device& device_;
  const ops::OpCall& call_;
  std::vector<base::Buffer> memory_;
  std::vector<base::TensorView> inputs_, outputs_;
  double bytes_ = 0;
};

base::Result<ops::OpCall> call_of(const ops::OpDef& op, const Case& what, DType dtype,
                                  base::Device device) {
  TROUPE_TRY_ASSIGN(ops::Params params, ops::parse_params(op, what.attributes));
  std::vector<ops::TensorDesc> inputs;
  for (const Shape& shape : what.inputs) inputs.push_back({dtype, shape, {}, false});
  TROUPE_TRY_ASSIGN(ops::OpCall call, ops::make_call(op, std::move(params), std::move(inputs)));
  call.device = device;
  return call;
}

/// Bytes that a copy reads and writes per second.
double copy_speed(Device& device, std::size_t bytes, int repetitions) {
  const base::Buffer from = device.make(bytes), to = device.make(bytes);
  constexpr int kRuns = 10;
  const Seconds seconds = measure(1, repetitions, kRuns, [&] {
    for (int i = 0; i < kRuns; ++i) device.copy(to, from);
    device.wait();
  });
  return 2 * static_cast<double>(bytes) / seconds.wall;
}

void print_rows(Device& device, const ops::OpTable& table, const Case& what, int repetitions,
                double copied) {
  for (const DType dtype : {DType::f32, DType::bf16}) {
    const auto call = call_of(table.at(what.op), what, dtype, device.device());
    if (!call.ok()) {
      fmt::print("| {} | {} | {} |\n", what.op, what.title, call.status().text());
      continue;
    }
    for (const ops::Offer& offer : must(ops::offers(call.value()))) {
      const auto kernel = must(offer.maker->prepare(call.value()));
      Row row(device, call.value());
      const double seconds = row.seconds(*kernel, repetitions);
      const std::string work =
          what.product
              ? fmt::format("{:.1f} Tflop/s", call.value().op->flops(call.value()) / seconds / 1e12)
              : fmt::format("{:.0f} GB/s | {:.2f}", row.bytes() / seconds / 1e9,
                            row.bytes() / seconds / copied);
      fmt::print("| {} | {} | {} | {} | {:.3f} | {} |\n", what.op, what.title,
                 base::dtype_name(dtype), kernel->name(), seconds * 1e3, work);
      std::fflush(stdout);
    }
  }
}

int run(int argc, char** argv) {
  const bool gpu = std::find(argv + 1, argv + argc, std::string_view("--gpu")) != argv + argc;
  const int repetitions = option(argc, argv, "repetitions", 7);
  const std::int64_t mib = option(argc, argv, "mib", gpu ? 256 : 16);
  const std::string_view only = text_option(argc, argv, "only");
  const ops::OpTable table = ops::OpTable::build();
  Device device(gpu);
  const std::size_t bytes = static_cast<std::size_t>(mib) << 20;
  const double copied = copy_speed(device, bytes, repetitions);
  fmt::print(
      "a copy of {} MiB: {:.0f} GB/s\n\n| operator | what | numbers | kernel | ms | bytes | "
      "of a copy |\n|---|---|---|---|---|---|---|\n",
      mib, copied / 1e9);
  for (const Case& what : cases(table, mib << 18)) {
    if (what.op.find(only) == std::string::npos) continue;
    print_rows(device, table, what, repetitions, copied);
  }
  fmt::print("\na copy, once more: {:.0f} GB/s\n", copy_speed(device, bytes, repetitions) / 1e9);
  return 0;
}

}  // namespace
}  // namespace troupe::bench

int main(int argc, char** argv) {
  int result = 0;
  troupe::base::lead_team(1, [&] { result = troupe::bench::run(argc, argv); });
  return result;
}
