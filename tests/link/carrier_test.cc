// SPDX-License-Identifier: Apache-2.0
// What every carrier promises, over all of them: whole, in order, ended and closed as said.
#include "link/carrier.h"

#include <random>

#include "tests/link/carrier_support.h"

namespace troupe::link {
namespace {

using test::Ends;
using test::Reader;
using test::tls_of;

/// The kinds of carriers, by name: both ends of one connection.
std::unique_ptr<Ends> make_ends(const std::string& kind) {
  if (kind == "plain") return std::make_unique<Ends>(make_plain_carrier, make_plain_carrier);
  static const test::Cluster cluster;
  static const auto agent = tls_of(cluster.make(trust::Role::agent, "a"));
  static const auto coordinator = tls_of(cluster.make(trust::Role::coordinator, "main"));
  return std::make_unique<Ends>(
      [](Socket socket) { return make_tls_carrier(std::move(socket), agent, TlsEnd::dialing); },
      [](Socket socket) {
        return make_tls_carrier(std::move(socket), coordinator, TlsEnd::accepting);
      });
}

std::vector<std::byte> noise(std::size_t bytes) {
  std::mt19937 random(static_cast<unsigned>(bytes));
  std::vector<std::byte> made(bytes);
  for (std::byte& each : made) each = static_cast<std::byte>(random());
  return made;
}

TEST_CASE("bytes come whole and in order, in pieces of any size", "[carrier]") {
  const std::string kind = GENERATE("plain", "tls");
  const auto places = GENERATE(std::pair<std::size_t, std::size_t>{0, 1}, std::pair{7, 100},
                               std::pair{0, 32'768}, std::pair{1'048'576, 4'096});
  CAPTURE(kind, places.first, places.second);
  const bool tiny = places.second == 1;
  auto ends = make_ends(kind);
  Reader reader(ends->b, places.first, places.second);
  reader.start();
  std::vector<std::vector<std::byte>> sent;
  for (const std::size_t bytes : {1, 64, 100, 16'383, 16'384, 16'385, 40'000, 3'000'001}) {
    sent.push_back(noise(tiny ? bytes % 5'000 + 1 : bytes));
  }
  std::vector<std::byte> wanted;
  for (const auto& each : sent) wanted.insert(wanted.end(), each.begin(), each.end());
  for (int round = 0; round < 2; ++round) {
    bool done = false;
    std::vector<std::span<const std::byte>> pieces(sent.begin(), sent.end());
    ends->a->send(
        std::move(pieces), [] { return true; },
        [&](const base::Status& status) { done = status.ok(); });
    CHECK_FALSE(done);  // never inside of the call
    ends->until([&] { return done; });
  }
  ends->until([&] { return reader.text.size() >= 2 * wanted.size(); });
  std::vector<std::byte> twice = wanted;
  twice.insert(twice.end(), wanted.begin(), wanted.end());
  CHECK((reader.text == twice));
}

TEST_CASE("both directions carry at once, and the end comes behind what was sent", "[carrier]") {
  const std::string kind = GENERATE("plain", "tls");
  CAPTURE(kind);
  auto ends = make_ends(kind);
  const auto text = noise(2'000'000);
  Reader at_a(ends->a, 0, 30'000);
  Reader at_b(ends->b, 1'000, 30'000);
  at_a.start();
  at_b.start();
  int done = 0;
  for (const auto& carrier : {ends->a, ends->b}) {
    carrier->send(
        {text}, [] { return true; }, [&](const base::Status&) { ++done; });
  }
  ends->until([&] { return done == 2; });
  ends->a->finish();
  ends->until([&] { return at_b.end.has_value(); });
  CHECK((at_b.text == text));
  CHECK(at_b.end->code() == base::Errc::unavailable);
  CHECK(at_b.end->text() == "connection closed");
  bool late = false;  // the other direction is still open
  ends->b->send(
      {std::span(text).first(10)}, [] { return true; }, [&](const base::Status&) { late = true; });
  ends->until([&] { return late && at_a.text.size() == text.size() + 10; });
  CHECK_FALSE(at_a.end.has_value());
}

TEST_CASE("nothing is called back after close, and the peer learns of it", "[carrier]") {
  const std::string kind = GENERATE("plain", "tls");
  CAPTURE(kind);
  auto ends = make_ends(kind);
  Reader at_a(ends->a, 0, 100);
  Reader at_b(ends->b, 0, 100);
  at_a.start();
  at_b.start();
  const auto hello = noise(10);
  bool sent = false;
  ends->a->send(
      {hello}, [] { return true; }, [&](const base::Status&) { sent = true; });
  ends->until([&] { return sent && at_b.text.size() == hello.size(); });
  const auto large = noise(50'000'000);
  bool called = false;
  ends->a->send(
      {large}, [] { return true; }, [&](const base::Status&) { called = true; });
  ends->a->close();
  ends->until([&] { return at_b.end.has_value(); });
  CHECK_FALSE(called);
  CHECK_FALSE(at_a.end.has_value());
  CHECK(at_b.end->code() == base::Errc::unavailable);
}

TEST_CASE("sending stops when its progress says so", "[carrier]") {
  const std::string kind = GENERATE("plain", "tls");
  CAPTURE(kind);
  auto ends = make_ends(kind);
  const auto large = noise(50'000'000);
  Reader at_b(ends->b, 0, 1'000'000);
  at_b.start();
  int calls = 0;
  bool sent = false;
  ends->a->send(
      {large}, [&] { return ++calls < 3; }, [&](const base::Status&) { sent = true; });
  ends->until([&] { return calls >= 3; });
  ends->a->close();
  ends->until([&] { return at_b.end.has_value(); });
  CHECK(at_b.text.size() < large.size());
}

}  // namespace
}  // namespace troupe::link
