// SPDX-License-Identifier: Apache-2.0
// PreparedCalls: what was inferred and prepared for imperative calls that were made before, found
// by what the caller says. Bounded, least recently used out. Any thread.
#pragma once

#include <cstddef>
#include <list>
#include <memory>
#include <span>
#include <unordered_map>
#include <vector>

#include "base/mutex.h"
#include "ops/op.h"

namespace troupe::ndarray {

/// Dtype and shape of an array, or of a number that travels with a call.
struct Operand {
  base::DType dtype = base::DType::f32;
  base::Shape shape;
  friend bool operator==(const Operand&, const Operand&) = default;
};

/// What an imperative call says of itself. Owns nothing.
struct CallRequest {
  const ops::OpDef* op = nullptr;
  const ops::Attributes* attributes = nullptr;  ///< as they were given
  std::span<const Operand> inputs;
  base::Device device;
  int team = 1;
  bool reference_only = false;
  bool adds = false;  ///< to all outputs
};

/// What follows from it.
struct PreparedCall {
  ops::OpCall call;
  std::shared_ptr<const ops::Kernel> kernel;
  std::size_t scratch_bytes = 0;
  std::size_t visible_outputs = 0;
};

/// The cache.
class PreparedCalls {
 public:
  /// Keeps `calls_max` at most, which is more than 0.
  explicit PreparedCalls(std::size_t calls_max) : calls_max_(calls_max) {}

  /// Null where the call is not known.
  std::shared_ptr<const PreparedCall> find(const CallRequest& request);
  /// From now on find() gives `call` for `request`.
  void keep(const CallRequest& request, std::shared_ptr<const PreparedCall> call);

 private:
  struct Hash {
    std::size_t operator()(const CallRequest& request) const;
  };
  struct Equal {
    bool operator()(const CallRequest& a, const CallRequest& b) const;
  };
  struct Entry {
    ops::Attributes attributes;
    std::vector<Operand> inputs;
    CallRequest request;  // names the two above
    std::shared_ptr<const PreparedCall> call;
  };
  using Entries = std::list<Entry>;

  const std::size_t calls_max_;
  base::Mutex mutex_;
  Entries entries_ TROUPE_GUARDED_BY(mutex_);  // most recently used first
  std::unordered_map<CallRequest, Entries::iterator, Hash, Equal> index_ TROUPE_GUARDED_BY(mutex_);
};

}  // namespace troupe::ndarray
