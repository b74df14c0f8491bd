// SPDX-License-Identifier: Apache-2.0
// Running one oneDNN primitive as a kernel, and preparing it for a team of threads.
#include "ops/support/onednn.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <optional>
#include <string_view>

#include "base/call_memory.h"
#include "base/parallel.h"
#include "ops/roofline.h"
#include "ops/support/chunks.h"
#include "ops/support/layout_map.h"
#include "ops/support/relu.h"
#include "ops/support/widened.h"

namespace troupe::ops::onednn {
namespace {

using base::Errc;
using base::Layout;
using base::Result;
using base::Status;

/// Most arguments of a primitive, scratch included.
constexpr std::size_t kArgumentsMax = 12;

/// Lives in a lane's slot: a stream belongs to one thread.
struct LaneStream {
  dnnl::stream stream{cpu()};
  int team = 1;  // the largest that it has led

  /// Some primitives allocate on every member of the team.
  void lead(int members) {
    if (members <= team) return;
    team = members;
    base::parallel_chunks(members, members, [](std::int64_t member) {
      if (member > 0) base::CallMemory::keep_on_this_thread();
    });
  }
};

/// Memory objects for one run, kept for the next: an object is made once and follows its address.
class ArgumentSet {
 public:
  ArgumentSet() = default;
  ArgumentSet(const ArgumentSet&) = delete;
  ArgumentSet& operator=(const ArgumentSet&) = delete;
  ~ArgumentSet() {
    for (Entry& entry : entries_) reset(entry);
  }

  /// The memory object `at` for this address. Giving one another address makes the library clear
  /// the padding behind it, in inputs too: with padding, the object is made anew.
  Result<dnnl_memory_t> at(std::size_t at, const dnnl::memory::desc& descriptor, void* address) {
    Entry& entry = entries_[at];
    if (entry.memory != nullptr && entry.address == address) return entry.memory;
    dnnl_status_t status = dnnl_success;
    if (entry.memory != nullptr && !padded(descriptor)) {
      const base::CallMemory tables;
      status = dnnl_memory_set_data_handle(entry.memory, address);
    } else {
      reset(entry);
      status = create_memory(&entry.memory, descriptor, address);
    }
    if (status != dnnl_success) {
      return base::error(Errc::resource_exhausted, "oneDNN makes no memory object (status {})",
                         static_cast<int>(status));
    }
    entry.address = address;
    return entry.memory;
  }

 private:
  struct Entry {
    dnnl_memory_t memory = nullptr;
    void* address = nullptr;
  };
  static void reset(Entry& entry) {
    if (entry.memory != nullptr) dnnl_memory_destroy(entry.memory);
    entry.memory = nullptr;
  }
  std::array<Entry, kArgumentsMax> entries_;
};

/// An argument with everything known.
struct Bound {
  Argument argument;
  dnnl::memory::desc descriptor;
  /// Offset in scratch of a temporary for an output in add mode; -1: none.
  std::int64_t temporary = -1;
};

/// What a kernel is made of.
struct Parts {
  std::string name;
  dnnl::primitive primitive;
  std::vector<Bound> bound;
  std::vector<Layout> inputs, outputs;
  int team = 1;  ///< that the primitive is made for, and runs with
  dnnl::memory::desc scratchpad;
  std::size_t scratch_bytes = 0;
  int addend = -1;
  bool relu = false;
};

/// The name of convolutions that are products of matrices.
constexpr std::string_view kInnerProduct = "ip";

class PrimitiveKernel final : public Kernel {
 public:
  explicit PrimitiveKernel(Parts parts) : parts_(std::move(parts)) {}
  ~PrimitiveKernel() override { delete spare_.load(); }

  std::string name() const override { return "onednn:" + parts_.name; }
  std::size_t scratch_bytes() const override { return parts_.scratch_bytes; }
  /// Products of matrices cut their sums by all of their rows.
  bool keeps_sample_bits() const override {
    const std::string& name = parts_.name;
    return name.find("gemm") == std::string::npos && !name.starts_with("brg:") &&
           !name.starts_with("brg_matmul") &&  // in version 3
           name != kInnerProduct;
  }
  std::vector<Layout> input_layouts() const override { return parts_.inputs; }
  std::vector<Layout> output_layouts() const override { return parts_.outputs; }

