// SPDX-License-Identifier: Apache-2.0
// Convolutions of dense tensors as matrix products: the numbers that each window covers are
// gathered into a row, a block of rows at a time, and the rows are multiplied while they are in the
// cache. Numbers of a row lie in the order of taps, then channels, so that an image with channels
// last gives them in long runs. Plain values; any thread.
#pragma once

#include <cstdint>

#include "ops/kernel.h"
#include "ops/nn/convolution.h"

namespace troupe::ops {

/// The rows of windows: as many numbers as a window covers, perhaps a one (which multiplies or
/// gathers a bias), and padding to whole vectors.
class Patches {
 public:
  /// One group only.
  Patches(const Convolution& convolution, bool one);

  std::int64_t numbers() const { return numbers_; }  ///< without the one
  bool one() const { return one_; }
  std::int64_t row() const { return row_; }  ///< from one row to the next
  std::int64_t most_rows() const { return most_rows_; }
  std::int64_t image_elements() const;  ///< of memory that place() fills
  std::int64_t rows_elements() const;   ///< of memory that gather() fills

  /// Copies a dense image, with its padding, to channels last.
  void place(const float* image, float* to) const;
  /// Gathers windows [begin, begin + count), at most most_rows(), of what place() filled.
  void gather(const float* image, std::int64_t begin, std::int64_t count, float* to) const;
  /// Adds rows of those windows to the places that they would be gathered from.
  void scatter(float* rows, std::int64_t begin, std::int64_t count, float* image) const;
  /// What place() does, back to a dense image without padding.
  void take(const float* image, float* to) const;

 private:
  template <typename F>
  void for_lines(std::int64_t begin, std::int64_t count, float* rows, F&& f) const;

  Convolution v_;
  bool one_;
  std::int64_t numbers_, row_, most_rows_;
  std::int64_t height_, width_;  ///< with padding
};

/// output (N, F, ...) = data (N, C, ...) with weights (F, C, ...) and, unless null, a bias (F).
class PatchConvolution {
 public:
  PatchConvolution(const Convolution& convolution, bool biased, int team);
  std::size_t scratch_bytes() const;
  void run(const KernelContext& context, const float* data, const float* weight, const float* bias,
           float* output) const;

 private:
  void lay_out_weights(const KernelContext& context, const float* weight, const float* bias,
                       float* to) const;

  Convolution v_;
  Patches patches_;
  int team_;
  std::int64_t filters_;  ///< padded to whole vectors
};

/// The gradient of data from that of the output: each window's row of products is added to what the
/// window covers.
class PatchScatter {
 public:
  PatchScatter(const Convolution& convolution, int team);
  std::size_t scratch_bytes() const;
  void run(const KernelContext& context, const float* gradient, const float* weight,
           float* output) const;

 private:
  Convolution v_;
  Patches patches_;
  int team_;
};

/// Gradients of weights and, unless null, of the bias; `adds`: to what is there.
class PatchGradient {
 public:
  struct Outputs {
    float* weight = nullptr;
    float* bias = nullptr;
    bool adds_weight = false, adds_bias = false;
  };

  PatchGradient(const Convolution& convolution, bool biased, int team);
  std::size_t scratch_bytes() const;
  void run(const KernelContext& context, const float* gradient, const float* data,
           const Outputs& outputs) const;

 private:
  void sum_images(const float* gradient, const float* data, std::int64_t chunk, float* work,
                  float* sums) const;
  void finish(const KernelContext& context, const float* sums, const Outputs& outputs) const;

  Convolution v_;
  Patches patches_;
  int team_;
  std::int64_t chunks_;  ///< of images, whose sums are taken apart
};

}  // namespace troupe::ops
