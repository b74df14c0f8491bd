// SPDX-License-Identifier: Apache-2.0
// The three scripts. Names of verbs and options are letters and dashes; only texts are quoted.
#include "apps/completion.h"

#include <fmt/core.h>

#include <set>
#include <string_view>

namespace troupe::apps {
namespace {

/// Names of the options whose values are of this kind, those of the program included, with a space
/// before and behind each.
std::string names_of_kind(const VerbInfo& program, const VerbInfo& verb, WordKind kind) {
  std::set<std::string> names;
  for (const VerbInfo* level : {&program, &verb}) {
    for (const OptionInfo& option : level->options) {
      if (option.kind == kind) names.insert(option.names.begin(), option.names.end());
    }
  }
  std::string text = " ";
  for (const std::string& name : names) text += name + " ";
  return text;
}

/// All that may stand where an option may: every name once.
std::string option_words(const VerbInfo& program, const VerbInfo& verb) {
  std::string text;
  std::set<std::string> seen;
  for (const VerbInfo* level : {&verb, &program}) {
    for (const OptionInfo& option : level->options) {
      for (const std::string& name : option.names) {
        if (seen.insert(name).second) text += (text.empty() ? "" : " ") + name;
      }
    }
  }
  return text;
}

std::string verb_words(const VerbInfo& verb) {
  std::string text;
  for (const VerbInfo& child : verb.verbs) text += (text.empty() ? "" : " ") + child.name;
  return text;
}

std::string_view kind_word(const VerbInfo& verb) {
  if (verb.arguments.empty()) return "";
  switch (verb.arguments.front().kind) {
    case WordKind::file:
      return "file";
    case WordKind::folder:
      return "folder";
    case WordKind::text:
    case WordKind::none:
      return "";
  }
  return "";
}

std::string bash_case(const VerbInfo& program, const VerbInfo& verb) {
  return fmt::format(
      "    \"{}\")\n      verbs=\"{}\"\n      options=\"{}\"\n      files=\"{}\"\n"
      "      folders=\"{}\"\n      texts=\"{}\"\n      argument=\"{}\" ;;\n",
      verb.path, verb_words(verb), option_words(program, verb),
      names_of_kind(program, verb, WordKind::file), names_of_kind(program, verb, WordKind::folder),
      names_of_kind(program, verb, WordKind::text), kind_word(verb));
}

/// Reads the words before the cursor. bash cuts words at ':' and '=', so a value may be several.
constexpr std::string_view kBashWalk = R"bash(
# The kind of value behind the option: file, folder or text; nothing for a flag.
_PROGRAM_kind() {
  if [[ $files == *" $1 "* ]]; then
    echo file
  elif [[ $folders == *" $1 "* ]]; then
    echo folder
  elif [[ $texts == *" $1 "* ]]; then
    echo text
  fi
}

_PROGRAM_paths() {
  compopt -o filenames 2>/dev/null
  if [[ $1 == folder ]]; then
    mapfile -t COMPREPLY < <(compgen -d -- "$2")
  else
    mapfile -t COMPREPLY < <(compgen -f -- "$2")
  fi
}

_PROGRAM() {
  local verbs options files folders texts argument
  local verb="" kind="" current=${COMP_WORDS[COMP_CWORD]} word i
  COMPREPLY=()
  _PROGRAM_verb ""
  for ((i = 1; i < COMP_CWORD; ++i)); do
    word=${COMP_WORDS[i]}
    if [[ -n $kind ]]; then
      [[ $word == "=" ]] && continue
      while [[ ${COMP_WORDS[i + 1]-} == [:=] ]]; do
        ((i += 2))
      done
      ((i < COMP_CWORD)) || return 0
      kind=""
    elif [[ $word == -* ]]; then
      kind=$(_PROGRAM_kind "$word")
    elif _PROGRAM_verb "${verb:+$verb }$word"; then
      verb="${verb:+$verb }$word"
    fi
  done
  if [[ -n $kind ]]; then
    [[ $current == "=" ]] && current=""
    [[ $kind == text ]] || _PROGRAM_paths "$kind" "$current"
  elif [[ $current == -* ]]; then
    mapfile -t COMPREPLY < <(compgen -W "$options" -- "$current")
  elif [[ -n $verbs ]]; then
    mapfile -t COMPREPLY < <(compgen -W "$verbs" -- "$current")
  elif [[ -n $argument ]]; then
    _PROGRAM_paths "$argument" "$current"
  fi
}

complete -F _PROGRAM PROGRAM
)bash";

std::string replace_all(std::string text, std::string_view from, std::string_view to) {
  for (std::size_t at = text.find(from); at != std::string::npos;
       at = text.find(from, at + to.size())) {
    text.replace(at, from.size(), to);
  }
  return text;
}

/// For 'single quotes' of a shell.
std::string in_quotes(const std::string& text) {
  return fmt::format("'{}'", replace_all(text, "'", "'\\''"));
}

/// In a specification of _arguments or _describe some characters mean something.
std::string zsh_text(const std::string& text) {
  std::string escaped;
  for (const char c : text) {
    if (c == '[' || c == ']' || c == ':' || c == '\\') escaped += '\\';
    escaped += c;
  }
  return escaped;
}

std::string zsh_action(WordKind kind) {
  if (kind == WordKind::file) return "_files";
  return kind == WordKind::folder ? "_files -/" : " ";
}

/// "_troupe_data_pack".
std::string zsh_function(const VerbInfo& program, const VerbInfo& verb) {
  return fmt::format("_{}{}{}", program.name, verb.path.empty() ? "" : "_",
                     replace_all(verb.path, " ", "_"));
}

/// One specification for each name: with several, one excludes the others.
std::string zsh_option(const OptionInfo& option) {
  std::string others;
  for (const std::string& name : option.names) others += (others.empty() ? "" : " ") + name;
  std::string text;
  for (const std::string& name : option.names) {
    std::string spec = option.repeats ? "*" : "(" + others + ")";
    spec += name + "[" + zsh_text(option.meaning) + "]";
    if (option.kind != WordKind::none) {
      spec += fmt::format(":{}:{}", zsh_text(option.label), zsh_action(option.kind));
    }
    text += "    " + in_quotes(spec) + " \\\n";
  }
  return text;
}

std::string zsh_verb(const VerbInfo& program, const VerbInfo& verb) {
  std::string text = zsh_function(program, verb) +
                     "() {\n  local state line\n  typeset -A opt_args\n  _arguments -C \\\n";
  for (const OptionInfo& option : verb.options) text += zsh_option(option);
  if (&verb != &program) {
    for (const OptionInfo& option : program.options) text += zsh_option(option);
  }
  if (verb.verbs.empty()) {
    int position = 0;
    for (const OptionInfo& argument : verb.arguments) {
      const std::string spec =
          fmt::format("{}:{}:{}", ++position, zsh_text(argument.label), zsh_action(argument.kind));
      text += "    " + in_quotes(spec) + " \\\n";
    }
    return text + "    && return 0\n  return 1\n}\n\n";
  }
  text +=
      "    '1: :->verb' '*:: :->rest' && return 0\n"
      "  case $state in\n  verb)\n    local -a verbs=(\n";
  for (const VerbInfo& child : verb.verbs) {
    text += "      " + in_quotes(child.name + ":" + zsh_text(child.summary)) + "\n";
  }
  text += "    )\n    _describe -t commands command verbs ;;\n  rest)\n    case $line[1] in\n";
  for (const VerbInfo& child : verb.verbs) {
    text += fmt::format("    {}) {} ;;\n", child.name, zsh_function(program, child));
  }
  return text + "    esac ;;\n  esac\n}\n\n";
}

/// In fish's 'single quotes' a backslash and a quote are escaped.
std::string fish_quoted(const std::string& text) {
  return fmt::format("'{}'", replace_all(replace_all(text, "\\", "\\\\"), "'", "\\'"));
}

std::string fish_value(WordKind kind) {
  switch (kind) {
    case WordKind::none:
      return "";
    case WordKind::text:
      return " -x";
    case WordKind::file:
      return " -r -F";
    case WordKind::folder:
      return " -x -a '(__fish_complete_directories)'";
  }
  return "";
}

/// `when`: a condition with its -n, or empty for everywhere.
std::string fish_option(const VerbInfo& program, const std::string& when,
                        const OptionInfo& option) {
  std::string text = "complete -c " + program.name + when;
  for (const std::string& name : option.names) {
    text += name.starts_with("--") ? " -l " + name.substr(2) : " -s " + name.substr(1);
  }
  return text + fish_value(option.kind) + " -d " + fish_quoted(option.meaning) + "\n";
}

std::string fish_verb(const VerbInfo& program, const VerbInfo& verb) {
  const bool top = verb.path.empty();
  const std::string when = fmt::format(" -n \"__{}_at '{}'\"", program.name, verb.path);
  std::string text;
  for (const OptionInfo& option : verb.options) {
    text += fish_option(program, top ? "" : when, option);
  }
  for (const VerbInfo& child : verb.verbs) {
    text += fmt::format("complete -c {}{} -a {} -d {}\n", program.name, when, child.name,
                        fish_quoted(child.summary));
  }
  if (kind_word(verb) == "file") text += fmt::format("complete -c {}{} -F\n", program.name, when);
  if (kind_word(verb) == "folder") {
    text +=
        fmt::format("complete -c {}{} -a '(__fish_complete_directories)'\n", program.name, when);
  }
  return text;
}

constexpr std::string_view kFishWalk = R"fish(
# True when the verbs before the cursor are the argument.
function __PROGRAM_at
    set -l verb
    set -l value 0
    set -l words (commandline -opc)
    for word in $words[2..-1]
        if test $value = 1
            set value 0
        else if contains -- $word $__PROGRAM_valued
            set value 1
        else if contains -- (string join ' ' -- $verb $word) $__PROGRAM_verbs
            set -a verb $word
        end
    end
    set -l path (string join ' ' -- $verb)
    test "$path" = "$argv[1]"
end

complete -c PROGRAM -f
)fish";