  Status run(const KernelContext& context) const override {
    if (parts_.addend >= 0) bring_addend(context);
    std::unique_ptr<ArgumentSet> set(spare_.exchange(nullptr));
    if (!set) set = std::make_unique<ArgumentSet>();
    const Status status = execute(context, *set);
    delete spare_.exchange(set.release());
    if (!status.ok()) return status;
    for (const Bound& bound : parts_.bound) {
      if (bound.temporary >= 0) TROUPE_TRY(accumulate(context, bound));
    }
    if (parts_.relu) {
      relu_in_place(context, context.outputs[0]);
    }
    return {};
  }

 private:
  /// Where it is not there already.
  void bring_addend(const KernelContext& context) const {
    const base::TensorView& from = context.inputs[static_cast<std::size_t>(parts_.addend)];
    const base::TensorView& to = context.outputs[0];
    if (from.data == to.data) return;
    parallel_ranges(
        context, to.bytes(),
        [&](std::int64_t begin, std::int64_t end) {
          std::memcpy(static_cast<std::byte*>(to.data) + begin,
                      static_cast<const std::byte*>(from.data) + begin,
                      static_cast<std::size_t>(end - begin));
        },
        kChunkElements * std::int64_t{sizeof(float)});
  }

  static void* address(const KernelContext& context, const Bound& bound) {
    if (bound.temporary >= 0) return context.scratch.data() + bound.temporary;
    const auto& views = bound.argument.output ? context.outputs : context.inputs;
    return views[static_cast<std::size_t>(bound.argument.index)].data;
  }

  Status execute(const KernelContext& context, ArgumentSet& set) const {
    std::array<dnnl_exec_arg_t, kArgumentsMax> arguments;
    std::size_t count = 0;
    for (const Bound& bound : parts_.bound) {
      TROUPE_TRY_ASSIGN(arguments[count].memory,
                        set.at(count, bound.descriptor, address(context, bound)));
      arguments[count++].arg = bound.argument.arg;
    }
    if (parts_.scratchpad.get_size() > 0) {
      TROUPE_TRY_ASSIGN(arguments[count].memory,
                        set.at(count, parts_.scratchpad, context.scratch.data()));
      arguments[count++].arg = DNNL_ARG_SCRATCHPAD;
    }
    auto& lane = context.slot<LaneStream>();
    lane.lead(parts_.team);
    const base::CallMemory tables;  // the library puts the arguments into tables at every call
    dnnl_status_t status = dnnl_success;
    const auto run = [&] {
      status = dnnl_primitive_execute(parts_.primitive.get(), lane.stream.get(),
                                      static_cast<int>(count), arguments.data());
    };
    if (base::thread_team() == parts_.team) {
      run();
    } else {
      base::lead_team(parts_.team, run);
    }
    if (status == dnnl_success) return {};
    return base::error(Errc::internal, "oneDNN primitive {} failed with status {}", parts_.name,
                       static_cast<int>(status));
  }

  /// Padding is zero on both sides.
  static Status accumulate(const KernelContext& context, const Bound& bound) {
    const base::TensorView& to = context.outputs[static_cast<std::size_t>(bound.argument.index)];
    base::TensorView from = to;
    from.data = context.scratch.data() + bound.temporary;
    return add_memory(context, from, to);
  }

