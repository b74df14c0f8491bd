// SPDX-License-Identifier: Apache-2.0
// Kernels that are made while a program runs, without a device: their source, compiled by this
// machine's compiler, has the bits of the steps' own kernels for GPUs, which run on the host, too;
// and NVRTC, where it is, makes code of it.
#include "ops/jit/pointwise_source.h"

#include <dlfcn.h>

#include <cstdlib>
#include <fstream>
#include <map>
#include <memory>

#include "ops/jit/compiler.h"
#include "tests/ops/cases.h"
#include "tests/ops/on_gpu.h"
#include "tests/support/catch.h"
#include "tests/support/test_folder.h"

namespace troupe::ops {
namespace {

using namespace testing;  // NOLINT: the test's own vocabulary

const OpDef& fused() {
  return OpTable::build().at("fused_pointwise");
}

/// What CUDA C++ has and C++ lacks: two blocks of three threads.
constexpr const char* kHostHeader = R"(#include <cmath>
#define __CUDACC_RTC__
#define __device__
#define __global__
#define __launch_bounds__(threads)
#define __grid_constant__
struct Place {
  unsigned x;
};
static Place blockIdx, threadIdx, blockDim{3}, gridDim{2};
)";
constexpr const char* kHostRun = R"(
extern "C" void run(const void* arguments) {
  for (blockIdx.x = 0; blockIdx.x < gridDim.x; ++blockIdx.x) {
    for (threadIdx.x = 0; threadIdx.x < blockDim.x; ++threadIdx.x) {
      troupe::ops::pointwise::fused_pointwise(
          *static_cast<const troupe::ops::pointwise::Arguments*>(arguments));
    }
  }
}
)";

/// The kernel of `source` as a function of this process; null where there is no compiler.
class HostKernel {
 public:
  using Run = void(const void*);

  explicit HostKernel(const std::string& source) : folder_("pointwise-source") {
    const std::string file = (folder_.path() / "kernel").string();
    std::ofstream(file + ".cc") << kHostHeader << source << kHostRun;
    const std::string command =
        "c++ -std=c++17 -O1 -ffp-contract=off -fno-math-errno -shared -fPIC -o " + file + ".so " +
        file + ".cc >" + file + ".log 2>&1";
    status_ = std::system(command.c_str());
    std::ifstream log(file + ".log");
    log_.assign(std::istreambuf_iterator<char>(log), {});
    if (status_ == 0) library_ = dlopen((file + ".so").c_str(), RTLD_NOW | RTLD_LOCAL);
  }
  ~HostKernel() {
    if (library_ != nullptr) dlclose(library_);
  }
  HostKernel(const HostKernel&) = delete;
  HostKernel& operator=(const HostKernel&) = delete;

  const std::string& log() const { return log_; }
  Run* function() const {
    return library_ == nullptr ? nullptr : reinterpret_cast<Run*>(dlsym(library_, "run"));
  }

 private:
  TestFolder folder_;
  int status_ = 0;
  std::string log_;
  void* library_ = nullptr;
};

/// Arguments as pointwise_source.h describes them.
class ArgumentBytes {
 public:
  template <typename T>
  void put(T value) {
    const auto* bytes = reinterpret_cast<const std::byte*>(&value);
    bytes_.insert(bytes_.end(), bytes, bytes + sizeof value);
  }
  const void* data() const { return bytes_.data(); }

 private:
  std::vector<std::byte> bytes_;
};

/// `tensor` from its first element or, not aligned for packs, from the second on.
void* begin_of(const Tensor& tensor, bool aligned) {
  return tensor.memory.data() + (aligned ? 0 : base::dtype_size(tensor.dtype));
}

void check_on_host(const Sample& sample, DType dtype) {
  INFO(sample.title << ", " << base::dtype_name(dtype));
  const Params params = parse_params(fused(), sample.attributes).value();
  const PointwiseChain chain = chain_of(params);
  const HostKernel compiled(jit::pointwise_source(chain, dtype));
  INFO(compiled.log());
  REQUIRE(compiled.function() != nullptr);
  for (const std::int64_t elements : {0, 1, 3, 1001}) {
    for (const bool aligned : {true, false}) {
      const std::int64_t count = aligned ? elements : std::max<std::int64_t>(elements - 1, 0);
      std::vector<Tensor> inputs;
      for (std::size_t i = 0; i < chain.inputs; ++i) {
        const Shape shape = chain.is_number()[i] ? Shape{} : Shape{elements};
        inputs.push_back(random_tensor(dtype, shape, "in" + std::to_string(i), 0.5, 1.5));
      }
      const OpCall call = make_call(fused(), params, describe(inputs)).value();
      const auto expected = make_outputs(call), outputs = make_outputs(call);
      const auto device = std::find_if(fused().kernels.begin(), fused().kernels.end(),
                                       [](const KernelDef& k) { return k.name == "cuda"; });
      REQUIRE(device != fused().kernels.end());
      run_kernel(*device->make(call).value(), inputs, expected, {});
      ArgumentBytes arguments;
      for (const Tensor& input : inputs) {
        arguments.put(begin_of(input, aligned || input.shape.rank() == 0));
      }
      arguments.put(begin_of(outputs[0], aligned));
      arguments.put(count);
      arguments.put(std::int64_t{aligned ? 1 : 0});
      for (const double number : jit::chain_numbers(chain)) {
        dtype == DType::f64 ? arguments.put(number) : arguments.put(static_cast<float>(number));
      }
      arguments.put(0.0);
      compiled.function()(arguments.data());
      CHECK(outputs[0].guard_intact());
      for (std::int64_t k = aligned ? 0 : 1; k < elements; ++k) {
        if (outputs[0].at(k) == expected[0].at(k)) continue;
        CHECK((std::isnan(outputs[0].at(k)) && std::isnan(expected[0].at(k))));
      }
    }
  }
}

