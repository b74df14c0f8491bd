// SPDX-License-Identifier: Apache-2.0
// Requests as keys: all that a caller says.
#include "ndarray/prepared_calls.h"

#include <algorithm>
#include <functional>
#include <string>

#include "base/mix_hash.h"

namespace troupe::ndarray {

RequestKeys::Key RequestKeys::own(const CallRequest& request) {
  return {*request.attributes, {request.inputs.begin(), request.inputs.end()}, request};
}

CallRequest RequestKeys::view(const Key& key) {
  CallRequest request = key.request;
  request.attributes = &key.attributes;
  request.inputs = key.inputs;
  return request;
}

std::size_t RequestKeys::hash(const CallRequest& request) {
  std::size_t hash = std::hash<const void*>{}(request.op);
  for (const auto& [name, value] : *request.attributes) {
    base::mix_hash(hash, std::hash<std::string>{}(name));
    base::mix_hash(hash, std::hash<std::string>{}(value));
  }
  for (const Operand& input : request.inputs) {
    base::mix_hash(hash, static_cast<std::size_t>(input.dtype));
    for (const std::int64_t extent : input.shape.dims()) {
      base::mix_hash(hash, static_cast<std::size_t>(extent));
    }
  }
  return hash;
}

bool RequestKeys::equal(const CallRequest& a, const CallRequest& b) {
  return a.op == b.op && a.device == b.device && a.team == b.team &&
         a.reference_only == b.reference_only && a.adds == b.adds &&
         std::ranges::equal(a.inputs, b.inputs) && *a.attributes == *b.attributes;
}

}  // namespace troupe::ndarray
