// SPDX-License-Identifier: Apache-2.0
// The blocks of CallMemory.
#include "base/call_memory.h"

#if TROUPE_FOREIGN_NEW

namespace troupe::base {
CallMemory::CallMemory() = default;
CallMemory::~CallMemory() = default;
void CallMemory::keep_on_this_thread() {}
void* CallMemory::take(std::size_t) noexcept {
  return nullptr;
}
bool CallMemory::give_back(void*) noexcept {
  return false;
}
}  // namespace troupe::base

#else

#include <array>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>

namespace {

/// Threads that are served at the same time, and what each gets: a primitive's argument table is
/// about ten pieces of 24 to 400 bytes.
constexpr std::size_t kBlocks = 64;
constexpr std::size_t kPieces = 32;
constexpr std::size_t kPieceBytes = 512;
constexpr std::size_t kBlockBytes = kPieces * kPieceBytes;

struct alignas(64) Block {
  std::atomic<bool> held{false};
  std::atomic<std::uint32_t> used{0};  // a bit per piece, set by the holder alone
};

// Process-wide and never constructed, because operator new may run before main.
constinit std::array<Block, kBlocks> blocks;
alignas(64) constinit std::array<std::byte, kBlocks * kBlockBytes> memory{};

/// The block that this thread holds, or held last.
constinit thread_local std::size_t block_number = 0;
constinit thread_local bool holding = false;

}  // namespace

namespace troupe::base {

CallMemory::CallMemory() {
  if (holding) return;
  // The thread's last block first: it is most likely free, and in this processor's cache.
  for (std::size_t tries = 0; tries < kBlocks; ++tries) {
    const std::size_t number = (block_number + tries) % kBlocks;
    if (blocks[number].held.exchange(true, std::memory_order_acquire)) continue;
    block_number = number;
    holding = holds_ = true;
    return;
  }
}

CallMemory::~CallMemory() {
  if (!holds_) return;
  holding = false;
  blocks[block_number].held.store(false, std::memory_order_release);
}

void CallMemory::keep_on_this_thread() {
  thread_local const CallMemory kept;
}

void* CallMemory::take(std::size_t bytes) noexcept {
  if (!holding || bytes > kPieceBytes) return nullptr;
  std::atomic<std::uint32_t>& used = blocks[block_number].used;
  const auto piece =
      static_cast<std::size_t>(std::countr_one(used.load(std::memory_order_acquire)));
  if (piece == kPieces) return nullptr;
  used.fetch_or(std::uint32_t{1} << piece, std::memory_order_relaxed);
  return memory.data() + block_number * kBlockBytes + piece * kPieceBytes;
}

bool CallMemory::give_back(void* place) noexcept {
  const auto offset =
      reinterpret_cast<std::uintptr_t>(place) - reinterpret_cast<std::uintptr_t>(memory.data());
  if (offset >= memory.size()) return false;
  const std::size_t piece = offset % kBlockBytes / kPieceBytes;
  blocks[offset / kBlockBytes].used.fetch_and(~(std::uint32_t{1} << piece),
                                              std::memory_order_release);
  return true;
}

}  // namespace troupe::base

#endif
