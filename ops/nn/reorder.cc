// SPDX-License-Identifier: Apache-2.0
// reorder: the same tensor in another memory layout, dense or blocked; what the pass that chooses
// layouts puts between operators. Pure functions of views; any thread.
#include <cstring>

#include "ops/nn/support.h"
#include "ops/support/copy_kernel.h"
#include "ops/support/layout_map.h"

namespace troupe::ops {
namespace {

using base::Layout;
using base::Shape;
using base::Status;

/// Between any two dense or blocked layouts, element by element in row-major order.
class ReorderKernel final : public Kernel {
 public:
  ReorderKernel(const OpCall& call, Layout from, Layout to)
      : layouts_{std::move(from), std::move(to)},
        from_(layouts_[0], call.inputs[0].shape),
        to_(layouts_[1], call.inputs[0].shape),
        element_bytes_(base::dtype_size(call.inputs[0].dtype)) {}

  std::string name() const override { return "reference"; }
  std::vector<Layout> input_layouts() const override { return {layouts_[0]}; }
  std::vector<Layout> output_layouts() const override { return {layouts_[1]}; }

  Status run(const KernelContext& c) const override {
    const std::int64_t bytes = c.outputs[0].bytes();
    if (layouts_[0] == layouts_[1]) {
      std::memmove(c.outputs[0].data, c.inputs[0].data, static_cast<std::size_t>(bytes));
      return {};
    }
    // Padding is zero in every layout.
    std::memset(c.outputs[0].data, 0, static_cast<std::size_t>(bytes));
    switch (element_bytes_) {
      case 1:
        return copy<std::uint8_t>(c);
      case 2:
        return copy<std::uint16_t>(c);
      case 4:
        return copy<std::uint32_t>(c);
      default:
        return copy<std::uint64_t>(c);
    }
  }

 private:
  template <typename Bits>
  Status copy(const KernelContext& c) const {
    const Bits* from = static_cast<const Bits*>(c.inputs[0].data);
    Bits* to = static_cast<Bits*>(c.outputs[0].data);
    const std::int64_t row_elements = from_.row_elements();
    const std::int64_t step =
        std::max<std::int64_t>(1, 4096 / std::max<std::int64_t>(1, row_elements));
    parallel_ranges(
        c, from_.rows(),
        [&](std::int64_t begin, std::int64_t end) {
          for (std::int64_t row = begin; row < end; ++row) {
            const Bits* source = from + from_.row_offset(row);
            Bits* target = to + to_.row_offset(row);
            for (std::int64_t i = 0; i < row_elements; ++i) {
              target[to_.in_row(i)] = source[from_.in_row(i)];
            }
          }
        },
        step);
    return {};
  }

  std::array<Layout, 2> layouts_;
  LayoutMap from_, to_;
  std::size_t element_bytes_;
};

base::Result<std::unique_ptr<Kernel>> prepare_reorder(const OpCall& call) {
  const Layout& from = call.inputs[0].layout;
  const Layout& to = call.outputs[0].any_layout ? from : call.outputs[0].layout;
  for (const Layout* layout : {&from, &to}) {
    if (layout->kind != Layout::Kind::opaque) continue;
    return base::error(base::Errc::unimplemented, "opaque layout {}", layout->to_string());
  }
  return std::unique_ptr<Kernel>(std::make_unique<ReorderKernel>(call, from, to));
}

}  // namespace

std::span<const OpDef> ops_reorder() {
  static const std::vector<OpDef> ops = [] {
    OpDef op;
    op.name = "reorder";
    op.doc = "data in the memory layout that the call's output asks for; values and shape stay.";
    op.inputs = names({"data"});
    op.outputs = names({"output"});
    op.infer_dtype = infer_copied_dtype;
    op.infer_shape = infer_same_shape;
    op.gradient = [](GradientBuilder& b) -> base::Result<std::vector<std::optional<Value>>> {
      return std::vector<std::optional<Value>>{b.output_gradient(0)};
    };
    op.prepares_weights = true;
    op.keeps_samples = samples_in_data;
    op.flops = [](const OpCall&) { return 0.0; };
    op.kernels = {moving_kernel({"reference", prepare_reorder})};
    op.samples = {
        {.title = "four axes", .inputs = {{2, 17, 3, 5}}},
        {.title = "batch 32 of lenet conv2", .inputs = {{32, 50, 8, 8}}, .benchmark = true}};
    op.samples.back().gradient = false;
    return std::vector<OpDef>{op};
  }();
  return ops;
}

}  // namespace troupe::ops
