// SPDX-License-Identifier: Apache-2.0
// checkpoint.dir of a run by itself: one folder or many, files that are sent before a run begins,
// checkpoints that are collected before they count.
#include "control/checkpoint_folder.h"

#include <algorithm>
#include <set>

#include "tests/support/catch.h"

namespace troupe::control {
namespace {

using base::Errc;
using schemas::CheckpointReport;
using schemas::Role;
using Effects = std::vector<CheckpointFolder::Effect>;

template <typename Kind>
std::vector<Kind> all_of(const Effects& effects) {
  std::vector<Kind> found;
  for (const auto& effect : effects) {
    if (const auto* one = std::get_if<Kind>(&effect)) found.push_back(*one);
  }
  return found;
}

/// What machines are sent, of one kind.
template <typename Message>
std::vector<std::pair<std::uint32_t, Message>> sent(const Effects& effects) {
  std::vector<std::pair<std::uint32_t, Message>> found;
  for (const auto& send : all_of<Send<std::uint32_t>>(effects)) {
    if (const auto* one = std::get_if<Message>(&send.message)) found.emplace_back(send.to, *one);
  }
  return found;
}

/// Machines a, b and c; shards 0 and 2 on b, shard 1 on c. Their agents are peers 10, 11, 12.
struct World {
  CheckpointFolder folder{{"x", 3, "/out", 2, {"a", "b", "c"}, {10, 11, 12}, {1, 2, 1}}};

