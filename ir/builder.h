#pragma once

#include <initializer_list>
#include <span>
#include <string_view>
#include <vector>

#include "ir/graph.h"

namespace skirl {

/// Adds nodes whose result types come from the operator table and whose results are Replicate on the builder's mesh. The public fields are what
/// the next nodes get.
class Builder {
 public:
  explicit Builder(Graph& graph) : graph_(graph) {}

  Phase phase = Phase::F;
  TagSetId tags{0u};
  MeshId mesh = kHome;
  NameId name;
  StreamId stream = 0;
  OriginId origin;

  Graph& graph() { return graph_; }

  /// Adds the node. Throws Error where the operator does not take these operands.
  NodeId node(Op op, std::span<const ValueId> operands, const Attrs& attrs = NoAttrs{}, Role role = Role::Activation);
  /// Adds the node and gives its first result.
  ValueId op(Op op, std::initializer_list<ValueId> operands, const Attrs& attrs = NoAttrs{}, Role role = Role::Activation);
  /// A value that enters the step: Op::Input, Op::Param or Op::State, of this name.
  ValueId source(Op op, std::string_view name, const TensorType& type, const Attrs& attrs);
  /// Names a value that leaves the step: kind "loss", "metric", "gradient", "param" or "state".
  NodeId output(std::string_view name, ValueId value, std::string_view kind);

 private:
  Graph& graph_;
  std::vector<TensorType> operand_types_;  // kept to save allocations
};

}  // namespace skirl
