// SPDX-License-Identifier: Apache-2.0
// Programs: memory for every value, tags for every step, and the running of one.
#include "symbol/program.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>
#include <limits>
#include <optional>
#include <utility>

#include "ndarray/run_kernel.h"

namespace troupe::symbol {

namespace {

template <typename T>
bool contains(const std::vector<T>& list, const T& item) {
  return std::find(list.begin(), list.end(), item) != list.end();
}

template <typename T>
void insert(std::vector<T>& list, const T& item) {
  if (!contains(list, item)) list.push_back(item);
}

/// "f32(32,1,28,28) f32(20,1,5,5)", with the layout where it is not dense.
std::string traced(const std::vector<base::TensorView>& views) {
  std::string text;
  for (const base::TensorView& view : views) {
    fmt::format_to(std::back_inserter(text), "{}{}({})", text.empty() ? "" : " ",
                   base::dtype_name(view.dtype), fmt::join(view.shape.dims(), ","));
    const base::Layout::Kind kind = view.layout.kind;
    if (kind == base::Layout::Kind::blocked) text += ":" + view.layout.to_string();
    if (kind == base::Layout::Kind::opaque) text += ":opaque";
  }
  return text;
}

}  // namespace

Program::Program(ndarray::Runtime& runtime, ProgramRequest request, const Arena& arena)
    : runtime_(runtime),
      prepared_(std::move(request.prepared)),
      externals_(std::move(request.externals)),
      random_step_(request.step),
      monitor_(std::move(request.monitor)),
      lane_{request.device, engine::LaneKind::compute},
      priority_(request.priority),
      memory_(arena.memory()),
      prologue_(runtime, request.device),
      turn_(runtime.engine.new_variable("prologue's turn")),
      kept_(prepared_.numbers.size()) {
  plan_prologue(request.prologue);
  plan(request);
  steps_.reserve(prepared_.graph.nodes.size());
  for (std::size_t node = 0; node < prepared_.graph.nodes.size(); ++node) {
    if (!prepared_.graph.nodes[node].is_variable()) add_step(node, request);
  }
  make_variables();
  forward_ = compile(false);
  backward_ = compile(true);
}

void Program::plan_prologue(const std::vector<bool>& nodes) {
  const Graph& graph = prepared_.graph;
  const ValueNumbers& numbers = prepared_.numbers;
  std::vector<bool> read(numbers.size(), false);  // by others
  for (std::size_t node = 0; node < nodes.size(); ++node) {
    for (const Value input : graph.nodes[node].inputs) {
      if (!nodes[node]) read[numbers[input]] = true;
    }
  }
  units_.assign(nodes.size(), -1);
  for (std::size_t node = 0; node < nodes.size(); ++node) {
    if (!nodes[node]) continue;
    units_[node] = unit_count_++;
    for (const Value input : graph.nodes[node].inputs) {
      const int before = units_[node_index(input)];
      if (before >= 0) std::replace(units_.begin(), units_.end(), before, units_[node]);
    }
    for (std::size_t v = numbers.begin(node); v < numbers.end(node); ++v) {
      if (!read[v]) continue;
      kept_[v] = {runtime_.engine.new_variable("prologue"), prologue_bytes_};
      const auto bytes = static_cast<std::size_t>(prepared_.layouts[v].buffer_bytes(
          prepared_.shapes[v], base::dtype_size(prepared_.dtypes[v])));
      prologue_bytes_ += piece_bytes(bytes);
    }
  }
}

void Program::plan(const ProgramRequest& of) {
  std::vector<bool> external;
  for (std::size_t v = 0; v < prepared_.numbers.size(); ++v) {
    external.push_back(externals_[v] || kept_[v].variable);
  }
  PlanRequest request = plan_request(prepared_, std::move(external));
  request.mode = of.memory;
  request.optional = of.prologue;
  plan_ = plan_memory(request);
}

/// Pieces that one pass alone uses are inner to it. What the prologue uses its own operations name,
/// and what both passes use carries an error from one to the other.
void Program::make_variables() {
  enum Use : unsigned { kForward = 1, kBackward = 2, kPrologue = 4 };
  std::vector<unsigned> uses(plan_.pieces.size(), 0);
  for (const Step& step : steps_) {
    const Use use = step.unit >= 0 ? kPrologue : step.backward ? kBackward : kForward;
    for (const Tags* tags : {&step.reads, &step.writes, &step.overwrites}) {
      for (const Tag& tag : *tags) {
        if (tag.piece >= 0) uses[static_cast<std::size_t>(tag.piece)] |= use;
      }
    }
  }
  std::vector<std::string> labels(plan_.pieces.size(), "scratch");
  for (std::size_t node = prepared_.graph.nodes.size(); node-- > 0;) {
    for (int output = 0; output < prepared_.graph.nodes[node].outputs; ++output) {
      const Value value{static_cast<std::int64_t>(node), output};
      const int piece = plan_.value_piece[prepared_.numbers[value]];
      if (piece < 0) continue;
      labels[static_cast<std::size_t>(piece)] = prepared_.graph.value_name(value);
    }
  }
  piece_variables_.resize(plan_.pieces.size());
  for (std::size_t piece = 0; piece < uses.size(); ++piece) {
    if (uses[piece] == kForward || uses[piece] == kBackward) continue;
    piece_variables_[piece] = runtime_.engine.new_variable(labels[piece]);
  }
}

Program::Source Program::source(std::size_t value) const {
  Source from;
  if (externals_[value]) {
    from.array = &externals_[value];
  } else if (kept_[value].variable) {
    from.kept = true;
    from.offset = kept_[value].offset;
  } else {
    const int piece = plan_.value_piece[value];
    TROUPE_CHECK(piece >= 0, "a value without memory");
    from.offset = plan_.pieces[static_cast<std::size_t>(piece)].offset + plan_.value_offset[value];
  }
  return from;
}

Program::Tag Program::tag(std::size_t value) const {
  if (externals_[value]) return {externals_[value].variable()};
  if (kept_[value].variable) return {kept_[value].variable};
  return {{}, plan_.value_piece[value]};
}

bool Program::is_part(std::size_t value) const {
  return externals_[value] && !externals_[value].whole();
}

void Program::add_view(std::size_t node, std::size_t value, Source from,
                       std::vector<base::TensorView>& views, std::vector<Source>& sources) const {
  base::TensorView view{nullptr, prepared_.dtypes[value], prepared_.shapes[value],
                        prepared_.layouts[value], lane_.device};
  const SubBatch& sub = prepared_.sub_batch;
  if (sub.active() && sub.nodes[node] && sub.sliced[value]) {
    from.sample_bytes = static_cast<std::size_t>(view.bytes() / sub.batch);
    view.shape = of_samples(view.shape, sub.samples);
    view.layout = of_samples(std::move(view.layout), sub.samples);
  }
  views.push_back(std::move(view));
  sources.push_back(from);
}

void Program::add_step(std::size_t index, const ProgramRequest& request) {
  const GraphNode& node = prepared_.graph.nodes[index];
  Step& step = steps_.emplace_back();
  step.name = node.name;
  step.op = node.op->name;
  step.kernel = prepared_.kernels[index];
  step.backward = node.backward;
  step.random = node.op->random;
  step.key = base::random_key(
      request.seed, fmt::format("{}/{}/{}", node.op->name, node.random_name(), request.rank));
  const SubBatch& sub = prepared_.sub_batch;
  step.unit = units_[index];
  step.in_parts = sub.active() && sub.nodes[index];
  for (std::size_t k = 0; k < node.inputs.size(); ++k) {
    const std::size_t value = prepared_.numbers[node.inputs[k]];
    Source from;
    if (node.reads(k)) {
      from = source(value);
      insert(step.reads, tag(value));
      const bool watched = step.unit >= 0 && units_[node_index(node.inputs[k])] < 0;
      if (watched) insert(step.watches, tag(value).variable);
    } else {
      from.unread = true;
    }
    add_view(index, value, from, step.inputs, step.input_sources);
  }
  constexpr std::uint64_t kNever = std::numeric_limits<std::uint64_t>::max();
  step.versions.assign(step.watches.size(), kNever);
  const ValueNumbers& numbers = prepared_.numbers;
  for (std::size_t value = numbers.begin(index); value < numbers.end(index); ++value) {
    add_view(index, value, source(value), step.outputs, step.output_sources);
    const Value output{static_cast<std::int64_t>(index), static_cast<int>(step.outputs.size()) - 1};
    if (monitor_) step.output_names.push_back(prepared_.graph.value_name(output));
    if (kept_[value].variable) step.keeps.push_back(kept_[value].variable);
    const bool content = contains(step.reads, tag(value));
    step.output_sources.back().content = content;
    if (content || is_part(value)) step.fresh = false;
  }
  add_tags(step, index);
}

void Program::add_tags(Step& step, std::size_t index) {
  const ValueNumbers& numbers = prepared_.numbers;
  for (std::size_t value = numbers.begin(index); value < numbers.end(index); ++value) {
    const bool gathered = step.in_parts && prepared_.sub_batch.sliced[value];
    const int piece = plan_.value_piece[value];
    // It adds a value to a piece that others began: their values stay, and so do their errors.
    const bool joins = piece >= 0 && !gathered && !contains(step.reads, tag(value)) &&
                       plan_.pieces[static_cast<std::size_t>(piece)].first != index;
    if (is_part(value) || joins) {
      insert(step.writes, tag(value));
      continue;
    }
    insert(step.overwrites, tag(value));
    if (piece >= 0) add_piece(step, index, piece);
    if (gathered) insert(step.gathered, tag(value));
  }
  if (const int scratch = plan_.scratch_piece[index]; scratch >= 0) {
    step.scratch_offset = plan_.pieces[static_cast<std::size_t>(scratch)].offset;
    step.scratch_bytes = step.kernel->scratch_bytes();
    add_piece(step, index, scratch);
  }
  if (prologue_bytes_ > 0) insert(step.reads, {prologue_.memory()->variable});
  if (step.random) insert(step.reads, {random_step_.variable()});
}

/// What a step does to the arena when it begins a piece, or writes to one that it reads: it
/// overwrites the piece, and, where it begins it, the dead values whose bytes it takes over. So it
/// waits for their users, neither inherits nor keeps their errors, and has no error that anybody
/// waits for: readers of the dead come before it.
void Program::add_piece(Step& step, std::size_t node, int piece) {
  const auto index = static_cast<std::size_t>(piece);
  insert(step.overwrites, {{}, piece});
  if (plan_.pieces[index].first != node) return;
  for (const std::size_t dead : plan_.after[index]) insert(step.dead, static_cast<int>(dead));
}

bool Program::is_stale(Step& step) {
  bool stale = std::any_of(step.keeps.begin(), step.keeps.end(),
                           [](const engine::Variable& kept) { return kept.has_error(); });
  for (std::size_t i = 0; i < step.versions.size(); ++i) {
    const std::uint64_t version = step.watches[i].version();
    stale = stale || version != step.versions[i];
    step.versions[i] = version;
  }
  return stale;
}

std::vector<bool> Program::stale_units() {
  std::vector<bool> stale(static_cast<std::size_t>(unit_count_), false);
  for (Step& step : steps_) {
    if (step.unit >= 0 && is_stale(step)) stale[static_cast<std::size_t>(step.unit)] = true;
  }
  return stale;
}

base::Status Program::push(bool backward) {
  TROUPE_TRY(prologue_.reserve(prologue_bytes_));
  const std::vector<bool> stale = stale_units();
  for (Step& step : steps_) {
    const bool due = step.unit >= 0 && stale[static_cast<std::size_t>(step.unit)];
    if (due && step.backward == backward) push_prologue_step(step);
  }
  engine::Program& pass = backward ? backward_ : forward_;
  if (pass) pass.replay(priority_);
  return {};
}

/// Steps of the prologue wait for the passes, which hold the arena, and run one after the other:
/// the plan may order two of them through steps of a pass that stand between.
void Program::push_prologue_step(Step& step) {
  const auto variables = [this](const Tags& tags) {
    std::vector<engine::Variable> list;
    for (const Tag& tag : tags) {
      const auto piece = static_cast<std::size_t>(tag.piece);
      insert(list, tag.piece < 0 ? tag.variable : piece_variables_[piece]);
    }
    return list;
  };
  std::vector<engine::Variable> reads = variables(step.reads);
  insert(reads, memory_->variable);
  const std::vector<engine::Variable> writes = variables(step.writes);
  std::vector<engine::Variable> overwrites = variables(step.overwrites);
  insert(overwrites, turn_);
  const engine::Operation operation{step.name, reads, writes, lane_, priority_, overwrites};
  ndarray::push_on_lane(runtime_.engine, operation, [this, &step](engine::RunContext& context) {
    return run(step, 0, context);
  });
}

/// Writes the steps of one pass down for the engine.
class Program::Recorder {
 public:
  Recorder(Program& program, bool backward)
      : program_(program),
        backward_(backward),
        recording_(backward ? "backward pass" : "forward pass", program.lane_,
                   ndarray::uses_stream(program.lane_.device)),
        pieces_(program.plan_.pieces.size()) {
    recording_.hold(program.memory_->variable);
  }

