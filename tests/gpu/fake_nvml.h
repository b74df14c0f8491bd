// SPDX-License-Identifier: Apache-2.0
// What a test does with the library of fake_nvml/fake_nvml.cc, which it opens as NVIDIA's is.
#pragma once

#include <cstdint>
#include <string>

#include "gpu/shared_library.h"

namespace troupe::gpu::test {

/// The library that answers as it is told. Its answers are the process's: one test at a time.
class FakeNvml {
 public:
  static std::string file() { return TROUPE_FAKE_NVML; }
  /// One that lacks what newer drivers have, and has its own answers.
  static std::string older_file() { return TROUPE_FAKE_OLDER_NVML; }

  explicit FakeNvml(const std::string& file = FakeNvml::file())
      : library_(SharedLibrary::open({file}).value()) {}

  /// One answer a line: "count 2", "init 9" (an error), or of a device "0 power 312000". What has
  /// no answer is not supported; "0 fails power 999" is an error, "0 lost" all of them. The keys
  /// are those that the library looks up.
  void says(const std::string& lines) const {
    (*library_.function<void(const char*)>("fake_nvml_says").value())(lines.c_str());
  }
  /// Sessions that were opened and not closed.
  int sessions() const { return (*library_.function<int()>("fake_nvml_sessions").value())(); }
  /// All bits set: of the whole device.
  static constexpr std::uint32_t kWhole = 0xFFFFFFFF;
  /// An XID error happens, to a device or a slice of it.
  void reports(int device, int xid, std::uint32_t gpu = kWhole,
               std::uint32_t compute = kWhole) const {
    reports_as(device, device, xid, gpu, compute);
  }
  /// The same; the event has another handle of the device.
  void reports_as(int device, int as, int xid, std::uint32_t gpu = kWhole,
                  std::uint32_t compute = kWhole) const {
    using Reports = void(int, int, int, std::uint32_t, std::uint32_t);
    (*library_.function<Reports>("fake_nvml_reports").value())(device, as, xid, gpu, compute);
  }
  /// Sets of events that were made and not freed.
  int event_sets() const { return (*library_.function<int()>("fake_nvml_event_sets").value())(); }

 private:
  SharedLibrary library_;
};

}  // namespace troupe::gpu::test
