#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>
#include <variant>
#include <vector>

#include "ir/op.h"

/// What the shape functions of the operator table share: checks that throw Error with what was found and what was expected.
namespace skirl {

/// The place of a struct among the alternatives of Attrs.
template <class A, std::size_t I = 0>
constexpr std::size_t attrs_index() {
  if constexpr (std::is_same_v<std::variant_alternative_t<I, Attrs>, A>)
    return I;
  else
    return attrs_index<A, I + 1>();
}

template <class A>
const A& attrs_of(const OpCall& call) {
  return std::get<A>(call.attrs);
}

/// "einsum: operand 1 is f32[3,4], expected WHAT".
[[noreturn]] void refuse_operand(const OpCall& call, std::size_t operand, std::string_view expected);
/// "dropout: p is 1.5, expected WHAT".
[[noreturn]] void refuse_attr(const OpCall& call, std::string_view attr, std::string_view found, std::string_view expected);
/// The shortest text of a number that reads back as the same one.
std::string to_text(double value);
/// "dimension 1 of operand 0 (4)": how messages name where a size comes from.
std::string dim_text(std::size_t operand, std::size_t dim, std::int64_t size);

void expect_float(const OpCall& call, std::size_t operand);
void expect_integer(const OpCall& call, std::size_t operand);
/// Operand `operand` has exactly this type.
void expect_type(const OpCall& call, std::size_t operand, DType dtype, const Shape& shape);
void expect_shape(const OpCall& call, std::size_t operand, const Shape& shape);
void expect_rank(const OpCall& call, std::size_t operand, std::size_t rank);
void expect_rank_at_least(const OpCall& call, std::size_t operand, std::size_t rank);
/// A finite attribute that is not below zero.
void expect_not_negative(const OpCall& call, std::string_view attr, double value);
void expect_finite(const OpCall& call, std::string_view attr, double value);
/// Dimension attribute `dim` of an operand of this rank.
void expect_dim(const OpCall& call, std::int64_t dim, std::size_t rank);
/// The type again, if its shape is one that can be: no negative dimension, at most 32 dimensions and 2^48 elements.
TensorType legal(const OpCall& call, TensorType type);

/// Sums, norms and logarithms of half-width values are kept in f32; of the others in their own type.
inline DType wide(DType dtype) { return dtype == DType::F64 ? DType::F64 : DType::F32; }
/// The shape without its last dimension.
Shape leading(const Shape& shape);

/// For operators whose results have the types of their operands, one by one.
std::vector<TensorType> infer_same(const OpCall& call);

}  // namespace skirl
