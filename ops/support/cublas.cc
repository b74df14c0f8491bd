// SPDX-License-Identifier: Apache-2.0
// cuBLASLt counts columns first: what it computes is the transposed result, b' * a'.
#include "ops/support/cublas.h"

#include <cublasLt.h>

#include <array>
#include <string>
#include <vector>

#include "gpu/device_scope.h"
#include "gpu/inventory.h"
#include "gpu/shared_library.h"
#include "ops/support/planning_handles.h"
#include "ops/support/wide_loads.h"

namespace troupe::ops::cublas {
namespace {

using base::DType;
using base::Errc;
using base::Result;
using base::Status;

/// The functions of the library that are used here.
struct Library {
  decltype(cublasLtCreate)* create;
  decltype(cublasLtDestroy)* destroy;
  decltype(cublasLtMatmul)* matmul;
  decltype(cublasLtMatmulAlgoGetHeuristic)* heuristic;
  decltype(cublasLtMatmulDescInit_internal)* init_operation;
  decltype(cublasLtMatmulDescSetAttribute)* set_operation;
  decltype(cublasLtMatrixLayoutInit_internal)* init_layout;
  decltype(cublasLtMatmulPreferenceInit_internal)* init_preference;
  decltype(cublasLtMatmulPreferenceSetAttribute)* set_preference;
};

Result<Library> load() {
  const std::string name = "libcublasLt.so." + std::to_string(CUDART_VERSION / 1000);
  TROUPE_TRY_ASSIGN(const gpu::SharedLibrary file, gpu::SharedLibrary::open({name}));
  Library f{};
  const auto find = [&]<typename F>(F*& function, const char* symbol) -> Status {
    TROUPE_TRY_ASSIGN(function, file.function<F>(symbol));
    return {};
  };
  TROUPE_TRY(find(f.create, "cublasLtCreate"));
  TROUPE_TRY(find(f.destroy, "cublasLtDestroy"));
  TROUPE_TRY(find(f.matmul, "cublasLtMatmul"));
  TROUPE_TRY(find(f.heuristic, "cublasLtMatmulAlgoGetHeuristic"));
  TROUPE_TRY(find(f.init_operation, "cublasLtMatmulDescInit_internal"));
  TROUPE_TRY(find(f.set_operation, "cublasLtMatmulDescSetAttribute"));
  TROUPE_TRY(find(f.init_layout, "cublasLtMatrixLayoutInit_internal"));
  TROUPE_TRY(find(f.init_preference, "cublasLtMatmulPreferenceInit_internal"));
  TROUPE_TRY(find(f.set_preference, "cublasLtMatmulPreferenceSetAttribute"));
  return f;
}

/// Found once, like the devices (gpu/inventory.h).
const Result<Library>& library() {
  static const Result<Library> found = load();
  return found;
}

/// resource_exhausted instead of `code` where memory was missing.
Status checked(cublasStatus_t status, Errc code, const char* call) {
  if (status == CUBLAS_STATUS_SUCCESS) return {};
  if (status == CUBLAS_STATUS_ALLOC_FAILED) code = Errc::resource_exhausted;
  return base::error(code, "cuBLASLt, {}: status {}", call, static_cast<int>(status));
}

/// A lane's handle, or one to plan with.
class Handle {
 public:
  Handle() = default;
  ~Handle() {
    if (handle_ != nullptr) static_cast<void>(library()->destroy(handle_));
  }
  Handle(const Handle&) = delete;
  Handle& operator=(const Handle&) = delete;

  Result<cublasLtHandle_t> get() {
    if (handle_ != nullptr) return handle_;
    if (!library().ok()) return library().status();
    const Status made =
        checked(library()->create(&handle_), Errc::failed_precondition, "cublasLtCreate");
    if (made.ok()) return handle_;
    handle_ = nullptr;
    return made;
  }

