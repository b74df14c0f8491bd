// SPDX-License-Identifier: Apache-2.0
// Networks without branches: LeNet, multi-layer perceptron, AlexNet, OverFeat, VGG, and a small one
// with batch normalisation.
#include <algorithm>

#include "symbol/networks/layers.h"

namespace troupe::symbol {

Symbol lenet(Layers& layers) {
  return layers.plain(layers.data(), {Convolution{20, 5}, Pool{2, 2}, Convolution{50, 5},
                                      Pool{2, 2}, Dense{500}, Dense{}});
}

// The first layer flattens its input.
Symbol mlp(Layers& layers) {
  return layers.plain(layers.data(), {Dense{128}, Dense{64}, Dense{}});
}

// Small, with everything that makes reproducibility hard: batch statistics and random masks.
Symbol tiny_bn(Layers& layers) {
  Symbol net = layers.data();
  auto stage = [&](const std::string& number, std::int64_t filters) {
    net = layers.convolution("conv" + number, net, {filters, 3, 1, 1}, false);
    net = layers.relu("relu" + number, layers.batch_norm("bn" + number, net, 1e-3));
    net = layers.max_pool("pool" + number, net, {2, 2});
  };
  stage("1", 8);
  stage("2", 16);
  return layers.scores("fc1", layers.dropout("drop1", layers.flatten("flatten", net)));
}

// Krizhevsky, "One weird trick for parallelizing convolutional neural networks" (2014).
Symbol alexnet(Layers& layers) {
  return layers.plain(layers.data(),
                      {Convolution{64, 11, 4, 2}, Pool{3, 2}, Convolution{192, 5, 1, 2}, Pool{3, 2},
                       Convolution{384, 3, 1, 1}, Convolution{256, 3, 1, 1},
                       Convolution{256, 3, 1, 1}, Pool{3, 2}, Dense{4096}, Dense{4096}, Dense{}});
}

// The fast one of Sermanet et al., "OverFeat" (2014).
Symbol overfeat(Layers& layers) {
  return layers.plain(layers.data(),
                      {Convolution{96, 11, 4}, Pool{2, 2}, Convolution{256, 5}, Pool{2, 2},
                       Convolution{512, 3, 1, 1}, Convolution{1024, 3, 1, 1},
                       Convolution{1024, 3, 1, 1}, Pool{2, 2}, Dense{3072}, Dense{4096}, Dense{}});
}

// Simonyan and Zisserman, "Very deep convolutional networks" (2015).
Symbol vgg(Layers& layers, const std::array<int, 5>& convolutions) {
  constexpr std::int64_t kFilters = 64, kFiltersMax = 512;
  std::vector<PlainLayer> plain;
  std::int64_t filters = kFilters;
  for (const int count : convolutions) {
    plain.insert(plain.end(), static_cast<std::size_t>(count), Convolution{filters, 3, 1, 1});
    plain.push_back(Pool{2, 2});
    filters = std::min(2 * filters, kFiltersMax);
  }
  plain.insert(plain.end(), {Dense{4096}, Dense{4096}, Dense{}});
  return layers.plain(layers.data(), plain);
}

}  // namespace troupe::symbol
