// SPDX-License-Identifier: Apache-2.0
// Which two runs to add next, and additions and copies as operations of streams.
#include "train/device_sums.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>

#include "base/check.h"
#include "base/log.h"
#include "engine/metrics.h"
#include "gpu/memory.h"
#include "gpu/stream.h"
#include "ndarray/flat_call.h"
#include "ndarray/run_kernel.h"
#include "storage/metrics.h"

namespace troupe::train {

using base::Buffer;
using store::TreeNode;

/// An addition, or with `right` empty the copy of a complete sum to the host.
struct DeviceSums::Work {
  SumName name;
  std::uint64_t addition = 0;  // its name to Sum::values
  Buffer left, right;
  bool left_fresh = false, right_fresh = false;
  Buffer host;                 // of a copy: where to
  std::vector<RunPart> parts;  // of an addition
  int priority = 0;

  std::string text() const {
    const std::string from = left.device().to_string();
    return right ? fmt::format("adding gradients of {} to those of {}", right.device().to_string(),
                               from)
                 : fmt::format("copying a sum of gradients from {}", from);
  }
};

struct DeviceSums::Todo {
  std::vector<Work> work;
  std::vector<engine::Completion> ended;
};

/// Fails all sums where a scope is left by an exception: nobody waits in vain.
class DeviceSums::Alarm {
 public:
  explicit Alarm(DeviceSums& sums) : sums_(sums) {}
  ~Alarm() {
    if (!off_) sums_.fail(sums_.dropped_);
  }
  Alarm(const Alarm&) = delete;
  Alarm& operator=(const Alarm&) = delete;
  void off() { off_ = true; }

 private:
  DeviceSums& sums_;
  bool off_ = false;
};

/// A work from its begin to its end. What it reads and writes stays until the device is done. One
/// whose end never comes, since its operation failed, is a failure.
class DeviceSums::Running {
 public:
  Running(DeviceSums& sums, Work the_work) : work(std::move(the_work)), sums_(sums) {}
  ~Running() {
    if (ended_) return;
    const base::Status status = found();
    sums_.fail(status.ok() ? sums_.dropped_ : status.with_context(work.text()));
  }
  Running(const Running&) = delete;
  Running& operator=(const Running&) = delete;

  /// Once, on the lane.
  void begin(engine::RunContext& lane) {
    result_ = sums_.issue(*this, lane);
    event_ = lane.stream->record();  // behind a failure, too: what was issued still reads
  }
  /// Once the device is done.
  void end() {
    const base::Status status = found();
    if (!status.ok()) return;  // the destructor tells
    sums_.done(work, *result_);
    ended_ = true;
  }

  const Work work;
  std::vector<Buffer> scratch;  // of its kernels

 private:
  base::Status found() const {
    const base::Status done = event_ ? event_->wait_on_host() : base::Status();
    return result_.ok() ? done : result_.status();
  }

