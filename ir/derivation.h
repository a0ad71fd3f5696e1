#pragma once

#include <initializer_list>
#include <vector>

#include "ir/builder.h"

namespace skirl {

/// What an operator's derivative sees: one forward node, the gradients of its results, and which operands want one. It emits the backward
/// nodes (same tags, name and mesh as the forward node) and states the gradient of each operand that needs it.
class Derivation {
 public:
  /// `result_grads[i]` is none where nothing depends on result i. `needs[i]`: operand i wants a gradient; `weight[i]`: it stems from parameters
  /// alone, so its gradient is BW work and everything else is BI.
  Derivation(Graph& graph, NodeId forward, std::vector<ValueId> result_grads, std::vector<bool> needs, std::vector<bool> weight);

  Graph& graph() { return builder_.graph(); }
  NodeId forward() const { return forward_; }
  ValueId operand(std::size_t i) { return graph().operand(forward_, i); }
  ValueId result(std::size_t i = 0) { return graph().result(forward_, i); }
  ValueId result_grad(std::size_t i = 0) const { return result_grads_[i]; }
  bool needs(std::size_t i) const { return needs_[i]; }
  /// BW if operand i is a weight, else BI.
  Phase phase(std::size_t i) const { return weight_[i] ? Phase::BW : Phase::BI; }
  const Attrs& attrs() { return graph()[graph()[forward_].attrs]; }

  /// Adds a node in `phase`; its origin is that of the forward node only if `at_origin` (same factor rule).
  NodeId emit_node(Phase phase, Op op, std::initializer_list<ValueId> operands, const Attrs& attrs = NoAttrs{}, bool at_origin = false);
  ValueId emit(Phase phase, Op op, std::initializer_list<ValueId> operands, const Attrs& attrs = NoAttrs{}, bool at_origin = false);
  void set_operand_grad(std::size_t i, ValueId gradient) { operand_grads_[i] = gradient; }
  const std::vector<ValueId>& operand_grads() const { return operand_grads_; }

 private:
  Builder builder_;
  NodeId forward_;
  std::vector<ValueId> result_grads_;
  std::vector<bool> needs_;
  std::vector<bool> weight_;
  std::vector<ValueId> operand_grads_;  // none where not needed or zero
};

}  // namespace skirl
