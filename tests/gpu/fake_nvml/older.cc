// SPDX-License-Identifier: Apache-2.0
// What a library before driver 535 has under another name. It has no events either.
#include "tests/gpu/fake_nvml/answers.h"

extern "C" int nvmlDeviceGetCurrentClocksThrottleReasons(void* device, unsigned long long* set) {
  return troupe::gpu::test::read(device, "reasons", set);
}
