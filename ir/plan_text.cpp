#include <algorithm>
#include <charconv>
#include <unordered_map>

#include "ir/error.h"
#include "ir/lexer.h"
#include "ir/plan.h"
#include "ir/text.h"
#include "ir/text_parts.h"
#include "ir/verify.h"

namespace skirl {
namespace {

using Kind = Lexer::Kind;

constexpr std::string_view kFirstLine = "skirl plan 1";
constexpr std::string_view kPrograms = "\nprograms\n";
constexpr std::int64_t kMostBytes = std::int64_t{1} << 62;

bool has_instruction(Op op) {
  return op != Op::Input && op != Op::Param && op != Op::State && op != Op::View && op != Op::Join && op != Op::Fence;
}

/// How many refs the instruction of a node has: see Instruction.
std::size_t ref_count(const Node& n) {
  if (n.op == Op::Send) return n.operand_count;
  if (n.op == Op::Recv) return n.result_count;
  if (n.op == Op::Output) return n.operand_count + 1u;
  return static_cast<std::size_t>(n.operand_count) + n.result_count;
}

/// The value that ref `i` of a node's instruction holds; the second of an Output is the place where its operand leaves.
ValueId ref_value(const Graph& g, NodeId node, std::size_t i) {
  const Node& n = g[node];
  if (n.op == Op::Recv) return g.result(node, i);
  if (n.op == Op::Output) return g.operand(node, 0);
  return i < n.operand_count ? g.operand(node, i) : g.result(node, i - n.operand_count);
}

void append_stream(std::string& text, const std::string& stream) {
  if (is_word(stream))
    text += stream;
  else
    append_quoted(text, stream, '\'');
}

void print_program(std::string& text, const Graph& g, const DeviceProgram& program) {
  text += "device ";
  append_number(text, program.device);
  text += " arena ";
  append_number(text, program.arena_bytes);
  text += '\n';
  for (const PlanBuffer& buffer : program.buffers) {
    text += "buffer ";
    append_number(text, buffer.offset_bytes);
    text += ' ';
    append_number(text, buffer.size_bytes);
    text += '\n';
  }
  for (const auto& [node, buffer] : program.entries) {
    text += "entry ";
    append_number(text, node.index());
    text += ' ';
    append_number(text, buffer);
    text += '\n';
  }
  for (const Instruction& instruction : program.instructions) {
    text += "run ";
    append_number(text, instruction.node.index());
    text += ' ';
    append_stream(text, g.stream_name(instruction.stream));
    const std::size_t refs = ref_count(g[instruction.node]);
    for (std::size_t i = 0; i < refs; ++i) {
      text += ' ';
      append_number(text, program.refs[instruction.first_ref + i]);
    }
    if (instruction.wait_count > 0) text += " after";
    for (std::size_t i = 0; i < instruction.wait_count; ++i) {
      text += ' ';
      append_number(text, program.waits[instruction.first_wait + i]);
    }
    text += '\n';
  }
}

class PlanReader {
 public:
  PlanReader(Plan& plan, std::string_view text, std::string_view file, std::uint32_t first_line)
      : plan_(plan), g_(plan.graph), lex_(text, file, first_line), ran_(g_.node_bound(), 0) {
    for (std::size_t s = 0; s < g_.stream_count(); ++s) streams_.push_back(g_.stream_name(static_cast<StreamId>(s)));
    nodes_.resize(g_.mesh_count());
    g_.for_each_node([&](NodeId node) { nodes_[g_[node].mesh.index()].push_back(node); });
  }

  void run() {
    while (lex_.peek().kind != Kind::End) {
      if (lex_.peek().kind == Kind::Newline) {
        lex_.take();
        continue;
      }
      if (lex_.accept_word("device"))
        device();
      else if (plan_.devices.empty())
        lex_.fail_expected("'device'");
      else if (lex_.accept_word("buffer"))
        buffer();
      else if (lex_.accept_word("entry"))
        entry();
      else if (lex_.accept_word("run"))
        instruction();
      else
        lex_.fail_expected("'device', 'buffer', 'entry' or 'run'");
      if (lex_.peek().kind != Kind::End && lex_.peek().kind != Kind::Newline) lex_.fail_expected("the end of the line");
    }
    finish_device();
  }

 private:
  DeviceProgram& program() { return plan_.devices.back(); }

  std::int64_t integer(std::int64_t least, std::int64_t most, std::string_view what) {
    const Lexer::Token token = lex_.peek();
    std::int64_t value = 0;
    const auto [end, error] = std::from_chars(token.text.data(), token.text.data() + token.text.size(), value);
    if (token.kind != Kind::Int || error != std::errc() || end != token.text.data() + token.text.size())
      lex_.fail_expected(std::string(what));
    if (value < least || value > most)
      lex_.fail(std::string(what) + " is " + std::to_string(value) + ", expected " + std::to_string(least) + " to " + std::to_string(most));
    lex_.take();
    return value;
  }

