#include "ir/ops/factors.h"
#include "ir/ops/families.h"
#include "ir/ops/typing.h"

namespace skirl {
namespace {

FactorRule view_rule(const OpCall& call) { return linear_in(identity_rule(call), {0}); }

std::vector<TensorType> infer_join(const OpCall& call) {
  for (std::size_t i = 1; i < call.operands.size(); ++i) expect_type(call, i, call.operands[0].dtype, call.operands[0].shape);
  return {call.operands[0]};
}
FactorRule join_rule(const OpCall& call) { return linear_together(rule_from(call, "* -> *")); }

std::vector<TensorType> infer_nothing(const OpCall&) { return {}; }
FactorRule no_rule(const OpCall&) { return {}; }

constexpr auto kNone = attrs_index<NoAttrs>();
constexpr auto kChange = OpClass::Collective;
const OpInfo kOps[] = {
    {Op::AllReduce, "all_reduce", "adds up the terms that devices hold; all get the whole", kChange, 1, -1, kNone, infer_same,
     identity_rule, nullptr},
    {Op::AllGather, "all_gather", "collects the pieces of a cut dimension; all get the whole", kChange, 1, -1, kNone, infer_same,
     identity_rule, nullptr},
    {Op::ReduceScatter, "reduce_scatter", "adds up the terms that devices hold; each gets its piece", kChange, 1, -1, kNone, infer_same,
     identity_rule, nullptr},
    {Op::AllToAll, "all_to_all", "moves a cut from one dimension to another, or to other pieces", kChange, 1, -1, kNone, infer_same, identity_rule, nullptr},
    {Op::Broadcast, "broadcast", "one device's tensor to all", kChange, 1, -1, kNone, infer_same, identity_rule, nullptr},
    {Op::Permute, "permute", "gives the pieces of a cut to other devices: turns it round its ring", kChange, 1, -1, kNone, infer_same, identity_rule, nullptr},
    {Op::LocalSlice, "local_slice", "each device keeps its piece of what all hold; free", kChange, 1, -1, kNone, infer_same, identity_rule,
     nullptr},
    {Op::ZeroRest, "zero_rest", "one device keeps what all hold, the others take zero; free", kChange, 1, -1, kNone, infer_same,
     identity_rule, nullptr},
    {Op::Send, "send", "the first half of a transfer to another mesh", OpClass::Transfer, 1, 1, kNone, infer_same, identity_rule, nullptr},
    {Op::Recv, "recv", "the second half of a transfer from another mesh", OpClass::Transfer, 1, 1, kNone, infer_same, identity_rule,
     nullptr},
    {Op::View, "view", "reads a value of a union of meshes on a member, or on a union of some; free", OpClass::Transfer, 1, 1, kNone,
     infer_same, view_rule, nullptr},
    {Op::Join, "join", "a value of a union of meshes whose terms are one value a member; free", OpClass::Transfer, 1, -1, kNone, infer_join,
     join_rule, nullptr},
    {Op::Fence, "fence", "no work: stands between groups of nodes in control edges", OpClass::Order, 0, 0, kNone, infer_nothing, no_rule,
     nullptr},
};

}  // namespace

std::span<const OpInfo> communication_ops() { return kOps; }

}  // namespace skirl