  Parts parts_;
  /// Arguments of an earlier run, taken by one run at a time.
  mutable std::atomic<ArgumentSet*> spare_{nullptr};
};

Status check_call(const OpCall& call, base::DType dtype) {
  if (!call.device.host_memory()) {
    return base::error(Errc::unimplemented, "not a CPU");
  }
  if (call.inputs.empty() || call.inputs[0].dtype != dtype) {
    return base::error(Errc::unimplemented, "only {}", base::dtype_name(dtype));
  }
  for (const auto* group : {&call.inputs, &call.outputs}) {
    for (const TensorDesc& tensor : *group) {
      if (tensor.shape.elements() == 0) return base::error(Errc::unimplemented, "empty tensor");
      if (!tensor.any_layout && tensor.layout.kind == Layout::Kind::opaque) {
        return base::error(Errc::unimplemented, "opaque layout {}", tensor.layout.to_string());
      }
    }
  }
  return {};
}

/// The layout of a bound argument, which must be the call's where that is fixed.
Result<Layout> checked_layout(const Bound& bound, const TensorDesc& tensor) {
  const bool view = bound.argument.dense_view;
  const std::optional<Layout> layout =
      view ? Layout::dense() : layout_of(bound.descriptor, bound.argument.groups);
  if (!layout) return base::error(Errc::unimplemented, "a private layout");
  if (element_type(bound.descriptor) != library_type(tensor.dtype)) {
    return base::error(Errc::unimplemented, "another dtype than {}",
                       base::dtype_name(tensor.dtype));
  }
  TROUPE_TRY(check_layout(tensor, *layout));
  return *layout;
}

std::vector<Layout> present_layouts(const std::vector<TensorDesc>& tensors) {
  std::vector<Layout> layouts;
  for (const TensorDesc& tensor : tensors) layouts.push_back(tensor.layout);
  return layouts;
}

std::int64_t aligned(std::size_t bytes) {
  return static_cast<std::int64_t>((bytes + 63) / 64 * 64);
}

/// What the library calls the implementation. A convolution by an inner product has that one's name
/// behind it, but not when it comes from the library's cache: the name of one kernel is always the
/// same.
std::string name_of(const dnnl::primitive_desc_base& primitive) {
  std::string name = primitive.impl_info_str();
  return name.starts_with("ip:") ? std::string(kInnerProduct) : name;
}

Result<Parts> assemble(const OpCall& call, const Plan& plan) {
  if (!plan.primitive) return base::error(Errc::unimplemented, "no implementation");
  Parts parts;
  parts.name = name_of(plan.primitive);
  // Plain loops. Ours are faster.
  if (parts.name.starts_with("ref") || parts.name.find("_ref:") != std::string::npos) {
    return base::error(Errc::unimplemented, "only the library's plain loops ({})", parts.name);
  }
  TROUPE_CHECK(plan.arguments.size() < kArgumentsMax, "too many arguments of a primitive");
  parts.scratchpad = plan.primitive.query_md(dnnl::query::scratchpad_md);
  std::int64_t scratch = aligned(parts.scratchpad.get_size());
  parts.inputs = present_layouts(call.inputs);
  parts.outputs = present_layouts(call.outputs);
  for (const Argument& argument : plan.arguments) {
    Bound bound{argument, plan.primitive.query_md(dnnl::query::exec_arg_md, argument.arg)};
    const auto at = static_cast<std::size_t>(argument.index);
    const TensorDesc& tensor = (argument.output ? call.outputs : call.inputs)[at];
    TROUPE_TRY_ASSIGN((argument.output ? parts.outputs : parts.inputs)[at],
                      checked_layout(bound, tensor));
    if (argument.output && at < call.modes.size() && call.modes[at] == WriteMode::add) {
      bound.temporary = scratch;
      scratch += aligned(bound.descriptor.get_size());
    }
    parts.bound.push_back(std::move(bound));
  }
  if (plan.addend >= 0 || plan.relu) {
    if (!call.modes.empty() && call.modes[0] == WriteMode::add) {
      return base::error(Errc::unimplemented, "an epilogue only writes");
    }
  }
  if (plan.addend >= 0) {
    const auto at = static_cast<std::size_t>(plan.addend);
    TROUPE_TRY(check_layout(call.inputs[at], parts.outputs[0]));
    parts.inputs[at] = parts.outputs[0];
  }
  parts.addend = plan.addend;
  parts.relu = plan.relu;
  parts.scratch_bytes = static_cast<std::size_t>(scratch);
  parts.primitive = dnnl::primitive(plan.primitive.get());
  return parts;
}

}  // namespace

/// On a thread that leads the call's team: primitives are made for the team of their maker.
Result<std::unique_ptr<Kernel>> make_for_team(
    const OpCall& call, const std::function<Result<Plan>(const OpCall&)>& build) {
  if (base::thread_team() != call.team) {
    return base::error(Errc::failed_precondition,
                       "this thread cannot lead a team of {}: it is in an OpenMP parallel region, "
                       "or OMP_THREAD_LIMIT is lower",
                       call.team);
  }
  try {
    TROUPE_TRY_ASSIGN(const Plan plan, build(call));
    TROUPE_TRY_ASSIGN(Parts parts, assemble(call, plan));
    parts.team = call.team;
    return std::unique_ptr<Kernel>(std::make_unique<PrimitiveKernel>(std::move(parts)));
  } catch (const dnnl::error& e) {
    return base::error(Errc::unimplemented, "{}", e.what());
  }
}

Result<std::unique_ptr<Kernel>> make_kernel(
    const OpCall& call, base::DType dtype,
    const std::function<Result<Plan>(const OpCall&)>& build) {
  TROUPE_TRY(check_call(call, dtype));
  std::optional<Result<std::unique_ptr<Kernel>>> kernel;
  base::lead_team(call.team, [&] { kernel.emplace(make_for_team(call, build)); });
  return *std::move(kernel);
}

Result<Plan> without_gemm(Plan plan) {
  if (!plan.primitive) return plan;
  // "gemm:jit", "x64:gemm:jit"; but "brgemm:avx512_core_amx_bf16" has its scratch from the caller.
  const std::string_view name = plan.primitive.impl_info_str();
  if (name.starts_with("gemm:") || name.find(":gemm:") != std::string_view::npos) {
    return base::error(Errc::unimplemented, "only gemm, whose scratch is not planned");
  }
  return plan;
}

dnnl::memory::desc matrix(base::DType dtype, std::int64_t rows, std::int64_t columns,
                          const MatrixStrides& strides) {
  return {dnnl::memory::dims{rows, columns}, library_type(dtype),
          dnnl::memory::dims{strides.row, strides.column}};
}

Plan elementwise(const OpCall& call, dnnl::algorithm function) {
  const TensorDesc& data = call.inputs[0];
  const auto descriptor = describe(data.dtype, data.shape, followed_layout({&data}));
  return {describe_elementwise(function, descriptor),
          {input(DNNL_ARG_SRC, 0), output(DNNL_ARG_DST, 0)}};
}

Plan elementwise_gradient(const OpCall& call, dnnl::algorithm function) {
  const TensorDesc& read = call.inputs[1];
  const auto descriptor =
      describe(read.dtype, read.shape, followed_layout({&read, &call.inputs[0]}));
  const auto hint = describe_elementwise(function, descriptor);
  if (!hint) return {};
  return {describe_elementwise_gradient(hint, function, descriptor),
          {input(DNNL_ARG_DIFF_DST, 0), input(DNNL_ARG_DST, 1), output(DNNL_ARG_DIFF_SRC, 0)}};
}

BackendKernel backend_kernel(std::string op, Result<Plan> (*build)(const OpCall&)) {
  const auto prepare = [build](const OpCall& call) {
    return make_kernel(call, base::DType::f32, build);
  };
  return {std::move(op), {.name = "onednn", .make = prepare, .leads_team = true}};
}

BackendKernel backend_kernel_of_bf16(std::string op, Result<Plan> (*build)(const OpCall&)) {
  const auto prepare = [build](const OpCall& call) -> Result<std::unique_ptr<Kernel>> {
    if (bf16_speed() == 0.0) {
      return base::error(Errc::unimplemented, "no products of bf16 on this processor");
    }
    return make_kernel(call, base::DType::bf16, build);
  };
  return {std::move(op),
          {.name = "onednn-bf16", .make = prepare, .takes_16_bits = only_bf16, .leads_team = true}};
}

BackendKernel product_kernel_of_bf16(std::string op, Result<Plan> (*build)(const OpCall&)) {
  BackendKernel result = backend_kernel_of_bf16(std::move(op), build);
  result.kernel.seconds = [](const OpCall& call) {
    return roofline_seconds(call, {.compute = bf16_speed()});
  };
  return result;
}

}  // namespace troupe::ops::onednn
