#include "ir/derivation.h"

namespace skirl {

Derivation::Derivation(Graph& graph, NodeId forward, std::vector<ValueId> result_grads, std::vector<bool> needs, std::vector<bool> weight)
    : builder_(graph),
      forward_(forward),
      result_grads_(std::move(result_grads)),
      needs_(std::move(needs)),
      weight_(std::move(weight)),
      operand_grads_(needs_.size()) {
  builder_.tags = graph[forward].tags;
  builder_.name = graph[forward].name;
  builder_.mesh = graph[forward].mesh;
}

NodeId Derivation::emit_node(Phase phase, Op op, std::initializer_list<ValueId> operands, const Attrs& attrs, bool at_origin) {
  builder_.phase = phase;
  builder_.origin = at_origin ? graph()[forward_].origin : OriginId();
  const Role role = phase == Phase::BW ? Role::Gradient : Role::ActGradient;
  return builder_.node(op, std::span<const ValueId>(operands.begin(), operands.size()), attrs, role);
}

ValueId Derivation::emit(Phase phase, Op op, std::initializer_list<ValueId> operands, const Attrs& attrs, bool at_origin) {
  return graph().result(emit_node(phase, op, operands, attrs, at_origin));
}

}  // namespace skirl
