#include <catch2/catch.hpp>

#include "ir/text.h"
#include "ir/verify.h"

using namespace skirl;

namespace {

/// "R4 message" of each breach, one a line.
std::string breaches(const Graph& g) {
  std::string text;
  for (const Breach& breach : verify(g)) text += "R" + std::to_string(breach.rule) + " " + breach.message + "\n";
  return text;
}
std::string breaches(const std::string& text) { return breaches(parse(text)); }

const std::string kMeshes =
    "mesh @s0 {dp:2, tp:2} devices 0 1 2 3\n"
    "mesh @s1 {dp:2, tp:2} devices 4 5 6 7\n"
    "mesh @u0 = @s0 @s1\n";

NodeId node(const Graph& g, Op op) {
  NodeId found;
  g.for_each_node([&](NodeId n) {
    if (g[n].op == op) found = n;
  });
  return found;
}

}  // namespace

TEST_CASE("verify accepts a data-parallel, tensor-parallel step with a transfer") {
  CHECK(breaches(kMeshes + R"(
%0 = input "x" {cut=0} : f64[8,6] @s0 [dp, tp] F
%1 = param "w" : f64[6,6] @s0 [tp, -] F
%2 = einsum "bh,hf->bf" %0 %1 : f64[8,6] @s0 [dp, -] partial(tp) F
%3 = scale {factor=2} %2 : f64[8,6] @s0 [dp, -] partial(tp) F
%4 = reduce_scatter %3 : f64[8,6] @s0 [dp tp, -] F
%5 = all_gather %4 : f64[8,6] @s0 [dp, -] F
%6 = tanh %5 : f64[8,6] @s0 [dp, -] F
%7 = send %6 : f64[8,6] @s0 [dp, -] F
%8 = recv %7 : f64[8,6] @s1 [-, tp] F
%9 = sum_to {shape=[]} %8 : f64[] @s1 partial(tp) F
%10 = all_reduce %9 : f64[] @s1 F
%11 = loss {weight=1, count=8} %10 : f64[] @s1 F
output "loss" {kind=loss} %11 U mesh=@s1
)") == "");
}

TEST_CASE("verify accepts a parameter on a union, viewed, its gradient joined, reduced and updated") {
  CHECK(breaches(kMeshes + R"(
%0 = param "w" : f64[6] @u0 F
%1 = view %0 : f64[6] @s0 F
%2 = view %0 : f64[6] @s1 F
%3 = tanh %1 : f64[6] @s0 F
%4 = tanh %2 : f64[6] @s1 F
%5 = join %3 %4 : f64[6] @u0 partial(copy) U
%6 = all_reduce %5 : f64[6] @u0 U
%7 = sgd %0 %6 : f64[6] @u0 U
output "w" {kind=param} %7 U mesh=@u0
)") == "");
}

TEST_CASE("R1: an operand whose producer is gone, named") {
  Graph g = parse("%0 = input \"x\" : f64[2]\n%1 = tanh %0\n%2 = tanh %1\n");
  g[g.operand(node(g, Op::Tanh), 0)].producer = NodeId();
  CHECK(breaches(g) ==
        "R1 %1 = tanh (F): result 0 says that another node makes it\n"
        "R1 %2 = tanh (F): operand 0 has no producer\n");
}

TEST_CASE("R2: a cycle of data and control edges is printed as a path") {
  CHECK(breaches(R"(
%0 = input "x" : f64[2]
%1 = tanh %0 after=[%3]
%2 = tanh %1
%3 = tanh %2
)") == "R2 %1 = tanh (F): a cycle: %1 -> %2 -> %3 -> %1\n");
}

TEST_CASE("R2: the two halves of a transfer are one event, so blocking sends that cross are a cycle") {
  const std::string crossing = kMeshes + R"(
%0 = input "x" : f64[2] @s0
%1 = input "y" : f64[2] @s1
%2 = send %0 : f64[2] @s0
%3 = recv %2 : f64[2] @s1 after=[%4]
%4 = send %1 : f64[2] @s1
%5 = recv %4 : f64[2] @s0
)";
  CHECK(breaches(crossing) == "");
  std::string stuck = crossing;
  stuck.replace(stuck.rfind("@s0"), 3, "@s0 after=[%2]");
  CHECK(breaches(stuck) == "R2 %2 = send (F): a cycle: %2 (send @s0 to @s1) -> %4 (send @s1 to @s0) -> %2 (send @s0 to @s1)\n");
}

TEST_CASE("R3: types that the operator does not give, wrong operands, an origin that is too long") {
  Graph g = parse("%0 = input \"x\" : f64[2]\n%1 = tanh %0\n");
  g[g.result(node(g, Op::Tanh))].type = g.intern(TensorType{DType::F64, {3}});
  CHECK(breaches(g) == "R3 %1 = tanh (F): its results are f64[3], expected f64[2]\n");
  g = parse("%0 = input \"x\" : f64[2]\n%1 = tanh %0 origin=[0,0]\n");
  CHECK(breaches(g) == "R3 %1 = tanh (F): its origin has 2 entries, its rule 1 factors\n");
}

TEST_CASE("R4: cuts against the factor rule") {
  const std::string head = kMeshes + "%0 = input \"x\" : f64[8,6] @s0 [dp, -]\n%1 = input \"w\" : f64[6,4] @s0 [tp, -]\n";
  SECTION("two dimensions of one factor") {
    CHECK(breaches(head + "%2 = einsum \"bh,hf->bf\" %0 %1 : f64[8,4] @s0 [dp, -] partial(tp)\n") ==
          "R4 %2 = einsum (F): operand 0 is @s0 [dp, -], expected factor 'h' (dimension 1) cut as elsewhere, @s0 [dp, tp]\n");
  }
  SECTION("one axis for two factors") {
    CHECK(breaches(kMeshes + R"(
%0 = input "x" : f64[8,6] @s0 [dp, -]
%1 = input "w" : f64[6,4] @s0 [-, dp]
%2 = einsum "bh,hf->bf" %0 %1 : f64[8,4] @s0 [dp, -]
)") == "R4 %2 = einsum (F): axis 'dp' cuts factor 'b' and, in operand 1, factor 'f'\n");
  }
  SECTION("a whole factor") {
    CHECK(breaches(kMeshes + R"(
%0 = input "x" : f64[8,6] @s0 [-, tp]
%1 = param "g" : f64[6] @s0
%2, %3 = rms_norm {eps=1e-05} %0 %1 : f64[8,6] @s0 [-, tp], f64[8] @s0
)")
              .starts_with("R4 %2 = rms_norm (F): dimension 1 of operand 0 is cut over 'tp', but factor 'h' must be whole\n"));
  }
  SECTION("an axis twice, and a table with a gap") {
    CHECK(breaches(kMeshes + "%0 = input \"x\" : f64[8,6] @s0 [dp, dp]\n") == "R4 %0 = input \"x\" (F): result 0 has axis 'dp' twice\n");
    CHECK(breaches(kMeshes + "%0 = input \"x\" : f64[8,6] @s0 [dp {0..3; 4..8}, -]\n") ==
          "R4 %0 = input \"x\" (F): result 0 is cut in dimension 0 by a table that does not cover element 3 once\n");
  }
}

TEST_CASE("R4: a table is not the nested cut, and its intervals do not touch") {
  CHECK(breaches(kMeshes + "%0 = input \"x\" : f64[8] @s0 [dp {0..4; 4..8}]\n") ==
        "R4 %0 = input \"x\" (F): result 0 is cut in dimension 0 by a table that is the nested cut, expected none\n");
  CHECK(breaches(kMeshes + "%0 = input \"x\" : f64[8] @s0 [dp {0..3 3..5; 5..8}]\n") ==
        "R4 %0 = input \"x\" (F): result 0 is cut in dimension 0 by a table with two intervals that touch at 3, expected one\n");
}

TEST_CASE("R4: an axis may cut a factor within another, block by block, over all that has it") {
  // 2 groups of 2 query heads: g over kv, r over q; keys and values are whole over q, and their gradients terms.
  const std::string head = R"(mesh @s0 {kv:2, q:2} devices 0 1 2 3
mesh @s1 {q:2} devices 4 5
)";
  const auto attention = [&](const std::string& mesh, const std::string& heads, const std::string& groups, const std::string& terms) {
    const auto laid = [&](const std::string& cut) { return " " + mesh + (cut.empty() ? "" : " [-, -, " + cut + ", -]"); };
    const auto lse = " " + mesh + " [-, -, " + heads + "]";
    return head + "%0 = input \"q\" : f64[1,3,4,2]" + laid(heads) + "\n%1 = input \"k\" : f64[1,3,2,2]" + laid(groups) +
           "\n%2 = input \"v\" : f64[1,3,2,2]" + laid(groups) + "\n%3, %4 = attention {causal=true, scale=1} %0 %1 %2 : f64[1,3,4,2]" +
           laid(heads) + ", f64[1,3,4]" + lse + "\n%5, %6, %7 = attention_bi {causal=true, scale=1} %0 %1 %2 %3 %4 %3 : f64[1,3,4,2]" +
           laid(heads) + ", f64[1,3,2,2]" + laid(groups) + terms + ", f64[1,3,2,2]" + laid(groups) + terms + " BI\n";
  };
  CHECK(breaches(attention("@s0", "kv q", "kv", " partial(q)")) == "");
  CHECK(breaches(attention("@s1", "q {0..1 2..3; 1..2 3..4}", "", " partial(q)")) == "");
  CHECK(breaches(attention("@s1", "q", "q", "")) == "");
  CHECK(
      breaches(attention("@s0", "q {0..1 2..3; 1..2 3..4}", "kv", " partial(q)"))
          .starts_with("R4 %3 = attention (F): operand 0 is @s0 [-, -, q {0..1 2..3; 1..2 3..4}, -], expected factor 'g' (dimension 2) cut "
                       "as elsewhere, "
                       "@s0 [-, -, kv q, -]\n"));
  CHECK(
      breaches(attention("@s1", "q", "", ""))
          .starts_with("R4 %3 = attention (F): operand 1 is @s1, expected factor 'g' (dimension 2) cut as elsewhere, @s1 [-, -, q, -]\n"));
  CHECK(breaches(attention("@s1", "q {0..1 2..3; 1..2 3..4}", "q", ""))
            .starts_with("R4 %3 = attention (F): axis 'q' cuts factor 'r' and, in operand 1, factor 'g'\n"));
  CHECK(breaches(attention("@s1", "q {0..3; 3..4}", "", ""))
            .starts_with("R4 %3 = attention (F): dimension 2 of operand 0 is cut over 'q': it is the product of g:2 r:2, expected a cut at "
                         "multiples of 2, or "
                         "one that cuts each run of 2 alike\n"));
  CHECK(breaches(attention("@s1", "q {0..1 2..3; 1..2 3..4}", "", ""))
            .starts_with("R5 %5 = attention_bi (BI): result 1 is @s1, expected @s1 partial(q)\n"));
}

TEST_CASE("R4: a cut that gives all to one device is read as the others read it") {
  // One query head a group: over q, device 0 has them all, whether groups or the heads within them are cut.
  const auto text = [](const std::string& groups) {
    const std::string laid = groups.empty() ? "" : " [-, -, " + groups + ", -]";
    return "mesh @s0 {q:2} devices 0 1\n%0 = input \"q\" : f64[1,3,2,2] @s0 [-, -, q {0..2; }, -]\n%1 = input \"k\" : f64[1,3,2,2] @s0" +
           laid +
           "\n%2, %3 = attention {causal=true, scale=1} %0 %1 %1 : f64[1,3,2,2] @s0 [-, -, q {0..2; }, -], f64[1,3,2] @s0 [-, -, q " +
           "{0..2; }]\n";
  };
  CHECK(breaches(text("")) == "");
  CHECK(breaches(text("q {0..2; }")) == "");
}

TEST_CASE("R4: a ring is cut in its pieces, the keys turned") {
  const auto text = [](const std::string& queries, const std::string& keys, const std::string& attrs) {
    const auto laid = [](const std::string& cut) { return cut.empty() ? std::string(" @s0") : " @s0 [-, " + cut + ", -, -]"; };
    const std::string lse = queries.empty() ? " @s0" : " @s0 [-, " + queries + ", -]";
    return "mesh @s0 {cp:2, tp:3} devices 0 1 2 3 4 5\n%0 = input \"q\" : f64[1,8,2,2]" + laid(queries) +
           "\n%1 = input \"k\" : f64[1,8,2,2]" + laid(keys) + "\n%2, %3 = attention_piece {causal=true, scale=1, " + attrs +
           "} %0 %1 %1 : f64[1,8,2,2]" + laid(queries) + ", f64[1,8,2]" + lse + "\n";
  };
  const std::string zigzag = "pieces={0..2 6..8; 2..6}";
  CHECK(breaches(text("cp {0..2 6..8; 2..6}", "cp {2..6; 0..2 6..8}", zigzag + ", turn=1")) == "");
  CHECK(breaches(text("cp {0..2 6..8; 2..6}", "cp {0..2 6..8; 2..6}", zigzag + ", turn=0")) == "");
  CHECK(breaches(text("", "", zigzag + ", turn=1")) == "");
  CHECK(
      breaches(text("cp {0..2 6..8; 2..6}", "cp {0..2 6..8; 2..6}", zigzag + ", turn=1"))
          .starts_with("R4 %2 = attention_piece (F): dimension 1 of operand 1, factor 's', is cut @s0 [cp {0..2 6..8; 2..6}], expected the "
                       "pieces of the ring turned by 1, @s0 [cp {2..6; 0..2 6..8}]\n"));
  CHECK(breaches(text("tp", "tp", zigzag + ", turn=0"))
            .starts_with(
                "R4 %2 = attention_piece (F): dimension 1 of operand 0, factor 's', is cut over 'tp', expected one axis of 2 devices\n"));
  CHECK(breaches(text("cp {0..2 6..8; 2..6}", "", zigzag + ", turn=1"))
            .starts_with(
                "R4 %2 = attention_piece (F): operand 1 is @s0, expected factor 's' (dimension 1) cut as elsewhere, @s0 [-, cp {2..6; "
                "0..2 6..8}, -, -]\n"));
}

TEST_CASE("R5: Partial only into what is linear, and out of it again") {
  const std::string head = kMeshes + "%0 = input \"x\" : f64[8] @s0\n%1 = zero_rest %0 : f64[8] @s0 partial(dp)\n";
  CHECK(breaches(head + "%2 = tanh %1 : f64[8] @s0 partial(dp)\n") ==
        "R5 %2 = tanh (F): operand 0 is Partial over 'dp', but tanh is not linear in it\n");
  CHECK(breaches(head + "%2 = mul %1 %1 : f64[8] @s0 partial(dp)\n") ==
        "R5 %2 = mul (F): 2 operands are Partial over 'dp', at most one may be (the last is operand 1)\n");
  CHECK(breaches(head + "%2 = add %1 %0 : f64[8] @s0 partial(dp)\n") ==
        "R5 %2 = add (F): 1 of 2 operands are Partial over 'dp', expected all or none\n");
  CHECK(breaches(head + "%2 = scale {factor=2} %1 : f64[8] @s0\n") == "R5 %2 = scale (F): result 0 is @s0, expected @s0 partial(dp)\n");
  CHECK(breaches(head + "%2 = scale {factor=2} %1 : f64[8] @s0 partial(dp)\n") == "");
  CHECK(breaches(kMeshes + "%0 = input \"x\" : f64[8,4] @s0 [-, tp]\n%1 = row_max %0 : f64[8] @s0 partial(tp)\n") ==
        "R5 %1 = row_max (F): result 0 is @s0 partial(tp), expected @s0 partial(tp:max)\n");
}

TEST_CASE("R6: other meshes are read by recv, view and join only, and home reads no Partial") {
  CHECK(breaches(kMeshes + "%0 = input \"x\" : f64[8] @s0\n%1 = tanh %0 : f64[8] @s1\n") ==
        "R6 %1 = tanh (F): operand 0 is on @s0, the node on @s1; only recv, view and join read other meshes\n");
  CHECK(breaches(kMeshes + "%0 = input \"x\" : f64[8] @s0\n%1 = tanh %0\n") == "");
  CHECK(breaches(kMeshes + "%0 = input \"x\" : f64[8] @s0\n%1 = zero_rest %0 : f64[8] @s0 partial(tp)\n%2 = scale {factor=1} %1\n") ==
        "R6 %2 = scale (F): operand 0 is @s0 partial(tp), but what is read at home is never Partial\n");
  CHECK(breaches(kMeshes + "%0 = input \"x\" : f64[8] @s0\n%1 = view %0 : f64[8] @s1\n") ==
        "R6 %1 = view (F): the operand is on @s0, expected a union that has @s1 as a member\n");
  CHECK(breaches(kMeshes + "%0 = param \"w\" : f64[8] @u0 [copy]\n%1 = view %0 : f64[8] @s1\n") ==
        "R6 %1 = view (F): the operand is @u0 [copy], expected whole over 'copy'\n");
  CHECK(breaches(kMeshes + "%0 = input \"x\" : f64[8] @s0\n%1 = join %0 : f64[8] @u0 partial(copy)\n") ==
        "R6 %1 = join (F): got 1 operands, expected one for each of the 2 members\n");
}

TEST_CASE("R7: a collective makes the change of layout that its name says") {
  const std::string head = kMeshes + "%0 = input \"x\" : f64[8] @s0 [dp tp]\n";
  CHECK(breaches(head + "%1 = all_gather %0 : f64[8] @s0 [dp]\n") == "");
  CHECK(breaches(head + "%1 = all_gather %0 : f64[8] @s0 [tp]\n") ==
        "R7 %1 = all_gather (F): all_gather changes a cut to Replicate, found @s0 [dp tp] to @s0 [tp]: in dimension 0 the devices of a "
        "group together hold [tp {0..2 4..6; 2..4 6..8}] before and [tp] after, expected the same\n");
  CHECK(breaches(head + "%1 = all_gather %0 : f64[8] @s0 [tp {0..2 4..6; 2..4 6..8}]\n") == "");
  CHECK(breaches(head + "%1 = all_reduce %0 : f64[8] @s0 [dp]\n") ==
        "R7 %1 = all_reduce (F): all_reduce changes Partial to Replicate, found @s0 [dp tp] to @s0 [dp]: axis 'tp'\n");
  CHECK(breaches(head + "%1 = all_gather %0 : f64[8] @s0 [dp tp]\n") ==
        "R7 %1 = all_gather (F): all_gather changes a cut to Replicate, found @s0 [dp tp] to @s0 [dp tp]: nothing changes\n");
}

TEST_CASE("R7: one collective over several axes, and what is several") {
  const auto reduced = [](const std::string& op, const std::string& to) {
    return breaches(kMeshes + "%0 = input \"x\" : f64[8,4] @s0\n%1 = zero_rest %0 : f64[8,4] @s0 partial(dp tp)\n%2 = " + op +
                    " %1 : f64[8,4] @s0" + to + "\n");
  };
  CHECK(reduced("all_reduce", "") == "");
  CHECK(reduced("reduce_scatter", " [dp tp, -]") == "");
  CHECK(reduced("reduce_scatter", " [tp, dp]") == "");
  CHECK(reduced("reduce_scatter", " [dp, -]") ==
        "R7 %2 = reduce_scatter (F): reduce_scatter changes Partial to a cut, found @s0 partial(dp tp) to @s0 [dp, -]: axis 'tp'\n");
  const std::string cut = kMeshes + "%0 = input \"x\" : f64[8,4] @s0 [dp tp, -]\n";
  CHECK(breaches(cut + "%1 = all_gather %0 : f64[8,4] @s0\n") == "");
  CHECK(breaches(cut + "%1 = all_to_all %0 : f64[8,4] @s0 [dp, tp]\n") == "");
  CHECK(breaches(cut + "%1 = all_to_all %0 : f64[8,4] @s0 [-, dp tp]\n") == "");
  CHECK(breaches(cut + "%1 = permute %0 : f64[8,4] @s0 [tp dp, -]\n") == "");
  CHECK(breaches(cut + "%1 = permute %0 : f64[8,4] @s0 [dp tp {2..4; 4..6; 6..8; 0..2}, -]\n") == "");
  CHECK(breaches(cut + "%1 = all_to_all %0 : f64[8,4] @s0 [dp tp {0..1; 1..4; 4..6; 6..8}, -]\n") == "");
  CHECK(breaches(cut + "%1 = permute %0 : f64[8,4] @s0 [dp tp {0..1; 1..4; 4..6; 6..8}, -]\n") ==
        "R7 %1 = permute (F): permute changes the owners of a cut, found @s0 [dp tp, -] to @s0 [dp tp {0..1; 1..4; 4..6; 6..8}, -]: "
        "dimension "
        "0 gets other owners, which is all_to_all\n");
  CHECK(breaches(cut + "%1 = local_slice %0 : f64[8,4] @s0 [dp tp, -]\n").ends_with(": nothing changes\n"));
  CHECK(breaches(kMeshes + "%0 = input \"x\" : f64[8,4] @s0 [tp, -]\n%1 = local_slice %0 : f64[8,4] @s0 [dp tp, -]\n")
            .ends_with(
                ": in dimension 0 the devices of a group together hold [tp] before and [tp {0..2 4..6; 2..4 6..8}] after, expected the "
                "same\n"));
  CHECK(breaches(kMeshes + "%0 = input \"x\" : f64[8,4] @s0 [tp, -]\n%1 = local_slice %0 : f64[8,4] @s0 [tp dp, -]\n") == "");
}

TEST_CASE("R8: a send has one recv, on another mesh, and nothing Partial crosses") {
  const std::string head = kMeshes + "%0 = input \"x\" : f64[8] @s0\n%1 = zero_rest %0 : f64[8] @s0 partial(dp)\n";
  CHECK(breaches(head + "%2 = send %0 : f64[8] @s0\n") == "R8 %2 = send (F): read by 0 recv and 0 other nodes, expected one recv alone\n");
  CHECK(breaches(head + "%2 = send %1 : f64[8] @s0 partial(dp)\n%3 = recv %2 : f64[8] @s1\n") ==
        "R8 %2 = send (F): sends @s0 partial(dp), a transfer is never Partial\n");
  CHECK(breaches(head + "%2 = recv %0 : f64[8] @s1\n") ==
        "R8 %2 = recv (F): receives the result of %0 = input \"x\" (F), expected of a send\n");
}

TEST_CASE("R9: control edges join nodes that share a device") {
  const std::string head = kMeshes + "%0 = input \"x\" : f64[8] @s0\n%1 = tanh %0 : f64[8] @s0\n%2 = input \"y\" : f64[8] @s1\n";
  CHECK(breaches(head + "%3 = tanh %2 : f64[8] @s1 after=[%1]\n") ==
        "R9 %3 = tanh (F): waits for %1 = tanh (F) on @s0, which shares no device with @s1\n");
  CHECK(breaches(head + "^0 = fence after=[%1]\n%3 = tanh %2 : f64[8] @s1 after=[^0]\n") ==
        "R9 node 3 fence (F): what follows it on @s1 shares no device with what it waits for\n");
  CHECK(breaches(head + "%3 = tanh %1 after=[%1]\n") == "");
}

TEST_CASE("R10: the signature") {
  const std::string head = "%0 = param \"w\" : f64[4]\n%1 = input \"g\" : f64[4]\n%2 = sgd %0 %1\n";
  CHECK(breaches(head + "output \"w\" {kind=param} %2\n") == "");
  CHECK(breaches(head + "%3 = sgd %0 %1\n") == "R10 %3 = sgd (U): a second update of \"w\"\n");
  CHECK(breaches(head + "output \"v\" {kind=param} %2\n") == "R10 node 3 output \"v\" (U): the graph has no parameter \"v\"\n");
  CHECK(breaches(head + "output \"l\" {kind=loss} %1\noutput \"l\" {kind=loss} %1\n") ==
        "R10 node 4 output \"l\" (U): a second output of kind loss and this name\n");
  CHECK(breaches("%0 = param \"w\" : f64[4]\n%1 = param \"w\" {trainable=false} : f64[4]\n") ==
        "R10 %1 = param \"w\" (F): a second parameter of this name\n");
  CHECK(breaches("%0 = param \"w\" {trainable=false} : f64[4]\n%1 = input \"g\" : f64[4]\n%2 = sgd %0 %1\n") ==
        "R10 %2 = sgd (U): it updates \"w\", which is frozen\n");
  CHECK(breaches("%0 = state \"w.m\" {of=\"w\"} : f64[4]\n") ==
        "R10 %0 = state \"w.m\" (F): it is the state of \"w\", which is no parameter\n");
  CHECK(breaches("%0 = input \"x\" : f64[4]\n%1 = input \"x\" : f64[4,2]\n") ==
        "R10 %1 = input \"x\" (F): an input of the same name is f64[4], here f64[4,2]; expected one element type, rank and attributes\n");
  CHECK(breaches(kMeshes + R"(
%0 = param "w" : f64[4] @s0 [dp]
%1 = input "g" : f64[4] @s0
%2 = all_gather %0 : f64[4] @s0
%3 = sgd %2 %1 : f64[4] @s0
output "w" {kind=param} %3 mesh=@s0
)") == "R10 node 4 output \"w\" (U): it leaves as @s0, \"w\" entered as @s0 [dp]; expected the same, so that steps chain\n");
}

TEST_CASE("a gradient whose reduction was dropped does not pass") {
  const std::string head = kMeshes + R"(
%0 = param "w" : f64[6,4] @s0
%1 = input "x" {cut=0} : f64[8,6] @s0 [dp, -]
%2 = input "dy" {cut=0} : f64[8,4] @s0 [dp, -]
%3 = einsum "bh,bf->hf" %1 %2 : f64[6,4] @s0 partial(dp) BW
)";
  CHECK(breaches(head + "%4 = sgd %0 %3 : f64[6,4] @s0\n") ==
        "R10 %4 = sgd (U): operand 1 is Partial over 'dp', but sgd never reads a Partial\n");
  CHECK(breaches(head + "%4 = sum_sq %3 : f64[] @s0\n") ==
        "R10 %4 = sum_sq (U): operand 0 is Partial over 'dp', but sum_sq never reads a Partial\n");
  CHECK(breaches(head + "output \"w\" {kind=gradient} %3 mesh=@s0\n") ==
        "R10 node 4 output \"w\" (U): operand 0 is Partial over 'dp', but output never reads a Partial\n");
  CHECK(breaches(head + "output \"w\" {kind=gradient} %3\n") ==
        "R6 node 4 output \"w\" (U): operand 0 is @s0 partial(dp), but what is read at home is never Partial\n");
}
