// SPDX-License-Identifier: Apache-2.0
// The shared block of memory and the hand-over between its users.
#include "symbol/arena.h"

#include <utility>

namespace troupe::symbol {

namespace {

constexpr engine::Lane kLane{{}, engine::LaneKind::priority};

}  // namespace

Arena::Arena(ndarray::Runtime& runtime, base::Device device)
    : runtime_(runtime), device_(device), memory_(std::make_shared<Memory>()) {
  memory_->variable = runtime.engine.new_variable("arena");
}

Arena::~Arena() {
  const engine::Variable variable = memory_->variable;
  if (!variable.engine_stands()) return;
  const engine::Operation release{"release arena", {}, {&variable, 1}, kLane, 0};
  runtime_.engine.push(release, [memory = std::move(memory_)](engine::RunContext&) mutable {
    memory.reset();
    return base::Status();
  });
}

base::Status Arena::reserve(std::size_t bytes) {
  if (bytes <= bytes_) return {};
  const std::size_t before = std::exchange(bytes_, 0);
  user_ = nullptr;
  if (before > 0) {
    put({});
    TROUPE_TRY(runtime_.engine.wait(memory_->variable));
  }
  const base::Status grown = allocate(bytes);
  if (!grown.ok() && before > 0) static_cast<void>(allocate(before));
  return grown;
}

base::Status Arena::allocate(std::size_t bytes) {
  TROUPE_TRY_ASSIGN(base::Buffer buffer, runtime_.storage.allocate_arena(device_, bytes, "arena"));
  put(std::move(buffer));
  bytes_ = bytes;
  return {};
}

void Arena::put(base::Buffer buffer) {
  const engine::Operation operation{
      .name = "size arena", .lane = kLane, .overwrites = {&memory_->variable, 1}};
  runtime_.engine.push(
      operation, [memory = memory_.get(), made = std::move(buffer)](engine::RunContext&) mutable {
        memory->buffer = std::move(made);
        return base::Status();
      });
}

}  // namespace troupe::symbol
