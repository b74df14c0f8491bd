// SPDX-License-Identifier: Apache-2.0
// A kernel that is a function of a call whose layouts are all fixed. Immutable.
#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "ops/kernel.h"

namespace troupe::ops {

/// `run` honours the call's write modes itself.
class FunctionKernel final : public Kernel {
 public:
  using Run = std::function<base::Status(const OpCall&, const KernelContext&)>;

  FunctionKernel(std::string name, OpCall call, Run run, std::size_t scratch_bytes = 0)
      : name_(std::move(name)),
        call_(std::move(call)),
        run_(std::move(run)),
        scratch_bytes_(scratch_bytes) {}

  std::string name() const override { return name_; }
  std::vector<base::Layout> input_layouts() const override { return layouts(call_.inputs); }
  std::vector<base::Layout> output_layouts() const override { return layouts(call_.outputs); }
  std::size_t scratch_bytes() const override { return scratch_bytes_; }
  base::Status run(const KernelContext& context) const override { return run_(call_, context); }

 private:
  static std::vector<base::Layout> layouts(const std::vector<TensorDesc>& tensors) {
    std::vector<base::Layout> list;
    for (const TensorDesc& tensor : tensors) list.push_back(tensor.layout);
    return list;
  }

  std::string name_;
  OpCall call_;
  Run run_;
  std::size_t scratch_bytes_;
};

}  // namespace troupe::ops
