#include "ir/change.h"

#include <catch2/catch.hpp>
#include <string>

#include "ir/text.h"

using namespace skirl;

namespace {

/// The one change between two layouts of f64[8,6] on {a:2, b:2, c:3}; "" if there is none.
std::string change(std::string from, std::string to) {
  for (std::string* layout : {&from, &to})  // the second dimension may be left out
    if (const std::size_t end = layout->find(']'); end != std::string::npos && layout->find(',') > end) layout->insert(end, ", -");
  const std::string value = " = input \"x\" : f64[8,6] @s0 ";
  const Graph g = parse("mesh @s0 {a:2, b:2, c:3} devices 0 1 2 3 4 5 6 7 8 9 10 11\n%0" + value + from + "\n%1" + value + to + "\n");
  std::vector<ValueId> values;
  g.for_each_node([&](NodeId node) { values.push_back(g.result(node)); });
  const std::optional<Op> op = change_between(g, g.layout(values[0]), g.layout(values[1]), {8, 6});
  return op ? info(*op).name : "";
}

}  // namespace

TEST_CASE("the change between two layouts is found, over one axis or several") {
  CHECK(change("partial(a)", "") == "all_reduce");
  CHECK(change("partial(a b:max)", "partial(b:max)") == "all_reduce");
  CHECK(change("partial(a b c)", "partial(b)") == "all_reduce");
  CHECK(change("[c] partial(a b)", "[c]") == "all_reduce");
  CHECK(change("partial(a b)", "[a b]") == "reduce_scatter");
  CHECK(change("[c] partial(a b)", "[c b, a]") == "reduce_scatter");
  CHECK(change("[a b]", "") == "all_gather");
  CHECK(change("[a b, c]", "[a]") == "all_gather");
  CHECK(change("[a b, c]", "[b {0..2 4..6; 2..4 6..8}]") == "all_gather");
  CHECK(change("[a]", "[-, a]") == "all_to_all");
  CHECK(change("[a b]", "[-, b a]") == "all_to_all");
  CHECK(change("[a]", "[a {0..2 6..8; 2..6}]") == "all_to_all");
  CHECK(change("[c b]", "[b c]") == "all_to_all");  // 8 over 3 then 2 has other pieces than over 2 then 3
  CHECK(change("[a b]", "[b a]") == "permute");
  CHECK(change("[a]", "[a {4..8; 0..4}]") == "permute");
  CHECK(change("[a {0..2 6..8; 2..6}]", "[a {2..6; 0..2 6..8}]") == "permute");
  CHECK(change("", "[a b]") == "local_slice");
  CHECK(change("[a]", "[a b, c]") == "local_slice");
  CHECK(change("[c]", "[c] partial(a b)") == "zero_rest");
}

TEST_CASE("what is no change, several changes, or none that a collective makes, has no name") {
  CHECK(change("[a]", "[a]") == "");
  CHECK(change("partial(a b)", "[a]") == "");
  CHECK(change("partial(a b:max)", "") == "");
  CHECK(change("[a]", "[b]") == "");
  CHECK(change("[a b]", "[b]") == "");
  CHECK(change("[b]", "[a b]") == "");
  CHECK(change("[a]", "partial(a)") == "");
  CHECK(change("", "partial(a:max)") == "");
  CHECK(change("[a] partial(b)", "[a {0..2 6..8; 2..6}]") == "");
}
