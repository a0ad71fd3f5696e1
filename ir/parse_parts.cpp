#include <algorithm>
#include <charconv>
#include <cmath>

#include "ir/parser.h"
#include "ir/text_parts.h"

namespace skirl {
namespace {

using Kind = Lexer::Kind;

/// A value's number, or none if its name is not a plain number.
std::optional<std::uint32_t> value_number(std::string_view name) {
  if (name.size() > 9 || (name.size() > 1 && name.front() == '0')) return std::nullopt;
  std::uint32_t number = 0;
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), number);
  if (error != std::errc() || end != name.data() + name.size()) return std::nullopt;
  return number;
}

}  // namespace

void Parser::enter() {
  if (++depth_ > kMostNesting) lex_.fail("nested more than " + std::to_string(kMostNesting) + " deep");
}

// ---- values

ValueId Parser::find_value(std::string_view name) const {
  if (const auto number = value_number(name); number && *number < numbered_.size() && numbered_[*number].valid()) return numbered_[*number];
  const auto it = named_.find(std::string(name));
  return it == named_.end() ? ValueId() : it->second;
}

void Parser::bind(std::string_view name, ValueId value) {
  ++bound_count_;
  const auto number = value_number(name);
  if (!number || *number > 2 * bound_count_ + 1024) {
    named_[std::string(name)] = value;
    return;
  }
  if (*number >= numbered_.size()) numbered_.resize(*number + 1);
  numbered_[*number] = value;
}

std::vector<std::string> Parser::value_names() const {
  std::vector<std::string> names;
  for (const auto& [name, value] : named_)
    if (names.size() < 1000) names.push_back("%" + name);
  for (std::size_t i = 0; i < numbered_.size() && names.size() < 1000; ++i)
    if (numbered_[i].valid()) names.push_back("%" + std::to_string(i));
  std::sort(names.begin(), names.end());
  return names;
}

ValueId Parser::value_of(const Lexer::Token& token) {
  const ValueId value = find_value(token.text);
  if (value.valid()) return value;
  const std::string found = Lexer::shown(token);
  const std::string known = nearest_first("%" + std::string(token.text.substr(0, 64)), value_names());
  throw Error("unknown value " + found + (known.empty() ? "; nothing is defined yet" : "; known: " + known), lex_.where(token.line));
}

// ---- numbers

const std::int64_t* Parser::variable(std::string_view name) const {
  for (auto it = repeats_.rbegin(); it != repeats_.rend(); ++it)
    if (it->first == name) return &it->second;
  const auto dim = dims_.find(name);
  return dim == dims_.end() ? nullptr : &dim->second;
}

std::int64_t Parser::plain_integer(const Lexer::Token& token) {
  std::int64_t number = 0;
  const auto [end, error] = std::from_chars(token.text.data(), token.text.data() + token.text.size(), number);
  if (token.kind != Kind::Int || error != std::errc() || end != token.text.data() + token.text.size())
    lex_.fail("found " + Lexer::shown(token) + ", expected a whole number below 2^63");
  return number;
}

std::int64_t Parser::factor() {
  const Lexer::Token token = lex_.take();
  if (token.kind == Kind::Int) return plain_integer(token);
  if (token.is("-")) {
    enter();
    const std::int64_t value = factor();
    leave();
    if (value == std::numeric_limits<std::int64_t>::min()) lex_.fail("a number goes beyond 2^63");
    return -value;
  }
  if (token.is("(")) {
    enter();
    ++lex_.open;
    const std::int64_t value = integer();
    --lex_.open;
    lex_.expect(")", "after an expression");
    leave();
    return value;
  }
  if (token.kind == Kind::Word) {
    if (const std::int64_t* value = variable(token.text)) return *value;
    std::vector<std::string> known;
    for (const auto& [name, value] : dims_) known.push_back(name);
    for (const auto& [name, value] : repeats_) known.push_back(name);
    const std::string word(token.text.substr(0, 64));
    throw Error("unknown dimension '" + word + "'" + (known.empty() ? "; no dim is defined" : "; known: " + nearest_first(word, known)),
                lex_.where(token.line));
  }
  throw Error("found " + Lexer::shown(token) + ", expected a whole number", lex_.where(token.line));
}

std::int64_t Parser::term() {
  std::int64_t value = factor();
  for (;;) {
    if (lex_.accept("*")) {
      if (__builtin_mul_overflow(value, factor(), &value)) lex_.fail("a product goes beyond 2^63");
    } else if (lex_.accept("/")) {
      const std::int64_t divisor = factor();
      if (divisor == 0 || divisor == -1 || value % divisor != 0)
        lex_.fail(std::to_string(value) + " / " + std::to_string(divisor) + " is not a whole number");
      value /= divisor;
    } else {
      return value;
    }
  }
}

