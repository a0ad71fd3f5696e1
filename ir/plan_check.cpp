#include <map>
#include <string>
#include <utility>
#include <vector>

#include "ir/plan.h"

namespace skirl {
namespace {

/// Which buffer was written last, byte by byte: intervals that do not overlap.
class Bytes {
 public:
  void claim(const PlanBuffer& place, std::uint32_t buffer) {
    const std::int64_t begin = place.offset_bytes;
    const std::int64_t end = begin + place.size_bytes;
    if (begin == end) return;
    auto at = owned_.lower_bound(begin);
    if (at != owned_.begin() && std::prev(at)->second.end > begin) {
      const auto before = std::prev(at);
      const Owner cut = before->second;
      before->second.end = begin;
      if (cut.end > end) owned_[end] = cut;
    }
    while (at != owned_.end() && at->first < end) {
      if (at->second.end > end) owned_[end] = at->second;
      at = owned_.erase(at);
    }
    owned_[begin] = {end, buffer};
  }

  bool holds(const PlanBuffer& place, std::uint32_t buffer) const {
    if (place.size_bytes == 0) return true;
    const auto at = owned_.find(place.offset_bytes);
    return at != owned_.end() && at->second.buffer == buffer && at->second.end == place.offset_bytes + place.size_bytes;
  }

 private:
  struct Owner {
    std::int64_t end;
    std::uint32_t buffer;
  };
  std::map<std::int64_t, Owner> owned_;  // by the first byte
};

class DataCheck {
 public:
  DataCheck(const Graph& graph, const DeviceProgram& program) : g_(graph), program_(program), value_(program.buffers.size()) {}

  std::string run() {
    for (const auto& [node, buffer] : program_.entries) {
      write(buffer, g_.result(node));
      entered_[{g_[node].op, g_[node].name}] = buffer;
    }
    for (const auto& [node, buffer] : program_.entries)
      if (!bytes_.holds(program_.buffers[buffer], buffer))
        return "device " + std::to_string(program_.device) + ": " + describe(g_, node) + " shares bytes of buffer " +
               std::to_string(buffer) + " with another that enters the step";
    for (const Instruction& instruction : program_.instructions)
      if (std::string fault = step(instruction); !fault.empty()) return fault;
    for (const auto& [node, buffer] : program_.entries)
      if (g_[node].op != Op::Input && !bytes_.holds(program_.buffers[buffer], buffer))
        return complaint(node, buffer, "which is overwritten before the step ends");
    for (const auto& [buffer, node] : leaving_)
      if (!bytes_.holds(program_.buffers[buffer], buffer)) return complaint(node, buffer, "which is overwritten before the step ends");
    return "";
  }

 private:
  /// What a value is on this device: views and joins are other names for it.
  ValueId root(ValueId value) const {
    for (;;) {
      const NodeId producer = g_[value].producer;
      const Op op = g_[producer].op;
      if (op == Op::View) {
        value = g_.operand(producer, 0);
      } else if (op == Op::Join) {
        std::size_t member = 0;
        while (g_[g_.layout(g_.operand(producer, member)).mesh].position(program_.device) < 0) ++member;
        value = g_.operand(producer, member);
      } else {
        return value;
      }
    }
  }

  void write(std::uint32_t buffer, ValueId value) {
    value_[buffer] = value;
    bytes_.claim(program_.buffers[buffer], buffer);
  }

  std::string complaint(NodeId node, std::uint32_t buffer, const std::string& what) const {
    return "device " + std::to_string(program_.device) + ": " + describe(g_, node) + " uses buffer " + std::to_string(buffer) + ", " + what;
  }

  std::string step(const Instruction& instruction) {
    const NodeId node = instruction.node;
    const Node& n = g_[node];
    const std::uint32_t* refs = program_.refs.data() + instruction.first_ref;
    const std::size_t operands = n.op == Op::Recv ? 0 : n.operand_count;
    const std::size_t results = n.op == Op::Send || n.op == Op::Output ? 0 : n.result_count;
    for (std::size_t i = 0; i < operands; ++i)
      if (!value_[refs[i]].valid() || value_[refs[i]] != root(g_.operand(node, i)))
        return complaint(node, refs[i], "which does not hold operand " + std::to_string(i));
    for (std::size_t r = 0; r < results; ++r) write(refs[operands + r], g_.result(node, r));
    for (std::size_t i = 0; i < operands + results; ++i)
      if (!bytes_.holds(program_.buffers[refs[i]], refs[i])) return complaint(node, refs[i], "whose bytes another buffer has taken");
    if (n.op != Op::Output) return "";
    const std::uint32_t home = refs[1];
    const std::string& kind = g_.attrs<OutputAttrs>(node).kind;
    if (kind == "param" || kind == "state") {
      const auto entered = entered_.find({kind == "param" ? Op::Param : Op::State, n.name});
      if (entered != entered_.end() && entered->second != home)
        return complaint(node, home, "expected buffer " + std::to_string(entered->second) + ", by which it entered");
    }
    if (home != refs[0]) write(home, ValueId());
    leaving_.emplace(home, node);
    return "";
  }

  const Graph& g_;
  const DeviceProgram& program_;
  std::vector<ValueId> value_;  // by buffer: what was written there last
  Bytes bytes_;
  std::map<std::pair<Op, NameId>, std::uint32_t> entered_;
  std::map<std::uint32_t, NodeId> leaving_;
};

}  // namespace

std::string data_fault(const Graph& graph, const DeviceProgram& program) { return DataCheck(graph, program).run(); }

}  // namespace skirl
