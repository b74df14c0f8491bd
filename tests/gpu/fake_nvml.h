// SPDX-License-Identifier: Apache-2.0
// What a test does with the library of fake_nvml/fake_nvml.cc, which it opens as NVIDIA's is.
#pragma once

#include <string>

#include "gpu/shared_library.h"

namespace troupe::gpu::test {

/// The library that answers as it is told. Its answers are the process's: one test at a time.
class FakeNvml {
 public:
  static std::string file() { return TROUPE_FAKE_NVML; }

  /// One answer a line: "count 2", "init 9" (an error), or of a device "0 power 312000". What has
  /// no answer is not supported; "0 fails power 999" is an error, "0 lost" all of them. The keys
  /// are those that the library looks up.
  void says(const std::string& lines) const {
    (*library_.function<void(const char*)>("fake_nvml_says").value())(lines.c_str());
  }
  /// Sessions that were opened and not closed.
  int sessions() const { return (*library_.function<int()>("fake_nvml_sessions").value())(); }

 private:
  SharedLibrary library_ = SharedLibrary::open({file()}).value();
};

}  // namespace troupe::gpu::test