TEST_CASE("a chain's source has the bits of its steps, compiled for the host") {
  if (std::system("c++ --version >/dev/null 2>&1") != 0) {
    WARN("skipped: no compiler c++ on the PATH");
    return;
  }
  for (const Sample& sample : fused().samples) check_on_host(sample, DType::f32);
  check_on_host(fused().samples.back(), DType::f64);
  check_on_host(fused().samples[3], DType::f64);
}

TEST_CASE("numbers stand in the order of the steps, and are no part of the source") {
  const auto chain = [](const std::string& steps) {
    return chain_of(parse_params(fused(), {{"num_args", "1"}, {"steps", steps}}).value());
  };
  const PointwiseChain a = chain("add_scalar 0 scalar=2; clip 1 a_min=-3 a_max=4; square 2");
  const PointwiseChain b = chain("add_scalar 0 scalar=7; clip 1 a_min=0 a_max=1; square 2");
  CHECK(jit::chain_numbers(a) == std::vector<double>{2, -3, 4});
  CHECK(jit::pointwise_source(a, DType::f32) == jit::pointwise_source(b, DType::f32));
  CHECK(jit::pointwise_source(a, DType::f32) != jit::pointwise_source(a, DType::bf16));
  CHECK(jit::chain_numbers(chain("square 0")).empty());
}

TEST_CASE("NVRTC makes code of every chain and dtype") {
  const auto first = jit::compile("extern \"C\" __global__ void f(int* x) { *x = 1; }", 9, 0);
  if (first.status().code() == base::Errc::unimplemented) {
    WARN("skipped: " << first.status().text());
    return;
  }
  INFO(first.status().to_string());
  REQUIRE(first.ok());
  CHECK(
      first->starts_with("\x7f"
                         "ELF"));
  for (const Sample& sample : fused().samples) {
    const PointwiseChain chain = chain_of(parse_params(fused(), sample.attributes).value());
    const bool all = &sample == &fused().samples.back() || sample.title == "functions";
    for (const DType dtype : {DType::bf16, DType::f32, DType::f16, DType::f64}) {
      if (dtype != DType::bf16 && !all) continue;
      const auto code = jit::compile(jit::pointwise_source(chain, dtype), 8, 0);
      INFO(sample.title << ", " << base::dtype_name(dtype) << code.status().to_string());
      REQUIRE(code.ok());
      CHECK(code->size() > first->size());
    }
  }
  const auto wrong = jit::compile("extern \"C\" __global__ void f() { undeclared = 1; }", 9, 0);
  CHECK(wrong.status().code() == base::Errc::internal);
  CHECK_THAT(wrong.status().text(), Catch::Contains("undeclared"));
  CHECK(jit::compile("", 2, 0).status().code() == base::Errc::unimplemented);
}

TEST_CASE("where a GPU cannot be used, nothing is compiled or fused for it") {
  const base::Device missing{base::DeviceKind::cuda, 1000};
  CHECK(jit::can_compile(missing).code() == base::Errc::unimplemented);
  CHECK(jit::check_compiler(missing).code() == base::Errc::unimplemented);
  CHECK_FALSE(worth_fusing(missing).value());
  CHECK(worth_fusing({}).value());
}

TEST_CASE("on a GPU a compiled chain has the bits of its steps", "[gpu]") {
  if (without_gpu()) return;
  const base::Status compiler = jit::check_compiler(kFirstGpu);
  if (compiler.code() == base::Errc::unimplemented) {
    WARN("skipped: " << compiler.text());
    return;
  }
  CHECK(compiler.ok());
  OnGpu gpu;
  for (const Sample& sample : fused().samples) {
    for (const DType dtype : {DType::f32, DType::f64, DType::bf16, DType::f16}) {
      Case c = make_case(fused(), sample, dtype).value();
      c.call.device = kFirstGpu;
      std::map<std::string, std::vector<Tensor>> results;
      for (const KernelDef& candidate : fused().kernels) {
        if (!candidate.on_gpus) continue;
        const auto kernel = candidate.prepare(c.call);
        INFO(sample.title << ", " << candidate.name << kernel.status().to_string());
        REQUIRE(kernel.ok());
        results[candidate.name] = make_outputs(c.call);
        gpu.run(**kernel, c.inputs, results[candidate.name]);
      }
      INFO(sample.title << ", " << base::dtype_name(dtype));
      REQUIRE(results.size() == 2);
      CHECK(results.at("nvrtc")[0].same_bits(results.at("cuda")[0]));
    }
  }
}

}  // namespace
}  // namespace troupe::ops
