// SPDX-License-Identifier: Apache-2.0
// From verbs to roff.
#include "apps/man_page.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <utility>

#include "apps/exit_code.h"

namespace troupe::apps {
namespace {

/// Text as roff reads it: signs that mean something, or that would become typographic ones.
std::string roff(std::string_view text) {
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '\\':
        out += "\\e";
        break;
      case '-':
        out += "\\-";
        break;
      case '\'':
        out += "\\(aq";
        break;
      case '`':
        out += "\\(ga";
        break;
      case '^':
        out += "\\(ha";
        break;
      case '~':
        out += "\\(ti";
        break;
      default:
        out += c;
    }
  }
  // A line that begins so is a request.
  return out.starts_with('.') ? "\\&" + out : out;
}

std::string bold(std::string_view text) {
  return fmt::format("\\fB{}\\fR", roff(text));
}

std::string italic(std::string_view text) {
  return fmt::format("\\fI{}\\fR", roff(text));
}

std::string sentence(const std::string& text) {
  return roff(text) + (text.empty() || text.ends_with('.') ? "" : ".") + "\n";
}

/// A tagged paragraph.
std::string item(const std::string& tag, const std::string& text) {
  return ".TP\n" + tag + "\n" + text;
}

std::string option_item(const OptionInfo& option) {
  std::string tag;
  for (const std::string& name : option.names) {
    if (!tag.empty()) tag += ", ";
    tag += bold(name);
  }
  if (!option.label.empty()) {
    if (!tag.empty()) tag += " ";
    tag += italic(option.label);
  }
  std::string text = sentence(option.meaning);
  if (option.required && !option.names.empty()) text += "Required.\n";
  if (option.repeats) text += "May be given several times.\n";
  if (!option.default_text.empty()) text += "Default: " + roff(option.default_text) + ".\n";
  return item(tag, text);
}

std::string option_items(const std::vector<OptionInfo>& options) {
  std::string text;
  for (const OptionInfo& option : options) text += option_item(option);
  return text;
}

std::string examples(const VerbInfo& verb) {
  if (verb.examples.empty()) return "";
  std::string text = ".PP\n.RS 4\n.nf\n";
  for (const std::string& line : verb.examples) text += roff(line) + "\n";
  return text + ".fi\n.RE\n";
}

/// "troupe data check [options] FILE.rec": what must be given, and that there is more.
std::string usage(const VerbInfo& program, const VerbInfo& verb) {
  std::string text = bold(program.name + " " + verb.path);
  for (const OptionInfo& option : verb.options) {
    if (option.required) {
      text.append(" ").append(bold(option.names.back()));
      if (!option.label.empty()) text.append(" ").append(italic(option.label));
    }
  }
  text += " [" + italic("options") + "]";
  for (const OptionInfo& argument : verb.arguments) {
    text.append(" ").append(italic(argument.label));
  }
  return text;
}

/// The verbs of a page that can be called, in order.
std::vector<const VerbInfo*> callable(const VerbInfo& verb) {
  if (verb.verbs.empty()) return {&verb};
  std::vector<const VerbInfo*> found;
  for (const VerbInfo* below : all_verbs(verb)) {
    if (below->verbs.empty()) found.push_back(below);
  }
  return found;
}

/// The variables that stand for options, and that of the log.
std::string environment() {
  constexpr std::array<std::pair<std::string_view, std::string_view>, 5> kVariables = {
      {{"TROUPE_COORDINATOR", "The coordinator, where --coordinator is not given."},
       {"TROUPE_IDENTITY", "The file that says who this is, where --identity is not given."},
       {"TROUPE_TOKEN_FILE", "The file with a person's token, where --token is not given."},
       {"TROUPE_LOG_LEVEL", "debug, info, warn or error, where neither -q nor -v is given."},
       {"TROUPE_KERNEL_CACHE",
        "Folder, an absolute path, that keeps the GPU kernels compiled for a job, so that the next "
        "job "
        "starts faster; it must belong to you, and nobody else may write in it. Empty: none are "
        "kept. "
        "Not set: troupe/kernels in XDG_CACHE_HOME, or in ~/.cache."}}};
  std::string text = ".SH ENVIRONMENT\n";
  for (const auto& [name, meaning] : kVariables) {
    text += item(bold(name), sentence(std::string(meaning)));
  }
  return text;
}

