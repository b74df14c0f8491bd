// SPDX-License-Identifier: Apache-2.0
// A file that one of several machines has.
#include "store/piece_sources.h"

#include "tests/support/catch.h"

namespace troupe::store {
namespace {

using base::Errc;
using schemas::FilePiece;

/// A machine that has only this file, or fails so.
AskPiece place(const std::string& has, Errc code = Errc::not_found) {
  return [has, code](const std::string& file, std::uint64_t,
                     std::uint64_t) -> base::Result<FilePiece> {
    if (file == has) return FilePiece{0, Errc::ok, "", 1, has};
    return base::error(code, "{}: not here", file);
  };
}
/// A machine that has every file, with these bytes.
AskPiece holder(const std::string& bytes) {
  return [bytes](const std::string&, std::uint64_t, std::uint64_t) -> base::Result<FilePiece> {
    return FilePiece{0, Errc::ok, "", bytes.size(), bytes};
  };
}
base::Status is_right(const FilePiece& piece) {
  if (piece.bytes == "right") return {};
  return base::error(Errc::data_loss, "'{}' came", piece.bytes);
}
/// Writes `name` into `asked` whenever it is asked.
AskPiece told(std::string& asked, const std::string& name, AskPiece ask) {
  return [&asked, name, ask = std::move(ask)](const std::string& file, std::uint64_t offset,
                                              std::uint64_t bytes) {
    asked += name;
    return ask(file, offset, bytes);
  };
}

TEST_CASE("a file comes from whoever has it, and a fault is told", "[piece_sources]") {
  PieceSources any({place("a"), place("b"), place("c")});
  for (const std::string file : {"a", "b", "c"}) CHECK(any.ask(file, 0, 1)->bytes == file);
  CHECK(any.ask("d", 0, 1).status().code() == Errc::not_found);
  CHECK(PieceSources({place("a")}).ask("a", 0, 1)->bytes == "a");
  CHECK(PieceSources({}).ask("a", 0, 1).status().code() == Errc::not_found);
}

TEST_CASE("who cannot be asked holds up nobody who has the file", "[piece_sources]") {
  PieceSources broken({place("a", Errc::unavailable), place("b"), place("c")});
  CHECK(broken.ask("b", 0, 1)->bytes == "b");
  CHECK(broken.ask("c", 0, 1)->bytes == "c");
  // It may have what none of the others has.
  CHECK(broken.ask("d", 0, 1).status().code() == Errc::unavailable);
}

TEST_CASE("who had a file is asked first for more of it, who failed last", "[piece_sources]") {
  std::string asked;
  PieceSources any({told(asked, "1", place("x", Errc::unavailable)), told(asked, "2", place("y")),
                    told(asked, "3", place("a")), told(asked, "4", place("b"))});
  const auto order = [&](const std::string& file) {
    asked.clear();
    CHECK(any.ask(file, 0, 1)->bytes == file);
    return asked;
  };
  CHECK(order("a") == "123");
  CHECK(order("a") == "3");
  CHECK(order("b") == "234");
  CHECK(order("b") == "4");
  CHECK(order("x") == "2341");
  CHECK(order("y") == "12");  // it is back
}

TEST_CASE("what one has wrong the next one is asked for, and is asked first from then on",
          "[piece_sources]") {
  std::string asked;
  PieceSources any({told(asked, "1", holder("wrong")), told(asked, "2", holder("right"))});
  for (const std::string order : {"12", "2", "2"}) {
    asked.clear();
    CHECK(any.ask("a", 0, 5, is_right).ok());
    CHECK(asked == order);
  }
  // Of another file it may have the right one.
  asked.clear();
  CHECK(any.ask("b", 0, 5, is_right).ok());
  CHECK(asked == "12");
}

TEST_CASE("a file is damaged only when everybody could be asked", "[piece_sources]") {
  CHECK(PieceSources({holder("wrong"), place("")}).ask("a", 0, 5, is_right).status().code() ==
        Errc::data_loss);
  CHECK(PieceSources({holder("wrong"), place("", Errc::deadline_exceeded)})
            .ask("a", 0, 5, is_right)
            .status()
            .code() == Errc::deadline_exceeded);
  // A link in a file's place, or a file of another job, tells nothing of the others either.
  for (const Errc useless : {Errc::invalid_argument, Errc::failed_precondition}) {
    for (const Errc hopeful : {Errc::deadline_exceeded, Errc::resource_exhausted}) {
      PieceSources any({place("", useless), place("", hopeful)});
      CHECK(any.ask("a", 0, 5).status().code() == hopeful);
    }
  }
}

}  // namespace
}  // namespace troupe::store
