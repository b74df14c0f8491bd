// SPDX-License-Identifier: Apache-2.0
// Module: a symbol with its parameters, gradients and executors, trained against a KVStore. It
// holds one executor per batch size, made on first use; all share parameters, gradients and one
// arena. A Module belongs to one thread (a rank's); its operations run on the engine of its
// Runtime, and both outlive it. Start with fit, score and predict; the calls between are their
// steps.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/buffer.h"
#include "base/device.h"
#include "base/layout.h"
#include "base/status.h"
#include "data/batch.h"
#include "data/batch_iterator.h"
#include "ndarray/ndarray.h"
#include "ndarray/runtime.h"
#include "schemas/job_spec.h"
#include "schemas/messages.h"
#include "store/kvstore.h"
#include "store/loss_scale.h"
#include "store/schedule.h"
#include "symbol/executor.h"
#include "symbol/symbol.h"
#include "train/fit.h"
#include "train/keys.h"
#include "train/score.h"
#include "train/store_arrays.h"

namespace troupe::train {

class DeviceSums;
class WeighedAverage;

/// What a module is made of, beside its symbol.
struct ModuleOptions {
  InputSpec inputs;                         ///< the symbol's arguments and one sample's shape
  std::vector<schemas::KeyRule> keys = {};  ///< what multiplies rate and decay of parameters
  base::Device device;
  base::LayoutPolicy layouts = base::LayoutPolicy::chosen;
  bool reference_only = false;
  bool winograd = true;                     ///< as in ExecutorOptions
  bool tf32 = false;                        ///< as in ExecutorOptions
  base::DType products = base::DType::f32;  ///< as in ExecutorOptions
  /// Gradients are scaled by the last key, which the store moves; they are not checked then.
  std::optional<store::LossScaleRule> loss_scale = std::nullopt;
  std::shared_ptr<const symbol::KernelChoices> kernels = nullptr;  ///< as in ExecutorOptions
  symbol::MemoryMode memory = symbol::MemoryMode::both;
  symbol::Recompute recompute = symbol::Recompute::cheap;  ///< as in ExecutorOptions
  std::size_t budget = 0;                                  ///< as in ExecutorOptions
  std::int64_t sub_batch = 0;                              ///< as in ExecutorOptions
  symbol::Monitor monitor = nullptr;                       ///< as in ExecutorOptions
  bool check_gradients = true;  ///< one with NaN or infinity is not pushed but an error: not_finite
  std::uint64_t seed = 0;
  std::uint32_t rank = 0;
  std::size_t executors_max = 16;
  std::size_t run_bytes = kRunBytes;  ///< as in StoreArrays::create
  DeviceSums* sums = nullptr;         ///< adds gradients of ranks on devices; outlives the module
  schemas::WireType gradient_wire = schemas::WireType::same;  ///< see set_wires()
  schemas::WireType weight_wire = schemas::WireType::same;    ///< likewise
};

/// One batch: `size` samples of dense data (size, sample...) and labels (size,) in the module's
/// dtype.
struct ModuleBatch {
  std::int64_t size = 0;
  base::Buffer data;
  base::Buffer labels;
};

/// A symbol in training or in use.
class Module {
 public:
  /// Infers all shapes from the sample's. Errors name node and shapes.
  static base::Result<std::unique_ptr<Module>> create(ndarray::Runtime& runtime,
                                                      const symbol::Symbol& symbol,
                                                      const ModuleOptions& options);

  /// Parameters (kind dense, in the symbol's order), then auxiliary states (kind average), then
  /// the loss scale, if any.
  const std::vector<schemas::KeyInfo>& keys() const { return keys_; }
  /// The array of a key; its engine variable orders every use.
  const ndarray::NDArray& parameter(std::uint32_t key) const { return arrays_->parameters()[key]; }
  /// The gradient array of a dense key, which executors write. Zero, and of the host, where
  /// keys_with_gradient() says no.
  const ndarray::NDArray& gradient(std::uint32_t key) const { return arrays_->gradients()[key]; }
  /// What the store reads of it: the same array, or on a device with streams its copy on the host,
  /// or the sum of several ranks' (ModuleOptions::sums).
  /// An error of push()'s check is this array's.
  const ndarray::NDArray& pushed_gradient(std::uint32_t key) const {
    return arrays_->pushed()[key];
  }
  const ModuleOptions& options() const { return options_; }
  ndarray::Runtime& runtime() const { return runtime_; }

  /// Trains: step s of options.steps takes the batch of `batches`' position s (in the end of an
  /// epoch perhaps without samples), and every rank of `store` does the same. Returns when all is
  /// computed and this rank's part in the store is finished, so a rank's store serves one fit. The
  /// first error of data, operations, store or callbacks ends it and cancels the engine, since
  /// other ranks may never send what is awaited: after that the Runtime can only be destroyed.
  /// Blocks.
  base::Status fit(data::BatchIterator& batches, store::KVStore& store, const FitOptions& options);
  /// Metrics over all batches of `batches`, from its first; empty when it has none. Blocks; waits
  /// at most `deadline` for each batch. cancelled once `stop`, if given, is set.
  base::Result<MetricValues> score(data::BatchIterator& batches,
                                   std::chrono::milliseconds deadline = kBatchDeadline,
                                   const std::atomic<bool>* stop = nullptr);
  /// Outputs for `data` (n, sample...), n >= 1, in the module's dtype, by the graph for prediction
  /// (without dropout, batch_norm by its running statistics): new arrays with n rows each. A
  /// loss among the outputs is that of class 0. Operators that draw here, too (dropout of mode
  /// "always"), draw anew each time.
  /// invalid_argument for another shape or dtype.
  base::Result<std::vector<ndarray::NDArray>> predict(const ndarray::NDArray& data);

