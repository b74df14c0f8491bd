// SPDX-License-Identifier: Apache-2.0
// Products of matrices by cuBLASLt. The library is found at run time (gpu/shared_library.h). Only
// in builds with CUDA.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>

#include "ops/kernel.h"

namespace troupe::ops::cublas {

/// result (rows, columns) = a (rows, inner) * b (inner, columns), row-major without gaps, all of
/// one dtype unless the result is wide, sums in f32 (f64 for f64).
struct Product {
  base::DType dtype = base::DType::f32;
  std::int64_t rows = 0, columns = 0, inner = 0;
  bool a_transposed = false;  ///< `a` lies as (inner, rows)
  bool b_transposed = false;  ///< `b` lies as (columns, inner)
  bool biased = false;        ///< a number for each column is added
  bool adds = false;          ///< the result is added to what its matrix holds
  bool wide_result = false;   ///< the result is f32, of factors of 16 bits
  bool tf32 = false;          ///< f32: tensor cores may take factors that are rounded to TF32
};

/// A product with the algorithm that the library's heuristics like best among those that give the
/// same bits every time. Immutable; any thread may run it.
class Plan {
 public:
  /// unimplemented says why cuBLASLt does not take it.
  static base::Result<Plan> make(const Product& product, base::Device device);

  std::size_t workspace_bytes() const { return workspace_bytes_; }
  /// Issues it on the context's stream; `bias` is null unless biased.
  base::Status run(const KernelContext& context, const void* a, const void* b, const void* bias,
                   void* result, std::byte* workspace) const;

 private:
  struct Prepared;
  Plan() = default;
  std::shared_ptr<const Prepared> prepared_;
  std::size_t workspace_bytes_ = 0;
};

/// A kernel "cublas" for calls on a GPU whose tensors are all dense, or may be; `make` gets no
/// others.
KernelDef dense_kernel(std::function<base::Result<std::unique_ptr<Kernel>>(const OpCall&)> make);

}  // namespace troupe::ops::cublas