 private:
  cublasLtHandle_t handle_ = nullptr;
};

Result<cudaDataType_t> type_of(DType dtype) {
  if (dtype == DType::f64) return CUDA_R_64F;
  if (dtype == DType::f32) return CUDA_R_32F;
  if (dtype == DType::f16) return CUDA_R_16F;
  if (dtype == DType::bf16) return CUDA_R_16BF;
  return base::error(Errc::unimplemented, "cuBLASLt is not asked for {}", base::dtype_name(dtype));
}

constexpr std::uint32_t kAlignment = kWideLoadBytes;  // of matrices, at least
constexpr std::size_t kWorkspaceMax = std::size_t{32} << 20;

}  // namespace

struct Plan::Prepared {
  cublasLtMatmulDescOpaque_t operation{};
  cublasLtMatrixLayoutOpaque_t first{}, second{}, result{};
  cublasLtMatmulAlgo_t algorithm{};
  std::size_t workspace = 0;
  bool biased = false, adds = false, wide = false;

  Status describe(const Library& lib, const Product& p) {
    TROUPE_TRY_ASSIGN(const cudaDataType_t type, type_of(p.dtype));
    TROUPE_TRY_ASSIGN(const cudaDataType_t result_type,
                      type_of(p.wide_result ? DType::f32 : p.dtype));
    biased = p.biased;
    adds = p.adds;
    wide = p.dtype == DType::f64;
    const bool tf32 = p.tf32 && p.dtype == DType::f32;
    const auto layout = [&lib](cublasLtMatrixLayoutOpaque_t& of, cudaDataType_t element,
                               std::int64_t rows, std::int64_t columns) {
      return checked(lib.init_layout(&of, sizeof(of), element, static_cast<std::uint64_t>(rows),
                                     static_cast<std::uint64_t>(columns), rows),
                     Errc::unimplemented, "cublasLtMatrixLayoutInit");
    };
    TROUPE_TRY(p.b_transposed ? layout(first, type, p.inner, p.columns)
                              : layout(first, type, p.columns, p.inner));
    TROUPE_TRY(p.a_transposed ? layout(second, type, p.rows, p.inner)
                              : layout(second, type, p.inner, p.rows));
    TROUPE_TRY(layout(result, result_type, p.columns, p.rows));
    TROUPE_TRY(checked(lib.init_operation(&operation, sizeof(operation),
                                          wide   ? CUBLAS_COMPUTE_64F
                                          : tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32
                                                 : CUBLAS_COMPUTE_32F,
                                          wide ? CUDA_R_64F : CUDA_R_32F),
                       Errc::unimplemented, "cublasLtMatmulDescInit"));
    const auto set = [&](cublasLtMatmulDescAttributes_t name, std::int32_t value) {
      return checked(lib.set_operation(&operation, name, &value, sizeof(value)),
                     Errc::unimplemented, "cublasLtMatmulDescSetAttribute");
    };
    TROUPE_TRY(set(CUBLASLT_MATMUL_DESC_TRANSA, p.b_transposed ? CUBLAS_OP_T : CUBLAS_OP_N));
    TROUPE_TRY(set(CUBLASLT_MATMUL_DESC_TRANSB, p.a_transposed ? CUBLAS_OP_T : CUBLAS_OP_N));
    if (p.biased) {
      TROUPE_TRY(set(CUBLASLT_MATMUL_DESC_EPILOGUE, CUBLASLT_EPILOGUE_BIAS));
      TROUPE_TRY(set(CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, type));
    }
    return {};
  }

