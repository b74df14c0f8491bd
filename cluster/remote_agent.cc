// SPDX-License-Identifier: Apache-2.0
// The shell's script, and quoting. The script is for any POSIX shell and stands in one line, since
// the user's own shell, which reads it first, may be of another kind (csh, fish).
#include "cluster/remote_agent.h"

#include <fmt/format.h>

#include <cctype>
#include <cstdint>
#include <numeric>
#include <sstream>

namespace troupe::cluster {
namespace {

// The input: a file's name, then its lines, each behind "="; so for each file; and at last "end".
constexpr std::string_view kIdentity = "identity.pem";
constexpr std::string_view kPagesPem = "pages.pem";
constexpr std::string_view kPagesToken = "pages.token";
constexpr std::string_view kEnd = "end";
/// The run's coordinator does not come back: a link heals long before this.
constexpr std::string_view kJoinWait = "30s";

/// $1: the host's own address if ssh does not tell it; $2: the coordinator's host; $3 and $4: the
/// program and another one; then the words behind `agent --advertise ADDRESS`.
constexpr std::string_view kScript =
    // The folder goes in any case; the signals are those that a session's end may bring.
    // The shell's own messages of ended processes must not end it where nobody reads them any more.
    "trap \"\" PIPE; clean() { rm -rf \"$folder\"; }; trap \"exit 143\" HUP INT TERM; trap clean "
    "EXIT; "
    "folder=$(mktemp -d \"${TMPDIR:-/tmp}/troupe-agent-XXXXXX\") || exit 1; "
    // `read` takes no byte beyond the last line, which is the next reader's.
    "(umask 077; while IFS= read -r line; do case $line in "
    "=*) printf \"%s\\n\" \"${line#=}\" >>\"$folder/$file\" || exit 1;; "
    "end) exit 0;; *) file=$line;; esac; done; exit 1) || exit 1; "
    // By which address ssh came is by which other machines come, too.
    "own=$1; near=$2; program=$3; other=$4; shift 4; "
    "[ -z \"$SSH_CONNECTION\" ] || own=$(set -- $SSH_CONNECTION; echo \"$3\"); "
    "case $own in 127.*|::1|localhost) own=$near;; esac; "
    "command -v \"$program\" >/dev/null || program=${other:-$program}; "
    "command -v \"$program\" >/dev/null || "
    "{ echo \"there is no program $program here; --remote-troupe PATH says where it is\" >&2; "
    "exit 127; }; "
    "[ -e \"$folder/pages.pem\" ] && set -- --metrics-tls \"$folder/pages.pem\" \"$@\"; "
    "[ -e \"$folder/pages.token\" ] && set -- --metrics-token \"$folder/pages.token\" \"$@\"; "
    // A signal may come before the agent is known.
    "agent=; asked=; stop() { asked=1; [ -z \"$agent\" ] || kill -TERM \"$agent\"; }; "
    "trap stop HUP INT TERM; "
    // Two wait: this shell for the agent, another one for the end of the input.
    "exec 3<&0; "
    "\"$program\" --identity \"$folder/identity.pem\" agent --advertise \"$own\" \"$@\" "
    "</dev/null 3<&- & agent=$!; "
    "(while read -r line; do :; done; kill -TERM $agent) <&3 2>/dev/null & input=$!; "
    "[ -z \"$asked\" ] || kill -TERM $agent; "
    "while :; do wait $agent; code=$?; kill -0 $agent 2>/dev/null || break; done; "
    // A signal may have come together with the end, and hide its code. 127: that was told already.
    "wait $agent; last=$?; [ $last -eq 127 ] || code=$last; "
    "kill $input 2>/dev/null; exit $code";

/// "cpu:3", "gpu:0,1,2".
std::string devices_of(const RemoteAgent& agent) {
  if (agent.device == schemas::WorkerDevice::cpu) return fmt::format("cpu:{}", agent.host.slots);
  std::vector<std::uint32_t> indices(agent.host.slots);
  std::iota(indices.begin(), indices.end(), 0);
  return fmt::format("gpu:{}", fmt::join(indices, ","));
}

}  // namespace

base::Result<std::vector<std::string>> split_words(std::string_view text) {
  std::vector<std::string> words;
  bool inside = false;
  char quote = 0;
  for (const char c : text) {
    const bool space = std::isspace(static_cast<unsigned char>(c)) != 0;
    if (quote == 0 && space) {
      inside = false;
      continue;
    }
    if (!inside) words.emplace_back();
    inside = true;
    if (quote == 0 && (c == '\'' || c == '"')) {
      quote = c;
    } else if (c == quote) {
      quote = 0;
    } else {
      words.back() += c;
    }
  }
  if (quote != 0) {
    return base::error(base::Errc::invalid_argument, "'{}': a quote has no end", text);
  }
  if (words.empty() || words.front().empty()) {
    return base::error(base::Errc::invalid_argument, "'{}': no program", text);
  }
  return words;
}

std::string quote_word(std::string_view word) {
  std::string quoted = "'";
  for (const char c : word) {
    if (c == '\'') {
      quoted += "'\\''";
    } else {
      quoted += c;
    }
  }
  return quoted + "'";
}

std::string remote_command(const RemoteAgent& agent) {
  const std::vector<std::string> words = {agent.host.host, agent.nearby, agent.program,
                                          agent.fallback};
  std::string command = "exec sh -c " + quote_word(kScript) + " troupe-agent";
  const auto add = [&command](std::string_view word) {
    command.append(1, ' ').append(quote_word(word));
  };
  for (const std::string& word : words) add(word);
  for (const std::string_view word :
       {std::string_view("--join"), std::string_view(agent.join), std::string_view("--name"),
        std::string_view(agent.host.name), std::string_view("--join-wait"), kJoinWait}) {
    add(word);
  }
  add("--devices");
  add(devices_of(agent));
  if (!agent.pages) {
    add("--metrics");
    add("127.0.0.1:0");
  }
  add(agent.verbose ? "--verbose" : "--quiet");
  return command;
}

std::string remote_input(const RemoteFiles& files) {
  std::string input;
  const auto add = [&input](std::string_view name, const std::string& text) {
    if (text.empty()) return;
    input.append(name).append("\n");
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);) input += "=" + line + "\n";
  };
  add(kIdentity, files.identity);
  add(kPagesPem, files.pages_pem);
  add(kPagesToken, files.pages_token);
  return input.append(kEnd) + "\n";
}

}  // namespace troupe::cluster
