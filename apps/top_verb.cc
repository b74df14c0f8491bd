// SPDX-License-Identifier: Apache-2.0
// troupe top: a live picture of a cluster. One thread asks the coordinator, another one draws and
// takes keys, so the picture answers while a coordinator is lost.
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <atomic>
#include <chrono>
#include <memory>
#include <optional>
#include <thread>

#include "apps/coordinator_call.h"
#include "apps/stop_signals.h"
#include "apps/terminal.h"
#include "apps/top_view.h"
#include "apps/verbs.h"
#include "base/clock.h"
#include "base/mutex.h"
#include "base/units.h"

namespace troupe::apps {
namespace {

constexpr auto kKeyLook = std::chrono::milliseconds(50);
constexpr std::uint64_t kEveryLeastMs = 100;
constexpr std::uint64_t kEveryMostMs = 3'600'000;

struct TopVerb {
  std::string every = "1s";
  std::string grace;
  bool once = false;
  bool json = false;
};

std::string check_every(const std::string& text) {
  const auto every = base::parse_duration_ms(text);
  if (!every.ok()) return every.status().text();
  if (*every >= kEveryLeastMs && *every <= kEveryMostMs) return "";
  return fmt::format("'{}' is not from 100ms to 1h", text);
}

/// What the asking thread has found, for the drawing one.
class Watch {
 public:
  explicit Watch(std::string coordinator) : coordinator_(std::move(coordinator)) {}

  void take(base::Result<schemas::JobList> answer) {
    const base::MutexLock lock(mutex_);
    if (!answer.ok()) {
      end_ = answer.status();
      return;
    }
    newest_ = *std::move(answer);
    heard_ms_ = clock_.now_ms();
    trouble_.clear();
    ++answers_;
  }
  void lost(const base::Status& why, std::uint64_t left_ms) {
    const base::MutexLock lock(mutex_);
    trouble_ = why.text();
    until_ms_ = clock_.now_ms() + static_cast<std::int64_t>(left_ms);
  }
  /// Why no answer will come any more.
  std::optional<base::Status> end() const {
    const base::MutexLock lock(mutex_);
    return end_;
  }
  /// Grows with every answer.
  std::uint64_t answers() const {
    const base::MutexLock lock(mutex_);
    return answers_;
  }
  TopView view() const {
    const base::MutexLock lock(mutex_);
    const std::int64_t now = clock_.now_ms();
    TopView view{coordinator_, newest_, static_cast<std::uint64_t>(now - heard_ms_), trouble_, 0};
    if (!trouble_.empty() && until_ms_ > now) {
      view.left_ms = static_cast<std::uint64_t>(until_ms_ - now);
    }
    return view;
  }
  const base::Clock& clock() const { return clock_; }

