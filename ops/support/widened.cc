// SPDX-License-Identifier: Apache-2.0
// Conversions run flat over the memory of a tensor: padding is zero in both types.
#include "ops/support/widened.h"

#include <algorithm>

#include "base/cast_values.h"
#include "ops/op.h"
#include "ops/roofline.h"
#include "ops/support/chunks.h"
#include "ops/support/scratch_views.h"

namespace troupe::ops {
namespace {

using base::DType;
using base::Errc;
using base::Layout;
using base::Result;
using base::Status;
using base::TensorView;

/// Scratch: the f32 tensors, the views of them, then what the inner kernel wants.
class WidenedKernel final : public Kernel {
 public:
  WidenedKernel(const OpCall& call, std::unique_ptr<Kernel> inner)
      : inner_(std::move(inner)), added_(call.outputs.size()) {
    const std::vector<int>& unread = call.op->shape_only_inputs;
    for (std::size_t i = 0; i < call.inputs.size(); ++i) {
      const auto index = static_cast<int>(i);
      read_.push_back(std::find(unread.begin(), unread.end(), index) == unread.end());
      if (read_[i]) add_tensor(call.inputs[i], inner_->input_layouts(), i);
    }
    for (std::size_t o = 0; o < call.outputs.size(); ++o) {
      add_tensor(call.outputs[o], inner_->output_layouts(), o);
    }
    for (std::size_t o = 0; o < call.modes.size(); ++o) {
      added_[o] = call.modes[o] == WriteMode::add;
    }
    const std::size_t views = call.inputs.size() + call.outputs.size();
    inner_scratch_ =
        tensor_bytes_ + scratch_piece(static_cast<std::int64_t>(views * sizeof(TensorView)));
  }

  std::string name() const override { return inner_->name() + " in f32"; }
  bool keeps_sample_bits() const override { return inner_->keeps_sample_bits(); }
  std::size_t scratch_bytes() const override { return inner_scratch_ + inner_->scratch_bytes(); }
  std::vector<Layout> input_layouts() const override { return inner_->input_layouts(); }
  std::vector<Layout> output_layouts() const override { return inner_->output_layouts(); }

  Status run(const KernelContext& context) const override {
    ScratchViews views(context.scratch.data() + tensor_bytes_);
    std::byte* free = context.scratch.data();
    const auto widened = [&free](const TensorView& view, bool used) {
      TensorView wide = view;
      if (!base::is_16_bit(view.dtype)) return wide;
      wide.data = used ? free : nullptr;
      wide.dtype = DType::f32;
      if (used) free += scratch_piece(wide.bytes());
      return wide;
    };
    KernelContext inner = context;
    inner.inputs = views.add(context.inputs, [&](std::size_t i, const TensorView& view) {
      return widened(view, read_[i]);  // what is not read may have no memory, in any layout
    });
    inner.outputs = views.add(
        context.outputs, [&](std::size_t, const TensorView& view) { return widened(view, true); });
    inner.scratch = context.scratch.subspan(inner_scratch_);
    for (std::size_t i = 0; i < context.inputs.size(); ++i) {
      if (read_[i]) widen_one(context, context.inputs[i], inner.inputs[i]);
    }
    for (std::size_t o = 0; o < context.outputs.size(); ++o) {
      if (added_[o]) widen_one(context, context.outputs[o], inner.outputs[o]);
    }
    TROUPE_TRY(inner_->run(inner));
    for (std::size_t o = 0; o < context.outputs.size(); ++o) {
      if (!base::is_16_bit(context.outputs[o].dtype)) continue;
      cast_memory(context, inner.outputs[o], context.outputs[o]);
    }
    return {};
  }

