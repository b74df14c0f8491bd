// SPDX-License-Identifier: Apache-2.0
// Pools that share a device's memory.
#include "storage/pool.h"

#include <cstring>
#include <memory>
#include <new>
#include <utility>
#include <vector>

#include "tests/support/catch.h"

namespace troupe::storage {
namespace {

using base::Buffer;

constexpr std::size_t kBlock = 4096;

/// Memory of a device that has little left; pools share what is left.
class ScarceMemory final : public MemorySource {
 public:
  explicit ScarceMemory(std::shared_ptr<std::size_t> left) : left_(std::move(left)) {}
  base::Result<std::byte*> take(std::size_t bytes, bool) override {
    if (bytes > *left_) return base::error(base::Errc::resource_exhausted, "nothing is left");
    *left_ -= bytes;
    return static_cast<std::byte*>(::operator new (bytes, std::align_val_t{64}));
  }
  void give(std::byte* data, std::size_t bytes, bool) override {
    *left_ += bytes;
    ::operator delete (data, std::align_val_t{64});
  }
  bool zeroed(bool) const override { return false; }
  base::Status fill(std::byte* data, std::byte value, std::size_t bytes) override {
    std::memset(data, std::to_integer<int>(value), bytes);
    return {};
  }
  std::uint64_t total_bytes() const override { return 16 * kBlock; }

 private:
  const std::shared_ptr<std::size_t> left_;
};

struct Close {
  void operator()(Pool* pool) const { pool->close(); }
};
using OwnedPool = std::unique_ptr<Pool, Close>;

OwnedPool make_pool(base::Device device, const std::shared_ptr<std::size_t>& left) {
  return OwnedPool(
      new Pool(device, {}, std::unique_ptr<MemorySource>(std::make_unique<ScarceMemory>(left))));
}

/// Keeps `blocks` in its cache.
void use_once(Pool& pool, std::size_t blocks) {
  std::vector<Buffer> buffers;
  for (std::size_t i = 0; i < blocks; ++i) {
    buffers.push_back(pool.allocate(kBlock, "test").value());
  }
}

TEST_CASE("what other pools of the device keep is given back before an allocation fails",
          "[pool]") {
  const base::Device first{base::DeviceKind::cuda, 0};
  const base::Device second{base::DeviceKind::cuda, 1};
  const auto left = std::make_shared<std::size_t>(4 * kBlock);
  const auto others = std::make_shared<std::size_t>(kBlock);
  const OwnedPool one = make_pool(first, left);
  const OwnedPool other = make_pool(first, left);
  const OwnedPool elsewhere = make_pool(second, others);
  use_once(*one, 3);
  use_once(*elsewhere, 1);
  CHECK(one->statistics().reserved_bytes == 3 * kBlock);
  const Buffer large = other->allocate(2 * kBlock, "test").value();
  CHECK(one->statistics().reserved_bytes == 0);
  CHECK(elsewhere->statistics().reserved_bytes == kBlock);
  const auto failed = other->allocate(3 * kBlock, "test");
  CHECK(failed.status().code() == base::Errc::resource_exhausted);
  CHECK(other->statistics().reserved_bytes == 2 * kBlock);
}

TEST_CASE("a pool that is closed gives nothing back for others", "[pool]") {
  const base::Device device{base::DeviceKind::cuda, 0};
  const auto left = std::make_shared<std::size_t>(2 * kBlock);
  OwnedPool gone = make_pool(device, left);
  Buffer held = gone->allocate(kBlock, "test").value();
  gone.reset();
  const OwnedPool pool = make_pool(device, left);
  CHECK_FALSE(pool->allocate(2 * kBlock, "test").ok());
  held = {};  // and it is no more
  const auto all = pool->allocate(2 * kBlock, "test");
  CHECK(all.ok());
  CHECK_FALSE(pool->allocate(kBlock, "test").ok());
}

}  // namespace
}  // namespace troupe::storage
