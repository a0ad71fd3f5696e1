#include <algorithm>

#include "ir/parser.h"
#include "ir/text_parts.h"

namespace skirl {
namespace {

using Kind = Lexer::Kind;

template <std::size_t I = 0>
Attrs default_attrs(std::size_t index) {
  if constexpr (I == std::variant_size_v<Attrs>) {
    check_failed("index", "attributes of no kind", __FILE__, __LINE__);
  } else {
    return index == I ? Attrs(std::in_place_index<I>) : default_attrs<I + 1>(index);
  }
}

std::optional<Phase> phase_named(std::string_view word) {
  for (const Phase phase : {Phase::F, Phase::BI, Phase::BW, Phase::U})
    if (name(phase) == word) return phase;
  return std::nullopt;
}

constexpr std::array kRoles{Role::Activation, Role::Input, Role::Param, Role::State, Role::ActGradient, Role::Gradient, Role::Scalar};

}  // namespace

// ---- attributes

Attrs Parser::attributes(Op op) {
  Attrs attrs = default_attrs(info(op).attrs_index);
  lex_.expect("{", "before attributes");
  ++lex_.open;
  bool first = true;
  while (!lex_.accept("}")) {
    if (!first) lex_.expect(",", "or '}' between attributes");
    first = false;
    const Lexer::Token key = lex_.take();
    bool found = false;
    std::vector<std::string> known;
    for_each_field(attrs, [&](const char* field, auto& value) {
      known.emplace_back(field);
      if (found || key.kind != Kind::Word || key.text != field) return;
      found = true;
      lex_.expect("=", "after the name of an attribute");
      using T = std::decay_t<decltype(value)>;
      if constexpr (std::is_same_v<T, bool>) {
        const bool yes = lex_.accept_word("true");
        if (!yes && !lex_.accept_word("false")) lex_.fail_expected("true or false");
        value = yes;
      } else if constexpr (std::is_same_v<T, double> || std::is_same_v<T, std::optional<double>>) {
        value = number();
      } else if constexpr (std::is_same_v<T, std::string>) {
        value = word_or_quoted("a word or a string");
      } else if constexpr (std::is_same_v<T, DType>) {
        const std::string word = word_or_quoted("an element type");
        const std::optional<DType> dtype = dtype_named(word);
        if (!dtype) lex_.fail("unknown type '" + word.substr(0, 64) + "'; known: " + nearest_first(word, dtype_names()));
        value = *dtype;
      } else if constexpr (std::is_same_v<T, std::vector<std::int64_t>>) {
        value = integer_list();
      } else if constexpr (std::is_same_v<T, IntervalTable>) {
        value = interval_table(kMostDim);
      } else {
        value = integer_in(-kMostInteger, kMostInteger, field);
      }
    });
    if (!found) {
      const std::string op_name = info(op).name;
      if (known.empty()) lex_.fail(op_name + " has no attributes, found " + Lexer::shown(key));
      lex_.fail("unknown attribute " + Lexer::shown(key) + " of " + op_name + "; known: " + nearest_first(key.text, known));
    }
  }
  --lex_.open;
  return attrs;
}

// ---- one operation

/// The operator, its attributes and its operands.
void Parser::operation(Statement& s) {
  const Lexer::Token token = lex_.take();
  s.line = token.line;
  s.op = op_of(token);
  if (s.op == Op::Einsum && lex_.peek().kind == Kind::String) {
    s.attrs = Attrs{EinsumAttrs{string(lex_.take())}};
  } else if (is_signature(s.op) && lex_.peek().kind == Kind::String) {
    s.name = g_.intern(string(lex_.take()));
  }
  if (!s.attrs && lex_.peek().is("{")) s.attrs = attributes(s.op);
  operands(s);
  if (!s.attrs && lex_.peek().is("{")) s.attrs = attributes(s.op);
}

void Parser::operands(Statement& s) {
  for (;;) {
    if (lex_.peek().kind == Kind::Value) {
      s.operands.push_back(value_of(lex_.take()));
    } else if (lex_.peek().is("(")) {
      s.operands.push_back(nested());
    } else if (s.operands.empty() || !lex_.accept(",")) {
      break;
    } else if (lex_.peek().kind != Kind::Value && !lex_.peek().is("(")) {
      lex_.fail_expected("an operand after ','");
    }
    if (s.operands.size() > 0xFFFF) lex_.fail("more than 65,535 operands");
  }
}

/// (op …) within an expression: its first result.
ValueId Parser::nested() {
  enter();
  lex_.expect("(", "before an expression");
  ++lex_.open;
  Statement s;
  operation(s);
  if (lex_.peek().kind == Kind::String) s.name = g_.intern(string(lex_.take()));
  if (!lex_.peek().is(")")) lex_.fail_expected("an operand or ')'");
  --lex_.open;
  lex_.take();
  leave();
  const NodeId node = add(s);
  if (g_[node].result_count == 0) lex_.fail(std::string(info(s.op).name) + " has no result, so it cannot be an operand");
  line_nodes_.push_back(node);
  return g_.result(node);
}

/// : TYPE LAYOUT, …
void Parser::annotation(Statement& s) {
  if (!lex_.accept(":")) return;
  do {
    const TensorType t = type();
    const LayoutId l = layout(t.shape.size(), t.shape);
    s.results.push_back({g_.intern(t), l, Role::Activation});
    if (s.results.size() > 0xFF) lex_.fail("more than 255 results");
  } while (lex_.accept(","));
}

// ---- what stands behind: name, phase, keywords, tags

void Parser::trailing(Statement& s) {
  for (;;) {
    const Lexer::Token token = lex_.peek();
    if (token.kind == Kind::String) {
      if (s.name.valid()) lex_.fail("a second name " + Lexer::shown(token) + ", the first is \"" + g_[s.name] + "\"");
      s.name = g_.intern(string(lex_.take()));
    } else if (token.kind == Kind::Quoted) {
      tag(s);
    } else if (token.kind != Kind::Word) {
      return;
    } else if (const std::optional<Phase> phase = phase_named(token.text)) {
      if (s.phase) lex_.fail("a second phase " + Lexer::shown(token));
      s.phase = phase;
      lex_.take();
    } else if (is_reserved(token.text)) {
      lex_.take();
      keyword(s, token.text);
    } else {
      tag(s);
    }
  }
}

void Parser::keyword(Statement& s, std::string_view key) {
  lex_.expect("=", "after '" + std::string(key) + "'");
  if (key == "mesh") {
    if (lex_.peek().kind != Kind::Mesh) lex_.fail_expected("a mesh such as @s0");
    s.mesh = mesh_of(lex_.take());
  } else if (key == "stream") {
    s.stream = g_.add_stream(word_or_quoted("the name of a stream"));
  } else if (key == "role") {
    const bool list = lex_.accept("[");
    do {
      const std::string word = word_or_quoted("a role");
      const auto role = std::find_if(kRoles.begin(), kRoles.end(), [&](Role r) { return name(r) == word; });
      if (role == kRoles.end()) {
        std::vector<std::string> known;
        for (const Role r : kRoles) known.emplace_back(name(r));
        lex_.fail("unknown role '" + word.substr(0, 64) + "'; known: " + nearest_first(word, known));
      }
      s.roles.push_back(*role);
      if (s.roles.size() > 0xFF) lex_.fail("more than 255 roles");
    } while (list && lex_.accept(","));
    if (list) lex_.expect("]", "after roles");
  } else if (key == "origin") {
    s.origin = g_.intern(Origin(integer_list()));
  } else if (key == "after") {
    after_list();
  } else {
    lex_.fail("'" + std::string(key) + "' does not stand here", "quote a tag of this name: '" + std::string(key) + "'");
  }
}

void Parser::after_list() {
  lex_.expect("[", "before the nodes to wait for");
  ++lex_.open;
  bool first = true;
  while (!lex_.accept("]")) {
    if (!first) lex_.expect(",", "or ']' between nodes to wait for");
    first = false;
    const Lexer::Token token = lex_.take();
    if (token.kind == Kind::Value)
      after_.emplace_back(token.text, std::string_view());
    else if (token.kind == Kind::Label)
      after_.emplace_back(std::string_view(), token.text);
    else
      lex_.fail("found " + Lexer::shown(token) + ", expected a value such as %3 or a label such as ^0");
    if (++edge_count_ > kMostOperands) lex_.fail("more than 40 million control edges");
  }
  --lex_.open;
}

void Parser::tag(Statement& s) {
  const Lexer::Token token = lex_.peek();
  Tag tag{g_.intern(word_or_quoted("a tag")), {}};
  if (s.tags.find(tag.name) != nullptr) lex_.fail("tag " + Lexer::shown(token) + " stands twice");
  if (s.tags.tags.size() == 255) lex_.fail("more than 255 tags");
  if (lex_.accept("=")) {
    const Lexer::Token& value = lex_.peek();
    const bool is_word =
        value.kind == Kind::Quoted || value.kind == Kind::String || (value.kind == Kind::Word && variable(value.text) == nullptr);
    tag.value = is_word ? TagValue::word(g_.intern(word_or_quoted("a tag value"))) : TagValue::integer(integer());
  }
  s.tags = with_tag(std::move(s.tags), tag);
}

// ---- adding

/// Result types from the operator table, once a distinct (operator, attributes, operand types).
void Parser::infer(Statement& s) {
  const OpInfo& entry = info(s.op);
  const int count = static_cast<int>(s.operands.size());
  if (count < entry.min_operands || (entry.max_operands >= 0 && count > entry.max_operands)) {
    const std::string most = entry.max_operands < 0 ? " or more" : " to " + std::to_string(entry.max_operands);
    throw Error(std::string(entry.name) + ": got " + std::to_string(count) + " operands, expected " + std::to_string(entry.min_operands) +
                    (entry.max_operands == entry.min_operands ? "" : most),
                lex_.where(s.line));
  }
  const AttrsId attrs = g_.intern(*s.attrs);
  const bool is_given = entry.max_operands == 0 && is_signature(s.op);  // no operands that tell the type
  key_.clear();
  key_.push_back(static_cast<std::uint32_t>(s.op));
  key_.push_back(attrs.index());
  for (const ValueId operand : s.operands) key_.push_back(g_[operand].type.index());
  if (is_given)
    for (const ResultInit& result : s.results) key_.push_back(result.type.index());
  std::uint64_t hash = key_.size();
  for (const std::uint32_t part : key_) hash = hash_mix(hash, part);
  auto& [known_key, known_types] = inferred_[hash];
  if (known_key != key_) {
    std::vector<TensorType> operand_types;
    std::vector<TensorType> given;
    for (const ValueId operand : s.operands) operand_types.push_back(g_.type(operand));
    if (is_given)
      for (const ResultInit& result : s.results) given.push_back(g_[result.type]);
    if (is_given && given.size() != 1)
      throw Error(std::string(entry.name) + ": got " + std::to_string(given.size()) + " types, expected one", lex_.where(s.line));
    std::vector<TypeId> types;
    try {
      const std::vector<TensorType> inferred = entry.infer({s.op, *s.attrs, operand_types, given});
      if (is_given) {
        types.push_back(s.results.front().type);
      } else {
        for (const TensorType& t : inferred) {
          check_type(t);
          types.push_back(g_.intern(t));
        }
      }
    } catch (const Error& error) {
      if (!error.at().empty()) throw;
      throw Error(error.complaint(), lex_.where(s.line), error.help());
    }
    known_key = key_;
    known_types = std::move(types);
  }
  if (s.results.empty()) {
    const LayoutId layout = g_.replicate(s.mesh.value_or(kHome));
    for (const TypeId t : known_types) s.results.push_back({t, layout, Role::Activation});
  } else {
    check_annotation(s, known_types);
  }
}

void Parser::check_annotation(const Statement& s, const std::vector<TypeId>& found) {
  bool equal = s.results.size() == found.size();
  for (std::size_t r = 0; equal && r < found.size(); ++r) equal = s.results[r].type == found[r];
  if (equal) return;
  std::string stated;
  std::string inferred;
  for (const ResultInit& result : s.results) stated += (stated.empty() ? "" : ", ") + to_string(g_[result.type]);
  for (const TypeId t : found) inferred += (inferred.empty() ? "" : ", ") + to_string(g_[t]);
  throw Error(
      std::string(info(s.op).name) + ": the text says " + stated + ", its operands give " + (inferred.empty() ? "no result" : inferred),
      lex_.where(s.line));
}

NodeId Parser::add(Statement& s) {
  if (!s.attrs) s.attrs = default_attrs(info(s.op).attrs_index);
  infer(s);
  if (g_.node_bound() >= kMostNodes) lex_.fail("more than 10 million nodes");
  operand_count_ += s.operands.size();
  if (operand_count_ > kMostOperands) lex_.fail("more than 40 million operands");
  const Phase phase = s.phase.value_or(default_phase(s.op));
  if (s.roles.size() > 1 && s.roles.size() != s.results.size())
    lex_.fail(std::to_string(s.roles.size()) + " roles for " + std::to_string(s.results.size()) + " results");
  for (std::size_t r = 0; r < s.results.size(); ++r) {
    if (s.roles.empty())
      s.results[r].role = default_role(s.op, phase, g_[s.results[r].type].shape, r);
    else
      s.results[r].role = s.roles[s.roles.size() == 1 ? 0 : r];
  }
  const MeshId mesh = s.mesh.value_or(s.results.empty() ? kHome : g_[s.results.front().layout].mesh);
  return g_.add({s.op, s.operands, s.results, g_.intern(*s.attrs), phase, g_.intern(s.tags), mesh, s.stream, s.name, s.origin});
}

/// Nested nodes of a line have its phase and tags; `after` is of the outermost.
void Parser::finish_line(NodeId node, const Statement& s) {
  for (const NodeId nested : line_nodes_) {
    g_[nested].tags = g_[node].tags;
    if (s.phase) g_[nested].phase = *s.phase;
  }
  line_nodes_.clear();
  for (const auto& [value, label] : after_) {
    const ValueId known = value.empty() ? ValueId() : find_value(value);
    if (known.valid()) {
      g_.add_order(g_[known].producer, node);
      continue;
    }
    const auto it = value.empty() ? labels_.find(label) : labels_.end();
    if (it != labels_.end())
      g_.add_order(it->second, node);
    else
      waiting_.push_back({value, label, node, s.line});
  }
  after_.clear();
}

/// [%a, %b =] [^l =] op … : … "name" F TAG=1
void Parser::node_statement() {
  std::vector<std::string_view> names;
  std::string_view label;
  if (lex_.peek().kind == Kind::Label) {
    label = lex_.take().text;
    if (labels_.count(label) > 0) lex_.fail("label '^" + std::string(label.substr(0, 64)) + "' stands twice");
    lex_.expect("=", "after a label");
  } else if (lex_.peek().kind == Kind::Value) {
    do {
      if (lex_.peek().kind != Kind::Value) lex_.fail_expected("a value such as %x");
      names.push_back(lex_.take().text);
      if (names.size() > 0xFF) lex_.fail("more than 255 results");
    } while (lex_.accept(","));
    lex_.expect("=", "after the values that a line defines");
  }
  Statement s;
  operation(s);
  annotation(s);
  trailing(s);
  end_of_line();
  const NodeId node = add(s);
  const std::size_t results = g_[node].result_count;
  if (names.size() > results)
    throw Error(
        std::string(info(s.op).name) + " gives " + std::to_string(results) + " results, the line names " + std::to_string(names.size()),
        lex_.where(s.line));
  if (names.empty() && results > 0)
    throw Error("the results of " + std::string(info(s.op).name) + " have no name, expected '%name = ' before it", lex_.where(s.line));
  for (std::size_t i = 0; i < names.size(); ++i) bind(names[i], g_.result(node, i));
  if (!label.empty()) labels_.emplace(label, node);
  finish_line(node, s);
}

}  // namespace skirl
