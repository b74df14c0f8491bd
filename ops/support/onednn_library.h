// SPDX-License-Identifier: Apache-2.0
// What differs between oneDNN 2 (Debian 12) and 3 (Debian 13), and only here: how a primitive's
// descriptor is made, and what a memory descriptor tells of itself. Functions throw dnnl::error,
// which ends in make_kernel (onednn.h). Any thread.
#pragma once

#include <cstdint>
#include <oneapi/dnnl/dnnl.hpp>
#include <optional>
#include <string_view>
#include <vector>

#include "base/layout.h"

namespace troupe::ops::onednn {

/// The processor as oneDNN sees it. The handle never changes, so any thread may use it.
const dnnl::engine& cpu();

/// How much faster than those of f32 the library's products of bf16 are by rule: by AMX, or by
/// avx512_bf16. 0 where the processor has neither, or the instruction set is capped below them: the
/// library then has none, or makes them of instructions for f32.
double bf16_speed();

/// Attributes of every primitive: scratch memory comes from the caller.
dnnl::primitive_attr attributes();
/// And of one that adds its result to what its output holds.
dnnl::primitive_attr adding_attributes();

#if DNNL_VERSION_MAJOR < 3
/// The descriptor of a primitive that needs no hint, from what both versions call its operation;
/// empty when the library has no implementation.
template <typename Primitive, typename... Operation>
typename Primitive::primitive_desc describe_primitive(const dnnl::primitive_attr& attr,
                                                      const Operation&... operation) {
  return {typename Primitive::desc(operation...), attr, cpu(), true};
}
/// The same of a gradient, whose hint is the descriptor of the way forward.
template <typename Primitive, typename Hint, typename... Operation>
typename Primitive::primitive_desc describe_gradient(const Hint& hint,
                                                     const Operation&... operation) {
  return {typename Primitive::desc(operation...), attributes(), cpu(), hint, true};
}
#else
/// The first implementation that is none of version 3's reorders around the library's reference
/// ("jit_uni_ncsp_convolution:conv+ref:any"), which stand before better ones.
template <typename Description>
Description without_wrapped_reference(Description description) {
  while (description &&
         std::string_view(description.impl_info_str()).find("+ref") != std::string_view::npos) {
    if (!description.next_impl()) return {};
  }
  return description;
}

template <typename Primitive, typename... Operation>
typename Primitive::primitive_desc describe_primitive(const dnnl::primitive_attr& attr,
                                                      const Operation&... operation) {
  using Description = typename Primitive::primitive_desc;
  return without_wrapped_reference(Description(cpu(), operation..., attr, true));
}
template <typename Primitive, typename Hint, typename... Operation>
typename Primitive::primitive_desc describe_gradient(const Hint& hint,
                                                     const Operation&... operation) {
  using Description = typename Primitive::primitive_desc;
  return without_wrapped_reference(Description(cpu(), operation..., hint, attributes(), true));
}
#endif

/// An element-wise function of `data` for training, into the same layout, and its gradient.
dnnl::eltwise_forward::primitive_desc describe_elementwise(dnnl::algorithm algorithm,
                                                           const dnnl::memory::desc& data);
dnnl::eltwise_backward::primitive_desc describe_elementwise_gradient(
    const dnnl::eltwise_forward::primitive_desc& hint, dnnl::algorithm algorithm,
    const dnnl::memory::desc& data);

/// Pooling for training, without dilation.
struct PoolingOperation {
  dnnl::algorithm algorithm{};
  dnnl::memory::desc data, output;
  dnnl::memory::dims strides, kernel, left, right;
};
dnnl::pooling_forward::primitive_desc describe_pooling(const PoolingOperation& operation);
dnnl::pooling_backward::primitive_desc describe_pooling_gradient(
    const dnnl::pooling_forward::primitive_desc& hint, const PoolingOperation& operation);

/// Local response normalization over channels, for prediction: nothing is kept for a gradient.
struct LrnOperation {
  dnnl::memory::desc data;
  dnnl::memory::dim size = 1;
  float alpha = 0, beta = 0, k = 0;
};
dnnl::lrn_forward::primitive_desc describe_lrn(const LrnOperation& operation);

/// One outer axis in memory.
struct OuterAxis {
  std::int32_t axis = 0;
  std::int64_t extent = 1;  ///< in whole blocks
  std::int64_t stride = 1;
};

/// Elements of all blocks of an axis; 1 where it has none.
std::int64_t block_of(const base::Layout::Blocks& blocks, std::int32_t axis);

/// A blocked memory descriptor: outer axes with strides, then inner blocks, outermost first.
struct BlockedForm {
  std::vector<OuterAxis> outer;  ///< in any order
  base::Layout::Blocks blocks;
  std::vector<std::int64_t> extents;  ///< logical
  std::vector<std::int64_t> padded;

  /// Sorts `outer` from the outermost axis inwards. Axes of extent 1 share a stride with the axis
  /// outside them.
  void sort_outer();
};

/// The form of a descriptor; nullopt when it has another one or memory_desc could not make it.
std::optional<BlockedForm> read_form(const dnnl::memory::desc& descriptor);
/// The descriptor of a form. Version 3 makes only blocks that it has a name for and throws
/// dnnl_unimplemented for others.
dnnl::memory::desc memory_desc(const BlockedForm& form, dnnl::memory::data_type type);

/// True when there is padding behind some axis.
bool padded(const dnnl::memory::desc& descriptor);
dnnl::memory::data_type element_type(const dnnl::memory::desc& descriptor);
/// A memory object around `address`, which the caller destroys.
dnnl_status_t create_memory(dnnl_memory_t* memory, const dnnl::memory::desc& descriptor,
                            void* address);

}  // namespace troupe::ops::onednn
