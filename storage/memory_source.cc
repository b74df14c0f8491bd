// SPDX-License-Identifier: Apache-2.0
// Host memory: small blocks from malloc, large ones mapped on borders of huge pages. Pinned memory
// and memory of GPUs: gpu/memory.h.
#include "storage/memory_source.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <string>

#include "base/control_group.h"
#include "base/machine_memory.h"
#include "base/units.h"
#include "gpu/inventory.h"
#include "gpu/memory.h"
#include "storage/size_class.h"
#include "storage/storage.h"

namespace troupe::storage {

namespace {

constexpr std::size_t kHugePageBytes = std::size_t{2} << 20;
constexpr std::size_t kPageBytes = 4096;

std::size_t round_up(std::size_t bytes, std::size_t unit) {
  return (bytes + unit - 1) / unit * unit;
}

class HostMemory final : public MemorySource {
 public:
  base::Result<std::byte*> take(std::size_t bytes, bool huge) override {
    std::byte* const data = huge ? map_huge(bytes)
                                 : static_cast<std::byte*>(std::aligned_alloc(
                                       kBlockAlignment, round_up(bytes, kBlockAlignment)));
    if (data != nullptr) return data;
    return base::error(base::Errc::resource_exhausted, "the system gives none");
  }

  void give(std::byte* data, std::size_t bytes, bool huge) override {
    if (huge) {
      munmap(data, round_up(bytes, kPageBytes));
    } else {
      std::free(data);
    }
  }

  /// Mapped pages are.
  bool zeroed(bool huge) const override { return huge; }
  base::Status fill(std::byte* data, std::byte value, std::size_t bytes) override {
    if (bytes > 0) std::memset(data, std::to_integer<int>(value), bytes);
    return {};
  }

  std::uint64_t total_bytes() const override { return total_host_bytes(); }

 private:
  /// Null: there is none.
  static std::byte* map_huge(std::size_t bytes) {
    // Map one huge page more than wanted, and unmap what lies outside the aligned window.
    const std::size_t wanted = round_up(bytes, kPageBytes);
    const std::size_t mapped = wanted + kHugePageBytes;
    // Pools have limits of their own: pages that nobody writes need not be there.
    constexpr int kFlags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
    void* const map = mmap(nullptr, mapped, PROT_READ | PROT_WRITE, kFlags, -1, 0);
    if (map == MAP_FAILED) return nullptr;
    auto* const begin = static_cast<std::byte*>(map);
    const std::size_t address = reinterpret_cast<std::uintptr_t>(map);
    const std::size_t before = round_up(address, kHugePageBytes) - address;
    if (before > 0) munmap(begin, before);
    const std::size_t behind = mapped - before - wanted;
    if (behind > 0) munmap(begin + before + wanted, behind);
    // Advice only: without huge pages the memory is as good, if slower.
    static_cast<void>(madvise(begin + before, wanted, MADV_HUGEPAGE));
    return begin + before;
  }
};

/// Host memory that a driver has pinned. Its use is that of host memory.
class PinnedMemory final : public MemorySource {
 public:
  base::Result<std::byte*> take(std::size_t bytes, bool) override {
    return gpu::allocate_pinned(bytes);
  }
  void give(std::byte* data, std::size_t, bool) override { gpu::release_pinned(data); }
  bool zeroed(bool) const override { return false; }
  base::Status fill(std::byte* data, std::byte value, std::size_t bytes) override {
    return HostMemory().fill(data, value, bytes);
  }
  std::uint64_t total_bytes() const override { return HostMemory().total_bytes(); }
};

class GpuMemory final : public MemorySource {
 public:
  explicit GpuMemory(base::Device device) : device_(device) {}
  base::Result<std::byte*> take(std::size_t bytes, bool) override {
    auto data = gpu::allocate(device_, bytes);
    if (data.ok() || data.status().code() != base::Errc::resource_exhausted) return data;
    return base::error(base::Errc::resource_exhausted, "{}; it has {} free, for everybody",
                       data.status().text(), base::format_bytes(gpu::free_bytes(device_)));
  }
  void give(std::byte* data, std::size_t, bool) override { gpu::release(device_, data); }
  bool zeroed(bool) const override { return false; }
  base::Status fill(std::byte* data, std::byte value, std::size_t bytes) override {
    return bytes > 0 ? gpu::fill(device_, data, value, bytes) : base::Status();
  }
  std::uint64_t total_bytes() const override { return gpu::total_bytes(device_); }

 private:
  const base::Device device_;
};

}  // namespace

std::uint64_t total_host_bytes() {
  const auto pages = static_cast<std::uint64_t>(sysconf(_SC_PHYS_PAGES));
  const std::uint64_t machine = pages * static_cast<std::uint64_t>(sysconf(_SC_PAGE_SIZE));
  const auto limit = base::ControlGroup::of_this_process().least_limit();
  return limit ? std::min(*limit, machine) : machine;
}

std::uint64_t available_host_bytes() {
  std::uint64_t bytes = total_host_bytes();
  const std::uint64_t available = base::read_machine_memory().available;
  if (available > 0) bytes = std::min(bytes, available);
  if (const auto group = base::ControlGroup::of_this_process().memory()) {
    bytes = std::min(bytes, group->limit - std::min(group->limit, group->used));
  }
  return bytes;
}

base::Result<std::unique_ptr<MemorySource>> make_memory_source(base::Device device) {
  if (device.host_memory()) {
    return std::unique_ptr<MemorySource>(std::make_unique<HostMemory>());
  }
  if (base::Status status = gpu::check_device(device); !status.ok()) {
    return status.with_context("[storage]");
  }
  return std::unique_ptr<MemorySource>(std::make_unique<GpuMemory>(device));
}

std::unique_ptr<MemorySource> make_pinned_source() {
  if (!gpu::inventory().problem.empty()) return std::make_unique<HostMemory>();
  return std::make_unique<PinnedMemory>();
}

}  // namespace troupe::storage
