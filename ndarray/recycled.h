// SPDX-License-Identifier: Apache-2.0
// Recycled<T>: objects that one thread fills and another empties, again and again. They go back
// with the memory that they own: a heap that one thread takes from and another gives to makes both
// wait for its lock. Any thread.
// See docs/decisions/0025-imperative-calls.md.
// Private to this folder.
#pragma once

#include <atomic>
#include <cstddef>
#include <memory>
#include <utility>

namespace troupe::ndarray {

/// T has a member `T* next`, for this alone, and `bool clear()`, after which it owns nothing but
/// memory; false: too much of it to keep.
template <typename T>
class Recycled {
 public:
  struct GiveBack {
    void operator()(T* object) const { give(object); }
  };
  using Handle = std::unique_ptr<T, GiveBack>;

  /// One that was cleared, or a new one.
  static Handle take() {
    Own& own = mine();
    if (own.list == nullptr) own.list = shared().list.exchange(nullptr, std::memory_order_acquire);
    if (own.list == nullptr) return Handle(new T());
    T* const object = std::exchange(own.list, own.list->next);
    shared().count.fetch_sub(1, std::memory_order_relaxed);
    return Handle(object);
  }

 private:
  static constexpr std::ptrdiff_t kMost = 1024;  // that wait to be taken

  struct Shared {
    std::atomic<T*> list{nullptr};
    std::atomic<std::ptrdiff_t> count{0};
  };
  /// What a thread has taken from the others at once.
  struct Own {
    T* list = nullptr;
    Own() = default;
    Own(const Own&) = delete;
    Own& operator=(const Own&) = delete;
    ~Own() {
      while (list != nullptr) {
        shared().count.fetch_sub(1, std::memory_order_relaxed);
        delete std::exchange(list, list->next);
      }
    }
  };

  static void give(T* object) {
    if (!object->clear()) {
      delete object;
      return;
    }
    if (shared().count.fetch_add(1, std::memory_order_relaxed) >= kMost) {
      shared().count.fetch_sub(1, std::memory_order_relaxed);
      delete object;
      return;
    }
    T* head = shared().list.load(std::memory_order_relaxed);
    do {
      object->next = head;
    } while (!shared().list.compare_exchange_weak(head, object, std::memory_order_release,
                                                  std::memory_order_relaxed));
  }

  /// Never destroyed: threads may end behind it.
  static Shared& shared() {
    static Shared* const shared = new Shared();
    return *shared;
  }
  static Own& mine() {
    static thread_local Own own;
    return own;
  }
};

}  // namespace troupe::ndarray
