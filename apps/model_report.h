// SPDX-License-Identifier: Apache-2.0
// What `troupe model inspect` shows and `troupe model autotune` finds. Binds the network on an
// engine of its own; one thread.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "apps/json_text.h"
#include "base/device.h"
#include "base/dtype.h"
#include "base/shape.h"
#include "base/status.h"
#include "ops/kernel.h"
#include "symbol/kernel_choices.h"
#include "symbol/memory_mode.h"

namespace troupe::apps {

/// A network, and how it would be run.
struct InspectOptions {
  std::string model;                 ///< built-in name, or path of a symbol file (ends in ".json")
  std::optional<std::string> input;  ///< shape of one sample; absent: the network's own, of a file
                                     ///< (1, 28, 28)
  std::int64_t batch = 32;
  std::optional<std::int64_t> classes;  ///< absent: the network's own
  int threads = 1;
  base::Device device = {};
  bool dense = false;
  bool reference_only = false;
  bool winograd = true;
  bool tf32 = false;                        ///< as in symbol::ExecutorOptions
  base::DType products = base::DType::f32;  ///< as in symbol::ExecutorOptions
  symbol::MemoryMode memory = symbol::MemoryMode::both;
  std::optional<symbol::Recompute> recompute = {};  ///< absent: as on the device by default
  std::uint64_t budget = 0;                         ///< bytes, of Recompute::budget
  std::int64_t sub_batch = 0;                       ///< as in ExecutorOptions
  std::string kernels;  ///< path of a file of kernel choices; empty: none
};

/// A parameter or state, as a file of weights holds it.
struct TensorReport {
  std::string name;
  base::Shape shape;
};

/// What one of the symbol's own nodes gives, holds and runs on.
struct LayerReport {
  std::string name;
  std::string op;
  base::Shape output;
  base::Layout layout;
  std::vector<TensorReport> tensors;  ///< of parameters and states; shared ones are the first's
  std::uint64_t parameters = 0;       ///< numbers of its parameters
  double multiply_adds = 0;           ///< of the batch's forward pass, in products and convolutions
  std::string kernel;                 ///< empty: fused into another layer
  std::vector<ops::Decline> declines;  ///< kernels that did not take it
};

/// A node of the backward pass, and what it runs on.
struct GradientReport {
  std::string name;  ///< "conv1_backward_weights"
  std::string op;
  std::string output;  ///< of the first: "conv1_weight_grad (32, 3, 3, 3) f32 dense"
  std::string kernel;
  std::vector<ops::Decline> declines;
};

/// A network, bound for training with all gradients as a worker does.
struct ModelReport {
  std::vector<LayerReport> layers;
  std::vector<GradientReport> gradients;  ///< in the order in which they run
  std::int64_t batch = 0;
  std::uint64_t parameters = 0;
  std::uint64_t train_bytes = 0;     ///< planned memory
  std::uint64_t live_set_bytes = 0;  ///< the least that a plan of training's order takes
  std::uint64_t unshared_bytes = 0;  ///< the same if no tensors shared memory
  std::uint64_t predict_bytes = 0;   ///< of prediction alone
  std::uint64_t predict_live_set_bytes = 0;
  std::int64_t sub_batch = 0;        ///< samples of a prediction's parts; 0: it takes all at once
  std::int64_t nodes_in_parts = 0;   ///< of a prediction
  std::uint64_t prologue_bytes = 0;  ///< folded weights and those in kernels' layouts, kept
  std::uint64_t external_bytes = 0;  ///< outputs and gradients, outside the plan
  std::uint64_t scratch_bytes = 0;   ///< of all kernels in sum; in the plan they share it
  /// Nodes, also of the backward pass, whose kernel is a stored choice; absent: none are given.
  std::optional<std::uint64_t> stored_choices;
  std::uint64_t in_place = 0;    ///< results that lie where an input does
  std::uint64_t recomputed = 0;  ///< nodes that compute something once more for the backward pass
  double recompute_seconds = 0;  ///< that these take, by the kernels' rules
  double step_seconds = 0;       ///< that all others of a training step take, by the same
  double flops = 0.0;            ///< of one forward pass
  std::vector<std::string> reorders;

  /// Of one forward pass, in products and convolutions.
  double multiply_adds() const;
  /// A table of layers, then parameters, memory, work and reorders; `why`: below a layer, the
  /// kernels that declined it, and the same of the backward pass.
  std::string to_string(bool why = false) const;
};

/// The same facts.
Json json_of(const ModelReport& report);

/// Errors name the network, or node and shapes.
base::Result<ModelReport> inspect_model(const InspectOptions& options);
/// The network as graphviz dot text.
base::Result<std::string> model_dot(const InspectOptions& options);
/// What the passes made of the network: Executor::dump().
base::Result<std::string> model_passes(const InspectOptions& options);

/// Kernels that were measured.
struct TunedModel {
  symbol::KernelChoices choices;  ///< those of InspectOptions::kernels, too
  std::size_t measured = 0;       ///< calls that this run measured
  std::size_t left = 0;           ///< calls for which there was no time
  std::size_t failed = 0;         ///< calls of which no kernel could be run
};
/// Measures the kernels of every call of the network, in training and in prediction, for about
/// `seconds` at most and not when `stop` is set. Calls that InspectOptions::kernels decides keep
/// their kernels.
base::Result<TunedModel> autotune_model(const InspectOptions& options, double seconds,
                                        const std::atomic<bool>& stop);

}  // namespace troupe::apps
