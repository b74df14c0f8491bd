// SPDX-License-Identifier: Apache-2.0
// log on GPUs.
#include <cmath>

#include "ops/support/device_kernel.h"
#include "ops/table.h"

namespace troupe::ops {
namespace {

struct Log {
  template <typename W>
  TROUPE_HOST_DEVICE W operator()(W x) const {
    using std::log;
    return log(x);
  }
};

}  // namespace

std::span<const BackendKernel> kernels_log_cuda() {
  static const BackendKernel kernels[] = {{"log", plain_device_kernel<1>(Log())}};
  return kernels;
}

}  // namespace troupe::ops
