// SPDX-License-Identifier: Apache-2.0
// Programs: memory for every value, tags for every operation, and the running of one step.
#include "symbol/program.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>
#include <limits>
#include <utility>

#include "ndarray/run_kernel.h"

namespace troupe::symbol {

namespace {

bool contains(const std::vector<engine::Variable>& list, const engine::Variable& variable) {
  return std::find(list.begin(), list.end(), variable) != list.end();
}

void insert(std::vector<engine::Variable>& list, const engine::Variable& variable) {
  if (!contains(list, variable)) list.push_back(variable);
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
      lane_{request.device, engine::LaneKind::compute},
      priority_(request.priority),
      memory_(arena.memory()),
      prologue_(runtime, request.device),
      kept_(prepared_.numbers.size()) {
  plan_prologue(request.prologue);
  plan(request);
  make_variables();
  steps_.reserve(prepared_.graph.nodes.size());
  for (std::size_t node = 0; node < prepared_.graph.nodes.size(); ++node) {
    if (!prepared_.graph.nodes[node].is_variable()) add_step(node, request);
  }
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

/// One for every value's piece; for scratch only where an operation has to wait for its user.
void Program::make_variables() {
  const auto make = [this](int piece, const std::string& label) {
    engine::Variable& variable = piece_variables_[static_cast<std::size_t>(piece)];
    if (!variable) variable = runtime_.engine.new_variable(label);
  };
  const Graph& graph = prepared_.graph;
  piece_variables_.resize(plan_.pieces.size());
  std::vector<bool> awaited(plan_.pieces.size(), false);
  for (const std::vector<std::size_t>& before : plan_.after) {
    for (const std::size_t piece : before) awaited[piece] = true;
  }
  for (std::size_t node = 0; node < graph.nodes.size(); ++node) {
    for (int output = 0; output < graph.nodes[node].outputs; ++output) {
      const Value value{static_cast<std::int64_t>(node), output};
      const int piece = plan_.value_piece[prepared_.numbers[value]];
      if (piece >= 0) make(piece, graph.value_name(value));
    }
    const int scratch = plan_.scratch_piece[node];
    if (scratch >= 0 && awaited[static_cast<std::size_t>(scratch)]) {
      make(scratch, "scratch of " + graph.nodes[node].name);
    }
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
    from.offset = plan_.pieces[static_cast<std::size_t>(piece)].offset;
  }
  return from;
}

const engine::Variable& Program::variable(std::size_t value) const {
  if (externals_[value]) return externals_[value].variable();
  if (kept_[value].variable) return kept_[value].variable;
  return piece_variables_[static_cast<std::size_t>(plan_.value_piece[value])];
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
  step.in_parts = sub.active() && sub.nodes[index];
  for (std::size_t k = 0; k < node.inputs.size(); ++k) {
    const std::size_t value = prepared_.numbers[node.inputs[k]];
    Source from;
    if (node.reads(k)) {
      from = source(value);
      insert(step.reads, variable(value));
      if (units_[node_index(node.inputs[k])] < 0) insert(step.watches, variable(value));
    } else {
      from.unread = true;
    }
    add_view(index, value, from, step.inputs, step.input_sources);
  }
  constexpr std::uint64_t kNever = std::numeric_limits<std::uint64_t>::max();
  step.unit = units_[index];
  step.versions.assign(step.watches.size(), kNever);
  const ValueNumbers& numbers = prepared_.numbers;
  for (std::size_t value = numbers.begin(index); value < numbers.end(index); ++value) {
    add_view(index, value, source(value), step.outputs, step.output_sources);
    if (kept_[value].variable) step.keeps.push_back(kept_[value].variable);
    const bool content = contains(step.reads, variable(value));
    step.output_sources.back().content = content;
    if (content || is_part(value)) step.fresh = false;
  }
  add_variables(step, index);
}

void Program::add_variables(Step& step, std::size_t index) {
  const ValueNumbers& numbers = prepared_.numbers;
  for (std::size_t value = numbers.begin(index); value < numbers.end(index); ++value) {
    insert(is_part(value) ? step.writes : step.overwrites, variable(value));
    if (plan_.value_piece[value] >= 0) add_piece(step, index, plan_.value_piece[value]);
    if (step.in_parts && prepared_.sub_batch.sliced[value]) {
      insert(step.later_writes, variable(value));
    }
  }
  if (const int scratch = plan_.scratch_piece[index]; scratch >= 0) {
    step.scratch_offset = plan_.pieces[static_cast<std::size_t>(scratch)].offset;
    step.scratch_bytes = step.kernel->scratch_bytes();
    add_piece(step, index, scratch);
  }
  insert(step.reads, memory_->variable);
  if (prologue_bytes_ > 0) insert(step.reads, prologue_.memory()->variable);
  if (step.random) insert(step.reads, random_step_.variable());
  for (const engine::Variable& whole : step.overwrites) {
    if (!contains(step.later_writes, whole)) step.later_overwrites.push_back(whole);
  }
}

/// What a step does to the arena when it begins a piece: it overwrites the piece, and the dead
/// values whose bytes it takes over. So it waits for their users, neither inherits nor keeps their
/// errors, and has no error that anybody waits for: readers of the dead were pushed before it.
void Program::add_piece(Step& step, std::size_t node, int piece) {
  const auto index = static_cast<std::size_t>(piece);
  if (piece_variables_[index]) insert(step.overwrites, piece_variables_[index]);
  if (plan_.pieces[index].first != node) return;
  for (const std::size_t dead : plan_.after[index]) insert(step.overwrites, piece_variables_[dead]);
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
  for (std::size_t i = 0; i < steps_.size(); ++i) {
    Step& step = steps_[i];
    if (step.backward != backward) continue;
    if (step.unit >= 0 && !stale[static_cast<std::size_t>(step.unit)]) continue;
    if (step.in_parts) {
      const std::size_t begin = i;
      while (i + 1 < steps_.size() && steps_[i + 1].in_parts) ++i;
      push_parts(begin, i + 1);
    } else {
      push_step(step, 0);
    }
  }
  return {};
}

/// The plan orders users of the arena along the steps, once. So no part begins before all that was
/// pushed earlier is done.
void Program::push_parts(std::size_t begin, std::size_t end) {
  for (std::int64_t part = 0; part < prepared_.sub_batch.parts(); ++part) {
    Arena::divide(runtime_, *memory_, lane_.device, priority_);
    for (std::size_t i = begin; i < end; ++i) push_step(steps_[i], part);
  }
}

void Program::push_step(Step& step, std::int64_t part) {
  const bool first = part == 0;
  const engine::Operation operation{
      step.name, step.reads, first ? step.writes : step.later_writes,
      lane_,     priority_,  first ? step.overwrites : step.later_overwrites};
  const auto work = [this, &step, part](engine::RunContext& context) {
    return run(step, part, context);
  };
  if (ndarray::uses_stream(lane_.device)) {
    runtime_.engine.push_stream(operation, work);
  } else {
    runtime_.engine.push(operation, work);
  }
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

base::Status Program::run(Step& step, std::int64_t part, engine::RunContext& context) {
  const std::int64_t first = step.in_parts ? prepared_.sub_batch.first(part) : 0;
  if (context.detail != nullptr) *context.detail = describe(step);
  for (std::size_t k = 0; k < step.outputs.size(); ++k) {
    const Source& to = step.output_sources[k];
    if (to.array != nullptr) TROUPE_TRY(to.array->make_writable(to.content || part > 0));
    step.outputs[k].data = address(to, first);
  }
  for (std::size_t k = 0; k < step.inputs.size(); ++k) {
    const Source& from = step.input_sources[k];
    if (!from.unread) step.inputs[k].data = address(from, first);
  }
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
  return status.ok() ? status : status.with_context(step.name);
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
  return fmt::format("arena+{}", plan_.pieces[static_cast<std::size_t>(piece)].offset);
}

}  // namespace troupe::symbol
