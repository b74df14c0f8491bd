// SPDX-License-Identifier: Apache-2.0
// checkpoint.dir of a run where machines have folders of their own: files that are sent before it
// begins, checkpoints that are collected before they count.
#include <algorithm>
#include <set>

#include "schemas/manifest.h"
#include "tests/control/folder_world.h"
#include "tests/support/catch.h"

namespace troupe::control {
namespace {

using base::Errc;
using schemas::CheckpointReport;
using schemas::Role;
using testing::all_of;
using testing::sent;
using testing::separate;
using Effects = testing::FolderEffects;
using World = testing::FolderWorld;

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
  // What is settled the job knows, and nobody takes it back.
  CHECK(world.folder.take(world.report(600)).has_value());
  CHECK(world.folder.take(world.report(600, Errc::unavailable)).has_value());
  CHECK_FALSE(world.folder.take(world.report(700, Errc::unavailable)).has_value());
  CHECK(world.take().empty());
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

TEST_CASE("few checkpoints wait for the one that is collected", "[checkpoint_folder]") {
  World world;
  separate(world, 0, 0, 0);
  world.folder.begin(world.found(), 4);
  for (const std::uint32_t machine : {1u, 2u}) {
    REQUIRE(world.folder.take(machine, schemas::CheckpointPlaced{"x", 4}).ok());
  }
  for (std::uint64_t step = 501; step <= 508; ++step) {
    CHECK_FALSE(world.folder.take(world.report(step)).has_value());
  }
  const auto refused = world.folder.take(world.report(509));
  REQUIRE(refused.has_value());
  CHECK(std::get<schemas::CheckpointReport>(refused->message).code == Errc::resource_exhausted);
  REQUIRE(world.folder.take(CheckpointCollected{"x", 4, 501, 4, {}}).has_value());
  CHECK_FALSE(world.folder.take(world.report(509)).has_value());  // now it waits
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

}  // namespace
}  // namespace troupe::control
