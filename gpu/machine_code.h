// SPDX-License-Identifier: Apache-2.0
// Which GPUs a build's code runs on. Pure functions; any thread.
#pragma once

#include <string>
#include <string_view>

namespace troupe::gpu {

/// Whether code for `architectures` runs on a device of compute capability major.minor. They are a
/// list as CMAKE_CUDA_ARCHITECTURES has it, with blanks or semicolons: "80-real" is machine code,
/// which also runs on later devices of the same major version; "80-virtual" is PTX, which every
/// later device's driver compiles; "80" is both. "90a" runs on 9.0 alone. Other entries, such as
/// "native" or "all", are not understood, so they may fit: then the runtime refuses.
bool runs_on(std::string_view architectures, int major, int minor);

}  // namespace troupe::gpu
