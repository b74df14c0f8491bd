// SPDX-License-Identifier: Apache-2.0
// Asking several machines for a file.
#include "cluster/checkpoint_files.h"

#include <utility>

namespace troupe::cluster {

AskPiece any_of(std::vector<AskPiece> places) {
  if (places.size() == 1) return std::move(places.front());
  return [places = std::move(places)](const std::string& file, std::uint64_t offset,
                                      std::uint64_t bytes) -> base::Result<schemas::FilePiece> {
    base::Status last = base::error(base::Errc::not_found, "{}: nobody has it", file);
    for (const AskPiece& ask : places) {
      auto piece = ask(file, offset, bytes);
      if (piece.ok() || piece.status().code() != base::Errc::not_found) return piece;
      last = piece.status();
    }
    return last;
  };
}

}  // namespace troupe::cluster
