// SPDX-License-Identifier: Apache-2.0
// Reading, writing and rebuilding of record indexes.
#include "data/index.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <iterator>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "base/file.h"

namespace troupe::data {

using base::Errc;
using base::error;
using base::Result;
using base::Status;

namespace {

/// Two numbers of 64 bits, the tab and the end; what is longer is no line of an index.
constexpr std::size_t kLineBytesMax = 64;
constexpr std::size_t kPieceBytes = 65'536;
/// Of the shortest record: a head without a payload.
constexpr std::uint64_t kRecordBytesMin = 8;

constexpr std::string_view kBlanks = " \t";

bool parse_number(std::string_view text, std::uint64_t& out) {
  const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), out);
  return problem == std::errc() && end == text.data() + text.size();
}

/// "key TAB offset"; like MXNet's reader it takes any blanks between and around them.
bool parse_line(std::string_view line, IndexEntry& entry) {
  const std::size_t begin = line.find_first_not_of(kBlanks);
  const std::size_t end = std::min(line.find_first_of(kBlanks, begin), line.size());
  const std::size_t offset = std::min(line.find_first_not_of(kBlanks, end), line.size());
  const std::size_t last = line.find_last_not_of(kBlanks) + 1;
  return offset < last && parse_number(line.substr(begin, end - begin), entry.key) &&
         parse_number(line.substr(offset, last - offset), entry.offset);
}

/// Lines of a file, with no more than a piece of it in memory.
class LineReader {
 public:
  explicit LineReader(std::shared_ptr<const RecordFile> file) : file_(std::move(file)) {}
  /// The next line without its end, valid until the next call; of one that is longer than
  /// kLineBytesMax so much or more. None behind the last.
  Result<std::optional<std::string_view>> next() {
    if (piece_.size() - begin_ < kLineBytesMax) TROUPE_TRY(fill());
    if (begin_ == piece_.size()) return std::optional<std::string_view>();
    const std::string_view rest = std::string_view(piece_).substr(begin_);
    const std::size_t end = rest.find('\n');
    std::string_view line = rest.substr(0, end);
    begin_ += std::min(rest.size(), line.size() + 1);
    if (line.ends_with('\r')) line.remove_suffix(1);
    return std::optional(line);
  }

 private:
  Status fill() {
    piece_.erase(0, begin_);
    begin_ = 0;
    const std::size_t kept = piece_.size();
    const std::uint64_t more = std::min<std::uint64_t>(file_->bytes() - offset_, kPieceBytes);
    piece_.resize(kept + more);
    TROUPE_TRY(file_->read(offset_, std::as_writable_bytes(std::span(piece_).subspan(kept))));
    offset_ += more;
    return {};
  }

  const std::shared_ptr<const RecordFile> file_;
  std::uint64_t offset_ = 0;  ///< behind the piece
  std::string piece_;
  std::size_t begin_ = 0;  ///< of the next line
};

}  // namespace

std::uint64_t records_max(std::uint64_t bytes) {
  return bytes / kRecordBytesMin;
}

std::filesystem::path index_path(const std::filesystem::path& record_file) {
  if (record_file.extension() == ".rec") {
    return std::filesystem::path(record_file).replace_extension(".idx");
  }
  return std::filesystem::path(record_file) += ".idx";  // or files that differ there would share it
}

Result<std::vector<IndexEntry>> read_index(const std::filesystem::path& path,
                                           std::uint64_t entries_max) {
  TROUPE_TRY_ASSIGN(auto file, RecordFile::open(path));
  LineReader lines(std::move(file));
  std::vector<IndexEntry> entries;
  for (std::size_t number = 1;; ++number) {
    TROUPE_TRY_ASSIGN(const auto line, lines.next());
    if (!line) break;
    if (line->find_first_not_of(kBlanks) == std::string_view::npos) continue;
    if (entries.size() == entries_max) {
      return error(Errc::data_loss, "{}:{}: {} records at most fit into the record file",
                   path.string(), number, entries_max);
    }
    IndexEntry entry;
    if (line->size() > kLineBytesMax || !parse_line(*line, entry)) {
      // The line is not quoted: the file may be no index, and who reads the error may not read it.
      return error(Errc::data_loss, "{}:{}: is not `key TAB offset`", path.string(), number);
    }
    entries.push_back(entry);
  }
  return entries;
}

std::string index_text(std::span<const IndexEntry> entries) {
  std::string text;
  for (const IndexEntry& entry : entries) {
    fmt::format_to(std::back_inserter(text), "{}\t{}\n", entry.key, entry.offset);
  }
  return text;
}

Status write_index(const std::filesystem::path& path, std::span<const IndexEntry> entries) {
  const std::string text = index_text(entries);
  return base::write_file_atomically(path, std::as_bytes(std::span(text)));
}

Result<std::vector<IndexEntry>> build_index(const std::shared_ptr<const RecordFile>& file,
                                            OnDamage on_damage, DamageReport* damage) {
  RecordReaderOptions options;
  options.on_damage = on_damage;
  options.heads_only = true;
  RecordReader reader(file, options);
  std::vector<IndexEntry> entries;
  for (;;) {
    TROUPE_TRY_ASSIGN(const auto record, reader.next());
    if (!record) break;
    entries.push_back({entries.size(), record->offset});
  }
  if (damage != nullptr) *damage = reader.damage();
  return entries;
}

}  // namespace troupe::data