  /// Takes the algorithm; its workspace bytes.
  Result<std::size_t> choose(const Library& lib, cublasLtHandle_t handle) {
    cublasLtMatmulPreferenceOpaque_t preference{};
    TROUPE_TRY(checked(lib.init_preference(&preference, sizeof(preference)), Errc::unimplemented,
                       "cublasLtMatmulPreferenceInit"));
    // In place means by atomic additions, in any order; the output's type would round partial sums
    // to 16 bits.
    const std::uint32_t reductions = CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE;
    TROUPE_TRY(checked(lib.set_preference(&preference, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
                                          &reductions, sizeof(reductions)),
                       Errc::unimplemented, "cublasLtMatmulPreferenceSetAttribute"));
    TROUPE_TRY(checked(lib.set_preference(&preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
                                          &kWorkspaceMax, sizeof(kWorkspaceMax)),
                       Errc::unimplemented, "cublasLtMatmulPreferenceSetAttribute"));
    for (const auto name :
         {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
          CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES}) {
      TROUPE_TRY(checked(lib.set_preference(&preference, name, &kAlignment, sizeof(kAlignment)),
                         Errc::unimplemented, "cublasLtMatmulPreferenceSetAttribute"));
    }
    cublasLtMatmulHeuristicResult_t found{};
    int count = 0;
    TROUPE_TRY(checked(lib.heuristic(handle, &operation, &first, &second, &result, &result,
                                     &preference, 1, &found, &count),
                       Errc::unimplemented, "cublasLtMatmulAlgoGetHeuristic"));
    if (count == 0) return base::error(Errc::unimplemented, "cuBLASLt has no algorithm");
    algorithm = found.algo;
    workspace = found.workspaceSize;
    return workspace_scratch(workspace);
  }
};

Result<Plan> Plan::make(const Product& product, base::Device device) {
  if (const Status usable = gpu::check_device(device); !usable.ok()) {
    return base::error(Errc::unimplemented, "{}", usable.text());
  }
  if (!library().ok()) {
    return base::error(Errc::unimplemented, "no cuBLASLt: {}", library().status().text());
  }
  const gpu::DeviceScope scope(device);
  if (!scope.status().ok()) return declined(scope.status());
  static auto& handles = *new PlanningHandles<Handle>;
  return handles.with(device, [&](cublasLtHandle_t handle) -> Result<Plan> {
    auto prepared = std::make_shared<Prepared>();
    TROUPE_TRY(prepared->describe(*library(), product));
    Plan plan;
    TROUPE_TRY_ASSIGN(plan.workspace_bytes_, prepared->choose(*library(), handle));
    plan.prepared_ = std::move(prepared);
    return plan;
  });
}

Status Plan::run(const KernelContext& context, const void* a, const void* b, const void* bias,
                 void* result, std::byte* workspace) const {
  const Library& lib = *library();
  TROUPE_TRY(check_wide_loads("cuBLASLt", std::array<const void*, 4>{a, b, bias, result}));
  TROUPE_TRY_ASSIGN(cublasLtHandle_t const handle, context.slot<Handle>().get());
  Prepared p = *prepared_;  // the library takes no pointers to constants
  if (p.biased) {
    TROUPE_TRY(checked(
        lib.set_operation(&p.operation, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &bias, sizeof(bias)),
        Errc::internal, "cublasLtMatmulDescSetAttribute"));
  }
  const float one = 1, zero = 0;
  const double wide_one = 1, wide_zero = 0;
  const void* const alpha = p.wide ? static_cast<const void*>(&wide_one) : &one;
  const void* const beta =
      p.wide ? static_cast<const void*>(p.adds ? &wide_one : &wide_zero) : (p.adds ? &one : &zero);
  return checked(lib.matmul(handle, &p.operation, alpha, b, &p.first, a, &p.second, beta, result,
                            &p.result, result, &p.result, &p.algorithm, workspace_in(workspace),
                            p.workspace, static_cast<cudaStream_t>(context.stream->native())),
                 Errc::internal, "cublasLtMatmul");
}

KernelDef dense_kernel(std::function<Result<std::unique_ptr<Kernel>>(const OpCall&)> make) {
  const auto checked_make =
      [make = std::move(make)](const OpCall& call) -> Result<std::unique_ptr<Kernel>> {
    if (call.device.kind != base::DeviceKind::cuda) {
      return base::error(Errc::unimplemented, "needs a GPU");
    }
    for (const auto* group : {&call.inputs, &call.outputs}) {
      for (const TensorDesc& tensor : *group) {
        if (!tensor.layout.is_dense() && !tensor.any_layout) {
          return base::error(Errc::unimplemented, "needs dense tensors, got {}",
                             tensor.layout.to_string());
        }
      }
    }
    return make(call);
  };
  KernelDef kernel{"cublas", checked_make};
  kernel.takes_16_bits = any_16_bits;
  kernel.on_gpus = true;
  kernel.loads_wide = true;
  return kernel;
}

}  // namespace troupe::ops::cublas