std::string heading(const VerbInfo& program, std::string_view shell, std::string_view use) {
  return fmt::format(
      "# Completes `{0}` in {1}; made by `{0} completion {1}`. To use it:\n#   {2}\n", program.name,
      shell, use);
}

}  // namespace

std::string bash_completion(const VerbInfo& program) {
  std::string text =
      heading(program, "bash", fmt::format("source <({} completion bash)", program.name));
  text += fmt::format("\n# What may follow a verb; 1: there is no such verb.\n_{}_verb() {{\n",
                      program.name);
  text += "  case $1 in\n" + bash_case(program, program);
  for (const VerbInfo* verb : all_verbs(program)) text += bash_case(program, *verb);
  text += "    *) return 1 ;;\n  esac\n}\n";
  return text + replace_all(std::string(kBashWalk), "PROGRAM", program.name);
}

std::string zsh_completion(const VerbInfo& program) {
  std::string text = fmt::format("#compdef {}\n", program.name);
  text += heading(program, "zsh", fmt::format("source <({} completion zsh)", program.name)) + "\n";
  for (const VerbInfo* verb : all_verbs(program)) text += zsh_verb(program, *verb);
  text += zsh_verb(program, program);
  return text + fmt::format(
                    "if [[ $funcstack[1] == _{0} ]]; then\n  _{0} \"$@\"\nelse\n"
                    "  compdef _{0} {0}\nfi\n",
                    program.name);
}

std::string fish_completion(const VerbInfo& program) {
  std::string text =
      heading(program, "fish", fmt::format("{} completion fish | source", program.name));
  std::string verbs, valued;
  std::set<std::string> seen;
  const auto add_valued = [&](const VerbInfo& verb) {
    for (const OptionInfo& option : verb.options) {
      for (const std::string& name : option.names) {
        if (option.kind != WordKind::none && seen.insert(name).second) valued += " " + name;
      }
    }
  };
  add_valued(program);
  for (const VerbInfo* verb : all_verbs(program)) {
    verbs.append(" ").append(fish_quoted(verb->path));
    add_valued(*verb);
  }
  text +=
      fmt::format("\nset -g __{0}_verbs{1}\nset -g __{0}_valued{2}\n", program.name, verbs, valued);
  text +=
      replace_all(std::string(kFishWalk), "PROGRAM", program.name) + fish_verb(program, program);
  for (const VerbInfo* verb : all_verbs(program)) text += fish_verb(program, *verb);
  return text;
}

}  // namespace troupe::apps
