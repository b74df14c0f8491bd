// SPDX-License-Identifier: Apache-2.0
// Layers that the built-in networks are made of. One thread.
// Private to this folder.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "symbol/symbol.h"

namespace troupe::symbol {

/// Added to the variance by the networks for large images.
inline constexpr double kBatchNormEps = 1e-5;

/// A square convolution.
struct Convolution {
  std::int64_t filters = 0, kernel = 1, stride = 1, pad = 0;
  std::int64_t groups = 1;
};
/// Square windows; `full`: a last window may hang over the edge.
struct Pool {
  std::int64_t kernel = 1, stride = 1, pad = 0;
  bool full = false;
};
/// A fully connected layer; no `hidden` units: one per class.
struct Dense {
  std::int64_t hidden = 0;
};
/// A layer of a network that has no branches.
using PlainLayer = std::variant<Convolution, Pool, Dense>;

/// Adds layers to symbols; the first error of any is kept until loss(). A layer's name is its
/// node's name.
class Layers {
 public:
  Layers(const ops::OpTable& table, std::int64_t classes, double dropout, std::optional<bool> bias)
      : composer_(table), classes_(classes), dropout_(dropout), bias_(bias) {}

  Symbol data() { return composer_.variable("data"); }
  /// With a bias if the network's user says so, or else if `bias`.
  Symbol convolution(const std::string& name, const Symbol& in, const Convolution& how, bool bias);
  Symbol batch_norm(const std::string& name, const Symbol& in, double eps);
  /// A convolution without bias, and batch normalisation named NAME_bn.
  Symbol normalised(const std::string& name, const Symbol& in, const Convolution& how);
  Symbol relu(const std::string& name, const Symbol& in);
  Symbol max_pool(const std::string& name, const Symbol& in, const Pool& how);
  Symbol average_pool(const std::string& name, const Symbol& in, const Pool& how);
  /// The mean of each plane, flattened.
  Symbol global_average(const std::string& name, const Symbol& in);
  Symbol flatten(const std::string& name, const Symbol& in);
  /// `in` itself if the probability is 0.
  Symbol dropout(const std::string& name, const Symbol& in);
  Symbol dense(const std::string& name, const Symbol& in, std::int64_t hidden);
  /// A unit per class.
  Symbol scores(const std::string& name, const Symbol& in);
  Symbol add(const std::string& name, const Symbol& a, const Symbol& b);
  Symbol concat(const std::string& name, std::vector<Symbol> parts);
  /// min(max(x, 0), 6).
  Symbol relu6(const std::string& name, const Symbol& in);
  /// The layers in sequence, numbered by kind ("conv1", "relu1", "pool1", "fc1", "drop1"). Each
  /// convolution and all but the last fully connected layer are followed by a relu; dropout
  /// follows the hidden fully connected ones. What windows leave is flattened.
  Symbol plain(Symbol in, const std::vector<PlainLayer>& layers);

  base::Result<Symbol> loss(const Symbol& scores);

 private:
  Symbol pool(const std::string& name, const Symbol& in, const char* type, const Pool& how);

  Composer composer_;
  std::int64_t classes_;
  double dropout_;
  std::optional<bool> bias_;
};

/// Where a residual network's units have their stride and their normalisation: He et al. 2015 (v1:
/// the stride on the first convolution; v1.5: on the 3x3 one) and He et al. 2016 (v2: normalisation
/// and relu before each convolution, the stride on the 3x3 one).
enum class ResidualForm { v1, v1_5, v2 };
/// A residual network of four stages.
struct ResidualNetwork {
  std::array<int, 4> units{};  ///< of each stage
  bool bottleneck = true;      ///< 1x1, 3x3, 1x1 instead of 3x3, 3x3
  ResidualForm form = ResidualForm::v1;
};
/// A residual network for images of about 32x32: a 3x3 stem of 16 filters and three stages of
/// 16, 32 and 64 times `widening` filters, all convolutions 3x3. v1: He et al. 2015, section 4.2,
/// with projections as shortcuts where the size changes; v2: Zagoruyko and Komodakis 2016.
struct SmallResidualNetwork {
  int units = 3;  ///< of each stage
  std::int64_t widening = 1;
  ResidualForm form = ResidualForm::v1;
};

// Networks, up to the classes' scores.
Symbol lenet(Layers& layers);
Symbol mlp(Layers& layers);
Symbol tiny_bn(Layers& layers);
Symbol alexnet(Layers& layers);
Symbol overfeat(Layers& layers);
/// Stages of so many convolutions.
Symbol vgg(Layers& layers, const std::array<int, 5>& convolutions);
Symbol googlenet(Layers& layers);
Symbol inception_bn(Layers& layers);
Symbol resnet(Layers& layers, const ResidualNetwork& how);
Symbol small_resnet(Layers& layers, const SmallResidualNetwork& how);
Symbol mobilenet_v2(Layers& layers);

}  // namespace troupe::symbol