  Effects take() { return folder.take_effects(); }
  /// What machine 1 or 2, or the coordinator (3) says; `step`: of its newest manifest, of
  /// generation 2.
  Effects answer(std::uint32_t machine, Errc code = Errc::ok, std::uint64_t step = 0) {
    const schemas::FolderProbeResult result{
        "x", 3, code, code == Errc::ok ? "" : "no", step, step > 0 ? 2u : 0u, step > 0 ? 2u : 0u};
    fault =
        machine == 3 ? folder.take(FolderProbed{result, "nonce"}) : folder.take(machine, result);
    return take();
  }
  /// To the point where it is known which machines have a folder of their own.
  void know(const std::vector<std::uint32_t>& own) {
    folder.probe();
    answer(3);
    for (const std::uint32_t machine : {1u, 2u}) {
      const bool other = std::find(own.begin(), own.end(), machine) != own.end();
      answer(machine, other ? Errc::not_found : Errc::ok);
    }
    for (const std::uint32_t machine : own) answer(machine);
    REQUIRE(folder.known());
    REQUIRE(folder.copied() == !own.empty());
    take();
  }
  StartFound found(const std::string& checkpoint = "/out/step-500-g2") const {
    StartFound start;
    start.step = 500;
    start.checkpoint = checkpoint;
    start.files = {"step-500-g2-shard-0-of-2.safetensors", "step-500-g2-shard-1-of-2.safetensors"};
    start.files_of_shard = {{0}, {1}, {0, 1}};
    return start;
  }
  ActorSaid report(std::uint64_t step, Errc code = Errc::ok) const {
    const std::string path = code == Errc::ok ? "/out/step" : "";
    return {{Role::parameter_server, 1}, CheckpointReport{step, path, code, "full"}};
  }
  base::Status fault;
};

/// Probes that are removed, by machine; 3: the coordinator's.
std::set<std::uint32_t> removed(const Effects& effects) {
  std::set<std::uint32_t> machines;
  for (const auto& [machine, probe] : sent<schemas::FolderProbe>(effects)) {
    if (probe.write && probe.nonce.empty()) machines.insert(machine);
  }
  for (const ProbeFolder& own : all_of<ProbeFolder>(effects)) {
    if (own.probe.write && own.probe.nonce.empty() && !own.choose) machines.insert(3);
  }
  return machines;
}

TEST_CASE("who sees the coordinator's folder needs no copies", "[checkpoint_folder]") {
  World world;
  world.folder.probe();
  Effects effects = world.take();
  REQUIRE(all_of<ProbeFolder>(effects).size() == 1);
  const ProbeFolder written = all_of<ProbeFolder>(effects)[0];
  CHECK(written.choose);
  CHECK(written.probe.write);
  CHECK(sent<schemas::FolderProbe>(effects).empty());
  CHECK(world.folder.waited_for() ==
        std::vector<std::string>{"the coordinator's look at checkpoint.dir /out"});
  effects = world.answer(3);
  const auto read = sent<schemas::FolderProbe>(effects);
  REQUIRE(read.size() == 2);  // machine a has no server, and nothing to do with the folder
  CHECK((read[0].first == 1 && read[1].first == 2));
  for (const auto& [machine, probe] : read) {
    CHECK_FALSE(probe.write);
    CHECK(probe.file == written.probe.file);
    CHECK(probe.nonce == "nonce");
    CHECK(probe.path == "/out");
  }
  CHECK(world.answer(0).empty());
  world.answer(1);
  CHECK_FALSE(world.folder.known());
  effects = world.answer(2);
  CHECK(world.folder.known());
  CHECK_FALSE(world.folder.copied());
  CHECK(removed(effects) == std::set<std::uint32_t>{3});

  world.folder.begin(world.found(), 4);
  CHECK(world.folder.placed());
  CHECK(world.take().empty());
  CHECK(world.folder.take(world.report(600)).has_value());
  CHECK(world.take().empty());
}

TEST_CASE("who does not see it has a folder of its own, and shows that it can write there",
          "[checkpoint_folder]") {
  const std::uint32_t other = GENERATE(1u, 2u);
  const Errc how = GENERATE(Errc::not_found, Errc::failed_precondition);
  World world;
  world.folder.probe();
  world.answer(3);
  Effects effects;
  for (const std::uint32_t each : {1u, 2u}) {
    effects = world.answer(each, each == other ? how : Errc::ok);
  }
  CHECK(world.fault.ok());
  REQUIRE(all_of<Note>(effects).size() == 1);
  const std::string name = other == 1 ? "machine 'b'" : "machine 'c'";
  CHECK_THAT(all_of<Note>(effects)[0].text, Catch::Contains(name + " does not see the coordin"));
  const auto tried = sent<schemas::FolderProbe>(effects);
  REQUIRE(tried.size() == 1);
  CHECK(tried[0].first == other);
  CHECK(tried[0].second.write);
  CHECK(tried[0].second.file == ".probe-x-g3-m" + std::to_string(other));  // others may share it
  CHECK_FALSE(world.folder.known());
  SECTION("it can") {
    effects = world.answer(other);
    CHECK(world.folder.known());
    CHECK(world.folder.copied());
    CHECK(removed(effects) == std::set<std::uint32_t>{other, 3});
    // Only it gets files, and only its own are cleared.
    world.folder.begin(world.found(), 4);
    const auto placed = sent<schemas::PlaceCheckpoint>(world.take());
    REQUIRE(placed.size() == 1);
    CHECK(placed[0].first == other);
    world.folder.take(other, schemas::CheckpointPlaced{"x", 4});
    world.take();
    world.folder.take(world.report(600));
    world.take();
    CHECK(world.folder.take(CheckpointCollected{"x", 4, 600, 4, {}}).has_value());
    const auto dropped = sent<schemas::DropCheckpoint>(world.take());
    REQUIRE(dropped.size() == 2);  // what is older, and what was placed
    CHECK((dropped[0].first == other && dropped[1].first == other));
    CHECK(dropped[0].second.older);
    CHECK(dropped[1].second.checkpoint == "step-500-g2");
    CHECK_FALSE(dropped[1].second.older);
  }
  SECTION("it cannot") {
    world.answer(other, Errc::permission_denied);
    CHECK(world.fault.text() == "checkpoint.dir /out: " + name + " cannot write there: no");
    world.folder.end();
    CHECK(removed(world.take()) == std::set<std::uint32_t>{other, 3});
  }
}

TEST_CASE("a folder that cannot be looked into ends the job", "[checkpoint_folder]") {
  World world;
  world.folder.probe();
  SECTION("beside the coordinator") {
    world.answer(3, Errc::permission_denied);
    CHECK(world.fault.text() == "checkpoint.dir /out: the coordinator cannot write there: no");
  }
  SECTION("on a machine") {
    world.answer(3);
    world.answer(2, Errc::permission_denied);
    CHECK(world.fault.text() == "checkpoint.dir /out: machine 'c' cannot look there: no");
  }
  CHECK(world.fault.code() == Errc::failed_precondition);
}

TEST_CASE("what machines hold beyond the coordinator is collected before a run begins",
          "[checkpoint_folder]") {
  World world;
  world.folder.probe();
  world.answer(3, Errc::ok, 400);
  world.answer(1, Errc::not_found, 500);
  world.answer(2, Errc::not_found, 600);
  world.answer(1);
  Effects effects = world.answer(2);
  CHECK_FALSE(world.folder.known());
  CHECK(world.folder.collecting());
  CHECK(world.folder.waited_for() ==
        std::vector<std::string>{"the copy of what its machines hold"});
  auto wanted = all_of<CollectCheckpoint>(effects);
  REQUIRE(wanted.size() == 1);
  CHECK(wanted[0].run == 3);
  CHECK(wanted[0].step == 600);
  CHECK(wanted[0].generation == 2);
  CHECK(wanted[0].start_step == 600);
  CHECK(wanted[0].of_manifest == std::vector<PeerId>{11, 12});  // whoever has it
  CHECK(wanted[0].of_shard.empty());
  CHECK(world.folder.highest() == 2);
  SECTION("it is whole") {
    CHECK_FALSE(world.folder.take(CheckpointCollected{"x", 3, 600, 2, {}}).has_value());
    CHECK(world.folder.known());
    CHECK(all_of<CollectCheckpoint>(world.take()).empty());
  }
  SECTION("it is not, so the one before it is tried, and then none") {
    const base::Status missing(Errc::not_found, "no such file");
    world.folder.take(CheckpointCollected{"x", 3, 600, 2, missing});
    effects = world.take();
    CHECK_THAT(all_of<Note>(effects)[0].text,
               Catch::Contains("step-600-g2 is not whole on its machines: no such file"));
    wanted = all_of<CollectCheckpoint>(effects);
    REQUIRE(wanted.size() == 1);
    CHECK(wanted[0].step == 500);
    CHECK_FALSE(world.folder.take(CheckpointCollected{"x", 3, 600, 2, {}}).has_value());  // late
    CHECK_FALSE(world.folder.known());
    world.folder.take(CheckpointCollected{"x", 3, 500, 2, missing});
    CHECK(world.folder.known());
  }
  SECTION("the job is stopped meanwhile") {
    world.folder.end();
    CHECK(all_of<EndCollecting>(world.take()).size() == 1);
    world.folder.take(CheckpointCollected{"x", 3, 600, 2, {}});
    CHECK(world.take().empty());
  }
}

TEST_CASE("what the coordinator has itself is not collected", "[checkpoint_folder]") {
  World world;
  world.folder.probe();
  world.answer(3, Errc::ok, 600);
  world.answer(1, Errc::not_found, 600);
  world.answer(2, Errc::not_found, 500);
  world.answer(1);
  CHECK(all_of<CollectCheckpoint>(world.answer(2)).empty());
  CHECK(world.folder.known());
}

TEST_CASE("machines get the files that their shards read, and no others", "[checkpoint_folder]") {
  World world;
  world.know({1, 2});
  world.folder.begin(world.found(), 4);
  const auto placed = sent<schemas::PlaceCheckpoint>(world.take());
  REQUIRE(placed.size() == 2);
  CHECK(placed[0].first == 1);
  CHECK(placed[0].second.files == std::vector<std::uint32_t>{0, 1});
  CHECK(placed[1].first == 2);
  CHECK(placed[1].second.files == std::vector<std::uint32_t>{1});
  for (const auto& [machine, place] : placed) {
    CHECK(place.generation == 4);
    CHECK(place.folder == "/out");
    CHECK(place.checkpoint == "step-500-g2");
  }
  const auto served = [&](std::uint32_t machine, const std::string& file) {
    world.folder.take(machine, schemas::PieceQuery{7, "x", 4, "/etc", file, 5, 6});
    const Effects effects = world.take();
    const auto refused = sent<schemas::FilePiece>(effects);
    CHECK(refused.size() + all_of<ServePiece>(effects).size() == 1);  // nobody waits in vain
    if (!refused.empty()) CHECK(refused[0].second.number == 7);
    return all_of<ServePiece>(effects);
  };
  const auto piece = served(2, "step-500-g2-shard-1-of-2.safetensors");
  REQUIRE(piece.size() == 1);
  CHECK(piece[0].peer == 12);
  CHECK(piece[0].query.folder == "/out");  // whatever it says
  CHECK(piece[0].query.number == 7);
  CHECK(piece[0].query.offset == 5);
  CHECK(served(2, "step-500-g2.manifest").size() == 1);
  CHECK(served(2, "step-500-g2-shard-0-of-2.safetensors").empty());
  CHECK(served(2, "step-400-g2.manifest").empty());
  CHECK(served(2, "../passwd").empty());
  CHECK(served(0, "step-500-g2.manifest").empty());  // it has no part in it
  CHECK_FALSE(world.folder.placed());
  CHECK(world.folder.waited_for()[0] == "the agent of machine 'b', which gets /out/step-500-g2");
  CHECK(world.folder.take(0, schemas::CheckpointPlaced{"x", 4}).ok());
  CHECK(world.folder.take(1, schemas::CheckpointPlaced{"x", 4}).ok());
  CHECK_FALSE(world.folder.placed());
  SECTION("all have them") {
    CHECK(world.folder.take(2, schemas::CheckpointPlaced{"x", 4}).ok());
    CHECK(world.folder.placed());
    CHECK(served(2, "step-500-g2.manifest").empty());
  }
  SECTION("one has no room") {
    const base::Status fault = world.folder.take(
        2, schemas::CheckpointPlaced{"x", 4, Errc::resource_exhausted, "disk full"});
    CHECK(fault.text() == "machine 'c' could not get /out/step-500-g2: disk full");
    CHECK(all_of<CheckCopy>(world.take()).empty());
  }
  SECTION("what one gets is damaged") {
    const base::Status fault =
        world.folder.take(2, schemas::CheckpointPlaced{"x", 4, Errc::data_loss, "sums"});
    CHECK(fault.code() == Errc::data_loss);
    REQUIRE(all_of<CheckCopy>(world.take()).size() == 1);
  }
}

TEST_CASE("a few machines get files at a time", "[checkpoint_folder]") {
  FolderPlan plan{"x", 3, "/out", 2, {}, {}, {}};
  for (std::uint32_t machine = 0; machine < 20; ++machine) {
    plan.machines.push_back("m" + std::to_string(machine));
    plan.peers.push_back(machine);
    plan.machine_of_shard.push_back(machine);
  }
  CheckpointFolder folder(plan);
  folder.probe();
  REQUIRE(folder.take(FolderProbed{{"x", 3, Errc::ok, ""}, "nonce"}).ok());
  for (const Errc code : {Errc::not_found, Errc::ok}) {
    for (std::uint32_t machine = 0; machine < 20; ++machine) {
      REQUIRE(folder.take(machine, schemas::FolderProbeResult{"x", 3, code, ""}).ok());
    }
  }
  REQUIRE(folder.known());
  folder.take_effects();
  StartFound found;
  found.checkpoint = "/out/step-5-g1";
  found.files = {"step-5-g1-shard-0-of-1.safetensors"};
  found.files_of_shard.assign(20, {0});
  folder.begin(found, 3);
  std::size_t done = 0;
  std::size_t most = 0;
  for (auto under_way = sent<schemas::PlaceCheckpoint>(folder.take_effects());
       !under_way.empty();) {
    most = std::max(most, under_way.size());
    REQUIRE(folder.take(under_way.back().first, schemas::CheckpointPlaced{"x", 3}).ok());
    under_way.pop_back();
    ++done;
    for (auto& next : sent<schemas::PlaceCheckpoint>(folder.take_effects())) {
      under_way.push_back(std::move(next));
    }
  }
  CHECK(done == 20);
  CHECK(most == 8);
  CHECK(folder.placed());
}

TEST_CASE("a checkpoint counts when the coordinator has its copy", "[checkpoint_folder]") {
  World world;
  world.know({1, 2});
  world.folder.begin(world.found(""), 4);
  CHECK(world.folder.placed());
  world.take();
  CHECK_FALSE(world.folder.take(world.report(600)).has_value());
  auto collects = all_of<CollectCheckpoint>(world.take());
  REQUIRE(collects.size() == 1);
  CHECK(collects[0].job == "x");
  CHECK(collects[0].run == 4);
  CHECK(collects[0].generation == 4);
  CHECK(collects[0].step == 600);
  CHECK(collects[0].folder == "/out");
  CHECK(collects[0].keep == 2);
  CHECK(collects[0].start_step == 500);
  CHECK(collects[0].of_manifest == std::vector<PeerId>{12});  // of shard 1, which has reported
  CHECK(collects[0].of_shard == std::vector<PeerId>{11, 12, 11});
  // The server asks again, and another checkpoint is ready: one at a time.
  CHECK_FALSE(world.folder.take(world.report(600)).has_value());
  CHECK_FALSE(world.folder.take(world.report(700)).has_value());
  CHECK(world.take().empty());
  // An answer to another question.
  CHECK_FALSE(world.folder.take(CheckpointCollected{"x", 4, 700, 4, {}}).has_value());
  CHECK_FALSE(world.folder.take(CheckpointCollected{"x", 3, 600, 4, {}}).has_value());
  const auto said = world.folder.take(CheckpointCollected{"x", 4, 600, 4, {}});
  REQUIRE(said.has_value());
  CHECK(said->from == schemas::ActorId{Role::parameter_server, 1});
  CHECK(std::get<CheckpointReport>(said->message).code == Errc::ok);
  Effects effects = world.take();
  const auto dropped = sent<schemas::DropCheckpoint>(effects);
  REQUIRE(dropped.size() == 2);
  CHECK((dropped[0].first == 1 && dropped[1].first == 2));
  CHECK(dropped[0].second.checkpoint == "step-600-g4");
  CHECK(dropped[0].second.older);
  collects = all_of<CollectCheckpoint>(effects);
  REQUIRE(collects.size() == 1);
  CHECK(collects[0].step == 700);
  // What is settled the job knows.
  CHECK(world.folder.take(world.report(600)).has_value());
  SECTION("no copy, no checkpoint") {
    const base::Status full(Errc::resource_exhausted, "no space");
    const auto failed = world.folder.take(CheckpointCollected{"x", 4, 700, 4, full});
    REQUIRE(failed.has_value());
    const auto& report = std::get<CheckpointReport>(failed->message);
    CHECK(report.code == Errc::resource_exhausted);
    CHECK(report.text == "no copy at the coordinator: no space");
    CHECK(report.path.empty());
    // What machines hold of it is whole, and the next run can collect it.
    CHECK(sent<schemas::DropCheckpoint>(world.take()).empty());
  }
  SECTION("the run is over") {
    world.folder.end();
    CHECK(all_of<EndCollecting>(world.take()).size() == 1);
    CHECK_FALSE(world.folder.take(CheckpointCollected{"x", 4, 700, 4, {}}).has_value());
  }
}

TEST_CASE("what a server gives up itself is told at once, and goes everywhere",
          "[checkpoint_folder]") {
  World world;
  world.know({1, 2});
  world.folder.begin(world.found(""), 4);
  world.take();
  const auto said = world.folder.take(world.report(600, Errc::resource_exhausted));
  REQUIRE(said.has_value());
  const auto gone = sent<schemas::DropCheckpoint>(world.take());
  REQUIRE(gone.size() == 2);
  CHECK_FALSE(gone[0].second.older);
}

}  // namespace
}  // namespace troupe::control
