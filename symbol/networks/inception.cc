// SPDX-License-Identifier: Apache-2.0
// GoogLeNet (Szegedy et al. 2014, without auxiliary classifiers) and the same idea with batch
// normalisation (Ioffe and Szegedy 2015).
#include "symbol/networks/layers.h"

namespace troupe::symbol {

namespace {

/// Filters of a module of GoogLeNet: 1x1; reduction and 3x3; reduction and 5x5; projection.
struct Inception {
  std::string name;
  std::int64_t one, reduce3, three, reduce5, five, projection;
};

constexpr Pool kStemPool{3, 2, 1};

Symbol convolution_relu(Layers& layers, const std::string& name, const Symbol& in,
                        const Convolution& how) {
  return layers.relu(name + "_relu", layers.convolution(name, in, how, true));
}

Symbol inception(Layers& layers, const Symbol& in, const Inception& m) {
  auto add = [&](const char* part, const Symbol& from, const Convolution& how) {
    return convolution_relu(layers, m.name + part, from, how);
  };
  const Symbol one = add("_1x1", in, {m.one});
  const Symbol three = add("_3x3", add("_3x3_reduce", in, {m.reduce3}), {m.three, 3, 1, 1});
  const Symbol five = add("_5x5", add("_5x5_reduce", in, {m.reduce5}), {m.five, 5, 1, 2});
  const Symbol pool = layers.max_pool(m.name + "_pool", in, {3, 1, 1});
  const Symbol projection = add("_pool_proj", pool, {m.projection});
  return layers.concat(m.name, {one, three, five, projection});
}

Symbol normalised_relu(Layers& layers, const std::string& name, const Symbol& in,
                       const Convolution& how) {
  return layers.relu(name + "_relu", layers.normalised(name, in, how));
}

/// Filters of a module of Inception-BN; no `one`: the module halves the plane, and its pool is
/// passed on as it is.
struct InceptionBn {
  std::string name;
  std::int64_t one, reduce3, three, reduce_double3, double3;
  bool average;
  std::int64_t projection;
};

Symbol inception_bn_module(Layers& layers, const Symbol& in, const InceptionBn& m) {
  const std::int64_t stride = m.one == 0 ? 2 : 1;
  auto add = [&](const char* part, const Symbol& from, const Convolution& how) {
    return normalised_relu(layers, m.name + part, from, how);
  };
  std::vector<Symbol> parts;
  if (m.one != 0) parts.push_back(add("_1x1", in, {m.one}));
  parts.push_back(add("_3x3", add("_3x3_reduce", in, {m.reduce3}), {m.three, 3, stride, 1}));
  const Symbol first =
      add("_double_3x3_0", add("_double_3x3_reduce", in, {m.reduce_double3}), {m.double3, 3, 1, 1});
  parts.push_back(add("_double_3x3_1", first, {m.double3, 3, stride, 1}));
  const Pool windows{3, stride, 1};
  const Symbol pool = m.average ? layers.average_pool(m.name + "_pool", in, windows)
                                : layers.max_pool(m.name + "_pool", in, windows);
  parts.push_back(m.one == 0 ? pool : add("_pool_proj", pool, {m.projection}));
  return layers.concat(m.name, std::move(parts));
}

}  // namespace

Symbol googlenet(Layers& layers) {
  Symbol net = convolution_relu(layers, "conv1", layers.data(), {64, 7, 2, 3});
  net = layers.max_pool("pool1", net, kStemPool);
  net = convolution_relu(layers, "conv2_reduce", net, {64});
  net = convolution_relu(layers, "conv2", net, {192, 3, 1, 1});
  net = layers.max_pool("pool2", net, kStemPool);
  net = inception(layers, net, {"in3a", 64, 96, 128, 16, 32, 32});
  net = inception(layers, net, {"in3b", 128, 128, 192, 32, 96, 64});
  net = layers.max_pool("pool3", net, kStemPool);
  net = inception(layers, net, {"in4a", 192, 96, 208, 16, 48, 64});
  net = inception(layers, net, {"in4b", 160, 112, 224, 24, 64, 64});
  net = inception(layers, net, {"in4c", 128, 128, 256, 24, 64, 64});
  net = inception(layers, net, {"in4d", 112, 144, 288, 32, 64, 64});
  net = inception(layers, net, {"in4e", 256, 160, 320, 32, 128, 128});
  net = layers.max_pool("pool4", net, kStemPool);
  net = inception(layers, net, {"in5a", 256, 160, 320, 32, 128, 128});
  net = inception(layers, net, {"in5b", 384, 192, 384, 48, 128, 128});
  return layers.scores("fc1", layers.global_average("global_pool", net));
}

Symbol inception_bn(Layers& layers) {
  constexpr Pool kPool{3, 2, 0, true};
  Symbol net = normalised_relu(layers, "conv1", layers.data(), {64, 7, 2, 3});
  net = layers.max_pool("pool1", net, kPool);
  net = normalised_relu(layers, "conv2_reduce", net, {64});
  net = normalised_relu(layers, "conv2", net, {192, 3, 1, 1});
  net = layers.max_pool("pool2", net, kPool);
  const InceptionBn modules[] = {
      {"in3a", 64, 64, 64, 64, 96, true, 32},       {"in3b", 64, 64, 96, 64, 96, true, 64},
      {"in3c", 0, 128, 160, 64, 96, false, 0},      {"in4a", 224, 64, 96, 96, 128, true, 128},
      {"in4b", 192, 96, 128, 96, 128, true, 128},   {"in4c", 160, 128, 160, 128, 160, true, 128},
      {"in4d", 96, 128, 192, 160, 192, true, 128},  {"in4e", 0, 128, 192, 192, 256, false, 0},
      {"in5a", 352, 192, 320, 160, 224, true, 128}, {"in5b", 352, 192, 320, 192, 224, false, 128},
  };
  for (const InceptionBn& module : modules) net = inception_bn_module(layers, net, module);
  return layers.scores("fc1", layers.global_average("global_pool", net));
}

}  // namespace troupe::symbol
