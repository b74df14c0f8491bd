// SPDX-License-Identifier: Apache-2.0
// Kernels on threads and streams.
#include "ndarray/launch.h"

#include <utility>
#include <vector>

#include "base/parallel.h"

namespace troupe::ndarray {

base::Status launch(const std::shared_ptr<const ops::Kernel>& kernel, ops::KernelContext arguments,
                    engine::RunContext& lane, bool fresh) {
  arguments.team = lane.team;
  arguments.slots = lane.slots;
  arguments.stream = lane.stream;
  if (lane.stream == nullptr || lane.stream->native() != nullptr) return kernel->run(arguments);
  if (fresh) {
    for (const base::TensorView& output : arguments.outputs) {
      lane.stream->poison(
          {static_cast<std::byte*>(output.data), static_cast<std::size_t>(output.bytes())});
    }
  }
  lane.stream->enqueue_host(
      [kernel, arguments,
       inputs = std::vector<base::TensorView>(arguments.inputs.begin(), arguments.inputs.end()),
       outputs = std::vector<base::TensorView>(arguments.outputs.begin(),
                                               arguments.outputs.end())]() mutable {
        // The stream's thread is not the lane's: it must lead the team that the kernel is made for.
        if (base::thread_team() != arguments.team) base::set_thread_team(arguments.team);
        arguments.inputs = inputs;
        arguments.outputs = outputs;
        return kernel->run(arguments);
      });
  return {};
}

}  // namespace troupe::ndarray
