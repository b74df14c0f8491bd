// SPDX-License-Identifier: Apache-2.0
// A safetensors file in memory, for tests. Any thread.
#pragma once

#include <cstddef>
#include <cstring>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "ndarray/safetensors.h"

namespace troupe::tests {

/// The bytes that write_safetensors() writes.
inline std::vector<std::byte> safetensors_bytes(
    std::span<const ndarray::RawTensor> tensors,
    const std::map<std::string, std::string>& metadata = {}) {
  const std::string head = ndarray::encode_safetensors_head(tensors, metadata).value();
  const auto bytes = std::as_bytes(std::span(head));
  std::vector<std::byte> file(bytes.begin(), bytes.end());
  for (const ndarray::RawTensor& tensor : tensors) {
    file.insert(file.end(), tensor.bytes.begin(), tensor.bytes.end());
  }
  return file;
}

}  // namespace troupe::tests
