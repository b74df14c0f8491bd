// SPDX-License-Identifier: Apache-2.0
// Program: a prepared graph with its memory, compiled to an engine's program for each pass, for the
// executor. Its steps read and write their views while they run; a program is destroyed by an
// operation behind all of them.
// Private to this folder.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/program.h"
#include "ndarray/ndarray.h"
#include "symbol/arena.h"
#include "symbol/layouts.h"
#include "symbol/monitor.h"
#include "symbol/plan_memory.h"

namespace troupe::symbol {

/// What a program is made from.
struct ProgramRequest {
  PreparedGraph prepared;
  /// Per value: the array that is its memory (variables and heads), or an empty handle.
  std::vector<ndarray::NDArray> externals;
  /// Per node: it runs only when what it reads has changed, and what others read of it is kept
  /// (prologue.h).
  std::vector<bool> prologue;
  ndarray::NDArray step;  ///< 0-d i64, read by random nodes
  base::Device device;
  std::uint64_t seed = 0;
  std::int64_t rank = 0;
  int priority = 0;
  MemoryMode memory = MemoryMode::both;
  Monitor monitor = nullptr;
};

/// Steps in order, ready to be run any number of times.
class Program {
 public:
  /// Plans the memory; the caller reserves plan().arena_bytes before the first push.
  Program(ndarray::Runtime& runtime, ProgramRequest request, const Arena& arena);
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;
  /// Destroys the program behind its last operation, at once when its engine has ended.
  static void release(std::unique_ptr<Program> program);

  /// Pushes what is out of date of the prologue, and behind it the forward nodes, or those of the
  /// backward pass, in order. The first call takes the prologue's memory; resource_exhausted
  /// without it.
  base::Status push(bool backward);

  const PreparedGraph& prepared() const { return prepared_; }
  const MemoryPlan& plan() const { return plan_; }
  /// Of what the prologue keeps, outside the arena. What it alone reads lies inside.
  std::size_t prologue_bytes() const { return prologue_bytes_; }
  /// Where the memory of value `value` is: "arena+4096", "prologue+64", "array", "nowhere".
  std::string place(std::size_t value) const;

 private:
  class Recorder;

  /// Where a view's address comes from.
  struct Source {
    const ndarray::NDArray* array = nullptr;
    std::size_t offset = 0;        // in the arena or the prologue's memory, when there is no array
    std::size_t sample_bytes = 0;  // of all samples it holds, a part has its own; 0: nothing else
    bool kept = false;             // in the latter
    bool unread = false;           // an input of which only the shape matters
    bool content = false;          // an output that is also an input: its old values matter
  };
  /// What orders steps: a variable, or a piece of the plan.
  struct Tag {
    engine::Variable variable;
    int piece = -1;
    friend bool operator==(const Tag&, const Tag&) = default;
  };
  using Tags = std::vector<Tag>;
  struct Step {
    std::string name, op;
    std::string detail;  // for traces; made when the first one asks
    std::shared_ptr<const ops::Kernel> kernel;
    std::vector<base::TensorView> inputs, outputs;
    std::vector<std::string> output_names;  // for the monitor
    std::vector<Source> input_sources, output_sources;
    std::size_t scratch_offset = 0, scratch_bytes = 0;
    Tags reads, writes, overwrites;
    std::vector<int> dead;  // earlier pieces of the pass whose bytes it takes over
    bool in_parts = false;  // runs once for each part of the batch
    /// What is overwritten in parts: those behind the first keep what that one wrote.
    Tags gathered;
    bool fresh = true;  // nothing of what the outputs hold matters
    base::RandomKey key;
    bool random = false;
    bool backward = false;
    int unit = -1;  // of the prologue; -1: none
    /// Of the prologue: what it keeps, what it reads from outside it, and the versions of the
    /// latter at the last push.
    std::vector<engine::Variable> keeps, watches;
    std::vector<std::uint64_t> versions;
  };
  /// A value of the prologue; no variable: it is none.
  struct Kept {
    engine::Variable variable;
    std::size_t offset = 0;
  };

  void plan(const ProgramRequest& request);
  void make_variables();
  engine::Program compile(bool backward);
  void plan_prologue(const std::vector<bool>& nodes);
  void add_step(std::size_t node, const ProgramRequest& request);
  void add_tags(Step& step, std::size_t node);
  void add_piece(Step& step, std::size_t node, int piece);
  Source source(std::size_t value) const;
  /// A value as a node reads or writes it: whole, or a part's samples of it.
  void add_view(std::size_t node, std::size_t value, Source from,
                std::vector<base::TensorView>& views, std::vector<Source>& sources) const;
  Tag tag(std::size_t value) const;
  /// The value is less than all that its variable stands for.
  bool is_part(std::size_t value) const;
  /// Whether a step of the prologue must run: an input has been written since this was asked
  /// before, or the last run failed.
  static bool is_stale(Step& step);
  /// Per unit of the prologue: one of its steps must run.
  std::vector<bool> stale_units();
  void push_prologue_step(Step& step);
  /// The address that a source stands for, of the part that begins at sample `first`.
  std::byte* address(const Source& source, std::int64_t first) const;
  /// What a trace shows of a step: operator, kernel, shapes. Only its own operation may ask.
  static std::string_view describe(Step& step);
  /// Sets the addresses of the step's views; arrays that it writes are made writable.
  base::Status locate(Step& step, std::int64_t part, engine::RunContext& context);
  /// As locate(); appends all that run() would use.
  base::Status add_addresses(Step& step, std::int64_t part, engine::RunContext& context,
                             std::vector<const void*>& addresses);
  base::Status run(Step& step, std::int64_t part, engine::RunContext& context);

  ndarray::Runtime runtime_;
  PreparedGraph prepared_;
  std::vector<ndarray::NDArray> externals_;
  ndarray::NDArray random_step_;
  Monitor monitor_;
  engine::Lane lane_;
  int priority_;
  std::shared_ptr<Arena::Memory> memory_;
  Arena prologue_;
  engine::Variable turn_;  // written by all steps of the prologue
  std::size_t prologue_bytes_ = 0;
  std::vector<Kept> kept_;  // per value
  /// Per node: which steps of the prologue run together, because one reads what another gives,
  /// which is kept only where others read it too. -1: not of the prologue.
  std::vector<int> units_;
  int unit_count_ = 0;
  MemoryPlan plan_;
  /// Of pieces that a step of the prologue uses, or steps of both passes.
  std::vector<engine::Variable> piece_variables_;
  std::vector<Step> steps_;
  engine::Program forward_, backward_;
};

}  // namespace troupe::symbol