 private:
  const std::string coordinator_;
  base::SteadyClock clock_;
  mutable base::Mutex mutex_;
  schemas::JobList newest_ TROUPE_GUARDED_BY(mutex_);
  std::int64_t heard_ms_ TROUPE_GUARDED_BY(mutex_) = 0;
  std::string trouble_ TROUPE_GUARDED_BY(mutex_);
  std::int64_t until_ms_ TROUPE_GUARDED_BY(mutex_) = 0;
  std::uint64_t answers_ TROUPE_GUARDED_BY(mutex_) = 0;
  std::optional<base::Status> end_ TROUPE_GUARDED_BY(mutex_);
};

/// Draws until a key, a signal or the watch ends it.
ExitCode draw_live(const Watch& watch, std::int64_t every_ms, const StopSignals& signals,
                   Context& context) {
  FullScreen screen(context.console);
  const bool color = !context.environment.no_color && !context.no_color;
  TerminalSize drawn_size;
  std::uint64_t drawn_answers = 0;
  std::optional<std::int64_t> drawn_ms;
  while (true) {
    if (signals.received() != 0) return exit_code_of_signal(signals.received());
    if (watch.end()) return ExitCode::ok;
    if (!context.console.data_written()) return ExitCode::ok;  // said at the end of the program
    const std::int64_t now = watch.clock().now_ms();
    const TerminalSize size = screen.size();
    const bool fresh = drawn_answers == 0 && watch.answers() > 0;
    if (fresh || !drawn_ms || size != drawn_size || now >= *drawn_ms + every_ms) {
      drawn_answers = watch.answers();
      drawn_size = size;
      drawn_ms = now;
      screen.draw(draw_top(watch.view(), {size.columns, size.rows, color}));
    }
    const std::optional<char> key = screen.key(kKeyLook);
    if (key == 'q' || key == 'Q') return ExitCode::ok;
  }
}

/// Asks until it is stopped or the coordinator is lost for good. Who asks nothing for
/// limits.request_ms is dropped, so rare pictures do not mean rare questions.
void ask_on(cluster::JobClient& client, Watch& watch, std::uint64_t every_ms,
            const std::atomic<bool>& stop) {
  const std::uint64_t pause_ms = std::min(every_ms, base::Limits().request_ms / 2);
  while (!stop.load()) {
    auto answer = client.cluster();
    if (stop.load()) return;
    const bool lost = !answer.ok();
    watch.take(std::move(answer));
    if (lost) return;
    const std::int64_t until_ms = watch.clock().now_ms() + static_cast<std::int64_t>(pause_ms);
    while (!stop.load() && watch.clock().now_ms() < until_ms) {
      std::this_thread::sleep_for(std::min(kKeyLook, std::chrono::milliseconds(pause_ms)));
    }
  }
}

ExitCode top(const TopVerb& options, Context& context) {
  const bool live = context.console.options().out_terminal && !options.once && !options.json;
  const std::uint64_t every_ms = base::parse_duration_ms(options.every).value();  // checked
  const StopSignals signals([](int) {});
  Watch watch(context.coordinator);
  std::atomic<bool> stop{false};
  std::atomic<bool> drawing{false};
  CoordinatorCall call;
  call.grace = options.grace;
  call.stop = [&] { return stop.load() || signals.received() != 0; };
  call.on_lost = [&](const base::Status& why, std::uint64_t left_ms) {
    if (drawing.load()) return watch.lost(why, left_ms);
    context.console.note(fmt::format("{}; tries again for {} s", why.text(), left_ms / 1'000));
  };
  return call_coordinator(call, context, [&](cluster::JobClient& client) {
    auto first = client.cluster();
    if (signals.received() != 0) return exit_code_of_signal(signals.received());
    if (!first.ok()) return context.fail(first.status());
    watch.take(std::move(first));
    if (!live) {
      const TopView view = watch.view();
      std::string text;
      for (const std::string& line : draw_top(view, {})) text += line + "\n";
      context.console.data(options.json ? json_text(json_of(view)) : text);
      return ExitCode::ok;
    }
    drawing = true;
    std::thread asker([&] { ask_on(client, watch, every_ms, stop); });
    const ExitCode code = draw_live(watch, static_cast<std::int64_t>(every_ms), signals, context);
    stop = true;
    asker.join();
    const auto end = watch.end();
    return end && code == ExitCode::ok ? context.fail(*end) : code;
  });
}

}  // namespace

void add_top_verb(CLI::App& app, Context& context) {
  CLI::App* verb = app.add_subcommand(
      "top", describe("Show jobs, machines and ranks of a cluster, again and again; q ends it",
                      {"troupe --coordinator 127.0.0.1:7700 top",
                       "troupe --coordinator 127.0.0.1:7700 top --once"}));
  const auto options = std::make_shared<TopVerb>();
  verb->add_option("--every", options->every, "Time between pictures")
      ->capture_default_str()
      ->check(check_every)
      ->type_name("TIME");
  verb->add_flag("--once", options->once,
                 "One picture, whole; also where standard output is no terminal or a dumb one");
  add_grace_option(*verb, options->grace);
  add_json_flag(*verb, options->json);
  set_action(verb, context, [&context, options] { return top(*options, context); });
}

}  // namespace troupe::apps
