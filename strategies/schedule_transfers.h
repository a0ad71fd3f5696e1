#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "strategies/schedule.h"

namespace skirl {

/// One side of a transfer between neighbouring stages on different ranks: the activation of a forward goes to the next stage, the gradient
/// of a backward to the one before.
struct TransferSide {
  bool sends = true;
  bool forward = true;     // an activation
  std::int64_t stage = 0;  // the stage that sends, or receives
  std::int64_t microbatch = 0;
  bool operator==(const TransferSide&) const = default;
};
/// "1SEND_F0", "2RECV_F0".
std::string to_string(const TransferSide& side);

/// What a rank does at a time, with transfers written out: a slot of cells, or transfers that are posted together.
struct ScheduleAction {
  Slot slot;
  std::vector<TransferSide> transfers;
  std::int64_t column = 0;  // in the file that it was read from, or its number
};
using ScheduleActions = std::vector<std::vector<ScheduleAction>>;  // by rank

/// The table with its transfers: each result is sent as soon as it is there, and both sides are posted in one order on all ranks, so that
/// sends may block. The order is that of PyTorch's `_add_send_recv`.
///
/// Requires  check_schedule is content with the table.
ScheduleActions with_transfers(const ScheduleTable& table);

/// Proves that transfers that somebody wrote out fit the table: each that it needs is there once, is sent after what it carries and
/// received before what reads it; two ranks name those from one to the other in the same order; and when every rank waits at a transfer
/// (or at a group posted together) until its peers have come to the other side, all ranks reach their end.
///
/// Errors    throws Error that names rank, column and transfer; a circle of waiting ranks is printed with what each waits at.
void check_transfers(const ScheduleActions& actions, const ScheduleTable& table, std::string_view name);

}  // namespace skirl
