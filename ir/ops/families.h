#pragma once

#include <span>

#include "ir/op.h"

/// The operator table by family; ir/op_table.cpp puts them together.
namespace skirl {

std::span<const OpInfo> signature_ops();
std::span<const OpInfo> elementwise_ops();
std::span<const OpInfo> linear_ops();
std::span<const OpInfo> norm_ops();
std::span<const OpInfo> attention_ops();
std::span<const OpInfo> loss_ops();
std::span<const OpInfo> shape_ops();
std::span<const OpInfo> update_ops();
std::span<const OpInfo> communication_ops();

}  // namespace skirl
