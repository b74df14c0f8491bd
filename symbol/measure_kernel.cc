// SPDX-License-Identifier: Apache-2.0
// Running kernels against the clock, on threads and on streams, and against each other.
#include "symbol/measure_kernel.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "base/graph_stream.h"
#include "base/log.h"
#include "base/random.h"
#include "ndarray/run_kernel.h"

namespace troupe::symbol {

namespace {

constexpr double kNanoseconds = 1e-9;
/// Runs of a kernel behind the first, at most, and how long they may take together before the next
/// one begins.
constexpr std::size_t kRunsMost = 7;
constexpr double kRunsSeconds = 0.2;
/// Runs on a stream that are timed as one.
constexpr int kRunsQueued = 8;

/// What outputs of a kernel that is taken by choice alone may be away from those of the first by
/// rule, by the Euclidean norm: sums in another order, and no more.
double allowed_distance(const ops::OpCall& call, base::DType dtype) {
  constexpr double kRounded = 2e-5, kTf32 = 2e-3, kNarrow = 1e-2;
  if (base::is_16_bit(dtype)) return kNarrow;
  return call.tf32 ? kTf32 : kRounded;
}

/// Whether some kernels for the call's device are taken by choice alone.
bool is_compared(const ops::OpCall& call) {
  const bool on_gpu = call.device.kind == base::DeviceKind::cuda;
  return std::ranges::any_of(call.op->kernels, [on_gpu](const ops::KernelDef& kernel) {
    return kernel.by_choice && kernel.on_gpus == on_gpu;
  });
}

/// Numbers from `least` on, of a range of 1, that are no denormals, in an array of any length.
/// Integers are 0.
std::vector<std::byte> numbers(base::DType dtype, float least) {
  constexpr std::size_t kCount = 262'139;  // a prime: rows and images of a tensor differ
  std::vector<std::byte> bytes(kCount * base::dtype_size(dtype));
  if (!base::is_floating(dtype)) return bytes;
  const base::Status filled = ops::with_real(dtype, [&](auto zero) {
    using T = decltype(zero);
    constexpr std::uint32_t kStride = 0x9e3779b9;  // of Weyl's sequence
    T* values = reinterpret_cast<T*>(bytes.data());
    for (std::size_t i = 0; i < kCount; ++i) {
      values[i] =
          static_cast<T>(base::uniform_f32(static_cast<std::uint32_t>(i) * kStride) + least);
    }
    return base::Status();
  });
  TROUPE_CHECK(filled.ok(), "every floating type is real");
  return bytes;
}

/// Of an output on the host: all of it, or both its ends.
struct Sample {
  base::DType dtype;
  std::vector<std::byte> bytes;
};

/// ||a - b|| / ||b||; infinite where either has no number that is one.
double distance(const Sample& a, const Sample& b) {
  double apart = 0, size = 0;
  const base::Status summed = ops::with_real(a.dtype, [&](auto zero) {
    using T = decltype(zero);
    const auto* x = reinterpret_cast<const T*>(a.bytes.data());
    const auto* y = reinterpret_cast<const T*>(b.bytes.data());
    for (std::size_t i = 0; i < a.bytes.size() / sizeof(T); ++i) {
      const auto left = static_cast<double>(x[i]), right = static_cast<double>(y[i]);
      apart += (left - right) * (left - right);
      size += right * right;
    }
    return base::Status();
  });
  TROUPE_CHECK(summed.ok(), "every floating type is real");
  const double relative = apart == 0 ? 0.0 : std::sqrt(apart / size);
  return std::isfinite(apart) && std::isfinite(relative) ? relative
                                                         : std::numeric_limits<double>::infinity();
}

/// In the lane's order; on a stream without waiting.
base::Status copy(engine::RunContext& lane, std::byte* to, const std::byte* from,
                  std::size_t bytes) {
  if (bytes == 0) return {};
  if (lane.stream != nullptr) return lane.stream->copy(to, from, bytes);
  std::memcpy(to, from, bytes);
  return {};
}

/// A kernel with memory of its own.
class Bench {
 public:
  /// For an offer of the call.
  base::Status prepare(ndarray::Runtime& runtime, const ops::OpCall& call,
                       const ops::Offer& offer) {
    TROUPE_TRY_ASSIGN(kernel_, offer.maker->prepare(call));
    // Products of numbers of both signs: rounded factors show in them.
    least_ = is_compared(call) ? -0.5F : 0.0F;
    base::BufferPool& pool = runtime.storage.pool(call.device);
    names_ = call.op->inputs(call.params);
    for (std::size_t i = 0; i < call.inputs.size(); ++i) {
      TROUPE_TRY(add(pool, call.device, call.inputs[i], offer.inputs[i], inputs_));
    }
    for (std::size_t i = 0; i < call.outputs.size(); ++i) {
      TROUPE_TRY(add(pool, call.device, call.outputs[i], offer.outputs[i], outputs_));
    }
    TROUPE_TRY_ASSIGN(scratch_, pool.allocate(offer.scratch_bytes, "autotune"));
    return {};
  }

