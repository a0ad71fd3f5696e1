#include "ir/builder.h"

#include "ir/error.h"

namespace skirl {

NodeId Builder::node(Op op, std::span<const ValueId> operands, const Attrs& attrs, Role role) {
  operand_types_.clear();
  for (const ValueId value : operands) operand_types_.push_back(graph_.type(value));
  const OpInfo& entry = info(op);
  const int count = static_cast<int>(operands.size());
  if (count < entry.min_operands || (entry.max_operands >= 0 && count > entry.max_operands))
    throw Error(std::string(entry.name) + ": got " + std::to_string(count) + " operands, expected " + std::to_string(entry.min_operands) +
                (entry.max_operands == entry.min_operands ? "" : entry.max_operands < 0 ? " or more" : " to " + std::to_string(entry.max_operands)));
  SKIRL_CHECK(attrs.index() == entry.attrs_index, std::string("attributes of the wrong kind for ") + entry.name);
  const std::vector<TensorType> types = entry.infer({op, attrs, operand_types_});
  std::vector<ResultInit> results;
  const LayoutId layout = graph_.replicate(mesh);
  for (const TensorType& type : types) results.push_back({graph_.intern(type), layout, type.shape.empty() && role == Role::Activation ? Role::Scalar : role});
  return graph_.add({op, operands, results, graph_.intern(attrs), phase, tags, mesh, stream, name, origin});
}

ValueId Builder::op(Op op, std::initializer_list<ValueId> operands, const Attrs& attrs, Role role) {
  return graph_.result(node(op, std::span<const ValueId>(operands.begin(), operands.size()), attrs, role));
}

ValueId Builder::source(Op op, std::string_view source_name, const TensorType& type, const Attrs& attrs) {
  const Role role = op == Op::Input ? Role::Input : op == Op::Param ? Role::Param : Role::State;
  info(op).infer({op, attrs, {}, {&type, 1}});  // refuses a type or attributes that cannot be
  const ResultInit result{graph_.intern(type), graph_.replicate(mesh), role};
  return graph_.result(graph_.add({op, {}, {&result, 1}, graph_.intern(attrs), phase, tags, mesh, 0, graph_.intern(source_name), OriginId()}));
}

NodeId Builder::output(std::string_view output_name, ValueId value, std::string_view kind) {
  return graph_.add({Op::Output, {&value, 1}, {}, graph_.intern(Attrs{OutputAttrs{std::string(kind)}}), Phase::U, tags, mesh, 0,
                     graph_.intern(output_name), OriginId()});
}

}  // namespace skirl
