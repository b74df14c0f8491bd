// SPDX-License-Identifier: Apache-2.0
// A job opened in a process: its network, keys and data, made from the specification alone, so
// every process of the job finds the same. Immutable once opened; shared by the process's ranks and
// servers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>

#include "base/status.h"
#include "data/batch.h"
#include "data/dataset.h"
#include "data/dealer.h"
#include "ops/table.h"
#include "schemas/job_spec.h"
#include "store/schedule.h"
#include "symbol/kernel_choices.h"
#include "symbol/symbol.h"
#include "train/keys.h"

namespace troupe::train {

/// Everything of a job that does not depend on a rank.
struct Job {
  schemas::JobSpec spec;
  symbol::Symbol network;
  NetworkKeys keys;
  std::shared_ptr<const symbol::KernelChoices> kernels;  ///< null: all kernels by the rule
  std::shared_ptr<const data::Dataset> train_data;
  std::shared_ptr<const data::Dataset> test_data;  ///< null: nothing is scored
  data::SampleOptions samples;                     ///< as they are scored
  std::shared_ptr<const data::EpochOrders> orders;

  std::uint64_t steps_per_epoch() const { return orders->dealer().steps_per_epoch(); }
  /// Steps of all epochs, which the schedule spans.
  std::uint64_t steps_total() const { return spec.train.epochs * steps_per_epoch(); }
  /// The step after the last: steps_total(), or max_steps where that is less.
  std::uint64_t steps_end() const;
  store::UpdateRule rule() const;
  /// Of a job that trains in f16.
  std::optional<store::LossScaleRule> loss_scale() const;
  /// Samples as they are trained with: augmented.
  data::SampleOptions training_samples() const;
  /// Samples that all ranks take in steps [0, step).
  std::uint64_t samples_before(std::uint64_t step) const;
};

/// Opens files and infers shapes. Errors name the file, or node and shapes; permission_denied for a
/// path outside of `roots`.
base::Result<std::shared_ptr<const Job>> open_job(const schemas::JobSpec& spec,
                                                  const ops::OpTable& table,
                                                  const schemas::JobRoots& roots = {});

/// resource_exhausted when a process that holds `ranks` of the job's ranks and `shards` of its
/// servers would need more threads than the system gives, or more memory for its parameters than
/// the machine has. Any thread; starts and ends threads.
base::Status check_room(const Job& job, std::size_t ranks, std::size_t shards);

/// The network that `model` names or contains.
base::Result<symbol::Symbol> make_job_network(const schemas::ModelSpec& model,
                                              const ops::OpTable& table);

}  // namespace troupe::train
