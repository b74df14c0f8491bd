// SPDX-License-Identifier: Apache-2.0
// Looks into the caches, and prepares what they do not have.
#include "ndarray/prepared_kernels.h"

#include <utility>

#include "ops/op.h"

namespace troupe::ndarray {

PreparedKernels::PreparedKernels(std::size_t prepared_kernels_max)
    : calls_(prepared_kernels_max), kernels_(prepared_kernels_max) {}

std::shared_ptr<const PreparedCall> PreparedKernels::find(const CallRequest& request) {
  std::shared_ptr<const PreparedCall> call = calls_.find(request);
  if (call != nullptr) count(true);
  return call;
}

base::Result<std::shared_ptr<const ops::Kernel>> PreparedKernels::get(const ops::OpCall& call) {
  std::shared_ptr<const ops::Kernel> known = kernels_.find(&call);
  count(known != nullptr);
  if (known != nullptr) return known;
  // Outside any lock: making a library's object may take long, and a second maker does no harm.
  TROUPE_TRY_ASSIGN(std::shared_ptr<const ops::Kernel> made, ops::prepare(call));
  return kernels_.keep(&call, std::move(made));
}

}  // namespace troupe::ndarray
