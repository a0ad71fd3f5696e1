#include <algorithm>

#include "ir/parser.h"
#include "ir/text_parts.h"

namespace skirl {
namespace {
using Kind = Lexer::Kind;

}  // namespace

/// input %x "x" : f32[B,S] [cut 0] [sequence 1] [range 256]
void Parser::input() {
  Statement s;
  s.op = Op::Input;
  s.line = lex_.take().line;
  const Lexer::Token value = lex_.take();
  if (value.kind != Kind::Value) lex_.fail("found " + Lexer::shown(value) + ", expected the value that the input defines, such as %x");
  s.name = g_.intern(quoted_string("the name of the input in quotes"));
  if (!lex_.peek().is(":")) lex_.fail_expected("':' and a type");
  annotation(s);
  InputAttrs attrs;
  const auto rank = static_cast<std::int64_t>(g_[s.results.front().type].shape.size());
  for (;;) {
    if (lex_.peek().word("cut") && !attrs.cut) {
      lex_.take();
      attrs.cut = integer_in(0, rank - 1, "the dimension of 'cut'");
    } else if (lex_.peek().word("sequence") && !attrs.sequence) {
      lex_.take();
      attrs.sequence = integer_in(0, rank - 1, "the dimension of 'sequence'");
    } else if (lex_.peek().word("range") && !attrs.range) {
      lex_.take();
      attrs.range = integer_in(1, kMostDim, "the range");
    } else {
      break;
    }
  }
  s.attrs = Attrs{attrs};
  trailing(s);
  end_of_line();
  const NodeId node = add(s);
  bind(value.text, g_.result(node));
  finish_line(node, s);
}

/// param %w "l{i}.w" : f32[4,4] [normal(0.02) | uniform(0.1) | constant(1) | zeros | ones] [frozen]
void Parser::param() {
  Statement s;
  s.op = Op::Param;
  s.line = lex_.take().line;
  const Lexer::Token value = lex_.take();
  if (value.kind != Kind::Value) lex_.fail("found " + Lexer::shown(value) + ", expected the value that the parameter defines, such as %w");
  s.name = g_.intern(quoted_string("the name of the parameter in quotes"));
  if (!lex_.peek().is(":")) lex_.fail_expected("':' and a type");
  annotation(s);
  ParamAttrs attrs;
  bool given = false;
  for (;;) {
    const Lexer::Token token = lex_.peek();
    if (!given && (token.word("normal") || token.word("uniform") || token.word("constant"))) {
      given = true;
      attrs.init = std::string(lex_.take().text);
      lex_.expect("(", "after '" + attrs.init + "'");
      attrs.scale = number();
      lex_.expect(")", "after the number");
    } else if (!given && (token.word("zeros") || token.word("ones"))) {
      given = true;
      attrs.init = "constant";
      attrs.scale = lex_.take().text == "ones" ? 1 : 0;
    } else if (attrs.trainable && token.word("frozen")) {
      attrs.trainable = false;
      lex_.take();
    } else {
      break;
    }
  }
  s.attrs = Attrs{attrs};
  trailing(s);
  end_of_line();
  if (params_by_name_.size() <= s.name.index()) params_by_name_.resize(s.name.index() + 1);
  if (params_by_name_[s.name.index()].valid())
    throw Error("a second parameter is named \"" + g_[s.name] + "\"", lex_.where(s.line),
                "a tied parameter is one param line whose value is used twice; in a repeat, put {i} into the name");
  const NodeId node = add(s);
  params_by_name_[s.name.index()] = node;
  bind(value.text, g_.result(node));
  finish_line(node, s);
}

ValueId Parser::loss_operand(std::string_view what) {
  if (lex_.peek().kind == Kind::Value) return value_of(lex_.take());
  if (lex_.peek().is("(")) return nested();
  lex_.fail_expected(std::string(what) + ", such as %x");
}

/// loss "name" = mse %x %y | softmax_xent %logits %labels [ignore −1] | sum %x, then [weight 1.0] and tags
void Parser::loss() {
  const std::uint32_t line = lex_.take().line;
  const std::string loss_name = quoted_string("the name of the loss in quotes");
  lex_.expect("=", "after the name of the loss");
  const Lexer::Token kind = lex_.take();
  if (!kind.word("mse") && !kind.word("softmax_xent") && !kind.word("sum")) {
    lex_.fail("unknown loss " + Lexer::shown(kind) + "; known: " + nearest_first(kind.text, {"mse", "softmax_xent", "sum"}));
  }
  const bool one = kind.word("sum");
  Statement first;
  first.line = line;
  first.operands.push_back(loss_operand(one ? "what is summed" : kind.word("mse") ? "the prediction" : "the logits"));
  lex_.accept(",");
  if (!one) first.operands.push_back(loss_operand(kind.word("mse") ? "the target" : "the labels"));
  LabelAttrs labels;
  double weight = 1;
  for (;;) {
    if (lex_.peek().word("weight")) {
      lex_.take();
      weight = number();
    } else if (kind.word("softmax_xent") && lex_.peek().word("ignore")) {
      lex_.take();
      labels.ignore = integer_in(-kMostInteger, kMostInteger, "the ignored label");
    } else {
      break;
    }
  }
  Statement tail;
  tail.line = line;
  trailing(tail);
  end_of_line();
  first.tags = tail.tags;
  first.name = g_.intern(loss_name + ".sum");
  if (kind.word("mse")) {
    first.op = Op::SqError;
    const std::int64_t count = elems(g_.type(first.operands.front()).shape);
    const NodeId node = add(first);
    add_loss(g_.intern(loss_name), g_.result(node), ValueId(), count, weight, tail);
  } else if (one) {
    first.op = Op::SumTo;
    first.attrs = Attrs{ShapeAttrs{}};
    const NodeId node = add(first);
    add_loss(g_.intern(loss_name), g_.result(node), ValueId(), 1, weight, tail);
  } else {
    first.op = Op::SoftmaxXent;
    first.attrs = Attrs{labels};
    const NodeId node = add(first);
    Statement count;
    count.op = Op::CountValid;
    count.line = line;
    count.operands = {first.operands[1]};
    count.attrs = Attrs{labels};
    count.tags = tail.tags;
    count.name = g_.intern(loss_name + ".count");
    const NodeId counted = add(count);
    add_loss(g_.intern(loss_name), g_.result(node), g_.result(counted), std::nullopt, weight, tail);
  }
}

void Parser::add_loss(NameId name, ValueId sum, ValueId count, std::optional<std::int64_t> fixed_count, double weight,
                      const Statement& tail) {
  Statement s;
  s.op = Op::Loss;
  s.line = tail.line;
  s.operands = {sum};
  if (count.valid()) s.operands.push_back(count);
  s.attrs = Attrs{LossAttrs{weight, fixed_count}};
  s.tags = tail.tags;
  s.name = name;
  const NodeId node = add(s);
  Statement out;
  out.op = Op::Output;
  out.line = tail.line;
  out.operands = {g_.result(node)};
  out.attrs = Attrs{OutputAttrs{"loss"}};
  out.tags = tail.tags;
  out.name = name;
  add(out);
  finish_line(node, tail);
}

/// output "name" [{kind=metric}] %x
void Parser::output() {
  Statement s;
  operation(s);
  if (!s.name.valid()) lex_.fail_expected("the name of the output in quotes");
  if (!s.attrs) s.attrs = Attrs{OutputAttrs{"metric"}};
  annotation(s);
  trailing(s);
  end_of_line();
  finish_line(add(s), s);
}

}  // namespace skirl
