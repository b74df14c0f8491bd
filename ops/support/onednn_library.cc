// SPDX-License-Identifier: Apache-2.0
// Both versions of oneDNN. Version 2 shows and takes the fields of a blocked memory descriptor;
// version 3 hides them: what is not strides alone is made by the name of its format, such as
// aBcd16b (outer axes from the outermost, capitals where blocked; then the blocks).
#include "ops/support/onednn_library.h"

#include <oneapi/dnnl/dnnl_debug.h>

#include <algorithm>
#include <string>
#include <tuple>

namespace troupe::ops::onednn {

using dnnl::memory;

const dnnl::engine& cpu() {
  static const dnnl::engine engine(dnnl::engine::kind::cpu, 0);
  return engine;
}

double bf16_speed() {
  constexpr double kAmx = 8.0, kDotProducts = 2.0;
  const auto isa = static_cast<unsigned>(dnnl::get_effective_cpu_isa());
  const auto has = [isa](dnnl::cpu_isa least) {
    const auto bits = static_cast<unsigned>(least);
    return (isa & bits) == bits;
  };
  if (has(dnnl::cpu_isa::avx512_core_amx)) return kAmx;
  return has(dnnl::cpu_isa::avx512_core_bf16) ? kDotProducts : 0.0;
}

dnnl::primitive_attr attributes() {
  dnnl::primitive_attr attr;
  attr.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  return attr;
}

dnnl::primitive_attr adding_attributes() {
  dnnl::primitive_attr attr = attributes();
  dnnl::post_ops operations;
  operations.append_sum(1.0F);
  attr.set_post_ops(operations);
  return attr;
}

std::int64_t block_of(const base::Layout::Blocks& blocks, std::int32_t axis) {
  std::int64_t product = 1;
  for (const base::InnerBlock& block : blocks) {
    if (block.axis == axis) product *= block.size;
  }
  return product;
}

void BlockedForm::sort_outer() {
  const auto key = [](const OuterAxis& each) {
    return std::tuple(-each.stride, each.extent == 1, each.axis);
  };
  std::sort(outer.begin(), outer.end(),
            [&](const OuterAxis& a, const OuterAxis& b) { return key(a) < key(b); });
}

#if DNNL_VERSION_MAJOR < 3

dnnl::eltwise_forward::primitive_desc describe_elementwise(dnnl::algorithm algorithm,
                                                           const memory::desc& data) {
  return describe_primitive<dnnl::eltwise_forward>(attributes(), dnnl::prop_kind::forward_training,
                                                   algorithm, data, 0.0F);
}

dnnl::eltwise_backward::primitive_desc describe_elementwise_gradient(
    const dnnl::eltwise_forward::primitive_desc& hint, dnnl::algorithm algorithm,
    const memory::desc& data) {
  return describe_gradient<dnnl::eltwise_backward>(hint, algorithm, data, data, 0.0F);
}

dnnl::pooling_forward::primitive_desc describe_pooling(const PoolingOperation& o) {
  return describe_primitive<dnnl::pooling_forward>(attributes(), dnnl::prop_kind::forward_training,
                                                   o.algorithm, o.data, o.output, o.strides,
                                                   o.kernel, o.left, o.right);
}

dnnl::pooling_backward::primitive_desc describe_pooling_gradient(
    const dnnl::pooling_forward::primitive_desc& hint, const PoolingOperation& o) {
  return describe_gradient<dnnl::pooling_backward>(hint, o.algorithm, o.data, o.output, o.strides,
                                                   o.kernel, o.left, o.right);
}

dnnl::lrn_forward::primitive_desc describe_lrn(const LrnOperation& o) {
  return describe_primitive<dnnl::lrn_forward>(attributes(), dnnl::prop_kind::forward_inference,
                                               dnnl::algorithm::lrn_across_channels, o.data, o.size,
                                               o.alpha, o.beta, o.k);
}

std::optional<BlockedForm> read_form(const memory::desc& descriptor) {
  const dnnl_memory_desc_t& d = descriptor.data;
  if (d.format_kind != dnnl_blocked || d.offset0 != 0) return std::nullopt;
  BlockedForm form;
  const dnnl_blocking_desc_t& blocking = d.format_desc.blocking;
  if (blocking.inner_nblks > static_cast<int>(base::Layout::Blocks::max_size())) {
    return std::nullopt;
  }
  for (int i = 0; i < blocking.inner_nblks; ++i) {
    form.blocks.push_back(
        {static_cast<std::int32_t>(blocking.inner_idxs[i]), blocking.inner_blks[i]});
  }
  for (std::int32_t axis = 0; axis < d.ndims; ++axis) {
    form.extents.push_back(d.dims[axis]);
    form.padded.push_back(d.padded_dims[axis]);
    form.outer.push_back(
        {axis, d.padded_dims[axis] / block_of(form.blocks, axis), blocking.strides[axis]});
  }
  return form;
}

memory::desc memory_desc(const BlockedForm& form, memory::data_type type) {
  memory::desc descriptor(form.extents, type, memory::dims{});
  dnnl_memory_desc_t& d = descriptor.data;
  d.format_kind = dnnl_blocked;
  dnnl_blocking_desc_t& blocking = d.format_desc.blocking;
  for (const OuterAxis& each : form.outer) blocking.strides[each.axis] = each.stride;
  std::copy(form.padded.begin(), form.padded.end(), d.padded_dims);
  blocking.inner_nblks = static_cast<int>(form.blocks.size());
  for (std::size_t i = 0; i < form.blocks.size(); ++i) {
    blocking.inner_idxs[i] = form.blocks[i].axis;
    blocking.inner_blks[i] = form.blocks[i].size;
  }
  return descriptor;
}

bool padded(const memory::desc& descriptor) {
  const dnnl_memory_desc_t& d = descriptor.data;
  return !std::equal(d.dims, d.dims + d.ndims, d.padded_dims);
}

memory::data_type element_type(const memory::desc& descriptor) {
  return descriptor.data_type();
}

dnnl_status_t create_memory(dnnl_memory_t* memory, const memory::desc& descriptor, void* address) {
  return dnnl_memory_create(memory, &descriptor.data, cpu().get(), address);
}

#else

dnnl::eltwise_forward::primitive_desc describe_elementwise(dnnl::algorithm algorithm,
                                                           const memory::desc& data) {
  return describe_primitive<dnnl::eltwise_forward>(attributes(), dnnl::prop_kind::forward_training,
                                                   algorithm, data, data, 0.0F);
}

dnnl::eltwise_backward::primitive_desc describe_elementwise_gradient(
    const dnnl::eltwise_forward::primitive_desc& hint, dnnl::algorithm algorithm,
    const memory::desc& data) {
  return describe_gradient<dnnl::eltwise_backward>(hint, algorithm, data, data, data, 0.0F);
}

dnnl::pooling_forward::primitive_desc describe_pooling(const PoolingOperation& o) {
  const memory::dims dilation(o.kernel.size(), 0);
  return describe_primitive<dnnl::pooling_forward>(attributes(), dnnl::prop_kind::forward_training,
                                                   o.algorithm, o.data, o.output, o.strides,
                                                   o.kernel, dilation, o.left, o.right);
}

dnnl::pooling_backward::primitive_desc describe_pooling_gradient(
    const dnnl::pooling_forward::primitive_desc& hint, const PoolingOperation& o) {
  const memory::dims dilation(o.kernel.size(), 0);
  return describe_gradient<dnnl::pooling_backward>(hint, o.algorithm, o.data, o.output, o.strides,
                                                   o.kernel, dilation, o.left, o.right);
}

dnnl::lrn_forward::primitive_desc describe_lrn(const LrnOperation& o) {
  return describe_primitive<dnnl::lrn_forward>(attributes(), dnnl::prop_kind::forward_inference,
                                               dnnl::algorithm::lrn_across_channels, o.data, o.data,
                                               o.size, o.alpha, o.beta, o.k);
}

namespace {

/// The library's name of a sorted form with blocks.
std::string name_of(const BlockedForm& form) {
  std::string name;
  for (const OuterAxis& each : form.outer) {
    const char first = block_of(form.blocks, each.axis) > 1 ? 'A' : 'a';
    name += static_cast<char>(first + each.axis);
  }
  for (const base::InnerBlock& block : form.blocks) {
    name += std::to_string(block.size) + static_cast<char>('a' + block.axis);
  }
  return name;
}

/// The format of that name; dnnl_format_tag_undef if the library has none.
dnnl_format_tag_t format_of(BlockedForm form) {
  form.sort_outer();
  const std::string name = name_of(form);
  for (int tag = dnnl_a; tag < dnnl_format_tag_last; ++tag) {
    if (name == dnnl_fmt_tag2str(static_cast<dnnl_format_tag_t>(tag))) {
      return static_cast<dnnl_format_tag_t>(tag);
    }
  }
  return dnnl_format_tag_undef;
}

}  // namespace

std::optional<BlockedForm> read_form(const memory::desc& descriptor) {
  if (descriptor.get_format_kind() != memory::format_kind::blocked) return std::nullopt;
  if (descriptor.get_submemory_offset() != 0) return std::nullopt;
  BlockedForm form;
  const memory::dims axes = descriptor.get_inner_idxs();
  const memory::dims sizes = descriptor.get_inner_blks();
  if (axes.size() > base::Layout::Blocks::max_size()) return std::nullopt;
  for (std::size_t i = 0; i < axes.size(); ++i) {
    form.blocks.push_back({static_cast<std::int32_t>(axes[i]), sizes[i]});
  }
  form.extents = descriptor.get_dims();
  form.padded = descriptor.get_padded_dims();
  const memory::dims strides = descriptor.get_strides();
  for (std::int32_t axis = 0; axis < descriptor.get_ndims(); ++axis) {
    const auto at = static_cast<std::size_t>(axis);
    form.outer.push_back({axis, form.padded[at] / block_of(form.blocks, axis), strides[at]});
  }
  if (!form.blocks.empty() && format_of(form) == dnnl_format_tag_undef) return std::nullopt;
  return form;
}

memory::desc memory_desc(const BlockedForm& form, memory::data_type type) {
  if (form.blocks.empty()) {
    memory::dims strides(form.extents.size());
    for (const OuterAxis& each : form.outer) {
      strides[static_cast<std::size_t>(each.axis)] = each.stride;
    }
    return {form.extents, type, strides};
  }
  const dnnl_format_tag_t format = format_of(form);
  if (format == dnnl_format_tag_undef) {
    dnnl::error::wrap_c_api(dnnl_unimplemented, "oneDNN has no name for these blocks");
  }
  memory::desc descriptor(form.extents, type, static_cast<memory::format_tag>(format));
  if (descriptor.get_padded_dims() != form.padded) {
    dnnl::error::wrap_c_api(dnnl_unimplemented, "more padding than oneDNN's blocks have");
  }
  return descriptor;
}

bool padded(const memory::desc& descriptor) {
  return descriptor.get_dims() != descriptor.get_padded_dims();
}

memory::data_type element_type(const memory::desc& descriptor) {
  return descriptor.get_data_type();
}

dnnl_status_t create_memory(dnnl_memory_t* memory, const memory::desc& descriptor, void* address) {
  return dnnl_memory_create(memory, descriptor.get(), cpu().get(), address);
}

#endif

}  // namespace troupe::ops::onednn
