#pragma once

#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "ir/graph.h"
#include "ir/lexer.h"

namespace skirl {

/// Reads the text form; the machinery behind `parse`. Statements are in parse.cpp, nodes in parse_node.cpp, what only models have (inputs,
/// parameters and losses by their short forms) in parse_model.cpp, and the parts of all of them in parse_parts.cpp.
class Parser {
 public:
  Parser(std::string_view text, std::string_view file, const std::map<std::string, std::int64_t>& set, std::uint32_t first_line);
  Graph run();

 private:
  /// A node as the text states it, before it is added.
  struct Statement {
    Op op = Op::Fence;
    std::uint32_t line = 1;
    std::vector<ValueId> operands;
    std::optional<Attrs> attrs;
    std::vector<ResultInit> results;  // as annotated; empty: to be inferred
    NameId name;
    std::optional<Phase> phase;
    TagSet tags;
    std::optional<MeshId> mesh;
    StreamId stream = 0;
    std::vector<Role> roles;
    OriginId origin;
  };
  struct Waiting {  // an `after` whose other end comes later
    std::string_view value;
    std::string_view label;
    NodeId node;
    std::uint32_t line;
  };

  // statements
  void statement();
  void statements_of_block();
  void dim();
  void repeat();
  void mesh();
  void streams();
  void resolve_waiting();
  void end_of_line();

  // nodes
  void node_statement();
  NodeId add(Statement& s);
  void infer(Statement& s);
  void check_annotation(const Statement& s, const std::vector<TypeId>& found);
  void operation(Statement& s);
  void operands(Statement& s);
  ValueId nested();
  void annotation(Statement& s);
  void trailing(Statement& s);
  void keyword(Statement& s, std::string_view key);
  void tag(Statement& s);
  void after_list();
  void finish_line(NodeId node, const Statement& s);
  Attrs attributes(Op op);
  std::string unknown_op_help(std::string_view name) const;

  // model statements
  void input();
  void param();
  void loss();
  void output();
  ValueId loss_operand(std::string_view what);
  void add_loss(NameId name, ValueId sum, ValueId count, std::optional<std::int64_t> fixed_count, double weight, const Statement& tail);

  // parts
  TensorType type();
  LayoutId layout(std::size_t rank, const Shape& shape);
  Cut cut(const Mesh& mesh, std::int64_t size);
  IntervalTable interval_table(std::int64_t size);
  void check_type(const TensorType& type);
  Op op_of(const Lexer::Token& token);
  ValueId value_of(const Lexer::Token& token);
  ValueId find_value(std::string_view name) const;
  void bind(std::string_view name, ValueId value);
  MeshId mesh_of(const Lexer::Token& token);
  std::uint8_t axis_of(const Mesh& mesh);
  std::int64_t integer();  // an expression of dims and repeat variables
  std::int64_t integer_in(std::int64_t least, std::int64_t most, std::string_view what);
  std::int64_t term();
  std::int64_t factor();
  std::int64_t plain_integer(const Lexer::Token& token);
  double number();
  std::string word_or_quoted(std::string_view what);
  std::string string(const Lexer::Token& token);
  std::string quoted_string(std::string_view what);
  std::vector<std::int64_t> integer_list();
  const std::int64_t* variable(std::string_view name) const;
  void enter();  // one level of nesting, bounded
  void leave() { --depth_; }
  std::vector<std::string> value_names() const;

  Lexer lex_;
  Graph g_;
  const std::map<std::string, std::int64_t>& set_;
  std::map<std::string, std::int64_t, std::less<>> dims_;
  std::vector<std::pair<std::string, std::int64_t>> repeats_;  // variables, outermost first
  std::vector<ValueId> numbered_;                              // values named by a number
  std::unordered_map<std::string, ValueId> named_;
  std::size_t bound_count_ = 0;
  std::unordered_map<std::string_view, MeshId> meshes_;
  std::unordered_map<std::string_view, NodeId> labels_;
  std::unordered_map<std::string_view, Op> ops_;
  std::unordered_map<std::uint64_t, std::pair<std::vector<std::uint32_t>, std::vector<TypeId>>> inferred_;  // by hash of the key, the first
  std::vector<std::uint32_t> key_;
  std::vector<Waiting> waiting_;
  std::vector<std::pair<NodeId, NodeId>> order_;                      // control edges of the line
  std::vector<std::pair<std::string_view, std::string_view>> after_;  // of the line: value or label names
  std::vector<NodeId> line_nodes_;                                    // nested nodes of the line, which get its tags
  std::vector<NodeId> params_by_name_;                                // by NameId, of `param` lines
  std::size_t operand_count_ = 0;
  std::size_t edge_count_ = 0;
  std::size_t iterations_ = 0;
  int depth_ = 0;
};

inline constexpr int kMostNesting = 64;
inline constexpr std::int64_t kMostDim = std::int64_t{1} << 40;
inline constexpr std::int64_t kMostElems = std::int64_t{1} << 62;
inline constexpr std::int64_t kMostInteger = std::int64_t{1} << 61;
inline constexpr std::size_t kMostRank = 32;
inline constexpr std::size_t kMostNodes = 10'000'000;
inline constexpr std::size_t kMostOperands = 40'000'000;
inline constexpr DeviceId kMostDevice = 1u << 24;

}  // namespace skirl