  void device() {
    finish_device();
    DeviceProgram next;
    next.device = static_cast<DeviceId>(integer(0, 0xFFFFFFFF, "the device"));
    if (!plan_.devices.empty() && next.device <= program().device)
      lex_.fail("device " + std::to_string(next.device) + " is not above the one before");
    if (!lex_.accept_word("arena")) lex_.fail_expected("'arena' and its bytes");
    next.arena_bytes = integer(0, kMostBytes, "the size of the arena");
    plan_.devices.push_back(std::move(next));
    sizes_.clear();
    positions_.assign(g_.mesh_count(), -1);
    for (std::size_t m = 1; m < g_.mesh_count(); ++m) positions_[m] = g_[MeshId(m)].position(program().device);
  }

  void buffer() {
    const std::int64_t offset = integer(0, program().arena_bytes, "the offset of a buffer");
    program().buffers.push_back({offset, integer(0, program().arena_bytes - offset, "the size of a buffer")});
  }

  NodeId node_here() {
    if (g_.node_bound() == 0) lex_.fail("the graph has no node");
    const NodeId node(static_cast<std::uint32_t>(integer(0, static_cast<std::int64_t>(g_.node_bound()) - 1, "the node")));
    if (positions_[g_[node].mesh.index()] < 0)
      lex_.fail(describe(g_, node) + " is " + (g_[node].mesh == kHome ? "at home" : "on @" + g_.mesh_name(g_[node].mesh)) +
                ", not on device " + std::to_string(program().device));
    if (ran_[node.index()] == plan_.devices.size())
      lex_.fail(describe(g_, node) + " stands twice on device " + std::to_string(program().device));
    ran_[node.index()] = static_cast<std::uint32_t>(plan_.devices.size());
    return node;
  }

  /// A buffer that has room for the device's piece of `value`.
  std::uint32_t buffer_for(ValueId value) {
    if (program().buffers.empty()) lex_.fail("device " + std::to_string(program().device) + " has no buffer");
    const auto index = static_cast<std::uint32_t>(integer(0, static_cast<std::int64_t>(program().buffers.size()) - 1, "the buffer"));
    const Layout& layout = g_.layout(value);
    const TensorType& type = g_.type(value);
    const std::int64_t position = positions_[layout.mesh.index()];
    if (layout.mesh == kHome || position < 0) lex_.fail("a value that device " + std::to_string(program().device) + " does not hold");
    const std::uint64_t key = (static_cast<std::uint64_t>(g_[value].type.index()) << 32) | g_[value].layout.index();
    const auto [known, fresh] = sizes_.try_emplace(key, 0);
    if (fresh) known->second = elems(local_shape(g_[layout.mesh], layout, type.shape, position)) * size_bytes(type.dtype);
    const std::int64_t bytes = known->second;
    if (program().buffers[index].size_bytes < bytes)
      lex_.fail("buffer " + std::to_string(index) + " has " + std::to_string(program().buffers[index].size_bytes) + " bytes, its value " +
                std::to_string(bytes));
    return index;
  }

  void entry() {
    const NodeId node = node_here();
    const Op op = g_[node].op;
    if (op != Op::Input && op != Op::Param && op != Op::State) lex_.fail(describe(g_, node) + " does not enter the step");
    const std::uint32_t buffer = buffer_for(g_.result(node));
    program().entries.emplace_back(node, buffer);
  }

  void instruction() {
    const NodeId node = node_here();
    if (!has_instruction(g_[node].op)) lex_.fail(describe(g_, node) + " has no instruction");
    Instruction made;
    made.node = node;
    const Lexer::Token stream = lex_.take();
    const std::string name =
        stream.kind == Kind::Quoted ? lex_.unquoted(stream, [](std::string_view) { return std::string(); }) : std::string(stream.text);
    const auto at = std::find(streams_.begin(), streams_.end(), name);
    if ((stream.kind != Kind::Word && stream.kind != Kind::Quoted) || at == streams_.end())
      lex_.fail("unknown stream " + Lexer::shown(stream) + "; known: " + nearest_first(name, streams_));
    made.stream = static_cast<StreamId>(at - streams_.begin());
    made.first_ref = static_cast<std::uint32_t>(program().refs.size());
    const std::size_t refs = ref_count(g_[node]);
    for (std::size_t i = 0; i < refs; ++i) program().refs.push_back(buffer_for(ref_value(g_, node, i)));
    made.first_wait = static_cast<std::uint32_t>(program().waits.size());
    const std::int64_t here = static_cast<std::int64_t>(program().instructions.size());
    if (lex_.accept_word("after")) {
      if (here == 0) lex_.fail("the first instruction waits, expected only for earlier ones");
      do {
        program().waits.push_back(static_cast<std::uint32_t>(integer(0, here - 1, "the instruction to wait for")));
        ++made.wait_count;
      } while (lex_.peek().kind == Kind::Int);
    }
    program().instructions.push_back(made);
  }

