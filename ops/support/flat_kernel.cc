// SPDX-License-Identifier: Apache-2.0
// Flat runs over dense or equally blocked tensors.
#include "ops/support/flat_kernel.h"

namespace troupe::ops {
namespace {

using base::Errc;
using base::Layout;
using base::Result;
using base::Status;

class FlatKernel final : public Kernel {
 public:
  using Run = std::function<Status(const OpCall&, const KernelContext&)>;

  FlatKernel(std::string name, OpCall call, Layout layout, Run run)
      : name_(std::move(name)),
        call_(std::move(call)),
        layout_(std::move(layout)),
        run_(std::move(run)) {}

  std::string name() const override { return name_; }
  std::vector<Layout> input_layouts() const override { return layouts(call_.inputs.size()); }
  std::vector<Layout> output_layouts() const override { return layouts(call_.outputs.size()); }
  Status run(const KernelContext& context) const override { return run_(call_, context); }

 private:
  std::vector<Layout> layouts(std::size_t count) const {
    return layout_.is_dense() ? std::vector<Layout>() : std::vector<Layout>(count, layout_);
  }

  std::string name_;
  OpCall call_;
  Layout layout_;
  Run run_;
};

}  // namespace

Result<Layout> common_layout(const OpCall& call) {
  Layout common;
  for (const auto* group : {&call.inputs, &call.outputs}) {
    for (const TensorDesc& desc : *group) {
      if (!desc.any_layout && !desc.layout.is_dense()) common = desc.layout;
    }
  }
  if (common.is_dense()) return common;
  if (common.kind != Layout::Kind::blocked || !call.op->elementwise ||
      !call.op->maps_zero_to_zero) {
    return base::error(Errc::unimplemented, "needs dense tensors, got {}", common.to_string());
  }
  for (const auto* group : {&call.inputs, &call.outputs}) {
    for (const TensorDesc& desc : *group) {
      if (!desc.any_layout && desc.layout != common) {
        return base::error(Errc::unimplemented, "layouts {} and {} are mixed",
                           desc.layout.to_string(), common.to_string());
      }
      if (desc.shape != call.outputs.front().shape) {
        return base::error(Errc::unimplemented, "broadcasting needs dense tensors");
      }
    }
  }
  return common;
}

KernelDef flat_kernel(std::string name,
                      std::function<Status(const OpCall&, const KernelContext&)> run,
                      std::function<Status(const OpCall&)> accepts) {
  const auto make = [name, run = std::move(run), accepts = std::move(accepts)](
                        const OpCall& call) -> Result<std::unique_ptr<Kernel>> {
    TROUPE_TRY(with_floating(call.outputs.front().dtype, [](auto) { return Status(); }));
    if (accepts) TROUPE_TRY(accepts(call));
    TROUPE_TRY_ASSIGN(Layout layout, common_layout(call));
    return std::unique_ptr<Kernel>(
        std::make_unique<FlatKernel>(name, call, std::move(layout), run));
  };
  return {name, make};
}

}  // namespace troupe::ops
