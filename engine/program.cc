// SPDX-License-Identifier: Apache-2.0
// Recording, and the handle on a compiled program.
#include "engine/program.h"

#include <algorithm>

#include "engine/core.h"
#include "engine/replay.h"

namespace troupe::engine {

Recording::Recording(std::string_view label, const Lane& lane, bool on_stream)
    : label_(label), lane_(lane), on_stream_(on_stream) {}

Slot Recording::inner() {
  slots_.push_back(-1);
  return {static_cast<std::uint32_t>(slots_.size() - 1)};
}

Slot Recording::port(const Variable& variable) {
  const auto next = static_cast<std::uint32_t>(slots_.size());
  const auto [known, added] = port_slots_.try_emplace(variable.state(), next);
  if (added) {
    slots_.push_back(static_cast<int>(ports_.size()));
    ports_.push_back(variable);
  }
  return {known->second};
}

void Recording::hold(const Variable& variable) {
  if (std::find(holds_.begin(), holds_.end(), variable) == holds_.end()) holds_.push_back(variable);
}

void Recording::add(InnerOperation operation) {
  for (const auto* list : {&operation.reads, &operation.writes, &operation.overwrites}) {
    for (const Slot slot : *list) {
      TROUPE_CHECK(slot.number < slots_.size(),
                   fmt::format("[{}] names a slot of another recording", operation.name));
    }
  }
  operations_.push_back(std::move(operation));
}

Program::~Program() {
  if (program_ != nullptr) CompiledProgram::drop(program_);
}

bool Program::engine_stands() const {
  return program_ != nullptr && program_->core().open();
}

std::size_t Program::size() const {
  return program_ == nullptr ? 0 : program_->plan().operations.size();
}

void Program::replay(int priority) {
  TROUPE_CHECK(engine_stands(), "replay() of an empty program, or behind its engine's end");
  program_->core().push_replay(*program_, priority);
}

}  // namespace troupe::engine
