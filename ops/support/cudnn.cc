// SPDX-License-Identifier: Apache-2.0
// cuDNN's backend descriptors: a graph of a convolution and what follows it, the heuristics'
// engines in their order, the first execution plan that can be made.
#include "ops/support/cudnn.h"

#include <cudnn_graph.h>
#include <cudnn_version.h>

#include <algorithm>
#include <span>
#include <string>
#include <vector>

#include "gpu/device_scope.h"
#include "gpu/inventory.h"
#include "gpu/shared_library.h"
#include "ops/support/channels_last.h"
#include "ops/support/planning_handles.h"
#include "ops/support/wide_loads.h"

namespace troupe::ops::cudnn {
namespace {

using base::DType;
using base::Errc;
using base::Result;
using base::Status;

/// The functions of the library that are used here.
struct Library {
  decltype(cudnnCreate)* create;
  decltype(cudnnDestroy)* destroy;
  decltype(cudnnSetStream)* set_stream;
  decltype(cudnnGetLastErrorString)* last_error;
  decltype(cudnnBackendCreateDescriptor)* create_descriptor;
  decltype(cudnnBackendDestroyDescriptor)* destroy_descriptor;
  decltype(cudnnBackendSetAttribute)* set_attribute;
  decltype(cudnnBackendGetAttribute)* get_attribute;
  decltype(cudnnBackendFinalize)* finalize;
  decltype(cudnnBackendExecute)* execute;
};

Result<Library> load() {
  TROUPE_TRY_ASSIGN(const gpu::SharedLibrary file, gpu::SharedLibrary::open({"libcudnn.so.9"}));
  Library f{};
  const auto find = [&]<typename F>(F*& function, const char* name) -> Status {
    TROUPE_TRY_ASSIGN(function, file.function<F>(name));
    return {};
  };
  TROUPE_TRY(find(f.create, "cudnnCreate"));
  TROUPE_TRY(find(f.destroy, "cudnnDestroy"));
  TROUPE_TRY(find(f.set_stream, "cudnnSetStream"));
  TROUPE_TRY(find(f.last_error, "cudnnGetLastErrorString"));
  TROUPE_TRY(find(f.create_descriptor, "cudnnBackendCreateDescriptor"));
  TROUPE_TRY(find(f.destroy_descriptor, "cudnnBackendDestroyDescriptor"));
  TROUPE_TRY(find(f.set_attribute, "cudnnBackendSetAttribute"));
  TROUPE_TRY(find(f.get_attribute, "cudnnBackendGetAttribute"));
  TROUPE_TRY(find(f.finalize, "cudnnBackendFinalize"));
  TROUPE_TRY(find(f.execute, "cudnnBackendExecute"));
  return f;
}

/// Found once, like the devices (gpu/inventory.h).
const Result<Library>& library() {
  static const Result<Library> found = load();
  return found;
}

/// `code` of a call that failed, with the library's own words; resource_exhausted where memory was
/// missing, which says nothing of what the library can do.
Status failure(const Library& lib, Errc code, const char* call, cudnnStatus_t status) {
  char text[512] = "";
  lib.last_error(text, sizeof(text));
  if (status == CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED ||
      status == CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED) {
    code = Errc::resource_exhausted;
  }
  return base::error(code, "cuDNN, {}: status {}, {}", call, static_cast<int>(status), text);
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

  Result<cudnnHandle_t> get() {
    if (handle_ != nullptr) return handle_;
    if (!library().ok()) return library().status();
    const Library& lib = *library();
    const cudnnStatus_t status = lib.create(&handle_);
    if (status == CUDNN_STATUS_SUCCESS) return handle_;
    handle_ = nullptr;
    return failure(lib, Errc::failed_precondition, "cudnnCreate", status);
  }

 private:
  cudnnHandle_t handle_ = nullptr;
};

/// A descriptor that is being described.
class Descriptor {
 public:
  Descriptor(const Library& lib, cudnnBackendDescriptorType_t type) : lib_(&lib) {
    note("cudnnBackendCreateDescriptor", lib.create_descriptor(type, &descriptor_));
  }
  ~Descriptor() {
    if (descriptor_ != nullptr) static_cast<void>(lib_->destroy_descriptor(descriptor_));
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;

  template <typename T>
  Descriptor& set(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type,
                  std::span<const T> values) {
    if (status_.ok()) {
      note("cudnnBackendSetAttribute",
           lib_->set_attribute(descriptor_, name, type, static_cast<std::int64_t>(values.size()),
                               values.data()));
    }
    return *this;
  }
  template <typename T>
  Descriptor& set(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type,
                  const T& value) {
    return set(name, type, std::span<const T>(&value, 1));
  }
  Descriptor& set(cudnnBackendAttributeName_t name, const Descriptor& part) {
    if (status_.ok()) status_ = part.status_;
    return set(name, CUDNN_TYPE_BACKEND_DESCRIPTOR, part.descriptor_);
  }
  /// The first error of all calls so far.
  Status finalize() {
    if (status_.ok()) note("cudnnBackendFinalize", lib_->finalize(descriptor_));
    return status_;
  }
  cudnnBackendDescriptor_t get() const { return descriptor_; }
  cudnnBackendDescriptor_t release() { return std::exchange(descriptor_, nullptr); }

 private:
  void note(const char* call, cudnnStatus_t status) {
    if (status == CUDNN_STATUS_SUCCESS || !status_.ok()) return;
    status_ = failure(*lib_, Errc::unimplemented, call, status);
  }

  const Library* lib_;
  cudnnBackendDescriptor_t descriptor_ = nullptr;
  Status status_;
};

constexpr std::int64_t kDataId = 1, kWeightId = 2, kOutputId = 3, kBiasId = 4;
constexpr std::int64_t kInnerId = 5;  // and the next: what lies between operations

Result<cudnnDataType_t> type_of(DType dtype) {
  if (dtype == DType::f32) return CUDNN_DATA_FLOAT;
  if (dtype == DType::f16) return CUDNN_DATA_HALF;
  if (dtype == DType::bf16) return CUDNN_DATA_BFLOAT16;
  return base::error(Errc::unimplemented, "cuDNN is not asked for {}", base::dtype_name(dtype));
}

using Extents = std::array<std::int64_t, 4>;

/// Of dense tensors or channels last.
Extents strides_of(const Extents& extents, bool channels_last) {
  constexpr std::array<std::size_t, 4> kDense = {0, 1, 2, 3}, kLast = {0, 2, 3, 1};
  Extents strides{};
  std::int64_t stride = 1;
  for (std::size_t k = 4; k-- > 0;) {
    const std::size_t axis = channels_last ? kLast[k] : kDense[k];
    strides[axis] = stride;
    stride *= extents[axis];
  }
  return strides;
}

Extents extents_of(const TensorDesc& tensor) {
  Extents extents{};
  for (std::size_t axis = 0; axis < 4; ++axis) extents[axis] = tensor.shape[static_cast<int>(axis)];
  return extents;
}

/// `inner`: it lies between two operations, and never in memory.
Status describe_tensor(Descriptor& d, DType dtype, const Extents& extents, bool channels_last,
                       std::int64_t id, bool inner = false) {
  TROUPE_TRY_ASSIGN(const cudnnDataType_t type, type_of(dtype));
  const Extents strides = strides_of(extents, channels_last);
  return d.set(CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, type)
      .set(CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, std::span<const std::int64_t>(extents))
      .set(CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64, std::span<const std::int64_t>(strides))
      .set(CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, id)
      .set(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, CUDNN_TYPE_INT64, kWideLoadBytes)
      .set(CUDNN_ATTR_TENSOR_IS_VIRTUAL, CUDNN_TYPE_BOOLEAN, inner)
      .finalize();
}
Status describe_tensor(Descriptor& d, const TensorDesc& tensor, std::int64_t id) {
  return describe_tensor(d, tensor.dtype, extents_of(tensor), is_channels_last(tensor), id);
}

Status describe_window(Descriptor& d, const Convolution& c) {
  using Numbers = std::span<const std::int64_t>;
  return d.set(CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, CUDNN_TYPE_INT64, std::int64_t{2})
      .set(CUDNN_ATTR_CONVOLUTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, CUDNN_DATA_FLOAT)
      .set(CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_TYPE_CONVOLUTION_MODE, CUDNN_CROSS_CORRELATION)
      .set(CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, CUDNN_TYPE_INT64, Numbers(c.before))
      .set(CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, CUDNN_TYPE_INT64, Numbers(c.behind))
      .set(CUDNN_ATTR_CONVOLUTION_DILATIONS, CUDNN_TYPE_INT64, Numbers(c.dilation))
      .set(CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, CUDNN_TYPE_INT64, Numbers(c.stride))
      .finalize();
}

/// Names of an operation's attributes, for each pass.
struct Names {
  cudnnBackendDescriptorType_t type;
  cudnnBackendAttributeName_t window, data, weight, output, alpha, beta;
};
Names names_of(Pass pass) {
  if (pass == Pass::output) {
    return {CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR,
            CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC,
            CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X,
            CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W,
            CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y,
            CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA,
            CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA};
  }
  if (pass == Pass::data) {
    return {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR,
            CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC,
            CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX,
            CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W,
            CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY,
            CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA,
            CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA};
  }
  return {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR,
          CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC,
          CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X,
          CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW,
          CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY,
          CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA,
          CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA};
}

constexpr std::int64_t kNotesMax = CUDNN_NUMERICAL_NOTE_TYPE_COUNT;
constexpr std::int64_t kEnginesMax = 32;  // asked for in each mode

/// An engine that f32 must not be given to, although it notes nothing.
struct Erratum {
  Pass pass;
  std::int64_t engine;  ///< its global index
};
/// Seen on an H200 with cuDNN 9.19: a gradient of weights (32 images of 28 x 28, 5 x 5 taps) that
/// is wrong by 5e-4, as with TF32.
constexpr Erratum kErrata[] = {{Pass::weight, 17}};

/// What an engine may be taken for.
enum class Fit : std::uint8_t {
  no,
  yes,
  hides_nan,  ///< for all but a relu behind the convolution, which may make zero of NaN
};
Result<Fit> fit_of(const Library& lib, const Convolution& c, const Descriptor& configuration) {
  Descriptor engine(lib, CUDNN_BACKEND_ENGINE_DESCRIPTOR);
  cudnnBackendDescriptor_t raw = engine.get();
  std::int64_t count = 0;
  cudnnStatus_t status =
      lib.get_attribute(configuration.get(), CUDNN_ATTR_ENGINECFG_ENGINE,
                        CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &count, static_cast<void*>(&raw));
  if (status != CUDNN_STATUS_SUCCESS) {
    return failure(lib, Errc::unimplemented, "engine of a configuration", status);
  }
  std::array<cudnnBackendNumericalNote_t, kNotesMax> notes{};
  status = lib.get_attribute(engine.get(), CUDNN_ATTR_ENGINE_NUMERICAL_NOTE,
                             CUDNN_TYPE_NUMERICAL_NOTE, kNotesMax, &count, notes.data());
  if (status != CUDNN_STATUS_SUCCESS) {
    return failure(lib, Errc::unimplemented, "notes of an engine", status);
  }
  const std::span<const cudnnBackendNumericalNote_t> known(
      notes.data(), static_cast<std::size_t>(std::min(count, kNotesMax)));
  const auto has = [&](cudnnBackendNumericalNote_t note) {
    return std::ranges::find(known, note) != known.end();
  };
  const bool narrow = base::dtype_size(c.data.dtype) < sizeof(float);
  if (has(CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC)) return Fit::no;
  if (!narrow && !c.tf32 && has(CUDNN_NUMERICAL_NOTE_TENSOR_CORE)) return Fit::no;
  if (!narrow && has(CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS)) return Fit::no;  // to 16 bits
  if (has(CUDNN_NUMERICAL_NOTE_REDUCED_PRECISION_REDUCTION)) return Fit::no;
  // These are less precise than sums, in f32 up to a hundred times.
  if (has(CUDNN_NUMERICAL_NOTE_WINOGRAD) || has(CUDNN_NUMERICAL_NOTE_FFT)) return Fit::no;
  std::int64_t index = -1;
  status = lib.get_attribute(engine.get(), CUDNN_ATTR_ENGINE_GLOBAL_INDEX, CUDNN_TYPE_INT64, 1,
                             &count, &index);
  if (status != CUDNN_STATUS_SUCCESS) {
    return failure(lib, Errc::unimplemented, "index of an engine", status);
  }
  const auto is_wrong = [&](const Erratum& each) {
    return each.pass == c.pass && each.engine == index;
  };
  if (!narrow && !c.tf32 && std::ranges::any_of(kErrata, is_wrong)) return Fit::no;
#if CUDNN_VERSION >= 90100
  const bool keeps_nan = has(CUDNN_NUMERICAL_NOTE_STRICT_NAN_PROP);
#else
  const bool keeps_nan = false;  // no engine notes it
#endif
  return c.relu && !keeps_nan ? Fit::hides_nan : Fit::yes;
}

/// An execution plan of one configuration.
Result<std::shared_ptr<void>> plan_of(const Library& lib, cudnnHandle_t handle,
                                      const Descriptor& configuration, std::size_t& workspace) {
  Descriptor plan(lib, CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
  TROUPE_TRY(plan.set(CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE, handle)
                 .set(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, configuration)
                 .finalize());
  std::int64_t bytes = 0, count = 0;
  const cudnnStatus_t status = lib.get_attribute(
      plan.get(), CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, CUDNN_TYPE_INT64, 1, &count, &bytes);
  if (status != CUDNN_STATUS_SUCCESS) {
    return failure(lib, Errc::unimplemented, "workspace of a plan", status);
  }
  workspace = static_cast<std::size_t>(bytes);
  return std::shared_ptr<void>(plan.release(), [destroy = lib.destroy_descriptor](void* d) {
    static_cast<void>(destroy(static_cast<cudnnBackendDescriptor_t>(d)));
  });
}

/// Where an engine is looked for.
struct Guess {
  cudnnBackendHeurMode_t mode;
  int place;  ///< 0: the first one that can be had
};

/// A plan of one guess; null: there is none.
Result<std::shared_ptr<void>> search(const Library& lib, cudnnHandle_t handle, const Convolution& c,
                                     const Descriptor& graph, Guess guess, std::size_t& workspace) {
  Descriptor heuristics(lib, CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
  TROUPE_TRY(heuristics.set(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, graph)
                 .set(CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, guess.mode)
                 .finalize());
  std::vector<std::unique_ptr<Descriptor>> configurations;
  std::vector<cudnnBackendDescriptor_t> raw;
  for (std::int64_t i = 0; i < kEnginesMax; ++i) {
    configurations.push_back(std::make_unique<Descriptor>(lib, CUDNN_BACKEND_ENGINECFG_DESCRIPTOR));
    raw.push_back(configurations.back()->get());
  }
  std::int64_t count = 0;
  const cudnnStatus_t status =
      lib.get_attribute(heuristics.get(), CUDNN_ATTR_ENGINEHEUR_RESULTS,
                        CUDNN_TYPE_BACKEND_DESCRIPTOR, kEnginesMax, &count, raw.data());
  if (status != CUDNN_STATUS_SUCCESS) {
    return failure(lib, Errc::unimplemented, "engines of the heuristics", status);
  }
  int place = 0;
  for (std::int64_t i = 0; i < std::min(count, kEnginesMax); ++i) {
    const Descriptor& configuration = *configurations[static_cast<std::size_t>(i)];
    TROUPE_TRY_ASSIGN(const Fit fit, fit_of(lib, c, configuration));
    if (fit == Fit::no || place++ < guess.place) continue;
    // No other in its stead: the first that keeps NaN may be the last of all, and fifty times as
    // slow as the convolution and a relu behind it (seen on an H100 with cuDNN 9.19).
    if (fit == Fit::hides_nan) break;
    auto plan = plan_of(lib, handle, configuration, workspace);
    if (plan.ok() || plan.status().code() == Errc::resource_exhausted) return plan;
    if (guess.place > 0) break;  // the next one is the next place's
  }
  return std::shared_ptr<void>();
}

/// A convolution and what follows it, as cuDNN's graph.
class Graph {
 public:
  explicit Graph(const Library& lib) : lib_(&lib) {}

  Result<const Descriptor*> build(cudnnHandle_t handle, const Convolution& c) {
    Descriptor& data = add(CUDNN_BACKEND_TENSOR_DESCRIPTOR);
    Descriptor& weight = add(CUDNN_BACKEND_TENSOR_DESCRIPTOR);
    Descriptor& output = add(CUDNN_BACKEND_TENSOR_DESCRIPTOR);
    TROUPE_TRY(describe_tensor(data, c.data, kDataId));
    TROUPE_TRY(describe_tensor(weight, c.weight, kWeightId));
    TROUPE_TRY(describe_tensor(output, c.output, kOutputId));
    Descriptor* sum = &output;  // where the convolution writes
    if (c.bias || c.relu) {
      TROUPE_TRY_ASSIGN(sum, inner(c, kInnerId));
    }
    TROUPE_TRY(convolve(c, data, weight, *sum));
    if (c.bias) {
      Descriptor* biased = &output;
      if (c.relu) {
        TROUPE_TRY_ASSIGN(biased, inner(c, kInnerId + 1));
      }
      TROUPE_TRY(add_bias(c, *sum, *biased));
      sum = biased;
    }
    if (c.relu) {
      TROUPE_TRY(add_relu(*sum, output));
    }
    Descriptor& graph = add(CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
    TROUPE_TRY(graph.set(CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE, handle)
                   .set(CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_TYPE_BACKEND_DESCRIPTOR,
                        std::span<const cudnnBackendDescriptor_t>(operations_))
                   .finalize());
    return &graph;
  }

 private:
  Descriptor& add(cudnnBackendDescriptorType_t type) {
    parts_.push_back(std::make_unique<Descriptor>(*lib_, type));
    return *parts_.back();
  }
  /// Between two operations, in f32, where the output's elements are.
  Result<Descriptor*> inner(const Convolution& c, std::int64_t id) {
    Descriptor& d = add(CUDNN_BACKEND_TENSOR_DESCRIPTOR);
    TROUPE_TRY(
        describe_tensor(d, DType::f32, extents_of(c.output), is_channels_last(c.output), id, true));
    return &d;
  }
  Status convolve(const Convolution& c, Descriptor& data, Descriptor& weight, Descriptor& sum) {
    Descriptor& window = add(CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR);
    TROUPE_TRY(describe_window(window, c));
    const Names names = names_of(c.pass);
    Descriptor& operation = add(names.type);
    operations_.push_back(operation.get());
    return operation.set(names.window, window)
        .set(names.data, data)
        .set(names.weight, weight)
        .set(names.output, sum)
        .set(names.alpha, CUDNN_TYPE_FLOAT, 1.0F)
        .set(names.beta, CUDNN_TYPE_FLOAT, c.adds ? 1.0F : 0.0F)
        .finalize();
  }
  Status add_bias(const Convolution& c, Descriptor& sum, Descriptor& output) {
    Descriptor& bias = add(CUDNN_BACKEND_TENSOR_DESCRIPTOR);
    TROUPE_TRY(describe_tensor(bias, *c.bias, {1, c.output.shape[1], 1, 1},
                               is_channels_last(c.output), kBiasId));
    Descriptor& addition = add(CUDNN_BACKEND_POINTWISE_DESCRIPTOR);
    TROUPE_TRY(
        addition.set(CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE, CUDNN_POINTWISE_ADD)
            .set(CUDNN_ATTR_POINTWISE_MATH_PREC, CUDNN_TYPE_DATA_TYPE, CUDNN_DATA_FLOAT)
            .finalize());
    Descriptor& operation = add(CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
    operations_.push_back(operation.get());
    return operation.set(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, addition)
        .set(CUDNN_ATTR_OPERATION_POINTWISE_XDESC, sum)
        .set(CUDNN_ATTR_OPERATION_POINTWISE_BDESC, bias)
        .set(CUDNN_ATTR_OPERATION_POINTWISE_YDESC, output)
        .finalize();
  }
  Status add_relu(Descriptor& sum, Descriptor& output) {
    Descriptor& relu = add(CUDNN_BACKEND_POINTWISE_DESCRIPTOR);
    TROUPE_TRY(
        relu.set(CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE, CUDNN_POINTWISE_RELU_FWD)
            .set(CUDNN_ATTR_POINTWISE_MATH_PREC, CUDNN_TYPE_DATA_TYPE, CUDNN_DATA_FLOAT)
            .set(CUDNN_ATTR_POINTWISE_NAN_PROPAGATION, CUDNN_TYPE_NAN_PROPOGATION,
                 CUDNN_PROPAGATE_NAN)
            .finalize());
    Descriptor& operation = add(CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
    operations_.push_back(operation.get());
    return operation.set(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, relu)
        .set(CUDNN_ATTR_OPERATION_POINTWISE_XDESC, sum)
        .set(CUDNN_ATTR_OPERATION_POINTWISE_YDESC, output)
        .finalize();
  }

  const Library* lib_;
  std::vector<std::unique_ptr<Descriptor>> parts_;
  std::vector<cudnnBackendDescriptor_t> operations_;
};

/// Plans with a handle of its own, which no lane uses.
Result<std::shared_ptr<void>> plan_with(const Library& lib, cudnnHandle_t handle,
                                        const Convolution& c, EnginePlace engine,
                                        std::size_t& workspace) {
  Graph parts(lib);
  TROUPE_TRY_ASSIGN(const Descriptor* const graph, parts.build(handle, c));
  const bool quick = engine.heuristics == Heuristics::a;
  std::vector<cudnnBackendHeurMode_t> modes = {quick ? CUDNN_HEUR_MODE_A : CUDNN_HEUR_MODE_B};
  // What a relu is fused with is not worth any engine.
  if (quick && engine.place == 0 && !c.relu) modes.push_back(CUDNN_HEUR_MODE_FALLBACK);
  for (const auto mode : modes) {
    auto plan = search(lib, handle, c, *graph, {mode, engine.place}, workspace);
    if (plan.status().code() == Errc::resource_exhausted) return plan;
    if (plan.ok() && *plan != nullptr) return plan;
  }
  return base::error(Errc::unimplemented,
                     "cuDNN has no {}engine that gives the same bits each time{}",
                     engine.place == 0 ? "" : "further ", c.relu ? " and keeps NaN" : "");
}

}  // namespace

Result<Plan> Plan::make(const Convolution& convolution, base::Device device, EnginePlace engine) {
  if (const Status usable = gpu::check_device(device); !usable.ok()) {
    return base::error(Errc::unimplemented, "{}", usable.text());
  }
  if (!library().ok()) {
    return base::error(Errc::unimplemented, "no cuDNN: {}", library().status().text());
  }
  const gpu::DeviceScope scope(device);
  if (!scope.status().ok()) return declined(scope.status());
  static auto& handles = *new PlanningHandles<Handle>;
  return handles.with(device, [&](cudnnHandle_t handle) -> Result<Plan> {
    Plan plan;
    TROUPE_TRY_ASSIGN(plan.plan_,
                      plan_with(*library(), handle, convolution, engine, plan.workspace_bytes_));
    plan.workspace_bytes_ = workspace_scratch(plan.workspace_bytes_);
    return plan;
  });
}

Status Plan::run(const KernelContext& context, const Pointers& at) const {
  const Library& lib = *library();
  TROUPE_TRY_ASSIGN(cudnnHandle_t const handle, context.slot<Handle>().get());
  cudnnStatus_t status =
      lib.set_stream(handle, static_cast<cudaStream_t>(context.stream->native()));
  if (status != CUDNN_STATUS_SUCCESS) {
    return failure(lib, Errc::internal, "cudnnSetStream", status);
  }
  constexpr std::array<std::int64_t, 4> kIds = {kDataId, kWeightId, kOutputId, kBiasId};
  const std::array<void*, 4> all = {at.data, at.weight, at.output, at.bias};
  TROUPE_TRY(check_wide_loads("cuDNN",
                              std::array<const void*, 4>{at.data, at.weight, at.output, at.bias}));
  const std::size_t used = at.bias == nullptr ? 3 : 4;
  const auto ids = std::span(kIds).first(used);
  const auto pointers = std::span<void* const>(all).first(used);
  Descriptor pack(lib, CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
  TROUPE_TRY(pack.set(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64, ids)
                 .set(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR, pointers)
                 .set(CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR,
                      static_cast<void*>(workspace_in(at.workspace)))
                 .finalize());
  status = lib.execute(handle, static_cast<cudnnBackendDescriptor_t>(plan_.get()), pack.get());
  if (status == CUDNN_STATUS_SUCCESS) return {};
  return failure(lib, Errc::internal, "cudnnBackendExecute", status);
}

}  // namespace troupe::ops::cudnn