  /// Runs it for the first time, which warms it up; samples() has the outputs' then, where they are
  /// `wanted`, else none. After an error the lane may still use what the object has.
  base::Status compute(engine::RunContext& lane, bool wanted) {
    for (std::size_t i = 0; i < inputs_.size(); ++i) {
      TROUPE_TRY(names_[i] == "label" ? clear(lane, inputs_[i]) : fill(lane, inputs_[i]));
    }
    for (const base::TensorView& view : outputs_) TROUPE_TRY(fill(lane, view));
    TROUPE_TRY(run(lane));
    if (wanted) {
      for (const base::TensorView& view : outputs_) {
        TROUPE_TRY(sample(lane, view, samples_.emplace_back()));
      }
    }
    return lane.stream == nullptr ? base::Status() : lane.stream->record()->wait_on_host();
  }
  std::vector<Sample>& samples() { return samples_; }

  /// The median of a few more.
  base::Result<double> seconds(engine::RunContext& lane, const base::Clock& clock) {
    const int together = lane.stream == nullptr ? 1 : kRunsQueued;
    if (lane.stream != nullptr) TROUPE_TRY(write_down(lane));
    std::vector<double> runs;
    double sum = 0;
    do {
      TROUPE_TRY_ASSIGN(const double next,
                        lane.stream == nullptr ? run_timed(lane, clock) : run_queued(lane, clock));
      runs.push_back(next);
      sum += next * together;
    } while (runs.size() < kRunsMost && sum < kRunsSeconds);
    const auto middle = runs.begin() + static_cast<std::ptrdiff_t>(runs.size() / 2);
    std::nth_element(runs.begin(), middle, runs.end());
    return *middle;
  }