  engine::Program run() {
    std::vector<Step>& steps = program_.steps_;
    const auto recorded = [this](const Step& step) {
      return step.unit < 0 && step.backward == backward_;
    };
    for (std::size_t i = 0; i < steps.size(); ++i) {
      if (!recorded(steps[i])) continue;
      if (!steps[i].in_parts) {
        add(steps[i], 0);
        continue;
      }
      const std::size_t begin = i;
      while (i + 1 < steps.size() && steps[i + 1].in_parts) ++i;
      for (std::int64_t part = 0; part < program_.prepared_.sub_batch.parts(); ++part) {
        divide();
        for (std::size_t k = begin; k <= i; ++k) add(steps[k], part);
      }
    }
    if (recording_.operations().empty()) return {};
    return program_.runtime_.engine.compile(std::move(recording_));
  }

 private:
  /// The plan orders users of bytes along the steps, once. So no part begins before the one before
  /// it is done.
  void divide() {
    if (!parts_) parts_ = recording_.inner();
    const auto nothing = [](engine::RunContext&) { return base::Status(); };
    const auto nowhere = [](engine::RunContext&, std::vector<const void*>&) {
      return base::Status();
    };
    recording_.add(
        {.name = "next part", .overwrites = {*parts_}, .function = nothing, .addresses = nowhere});
  }

