// SPDX-License-Identifier: Apache-2.0
// Executor: a symbol bound to arrays. forward() and backward() push prepared operations to the
// engine and return; outputs and gradients are read through their arrays. All memory between is one
// arena, planned at bind, and what predictions keep of weights; a step allocates nothing. An
// executor belongs to one thread.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/layout.h"
#include "ndarray/ndarray.h"
#include "symbol/memory_mode.h"
#include "symbol/monitor.h"
#include "symbol/symbol.h"

namespace troupe::symbol {

class Arena;
class Autotuner;
class Binder;
class Program;
struct KernelChoices;

/// What backward() does with an argument's gradient. `add` sums over calls, in the gradient array.
enum class GradReq : std::uint8_t { null, write, add };

/// The arrays of an executor, by name. Weights are looked up at each run, so their buffers may be
/// exchanged (NDArray::rebind) between steps.
struct Bindings {
  std::map<std::string, ndarray::NDArray> arguments;
  std::map<std::string, GradReq> grad_req = {};            ///< absent: null
  std::map<std::string, ndarray::NDArray> gradients = {};  ///< absent: made by bind, zero for add
  std::map<std::string, ndarray::NDArray> auxiliary = {};
  /// By position; empty: made by bind. May share memory with an argument where the operator that
  /// writes it is marked `assign`.
  std::vector<ndarray::NDArray> outputs = {};
};

/// How an executor computes.
struct ExecutorOptions {
  base::Device device;
  base::LayoutPolicy layouts = base::LayoutPolicy::chosen;
  bool reference_only = false;
  bool winograd = true;  ///< take Winograd's form where it is faster; a bit less precise
  bool tf32 = false;     ///< on GPUs: products of f32 with factors that are rounded to TF32
  /// f16 or bf16: products of a network of f32 are computed so (precision.h); f32: they are not.
  base::DType products = base::DType::f32;
  /// f32, one axis: its first value multiplies the gradients that losses give, at the time when
  /// backward runs; empty: nothing does.
  ndarray::NDArray loss_scale = {};
  /// Kernels that go before the rule's (kernel_choices.h); null: none.
  std::shared_ptr<const KernelChoices> kernels = nullptr;
  /// Measures kernels during bind; null: the rule. Of autotune.h, which is not installed.
  Autotuner* tuner = nullptr;
  bool fused = true;  ///< the passes rectifiers.h (training), fuse.h, fuse_pointwise.h
  MemoryMode memory = MemoryMode::both;  ///< which tensors share memory; no bit depends on it
  /// What training computes once more instead of keeping it; no bit depends on it.
  Recompute recompute = Recompute::cheap;
  std::size_t budget = 0;  ///< bytes that the arena may take, of Recompute::budget
  /// Samples that a prediction computes at a time, at most; 0: chosen. Where samples do not mix and
  /// weights are small beside them; no bit depends on it.
  std::int64_t sub_batch = 0;
  /// It is looked at and never run: its memory, arena and arrays, is of the host whatever the
  /// device is. Calls that would run something are failed_precondition.
  bool plan_only = false;
  base::Device memory_device() const { return plan_only ? base::Device{} : device; }
  bool train = true;       ///< prepare the graph of forward(true) and backward
  bool predict = true;     ///< prepare the graph of forward(false)
  std::uint64_t seed = 0;  ///< of random nodes: stream "<operator>/<node>/<rank>"
  std::int64_t rank = 0;
  int priority = 0;
  /// Memory shared with other executors; empty: an own arena.
  std::shared_ptr<Arena> arena = nullptr;
  /// The step that random nodes count by: 0-d i64, of bytes of its own; empty: an own one, see
  /// set_step.
  ndarray::NDArray step = {};
  /// Arguments that are given anew for each pass, and so no weights, whatever their names are
  /// (Symbol::list_parameters).
  std::vector<std::string> inputs = {};
  /// Called behind every node; null: nobody looks. unimplemented on devices with streams.
  Monitor monitor = nullptr;
};

/// One node as it was prepared, for people.
struct NodeReport {
  std::string name, op, kernel;
  std::vector<std::string> inputs, outputs;  ///< "data (32, 1, 28, 28) f32 dense"
  base::Layout layout;                       ///< of the first output
  std::vector<ops::Decline> declines;        ///< kernels that did not take it
  std::size_t scratch_bytes = 0;
  double flops = 0;          ///< multiply-adds count as 2
  double multiply_adds = 0;  ///< of products and convolutions
  bool backward = false;
};

/// What bind decided (about the training graph, where there is one), for `model inspect`, tests and
/// metrics: the one place that says how much memory a symbol takes. Bind takes that memory too.
struct ExecutorReport {
  std::vector<NodeReport> nodes;
  std::vector<std::string> reorders;
  std::size_t arena_bytes = 0;             ///< of this executor's larger graph
  std::size_t predict_bytes = 0;           ///< of the graph for prediction alone
  std::size_t prologue_bytes = 0;          ///< kept from the first prediction on, outside the arena
  std::size_t unshared_bytes = 0;          ///< of the one graph reported, without sharing
  std::size_t live_set_bytes = 0;          ///< of the one graph reported: no plan of it takes less
  std::size_t predict_live_set_bytes = 0;  ///< the same, of the graph for prediction
  std::size_t external_bytes = 0;          ///< outputs and gradients
  std::size_t scratch_bytes = 0;           ///< sum over nodes, before sharing
  std::uint64_t parameters = 0;            ///< elements of the arguments with gradients
  std::size_t stored_choices = 0;   ///< nodes whose kernel is one of ExecutorOptions::kernels
  std::int64_t sub_batch = 0;       ///< samples of a prediction's parts; 0: nothing runs in parts
  std::int64_t nodes_in_parts = 0;  ///< of a prediction
  int in_place = 0;                 ///< outputs that lie where an input does
  int recomputed = 0;            ///< nodes of the training graph that compute something once more
  double recompute_seconds = 0;  ///< that these take, by the kernels' rules
  double step_seconds = 0;       ///< that the training graph's other nodes take, by the same
  double flops = 0;              ///< of the forward pass
};

/// A bound symbol.
class Executor {
 public:
  /// Checks names, shapes and dtypes, differentiates, prepares all kernels and plans the memory.
  /// All arrays must be of `runtime`'s engine.
  static base::Result<std::unique_ptr<Executor>> bind(ndarray::Runtime& runtime,
                                                      const Symbol& symbol, Bindings bindings,
                                                      const ExecutorOptions& options = {});
  ~Executor();
  Executor(const Executor&) = delete;
  Executor& operator=(const Executor&) = delete;

