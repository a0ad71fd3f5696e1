#pragma once

#include <string>
#include <string_view>

#include "strategies/schedule.h"

/// Schedules as PyTorch's pipelining writes them: a line a rank, a comma between slots, "2F0" a cell (F forward, I backward for inputs,
/// W for weights, B both), "(0F7;7B3)OVERLAP_F_B" or "0F7+7B3" cells that are overlapped.
namespace skirl {

/// Reads a schedule with or without transfers ("0SEND_F1", "(0SEND_F1;0RECV_B0)BATCH"); those that are written out are proved to fit and
/// left to the graph, which derives its own. So are "1UNSHARD", "1RESHARD" and "1REDUCE_GRAD". Blanks around cells, empty cells, CRLF, a
/// trailing comma and empty lines at the end mean nothing. Where B and W stand for the same microbatch and no I does, or where BW stands,
/// the file is in PyTorch's older notation (B for inputs, BW for both). The placement is read off the cells.
///
/// Errors    throws Error that names file, rank and column (counted from 0) and what stands there; and as check_schedule and
///           check_transfers do.
ScheduleTable parse_schedule_csv(std::string_view text, const std::string& file);
/// Throws Error also for a file that cannot be read.
ScheduleTable read_schedule_csv(const std::string& path);

/// The table in PyTorch's notation; `transfers` writes them out.
std::string schedule_csv(const ScheduleTable& table, bool transfers = false);

}  // namespace skirl
