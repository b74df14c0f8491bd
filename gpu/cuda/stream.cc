// SPDX-License-Identifier: Apache-2.0
// Streams and events by the CUDA runtime. Events are taken from a pool that the stream and its
// events share, since one in use may outlive its stream.
#include "gpu/stream.h"

#include <atomic>
#include <utility>
#include <vector>

#include "base/graph_stream.h"
#include "base/mutex.h"
#include "gpu/cuda/error.h"
#include "gpu/device_scope.h"
#include "gpu/inventory.h"

namespace troupe::gpu {
namespace {

using base::Device;
using base::Status;

/// Who waits for an event sleeps: the processor is wanted for the next batch.
constexpr unsigned kEvent = cudaEventDisableTiming | cudaEventBlockingSync;
constexpr unsigned kTimedEvent = cudaEventBlockingSync;

/// Events of one device and one kind that nobody uses.
class EventPool {
 public:
  EventPool(Device device, unsigned flags) : device_(device), flags_(flags) {}
  ~EventPool() {
    const DeviceScope scope(device_);
    for (cudaEvent_t event : free_) ignore(cudaEventDestroy(event));
  }
  EventPool(const EventPool&) = delete;
  EventPool& operator=(const EventPool&) = delete;

  Device device() const { return device_; }
  base::Result<cudaEvent_t> take() {
    {
      const base::MutexLock lock(mutex_);
      if (!free_.empty()) {
        cudaEvent_t event = free_.back();
        free_.pop_back();
        return event;
      }
    }
    cudaEvent_t event = nullptr;
    TROUPE_TRY(status_of(cudaEventCreateWithFlags(&event, flags_), device_, "cudaEventCreate"));
    return event;
  }
  void give(cudaEvent_t event) {
    const base::MutexLock lock(mutex_);
    free_.push_back(event);
  }

 private:
  const Device device_;
  const unsigned flags_;
  base::Mutex mutex_;
  std::vector<cudaEvent_t> free_ TROUPE_GUARDED_BY(mutex_);
};

/// A recorded event, the error of a stream that could not record one, or an event that has passed.
class CudaEvent final : public base::Event {
 public:
  CudaEvent(std::shared_ptr<EventPool> pool, cudaEvent_t event)
      : pool_(std::move(pool)), event_(event) {}
  explicit CudaEvent(Status failure) : failure_(std::move(failure)) {}
  ~CudaEvent() override {
    if (event_ != nullptr) pool_->give(event_);
  }
  CudaEvent(const CudaEvent&) = delete;
  CudaEvent& operator=(const CudaEvent&) = delete;

  bool passed() const override {
    if (event_ == nullptr || passed_.load(std::memory_order_acquire)) return true;
    // Any thread asks: one without a device would take memory of the first.
    const DeviceScope scope(pool_->device());
    const cudaError_t now = cudaEventQuery(event_);
    ignore(now);
    if (now == cudaErrorNotReady) return false;
    passed_.store(true, std::memory_order_release);  // an error is told by wait_on_host()
    return true;
  }
  Status wait_on_host() const override {
    if (event_ == nullptr) return failure_;
    const DeviceScope scope(pool_->device());
    return status_of(cudaEventSynchronize(event_), pool_->device(), "cudaEventSynchronize");
  }
  base::Result<std::int64_t> ns_since(const base::Event& earlier) const override {
    const auto& from = dynamic_cast<const CudaEvent&>(earlier);
    for (const CudaEvent* event : {&from, this}) {
      if (event->event_ != nullptr) continue;
      TROUPE_TRY(event->failure_);
      return Event::ns_since(earlier);  // none has a time
    }
    constexpr double kNsPerMs = 1e6;
    const DeviceScope scope(pool_->device());
    float ms = 0;
    TROUPE_TRY(status_of(cudaEventElapsedTime(&ms, from.event_, event_), pool_->device(),
                         "cudaEventElapsedTime"));
    return static_cast<std::int64_t>(static_cast<double>(ms) * kNsPerMs);
  }
  cudaEvent_t native() const { return event_; }

 private:
  const std::shared_ptr<EventPool> pool_;
  const cudaEvent_t event_ = nullptr;
  const Status failure_;
  mutable std::atomic<bool> passed_{false};
};

/// A CUDA graph that can be launched. The runtime frees one that is in flight when it is done.
class CudaGraph final : public base::StreamGraph {
 public:
  CudaGraph(Device device, cudaGraphExec_t graph) : device_(device), graph_(graph) {}
  ~CudaGraph() override {
    const DeviceScope scope(device_);
    ignore(cudaGraphExecDestroy(graph_));
  }
  CudaGraph(const CudaGraph&) = delete;
  CudaGraph& operator=(const CudaGraph&) = delete;

  cudaGraphExec_t native() const { return graph_; }