  /// Pushes the forward pass: of the training graph, or of the graph for prediction. In the latter,
  /// weights in a kernel's layout are kept, and made anew only when they have been written; the
  /// first one takes the memory for them.
  base::Status forward(bool train);
  /// Pushes the backward pass behind forward(true). `head_gradients`: one per output that is no
  /// loss, in their order, of its shape and dtype (0 for one whose gradient is not wanted).
  /// failed_precondition when forward(true) was not the last forward or another executor has used
  /// the shared arena since.
  base::Status backward(std::span<const ndarray::NDArray> head_gradients = {});
  /// Pushes the step number that random nodes use from now on. Where ExecutorOptions::step has
  /// shared bytes, what reads it fails with failed_precondition.
  base::Status set_step(std::int64_t step);

  const std::vector<ndarray::NDArray>& outputs() const { return bindings_.outputs; }
  const std::map<std::string, ndarray::NDArray>& arguments() const { return bindings_.arguments; }
  const std::map<std::string, ndarray::NDArray>& gradients() const { return bindings_.gradients; }
  const std::map<std::string, ndarray::NDArray>& auxiliary() const { return bindings_.auxiliary; }
  /// Per auxiliary state: the array that forward(true) writes its batch value to; one state of
  /// several nodes has one (StateUpdate in states.h).
  const std::map<std::string, ndarray::NDArray>& batch_values() const { return batch_values_; }
  /// Per auxiliary state: m of state = m * state + (1 - m) * batch value.
  const std::map<std::string, double>& momenta() const { return momenta_; }

  const ExecutorReport& report() const { return report_; }
  /// What is alive where most memory is needed; per node: its kernel, the offers that were weighed
  /// with what they take by rule, what it reads, and where its memory lies.
  std::string dump() const;

 private:
  friend class Binder;
  Executor(ndarray::Runtime& runtime, Bindings bindings, const ExecutorOptions& options);

  void make_report();
  base::Status check_engine() const;

  ndarray::Runtime runtime_;
  ExecutorOptions options_;
  Bindings bindings_;
  std::map<std::string, ndarray::NDArray> batch_values_;
  std::map<std::string, double> momenta_;
  std::vector<ndarray::NDArray> head_gradients_;
  bool needs_head_gradients_ = false;  ///< some of them make a difference
  std::unique_ptr<Program> train_, predict_;
  ExecutorReport report_;
  bool trained_ = false;
};

/// What arrays hold that nobody has written yet.
enum class Content : std::uint8_t {
  initial,      ///< arguments zero, auxiliary states their initial values
  unspecified,  ///< takes no memory of the host as long as nobody writes: to look at, not to run
};

/// Arrays for every argument and auxiliary state of `symbol` from the shapes of some (its data).
/// `dtype`: of arguments that are not decided otherwise.
base::Result<Bindings> allocate_bindings(ndarray::Runtime& runtime, const Symbol& symbol,
                                         const std::map<std::string, base::Shape>& known,
                                         base::DType dtype = base::DType::f32,
                                         base::Device device = {},
                                         Content content = Content::initial);

}  // namespace troupe::symbol
