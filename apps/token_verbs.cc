// SPDX-License-Identifier: Apache-2.0
// troupe token: what people may ask of a coordinator, made on its machine.
#include <CLI/CLI.hpp>
#include <filesystem>
#include <memory>
#include <sstream>

#include "apps/json_text.h"
#include "apps/lifetime.h"
#include "apps/verbs.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/folder_lock.h"
#include "base/units.h"
#include "cluster/access_files.h"
#include "trust/token.h"

namespace troupe::apps {
namespace {

constexpr const char* kTokenTime = "90d";
constexpr const char* kRights = "read,submit,stop";

/// What the verbs of the family read.
struct Options {
  std::filesystem::path state;
  std::string name;
  std::string rights = kRights;
  std::string time = kTokenTime;
  std::filesystem::path out;
  bool json = false;

  std::filesystem::path folder() const { return state / cluster::AccessFiles::kTokens; }
};
using OptionsPtr = std::shared_ptr<Options>;

base::Result<std::vector<trust::Right>> parse_rights(const std::string& text) {
  std::vector<trust::Right> rights;
  std::istringstream words(text);
  for (std::string word; std::getline(words, word, ',');) {
    TROUPE_TRY_ASSIGN(const trust::Right right, trust::parse_right(word));
    rights.push_back(right);
  }
  return rights;
}

std::string check_rights(const std::string& text) {
  const auto rights = parse_rights(text);
  if (!rights.ok()) return rights.status().text();
  return rights->empty() ? "no right" : "";
}

std::string text_of(const std::vector<trust::Right>& rights) {
  std::string text;
  for (const trust::Right right : rights) {
    text += (text.empty() ? "" : ",") + std::string(trust::right_name(right));
  }
  return text;
}

bool is_there(const std::filesystem::path& path) {
  std::error_code unknown;
  return std::filesystem::exists(path, unknown) || unknown;  // what cannot be looked at is told of
}

/// Whether a coordinator works in the folder, or has left something there.
bool used_by_coordinator(const std::filesystem::path& state) {
  return is_there(state / base::FolderLock::kFile) ||
         is_there(state / cluster::AccessFiles::kAudit) ||
         is_there(state / cluster::AccessFiles::kDenied);
}

/// A mistyped folder is none without tokens.
base::Status check_folder(const Options& options) {
  if (used_by_coordinator(options.state) || is_there(options.folder() / trust::TokenBook::kFile)) {
    return {};
  }
  return base::error(base::Errc::not_found,
                     "{}: no coordinator has used this folder, and no token is there; STATE is the "
                     "coordinator's --state folder",
                     options.state.string());
}

ExitCode make(const Options& options, Context& context) {
  std::error_code unknown;
  const bool piped = options.out == "-";
  if (!piped && std::filesystem::exists(options.out, unknown)) {
    return context.fail(
        base::error(base::Errc::already_exists,
                    "{}: exists; name another --out, or remove it and have its token withdrawn "
                    "(troupe token list, troupe token revoke)",
                    options.out.string()));
  }
  const bool there = is_there(options.state);
  const bool used = used_by_coordinator(options.state);
  const base::Status folder = base::make_folder(options.state, base::FileMode::secret);
  if (!folder.ok()) return context.fail(folder);
  auto book = trust::TokenBook::open(options.folder());
  if (!book.ok()) return context.fail(book.status());
  if (!used) {
    context.console.note(fmt::format("{}: no coordinator has used this folder yet{}",
                                     options.state.string(), there ? "" : "; it was made now"));
  }
  const std::int64_t now = base::unix_seconds();
  const auto ms = base::parse_duration_ms(options.time).value();  // checked
  const auto text = book->make(options.name, parse_rights(options.rights).value(),
                               {now, now + static_cast<std::int64_t>(ms / 1'000)});
  if (!text.ok()) return context.fail(text.status());
  const trust::Token made = book->tokens().back();
  const std::string line = *text + "\n";
  if (piped) {
    context.console.data(line);
    if (!context.console.data_written()) static_cast<void>(book->revoke(made.id, now));
    return ExitCode::ok;
  }
  const base::Status written = base::write_file_atomically(
      options.out, std::as_bytes(std::span(line)), base::FileMode::secret);
  if (!written.ok()) {
    static_cast<void>(book->revoke(made.id, now));  // nobody has it
    return context.fail(written);
  }
  context.console.line(fmt::format("{}: token {} of '{}', {}, until {}", options.out.string(),
                                   made.id, made.name, text_of(made.rights),
                                   base::format_date(made.validity.until)));
  return ExitCode::ok;
}

ExitCode list(const Options& options, Context& context) {
  const base::Status folder = check_folder(options);
  if (!folder.ok()) return context.fail(folder);
  auto tokens = trust::TokenBook::read(options.folder());
  if (tokens.status().code() == base::Errc::not_found) tokens = std::vector<trust::Token>();
  if (!tokens.ok()) return context.fail(tokens.status());
  const std::int64_t now = base::unix_seconds();
  std::string text =
      fmt::format("{:<9} {:<16} {:<8} {:<21} {}\n", "TOKEN", "NAME", "STATE", "UNTIL", "RIGHTS");
  Json rows = Json::array();
  for (const trust::Token& token : *tokens) {
    const std::string_view state = trust::state_name(token.validity, token.withdrawn, now);
    text += fmt::format("{:<9} {:<16} {:<8} {:<21} {}\n", token.id, token.name, state,
                        base::format_date(token.validity.until), text_of(token.rights));
    Json rights = Json::array();
    for (const trust::Right right : token.rights) rights.push_back(trust::right_name(right));
    rows.push_back({{"id", token.id},
                    {"name", token.name},
                    {"state", state},
                    {"until", base::format_date(token.validity.until)},
                    {"rights", std::move(rights)}});
  }
  const Json document = {{"tokens", std::move(rows)}};
  context.console.data(options.json ? json_text(document) : text);
  return ExitCode::ok;
}

ExitCode revoke(const Options& options, Context& context) {
  const base::Status folder = check_folder(options);
  if (!folder.ok()) return context.fail(folder);
  auto book = trust::TokenBook::open(options.folder());
  if (!book.ok()) return context.fail(book.status());
  const auto count = book->revoke(options.name, base::unix_seconds());
  if (!count.ok()) return context.fail(count.status());
  context.console.note(fmt::format("{} revoked; a running coordinator sees it within a second",
                                   base::format_counted(*count, "token")));
  return ExitCode::ok;
}

/// A verb of the family whose first argument is the coordinator's folder.
CLI::App* add(CLI::App& family, Context& context, const char* name, const std::string& description,
              const OptionsPtr& options, ExitCode (*action)(const Options&, Context&)) {
  CLI::App* verb = family.add_subcommand(name, description);
  verb->add_option("STATE", options->state, "The coordinator's --state folder")
      ->required()
      ->type_name("");
  set_action(verb, context, [&context, options, action] { return action(*options, context); });
  return verb;
}

}  // namespace

void add_token_verbs(CLI::App& app, Context& context) {
  CLI::App* family =
      add_family(app, "token", "Make and withdraw tokens: what people may do on a cluster");
  OptionsPtr options = std::make_shared<Options>();
  CLI::App* verb =
      add(*family, context, "make",
          describe("Make a person's token, in a file that only its owner reads",
                   {"troupe token make state alice --out alice.token",
                    "troupe token make state bob --rights read --for 7d --out bob.token"}),
          options, make);
  verb->add_option("NAME", options->name, "The person, as in its certificate")
      ->required()
      ->type_name("")
      ->check(check_name);
  verb->add_option("--rights", options->rights,
                   "One or more of read, submit, stop, join, admin, with commas between them")
      ->capture_default_str()
      ->check(check_rights)
      ->type_name("LIST");
  verb->add_option("--for", options->time, "How long it is valid")
      ->capture_default_str()
      ->check(check_lifetime)
      ->type_name("TIME");
  verb->add_option("--out", options->out, "The file to make, mode 0600; - for standard output")
      ->required()
      ->type_name("FILE");

  options = std::make_shared<Options>();
  verb = add(*family, context, "list",
             describe("List tokens: whose they are, what they give", {"troupe token list state"}),
             options, list);
  add_json_flag(*verb, options->json);

  options = std::make_shared<Options>();
  verb = add(*family, context, "revoke",
             describe("Withdraw a token, or all of a person", {"troupe token revoke state alice"}),
             options, revoke);
  verb->add_option("TOKEN", options->name, "A token's id, or a person's name")
      ->required()
      ->type_name("");
}

}  // namespace troupe::apps
