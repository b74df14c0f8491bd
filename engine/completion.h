// SPDX-License-Identifier: Apache-2.0
// Completion: the end of an asynchronous operation, handed to whoever will know it. Move-only;
// complete() is called at most once, from any thread; a completion dropped without it fails its
// operation with Errc::abandoned. After Engine::cancel a late complete() is ignored.
#pragma once

#include <memory>
#include <utility>

#include "base/status.h"

namespace troupe::engine {

/// What a Completion reports to; implemented by the engines (and by tests).
class CompletionTarget {
 public:
  virtual ~CompletionTarget() = default;
  /// Called at most once per Completion.
  virtual void complete(base::Status status) = 0;
};

/// Owns the right to end one asynchronous operation.
class Completion {
 public:
  Completion() = default;
  explicit Completion(std::shared_ptr<CompletionTarget> target) : target_(std::move(target)) {}
  Completion(Completion&&) noexcept = default;
  Completion& operator=(Completion&& other) noexcept;
  Completion(const Completion&) = delete;
  Completion& operator=(const Completion&) = delete;
  ~Completion();

  /// Ends the operation and releases its variables.
  void complete(base::Status status = {});
  explicit operator bool() const { return target_ != nullptr; }

 private:
  std::shared_ptr<CompletionTarget> target_;
};

}  // namespace troupe::engine