 private:
  base::Status add(base::BufferPool& pool, base::Device device, const ops::TensorDesc& desc,
                   const base::Layout& layout, std::vector<base::TensorView>& views) {
    base::TensorView view{nullptr, desc.dtype, desc.shape, layout, device};
    TROUPE_TRY_ASSIGN(base::Buffer buffer,
                      pool.allocate(static_cast<std::size_t>(view.bytes()), "autotune"));
    view.data = buffer.data();
    memory_.push_back(std::move(buffer));
    views.push_back(std::move(view));
    return {};
  }
  /// Every class is the first: a number between two is none.
  static base::Status clear(engine::RunContext& lane, const base::TensorView& view) {
    auto* const to = static_cast<std::byte*>(view.data);
    const auto bytes = static_cast<std::size_t>(view.bytes());
    if (bytes == 0) return {};
    if (lane.stream != nullptr) return lane.stream->clear(to, bytes);
    std::memset(to, 0, bytes);
    return {};
  }
  /// By copies of what is there already: those of a device take next to no time.
  base::Status fill(engine::RunContext& lane, const base::TensorView& view) {
    std::vector<std::byte>& known = numbers_[view.dtype];
    if (known.empty()) known = numbers(view.dtype, least_);
    auto* const to = static_cast<std::byte*>(view.data);
    const auto bytes = static_cast<std::size_t>(view.bytes());
    std::size_t done = std::min(known.size(), bytes);
    TROUPE_TRY(copy(lane, to, known.data(), done));
    while (done < bytes) {
      const std::size_t next = std::min(done, bytes - done);
      TROUPE_TRY(copy(lane, to + done, to, next));
      done += next;
    }
    return {};
  }
  static base::Status sample(engine::RunContext& lane, const base::TensorView& view,
                             Sample& sample) {
    constexpr std::size_t kEndBytes = std::size_t{8} << 20;
    const auto bytes = static_cast<std::size_t>(view.bytes());
    const std::size_t first = bytes <= 2 * kEndBytes ? bytes : kEndBytes;
    const std::size_t last = bytes <= 2 * kEndBytes ? 0 : kEndBytes;
    const auto* const from = static_cast<const std::byte*>(view.data);
    sample.dtype = view.dtype;
    sample.bytes.resize(first + last);
    TROUPE_TRY(copy(lane, sample.bytes.data(), from, first));
    if (last == 0) return {};
    return copy(lane, sample.bytes.data() + first, from + bytes - last, last);
  }

  base::Status run(engine::RunContext& lane) const {
    const ndarray::KernelBuffers buffers{
        .inputs = inputs_, .outputs = outputs_, .scratch = {scratch_.data(), scratch_.size()}};
    return ndarray::run_kernel(kernel_, buffers, lane);
  }
  base::Result<double> run_timed(engine::RunContext& lane, const base::Clock& clock) const {
    const std::int64_t start = clock.now_ns();
    TROUPE_TRY(run(lane));
    return static_cast<double>(clock.now_ns() - start) * kNanoseconds;
  }
  /// kRunsQueued runs as a graph, where stream and kernel go with that: as in a step, what the host
  /// takes to issue them does not count then.
  base::Status write_down(engine::RunContext& lane) {
    graphs_ = dynamic_cast<base::GraphStream*>(lane.stream);
    if (graphs_ == nullptr) return {};
    TROUPE_TRY(graphs_->begin_graph());
    base::Status status;
    for (int i = 0; i < kRunsQueued && status.ok(); ++i) status = run(lane);
    auto graph = graphs_->end_graph();
    if (status.ok() && graph.ok()) graph_ = *std::move(graph);
    return {};
  }
  base::Status issue(engine::RunContext& lane) const {
    if (graph_ != nullptr) return graphs_->launch(graph_);
    for (int i = 0; i < kRunsQueued; ++i) TROUPE_TRY(run(lane));
    return {};
  }
  /// One of several behind each other, and behind others of which the device is not done when the
  /// time begins. By the stream's own times, where it knows any.
  base::Result<double> run_queued(engine::RunContext& lane, const base::Clock& clock) const {
    TROUPE_TRY(issue(lane));
    const auto first = lane.stream->record_timed();
    if (first == nullptr) TROUPE_TRY(lane.stream->record()->wait_on_host());
    const std::int64_t start = clock.now_ns();
    TROUPE_TRY(issue(lane));
    const auto last = first == nullptr ? lane.stream->record() : lane.stream->record_timed();
    TROUPE_TRY(last->wait_on_host());
    std::int64_t taken = clock.now_ns() - start;
    if (first != nullptr) {
      TROUPE_TRY_ASSIGN(taken, last->ns_since(*first));
    }
    return static_cast<double>(taken) * kNanoseconds / kRunsQueued;
  }