 private:
  void add_tensor(const TensorDesc& tensor, const std::vector<Layout>& layouts, std::size_t i) {
    if (!base::is_16_bit(tensor.dtype)) return;
    const Layout layout = layouts.empty() ? Layout::dense() : layouts[i];
    tensor_bytes_ += scratch_piece(layout.buffer_bytes(tensor.shape, sizeof(float)));
  }
  static void widen_one(const KernelContext& context, const TensorView& from,
                        const TensorView& to) {
    if (base::is_16_bit(from.dtype)) cast_memory(context, from, to);
  }

  const std::unique_ptr<Kernel> inner_;
  std::vector<bool> read_;   // per input
  std::vector<bool> added_;  // per output
  std::size_t tensor_bytes_ = 0;
  std::size_t inner_scratch_ = 0;
};

/// An error where a tensor would be in a library's own layout: nobody else reads it, and views of
/// it take memory.
Status check_layouts(const std::vector<Layout>& layouts) {
  for (const Layout& layout : layouts) {
    if (layout.kind == Layout::Kind::opaque) {
      return base::error(Errc::unimplemented, "tensors of 16 bits in layout {}",
                         layout.to_string());
    }
  }
  return {};
}

}  // namespace

void cast_memory(const KernelContext& context, const TensorView& from, const TensorView& to) {
  const auto place = [](const TensorView& view, std::int64_t i) {
    return static_cast<std::byte*>(view.data) +
           i * static_cast<std::int64_t>(base::dtype_size(view.dtype));
  };
  const auto count = from.bytes() / static_cast<std::int64_t>(base::dtype_size(from.dtype));
  parallel_ranges(context, count, [&](std::int64_t begin, std::int64_t end) {
    base::cast_values(from.dtype, place(from, begin), to.dtype, place(to, begin), end - begin);
  });
}

Status add_memory(const KernelContext& context, const TensorView& from, const TensorView& to) {
  return with_real(to.dtype, [&](auto zero) {
    using T = decltype(zero);
    const T* source = from.as<T>();
    T* target = to.as<T>();
    const auto count = to.bytes() / static_cast<std::int64_t>(sizeof(T));
    parallel_ranges(context, count, [=](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) {
        target[i] = T(static_cast<Wide<T>>(target[i]) + static_cast<Wide<T>>(source[i]));
      }
    });
    return Status();
  });
}

bool has_dtype(const OpCall& call, DType dtype) {
  const auto has = [dtype](const TensorDesc& tensor) { return tensor.dtype == dtype; };
  return std::any_of(call.inputs.begin(), call.inputs.end(), has) ||
         std::any_of(call.outputs.begin(), call.outputs.end(), has);
}

bool has_16_bits(const OpCall& call) {
  return has_dtype(call, DType::f16) || has_dtype(call, DType::bf16);
}

OpCall widened_call(OpCall call) {
  for (auto* group : {&call.inputs, &call.outputs}) {
    for (TensorDesc& tensor : *group) {
      if (base::is_16_bit(tensor.dtype)) tensor.dtype = DType::f32;
    }
  }
  return call;
}

double widening_seconds(const OpCall& call) {
  double elements = 0;
  for (const auto* group : {&call.inputs, &call.outputs}) {
    for (const TensorDesc& tensor : *group) {
      if (base::is_16_bit(tensor.dtype)) elements += static_cast<double>(tensor.shape.elements());
    }
  }
  constexpr double kBytesOfBoth = sizeof(float) + sizeof(base::BF16);
  return elements * kBytesOfBoth / rule_processor().bytes_per_second;
}

Result<std::unique_ptr<Kernel>> make_widened(const OpCall& call, const PrepareFunction& make) {
  TROUPE_TRY_ASSIGN(std::unique_ptr<Kernel> inner, make(widened_call(call)));
  TROUPE_TRY(check_layouts(inner->input_layouts()));
  TROUPE_TRY(check_layouts(inner->output_layouts()));
  return std::unique_ptr<Kernel>(std::make_unique<WidenedKernel>(call, std::move(inner)));
}

}  // namespace troupe::ops
