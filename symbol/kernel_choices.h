// SPDX-License-Identifier: Apache-2.0
// Kernels that were chosen beforehand, by `troupe model autotune` or by hand: a file's content as
// data. A binding takes them in place of the rule's choice. Plain values, any thread.
#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <string_view>

#include "base/status.h"
#include "ops/kernel.h"

namespace troupe::symbol {

/// Bytes of a file of choices, at most.
inline constexpr std::size_t kKernelChoicesBytesMax = 1u << 20;

/// What takes a call.
struct KernelChoice {
  std::string kernel;                     ///< KernelDef::name
  std::map<std::string, double> seconds;  ///< per kernel that was measured: for tuning on
  friend bool operator==(const KernelChoice&, const KernelChoice&) = default;
};

/// Choices per call signature. Calls that are not among them are left to the rule, and a choice
/// for a call that a network does not have says nothing: one file serves several batch sizes.
struct KernelChoices {
  std::string name;     ///< what errors call the file
  std::string machine;  ///< numeric class that the seconds were measured in; for people
  std::map<std::string, KernelChoice> calls;

  /// Null: the call is left to the rule.
  const KernelChoice* find(const std::string& call) const;
  /// What of it decides about bits: a line per call, with its kernel.
  std::string decisions() const;
  /// Readable JSON, with its version.
  std::string to_json() const;
  /// Inverse of to_json(). Errors begin with `name` and say which choice is wrong.
  static base::Result<KernelChoices> from_json(std::string_view text, const std::string& name);
  static base::Result<KernelChoices> load(const std::string& path);
};

/// "train activation(act_type=relu) f32 (2, 16, 8, 8) aBcd16b -> f32 (2, 16, 8, 8)": a call in a
/// graph for training or for prediction, and the layouts that its inputs have if they are not
/// dense; a kernel may ask for others. Parameters at their defaults are left out, so that new ones
/// change no signature; team and switches are no part of it.
std::string call_signature(const ops::OpCall& call, bool train);

/// For people: that nothing of a file was of use in some steps, and what may be the reason.
std::string unused_choices_text(const std::string& file);

}  // namespace troupe::symbol
