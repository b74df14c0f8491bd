// SPDX-License-Identifier: Apache-2.0
// Residual networks (He et al. 2015, 2016), wide ones (Zagoruyko and Komodakis 2016), and MobileNet
// v2 (Sandler et al. 2018).
#include <fmt/format.h>

#include <span>

#include "symbol/networks/layers.h"

namespace troupe::symbol {

namespace {

constexpr std::int64_t kFilters = 64;   // of the first stage's 3x3 convolutions
constexpr std::int64_t kExpansion = 4;  // of a bottleneck's last convolution
constexpr Convolution kStem{kFilters, 7, 2, 3};
constexpr Pool kStemPool{3, 2, 1};
constexpr std::int64_t kSmallFilters = 16;  // of the stem for small images

/// One unit of a residual network.
struct Unit {
  std::string name;
  std::int64_t filters = 0, stride = 1;
  bool projected = false;  ///< the shortcut is a 1x1 convolution
};

/// The convolutions of a unit, in order.
std::vector<Convolution> unit_convolutions(const Unit& unit, const ResidualNetwork& how) {
  const std::int64_t filters = unit.filters;
  if (!how.bottleneck) return {{filters, 3, unit.stride, 1}, {filters, 3, 1, 1}};
  const bool first = how.form == ResidualForm::v1;
  return {{filters, 1, first ? unit.stride : 1},
          {filters, 3, first ? 1 : unit.stride, 1},
          {kExpansion * filters, 1}};
}

/// v1, v1.5: each convolution is followed by normalisation; relu after the sum.
Symbol unit_after(Layers& layers, const Symbol& in, const Unit& unit, const ResidualNetwork& how) {
  const std::vector<Convolution> convolutions = unit_convolutions(unit, how);
  Symbol net = in;
  for (std::size_t i = 0; i < convolutions.size(); ++i) {
    if (i > 0) net = layers.relu(fmt::format("{}_relu{}", unit.name, i), net);
    net =
        layers.convolution(fmt::format("{}_conv{}", unit.name, i + 1), net, convolutions[i], false);
    net = layers.batch_norm(fmt::format("{}_bn{}", unit.name, i + 1), net, kBatchNormEps);
  }
  Symbol shortcut = in;
  if (unit.projected) {
    const Convolution projection{convolutions.back().filters, 1, unit.stride};
    shortcut = layers.normalised(unit.name + "_proj", in, projection);
  }
  return layers.relu(unit.name + "_relu", layers.add(unit.name + "_add", net, shortcut));
}

/// v2: normalisation and relu before each convolution; a projection reads what they give.
Symbol unit_before(Layers& layers, const Symbol& in, const Unit& unit, const ResidualNetwork& how) {
  const std::vector<Convolution> convolutions = unit_convolutions(unit, how);
  Symbol net = in, shortcut = in;
  for (std::size_t i = 0; i < convolutions.size(); ++i) {
    net = layers.batch_norm(fmt::format("{}_bn{}", unit.name, i + 1), net, kBatchNormEps);
    net = layers.relu(fmt::format("{}_relu{}", unit.name, i + 1), net);
    if (i == 0 && unit.projected) {
      const Convolution projection{convolutions.back().filters, 1, unit.stride};
      shortcut = layers.convolution(unit.name + "_proj", net, projection, false);
    }
    net =
        layers.convolution(fmt::format("{}_conv{}", unit.name, i + 1), net, convolutions[i], false);
  }
  return layers.add(unit.name + "_add", net, shortcut);
}

/// All behind the stem.
struct Stages {
  std::span<const int> units;
  std::int64_t inputs;   ///< channels that the stem gives
  std::int64_t filters;  ///< of the first stage's 3x3 convolutions; it doubles with each further
  const ResidualNetwork& unit;
};

Symbol residual_stages(Layers& layers, Symbol net, const Stages& how) {
  const bool before = how.unit.form == ResidualForm::v2;
  std::int64_t filters = how.filters, inputs = how.inputs;
  for (std::size_t stage = 0; stage < how.units.size(); ++stage) {
    const std::int64_t outputs = how.unit.bottleneck ? kExpansion * filters : filters;
    for (int number = 1; number <= how.units[stage]; ++number) {
      const bool halves = stage > 0 && number == 1;
      const Unit unit{fmt::format("stage{}_unit{}", stage + 1, number), filters, halves ? 2 : 1,
                      halves || inputs != outputs};
      net = before ? unit_before(layers, net, unit, how.unit)
                   : unit_after(layers, net, unit, how.unit);
      inputs = outputs;
    }
    filters *= 2;
  }
  if (before) net = layers.relu("relu_last", layers.batch_norm("bn_last", net, kBatchNormEps));
  return layers.scores("fc1", layers.global_average("global_pool", net));
}

/// A linear bottleneck of MobileNet v2, whose middle convolution is one plane each.
struct Bottleneck {
  std::string name;
  std::int64_t inputs, expanded, outputs, stride;
};

Symbol normalised_relu6(Layers& layers, const std::string& name, const Symbol& in,
                        const Convolution& how) {
  return layers.relu6(name + "_relu6", layers.normalised(name, in, how));
}

Symbol bottleneck(Layers& layers, const Symbol& in, const Bottleneck& b) {
  Symbol net = in;
  if (b.expanded != b.inputs) {
    net = normalised_relu6(layers, b.name + "_expand", net, {b.expanded});
  }
  const Convolution planes{b.expanded, 3, b.stride, 1, b.expanded};
  net = normalised_relu6(layers, b.name + "_depthwise", net, planes);
  net = layers.normalised(b.name + "_project", net, {b.outputs});
  return b.stride == 1 && b.inputs == b.outputs ? layers.add(b.name + "_add", in, net) : net;
}

}  // namespace

Symbol resnet(Layers& layers, const ResidualNetwork& how) {
  Symbol net = layers.convolution("conv1", layers.data(), kStem, false);
  net = layers.relu("relu1", layers.batch_norm("bn1", net, kBatchNormEps));
  net = layers.max_pool("pool1", net, kStemPool);
  return residual_stages(layers, net, {how.units, kFilters, kFilters, how});
}

Symbol small_resnet(Layers& layers, const SmallResidualNetwork& how) {
  constexpr Convolution kSmallStem{kSmallFilters, 3, 1, 1};
  Symbol net = layers.convolution("conv1", layers.data(), kSmallStem, false);
  if (how.form != ResidualForm::v2) {
    net = layers.relu("relu1", layers.batch_norm("bn1", net, kBatchNormEps));
  }
  const std::array<int, 3> units{how.units, how.units, how.units};
  const ResidualNetwork unit{.bottleneck = false, .form = how.form};
  return residual_stages(layers, net, {units, kSmallFilters, kSmallFilters * how.widening, unit});
}

Symbol mobilenet_v2(Layers& layers) {
  struct Stage {
    std::int64_t expansion, outputs, units, stride;
  };
  constexpr Stage kStages[] = {{1, 16, 1, 1}, {6, 24, 2, 2},  {6, 32, 3, 2}, {6, 64, 4, 2},
                               {6, 96, 3, 1}, {6, 160, 3, 2}, {6, 320, 1, 1}};
  constexpr Convolution kFirst{32, 3, 2, 1}, kLast{1280};
  Symbol net = normalised_relu6(layers, "conv1", layers.data(), kFirst);
  std::int64_t inputs = kFirst.filters;
  int number = 0;
  for (const Stage& stage : kStages) {
    for (std::int64_t unit = 0; unit < stage.units; ++unit) {
      net = bottleneck(layers, net,
                       {fmt::format("block{}", ++number), inputs, stage.expansion * inputs,
                        stage.outputs, unit == 0 ? stage.stride : 1});
      inputs = stage.outputs;
    }
  }
  net = normalised_relu6(layers, "conv2", net, kLast);
  return layers.scores("fc1", layers.global_average("global_pool", net));
}

}  // namespace troupe::symbol
