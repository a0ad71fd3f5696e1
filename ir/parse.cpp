#include <algorithm>

#include "ir/parser.h"
#include "ir/text.h"

namespace skirl {
namespace {

using Kind = Lexer::Kind;

constexpr std::size_t kMostIterations = 10'000'000;
constexpr std::int64_t kMostMeshSize = std::int64_t{1} << 24;
constexpr std::size_t kMostMeshes = 1u << 20;

}  // namespace

Parser::Parser(std::string_view text, std::string_view file, const std::map<std::string, std::int64_t>& set, std::uint32_t first_line)
    : lex_(text, file, first_line), set_(set) {
  for (int i = 0; i < kOpCount; ++i) ops_.emplace(info(static_cast<Op>(i)).name, static_cast<Op>(i));
}

Graph Parser::run() {
  while (lex_.peek().kind != Kind::End) statement();
  resolve_waiting();
  for (const auto& [name, value] : set_) {
    if (dims_.count(name) > 0) continue;
    std::vector<std::string> known;
    for (const auto& [dim, size] : dims_) known.push_back(dim);
    throw Error("no dimension '" + name + "' to set to " + std::to_string(value) +
                    (known.empty() ? "; the model has none" : "; dimensions: " + nearest_first(name, known)),
                lex_.where(1));
  }
  return std::move(g_);
}

void Parser::end_of_line() {
  const Lexer::Token& token = lex_.peek();
  if (token.kind == Kind::Newline)
    lex_.take();
  else if (token.kind != Kind::End && !token.is("}"))
    lex_.fail_expected("a tag or the end of the line");
}

void Parser::statement() {
  const Lexer::Token& token = lex_.peek();
  switch (token.kind) {
    case Kind::Newline:
      lex_.take();
      return;
    case Kind::Value:
    case Kind::Label:
      node_statement();
      return;
    case Kind::Word:
      break;
    default:
      lex_.fail_expected("a statement");
  }
  if (token.text == "dim") return dim();
  if (token.text == "repeat") return repeat();
  if (token.text == "mesh") return mesh();
  if (token.text == "streams") return streams();
  if (token.text == "input") return input();
  if (token.text == "param") return param();
  if (token.text == "loss") return loss();
  if (token.text == "output") return output();
  if (ops_.count(token.text) > 0) return node_statement();
  const std::string word(token.text.substr(0, 64));
  lex_.fail("unknown statement '" + word +
            "'; known: " + nearest_first(word, {"dim", "repeat", "mesh", "streams", "input", "param", "loss", "output", "fence"}));
}

/// dim NAME = expression
void Parser::dim() {
  const std::uint32_t line = lex_.take().line;
  if (lex_.peek().kind != Kind::Word) lex_.fail_expected("the name of a dimension");
  const std::string name(lex_.take().text);
  if (!repeats_.empty()) lex_.fail("dim '" + name.substr(0, 64) + "' stands in a repeat", "put it before the repeat");
  if (dims_.count(name) > 0) throw Error("dim '" + name.substr(0, 64) + "' stands twice", lex_.where(line));
  lex_.expect("=", "after the name of a dimension");
  std::int64_t value = integer_in(0, kMostDim, "dim '" + name.substr(0, 64) + "'");
  if (const auto it = set_.find(name); it != set_.end()) {
    value = it->second;
    if (value < 0 || value > kMostDim)
      throw Error("dim '" + name + "' is set to " + std::to_string(value) + ", expected 0 to " + std::to_string(kMostDim),
                  lex_.where(line));
  }
  end_of_line();
  dims_.emplace(name, value);
}

/// repeat NAME in FROM..TO { … }: NAME is FROM, …, TO − 1
void Parser::repeat() {
  lex_.take();
  if (lex_.peek().kind != Kind::Word) lex_.fail_expected("the name that counts");
  const std::string name(lex_.take().text);
  if (variable(name) != nullptr) lex_.fail("'" + name.substr(0, 64) + "' is a dimension or counts already");
  if (!lex_.accept_word("in")) lex_.fail_expected("'in'");
  const std::int64_t from = integer_in(-kMostDim, kMostDim, "the begin of a repeat");
  lex_.expect("..", "between begin and end of a repeat");
  const std::int64_t to = integer_in(-kMostDim, kMostDim, "the end of a repeat");
  if (to < from) lex_.fail("a repeat runs from " + std::to_string(from) + " to " + std::to_string(to) + ", which is below");
  if (lex_.peek().kind == Kind::Newline) lex_.take();
  if (!lex_.peek().is("{")) lex_.fail_expected("'{'");
  const std::uint32_t line = lex_.take().line;
  enter();
  const Lexer::Mark body = lex_.mark();
  repeats_.emplace_back(name, from);
  for (std::int64_t i = from; i < to; ++i) {
    if (++iterations_ > kMostIterations) lex_.fail("the repeats run more than 10 million times");
    if (i > from) lex_.seek(body);
    repeats_.back().second = i;
    while (!lex_.peek().is("}")) {
      if (lex_.peek().kind == Kind::End) throw Error("a repeat has no '}'", lex_.where(line));
      statement();
    }
    lex_.take();
  }
  repeats_.pop_back();
  if (from == to) {
    for (int open = 1; open > 0;) {
      const Lexer::Token token = lex_.take();
      if (token.kind == Kind::End) throw Error("a repeat has no '}'", lex_.where(line));
      open += token.is("{") ? 1 : token.is("}") ? -1 : 0;
    }
  }
  leave();
  end_of_line();
}

/// mesh @s0 {dp:2, tp:4} devices 0 1 … or mesh @u0 = @s0 @s1
void Parser::mesh() {
  lex_.take();
  const Lexer::Token name = lex_.take();
  if (name.kind != Kind::Mesh || name.text.empty()) lex_.fail("found " + Lexer::shown(name) + ", expected a mesh such as @s0");
  if (meshes_.count(name.text) > 0) lex_.fail("mesh " + Lexer::shown(name) + " stands twice");
  if (g_.mesh_count() >= kMostMeshes) lex_.fail("more than " + std::to_string(kMostMeshes) + " meshes");
  const std::size_t before = g_.mesh_count();
  MeshId id;
  if (lex_.accept("=")) {
    std::vector<MeshId> members;
    while (lex_.peek().kind == Kind::Mesh) members.push_back(mesh_of(lex_.take()));
    if (members.size() < 2) lex_.fail("a union of " + std::to_string(members.size()) + " meshes, expected two or more");
    id = g_.union_of(members);
    if (!id.valid()) lex_.fail("these meshes have no union", "the members of a union have equal axes, and no device is in two of them");
  } else {
    std::vector<Axis> axes;
    lex_.expect("{", "before the axes, or '=' before the members of a union");
    std::int64_t product = 1;
    while (!lex_.accept("}")) {
      if (!axes.empty()) lex_.expect(",", "or '}' between axes");
      const NameId axis = g_.intern(word_or_quoted("the name of an axis"));
      lex_.expect(":", "after the name of an axis");
      axes.push_back({axis, integer_in(1, kMostMeshSize, "the size of an axis")});
      product *= axes.back().size;
      if (product > kMostMeshSize) lex_.fail("a mesh of more than 2^24 devices");
      if (axes.size() > kMostRank) lex_.fail("a mesh of more than 32 axes");
      for (std::size_t a = 0; a + 1 < axes.size(); ++a)
        if (axes[a].name == axis) lex_.fail("axis '" + g_[axis] + "' stands twice");
    }
    if (!lex_.accept_word("devices")) lex_.fail_expected("'devices' and their numbers");
    std::vector<DeviceId> devices;
    while (lex_.peek().kind == Kind::Int) {
      const std::int64_t device = plain_integer(lex_.take());
      if (device >= static_cast<std::int64_t>(kMostDevice)) lex_.fail("device " + std::to_string(device) + ", expected 0 to 16777215");
      devices.push_back(static_cast<DeviceId>(device));
    }
    try {
      id = g_.add_mesh(devices, axes);
    } catch (const Error& error) {
      throw error.located(lex_.where(name.line));
    }
  }
  if (g_.mesh_count() == before) lex_.fail("mesh " + Lexer::shown(name) + " is the same as one before");
  end_of_line();
  meshes_.emplace(name.text, id);
}

/// streams compute p2p …
void Parser::streams() {
  lex_.take();
  std::size_t number = 0;
  while (lex_.peek().kind == Kind::Word || lex_.peek().kind == Kind::Quoted) {
    const std::string name = word_or_quoted("the name of a stream");
    if (g_.add_stream(name) != number++)
      lex_.fail("stream '" + name.substr(0, 64) + "' is out of its place: compute is first, each stands once");
  }
  end_of_line();
}

void Parser::resolve_waiting() {
  for (const Waiting& w : waiting_) {
    const ValueId value = w.value.empty() ? ValueId() : find_value(w.value);
    const auto label = w.value.empty() ? labels_.find(w.label) : labels_.end();
    if (!value.valid() && label == labels_.end())
      throw Error("'after' names " +
                      (w.value.empty() ? "^" + std::string(w.label.substr(0, 64)) : "%" + std::string(w.value.substr(0, 64))) +
                      ", which is not defined",
                  lex_.where(w.line));
    g_.add_order(value.valid() ? g_[value].producer : label->second, w.node);
  }
}

Graph parse(std::string_view text, std::string_view file, const std::map<std::string, std::int64_t>& set, std::uint32_t first_line) {
  return Parser(text, file, set, first_line).run();
}

Graph parse(std::string_view text, std::string_view file, const std::map<std::string, std::int64_t>& set) {
  return parse(text, file, set, 1);
}

}  // namespace skirl