  /// Every node of the device stands in its program.
  void finish_device() {
    if (plan_.devices.empty()) return;
    for (std::size_t m = 0; m < nodes_.size(); ++m)
      if (positions_[m] >= 0)
        for (const NodeId node : nodes_[m]) expect_in_program(node);
  }

  void expect_in_program(NodeId node) const {
    const Op op = g_[node].op;
    if (ran_[node.index()] == plan_.devices.size() || op == Op::View || op == Op::Join || op == Op::Fence) return;
    if (!has_instruction(op) && !g_.has_uses(g_.result(node))) return;
    lex_.fail("device " + std::to_string(plan_.devices.back().device) + " does not run " + describe(g_, node));
  }

  Plan& plan_;
  const Graph& g_;
  Lexer lex_;
  std::vector<std::string> streams_;
  std::vector<std::uint32_t> ran_;                         // by node: number of the device (from 1) whose program had it last
  std::vector<int> positions_;                             // of the device, by mesh
  std::vector<std::vector<NodeId>> nodes_;                 // by mesh
  std::unordered_map<std::uint64_t, std::int64_t> sizes_;  // (type, layout) → bytes on the device
};

/// The lines in front of the graph; where it starts.
Lexer::Mark read_head(Plan& plan, std::string_view text, std::string_view file) {
  Lexer lex(text, file, 1);
  const auto as_is = [](std::string_view) -> std::string { throw Error("braces in the head of a plan"); };
  const auto line_of = [&](std::string_view key) {
    if (!lex.accept_word(key)) lex.fail_expected("'" + std::string(key) + "'");
  };
  const auto end_line = [&] {
    if (lex.peek().kind != Kind::Newline) lex.fail_expected("the end of the line");
    lex.take();
  };
  const auto quoted = [&] {
    if (lex.peek().kind != Kind::String) lex.fail_expected("a string");
    return lex.unquoted(lex.take(), as_is);
  };
  if (text.substr(0, kFirstLine.size()) != kFirstLine)
    lex.fail("found " + Lexer::shown(lex.peek()) + ", expected a plan, whose first line is '" + std::string(kFirstLine) + "'");
  while (lex.peek().kind != Kind::Newline && lex.peek().kind != Kind::End) lex.take();
  end_line();
  line_of("model");
  plan.model = quoted();
  end_line();
  line_of("strategy");
  plan.strategy = quoted();
  end_line();
  line_of("threads");
  const Lexer::Token threads = lex.peek();
  if (threads.kind != Kind::Int || threads.text.size() > 4 || threads.text == "0") lex.fail_expected("threads a kernel, 1 to 9999");
  lex.take();
  std::from_chars(threads.text.data(), threads.text.data() + threads.text.size(), plan.threads_per_kernel);
  end_line();
  line_of("graph");
  end_line();
  return lex.mark();
}

}  // namespace

std::string print(const Plan& plan) {
  SKIRL_CHECK(plan.graph.node_count() == plan.graph.node_bound(), "the graph of a plan has holes");
  std::string text(kFirstLine);
  text += "\nmodel ";
  append_quoted(text, plan.model);
  text += "\nstrategy ";
  append_quoted(text, plan.strategy);
  text += "\nthreads ";
  append_number(text, plan.threads_per_kernel);
  text += "\ngraph\n";
  std::vector<NodeId> order(plan.graph.node_count());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = NodeId(i);
  text += print(plan.graph, order);
  text += kPrograms.substr(1);
  for (const DeviceProgram& program : plan.devices) print_program(text, plan.graph, program);
  return text;
}

Plan parse_plan(std::string_view text, std::string_view file) {
  Plan plan;
  const Lexer::Mark begin = read_head(plan, text, file);
  const std::size_t end = text.find(kPrograms, begin.at - 1);
  if (end == std::string_view::npos) throw Error("the plan has no line 'programs', expected one behind the graph", std::string(file));
  const std::string_view graph = text.substr(begin.at, std::max(end + 1, begin.at) - begin.at);
  plan.graph = parse(graph, file, {}, begin.line);
  if (const std::vector<Breach> breaches = verify(plan.graph); !breaches.empty())
    throw Error("the graph of the plan breaks rule R" + std::to_string(breaches.front().rule) + ": " + breaches.front().message,
                std::string(file) + (breaches.size() > 1 ? ", first of " + std::to_string(breaches.size()) + " breaches" : ""));
  const std::uint32_t line = begin.line + static_cast<std::uint32_t>(std::count(graph.begin(), graph.end(), '\n')) + 1;
  PlanReader(plan, text.substr(end + kPrograms.size()), file, line).run();
  for (const DeviceProgram& program : plan.devices)
    if (const std::string fault = data_fault(plan.graph, program); !fault.empty()) throw Error(fault, std::string(file));
  return plan;
}

}  // namespace skirl
