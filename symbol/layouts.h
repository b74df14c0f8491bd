// SPDX-License-Identifier: Apache-2.0
// The pass choose_layouts: takes for every node the kernel that makes the whole cheapest by the
// kernels' rules, and inserts `reorder` nodes where a kernel wants another layout than a value has,
// at the ports too. Any thread that may lead the team.
#pragma once

#include <memory>
#include <set>
#include <string>
#include <vector>

#include "ndarray/runtime.h"
#include "symbol/infer.h"
#include "symbol/sub_batch.h"
#include "symbol/value_numbers.h"

namespace troupe::symbol {

class Autotuner;
struct KernelChoices;

/// An offer that was weighed for a node, when the search came to it for the last time.
struct Alternative {
  std::string maker;   ///< KernelDef::name
  std::string kernel;  ///< Kernel::name()
  std::vector<base::Layout> inputs, outputs;
  std::size_t scratch_bytes = 0;
  double seconds = 0;          ///< by the kernel's rule (ops/roofline.h)
  double reorder_seconds = 0;  ///< of all reorders of what the node reads and writes
};

/// What takes a node. Variables have none.
struct NodePlan {
  ops::OpCall call;  ///< that `offer` answers
  ops::Offer offer;
  std::vector<ops::Decline> declines;     ///< kernels that did not take it
  std::vector<Alternative> alternatives;  ///< offers weighed
  bool stored = false;                    ///< `offer` is a stored choice

  /// What it takes beside other nodes: by the offer or, on a GPU, by the rule of GPUs.
  double seconds() const;
};

/// The kernel of a plan. Made for one node each: a kernel may keep what it made for the addresses
/// of its last run, and a planned node's addresses stay the same.
base::Result<std::shared_ptr<const ops::Kernel>> prepare(const NodePlan& plan);

/// A graph whose kernels are prepared.
struct PreparedGraph {
  Graph graph;
  ValueNumbers numbers;  ///< of `graph`
  ValueShapes shapes;
  ValueDTypes dtypes;
  std::vector<base::Layout> layouts;                        ///< per value
  std::vector<std::shared_ptr<const ops::Kernel>> kernels;  ///< per node; null for variables
  std::vector<NodePlan> plans;                              ///< per node
  /// "conv1_weight dense -> ABcd16b16a for conv1", in the order of the nodes.
  std::vector<std::string> reorders;
  /// What runs in parts. Shapes and layouts of values that are not sliced are those of a part.
  SubBatch sub_batch;
};

/// What the kernels are prepared for.
struct PrepareOptions {
  base::Device device;
  base::LayoutPolicy layouts = base::LayoutPolicy::chosen;
  bool reference_only = false;
  bool winograd = true;  ///< Winograd's form may be taken
  bool tf32 = false;     ///< as in ExecutorOptions
  bool train = true;     ///< the graph of a training step; false: of a prediction
  /// Variables whose reorders are not run each time (prologue.h), and so cost nothing; null: none.
  const std::set<std::string>* weights = nullptr;
  const KernelChoices* kernels = nullptr;  ///< go before the rule; null: none
  Autotuner* tuner = nullptr;              ///< measures, and notes what is chosen; null: the rule
};

/// Prepares `graph`, whose shapes and dtypes are complete. Variables and heads are dense;
/// everything between may be laid out as kernels like. Heads are values that operators write.
base::Result<PreparedGraph> choose_layouts(ndarray::Runtime& runtime, const Graph& graph,
                                           const ValueShapes& shapes, const ValueDTypes& dtypes,
                                           const PrepareOptions& options);

}  // namespace troupe::symbol
