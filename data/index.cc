// SPDX-License-Identifier: Apache-2.0
// Reading, writing and rebuilding of record indexes.
#include "data/index.h"

#include <fmt/format.h>

#include <charconv>
#include <iterator>
#include <string>
#include <string_view>

#include "base/file.h"

namespace troupe::data {

using base::Errc;
using base::error;
using base::Result;
using base::Status;

namespace {

// Shortest line: "0\t0\n".
constexpr std::size_t kLineBytesMin = 4;

bool parse_number(std::string_view text, std::uint64_t& out) {
  const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), out);
  return problem == std::errc() && end == text.data() + text.size();
}

bool parse_line(std::string_view line, IndexEntry& entry) {
  const std::size_t tab = line.find('\t');
  return tab != std::string_view::npos && parse_number(line.substr(0, tab), entry.key) &&
         parse_number(line.substr(tab + 1), entry.offset);
}

}  // namespace

std::filesystem::path index_path(const std::filesystem::path& record_file) {
  return std::filesystem::path(record_file).replace_extension(".idx");
}

Result<std::vector<IndexEntry>> read_index(const std::filesystem::path& path) {
  TROUPE_TRY_ASSIGN(const std::string text, base::read_text_file(path, kIndexBytesMax));
  std::vector<IndexEntry> entries;
  entries.reserve(text.size() / (4 * kLineBytesMin));
  std::string_view rest = text;
  for (std::size_t number = 1; !rest.empty(); ++number) {
    const std::size_t end = rest.find('\n');
    std::string_view line = rest.substr(0, end);
    rest.remove_prefix(end == std::string_view::npos ? rest.size() : end + 1);
    if (line.ends_with('\r')) line.remove_suffix(1);
    IndexEntry entry;
    if (!parse_line(line, entry)) {
      // The line is not quoted: the file may be no index, and who reads the error may not read it.
      return error(Errc::data_loss, "{}:{}: is not `key TAB offset`", path.string(), number);
    }
    entries.push_back(entry);
  }
  return entries;
}

Status write_index(const std::filesystem::path& path, std::span<const IndexEntry> entries) {
  fmt::memory_buffer text;
  for (const IndexEntry& entry : entries) {
    fmt::format_to(std::back_inserter(text), "{}\t{}\n", entry.key, entry.offset);
  }
  return base::write_file_atomically(
      path, std::as_bytes(std::span<const char>(text.data(), text.size())));
}

Result<std::vector<IndexEntry>> build_index(const std::shared_ptr<const RecordFile>& file,
                                            OnDamage on_damage, DamageReport* damage) {
  RecordReaderOptions options;
  options.on_damage = on_damage;
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
