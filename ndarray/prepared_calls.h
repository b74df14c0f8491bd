// SPDX-License-Identifier: Apache-2.0
// PreparedCalls: what was inferred and prepared for imperative calls that were made before, found
// by what the caller says. Bounded, least recently used out. Any thread.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "base/lru_cache.h"
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

/// Requests as keys of a cache.
struct RequestKeys {
  using View = CallRequest;
  struct Key {
    ops::Attributes attributes;
    std::vector<Operand> inputs;
    CallRequest request;  ///< its own attributes and inputs are not read
  };
  static Key own(const CallRequest& request);
  static CallRequest view(const Key& key);
  static std::size_t hash(const CallRequest& request);
  static bool equal(const CallRequest& a, const CallRequest& b);
};

/// What was prepared for requests that were made before.
using PreparedCalls = base::LruCache<RequestKeys, std::shared_ptr<const PreparedCall>>;

}  // namespace troupe::ndarray
