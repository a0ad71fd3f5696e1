#include "tests/support/kernel_cases.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <map>
#include <string>

namespace skirl::test {
namespace {

template <class T>
const T& one_of(Random& random, const std::vector<T>& all) {
  return all[static_cast<std::size_t>(whole(random, 0, static_cast<std::int64_t>(all.size()) - 1))];
}

const std::vector<std::string> kSpecs = {
    "bsh,hf->bsf",     "bsf,hf->bsh",     "bsh,bsf->hf", "bsh,hnd->bsnd", "bsnd,nde->bse", "bse,nde->bsnd", "bsnd,bse->nde",
    "bsnd,btnd->bnst", "bnst,btnd->bsnd", "h,f->hf",     "hf,f->h",       "f,hf->h",       "a,a->",         "a,a->a",
    "abc,cab->b",      "abc,bca->acb",    "ij,kj->ki",   "abi,icb->cab",  ",ab->ba",       "axby,xyz->abz", "bsh,fh->fsb"};

KernelCase einsum_case(DType dtype, std::int64_t least_dim, Random& random) {
  KernelCase c{Op::Einsum, NoAttrs{}, {{dtype, {}}, {dtype, {}}}};
  const std::string spec = one_of(random, kSpecs);
  c.attrs = EinsumAttrs{spec};
  std::map<char, std::int64_t> sizes;
  std::size_t operand = 0;
  for (const char letter : spec.substr(0, spec.find("->"))) {
    if (letter == ',') {
      operand = 1;
      continue;
    }
    if (!sizes.count(letter)) sizes[letter] = whole(random, least_dim, 7);
    c.operands[operand].shape.push_back(sizes[letter]);
  }
  return c;
}

KernelCase attention_case(Op op, DType dtype, std::int64_t least_dim, Random& random) {
  const auto dim = [&] { return whole(random, least_dim, 7); };
  const std::int64_t b = dim(), m = whole(random, 1, 3), n = m * whole(random, 1, 3), d = dim(), e = dim();
  const std::int64_t s = whole(random, 0, 3) == 0 ? whole(random, 60, 140) : dim();  // one block of queries, or several
  const std::int64_t t = whole(random, 0, 1) ? s : s + dim();
  const DType wide = dtype == DType::F64 ? DType::F64 : DType::F32;
  KernelCase c{op, AttentionAttrs{whole(random, 0, 1) == 1, 0.4}, {{dtype, {b, s, n, d}}, {dtype, {b, t, m, d}}, {dtype, {b, t, m, e}}}};
  if (op == Op::AttentionBI)
    for (const TensorType& more : {TensorType{dtype, {b, s, n, e}}, TensorType{wide, {b, s, n}}, TensorType{dtype, {b, s, n, e}}})
      c.operands.push_back(more);
  if (op == Op::AttentionBI) c.positive = {4};
  return c;
}

/// A sequence in up to four pieces, each of any runs of positions or of none.
KernelCase attention_piece_case(Op op, DType dtype, std::int64_t least_dim, Random& random) {
  KernelCase c = attention_case(op == Op::AttentionPiece ? Op::Attention : Op::AttentionBI, dtype, least_dim, random);
  const std::int64_t length = c.operands[0].shape[1];
  c.op = op;
  c.operands[1].shape[1] = c.operands[2].shape[1] = length;
  AttentionPieceAttrs attrs{whole(random, 0, 1) == 1, 0.4, IntervalTable(static_cast<std::size_t>(whole(random, 1, 4))), 0};
  attrs.turn = whole(random, 0, static_cast<std::int64_t>(attrs.pieces.size()) - 1);
  for (std::int64_t at = 0; at < length;) {
    const std::int64_t end = std::min(length, at + whole(random, 1, std::max<std::int64_t>(1, length / 2)));
    attrs.pieces[static_cast<std::size_t>(whole(random, 0, static_cast<std::int64_t>(attrs.pieces.size()) - 1))].push_back({at, end});
    at = end;
  }
  c.attrs = attrs;
  return c;
}

}  // namespace

std::int64_t whole(Random& random, std::int64_t low, std::int64_t high) {
  return std::uniform_int_distribution<std::int64_t>(low, high)(random);
}

KernelCase kernel_case(Op op, DType t, std::int64_t least_dim, Random& random) {
  const auto dim = [&] { return whole(random, least_dim, 7); };
  const std::int64_t b = dim(), s = dim(), h = dim(), v = 5;
  const Shape shape = {b, s, h}, lead = {b, s};
  const DType index = one_of<DType>(random, {DType::I32, DType::I64});
  const DType w = t == DType::F64 ? DType::F64 : DType::F32;
  const LabelAttrs ignore{std::int64_t{2}};
  switch (op) {
    case Op::Einsum:
      return einsum_case(t, least_dim, random);
    case Op::Attention:
    case Op::AttentionBI:
      return attention_case(op, t, least_dim, random);
    case Op::AttentionPiece:
    case Op::AttentionPieceBI:
      return attention_piece_case(op, t, least_dim, random);
    case Op::AttentionMerge: {
      KernelCase c{op, NoAttrs{}, {}};
      for (std::int64_t i = whole(random, 1, 4); i > 0; --i) c.operands.insert(c.operands.end(), {{t, shape}, {w, lead}});
      return c;
    }
    case Op::Add:
    case Op::Mul: {
      const Shape other = one_of<Shape>(random, {shape, {h}, {1}, {}, {s, h}, {b, 1, h}, {b, s, 1}, {1, s, 1}, {b, 1, 1}});
      return whole(random, 0, 1) ? KernelCase{op, NoAttrs{}, {{t, shape}, {t, other}}}
                                 : KernelCase{op, NoAttrs{}, {{t, other}, {t, shape}}};
    }
    case Op::Scale:
      return {op, ScaleAttrs{-1.75}, {{t, shape}}};
    case Op::Tanh:
    case Op::Gelu:
    case Op::Silu:
    case Op::SumSq:
      return {op, NoAttrs{}, {{t, shape}}};
    case Op::TanhGrad:
    case Op::GeluGrad:
    case Op::SiluGrad:
    case Op::SqError:
      return {op, NoAttrs{}, {{t, shape}, {t, shape}}};
    case Op::Swiglu:
      return {op, NoAttrs{}, {{t, shape}, {t, shape}}};
    case Op::SwigluGrad:
      return {op, NoAttrs{}, {{t, shape}, {t, shape}, {t, shape}}};
    case Op::SqErrorBI:
      return {op, NoAttrs{}, {{t, shape}, {t, shape}, {w, {}}}};
    case Op::SumTo:
      return {op,
              ShapeAttrs{one_of<Shape>(random, {{}, {h}, {1}, {s, h}, {1, s, h}, {b, 1, h}, {b, s, 1}, {1, s, 1}, {s, 1}, shape})},
              {{t, shape}}};
    case Op::LayerNorm:
      return {op, NormAttrs{1e-3}, {{t, shape}, {t, {h}}, {t, {h}}}};
    case Op::LayerNormBI:
      return {op, NoAttrs{}, {{t, shape}, {t, shape}, {t, {h}}, {w, lead}, {w, lead}}, v, {4}};
    case Op::LayerNormBW:
      return {op, NoAttrs{}, {{t, shape}, {t, shape}, {w, lead}, {w, lead}}, v, {3}};
    case Op::RmsNorm:
      return {op, NormAttrs{1e-3}, {{t, shape}, {t, {h}}}};
    case Op::RmsNormBI:
      return {op, NoAttrs{}, {{t, shape}, {t, shape}, {t, {h}}, {w, lead}}, v, {3}};
    case Op::RmsNormBW:
      return {op, NoAttrs{}, {{t, shape}, {t, shape}, {w, lead}}, v, {2}};
    case Op::RowSum:
      return {op, NoAttrs{}, {{t, shape}}};
    case Op::RowSumSq:
      return whole(random, 0, 1) ? KernelCase{op, NoAttrs{}, {{t, shape}}} : KernelCase{op, NoAttrs{}, {{t, shape}, {w, lead}}};
    case Op::NormApply:
      return whole(random, 0, 1) ? KernelCase{op, NormAttrs{1e-3}, {{t, shape}, {t, {h}}, {w, lead}}, v, {2}}
                                 : KernelCase{op, NormAttrs{1e-3}, {{t, shape}, {t, {h}}, {t, {h}}, {w, lead}, {w, lead}}, v, {4}};
    case Op::NormDots:
      return whole(random, 0, 1) ? KernelCase{op, NoAttrs{}, {{t, shape}, {t, shape}, {t, {h}}, {w, lead}}, v, {3}}
                                 : KernelCase{op, NoAttrs{}, {{t, shape}, {t, shape}, {t, {h}}, {w, lead}, {w, lead}}, v, {4}};
    case Op::NormBIApply:
      return whole(random, 0, 1)
                 ? KernelCase{op, NoAttrs{}, {{t, shape}, {t, shape}, {t, {h}}, {w, lead}, {w, lead}}, v, {3}}
                 : KernelCase{op, NoAttrs{}, {{t, shape}, {t, shape}, {t, {h}}, {w, lead}, {w, lead}, {w, lead}, {w, lead}}, v, {4}};
    case Op::Rope:
      return {op, RopeAttrs{100, whole(random, 0, 1) == 1}, {{t, {b, s, dim(), 2 * dim()}}}};
    case Op::Embedding:
      return {op, NoAttrs{}, {{t, {v, h}}, {index, lead}}};
    case Op::EmbeddingBW:
      return {op, ShapeAttrs{{v, h}}, {{t, shape}, {index, lead}}};
    case Op::SoftmaxXent:
      return {op, ignore, {{t, {b, s, v}}, {index, lead}}};
    case Op::SoftmaxXentBI:
      return {op, ignore, {{t, {b, s, v}}, {index, lead}, {w, lead}, {w, {}}}, v, {2}};
    case Op::CountValid:
      return {op, ignore, {{index, lead}}};
    case Op::RowMax:
      return {op, NoAttrs{}, {{t, {b, s, v}}}};
    case Op::SumExp:
      return {op, NoAttrs{}, {{t, {b, s, v}}, {w, lead}}};
    case Op::Pick:
      return {op, ignore, {{t, {b, s, v}}, {index, lead}}};
    case Op::XentMerge:
      return {op, ignore, {{w, lead}, {w, lead}, {w, lead}, {index, lead}}, v, {1}};
    case Op::Loss:
      return {op, LossAttrs{0.7, {}}, {{t, {}}, {DType::F64, {}}}};
    case Op::LossScale:
      return {op, LossAttrs{0.7, 12}, {}};
    case Op::Dropout:
      return {op, DropoutAttrs{0.4}, {{t, shape}}};
    case Op::Sum: {
      const DType accumulate = t == DType::F64 ? t : one_of<DType>(random, {DType::F64, DType::F32});
      return {op, SumAttrs{accumulate}, std::vector<TensorType>(static_cast<std::size_t>(whole(random, 1, 5)), {t, shape})};
    }
    case Op::Slice: {
      const std::int64_t start = whole(random, 0, s);
      return {op, SliceAttrs{1, start, whole(random, 0, s - start)}, {{t, shape}}};
    }
    case Op::Pad:
      return {op, PadAttrs{1, 2, s + 3}, {{t, shape}}};
    case Op::Concat:
      return {op, ConcatAttrs{1}, {{t, shape}, {t, {b, dim(), h}}, {t, {b, dim(), h}}}};
    case Op::Cast:
      return {
          op, CastAttrs{one_of<DType>(random, {DType::F64, DType::F32, DType::BF16, DType::F16, DType::I32, DType::I64})}, {{t, shape}}};
    case Op::Fill:
      return {op, FillAttrs{shape, t, 1.25}, {}};
    case Op::Iota:
      return {op, ShapeAttrs{{s}}, {}};
    case Op::ClipCoef:
      return {op, ClipAttrs{1, 1e-6}, {{DType::F64, {}}}, v, {0}};
    case Op::Sgd:
      if (whole(random, 0, 1)) return {op, SgdAttrs{0.1, 0, 0.01}, {{t, shape}, {t, shape}}};
      return {op, SgdAttrs{0.1, 0.9, 0.01}, {{t, shape}, {t, shape}, {t, shape}}};
    case Op::AdamW:
      return {op, AdamWAttrs{1e-2, 0.9, 0.99, 1e-6, 0.1}, {{t, shape}, {t, shape}, {w, shape}, {w, shape}}, v, {3}};
    default:
      break;
  }
  FAIL("no case for " << info(op).name);
  return {op};
}

}  // namespace skirl::test
