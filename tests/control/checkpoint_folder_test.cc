// SPDX-License-Identifier: Apache-2.0
// checkpoint.dir of a run by itself: one folder or many, files that are sent before a run begins,
// checkpoints that are collected before they count.
#include "control/checkpoint_folder.h"

#include <algorithm>
#include <set>

#include "schemas/manifest.h"
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

schemas::JobSpec mine() {
  schemas::JobSpec spec;
  spec.name = "mine";
  return spec;
}

/// Machines a, b and c; shards 0 and 2 on b, shard 1 on c. Their agents are peers 10, 11, 12.
struct World {
  CheckpointFolder folder{{"x", 3, "/out", 2, {"a", "b", "c"}, {10, 11, 12}, {1, 2, 1}, mine()}};

  Effects take() { return folder.take_effects(); }
  /// What machine 1 or 2, or the coordinator (3) says; `step`: of its newest manifest, of
  /// generation 2.
  Effects answer(std::uint32_t machine, Errc code = Errc::ok, std::uint64_t step = 0) {
    schemas::FolderProbeResult result{"x", 3, code, code == Errc::ok ? "" : "no", {}, 0};
    if (step > 0) result.newest = {{step, 2}};
    if (step > 0) result.highest_generation = 2;
    fault =
        machine == 3 ? folder.take(FolderProbed{result, "nonce"}) : folder.take(machine, result);
    return take();
  }
  /// The coordinator has its folder for itself; `step`: of its newest whole checkpoint.
  Effects held(std::uint64_t step = 0, const base::Status& status = {}) {
    fault = folder.take(FolderHeld{"x", 3, status, {step, step > 0 ? 2u : 0u}});
    return take();
  }
  Effects collected(std::uint64_t step, const base::Status& status = {}) {
    CHECK_FALSE(folder.take(CheckpointCollected{"x", 3, step, 2, status}).has_value());
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
    for (std::size_t i = 0; i < own.size(); ++i) answer(3, Errc::not_found);
    if (!own.empty()) held();
    REQUIRE(folder.known());
    REQUIRE(folder.copied() == !own.empty());
    take();
  }
  StartFound found(const std::string& checkpoint = "/out/step-500-g2") const {
    StartFound start;
    start.step = 500;
    start.checkpoint = checkpoint;
    start.checkpoint_bytes = 4'711;
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
  const std::string name = other == 1 ? "machine 'b'" : "machine 'c'";
  const auto tried = sent<schemas::FolderProbe>(effects);
  REQUIRE(tried.size() == 1);
  CHECK(tried[0].first == other);
  CHECK(tried[0].second.write);
  CHECK(tried[0].second.file == ".probe-x-g3-m" + std::to_string(other));  // others may share it
  CHECK_FALSE(world.folder.known());
  SECTION("it can") {
    // Nor does the coordinator see the machine's.
    const auto compared = all_of<ProbeFolder>(world.answer(other));
    REQUIRE(compared.size() == 1);
    CHECK(compared[0].probe.file == tried[0].second.file);
    CHECK(compared[0].probe.nonce == "nonce");
    CHECK_FALSE((compared[0].probe.write || compared[0].choose));
    effects = world.answer(3, how);
    REQUIRE(all_of<Note>(effects).size() == 1);
    CHECK_THAT(all_of<Note>(effects)[0].text, Catch::Contains(name + " does not see the coordin"));
    CHECK(removed(effects) == std::set<std::uint32_t>{other, 3});
    REQUIRE(all_of<HoldFolder>(effects).size() == 1);
    CHECK(all_of<HoldFolder>(effects)[0].folder == "/out");
    world.answer(3);  // its file is removed, which is no answer to this question
    CHECK_FALSE(world.folder.known());
    world.held();
    CHECK(world.folder.known());
    CHECK(world.folder.copied());
    // Only it gets files, and only its own are cleared.
    world.folder.begin(world.found(), 4);
    const auto placed = sent<schemas::PlaceCheckpoint>(world.take());
    REQUIRE(placed.size() == 1);
    CHECK(placed[0].first == other);
    CHECK(world.folder.take(other, schemas::CheckpointPlaced{"x", 4}).ok());
    world.take();
    world.folder.take(world.report(600));
    world.take();
    CHECK(world.folder.take(CheckpointCollected{"x", 4, 600, 4, {}}).has_value());
    const auto dropped = sent<schemas::DropCheckpoint>(world.take());
    REQUIRE(dropped.size() == 1);
    CHECK(dropped[0].first == other);
    CHECK(dropped[0].second.older);
    CHECK(dropped[0].second.checkpoint == "step-600-g4");
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

TEST_CASE("a machine that saw the coordinator's file too late has no folder of its own",
          "[checkpoint_folder]") {
  World world;
  world.folder.probe();
  world.answer(3);
  world.answer(1, Errc::not_found);
  world.answer(2, Errc::not_found);
  world.answer(2);
  auto compared = all_of<ProbeFolder>(world.answer(1));
  REQUIRE(compared.size() == 1);  // one after the other
  CHECK(compared[0].probe.file == ".probe-x-g3-m1");
  compared = all_of<ProbeFolder>(world.answer(3));
  REQUIRE(compared.size() == 1);
  CHECK(compared[0].probe.file == ".probe-x-g3-m2");
  SECTION("one of two") {
    const Effects effects = world.answer(3, Errc::not_found);
    CHECK_THAT(all_of<Note>(effects)[0].text, Catch::Contains(": machine 'c' does not see"));
    world.held();
    CHECK(world.folder.copied());
    // Nothing is removed where the other writes.
    world.folder.begin(world.found(""), 4);
    world.folder.take(world.report(600));
    world.folder.take(CheckpointCollected{"x", 4, 600, 4, {}});
    const auto dropped = sent<schemas::DropCheckpoint>(world.take());
    REQUIRE(dropped.size() == 1);
    CHECK(dropped[0].first == 2);
  }
  SECTION("both: then all share one folder, and no copy is kept") {
    const Effects effects = world.answer(3);
    CHECK(all_of<Note>(effects).empty());
    CHECK(all_of<HoldFolder>(effects).empty());
    CHECK(removed(effects) == std::set<std::uint32_t>{1, 2, 3});
    CHECK(world.folder.known());
    CHECK_FALSE(world.folder.copied());
  }
  SECTION("the coordinator cannot tell") {
    world.answer(3, Errc::permission_denied);
    CHECK(world.fault.text() == "checkpoint.dir /out: the coordinator cannot look there: no");
  }
}

/// Machines b and c have folders of their own, with newest checkpoints of these steps.
Effects separate(World& world, std::uint64_t b, std::uint64_t c, std::uint64_t coordinator) {
  world.folder.probe();
  world.answer(3);
  world.answer(1, Errc::not_found, b);
  world.answer(2, Errc::not_found, c);
  for (const std::uint32_t machine : {1u, 2u}) world.answer(machine);
  for (int i = 0; i < 2; ++i) world.answer(3, Errc::not_found);
  return world.held(coordinator);
}

TEST_CASE("what machines hold beyond the coordinator is collected before a run begins",
          "[checkpoint_folder]") {
  World world;
  Effects effects = separate(world, 500, 600, 400);
  CHECK_FALSE(world.folder.known());
  CHECK(world.folder.collecting());
  CHECK(world.folder.waited_for() ==
        std::vector<std::string>{"the copy of what its machines hold"});
  auto wanted = all_of<CollectCheckpoint>(effects);
  REQUIRE(wanted.size() == 1);
  CHECK(wanted[0].run == 3);
  CHECK(wanted[0].step == 600);
  CHECK(wanted[0].generation == 2);
  REQUIRE(wanted[0].gathered_for.has_value());  // it may be another job's: nothing goes for it
  CHECK(wanted[0].gathered_for->name == "mine");
  CHECK(wanted[0].of_manifest == std::vector<PeerId>{11, 12});  // whoever has it
  CHECK(wanted[0].of_shard.empty());
  CHECK(world.folder.highest() == 2);
  SECTION("it is whole") {
    CHECK(all_of<CollectCheckpoint>(world.collected(600)).empty());
    CHECK(world.folder.known());
  }
  SECTION("it is of no use, so the one before it is tried, and then none") {
    const base::Status foreign(Errc::failed_precondition, "is of another job");
    effects = world.collected(600, foreign);
    CHECK_THAT(all_of<Note>(effects)[0].text,
               Catch::Contains("step-600-g2 is not collected: is of another"));
    wanted = all_of<CollectCheckpoint>(effects);
    REQUIRE(wanted.size() == 1);
    CHECK(wanted[0].step == 500);
    world.collected(600);  // late
    CHECK_FALSE(world.folder.known());
    world.collected(500, foreign);
    CHECK(world.folder.known());
  }
  SECTION("the job is stopped meanwhile") {
    world.folder.end();
    CHECK(all_of<EndCollecting>(world.take()).size() == 1);
    world.folder.take(CheckpointCollected{"x", 3, 600, 2, {}});
    CHECK(world.take().empty());
    world.folder.let_go();
    CHECK(all_of<LetGoOfFolder>(world.take()).size() == 1);
    world.folder.let_go();
    CHECK(world.take().empty());
  }
}

TEST_CASE("what the coordinator has whole itself is not collected", "[checkpoint_folder]") {
  World world;
  CHECK(all_of<CollectCheckpoint>(separate(world, 600, 500, 600)).empty());
  CHECK(world.folder.known());
}

TEST_CASE("what turns out damaged at the coordinator is collected once more, and once only",
          "[checkpoint_folder]") {
  World world;
  separate(world, 600, 500, 600);
  REQUIRE(world.folder.known());
  world.folder.look_again();
  CHECK_FALSE(world.folder.known());
  CHECK(all_of<HoldFolder>(world.take()).size() == 1);
  auto wanted = all_of<CollectCheckpoint>(world.held(400));  // what is left
  REQUIRE(wanted.size() == 1);
  CHECK(wanted[0].step == 600);
  world.collected(600);
  REQUIRE(world.folder.known());
  world.folder.look_again();
  world.take();
  wanted = all_of<CollectCheckpoint>(world.held(400));
  REQUIRE(wanted.size() == 1);
  CHECK(wanted[0].step == 500);
}

TEST_CASE("where all checkpoints are kept, machines keep what may be nowhere else",
          "[checkpoint_folder]") {
  const std::uint32_t keep = GENERATE(0u, 2u);
  World world{CheckpointFolder({"x", 3, "/out", keep, {"a", "b", "c"}, {10, 11, 12}, {1, 2, 1}})};
  separate(world, 0, 0, 0);
  world.folder.begin(world.found(), 4);
  for (const std::uint32_t machine : {1u, 2u}) {
    REQUIRE(world.folder.take(machine, schemas::CheckpointPlaced{"x", 4}).ok());
  }
  const auto dropped_after = [&](std::uint64_t step, const base::Status& status) {
    world.folder.take(world.report(step));
    world.take();
    world.folder.take(CheckpointCollected{"x", 4, step, 4, status});
    std::vector<std::string> names;
    for (const auto& [machine, drop] : sent<schemas::DropCheckpoint>(world.take())) {
      CHECK(drop.older == (keep > 0));  // of any run
      if (machine == 2) names.push_back(drop.checkpoint);
    }
    return names;
  };
  using Names = std::vector<std::string>;
  const base::Status full(Errc::resource_exhausted, "no space");
  CHECK(dropped_after(510, full) == Names{});
  const Names after_520 = dropped_after(520, {});
  CHECK(after_520 == (keep > 0 ? Names{"step-520-g4"} : Names{"step-500-g2", "step-510-g4"}));
  const Names after_530 = dropped_after(530, {});
  CHECK(after_530 == (keep > 0 ? Names{"step-530-g4"} : Names{"step-520-g4"}));
}

TEST_CASE("a folder of copies is one job's", "[checkpoint_folder]") {
  World other;
  other.folder.probe();
  other.answer(3);
  for (const Errc code : {Errc::not_found, Errc::ok}) {
    for (const std::uint32_t machine : {1u, 2u}) other.answer(machine, code);
  }
  for (int i = 0; i < 2; ++i) other.answer(3, Errc::not_found);
  CHECK(other.folder.waited_for() ==
        std::vector<std::string>{"the coordinator's look at checkpoint.dir /out"});
  other.held(0, {Errc::already_exists, "/out is in use by another process"});
  CHECK(other.fault.text() ==
        "checkpoint.dir /out: another job keeps its checkpoints there, perhaps by another path");
}

TEST_CASE("a generation that no run can have had is refused", "[checkpoint_folder]") {
  World world;
  world.folder.probe();
  world.answer(3);
  schemas::FolderProbeResult result{"x", 3, Errc::ok, "", {}, schemas::kGenerationMax};
  CHECK(world.folder.take(1, result).ok());
  result.highest_generation = ~std::uint64_t{0};
  CHECK(world.folder.take(2, result).text() ==
        "checkpoint.dir /out: machine 'c' has a checkpoint of generation 18446744073709551615 "
        "there, at most 4611686018427387904");
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
  FolderPlan plan{"x", 3, "/out", 2, {}, {}, {}, {}};
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
  for (int i = 0; i < 20; ++i) {
    REQUIRE(folder.take(FolderProbed{{"x", 3, Errc::not_found, ""}, ""}).ok());
  }
  REQUIRE(folder.take(FolderHeld{"x", 3, {}}).ok());
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
  CHECK(collects[0].checkpoint_bytes == 4'711);  // the job's, not what the machine's manifest says
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
    effects = world.take();
    CHECK(sent<schemas::DropCheckpoint>(effects).empty());
    CHECK(all_of<DropFiles>(effects).empty());
  }
  SECTION("what could not be read may be readable to the next run") {
    world.folder.take(CheckpointCollected{"x", 4, 700, 4, {Errc::data_loss, "sums"}});
    CHECK(all_of<DropFiles>(world.take()).empty());
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
  const Effects effects = world.take();
  const auto gone = sent<schemas::DropCheckpoint>(effects);
  REQUIRE(gone.size() == 2);
  CHECK_FALSE(gone[0].second.older);
  const auto here = all_of<DropFiles>(effects);  // a machine that shares it may have written there
  REQUIRE(here.size() == 1);
  CHECK(here[0].drop.checkpoint == "step-600-g4");
  CHECK_FALSE(here[0].drop.older);
}

}  // namespace
}  // namespace troupe::control
