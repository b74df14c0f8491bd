// SPDX-License-Identifier: Apache-2.0
// Which two runs to add next, and additions and copies as operations of streams.
#include "train/device_sums.h"

#include <algorithm>
#include <array>
#include <set>

#include "base/check.h"
#include "engine/metrics.h"
#include "gpu/memory.h"
#include "gpu/stream.h"
#include "ndarray/run_kernel.h"
#include "storage/metrics.h"

namespace troupe::train {

using base::Buffer;
using store::TreeNode;

/// An addition, or with `right` empty the copy of a complete sum to the host.
struct DeviceSums::Work {
  SumName name;
  std::uint64_t addition = 0;  // its name to Sum::values
  TreeNode node;               // of a copy
  Buffer left, right;
  Buffer host;                 // of a copy: where to
  std::vector<RunPart> parts;  // of an addition
  int priority = 0;
};

/// A work between its begin and its end. One that is dropped on the way, as when memory for its
/// operation is missing, is a failure: nobody waits for it in vain.
class DeviceSums::Running {
 public:
  Running(DeviceSums& sums, Work the_work) : work(std::move(the_work)), sums_(sums) {}
  ~Running() {
    if (!ended_) sums_.fail(base::error(base::Errc::internal, "work on a sum was dropped"));
  }
  Running(const Running&) = delete;
  Running& operator=(const Running&) = delete;

  void end(base::Result<Buffer> result) {
    ended_ = true;
    if (result.ok()) return sums_.done(work, *std::move(result));
    sums_.fail(
        result.status().with_context("adding gradients on " + work.left.device().to_string()));
  }

  const Work work;
  std::vector<Buffer> scratch;  // of its kernels, until its end

