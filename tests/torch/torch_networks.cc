// SPDX-License-Identifier: Apache-2.0
// Compares steps through a built-in network with those that networks.py wrote, one file a draw:
//   torch_networks NETWORK f64|f32 FILE...
// f64: reference kernels; probabilities and all gradients within 1e-9. f32: the fast kernels; each
// tensor at most twice as far from PyTorch's f64 as PyTorch's own f32, or 1e-5 where that is more;
// once more with convolutions in Winograd's form, where it may be five times as far.
// All by the Euclidean norm, of several draws by the root of the mean square: behind deep
// normalisations one draw's distance is a matter of luck. f64 has rounding besides (kNoise). Exit 1
// where it does not hold.
#include <cmath>
#include <cstdio>
#include <map>
#include <span>
#include <string>

#include "ndarray/safetensors.h"
#include "symbol/executor.h"
#include "symbol/networks/networks.h"
#include "tests/support/must.h"
#include "tests/support/test_runtime.h"

namespace troupe {
namespace {

using ndarray::NDArray;
using tests::must;

/// Of the norm of all gradients: rounding. Gradients that are zero by mathematics (of a shift
/// before convolution and normalisation, as MobileNet v2 has them) are as far from each other.
constexpr double kNoise = 1e-14;
constexpr double kExact = 1e-9, kSingle = 1e-5, kPeers = 2.0, kPeersWinograd = 5.0;

/// The file's tensors, all f64.
class File {
 public:
  explicit File(const std::string& path) : file_(must(ndarray::read_safetensors(path))) {}

  std::span<const double> find(const std::string& name) const {
    const auto tensor = file_.find(name);
    if (!tensor) must(base::error(base::Errc::not_found, "no tensor {}", name));
    return {reinterpret_cast<const double*>(tensor->bytes.data()),
            tensor->bytes.size() / sizeof(double)};
  }
  base::Shape shape(const std::string& name) const { return file_.find(name)->shape; }

 private:
  ndarray::Safetensors file_;
};

void load(const NDArray& array, std::span<const double> values) {
  if (array.dtype() == base::DType::f64) return must(array.write(std::as_bytes(values)));
  const std::vector<float> single(values.begin(), values.end());
  must(array.write(std::as_bytes(std::span(single))));
}

/// |b|
double norm(std::span<const double> b) {
  double sum = 0.0;
  for (const double x : b) sum += x * x;
  return std::sqrt(sum);
}

std::vector<double> values_of(const NDArray& array) {
  if (array.dtype() == base::DType::f64) return must(array.to_vector<double>());
  const std::vector<float> single = must(array.to_vector<float>());
  return {single.begin(), single.end()};
}

/// |a - b|; NaN where a has one.
double distance(const NDArray& array, std::span<const double> b) {
  const std::vector<double> a = values_of(array);
  std::vector<double> difference(b.size());
  for (std::size_t i = 0; i < b.size(); ++i) difference[i] = a[i] - b[i];
  return norm(difference);
}

/// Squares of norms, summed over draws: of PyTorch's f64, and how far ours and its f32 are from it.
struct Squares {
  double size = 0.0, ours = 0.0, theirs = 0.0;
};
using Comparison = std::map<std::string, Squares>;  // by tensor

double square(double x) {
  return x * x;
}

/// Adds one draw.
void add_draw(const std::string& network, base::DType dtype, bool winograd, const File& file,
              Comparison& comparison) {
  tests::TestRuntime setup;
  const auto net = must(symbol::make_network(tests::test_operators(), network, {.dropout = 0.0}));
  symbol::Bindings bindings =
      must(symbol::allocate_bindings(setup.runtime, net, {{"data", file.shape("data")}}, dtype));
  for (const auto& [name, array] : bindings.arguments) {
    load(array, file.find(name == "softmax_label" ? "label" : name));
  }
  for (const std::string& name : net.list_parameters()) {
    bindings.grad_req[name] = symbol::GradReq::write;
  }
  for (const auto& [name, array] : bindings.auxiliary) load(array, file.find(name));
  symbol::ExecutorOptions options;
  options.reference_only = dtype == base::DType::f64;
  options.predict = false;
  options.winograd = winograd;
  const auto executor =
      must(symbol::Executor::bind(setup.runtime, net, std::move(bindings), options));
  must(executor->forward(true));
  must(executor->backward());
  std::map<std::string, NDArray> tensors = {{"probabilities", executor->outputs().front()}};
  for (const auto& [name, gradient] : executor->gradients()) tensors[name + ".grad"] = gradient;
  for (const auto& [name, array] : tensors) {
    const std::span<const double> exact = file.find(name);
    Squares& squares = comparison[name];
    squares.size += square(norm(exact));
    squares.ours += square(distance(array, exact));
    squares.theirs += square(file.find(name + ".error").front() * norm(exact));
  }
}

int compare(const std::string& network, base::DType dtype, bool winograd,
            std::span<char* const> files) {
  Comparison comparison;
  for (const char* path : files) add_draw(network, dtype, winograd, File(path), comparison);
  double gradients = 0.0;
  for (const auto& [name, squares] : comparison) {
    if (name != "probabilities") gradients += squares.size;
  }
  const bool exact = dtype == base::DType::f64;
  const double noise = exact ? kNoise * std::sqrt(gradients) : 0.0;
  double worst = 0.0;
  int bad = 0;
  for (const auto& [name, squares] : comparison) {
    const double size = std::sqrt(squares.size), far = std::sqrt(squares.ours);
    const double peers = (winograd ? kPeersWinograd : kPeers) * std::sqrt(squares.theirs);
    const double limit = std::max(noise, exact ? kExact * size : std::max(kSingle * size, peers));
    worst = std::max(worst, far / limit);
    if (far <= limit) continue;
    ++bad;
    std::printf("%s %s: %.2e from PyTorch's f64 of %.2e, at most %.2e is allowed\n",
                network.c_str(), name.c_str(), far, size, limit);
  }
  std::printf("%s %s%s: %zu tensors, worst %.2g of what is allowed\n", network.c_str(),
              std::string(base::dtype_name(dtype)).c_str(), winograd ? ", Winograd" : "",
              comparison.size(), worst);
  return bad == 0 ? 0 : 1;
}

}  // namespace
}  // namespace troupe

int main(int argc, char** argv) {
  const auto dtype = troupe::base::parse_dtype(argc >= 4 ? argv[2] : "");
  if (!dtype.ok()) {
    std::fprintf(stderr, "usage: torch_networks NETWORK f64|f32 FILE...\n");
    return 2;
  }
  const std::span<char* const> files(argv + 3, argv + argc);
  const int direct = troupe::compare(argv[1], *dtype, false, files);
  if (*dtype == troupe::base::DType::f64) return direct;
  return std::max(direct, troupe::compare(argv[1], *dtype, true, files));
}
