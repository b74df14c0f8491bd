// SPDX-License-Identifier: Apache-2.0
// Convolutions by cuDNN's graph interface. The library is found at run time (gpu/shared_library.h).
// Only in builds with CUDA.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>

#include "ops/kernel.h"

namespace troupe::ops::cudnn {

/// Which of a convolution's three tensors is computed from the other two.
enum class Pass : std::uint8_t { output, data, weight };

/// A convolution of two spatial axes: extents as in Convolution, all tensors of one dtype.
struct Convolution {
  Pass pass = Pass::output;
  TensorDesc data, weight, output;  ///< with their layouts: dense, or channels last
  std::array<std::int64_t, 2> stride{}, dilation{}, before{}, behind{};  ///< of height, width
  std::optional<base::DType> bias;  ///< of the output's pass: one number for each channel, added
  bool relu = false;                ///< of the output's pass: behind the bias
  bool adds = false;                ///< the result is added to what its tensor holds
  bool tf32 = false;                ///< f32: tensor cores may take factors that are rounded to TF32
};

/// cuDNN's two guesses of which engines take least time: the quick one, and the one that looks
/// closer.
enum class Heuristics : std::uint8_t { a, b };

/// The place of an engine in such a guess, among those that may be taken, best first.
struct EnginePlace {
  Heuristics heuristics = Heuristics::a;
  int place = 0;
};

/// A convolution with an engine of cuDNN's that gives the same bits every time, takes no Winograd's
/// form or Fourier transform and, for f32 without `tf32`, no tensor cores. With relu it also notes
/// that NaN stays NaN. Immutable; any thread may run it, one at a time: cuDNN does not
/// promise more of its plans.
class Plan {
 public:
  /// The engine in this place; in the first one of `a`, where that has none, what cuDNN falls back
  /// to, but not with relu. unimplemented says why cuDNN does not take it, also where this engine's
  /// relu may hide NaN; resource_exhausted: there is no memory now.
  static base::Result<Plan> make(const Convolution& convolution, base::Device device,
                                 EnginePlace engine = {});

  std::size_t workspace_bytes() const { return workspace_bytes_; }
  /// Where a run's tensors lie.
  struct Pointers {
    void *data, *weight, *output;
    void* bias;            ///< null: the convolution has none
    std::byte* workspace;  ///< of workspace_bytes()
  };
  /// Issues it on the context's stream.
  base::Status run(const KernelContext& context, const Pointers& at) const;

 private:
  Plan() = default;
  std::shared_ptr<void> plan_;  // the library's execution plan
  std::size_t workspace_bytes_ = 0;
};

}  // namespace troupe::ops::cudnn