std::string exit_status() {
  std::string text = ".SH EXIT STATUS\n";
  for (const ExitCodeInfo& row : exit_code_table()) {
    text += item(bold(fmt::format("{}", static_cast<int>(row.code))),
                 sentence(std::string(row.meaning)));
  }
  return text;
}

/// "troupe-data".
std::string page_name(const VerbInfo& program, const VerbInfo& verb) {
  return verb.path.empty() ? program.name : program.name + "-" + verb.name;
}

std::string heading(const VerbInfo& program, const VerbInfo& verb, std::string_view version) {
  std::string title = page_name(program, verb);
  std::transform(title.begin(), title.end(), title.begin(),
                 [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
  // No date: a page depends on the version alone.
  std::string text = fmt::format(".TH {} 1 \"\" \"{} {}\" \"User Commands\"\n", roff(title),
                                 program.name, roff(version));
  return text + ".SH NAME\n" + roff(page_name(program, verb)) + " \\- " + roff(verb.summary) + "\n";
}

std::string program_page(const VerbInfo& program, std::string_view version) {
  std::string text = heading(program, program, version) + ".SH SYNOPSIS\n" + bold(program.name) +
                     " [" + italic("options") + "] " + italic("command") + " ...\n";
  text += ".SH DESCRIPTION\n" + sentence(program.summary) + ".SH COMMANDS\n";
  for (const VerbInfo& verb : program.verbs) {
    text += item(bold(page_name(program, verb)) + "(1)", sentence(verb.summary));
  }
  text += ".SH OPTIONS\n" + option_items(program.options) + environment() + exit_status();
  if (!program.examples.empty()) text += ".SH EXAMPLES\n" + examples(program);
  return text;
}

std::string verb_page(const VerbInfo& program, const VerbInfo& verb, std::string_view version) {
  const std::vector<const VerbInfo*> verbs = callable(verb);
  const auto heading_of = [&program](const VerbInfo& each) {
    return ".SS " + roff(program.name + " " + each.path) + "\n";
  };
  std::string text = heading(program, verb, version) + ".SH SYNOPSIS\n";
  for (const VerbInfo* each : verbs) {
    text += usage(program, *each) + "\n" + (each == verbs.back() ? "" : ".br\n");
  }
  text += ".SH DESCRIPTION\n" + sentence(verb.summary) + examples(verb);
  for (const VerbInfo* each : verbs) {
    if (each != &verb) text += heading_of(*each) + sentence(each->summary) + examples(*each);
  }
  text += ".SH OPTIONS\n";
  for (const VerbInfo* each : verbs) {
    const std::string items = option_items(each->arguments) + option_items(each->options);
    if (each != &verb && !items.empty()) text += heading_of(*each);
    text += items;
  }
  text += ".SS Of every command\n" + option_items(program.options) + environment() + exit_status();
  return text + ".SH SEE ALSO\n" + bold(program.name) + "(1)\n";
}

}  // namespace

std::vector<ManPage> man_pages(const VerbInfo& program, std::string_view version) {
  constexpr std::string_view kSuffix = ".1";
  std::vector<ManPage> pages;
  const auto add = [&](const VerbInfo& verb, std::string text) {
    pages.push_back({page_name(program, verb) + std::string(kSuffix), std::move(text)});
  };
  add(program, program_page(program, version));
  for (const VerbInfo& verb : program.verbs) add(verb, verb_page(program, verb, version));
  return pages;
}

}  // namespace troupe::apps
