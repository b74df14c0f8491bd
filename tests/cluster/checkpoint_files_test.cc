// SPDX-License-Identifier: Apache-2.0
// A file that one of several machines has.
#include "cluster/checkpoint_files.h"

#include "tests/support/catch.h"

namespace troupe::cluster {
namespace {

using base::Errc;

/// A machine that has only this file, or fails so.
AskPiece place(const std::string& has, Errc code = Errc::not_found) {
  return [has, code](const std::string& file, std::uint64_t,
                     std::uint64_t) -> base::Result<schemas::FilePiece> {
    if (file == has) return schemas::FilePiece{0, Errc::ok, "", 1, has};
    return base::error(code, "{}: not here", file);
  };
}

TEST_CASE("a file comes from whoever has it, and a fault is told", "[checkpoint_files]") {
  const AskPiece any = any_of({place("a"), place("b"), place("c")});
  for (const std::string file : {"a", "b", "c"}) CHECK(any(file, 0, 1)->bytes == file);
  CHECK(any("d", 0, 1).status().code() == Errc::not_found);
  // Whoever cannot be asked may have it: nobody else's answer is taken for it.
  const AskPiece broken = any_of({place("a", Errc::unavailable), place("b")});
  CHECK(broken("b", 0, 1).status().code() == Errc::unavailable);
  CHECK(any_of({place("a")})("a", 0, 1)->bytes == "a");
  CHECK(any_of({})("a", 0, 1).status().code() == Errc::not_found);
}

}  // namespace
}  // namespace troupe::cluster