  std::shared_ptr<const ops::Kernel> kernel_;
  float least_ = 0;
  std::map<base::DType, std::vector<std::byte>> numbers_;  // copies from it are under way
  std::vector<base::Buffer> memory_;
  std::vector<std::string> names_;  // of the inputs
  std::vector<base::TensorView> inputs_, outputs_;
  base::Buffer scratch_;
  std::vector<Sample> samples_;
  base::GraphStream* graphs_ = nullptr;       // the lane's, if it takes graphs
  std::shared_ptr<base::StreamGraph> graph_;  // null: runs are issued one by one
};

/// What the kernel by rule computed in the newest call, to compare others with.
class Reference {
 public:
  /// Keeps it, or compares with it: an error where a kernel computes something else.
  base::Status look(const ops::OpCall& call, const ops::Offer& offer, std::vector<Sample> outputs) {
    if (!call_ || !(*call_ == call)) known_.clear();
    call_ = call;
    if (!offer.maker->by_choice) {
      if (!known_.empty()) return {};
      layouts_ = offer.outputs;
      known_ = std::move(outputs);
      return {};
    }
    if (known_.empty() || layouts_ != offer.outputs) {
      return base::error(base::Errc::failed_precondition, "{}: nothing to compare it with",
                         offer.kernel);
    }
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      TROUPE_TRY(compare(offer, outputs[i], known_[i], allowed_distance(call, outputs[i].dtype)));
    }
    return {};
  }

 private:
  static base::Status compare(const ops::Offer& offer, const Sample& output, const Sample& known,
                              double allowed) {
    if (!base::is_floating(output.dtype)) {
      if (output.bytes == known.bytes) return {};
      return base::error(base::Errc::data_loss, "{}: it computes something else", offer.kernel);
    }
    const double away = distance(output, known);
    if (away <= allowed) return {};
    return base::error(base::Errc::data_loss, "{}: its results are {:.1e} away, more than {:.0e}",
                       offer.kernel, away, allowed);
  }

  std::optional<ops::OpCall> call_;
  std::vector<base::Layout> layouts_;
  std::vector<Sample> known_;  // one per output
};

base::Result<double> measure(ndarray::Runtime& runtime, Reference& reference,
                             const ops::OpCall& call, const ops::Offer& offer) {
  Bench bench;
  TROUPE_TRY(bench.prepare(runtime, call, offer));
  double seconds = 0;
  const engine::Variable done = runtime.engine.new_variable("autotune");
  const engine::Operation operation{.name = "autotune",
                                    .lane = {call.device, engine::LaneKind::compute},
                                    .overwrites = {&done, 1}};
  const auto measured = [&](engine::RunContext& lane) -> base::Status {
    const bool compared = is_compared(call);
    TROUPE_TRY(bench.compute(lane, compared));
    if (compared) TROUPE_TRY(reference.look(call, offer, std::move(bench.samples())));
    TROUPE_TRY_ASSIGN(seconds, bench.seconds(lane, runtime.clock));
    return {};
  };
  const auto work = [&](engine::RunContext& lane) -> base::Status {
    const base::Status status = measured(lane);
    // Nothing that was issued outlives the tensors.
    if (!status.ok() && lane.stream != nullptr) {
      static_cast<void>(lane.stream->record()->wait_on_host());
    }
    return status;
  };
  ndarray::push_on_lane(runtime.engine, operation, work);
  TROUPE_TRY(runtime.engine.wait(done));
  return seconds;
}

}  // namespace

double seconds_of_runs(double seconds) {
  return seconds + std::min(kRunsMost * seconds, kRunsSeconds + seconds);
}

MeasureFunction measure_on(ndarray::Runtime& runtime) {
  return [&runtime, reference = std::make_shared<Reference>()](const ops::OpCall& call,
                                                               const ops::Offer& offer) {
    base::Result<double> seconds = measure(runtime, *reference, call, offer);
    // Tensors of other calls have other sizes, and a device's libraries need memory beside the
    // pool.
    if (ndarray::uses_stream(call.device)) runtime.storage.trim();
    if (seconds.status().code() == base::Errc::data_loss) {
      base::log_warn("autotune: {}: {}", call.op->name, seconds.status().text());
    }
    return seconds;
  };
}

}  // namespace troupe::symbol
