// SPDX-License-Identifier: Apache-2.0
// The manifest of a checkpoint as a plain struct: what its files hold and what the next step needs.
// It is written last; without a readable one there is no checkpoint. codec.h encodes it. Any
// thread.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/numeric_class.h"
#include "schemas/job_spec.h"
#include "schemas/messages.h"

namespace troupe::schemas {

/// Format of manifests and shard files; readers refuse others with both numbers.
inline constexpr std::uint32_t kManifestVersion = 2;

/// Runs of a job are counted from 1; more than this is no count.
inline constexpr std::uint64_t kGenerationMax = std::uint64_t{1} << 62;

/// "step-500-g1": what a checkpoint is called, and its files begin with.
std::string checkpoint_name(std::uint64_t step, std::uint64_t generation);

/// Of an error with a checkpoint's files: nothing of use is behind it, as they are damaged, gone,
/// of another job or no checkpoint. After any other one they may be whole.
constexpr bool nothing_whole(base::Errc code) {
  using base::Errc;
  return code == Errc::data_loss || code == Errc::not_found || code == Errc::failed_precondition ||
         code == Errc::invalid_argument;
}

/// One shard's file, in the manifest's folder.
struct ShardFile {
  std::uint32_t shard = 0;
  std::string name;  ///< file name without a folder
  std::uint64_t bytes = 0;
  std::uint64_t chunk_bytes = 0;
  std::vector<std::uint32_t> checksums;  ///< CRC-32C of each chunk_bytes of the file
  friend bool operator==(const ShardFile&, const ShardFile&) = default;
};

/// Which samples come next, and of which file.
struct DataCursor {
  std::uint64_t epoch = 0;
  std::uint64_t step_in_epoch = 0;  ///< the next step's number inside `epoch`
  // Of the training file, to notice another one: as in TrainingStart.
  std::uint64_t records = 0;
  std::uint64_t bytes = 0;
  std::uint32_t checksum = 0;
  friend bool operator==(const DataCursor&, const DataCursor&) = default;
};

/// A checkpoint at the cut of `step`: weights of version `step`, training goes on with that step.
struct Manifest {
  std::uint32_t format_version = kManifestVersion;
  std::uint64_t step = 0;
  std::uint64_t epoch = 0;       ///< whole epochs done
  std::uint64_t samples = 0;     ///< consumed since step 0
  std::uint64_t generation = 0;  ///< of the run that wrote it; a resumed run takes a higher one
  std::string job_name;
  std::string job_fingerprint;  ///< of what decides the bits; another job's is not resumed
  base::NumericClass numeric_class;
  bool numerics_changed = false;  ///< the run was resumed in another class at least once
  std::uint64_t seed = 0;         ///< every random key is a function of it, names, step and rank
  DataCursor data;
  OptimizerSpec optimizer;
  std::vector<std::string> optimizer_slots;  ///< names of the state tensors per dense key
  ScheduleSpec schedule;
  std::uint64_t steps_per_epoch = 0;
  std::uint64_t steps_total = 0;
  std::vector<KeyInfo> keys;     ///< by id
  std::vector<ShardFile> files;  ///< by shard
  friend bool operator==(const Manifest&, const Manifest&) = default;
};

}  // namespace troupe::schemas
