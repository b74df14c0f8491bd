// SPDX-License-Identifier: Apache-2.0
// Files of `troupe gen`: made, checked, written.
#include "apps/gen_files.h"

#include <CLI/CLI.hpp>

#include "base/file.h"

namespace troupe::apps {
namespace {

base::Status check_free(const std::vector<MadeFile>& files, const GenTarget& target) {
  if (target.force) return {};
  for (const MadeFile& file : files) {
    const std::filesystem::path path = target.out / file.name;
    std::error_code unknown;
    if (!std::filesystem::exists(path, unknown)) continue;
    const auto there = base::read_text_file(path, file.text.size());
    if (there.ok() && *there == file.text) continue;
    return base::error(base::Errc::already_exists,
                       "{}: exists with other content; --force replaces it", path.string());
  }
  return {};
}

base::Status write_file(const std::filesystem::path& path, const std::string& text) {
  std::error_code code;
  std::filesystem::create_directories(path.parent_path(), code);
  if (code) {
    return base::error(base::errc_of_errno(code.value()), "--out {}: {}",
                       path.parent_path().string(), code.message());
  }
  return base::write_file_atomically(path, std::as_bytes(std::span(text)));
}

/// Nothing is written unless all may be.
base::Status write_files(const std::vector<MadeFile>& files, const GenTarget& target,
                         Context& context) {
  TROUPE_TRY(check_free(files, target));
  for (const MadeFile& file : files) {
    const std::filesystem::path path = target.out / file.name;
    TROUPE_TRY(write_file(path, file.text));
    context.console.data(path.string() + "\n");
  }
  return {};
}

}  // namespace

std::string replaced(std::string text, std::string_view old, std::string_view with) {
  for (std::size_t at = 0; (at = text.find(old, at)) != std::string::npos; at += with.size()) {
    text.replace(at, old.size(), with);
  }
  return text;
}

std::vector<MadeFile> files_of(std::span<const BuiltInFile> files, std::string_view beginning) {
  std::vector<MadeFile> chosen;
  for (const BuiltInFile& file : files) {
    if (!file.name.starts_with(beginning)) continue;
    chosen.push_back({std::string(file.name), std::string(file.text)});
  }
  return chosen;
}

CLI::Option* add_target(CLI::App* verb, GenTarget& target) {
  verb->add_flag("--force", target.force, "Replace files that are there with other content");
  return verb->add_option("-o,--out", target.out, "Folder to write to")->type_name("DIR");
}

ExitCode write_made(const std::vector<MadeFile>& files, const GenTarget& target, Context& context) {
  if (target.out.empty()) {
    context.console.data(files.front().text);
    return ExitCode::ok;
  }
  const base::Status status = write_files(files, target, context);
  return status.ok() ? ExitCode::ok : context.fail(status);
}

}  // namespace troupe::apps