std::int64_t Parser::integer() {
  std::int64_t value = term();
  for (;;) {
    if (lex_.accept("+")) {
      if (__builtin_add_overflow(value, term(), &value)) lex_.fail("a sum goes beyond 2^63");
    } else if (lex_.accept("-")) {
      if (__builtin_sub_overflow(value, term(), &value)) lex_.fail("a difference goes beyond 2^63");
    } else {
      return value;
    }
  }
}

std::int64_t Parser::integer_in(std::int64_t least, std::int64_t most, std::string_view what) {
  const std::uint32_t line = lex_.peek().line;
  const std::int64_t value = integer();
  if (value < least || value > most)
    throw Error(std::string(what) + " is " + std::to_string(value) + ", expected " + std::to_string(least) + " to " + std::to_string(most),
                lex_.where(line));
  return value;
}

double Parser::number() {
  const bool negative = lex_.accept("-");
  const Lexer::Token token = lex_.take();
  double value = 0;
  if (token.kind == Kind::Int || token.kind == Kind::Float) {
    const auto [end, error] = std::from_chars(token.text.data(), token.text.data() + token.text.size(), value);
    if (error != std::errc()) throw Error("the number " + Lexer::shown(token) + " is out of range", lex_.where(token.line));
  } else if (token.word("inf")) {
    value = std::numeric_limits<double>::infinity();
  } else if (const std::int64_t* known = token.kind == Kind::Word ? variable(token.text) : nullptr) {
    value = static_cast<double>(*known);
  } else {
    throw Error("found " + Lexer::shown(token) + ", expected a number", lex_.where(token.line));
  }
  return negative ? -value : value;
}

std::vector<std::int64_t> Parser::integer_list() {
  std::vector<std::int64_t> list;
  lex_.expect("[", "before a list of numbers");
  ++lex_.open;
  while (!lex_.accept("]")) {
    if (!list.empty()) lex_.expect(",", "between numbers");
    list.push_back(integer_in(-kMostInteger, kMostInteger, "a number"));
    if (list.size() > 2 * kMostRank) lex_.fail("a list of more than " + std::to_string(2 * kMostRank) + " numbers");
  }
  --lex_.open;
  return list;
}

// ---- words

std::string Parser::string(const Lexer::Token& token) {
  return lex_.unquoted(token, [&](std::string_view expression) {
    Lexer inner(expression, "", token.line);
    std::swap(lex_, inner);
    std::string digits;
    try {
      append_number(digits, integer());
      if (lex_.peek().kind != Kind::End) lex_.fail_expected("'}' after an expression");
    } catch (const Error& error) {
      std::swap(lex_, inner);
      throw Error(error.complaint() + ", in braces within " + Lexer::shown(token), lex_.where(token.line),
                  "write \\{ for a brace that stands for itself");
    }
    std::swap(lex_, inner);
    return digits;
  });
}

std::string Parser::quoted_string(std::string_view what) {
  if (lex_.peek().kind != Kind::String) lex_.fail_expected(what);
  return string(lex_.take());
}

std::string Parser::word_or_quoted(std::string_view what) {
  const Kind kind = lex_.peek().kind;
  if (kind == Kind::Word) return std::string(lex_.take().text);
  if (kind == Kind::Quoted || kind == Kind::String) return string(lex_.take());
  lex_.fail_expected(what);
}

// ---- types and layouts

void Parser::check_type(const TensorType& type) {
  if (type.shape.size() > kMostRank) lex_.fail("a tensor of " + std::to_string(type.shape.size()) + " dimensions, at most 32 are possible");
  std::int64_t product = 1;
  for (const std::int64_t d : type.shape) {
    if (d < 0 || d > kMostDim) lex_.fail("a dimension is " + std::to_string(d) + ", expected 0 to " + std::to_string(kMostDim));
    if (d > 0 && __builtin_mul_overflow(product, d, &product)) product = kMostElems + 1;
    if (product > kMostElems) lex_.fail(to_string(type) + " has more than 2^62 elements");
  }
}

TensorType Parser::type() {
  const Lexer::Token token = lex_.peek();
  if (token.kind != Kind::Word) lex_.fail_expected("a type such as f32[8,4]");
  const std::optional<DType> dtype = dtype_named(token.text);
  if (!dtype) {
    const std::string word(token.text.substr(0, 64));
    lex_.fail("unknown type '" + word + "'; known: " + nearest_first(word, dtype_names()));
  }
  lex_.take();
  TensorType type{*dtype, {}};
  lex_.expect("[", "after the element type");
  ++lex_.open;
  while (!lex_.accept("]")) {
    if (!type.shape.empty()) lex_.expect(",", "or ']' in a shape");
    type.shape.push_back(integer_in(0, kMostDim, "a dimension"));
    if (type.shape.size() > kMostRank) break;
  }
  --lex_.open;
  check_type(type);
  return type;
}