  void add(Step& step, std::int64_t part) {
    engine::InnerOperation operation{.name = step.name};
    for (const Tag& tag : step.reads) add_slot(operation.reads, tag);
    for (const Tag& tag : step.writes) add_slot(operation.writes, tag);
    for (const Tag& tag : step.overwrites) {
      const bool later = part > 0 && contains(step.gathered, tag);
      add_slot(later ? operation.writes : operation.overwrites, tag);
    }
    for (const int dead : step.dead) add_slot(operation.overwrites, {{}, dead});
    if (step.in_parts) operation.reads.push_back(*parts_);
    operation.function = [program = &program_, &step, part](engine::RunContext& context) {
      return program->run(step, part, context);
    };
    // The number of the step that random numbers are drawn for is read on the host, and so are
    // values that are looked at.
    if (recording_.on_stream() && !step.random && step.output_names.empty()) {
      operation.addresses = [program = &program_, &step, part](engine::RunContext& context,
                                                               std::vector<const void*>& used) {
        return program->add_addresses(step, part, context, used);
      };
    }
    recording_.add(std::move(operation));
  }

  void add_slot(std::vector<engine::Slot>& list, const Tag& tag) {
    if (tag.piece < 0) {
      list.push_back(recording_.port(tag.variable));
      return;
    }
    const auto piece = static_cast<std::size_t>(tag.piece);
    const engine::Variable& shared = program_.piece_variables_[piece];
    if (shared) {
      list.push_back(recording_.port(shared));
      return;
    }
    if (!pieces_[piece]) pieces_[piece] = recording_.inner();
    list.push_back(*pieces_[piece]);
  }

