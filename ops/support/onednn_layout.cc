// SPDX-License-Identifier: Apache-2.0
// Layouts as oneDNN's blocked memory descriptors and back. Both say the same thing: outer axes in
// some order and inner blocks; the library writes the order as strides. Pure functions.
#include <algorithm>

#include "ops/support/onednn.h"

namespace troupe::ops::onednn {
namespace {

using base::Layout;
using base::Shape;

/// Joins axes 0 (groups) and 1 (channels of a group) into one; false when they do not lie in one
/// run.
bool join_groups(BlockedForm& form) {
  const OuterAxis groups = form.outer[0];
  const OuterAxis channels = form.outer[1];
  const bool channels_inside = block_of(form.blocks, 0) == 1 && form.padded[1] == form.extents[1] &&
                               groups.stride == channels.stride * channels.extent;
  const bool one_channel = form.padded[1] == 1;
  if (!channels_inside && !one_channel) return false;
  OuterAxis joined = groups;
  if (!one_channel) joined = {0, groups.extent * channels.extent, channels.stride};
  form.outer.erase(form.outer.begin());
  form.outer[0] = joined;
  for (OuterAxis& each : form.outer) each.axis = std::max(each.axis - 1, 0);
  for (base::InnerBlock& block : form.blocks) block.axis = std::max(block.axis - 1, 0);
  for (auto* list : {&form.extents, &form.padded}) {
    (*list)[1] *= (*list)[0];
    list->erase(list->begin());
  }
  return true;
}

/// The inverse of join_groups: `groups` becomes an own axis in front.
void split_groups(BlockedForm& form, std::int64_t groups) {
  const std::int64_t channels = form.extents[0] / groups;
  const std::int64_t block = block_of(form.blocks, 0);
  for (OuterAxis& each : form.outer) ++each.axis;
  for (base::InnerBlock& each : form.blocks) {
    if (each.axis > 0 || channels > 1) ++each.axis;
  }
  OuterAxis& joined = *std::find_if(form.outer.begin(), form.outer.end(),
                                    [](const OuterAxis& each) { return each.axis == 1; });
  OuterAxis front{0, joined.extent, joined.stride};
  if (channels > 1) {
    joined.extent = channels / block;
    front = {0, groups, joined.stride * joined.extent};
  } else {
    joined.extent = 1;
  }
  form.outer.push_back(front);
  form.extents.insert(form.extents.begin(), groups);
  form.extents[1] = channels;
  form.padded.insert(form.padded.begin(), channels > 1 ? groups : form.padded[0]);
  form.padded[1] = channels;
}

BlockedForm form_of(const Shape& shape, const Layout& layout, std::int64_t groups) {
  BlockedForm form;
  const Shape& padded = layout.is_dense() ? shape : layout.padded;
  form.extents.assign(shape.dims().begin(), shape.dims().end());
  form.padded.assign(padded.dims().begin(), padded.dims().end());
  form.blocks = layout.blocks;
  Layout::Order order = layout.order;
  if (layout.is_dense()) {
    for (std::int32_t axis = 0; axis < shape.rank(); ++axis) order.push_back(axis);
  }
  std::int64_t stride = 1;
  for (const base::InnerBlock& block : form.blocks) stride *= block.size;
  for (auto axis = order.rbegin(); axis != order.rend(); ++axis) {
    const std::int64_t extent = padded[*axis] / block_of(form.blocks, *axis);
    form.outer.push_back({*axis, extent, stride});
    stride *= extent;
  }
  if (groups > 1) split_groups(form, groups);
  return form;
}

}  // namespace

dnnl::memory::data_type library_type(base::DType dtype) {
  switch (dtype) {
    case base::DType::f32:
      return dnnl::memory::data_type::f32;
    case base::DType::bf16:
      return dnnl::memory::data_type::bf16;
    case base::DType::i8:
      return dnnl::memory::data_type::s8;
    case base::DType::i32:
      return dnnl::memory::data_type::s32;
    default:
      TROUPE_CHECK(dtype == base::DType::u8, "dtype unknown to oneDNN");
      return dnnl::memory::data_type::u8;
  }
}

bool can_split_groups(const Shape& shape, const Layout& layout, std::int64_t groups) {
  if (groups == 1 || layout.is_dense()) return true;
  const std::int64_t channels = shape[0] / groups;
  return channels == 1 || channels % block_of(layout.blocks, 0) == 0;
}

dnnl::memory::desc describe(base::DType dtype, const Shape& shape, const Layout& layout,
                            std::int64_t groups) {
  TROUPE_CHECK(can_split_groups(shape, layout, groups), "blocks cross groups");
  return memory_desc(form_of(shape, layout, groups), library_type(dtype));
}

dnnl::memory::desc describe(const TensorDesc& tensor, std::int64_t groups) {
  if (!tensor.any_layout) return describe(tensor.dtype, tensor.shape, tensor.layout, groups);
  return {form_of(tensor.shape, Layout::dense(), groups).extents, library_type(tensor.dtype),
          dnnl::memory::format_tag::any};
}

std::optional<Layout> layout_of(const dnnl::memory::desc& descriptor, std::int64_t groups) {
  std::optional<BlockedForm> read = read_form(descriptor);
  if (!read || (groups > 1 && !join_groups(*read))) return std::nullopt;
  BlockedForm& form = *read;
  form.sort_outer();
  std::int64_t stride = 1;
  for (const base::InnerBlock& block : form.blocks) stride *= block.size;
  bool ascending = true;
  std::int32_t last = -1;
  for (auto each = form.outer.rbegin(); each != form.outer.rend(); ++each) {
    if (each->extent > 1 && each->stride != stride) return std::nullopt;  // gaps between rows
    stride *= each->extent;
  }
  Layout layout;
  layout.kind = Layout::Kind::blocked;
  for (const OuterAxis& each : form.outer) {
    layout.order.push_back(each.axis);
    if (each.extent == 1) continue;
    ascending = ascending && each.axis > last;
    last = each.axis;
  }
  if (form.blocks.empty() && ascending && form.padded == form.extents) return Layout::dense();
  layout.blocks = form.blocks;
  layout.padded = Shape(std::span<const std::int64_t>(form.padded));
  return layout;
}

}  // namespace troupe::ops::onednn
