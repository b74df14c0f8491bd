// SPDX-License-Identifier: Apache-2.0
// FunctionRef: a callable passed down the stack without owning or allocating. It must not outlive
// the callable; take it by value as a parameter, never keep it.
#pragma once

#include <memory>
#include <type_traits>
#include <utility>

namespace troupe::base {

template <typename Signature>
class FunctionRef;

/// Two words: the callable's address and how to call it.
template <typename R, typename... Args>
class FunctionRef<R(Args...)> {
 public:
  template <typename F,
            typename = std::enable_if_t<!std::is_same_v<std::remove_cvref_t<F>, FunctionRef>>>
  FunctionRef(F&& f)  // NOLINT: implicit by design
      : callable_(const_cast<void*>(static_cast<const void*>(std::addressof(f)))),
        call_([](void* callable, Args... args) -> R {
          return (*static_cast<std::remove_reference_t<F>*>(callable))(std::forward<Args>(args)...);
        }) {}

  R operator()(Args... args) const { return call_(callable_, std::forward<Args>(args)...); }

 private:
  void* callable_;
  R (*call_)(void*, Args...);
};

}  // namespace troupe::base