  Program& program_;
  const bool backward_;
  engine::Recording recording_;
  std::vector<std::optional<engine::Slot>> pieces_;
  std::optional<engine::Slot> parts_;  // read by steps of a part, written between two parts
};

engine::Program Program::compile(bool backward) {
  return Recorder(*this, backward).run();
}

std::byte* Program::address(const Source& source, std::int64_t first) const {
  const std::size_t inside = source.sample_bytes * static_cast<std::size_t>(first);
  if (source.array != nullptr) return source.array->data() + inside;
  const Arena::Memory& memory = source.kept ? *prologue_.memory() : *memory_;
  return memory.buffer.data() + source.offset + inside;
}

std::string_view Program::describe(Step& step) {
  if (step.detail.empty()) {
    step.detail =
        fmt::format(R"({{"op":"{}","kernel":"{}","inputs":"{}","outputs":"{}","pass":"{}"}})",
                    step.op, step.kernel->name(), traced(step.inputs), traced(step.outputs),
                    step.backward ? "backward" : "forward");
  }
  return step.detail;
}

base::Status Program::locate(Step& step, std::int64_t part, engine::RunContext& context) {
  const std::int64_t first = step.in_parts ? prepared_.sub_batch.first(part) : 0;
  for (std::size_t k = 0; k < step.outputs.size(); ++k) {
    const Source& to = step.output_sources[k];
    if (to.array != nullptr) {
      TROUPE_TRY(to.array->make_writable(to.content || part > 0, context.stream));
    }
    step.outputs[k].data = address(to, first);
  }
  for (std::size_t k = 0; k < step.inputs.size(); ++k) {
    const Source& from = step.input_sources[k];
    if (!from.unread) step.inputs[k].data = address(from, first);
  }
  return {};
}

base::Status Program::add_addresses(Step& step, std::int64_t part, engine::RunContext& context,
                                    std::vector<const void*>& addresses) {
  TROUPE_TRY(locate(step, part, context));
  for (const std::vector<base::TensorView>* views : {&step.outputs, &step.inputs}) {
    for (const base::TensorView& view : *views) addresses.push_back(view.data);
  }
  if (step.scratch_bytes > 0) addresses.push_back(memory_->buffer.data() + step.scratch_offset);
  return {};
}

base::Status Program::run(Step& step, std::int64_t part, engine::RunContext& context) {
  if (context.detail != nullptr) *context.detail = describe(step);
  TROUPE_TRY(locate(step, part, context));
  ndarray::KernelBuffers buffers{.inputs = step.inputs, .outputs = step.outputs};
  if (step.scratch_bytes > 0) {
    buffers.scratch = {memory_->buffer.data() + step.scratch_offset, step.scratch_bytes};
  }
  buffers.fresh = step.fresh;
  ndarray::RandomDraw draw;
  if (step.random) {
    draw = {step.key, *reinterpret_cast<const std::int64_t*>(random_step_.data())};
  }
  const base::Status status = ndarray::run_kernel(step.kernel, buffers, context, draw);
  if (!status.ok()) return status.with_context(step.name);
  for (std::size_t k = 0; k < step.output_names.size(); ++k) {
    monitor_(step.output_names[k], step.outputs[k]);
  }
  return {};
}

void Program::release(std::unique_ptr<Program> program) {
  ndarray::Runtime runtime = program->runtime_;
  const engine::Variable variable = program->memory_->variable;
  if (!variable.engine_stands()) return;
  const engine::Lane lane{{}, engine::LaneKind::priority};
  const engine::Operation operation{"release program", {}, {&variable, 1}, lane, 0};
  runtime.engine.push(operation, [held = std::move(program)](engine::RunContext&) mutable {
    held.reset();
    return base::Status();
  });
}

std::string Program::place(std::size_t value) const {
  if (externals_[value]) return "array";
  if (kept_[value].variable) return fmt::format("prologue+{}", kept_[value].offset);
  const int piece = plan_.value_piece[value];
  if (piece < 0) return "nowhere";
  return fmt::format("arena+{}", source(value).offset);
}

}  // namespace troupe::symbol