  DeviceSums& sums_;
  base::Result<Buffer> result_ = Buffer();
  std::shared_ptr<base::Event> event_;
  bool ended_ = false;
};

namespace {

bool has_streams(base::Device device, std::span<base::Stream* const> given) {
  if (given.empty()) return device.kind == base::DeviceKind::cuda;
  return std::ranges::any_of(given, [&](base::Stream* at) { return at->device() == device; });
}

}  // namespace

DeviceSums::DeviceSums(const schemas::JobSpec& job, std::span<const SumRank> ranks,
                       const ops::OpTable& table)
    : tree_(job.workers.machines, job.workers.devices),
      table_(table),
      dropped_(base::Errc::resource_exhausted, "no memory of the host for a sum of gradients"),
      storage_({.cache_bytes_max = job.limits.pool_cache_bytes_max}),
      kernels_(job.limits.prepared_kernels_max) {
  std::vector<std::uint32_t> numbers;
  for (const SumRank& at : ranks) numbers.push_back(at.rank);
  std::ranges::sort(numbers);
  for (const TreeNode& node : tree_.frontier(numbers)) {
    if (tree_.ranks_of(node).size() > 1) nodes_.push_back(node);
  }
}

base::Result<std::unique_ptr<DeviceSums>> DeviceSums::create(const schemas::JobSpec& job,
                                                             std::span<const SumRank> ranks,
                                                             const ops::OpTable& table,
                                                             base::Clock& clock,
                                                             const DeviceSumsOptions& options) {
  std::unique_ptr<DeviceSums> made;
  const bool by_steps = job.consistency.device.mode == schemas::ConsistencyMode::sequential;
  if (!job.workers.gpu_sums || !by_steps) return made;
  for (const SumRank& at : ranks) {
    if (!ndarray::uses_stream(at.device) || !has_streams(at.device, options.streams)) return made;
  }
  made.reset(new DeviceSums(job, ranks, table));
  if (made->nodes_.empty()) return std::unique_ptr<DeviceSums>();
  TROUPE_TRY(made->open(ranks, clock, options));
  return made;
}

base::Status DeviceSums::open(std::span<const SumRank> ranks, base::Clock& clock,
                              const DeviceSumsOptions& options) {
  std::vector<base::Device> opened;
  for (const auto& [rank, device] : ranks) {
    if (node_of(rank) == nullptr || devices_.contains(device)) continue;
    TROUPE_TRY_ASSIGN(OnDevice made, open_device(device, clock, options));
    devices_.emplace(device, std::move(made));
    opened.push_back(device);
  }
  if (options.streams.empty()) {
    for (const auto& [device, peer] : gpu::allow_peer_access(opened)) {
      base::log_info(
          "{} cannot read the memory of {}: gradients between them pass through the host",
          device.to_string(), peer.to_string());
    }
  }
  if (options.metrics != nullptr) {
    shown_.push_back(storage::show_storage(*options.metrics, storage_, options.name));
  }
  return {};
}

base::Result<DeviceSums::OnDevice> DeviceSums::open_device(base::Device device, base::Clock& clock,
                                                           const DeviceSumsOptions& options) {
  OnDevice made;
  engine::EngineOptions how;
  how.thread_name = options.name + " " + device.to_string();
  for (base::Stream* stream : options.streams) {
    if (stream->device() == device) how.streams.push_back(stream);
  }
  if (how.streams.empty()) {
    for (const auto priority : {gpu::StreamPriority::high, gpu::StreamPriority::normal}) {
      TROUPE_TRY_ASSIGN(made.streams.emplace_back(), gpu::make_stream(device, priority));
      how.streams.push_back(made.streams.back().get());
    }
  }
  made.engine = engine::make_threaded_engine(how, clock);
  if (options.metrics != nullptr) {
    shown_.push_back(engine::show_engine(*options.metrics, *made.engine, how.thread_name));
  }
  return made;
}

// Ranks may have been stopped. What has begun still ends, and what it has begun on another device
// until now; there is nothing to begin after that.
DeviceSums::~DeviceSums() {
  fail(base::error(base::Errc::cancelled, "the process of these ranks ends"));
  for (int round = 0; round < 2; ++round) {
    for (const auto& [device, at] : devices_) static_cast<void>(at.engine->wait_all());
  }
}

const TreeNode* DeviceSums::node_of(std::uint32_t rank) const {
  const auto found = std::ranges::find_if(nodes_, [&](const TreeNode& node) {
    const store::RankRange range = tree_.ranks_of(node);
    return range.begin <= rank && rank < range.end;
  });
  return found == nodes_.end() ? nullptr : &*found;
}

GradientWay DeviceSums::way(std::uint32_t rank) const {
  const TreeNode* node = node_of(rank);
  if (node == nullptr) return GradientWay::to_host;
  return tree_.ranks_of(*node).begin == rank ? GradientWay::sum_lead : GradientWay::sum_member;
}

std::string DeviceSums::ranks_text(std::uint32_t lead) const {
  return store::node_text(tree_,
                          way(lead) == GradientWay::sum_lead ? *node_of(lead) : tree_.leaf(lead));
}

std::shared_ptr<const double> DeviceSums::push(ndarray::Runtime& runtime, const SumPush& push,
                                               const std::shared_ptr<const KeyRun>& run) {
  TROUPE_CHECK(node_of(push.rank) != nullptr, "a rank that shares no sum pushes to one");
  auto counted = std::make_shared<double>(0.0);
  std::vector<engine::Variable> reads, written;
  if (run->rounded) {
    reads.push_back(run->rounded.variable());
  } else {
    for (const ndarray::NDArray& array : run->device) reads.push_back(array.variable());
  }
  for (const ndarray::NDArray& array : run->host) written.push_back(array.variable());
  const engine::Operation operation{.name = "gradients to a sum",
                                    .reads = reads,
                                    .lane = engine::kHostCopyLane,
                                    .priority = push.priority,
                                    .overwrites = written};
  runtime.engine.push_async(
      operation, [this, push, run, counted](engine::RunContext&, engine::Completion completion) {
        Alarm alarm(*this);
        take(push, *run, {std::move(completion), run->host_block, counted});
        alarm.off();
      });
  return counted;
}

void DeviceSums::take(const SumPush& push, const KeyRun& run, Waiting waiting) {
  Todo todo;
  base::Status failure;
  {
    const base::MutexLock lock(mutex_);
    failure = failure_;
    if (failure.ok()) {
      const SumName name{push.step, push.run, *node_of(push.rank)};
      const auto [found, made] = sums_.try_emplace(name, tree_);
      Sum& sum = found->second;
      if (made) {
        sum.parts = run.parts;
        sum.priority = push.priority;
      }
      TROUPE_CHECK(sum.ranks.try_emplace(push.rank, std::move(waiting)).second,
                   "a rank pushes a run twice in a step");
      const bool taken = sum.values.offer(
          tree_.leaf(push.rank), push.count == 0.0 ? Buffer() : run.travel_block(), push.count);
      TROUPE_CHECK(taken, "a rank's gradients are in a sum already");
      advance(name, sum, todo);
    }
  }
  if (!failure.ok()) return waiting.completion.complete(failure);
  perform(std::move(todo));
}

/// What can be done now. A sum of nothing ends here.
void DeviceSums::advance(const SumName& name, Sum& sum, Todo& todo) {
  while (auto next = sum.values.next_addition()) {
    todo.work.push_back({name,
                         next->id,
                         std::move(next->left),
                         std::move(next->right),
                         next->left_fresh,
                         next->right_fresh,
                         {},
                         sum.parts,
                         sum.priority});
  }
  const store::SumPart* whole = sum.values.part(name.node);
  if (whole == nullptr) return;
  const Waiting& lead = sum.ranks.at(tree_.ranks_of(name.node).begin);
  *lead.counted = whole->count;
  if (!whole->data) return end(name, todo);  // nobody had a sample
  todo.work.push_back({.name = name,
                       .left = whole->data,
                       .right = {},
                       .host = lead.host,
                       .parts = {},
                       .priority = sum.priority});
}

/// Nobody reads the ranks' gradients any more.
void DeviceSums::end(const SumName& name, Todo& todo) {
  auto sum = sums_.extract(name);
  for (auto& [rank, waiting] : sum.mapped().ranks) {
    todo.ended.push_back(std::move(waiting.completion));
  }
}

void DeviceSums::perform(Todo todo) {
  for (Work& work : todo.work) start(std::make_shared<Running>(*this, std::move(work)));
  for (engine::Completion& completion : todo.ended) completion.complete();
}

/// Issues a work on the device that holds its left side. The lane's own thread waits for its end.
void DeviceSums::start(std::shared_ptr<Running> running) {
  const Work& work = running->work;
  const base::Device device = work.left.device();
  const bool adds = static_cast<bool>(work.right);
  const engine::Lane lane{device, adds ? engine::LaneKind::compute : engine::LaneKind::copy};
  engine::Engine& engine = *devices_.at(device).engine;
  const std::array there = {engine.new_variable("sum")};
  engine.push_stream(
      {adds ? "add gradients" : "sum to the host", {}, {}, lane, work.priority, there},
      [running](engine::RunContext& context) -> base::Status {
        running->begin(context);
        return {};
      });
  engine.push({"sum is there", there, {}, engine::kHostCopyLane, 0},
              [running = std::move(running)](engine::RunContext&) -> base::Status {
                running->end();
                return {};
              });
}

base::Result<Buffer> DeviceSums::issue(Running& running, engine::RunContext& lane) {
  const Work& work = running.work;
  if (work.right) return issue_addition(running, lane);
  TROUPE_TRY(lane.stream->copy(work.host.data(), work.left.data(), work.host.size()));
  return work.host;
}

/// left + right, on the device of `left`: what lies on another device comes here first. Where one
/// of the two is a sum that nobody else reads, its bytes become the new one's.
base::Result<Buffer> DeviceSums::issue_addition(Running& running, engine::RunContext& lane) {
  const Work& work = running.work;
  const base::Device device = work.left.device();
  TROUPE_CHECK(work.left.size() == work.right.size(), "addition of runs of different sizes");
  const bool near = work.right.device() == device;
  Buffer sum;
  if (near && work.left_fresh) {
    sum = work.left;
  } else if (near && work.right_fresh) {
    sum = work.right;
  } else {
    auto made = storage_.pool(device).allocate(work.left.size(), "gradient sums");
    if (!made.ok()) {
      return made.status().with_context("beside its workers, which keep what they have taken");
    }
    sum = *std::move(made);
  }
  if (!near) TROUPE_TRY(lane.stream->copy(sum.data(), work.right.data(), sum.size()));
  const Buffer& right = near ? work.right : sum;
  for (const RunPart& part : work.parts) {
    const ndarray::FlatCall call =
        ndarray::flat_addition(part.wire, part.elements, device, lane.team);
    TROUPE_TRY_ASSIGN(const auto kernel, ndarray::flat_kernel(call, table_, kernels_));
    const auto view = [&](const Buffer& buffer) {
      return ndarray::flat_view(buffer.data() + part.travel_offset, part.wire, part.elements);
    };
    const std::array inputs = {view(work.left), view(right)};
    const std::array outputs = {view(sum)};
    ndarray::KernelBuffers buffers{.inputs = inputs, .outputs = outputs, .scratch = {}};
    buffers.fresh = near && !work.left_fresh && !work.right_fresh;
    if (const std::size_t bytes = kernel->scratch_bytes(); bytes > 0) {
      TROUPE_TRY_ASSIGN(Buffer scratch, storage_.pool(device).allocate(bytes, "gradient sums"));
      buffers.scratch = {scratch.data(), scratch.size()};
      running.scratch.push_back(std::move(scratch));
    }
    TROUPE_TRY(ndarray::run_kernel(kernel, buffers, lane));
  }
  return sum;
}

void DeviceSums::done(const Work& work, Buffer result) {
  Todo todo;
  {
    const base::MutexLock lock(mutex_);
    const auto found = sums_.find(work.name);
    if (found == sums_.end()) return;  // it has failed meanwhile
    if (work.right) {
      found->second.values.added(work.addition, std::move(result));
      advance(work.name, found->second, todo);
    } else {
      end(work.name, todo);
    }
  }
  perform(std::move(todo));
}

void DeviceSums::fail(const base::Status& status) {
  std::map<SumName, Sum> sums;
  {
    const base::MutexLock lock(mutex_);
    if (failure_.ok()) failure_ = status;
    sums.swap(sums_);
  }
  for (auto& [name, sum] : sums) {
    for (auto& [rank, waiting] : sum.ranks) waiting.completion.complete(status);
  }
}

}  // namespace troupe::train
