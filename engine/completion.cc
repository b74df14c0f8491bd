// SPDX-License-Identifier: Apache-2.0
// A Completion reports once; dropping it reports too.
#include "engine/completion.h"

namespace troupe::engine {

Completion& Completion::operator=(Completion&& other) noexcept {
  if (this != &other) {
    Completion replaced = std::move(*this);
    target_ = std::move(other.target_);
  }
  return *this;
}

Completion::~Completion() {
  if (target_ != nullptr) {
    complete(base::Status(base::Errc::abandoned, "the completion was dropped without a result"));
  }
}

void Completion::complete(base::Status status) {
  TROUPE_CHECK(target_ != nullptr, "a completion may be completed once");
  std::exchange(target_, nullptr)->complete(std::move(status));
}

}  // namespace troupe::engine
