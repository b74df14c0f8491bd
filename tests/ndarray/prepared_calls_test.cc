// SPDX-License-Identifier: Apache-2.0
// Which requests are the same call.
#include "ndarray/prepared_calls.h"

#include <memory>
#include <string>
#include <vector>

#include "tests/support/catch.h"
#include "tests/support/test_runtime.h"

namespace troupe::ndarray {
namespace {

using base::DType;
using base::Shape;

std::shared_ptr<const PreparedCall> numbered(std::size_t number) {
  auto call = std::make_shared<PreparedCall>();
  call->scratch_bytes = number;
  return call;
}

TEST_CASE("a call is known by all that its caller says") {
  const ops::OpDef& add = tests::test_operators().at("add");
  const ops::OpDef& subtract = tests::test_operators().at("subtract");
  const std::vector<Operand> inputs = {{DType::f32, Shape{2}}, {DType::f32, Shape{2}}};
  const std::vector<Operand> longer = {{DType::f32, Shape{3}}, {DType::f32, Shape{2}}};
  const std::vector<Operand> other_rank = {{DType::f32, Shape{2, 1}}, {DType::f32, Shape{2}}};
  const std::vector<Operand> f64 = {{DType::f64, Shape{2}}, {DType::f32, Shape{2}}};
  const ops::Attributes none, axis = {{"axis", "1"}}, other_axis = {{"axis", "0"}};
  const base::Device cpu, second{base::DeviceKind::cpu, 1};
  const std::vector<CallRequest> requests = {
      {&add, &none, inputs, cpu, 1, false, false},
      {&subtract, &none, inputs, cpu, 1, false, false},
      {&add, &axis, inputs, cpu, 1, false, false},
      {&add, &other_axis, inputs, cpu, 1, false, false},
      {&add, &none, longer, cpu, 1, false, false},
      {&add, &none, other_rank, cpu, 1, false, false},
      {&add, &none, f64, cpu, 1, false, false},
      {&add, &none, std::span(inputs).first(1), cpu, 1, false, false},
      {&add, &none, inputs, second, 1, false, false},
      {&add, &none, inputs, cpu, 2, false, false},
      {&add, &none, inputs, cpu, 1, true, false},
      {&add, &none, inputs, cpu, 1, false, true},
  };
  PreparedCalls calls(requests.size());
  for (std::size_t i = 0; i < requests.size(); ++i) {
    INFO(i);
    CHECK(calls.find(requests[i]) == nullptr);
    calls.keep(requests[i], numbered(i));
  }
  for (std::size_t i = 0; i < requests.size(); ++i) {
    INFO(i);
    REQUIRE(calls.find(requests[i]) != nullptr);
    CHECK(calls.find(requests[i])->scratch_bytes == i);
  }
}

TEST_CASE("known calls own their words, and the one that was not used for longest goes") {
  const ops::OpDef& add = tests::test_operators().at("add");
  PreparedCalls calls(2);
  const auto with_request = [&](std::int64_t extent, auto&& use) {
    const ops::Attributes attributes = {{"an attribute of some length", std::string(40, 'x')}};
    const std::vector<Operand> inputs = {{DType::f32, Shape{extent}}};
    use(CallRequest{&add, &attributes, inputs});
  };
  const auto keep = [&](std::int64_t extent) {
    with_request(extent, [&](const CallRequest& request) {
      calls.keep(request, numbered(static_cast<std::size_t>(extent)));
    });
  };
  const auto known = [&](std::int64_t extent) {
    bool is_known = false;
    with_request(extent,
                 [&](const CallRequest& request) { is_known = calls.find(request) != nullptr; });
    return is_known;
  };
  keep(1);
  keep(2);
  CHECK(known(1));
  keep(3);
  CHECK(known(1));
  CHECK_FALSE(known(2));
  CHECK(known(3));
  keep(3);  // again
  CHECK(known(1));
}

}  // namespace
}  // namespace troupe::ndarray