 private:
  DeviceSums& sums_;
  bool ended_ = false;
};

struct DeviceSums::Todo {
  std::vector<Work> work;
  std::vector<engine::Completion> ended;
};

namespace {

constexpr engine::Lane kHostCopy{{}, engine::LaneKind::copy};

std::set<base::Device> devices_of(std::span<const SumRank> ranks) {
  std::set<base::Device> devices;
  for (const SumRank& at : ranks) devices.insert(at.device);
  return devices;
}

bool has_streams(base::Device device, std::span<base::Stream* const> given) {
  if (given.empty()) return device.kind == base::DeviceKind::cuda;
  return std::ranges::any_of(given, [&](base::Stream* at) { return at->device() == device; });
}

base::Result<std::shared_ptr<const ops::Kernel>> addition_kernel(
    const RunPart& part, base::Device device, int team, const ops::OpTable& table,
    ndarray::PreparedKernels& kernels) {
  const ops::TensorDesc values{part.wire, base::Shape{part.elements}, {}, false};
  ops::OpCall call;
  call.op = &table.at("add");
  TROUPE_TRY_ASSIGN(call.params, ops::Params::parse(call.op->params, {}));
  call.inputs = {values, values};
  call.outputs = {values};
  call.device = device;
  call.team = team;
  return kernels.get(call);
}

}  // namespace

DeviceSums::DeviceSums(const schemas::JobSpec& job, std::span<const SumRank> ranks,
                       const ops::OpTable& table)
    : tree_(job.workers.machines, job.workers.devices),
      table_(table),
      ranks_(ranks.begin(), ranks.end()),
      storage_({.cache_bytes_max = job.limits.pool_cache_bytes_max}),
      kernels_(job.limits.prepared_kernels_max) {
  std::vector<std::uint32_t> numbers;
  for (const SumRank& at : ranks_) numbers.push_back(at.rank);
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
  if (job.consistency.device.mode != schemas::ConsistencyMode::sequential) return made;
  for (const SumRank& at : ranks) {
    if (!ndarray::uses_stream(at.device) || !has_streams(at.device, options.streams)) return made;
  }
  made.reset(new DeviceSums(job, ranks, table));
  if (!made->needed()) return std::unique_ptr<DeviceSums>();
  TROUPE_TRY(made->open(clock, options));
  return made;
}

base::Status DeviceSums::open(base::Clock& clock, const DeviceSumsOptions& options) {
  const std::set<base::Device> devices = devices_of(ranks_);
  engine::EngineOptions how;
  how.copy_threads = static_cast<int>(devices.size());  // each waits for one device at a time
  how.thread_name = "sums";
  how.streams = options.streams;
  if (how.streams.empty()) {
    for (const base::Device device : devices) {
      for (const auto priority : {gpu::StreamPriority::high, gpu::StreamPriority::normal}) {
        TROUPE_TRY_ASSIGN(streams_.emplace_back(), gpu::make_stream(device, priority));
        how.streams.push_back(streams_.back().get());
      }
    }
    gpu::allow_peer_access({devices.begin(), devices.end()});
  }
  engine_ = engine::make_threaded_engine(how, clock);
  if (options.metrics == nullptr) return {};
  shown_.push_back(engine::show_engine(*options.metrics, *engine_, options.name));
  shown_.push_back(storage::show_storage(*options.metrics, storage_, options.name));
  return {};
}

// Of ranks that were stopped; what runs still ends, and begins nothing more.
DeviceSums::~DeviceSums() {
  fail(base::error(base::Errc::cancelled, "the process of these ranks ends"));
}

GradientWay DeviceSums::way(std::uint32_t rank) const {
  for (const TreeNode& node : nodes_) {
    const store::RankRange range = tree_.ranks_of(node);
    if (rank == range.begin) return GradientWay::sum_lead;
    if (range.begin < rank && rank < range.end) return GradientWay::sum_member;
  }
  return GradientWay::to_host;
}

std::string DeviceSums::ranks_text(std::uint32_t lead) const {
  const auto found = std::ranges::find_if(
      nodes_, [&](const TreeNode& node) { return tree_.ranks_of(node).begin == lead; });
  return store::node_text(tree_, found == nodes_.end() ? tree_.leaf(lead) : *found);
}

std::shared_ptr<const double> DeviceSums::push(ndarray::Runtime& runtime, const SumPush& push,
                                               const std::shared_ptr<const KeyRun>& run) {
  TROUPE_CHECK(way(push.rank) != GradientWay::to_host, "a rank that shares no sum pushes to one");
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
                                    .lane = kHostCopy,
                                    .priority = push.priority,
                                    .overwrites = written};
  runtime.engine.push_async(
      operation, [this, push, run, counted](engine::RunContext&, engine::Completion completion) {
        take(push, *run, {std::move(completion), run->host_block, counted});
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
      const SumName name{push.step, push.run};
      const auto [found, made] = sums_.try_emplace(name, tree_);
      Sum& sum = found->second;
      if (made) {
        sum.parts = run.parts;
        sum.open = nodes_;
        sum.priority = push.priority;
      }
      TROUPE_CHECK(sum.ranks.emplace(push.rank, std::move(waiting)).second,
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

/// What can be done now. Erases the sum when nothing is left of it.
void DeviceSums::advance(const SumName& name, Sum& sum, Todo& todo) {
  while (auto next = sum.values.next_addition()) {
    todo.work.push_back({name,
                         next->id,
                         next->node,
                         std::move(next->left),
                         std::move(next->right),
                         {},
                         sum.parts,
                         sum.priority});
  }
  std::erase_if(sum.open, [&](const TreeNode& node) TROUPE_REQUIRES(mutex_) {
    const store::SumPart* part = sum.values.part(node);
    if (part == nullptr) return false;
    Waiting& lead = sum.ranks.at(tree_.ranks_of(node).begin);
    *lead.counted = part->count;
    if (part->data) {
      todo.work.push_back({name, 0, node, part->data, {}, lead.host, {}, sum.priority});
    } else {
      end_node(sum, node, todo);  // nobody had a sample
    }
    return true;
  });
  if (sum.open.empty() && sum.ranks.empty()) sums_.erase(name);
}

/// Nobody reads the gradients of the node's ranks any more.
void DeviceSums::end_node(Sum& sum, const TreeNode& node, Todo& todo) {
  const store::RankRange range = tree_.ranks_of(node);
  for (std::uint32_t rank = range.begin; rank < range.end; ++rank) {
    todo.ended.push_back(std::move(sum.ranks.at(rank).completion));
    sum.ranks.erase(rank);
  }
}

void DeviceSums::perform(Todo todo) {
  for (Work& work : todo.work) start(std::make_shared<Running>(*this, std::move(work)));
  for (engine::Completion& completion : todo.ended) completion.complete();
}

/// Issues a work on the device that holds its left side; the end is awaited by a thread of the
/// host.
void DeviceSums::start(std::shared_ptr<Running> running) {
  const Work& work = running->work;
  const bool adds = static_cast<bool>(work.right);
  const engine::Lane lane{work.left.device(),
                          adds ? engine::LaneKind::compute : engine::LaneKind::copy};
  const std::string_view name = adds ? "add gradients" : "sum to the host";
  const int priority = work.priority;
  engine_->push_stream(
      {name, {}, {}, lane, priority},
      [this, running = std::move(running), priority](engine::RunContext& context) -> base::Status {
        base::Result<Buffer> result = issue(*running, context);
        // Also behind a failure: what was issued still reads.
        engine_->push({"sum is there", {}, {}, kHostCopy, priority},
                      [running, result = std::move(result),
                       event = context.stream->record()](engine::RunContext&) {
                        const base::Status status = event->wait_on_host();
                        running->end(status.ok() || !result.ok() ? result : status);
                        return base::Status();
                      });
        return {};
      });
}

base::Result<Buffer> DeviceSums::issue(Running& running, engine::RunContext& lane) {
  const Work& work = running.work;
  if (work.right) return issue_addition(running, lane);
  TROUPE_TRY(lane.stream->copy(work.host.data(), work.left.data(), work.host.size()));
  return work.host;
}

/// left + right, on the device of `left`. What lies on another device comes here first.
base::Result<Buffer> DeviceSums::issue_addition(Running& running, engine::RunContext& lane) {
  const Work& work = running.work;
  const base::Device device = work.left.device();
  TROUPE_CHECK(work.left.size() == work.right.size(), "addition of runs of different sizes");
  TROUPE_TRY_ASSIGN(Buffer sum, storage_.pool(device).allocate(work.left.size(), "gradient sums"));
  const bool near = work.right.device() == device;
  const Buffer& right = near ? work.right : sum;
  if (!near) TROUPE_TRY(lane.stream->copy(sum.data(), work.right.data(), sum.size()));
  for (const RunPart& part : work.parts) {
    TROUPE_TRY_ASSIGN(const auto kernel,
                      addition_kernel(part, device, lane.team, table_, kernels_));
    TROUPE_TRY_ASSIGN(Buffer scratch,
                      storage_.pool(device).allocate(kernel->scratch_bytes(), "gradient sums"));
    const auto view = [&](const Buffer& buffer) {
      return base::TensorView{
          buffer.data() + part.travel_offset, part.wire, base::Shape{part.elements}, {}, {}};
    };
    const std::array inputs = {view(work.left), view(right)};
    const std::array outputs = {view(sum)};
    const ndarray::KernelBuffers buffers{.inputs = inputs,
                                         .outputs = outputs,
                                         .scratch = {scratch.data(), scratch.size()},
                                         .fresh = near};
    running.scratch.push_back(std::move(scratch));
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
    Sum& sum = found->second;
    if (work.right) {
      sum.values.added(work.addition, std::move(result));
    } else {
      end_node(sum, work.node, todo);
    }
    advance(work.name, sum, todo);
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
