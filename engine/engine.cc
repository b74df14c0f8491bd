// SPDX-License-Identifier: Apache-2.0
// The Engine that programs own: a handle on a core, and its end.
#include "engine/engine.h"

#include <utility>

#include "engine/core.h"
#include "engine/program.h"

namespace troupe::engine {

namespace {

class CoreEngine final : public Engine {
 public:
  explicit CoreEngine(std::shared_ptr<Core> core) : core_(std::move(core)) {}
  ~CoreEngine() override { core_->shut_down(); }

  Variable new_variable(std::string_view label) override { return core_->new_variable(label); }
  bool owns(const Variable& variable) const override { return core_->owns(variable); }
  void push(const Operation& operation, SyncFunction function) override {
    core_->push(operation, OperationKind::sync, std::move(function));
  }
  void push_async(const Operation& operation, AsyncFunction function) override {
    core_->push_async(operation, std::move(function));
  }
  void push_stream(const Operation& operation, StreamFunction function) override {
    core_->push(operation, OperationKind::stream, std::move(function));
  }
  Program compile(Recording recording) override { return core_->compile(std::move(recording)); }
  base::Status wait(const Variable& variable) override { return core_->wait(variable); }
  base::Status wait_all() override { return core_->wait_all(); }
  void cancel(std::string_view reason) override { core_->cancel(reason); }
  std::string dump() const override { return core_->dump(); }
  EngineCounters counters() const override { return core_->counters(); }
  int team(const Lane& lane) const override { return core_->team(lane); }

 private:
  std::shared_ptr<Core> core_;
};

}  // namespace

std::unique_ptr<Engine> make_threaded_engine(const EngineOptions& options, base::Clock& clock) {
  return std::make_unique<CoreEngine>(make_threaded_core(options, clock));
}

std::unique_ptr<Engine> make_serial_engine(const EngineOptions& options, base::Clock& clock) {
  return std::make_unique<CoreEngine>(make_serial_core(options, clock));
}

}  // namespace troupe::engine
