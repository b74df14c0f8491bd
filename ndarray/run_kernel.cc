// SPDX-License-Identifier: Apache-2.0
// Kernels on threads and streams.
#include "ndarray/run_kernel.h"

#include <utility>
#include <vector>

#include "base/parallel.h"

namespace troupe::ndarray {

base::Status run_kernel(const std::shared_ptr<const ops::Kernel>& kernel,
                        const KernelBuffers& buffers, engine::RunContext& lane,
                        const RandomDraw& draw) {
  const ops::KernelContext context{.inputs = buffers.inputs,
                                   .outputs = buffers.outputs,
                                   .scratch = buffers.scratch,
                                   .random_key = draw.key,
                                   .random_step = draw.step,
                                   .team = kernel->threads(lane.team),
                                   .slots = lane.slots,
                                   .stream = lane.stream};
  if (lane.stream == nullptr || lane.stream->native() != nullptr) return kernel->run(context);
  if (buffers.fresh) {
    for (const base::TensorView& output : buffers.outputs) {
      lane.stream->poison(
          {static_cast<std::byte*>(output.data), static_cast<std::size_t>(output.bytes())});
    }
  }
  lane.stream->enqueue_host(
      [kernel, later = context, team = lane.team,
       inputs = std::vector<base::TensorView>(buffers.inputs.begin(), buffers.inputs.end()),
       outputs = std::vector<base::TensorView>(buffers.outputs.begin(),
                                               buffers.outputs.end())]() mutable {
        later.inputs = inputs;
        later.outputs = outputs;
        // The stream's thread is not the lane's: it must lead the lane's team.
        base::Status status;
        base::lead_team(team, [&] { status = kernel->run(later); });
        return status;
      });
  return {};
}

}  // namespace troupe::ndarray