MeshId Parser::mesh_of(const Lexer::Token& token) {
  if (token.text.empty()) return kHome;
  const auto it = meshes_.find(token.text);
  if (it != meshes_.end()) return it->second;
  std::vector<std::string> known;
  for (const auto& [name, id] : meshes_) known.push_back("@" + std::string(name));
  std::sort(known.begin(), known.end());
  const std::string word = "@" + std::string(token.text.substr(0, 64));
  throw Error("unknown mesh '" + word + "'" + (known.empty() ? "; no mesh is defined" : "; known: " + nearest_first(word, known)),
              lex_.where(token.line));
}

std::uint8_t Parser::axis_of(const Mesh& mesh) {
  const std::uint32_t line = lex_.peek().line;
  const std::string word = word_or_quoted("the name of an axis");
  const NameId name = g_.find_name(word);
  const int axis = name.valid() ? mesh.axis_index(name) : -1;
  if (axis >= 0) return static_cast<std::uint8_t>(axis);
  std::vector<std::string> known;
  for (const Axis& a : mesh.axes) known.push_back(g_[a.name]);
  throw Error("no axis '" + word.substr(0, 64) + "' on mesh " + axes_to_string(g_, mesh) + "; axes: " + nearest_first(word, known),
              lex_.where(line));
}

Cut Parser::cut(const Mesh& mesh, std::int64_t size) {
  Cut cut;
  if (lex_.accept("-")) return cut;
  std::int64_t parts = 1;
  while (lex_.peek().kind == Kind::Word || lex_.peek().kind == Kind::Quoted) {
    cut.axes.push_back(axis_of(mesh));
    if (cut.axes.size() > mesh.axes.size()) lex_.fail("a dimension is cut by more axes than its mesh has");
    parts *= mesh.axes[cut.axes.back()].size;
    if (parts > mesh.size()) lex_.fail("an axis cuts a dimension twice");
  }
  if (cut.axes.empty()) lex_.fail_expected("'-' or the axes that cut the dimension");
  if (!lex_.peek().is("{")) return cut;
  cut.table = interval_table(size);
  if (static_cast<std::int64_t>(cut.table.size()) != parts)
    lex_.fail("a table of intervals has " + std::to_string(cut.table.size()) + " owners, its axes have " + std::to_string(parts));
  return cut;
}

/// {0..2 6..8; 2..6}: one list an owner, of intervals within [0, size).
IntervalTable Parser::interval_table(std::int64_t size) {
  lex_.expect("{", "before a table of intervals");
  ++lex_.open;
  IntervalTable table(1);
  while (!lex_.accept("}")) {
    if (lex_.accept(";")) {
      table.emplace_back();
      continue;
    }
    const std::int64_t begin = integer_in(0, size, "the begin of an interval");
    lex_.expect("..", "in an interval");
    table.back().push_back({begin, integer_in(begin + 1, size, "the end of an interval")});
  }
  --lex_.open;
  return table;
}

LayoutId Parser::layout(std::size_t rank, const Shape& shape) {
  if (lex_.peek().kind != Kind::Mesh) return g_.replicate(kHome);
  const MeshId id = mesh_of(lex_.take());
  const Mesh& mesh = g_[id];
  Layout layout{id, {}, {}};
  if (lex_.accept("[")) {
    ++lex_.open;
    while (!lex_.accept("]")) {
      if (!layout.dims.empty()) lex_.expect(",", "or ']' in a layout");
      const std::size_t d = layout.dims.size();
      if (d == rank) lex_.fail("a layout of more dimensions than its tensor, which has " + std::to_string(rank));
      layout.dims.push_back(cut(mesh, shape[d]));
    }
    --lex_.open;
    if (layout.dims.size() != rank)
      lex_.fail("a layout of " + std::to_string(layout.dims.size()) + " dimensions for a tensor of " + std::to_string(rank));
  }
  if (lex_.accept_word("partial")) {
    lex_.expect("(", "after 'partial'");
    while (!lex_.accept(")")) {
      Partial partial{axis_of(mesh), Reduction::Sum};
      if (lex_.accept(":")) {
        if (!lex_.accept_word("max")) lex_.fail_expected("'max'");
        partial.reduction = Reduction::Max;
      }
      layout.partial.push_back(partial);
      if (layout.partial.size() > mesh.axes.size()) lex_.fail("an axis is partial twice");
    }
  }
  layout.canonicalise();
  return g_.intern(layout);
}

Op Parser::op_of(const Lexer::Token& token) {
  if (token.kind == Kind::Word) {
    const auto it = ops_.find(token.text);
    if (it != ops_.end()) return it->second;
    const std::string word(token.text.substr(0, 64));
    throw Error("unknown operator '" + word + "'; nearest: " + nearest_first(word, op_names(), 6), lex_.where(token.line));
  }
  throw Error("found " + Lexer::shown(token) + ", expected an operator", lex_.where(token.line));
}

}  // namespace skirl
