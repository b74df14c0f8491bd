// SPDX-License-Identifier: Apache-2.0
// How large the files of a checkpoint may be: whoever copies one from another machine writes no
// more than its parameters and the optimizer's state need, and they hold all parameters. Pure
// functions; any thread.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "base/status.h"
#include "schemas/manifest.h"

namespace troupe::store {

/// Most bytes of the files of a checkpoint of these keys, with a state tensor for each of `slots`,
/// beside kFileHeadBytes for each file: every tensor, and what the headers say of its slices.
/// data_loss names a key whose shape is none.
base::Result<std::uint64_t> checkpoint_bytes_most(std::span<const schemas::KeyInfo> keys,
                                                  std::span<const std::string> slots);

/// What a file has even without a tensor.
inline constexpr std::uint64_t kFileHeadBytes = 64;

/// data_loss when the manifest's files have more bytes together than `bytes_most`, as
/// checkpoint_bytes_most() gives it for the job. 0: nobody knows, and its own keys say it.
base::Status check_sizes(const schemas::Manifest& manifest, std::uint64_t bytes_most);

/// data_loss when the values of the manifest's keys need more bytes than its files have: no layout
/// of such keys is made. A manifest without files is not judged.
base::Status check_keys(const schemas::Manifest& manifest);

}  // namespace troupe::store
