#include "ir/ops/typing.h"

#include <array>
#include <charconv>
#include <cmath>

#include "ir/error.h"

namespace skirl {
namespace {

constexpr std::size_t kMaxRank = 32;
constexpr std::int64_t kMaxElems = std::int64_t{1} << 48;

std::string op_text(const OpCall& call) { return info(call.op).name; }

}  // namespace

void refuse_operand(const OpCall& call, std::size_t operand, std::string_view expected) {
  throw Error(op_text(call) + ": operand " + std::to_string(operand) + " is " + to_string(call.operands[operand]) + ", expected " +
              std::string(expected));
}

void refuse_attr(const OpCall& call, std::string_view attr, std::string_view found, std::string_view expected) {
  throw Error(op_text(call) + ": " + std::string(attr) + " is " + std::string(found) + ", expected " + std::string(expected));
}

std::string to_text(double value) {
  std::array<char, 32> text;
  const auto [end, error] = std::to_chars(text.data(), text.data() + text.size(), value);
  return {text.data(), end};
}

std::string dim_text(std::size_t operand, std::size_t dim, std::int64_t size) {
  return "dimension " + std::to_string(dim) + " of operand " + std::to_string(operand) + " (" + std::to_string(size) + ")";
}

void expect_float(const OpCall& call, std::size_t operand) {
  if (!is_float(call.operands[operand].dtype)) refuse_operand(call, operand, "a float type (f64, f32, bf16, f16)");
}

void expect_integer(const OpCall& call, std::size_t operand) {
  const DType dtype = call.operands[operand].dtype;
  if (dtype != DType::I32 && dtype != DType::I64) refuse_operand(call, operand, "integers (i32, i64)");
}

void expect_type(const OpCall& call, std::size_t operand, DType dtype, const Shape& shape) {
  if (call.operands[operand].dtype != dtype || call.operands[operand].shape != shape)
    refuse_operand(call, operand, to_string(TensorType{dtype, shape}));
}

void expect_shape(const OpCall& call, std::size_t operand, const Shape& shape) {
  if (call.operands[operand].shape != shape) refuse_operand(call, operand, to_string(TensorType{call.operands[operand].dtype, shape}));
}

void expect_rank(const OpCall& call, std::size_t operand, std::size_t rank) {
  if (call.operands[operand].shape.size() != rank) refuse_operand(call, operand, std::to_string(rank) + " dimensions");
}

void expect_rank_at_least(const OpCall& call, std::size_t operand, std::size_t rank) {
  if (call.operands[operand].shape.size() < rank)
    refuse_operand(call, operand, "at least " + std::to_string(rank) + (rank == 1 ? " dimension" : " dimensions"));
}

void expect_not_negative(const OpCall& call, std::string_view attr, double value) {
  if (!std::isfinite(value) || value < 0) refuse_attr(call, attr, to_text(value), "a finite number that is not negative");
}

void expect_finite(const OpCall& call, std::string_view attr, double value) {
  if (!std::isfinite(value)) refuse_attr(call, attr, to_text(value), "a finite number");
}

void expect_dim(const OpCall& call, std::int64_t dim, std::size_t rank) {
  if (dim >= 0 && dim < static_cast<std::int64_t>(rank)) return;
  refuse_attr(call, "dim", std::to_string(dim),
              rank == 0 ? "an operand that has dimensions" : "a dimension from 0 to " + std::to_string(rank - 1));
}

TensorType legal(const OpCall& call, TensorType type) {
  if (type.shape.size() > kMaxRank)
    throw Error(op_text(call) + ": the result has " + std::to_string(type.shape.size()) + " dimensions, expected at most " +
                std::to_string(kMaxRank));
  std::int64_t count = 1;
  bool too_many = false;
  for (const std::int64_t d : type.shape) {
    if (d < 0) throw Error(op_text(call) + ": the result is " + to_string(type) + ", expected no negative dimension");
    too_many = too_many || d > kMaxElems;
    if (!too_many && __builtin_mul_overflow(count, d, &count)) too_many = true;
    too_many = too_many || count > kMaxElems;
  }
  if (too_many) throw Error(op_text(call) + ": the result is " + to_string(type) + ", expected at most 2^48 elements");
  return type;
}

Shape leading(const Shape& shape) { return Shape(shape.begin(), shape.end() - 1); }

std::vector<TensorType> infer_same(const OpCall& call) { return {call.operands.begin(), call.operands.end()}; }

}  // namespace skirl
