// SPDX-License-Identifier: Apache-2.0
// Function: a move-only callable with room for small captures, so that pushing an operation does
// not allocate for its closure. Owned by one thread at a time.
#pragma once

#include <cstddef>
#include <cstring>
#include <memory>
#include <new>
#include <type_traits>
#include <utility>

namespace troupe::engine {

template <typename Signature>
class Function;

/// Like std::move_only_function (C++23), with kInlineBytes of inline storage.
template <typename R, typename... Args>
class Function<R(Args...)> {
 public:
  static constexpr std::size_t kInlineBytes = 64;

  Function() = default;
  template <typename F, typename = std::enable_if_t<!std::is_same_v<std::decay_t<F>, Function>>>
  Function(F&& f) {  // NOLINT: implicit by design
    using Callable = std::decay_t<F>;
    if constexpr (sizeof(Callable) <= kInlineBytes &&
                  alignof(Callable) <= alignof(std::max_align_t) &&
                  std::is_nothrow_move_constructible_v<Callable>) {
      ::new (storage_) Callable(std::forward<F>(f));
      operations_ = &inline_operations<Callable>;
    } else {
      ::new (storage_) Callable*(new Callable(std::forward<F>(f)));
      operations_ = &heap_operations<Callable>;
    }
  }
  Function(Function&& other) noexcept { take(other); }
  Function& operator=(Function&& other) noexcept {
    if (this != &other) {
      reset();
      take(other);
    }
    return *this;
  }
  ~Function() { reset(); }

  R operator()(Args... args) { return operations_->call(storage_, std::forward<Args>(args)...); }
  explicit operator bool() const { return operations_ != nullptr; }
  void reset() {
    const Operations* const before = std::exchange(operations_, nullptr);
    if (before != nullptr && before->destroy != nullptr) before->destroy(storage_);
  }

 private:
  struct Operations {
    R (*call)(void*, Args&&...);
    void (*move)(void* from, void* to);  // null: the first kPlainBytes are all there is to move
    void (*destroy)(void*);              // null: there is nothing to do
  };

  /// What most functions of short operations capture at most: a pointer or two.
  static constexpr std::size_t kPlainBytes = 16;
  template <typename F>
  static constexpr bool is_plain = sizeof(F) <= kPlainBytes&& std::is_trivially_copyable_v<F>;

  template <typename F>
  static constexpr Operations inline_operations = {
      [](void* s, Args&&... args) -> R {
        return (*static_cast<F*>(s))(std::forward<Args>(args)...);
      },
      is_plain<F> ? nullptr
                  : +[](void* from, void* to) {
                      ::new (to) F(std::move(*static_cast<F*>(from)));
                      static_cast<F*>(from)->~F();
                    },
      std::is_trivially_destructible_v<F> ? nullptr : +[](void* s) { static_cast<F*>(s)->~F(); }};
  template <typename F>
  static constexpr Operations heap_operations = {
      [](void* s, Args&&... args) -> R {
        return (**static_cast<F**>(s))(std::forward<Args>(args)...);
      },
      [](void* from, void* to) { ::new (to) F*(*static_cast<F**>(from)); },
      [](void* s) { delete *static_cast<F**>(s); }};

  void take(Function& other) {
    operations_ = std::exchange(other.operations_, nullptr);
    if (operations_ == nullptr) return;
    if (operations_->move == nullptr) {
      std::memcpy(storage_, other.storage_, kPlainBytes);
    } else {
      operations_->move(other.storage_, storage_);
    }
  }

  const Operations* operations_ = nullptr;  // first: most captures then lie in its cache line
  alignas(std::max_align_t) std::byte storage_[kInlineBytes];
};

}  // namespace troupe::engine
