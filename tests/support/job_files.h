// SPDX-License-Identifier: Apache-2.0
// Small record files and job specifications for tests of training: learnable images of random
// classes.
#pragma once

#include <filesystem>
#include <string>

#include "schemas/job_spec.h"

namespace troupe::train {

/// A folder that is empty at the start and gone at the end.
class TestFolder {
 public:
  explicit TestFolder(const std::string& name);
  ~TestFolder();
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

/// Writes `records` grey images of side x side with labels 0-3 to `path` and its index beside it.
void write_test_records(const std::filesystem::path& path, std::uint64_t records, int side);

/// A job over train.rec (and test.rec) in `folder`: 2 machines x 2 devices, sequential, 2 epochs.
schemas::JobSpec test_job(const std::filesystem::path& folder, const std::string& network);

}  // namespace troupe::train