  /// Fills parameters and states by the initialiser, as functions of (seed, key, element).
  base::Status init_params(const schemas::InitializerSpec& initializer);
  /// Sets the named parameters and states, those that a file of weights holds (ndarray/
  /// safetensors.h); the others keep their values. An unknown name, another shape or dtype is an
  /// error naming it.
  /// A loss scale among the values means nothing to a module without one.
  base::Status init_params(const std::map<std::string, ndarray::NDArray>& values);
  /// Declares the keys to `store` (which outlives the module's use of it) and gives it the rule.
  /// `publish`: this module's present values become version 0; else the store has its own.
  base::Status init_optimizer(store::KVStore& store, const store::UpdateRule& rule, bool publish);

  /// Pushes forward and backward of one training batch; a batch of no samples clears the gradients.
  base::Status forward_backward(const ModuleBatch& batch, std::uint64_t step);
  /// Pushes every gradient of `step`, once it has been checked. `count`: samples behind them.
  /// failed_precondition when the batch's executor went out of use since forward_backward.
  base::Status push(std::uint64_t step, double count);
  /// Pulls the weights for `step`; with `barrier` exactly those with everybody's steps below it.
  base::Status pull(std::uint64_t step, bool barrier);
  /// push of `step`, then pull for the next; `barrier`: of that pull.
  base::Status update(std::uint64_t step, double count, bool barrier);
  /// Waits for the gradients pushed so far; the first one's error.
  base::Status wait_gradients() const;
  /// Waits for what the store reads of them, with all checks; likewise.
  base::Status wait_pushed() const;
  /// A batch of an iterator as this module takes it: the same buffers, or copies in f64.
  base::Result<ModuleBatch> batch(const data::Batch& batch);

  /// Of the last training batch; without samples in it, no metric. failed_precondition where
  /// score(), predict() or the making of another executor has used the memory of its outputs since.
  /// What the caller runs on executor() itself is the caller's to know.
  base::Result<BatchMetrics> training_metrics() const;
  /// Pushes prediction, as predict() does, and the metrics of one batch.
  base::Result<BatchMetrics> score(const ModuleBatch& batch);
  /// The executor of a batch size, for training and prediction, made now if need be. It is the
  /// module's, which keeps those of ModuleOptions::executors_max batch sizes, the last used.
  base::Result<symbol::Executor*> executor(std::int64_t batch);

 private:
  struct Bound {
    std::int64_t batch = 0;
    bool trains = true;  // it has both graphs; else the one for prediction
    std::unique_ptr<symbol::Executor> executor;
    // By argument: where the next batch waits on a device with streams while this one is computed.
    std::map<std::string, ndarray::NDArray> next;
    std::map<std::uint32_t, std::shared_ptr<const WeighedAverage>> averages;  // by key
  };

  Module(ndarray::Runtime& runtime, const symbol::Symbol& symbol, const ModuleOptions& options);
  base::Status declare();
  base::Status write_first_scale();
  base::Result<Bound> bind(std::int64_t batch, bool trains);
  base::Result<Bound*> bound(std::int64_t batch, bool trains);
  base::Result<Bound*> bound_for_prediction(std::int64_t batch);
  base::Status load(const Bound& bound, const ModuleBatch& batch);
  base::Status push_prediction(symbol::Executor& executor);
  base::Result<MetricValues> score_all(data::BatchIterator& batches,
                                       std::chrono::milliseconds deadline,
                                       const std::atomic<bool>* stop);
  base::Result<base::Buffer> in_dtype(const base::Buffer& values);
  void push_gradient(std::uint32_t key, const store::PushInfo& info);

  ndarray::Runtime& runtime_;
  symbol::Symbol symbol_;
  ModuleOptions options_;
  ops::Attributes label_reading_;  // label_attributes()
  std::vector<schemas::KeyInfo> keys_;
  GradientWay way_ = GradientWay::to_host;
  std::string pushes_of_;              // whose gradients are in pushed_gradient(), for people
  std::optional<StoreArrays> arrays_;  // gradients of averages: the weighed batch values
  std::vector<bool> with_gradient_;    // keys_with_gradient()
  std::shared_ptr<symbol::Arena> arena_;
  ndarray::NDArray step_;
  std::map<base::DType, ndarray::NDArray> counts_;  // 0-d: counted_
  double counted_ = 0.0;                            // samples behind the averages pushed last
  std::list<Bound> executors_;                      // most recently used first
  Bound* last_trained_ = nullptr;                   // null when the last batch had no samples
  bool plan_told_ = false;
  bool draws_ = false;  // some operator of the symbol does
  std::uint64_t predictions_ = 0;
  std::optional<std::uint64_t> scored_;  // batches, while many are scored
  bool outputs_lost_ = false;            // that batch's, to a prediction
  store::KVStore* store_ = nullptr;
};

}  // namespace troupe::train