 private:
  const Device device_;
  const cudaGraphExec_t graph_;
};

class CudaStream final : public base::GraphStream {
 public:
  CudaStream(Device device, cudaStream_t stream)
      : device_(device),
        stream_(stream),
        events_(std::make_shared<EventPool>(device, kEvent)),
        timed_events_(std::make_shared<EventPool>(device, kTimedEvent)) {}
  ~CudaStream() override {
    const DeviceScope scope(device_);
    ignore(cudaStreamSynchronize(stream_));
    ignore(cudaStreamDestroy(stream_));
  }
  CudaStream(const CudaStream&) = delete;
  CudaStream& operator=(const CudaStream&) = delete;

  Device device() const override { return device_; }
  void* native() const override { return stream_; }
  void attach() override {
    keep(status_of(cudaSetDevice(device_.index), device_, "cudaSetDevice"));
    attached_device = device_.index;
  }
  void enqueue_host(std::function<Status()>) override {
    TROUPE_CHECK(false, "a host closure on a stream of the CUDA runtime");
  }
  Status copy(std::byte* to, const std::byte* from, std::size_t bytes) override {
    if (bytes == 0) return {};
    return status_of(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, stream_), device_,
                     "cudaMemcpyAsync");
  }
  Status clear(std::byte* to, std::size_t bytes) override {
    if (bytes == 0) return {};
    return status_of(cudaMemsetAsync(to, 0, bytes, stream_), device_, "cudaMemsetAsync");
  }

  std::shared_ptr<base::Event> record() override { return record_of(events_); }
  std::shared_ptr<base::Event> record_timed() override { return record_of(timed_events_); }
  void wait_for(const std::shared_ptr<base::Event>& event) override {
    const auto* own = dynamic_cast<const CudaEvent*>(event.get());
    if (own == nullptr || own->native() == nullptr) {  // a stream of another kind, or an error
      keep(event->wait_on_host());
      return;
    }
    keep(status_of(cudaStreamWaitEvent(stream_, own->native(), 0), device_, "cudaStreamWaitEvent"));
  }

  // Other threads may call what a capture forbids to its own thread: their streams are not part of
  // it, and no stream here waits for the default one.
  Status begin_graph() override {
    return status_of(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeThreadLocal), device_,
                     "cudaStreamBeginCapture");
  }
  base::Result<std::shared_ptr<base::StreamGraph>> end_graph() override {
    cudaGraph_t graph = nullptr;
    TROUPE_TRY(status_of(cudaStreamEndCapture(stream_, &graph), device_, "cudaStreamEndCapture"));
    cudaGraphExec_t ready = nullptr;
    const Status made =
        status_of(cudaGraphInstantiate(&ready, graph, 0), device_, "cudaGraphInstantiate");
    ignore(cudaGraphDestroy(graph));
    TROUPE_TRY(made);
    return std::shared_ptr<base::StreamGraph>(std::make_shared<CudaGraph>(device_, ready));
  }
  Status launch(const std::shared_ptr<base::StreamGraph>& graph) override {
    const auto* own = dynamic_cast<const CudaGraph*>(graph.get());
    TROUPE_CHECK(own != nullptr, "a graph of another kind of stream");
    return status_of(cudaGraphLaunch(own->native(), stream_), device_, "cudaGraphLaunch");
  }

 private:
  std::shared_ptr<base::Event> record_of(const std::shared_ptr<EventPool>& pool) {
    if (!broken_.ok()) return std::make_shared<CudaEvent>(broken_);
    base::Result<cudaEvent_t> event = pool->take();
    if (!event.ok()) {
      // No room for an event now: whoever waits for it finds the work done, and its stream whole.
      keep(status_of(cudaStreamSynchronize(stream_), device_, "cudaStreamSynchronize"));
      return std::make_shared<CudaEvent>(broken_);
    }
    auto recorded = std::make_shared<CudaEvent>(pool, *event);
    keep(status_of(cudaEventRecord(*event, stream_), device_, "cudaEventRecord"));
    if (!broken_.ok()) return std::make_shared<CudaEvent>(broken_);
    return recorded;
  }
  /// An error of the stream itself is carried by every later event.
  void keep(Status status) {
    if (broken_.ok()) broken_ = std::move(status);
  }

  const Device device_;
  const cudaStream_t stream_;
  const std::shared_ptr<EventPool> events_, timed_events_;
  Status broken_;  // the issuing thread's
};

}  // namespace

base::Result<std::unique_ptr<base::Stream>> make_stream(Device device, StreamPriority priority) {
  TROUPE_TRY(check_device(device));
  const DeviceScope scope(device);
  TROUPE_TRY(scope.status());
  used_device = device.index;
  int least = 0, greatest = 0;  // smaller numbers go first
  TROUPE_TRY(status_of(cudaDeviceGetStreamPriorityRange(&least, &greatest), device,
                       "cudaDeviceGetStreamPriorityRange"));
  cudaStream_t stream = nullptr;
  TROUPE_TRY(
      status_of(cudaStreamCreateWithPriority(&stream, cudaStreamNonBlocking,
                                             priority == StreamPriority::high ? greatest : least),
                device, "cudaStreamCreate"));
  return std::unique_ptr<base::Stream>(std::make_unique<CudaStream>(device, stream));
}

}  // namespace troupe::gpu
