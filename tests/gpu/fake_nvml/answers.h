// SPDX-License-Identifier: Apache-2.0
// What the sources of the library that stands for NVML share: the answers that a test has given it.
#pragma once

#include <cstdint>
#include <map>
#include <sstream>
#include <string>

namespace troupe::gpu::test {

inline constexpr int kSuccess = 0, kNotSupported = 3, kNotFound = 6, kTimeout = 10, kLost = 15;

/// A device's number plus 1.
using Handle = void*;
inline std::string number_of(Handle device) {
  return std::to_string(reinterpret_cast<std::uintptr_t>(device) - 1);
}
inline Handle handle_of(std::uint64_t number) {
  return reinterpret_cast<Handle>(number + 1);
}

/// By key; see FakeNvml::says.
std::map<std::string, std::string>& answers();

/// The code for a question about a device, and its answer.
int ask(Handle device, const std::string& key, std::istringstream& answer);

/// A number that is of no device.
int global(const std::string& key, int otherwise);

/// An answer's words.
template <typename... Values>
int read(Handle device, const std::string& key, Values*... values) {
  std::istringstream answer;
  const int code = ask(device, key, answer);
  if (code == kSuccess) (answer >> ... >> *values);
  return code;
}

}  // namespace troupe::gpu::test
