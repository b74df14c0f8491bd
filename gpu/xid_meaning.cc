// SPDX-License-Identifier: Apache-2.0
// The table.
#include "gpu/xid_meaning.h"

#include <algorithm>
#include <array>

namespace troupe::gpu {
namespace {

constexpr bool kDevice = true;
constexpr bool kProgram = false;  // or a note

constexpr std::array kMeanings = {
    XidMeaning{13, kProgram, "a program made an instruction or access that is not allowed"},
    XidMeaning{31, kProgram, "a program used an address of memory that it does not have"},
    XidMeaning{32, kProgram, "a program's commands arrived damaged"},
    XidMeaning{43, kProgram, "a program's work was stopped after its own error"},
    XidMeaning{45, kProgram, "a program's work was removed, because it ended or after an error"},
    XidMeaning{46, kDevice, "the GPU has stopped processing and needs a reset"},
    XidMeaning{48, kDevice, "memory has an uncorrectable error, and the GPU needs a reset"},
    XidMeaning{62, kDevice, "the GPU's power controller has halted, and the GPU needs a reset"},
    XidMeaning{63, kProgram, "a bad row of memory gets its spare one at the next reset"},
    XidMeaning{64, kDevice, "a bad row of memory could not be noted, and the GPU needs a reset"},
    XidMeaning{69, kProgram, "a program used an engine of the GPU in a wrong way"},
    XidMeaning{74, kDevice, "a link to another GPU (NVLink) has an error"},
    XidMeaning{79, kDevice, "the GPU has fallen off the bus, and its machine needs a reboot"},
    XidMeaning{92, kProgram, "many errors of memory were corrected"},
    XidMeaning{94, kProgram, "an uncorrectable error of memory ended the one program that met it"},
    XidMeaning{
        95, kDevice,
        "an uncorrectable error of memory may be in all programs, and the GPU needs a reset"},
    XidMeaning{109, kProgram, "a switch between programs took too long"},
    XidMeaning{110, kDevice, "a fault of security on the GPU, which needs a reset"},
    XidMeaning{119, kDevice,
               "the GPU's own processor (GSP) did not answer in time, and the GPU needs a reset"},
    XidMeaning{120, kDevice, "the GPU's own processor (GSP) has failed, and the GPU needs a reset"},
    XidMeaning{136, kDevice, "a link to another GPU (NVLink) could not be trained again"},
    XidMeaning{140, kDevice, "an error of memory was not recovered, and the GPU needs a reset"},
    XidMeaning{143, kDevice, "the GPU could not be initialized and needs a reset"},
    XidMeaning{154, kProgram, "`nvidia-smi -q` shows what the driver wants done (recovery action)"},
    XidMeaning{156, kDevice, "a resource of the GPU was retired, and it needs a reset"},
    XidMeaning{158, kDevice, "the GPU did not answer the driver in time and needs a reset"},
};

}  // namespace

std::span<const XidMeaning> xid_meanings() {
  return kMeanings;
}

const XidMeaning* find_xid(std::uint32_t xid) {
  const auto found = std::find_if(kMeanings.begin(), kMeanings.end(),
                                  [xid](const XidMeaning& each) { return each.xid == xid; });
  return found == kMeanings.end() ? nullptr : &*found;
}

}  // namespace troupe::gpu
