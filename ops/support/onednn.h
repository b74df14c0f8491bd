// SPDX-License-Identifier: Apache-2.0
// What every oneDNN kernel shares: layouts as memory descriptors and back, preparation for a team,
// the kernel that runs one primitive. The library's exceptions end here and in the build functions
// called from here. An implementation that is only the library's own reference is declined.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "ops/kernel.h"
#include "ops/support/onednn_library.h"
#include "ops/table.h"

namespace troupe::ops::onednn {

/// Binds an argument of a primitive (DNNL_ARG_*) to an input or output of the call.
struct Argument {
  int arg = 0;
  bool output = false;
  int index = 0;
  /// Groups of a convolution's weights: the library sees axis 0 as (groups, channels).
  std::int64_t groups = 1;
  /// The library sees a dense tensor through other axes and strides (a transposed matrix).
  bool dense_view = false;
};
inline Argument input(int arg, int index, std::int64_t groups = 1) {
  return {arg, false, index, groups};
}
inline Argument output(int arg, int index, std::int64_t groups = 1) {
  return {arg, true, index, groups};
}

/// A primitive and what it reads and writes.
struct Plan {
  dnnl::primitive_desc_base primitive;  ///< empty: the library has no implementation
  std::vector<Argument> arguments;
  /// Of convolution: the input that the primitive adds its result to, in output 0; -1: none.
  int addend = -1;
  /// And relu of output 0, by a pass of ours: the library's makes zeros of NaN.
  bool relu = false;
};

/// Makes the kernel for `call` from what `build` plans, for call.team threads. Declines when the
/// library has nothing better than a reference, when a fixed layout of the call is opaque or not
/// the plan's, when a tensor is empty, and when the first input is not of `dtype` (f32 or bf16).
/// Outputs in add mode get a temporary in scratch. What the library throws inside `build` ends
/// here. Any thread outside parallel regions.
base::Result<std::unique_ptr<Kernel>> make_kernel(
    const OpCall& call, base::DType dtype,
    const std::function<base::Result<Plan>(const OpCall&)>& build);

/// KernelDef "onednn", of f32, from a build function.
BackendKernel backend_kernel(std::string op, base::Result<Plan> (*build)(const OpCall&));
/// KernelDef "onednn-bf16", of bf16, where the processor has instructions for it.
BackendKernel backend_kernel_of_bf16(std::string op, base::Result<Plan> (*build)(const OpCall&));
/// The same of a product, which bf16_speed() makes faster.
BackendKernel product_kernel_of_bf16(std::string op, base::Result<Plan> (*build)(const OpCall&));

/// `plan`, or an error where its primitive is the library's gemm, which allocates packed copies
/// while it runs (decision 0009).
base::Result<Plan> without_gemm(Plan plan);

/// Elements from one row of a matrix to the next, and from one column to the next.
struct MatrixStrides {
  std::int64_t row = 0, column = 0;
};
/// A dense tensor as a matrix.
dnnl::memory::desc matrix(base::DType dtype, std::int64_t rows, std::int64_t columns,
                          const MatrixStrides& strides);
/// An argument that is one.
inline Argument matrix_input(int arg, int index) {
  return {.arg = arg, .output = false, .index = index, .dense_view = true};
}
inline Argument matrix_output(int arg, int index) {
  return {.arg = arg, .output = true, .index = index, .dense_view = true};
}

/// The plan of an element-wise call of (data) and (output), in the layout that data already has.
Plan elementwise(const OpCall& call, dnnl::algorithm function);
/// The same of (output_gradient, output) and (data_gradient), for functions whose gradient reads
/// the output ("use_dst_for_bwd").
Plan elementwise_gradient(const OpCall& call, dnnl::algorithm function);

/// False when blocks along axis 0 reach over the border between two groups.
bool can_split_groups(const base::Shape& shape, const base::Layout& layout, std::int64_t groups);
/// The descriptor of a tensor in this very layout, which must not be opaque; CHECKs
/// can_split_groups. Throws dnnl::error where the library has no such descriptor.
dnnl::memory::desc describe(base::DType dtype, const base::Shape& shape, const base::Layout& layout,
                            std::int64_t groups = 1);
/// The same for a tensor of a call; one whose layout is free leaves the choice to the library.
dnnl::memory::desc describe(const TensorDesc& tensor, std::int64_t groups = 1);
/// The layout of a descriptor; nullopt for the library's private formats.
std::optional<base::Layout> layout_of(const dnnl::memory::desc& descriptor,
                                      std::int64_t groups = 1);

/// The library's name of a dtype; CHECKs that it has one.
dnnl::memory::data_type library_type(base::DType dtype);

}  // namespace troupe::ops::onednn
