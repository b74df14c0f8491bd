// SPDX-License-Identifier: Apache-2.0
// WeightFile: the safetensors file of train.weights, read in parts: each server takes its own
// slices, so no process reads or holds the whole of it. Blocking; any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>

#include "base/status.h"
#include "data/record_file.h"
#include "ndarray/safetensors.h"
#include "train/job.h"

namespace troupe::train {

/// See the top of the file.
class WeightFile {
 public:
  /// Reads the header. Errors: those of opening and reading, data_loss for what is no such file,
  /// invalid_argument for a tensor of another shape or dtype than the network's, or a file without
  /// any of its tensors. Tensors that only one of them has are logged.
  static base::Result<WeightFile> open(const Job& job);

  /// Whether it has the parameter or state of this name.
  bool has(const std::string& name) const { return places_.contains(name); }
  /// Fills `out` from byte `begin` of the tensor `name` on; it has it, and so many bytes.
  base::Status read(const std::string& name, std::uint64_t begin, std::span<std::byte> out) const;

 private:
  /// [begin, end) of the file.
  struct Place {
    std::uint64_t begin = 0;
    std::uint64_t end = 0;
  };

  WeightFile() = default;
  base::Status take(const Job& job, const ndarray::SafetensorsHeader& header,
                    std::uint64_t data_begin);

  std::shared_ptr<const data::RecordFile> file_;
  std::map<std::string, Place, std::less<>> places_;  // of the network's tensors
};

}  // namespace troupe::train
