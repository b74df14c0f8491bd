// SPDX-License-Identifier: Apache-2.0
// A library with NVML's functions that answers as a test tells it to (fake_nvml.h). Handles are
// numbers of devices plus 1; slices are devices with numbers that the count does not reach.
#include <cstdio>
#include <cstring>
#include <string_view>

#include "tests/gpu/fake_nvml/answers.h"

namespace troupe::gpu::test {

std::map<std::string, std::string>& answers() {
  static std::map<std::string, std::string> told;
  return told;
}

int ask(Handle device, const std::string& key, std::istringstream& answer) {
  const std::string number = number_of(device);
  if (answers().contains(number + " lost")) return kLost;
  if (const auto fails = answers().find(number + " fails " + key); fails != answers().end()) {
    return std::stoi(fails->second);
  }
  const auto found = answers().find(number + " " + key);
  if (found == answers().end()) return kNotSupported;
  answer.str(found->second);
  return kSuccess;
}

int global(const std::string& key, int otherwise) {
  const auto found = answers().find(key);
  return found == answers().end() ? otherwise : std::stoi(found->second);
}

}  // namespace troupe::gpu::test

namespace {

using namespace troupe::gpu::test;  // NOLINT: the library's own

int sessions = 0;

int text(Handle device, const std::string& key, char* text, std::uint32_t bytes) {
  std::istringstream answer;
  const int code = ask(device, key, answer);
  if (code == kSuccess) std::snprintf(text, bytes, "%s", answer.str().c_str());
  return code;
}

}  // namespace

extern "C" {

struct FakePci {
  char legacy_id[16];
  std::uint32_t domain, bus, device, kind, subsystem;
  char id[32];
};
struct FakeMemory {
  unsigned long long total, free, used;
};
struct FakeUtilization {
  std::uint32_t gpu, memory;
};

/// Keys have one word, or two after "fails": the device's number stands before.
void fake_nvml_says(const char* lines) {
  answers().clear();
  std::istringstream text(lines);
  for (std::string line; std::getline(text, line);) {
    std::istringstream words(line);
    std::string key, word, value;
    words >> key;
    if (key.find_first_not_of("0123456789") == std::string::npos) {
      words >> word;
      key += " " + word;
      if (word == "fails" || word == "slice") {
        words >> word;
        key += " " + word;
      }
    }
    std::getline(words >> std::ws, value);
    answers()[key] = value;
  }
}
int fake_nvml_sessions() {
  return sessions;
}

int nvmlInit_v2() {
  const int code = global("init", kSuccess);
  if (code == kSuccess) ++sessions;
  return code;
}
int nvmlShutdown() {
  --sessions;
  return kSuccess;
}
const char* nvmlErrorString(int code) {
  if (code == kLost) return "GPU is lost";
  return code == 9 ? "Driver Not Loaded" : "Unknown Error";
}
int nvmlDeviceGetCount_v2(std::uint32_t* count) {
  if (const int code = global("fails", kSuccess); code != kSuccess) return code;
  *count = static_cast<std::uint32_t>(global("count", 0));
  return kSuccess;
}
int nvmlDeviceGetHandleByIndex_v2(std::uint32_t index, Handle* device) {
  *device = handle_of(index);
  return answers().contains(std::to_string(index) + " lost") ? kLost : kSuccess;
}
int nvmlDeviceGetHandleByPciBusId_v2(const char* id, Handle* device) {
  std::uint32_t domain = 0, bus = 0, slot = 0;
  if (std::sscanf(id, "%x:%x:%x.0", &domain, &bus, &slot) != 3) return 2;
  const std::string wanted =
      std::to_string(domain) + " " + std::to_string(bus) + " " + std::to_string(slot);
  for (int i = 0; i < global("count", 0); ++i) {
    const auto pci = answers().find(std::to_string(i) + " pci");
    if (pci == answers().end() || pci->second != wanted) continue;
    *device = handle_of(static_cast<std::uint64_t>(i));
    return kSuccess;
  }
  return kNotFound;
}
int nvmlDeviceGetHandleByUUID(const char* uuid, Handle* device) {
  constexpr std::string_view kUuid = " uuid";
  for (const auto& [key, value] : answers()) {
    if (!key.ends_with(kUuid) || value != uuid) continue;
    *device = handle_of(std::stoull(key));
    return kSuccess;
  }
  return kNotFound;
}
int nvmlDeviceGetName(Handle device, char* name, std::uint32_t bytes) {
  return text(device, "name", name, bytes);
}
int nvmlDeviceGetUUID(Handle device, char* uuid, std::uint32_t bytes) {
  return text(device, "uuid", uuid, bytes);
}
int nvmlDeviceGetPciInfo_v3(Handle device, FakePci* pci) {
  return read(device, "pci", &pci->domain, &pci->bus, &pci->device);
}
int nvmlDeviceGetCpuAffinity(Handle device, std::uint32_t words, unsigned long* set) {
  std::istringstream answer;
  const int code = ask(device, "cpus", answer);
  std::memset(set, 0, words * sizeof *set);
  for (std::uint32_t cpu = 0; code == kSuccess && answer >> cpu;) {
    set[cpu / 64] |= std::uint64_t{1} << (cpu % 64);
  }
  return code;
}
int nvmlDeviceGetMigMode(Handle device, std::uint32_t* now, std::uint32_t* later) {
  *later = 0;
  return read(device, "mig", now);
}
int nvmlDeviceGetMaxMigDeviceCount(Handle device, std::uint32_t* count) {
  return read(device, "slices", count);
}
int nvmlDeviceGetMigDeviceHandleByIndex(Handle device, std::uint32_t index, Handle* slice) {
  std::uint64_t number = 0;
  const int code = read(device, "slice " + std::to_string(index), &number);
  *slice = handle_of(number);
  return code == kNotSupported ? kNotFound : code;
}
int nvmlDeviceGetMemoryInfo(Handle device, FakeMemory* memory) {
  return read(device, "memory", &memory->total, &memory->used);
}
int nvmlDeviceGetUtilizationRates(Handle device, FakeUtilization* busy) {
  return read(device, "utilization", &busy->gpu, &busy->memory);
}
int nvmlDeviceGetPowerUsage(Handle device, std::uint32_t* milliwatts) {
  return read(device, "power", milliwatts);
}
int nvmlDeviceGetTemperature(Handle device, int sensor, std::uint32_t* degrees) {
  return sensor == 0 ? read(device, "temperature", degrees) : 2;
}
int nvmlDeviceGetClockInfo(Handle device, int clock, std::uint32_t* megahertz) {
  return clock == 1 ? read(device, "clock", megahertz) : 2;
}
int nvmlDeviceGetTotalEccErrors(Handle device, int kind, int since, unsigned long long* errors) {
  return since == 0 ? read(device, kind == 1 ? "uncorrected" : "corrected", errors) : 2;
}
int nvmlDeviceGetRemappedRows(Handle device, std::uint32_t* corrected, std::uint32_t* uncorrected,
                              std::uint32_t* pending, std::uint32_t* failed) {
  *corrected = *uncorrected = *pending = 0;
  return read(device, "rows", failed, pending);
}

}  // extern "C"
