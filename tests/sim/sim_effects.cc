// SPDX-License-Identifier: Apache-2.0
// What engines and disks do with effects: real arithmetic, some time later and in any order. Bytes
// are read when the work ends, the latest moment at which a state machine may rely on them.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "tests/sim/simulation.h"

namespace troupe::sim {
namespace {

template <typename T>
void add_all(const base::Buffer& left, const base::Buffer& right, const base::Buffer& sum) {
  const auto a = left.as<T>();
  const auto b = right.as<T>();
  const auto c = sum.as<T>();
  using Wide = std::conditional_t<sizeof(T) == sizeof(base::F16), float, T>;
  for (std::size_t i = 0; i < c.size(); ++i) {
    c[i] = T(static_cast<Wide>(a[i]) + static_cast<Wide>(b[i]));
  }
}

template <typename T>
void update_all(const SimJob& job, const actors::Update& effect, const schemas::KeyInfo& key,
                const store::SliceValues& next) {
  const store::SliceUpdate& update = effect.update;
  const auto weight = next.weight.as<T>();
  std::vector<T> gradient(weight.size());
  base::cast_values(key.gradient_wire, update.gradient.data(), key.dtype, gradient.data(),
                    static_cast<std::int64_t>(gradient.size()));
  for (std::size_t i = 0; i < gradient.size(); ++i) {
    T momentum = next.slots.empty() ? T{} : next.slots[0].as<T>()[i];
    const double divisor = key.kind == schemas::KeyKind::dense ? update.verdict.divisor : 1.0;
    job.update<T>(key, gradient[i], {update.count * divisor, update.share, update.step}, weight[i],
                  momentum);
    if (!next.slots.empty()) next.slots[0].as<T>()[i] = momentum;
  }
}

template <typename T>
void first_all(const SimJob& job, std::uint32_t key, std::uint64_t offset,
               const base::Buffer& weight) {
  const auto values = weight.as<T>();
  for (std::size_t i = 0; i < values.size(); ++i) {
    values[i] = job.initial<T>(key, offset + i);
  }
}

std::vector<std::byte> bytes_of(const base::Buffer& buffer) {
  const auto bytes = buffer.as<std::byte>();
  return {bytes.begin(), bytes.end()};
}

}  // namespace

void Simulation::perform(const schemas::ActorId&, actors::Send send) {
  post(std::move(send.envelope));
}

void Simulation::perform(const schemas::ActorId& from, const actors::StartTraining& start) {
  at(0, [this, from, generation = generation_, step = start.step] {
    if (alive(generation, from)) actors_[from].loop->start(step);
  });
}

void Simulation::perform(const schemas::ActorId& from, const actors::WeightsReady& ready) {
  checker_->weights(ready, from.index, job_.machine_of_rank);
  at(0, [this, from, generation = generation_, ready] {
    if (alive(generation, from)) actors_[from].loop->ready(ready);
  });
}

void Simulation::perform(const schemas::ActorId& from, const actors::GradientTaken& taken) {
  actors_[from].loop->taken(taken);
}

void Simulation::perform(const schemas::ActorId& from, const actors::Add& sum) {
  finish_later(from, sum.id, [this, sum] { return add(sum); });
}

void Simulation::perform(const schemas::ActorId& from, const actors::Copy& one) {
  finish_later(from, one.id, [this, one] { return copy(one); });
}

void Simulation::perform(const schemas::ActorId& from, const actors::Examine& sum) {
  finish_later(from, sum.id, [this, sum] { return examine(sum); });
}

void Simulation::perform(const schemas::ActorId& from, const actors::Update& next) {
  finish_later(from, next.id, [this, next] { return update(next); });
}

void Simulation::perform(const schemas::ActorId& from, const actors::InitSlice& first) {
  finish_later(from, first.id, [this, first] { return first_values(first); });
}

void Simulation::finish_later(const schemas::ActorId& from, actors::EffectId id,
                              std::function<actors::EffectResult()> compute) {
  at(random_.between(10, 3'000), [this, from, id, generation = generation_, compute] {
    if (!alive(generation, from)) return;
    event(from, actors::EffectDone{id, {}, compute()});
  });
}

base::Buffer Simulation::add(const actors::Add& effect) {
  checker_->read(effect.left);
  checker_->read(effect.right);
  const base::Buffer sum = memory_.allocate(effect.left.size());
  switch (effect.dtype) {
    case base::DType::f32:
      add_all<float>(effect.left, effect.right, sum);
      break;
    case base::DType::f16:
      add_all<base::F16>(effect.left, effect.right, sum);
      break;
    case base::DType::bf16:
      add_all<base::BF16>(effect.left, effect.right, sum);
      break;
    default:
      add_all<double>(effect.left, effect.right, sum);
  }
  std::vector<schemas::Contribution> parts = memory_.origin(effect.left).parts;
  const auto& more = memory_.origin(effect.right).parts;
  parts.insert(parts.end(), more.begin(), more.end());
  std::sort(parts.begin(), parts.end());
  memory_.origin(sum).parts = std::move(parts);
  return sum;
}

base::Buffer Simulation::copy(const actors::Copy& effect) {
  checker_->read(effect.from);
  const base::Buffer copied = memory_.allocate(effect.from.size());
  std::memcpy(copied.data(), effect.from.data(), effect.from.size());
  memory_.origin(copied).parts = memory_.origin(effect.from).parts;
  return copied;
}

/// Of a step that overflows one slice shows it, whichever shard has it.
store::Examined Simulation::examine(const actors::Examine& effect) {
  const store::SliceExamination& sum = effect.examination;
  checker_->read(sum.gradient);
  const std::uint64_t step = memory_.origin(sum.gradient).parts.at(0).step;
  const schemas::KeyInfo& key = job_.keys[effect.slice.key];
  const auto slices = plan_->layout.slices();
  store::Examined found;
  found.facts.squares = 1.0;
  const std::uint64_t shown = mix({job_.seed, step, 0x51}) % slices.size();
  if (job_.overflows(step) && slices[shown].id == effect.slice) found.facts.not_finite = 1;
  if (key.kind == schemas::KeyKind::loss_scale) {
    found.loss_scale = static_cast<double>(sum.values.weight.as<float>()[0]);
  }
  return found;
}

void Simulation::round(const schemas::KeyInfo& key, store::SliceValues& values) {
  if (key.weight_wire == key.dtype) return;
  const std::size_t elements = values.weight.size() / base::dtype_size(key.dtype);
  values.rounded = memory_.allocate(elements * base::dtype_size(key.weight_wire));
  base::cast_values(key.dtype, values.weight.data(), key.weight_wire, values.rounded.data(),
                    static_cast<std::int64_t>(elements));
}

store::SliceValues Simulation::update(const actors::Update& given) {
  actors::Update effect = given;
  if (bug_ == Bug::unscaled_rate) effect.update.share = 1.0;
  if (bug_ == Bug::late_at_full_rate) effect.update.delay = 0.0;
  ++outcome_.updates;
  const bool twice = bug_ == Bug::double_application && outcome_.updates % 7 == 0;
  const std::vector<std::uint64_t> applied = checker_->update(effect.slice, effect.update);
  const store::SliceValues& from = effect.update.from.values;
  store::SliceValues next;
  const auto renew = [&](const base::Buffer& old) {
    const base::Buffer fresh = memory_.allocate(old.size());
    std::memcpy(fresh.data(), old.data(), old.size());
    return fresh;
  };
  next.weight = bug_ == Bug::overwritten_version ? from.weight : renew(from.weight);
  for (const base::Buffer& slot : from.slots) next.slots.push_back(renew(slot));
  const schemas::KeyInfo& key = job_.keys[effect.slice.key];
  const bool scale = key.kind == schemas::KeyKind::loss_scale;
  if (scale) {
    const auto numbers = job_.loss_scale(effect.update.step + 1);
    std::copy(numbers.begin(), numbers.end(), next.weight.as<float>().begin());
  }
  for (int times = twice ? 2 : 1; times > 0 && !scale && !effect.update.verdict.skip; --times) {
    if (key.dtype == base::DType::f32) {
      update_all<float>(job_, effect, key, next);
    } else {
      update_all<double>(job_, effect, key, next);
    }
  }
  if (twice) checker_->update(effect.slice, effect.update);
  round(key, next);
  std::vector<base::Buffer> published = next.slots;
  if (next.rounded) published.push_back(next.rounded);
  if (bug_ != Bug::overwritten_version) published.push_back(next.weight);
  for (const base::Buffer& buffer : published) {
    memory_.origin(buffer).applied = applied;
    memory_.origin(buffer).checksum = Memory::checksum(buffer);
  }
  return next;
}

store::SliceState Simulation::first_values(const actors::InitSlice& effect) {
  const schemas::KeyInfo& key = job_.keys[effect.slice.key];
  const store::SliceInfo& info = plan_->layout.info(effect.slice);
  const std::size_t buffers = key.kind == schemas::KeyKind::dense ? 2 : 1;
  store::SliceState state;
  std::vector<base::Buffer> made;
  for (std::size_t i = 0; i < buffers; ++i) made.push_back(memory_.allocate(info.bytes));
  if (effect.step > 0) {
    const SavedSlice& saved = checkpoints_.at(effect.step).at(effect.slice);
    for (std::size_t i = 0; i < buffers; ++i) {
      std::memcpy(made[i].data(), saved.buffers[i].data(), info.bytes);
    }
    state.updates = saved.updates;
  } else if (key.dtype == base::DType::f32) {
    first_all<float>(job_, key.id, info.offset, made[0]);
  } else {
    first_all<double>(job_, key.id, info.offset, made[0]);
  }
  state.values.weight = made[0];
  state.values.slots.assign(made.begin() + 1, made.end());
  round(key, state.values);
  if (state.values.rounded) made.push_back(state.values.rounded);
  for (const base::Buffer& buffer : made) {
    memory_.origin(buffer).applied.assign(job_.ranks(), effect.step);
    memory_.origin(buffer).checksum = Memory::checksum(buffer);
  }
  return state;
}

void Simulation::perform(const schemas::ActorId& from, const actors::WriteShard& effect) {
  at(random_.between(1'000, 60'000), [this, from, effect, generation = generation_] {
    if (!alive(generation, from)) return;
    schemas::ShardCheckpoint file;
    file.file = fmt::format("shard-{}", from.index);
    // Without its last checkpoint a job fails, and this world's jobs are to succeed.
    const bool last = effect.step == job_.total_steps();
    if (!last && disk_faults_ < 2 && random_.chance(job_.faults.disk_percent)) {
      ++disk_faults_;
      const base::Status full(base::Errc::resource_exhausted, "no space left on device");
      return event(from, actors::EffectDone{effect.id, full, {}});
    }
    checker_->cut(effect.step, effect.slices);
    Checkpoint saved;
    for (const actors::CutSlice& cut : effect.slices) {
      SavedSlice& slice = saved[cut.slice];
      slice.buffers.push_back(bytes_of(cut.state.values.weight));
      for (const base::Buffer& slot : cut.state.values.slots)
        slice.buffers.push_back(bytes_of(slot));
      slice.updates = cut.state.updates;
    }
    if (bug_ == Bug::forgotten_slice) saved.erase(saved.begin());
    shard_files_[effect.step][from.index] = std::move(saved);
    event(from, actors::EffectDone{effect.id, {}, file});
  });
}

/// Of a checkpoint that was given up; one that exists is never removed by this.
void Simulation::perform(const schemas::ActorId&, const actors::RemoveCheckpoint& effect) {
  TROUPE_CHECK(!checkpoints_.contains(effect.step), "a complete checkpoint is given up");
  shard_files_.erase(effect.step);
}

void Simulation::perform(const schemas::ActorId& from, const actors::WriteManifest& effect) {
  at(random_.between(500, 20'000), [this, from, effect, generation = generation_] {
    if (!alive(generation, from)) return;
    Checkpoint whole;
    std::vector<schemas::SliceId> slices;
    for (const schemas::ShardCheckpoint& file : effect.shards) {
      for (const auto& [slice, saved] : shard_files_[effect.step][file.shard]) {
        slices.push_back(slice);
        whole[slice] = saved;
      }
    }
    checker_->manifest(effect.step, slices);
    checkpoints_[effect.step] = std::move(whole);
    ++outcome_.checkpoints;
    const std::string path = fmt::format("step-{}-g{}", effect.step, generation);
    event(from, actors::EffectDone{effect.id, {}, path});
  });
}

}  // namespace troupe::sim
