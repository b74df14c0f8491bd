// SPDX-License-Identifier: Apache-2.0
// EffectList: where the parts of a role's state machine leave effects, in the order in which they
// are to be performed. One owner, one thread at a time.
#pragma once

#include <concepts>
#include <utility>
#include <vector>

#include "actors/effects.h"

namespace troupe::actors {

/// The effects that Mail leaves, whatever the role.
class MailEffects {
 public:
  virtual void emit(Send send) = 0;
  virtual void emit(Fail fail) = 0;
  virtual void emit(End end) = 0;

 protected:
  ~MailEffects() = default;
};

/// `Effect`: the role's own list; what is not in it does not compile.
template <typename Effect>
class EffectList final : public MailEffects {
 public:
  void emit(Send send) override { effects_.emplace_back(std::move(send)); }
  void emit(Fail fail) override { effects_.emplace_back(std::move(fail)); }
  void emit(End end) override { effects_.emplace_back(std::move(end)); }
  template <typename Own>
  requires std::constructible_from<Effect, Own>
  void emit(Own own) { effects_.emplace_back(std::move(own)); }
  /// A name for an effect whose end is to be told; never given twice.
  EffectId next_id() { return next_id_++; }
  /// The effects since the last call.
  std::vector<Effect> take() { return std::exchange(effects_, {}); }

 private:
  std::vector<Effect> effects_;
  EffectId next_id_ = 1;
};

}  // namespace troupe::actors
