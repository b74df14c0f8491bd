// SPDX-License-Identifier: Apache-2.0
// The dynamic loss scale of training in f16: what every gradient is multiplied with while it is
// computed, so that small ones do not vanish. It is halved where a step overflows, which then does
// not count, and doubled after some steps that did not (Micikevicius et al., "Mixed Precision
// Training", ICLR 2018, section 3.2). A power of 2, so no bit of a gradient depends on it but at
// the ends of f16's range. Pure functions, any thread.
#pragma once

#include <cstdint>
#include <string_view>

#include "base/buffer.h"
#include "base/status.h"
#include "schemas/job_spec.h"
#include "schemas/messages.h"

namespace troupe::store {

/// The name of its key (KeyKind::loss_scale), which no parameter may have.
inline constexpr std::string_view kLossScaleName = "loss_scale";
inline constexpr double kLossScaleMost = 16'777'216.0;           ///< it does not grow further
inline constexpr std::uint64_t kLossScaleStepsMax = 16'777'216;  ///< counted exactly in f32

/// How it moves.
struct LossScaleRule {
  double first = 1'024.0;              ///< a power of 2 from 1 to kLossScaleMost
  std::uint64_t double_after = 2'000;  ///< steps without an overflow; 0: never
  friend bool operator==(const LossScaleRule&, const LossScaleRule&) = default;
};

/// What it is at a step.
struct LossScale {
  double scale = 1.0;
  std::uint64_t steps = 0;  ///< since it changed last, without an overflow
  friend bool operator==(const LossScale&, const LossScale&) = default;
};

/// invalid_argument naming the number that is out of range.
base::Status check_loss_scale(const LossScaleRule& rule);
/// At the next step, where this one overflowed or did not.
LossScale next_loss_scale(const LossScale& now, bool overflowed, const LossScaleRule& rule);

/// The key, of id `id`: two values in f32.
schemas::KeyInfo loss_scale_key(std::uint32_t id);
/// data_loss when these are no values that the key can have: those of a file.
base::Status check_loss_scale_values(const base::Buffer& values);
/// From and to the values of that key; what is read has been checked or written here.
LossScale read_loss_scale(const base::Buffer& values);
void write_loss_scale(const LossScale& scale, const base::Buffer& values);

}  // namespace troupe::store
