// SPDX-License-Identifier: Apache-2.0
// The source has four parts: what NVRTC lacks, the functions, the chain for one element, the
// kernel.
#include "ops/jit/pointwise_source.h"

#include <fmt/core.h>

#include <cctype>
#include <string_view>

namespace troupe::ops::jit {

/// The text of ops/support/pointwise_functions.h; CMake writes it.
std::string_view pointwise_functions();

namespace {

using base::DType;

/// NVRTC has the functions of math.h, but no headers and no names of std.
constexpr std::string_view kPreamble = R"(#define TROUPE_HOST_DEVICE __device__
namespace std {
using ::erf;
using ::exp;
using ::expm1;
using ::fabs;
using ::log;
using ::log1p;
using ::sqrt;
using ::tanh;
}  // namespace std
)";

/// Element and, for one of 16 bits, W and the conversions between them.
std::string_view element_types(DType dtype) {
  switch (dtype) {
    case DType::bf16:
      return R"(using Element = unsigned short;
using W = float;
__device__ W widen(Element x) { return __uint_as_float(static_cast<unsigned>(x) << 16); }
__device__ Element narrow(W x) {
  Element y;
  asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(y) : "f"(x));
  return y;
}
)";
    case DType::f16:
      return R"(using Element = unsigned short;
using W = float;
__device__ W widen(Element x) {
  W y;
  asm("cvt.f32.f16 %0, %1;" : "=f"(y) : "h"(x));
  return y;
}
__device__ Element narrow(W x) {
  Element y;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(y) : "f"(x));
  return y;
}
)";
    default:
      return dtype == DType::f64 ? "using Element = double;\n" : "using Element = float;\n";
  }
}

/// W and the conversions where elements are computed in their own type.
constexpr std::string_view kWideElements = R"(using W = Element;
__device__ W widen(Element x) { return x; }
__device__ Element narrow(W x) { return x; }
)";

/// `text` with every "$k" as the step's operand and every "#k" as one of the numbers from `first`.
std::string with_values(std::string_view text, const std::vector<std::size_t>& operands,
                        std::size_t first) {
  std::string result;
  while (!text.empty()) {
    const char mark = text.front();
    text.remove_prefix(1);
    if (mark != '$' && mark != '#') {
      result += mark;
      continue;
    }
    std::size_t index = 0;
    while (!text.empty() && std::isdigit(static_cast<unsigned char>(text.front())) != 0) {
      index = index * 10 + static_cast<std::size_t>(text.front() - '0');
      text.remove_prefix(1);
    }
    result += mark == '$' ? fmt::format("x{}", operands[index])
                          : fmt::format("numbers[{}]", first + index);
  }
  return result;
}

/// "f(0), f(1), ..." of `count` indices.
template <typename F>
std::string list(std::size_t count, F&& f) {
  std::string text;
  for (std::size_t i = 0; i < count; ++i) text += (i == 0 ? "" : ", ") + f(i);
  return text;
}

/// The function of one element.
std::string chain_function(const PointwiseChain& chain) {
  std::string text =
      fmt::format("__device__ W chain(const W* numbers, {}) {{\n",
                  list(chain.inputs, [](std::size_t k) { return "W x" + std::to_string(k); }));
  std::size_t value = chain.inputs, numbers = 0;
  for (const PointwiseStep& step : chain.steps) {
    const PointwiseTerm term = step.op->pointwise(step.params).value();
    text += fmt::format("  const W x{} = {};\n", value++,
                        with_values(term.text, step.operands, numbers));
    numbers += term.numbers.size();
  }
  return text + fmt::format("  return x{};\n}}\n", value - 1);
}

/// The kernel: packs of 16 bytes where tensors lie so, and elements one by one behind them.
std::string kernel(const PointwiseChain& chain, std::size_t numbers) {
  const std::vector<bool> is_number = chain.is_number();
  const auto chain_of = [&](const char* element) {
    return list(chain.inputs, [&](std::size_t k) {
      return is_number[k] ? fmt::format("n{}", k)
                          : fmt::format("widen({})", fmt::format(fmt::runtime(element), k));
    });
  };
  std::string singles, packs;
  for (std::size_t k = 0; k < chain.inputs; ++k) {
    if (is_number[k]) {
      singles += fmt::format("  const W n{0} = widen(a.in[{0}][0]);\n", k);
    } else {
      packs +=
          fmt::format("    const Pack p{0} = reinterpret_cast<const Pack*>(a.in[{0}])[i];\n", k);
    }
  }
  return fmt::format(
      R"(struct Arguments {{
  const Element* in[{inputs}];
  Element* out;
  long long count, aligned;
  W numbers[{numbers}];
}};
constexpr int kSize = 16 / sizeof(Element);
struct alignas(16) Pack {{
  Element values[kSize];
}};
extern "C" __global__ void __launch_bounds__({threads})
    {name}(const __grid_constant__ Arguments a) {{
  const long long step = static_cast<long long>(blockDim.x) * gridDim.x;
  const long long first = static_cast<long long>(blockDim.x) * blockIdx.x + threadIdx.x;
  const long long packs = a.aligned != 0 ? a.count / kSize : 0;
{singles}  for (long long i = first; i < packs; i += step) {{
{packs}    Pack y;
#pragma unroll
    for (int k = 0; k < kSize; ++k) y.values[k] = narrow(chain(a.numbers, {of_packs}));
    reinterpret_cast<Pack*>(a.out)[i] = y;
  }}
  for (long long i = packs * kSize + first; i < a.count; i += step) {{
    a.out[i] = narrow(chain(a.numbers, {of_elements}));
  }}
}}
)",
      fmt::arg("inputs", chain.inputs), fmt::arg("numbers", numbers), fmt::arg("packs", packs),
      fmt::arg("singles", singles), fmt::arg("threads", kPointwiseThreads),
      fmt::arg("name", kPointwiseKernel), fmt::arg("of_packs", chain_of("p{}.values[k]")),
      fmt::arg("of_elements", chain_of("a.in[{}][i]")));
}

}  // namespace

std::vector<double> chain_numbers(const PointwiseChain& chain) {
  std::vector<double> numbers;
  for (const PointwiseStep& step : chain.steps) {
    const std::vector<double> own = step.op->pointwise(step.params).value().numbers;
    numbers.insert(numbers.end(), own.begin(), own.end());
  }
  return numbers;
}

std::string pointwise_source(const PointwiseChain& chain, DType dtype) {
  const std::size_t numbers = std::max<std::size_t>(chain_numbers(chain).size(), 1);
  std::string text(kPreamble);
  text += pointwise_functions();
  text += "namespace troupe::ops::pointwise {\n";
  text += element_types(dtype);
  if (!base::is_16_bit(dtype)) text += kWideElements;
  text += chain_function(chain);
  text += kernel(chain, numbers);
  return text + "}  // namespace troupe::ops::pointwise\n";
}

}  // namespace troupe::ops::jit
