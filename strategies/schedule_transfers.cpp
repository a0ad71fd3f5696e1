#include "strategies/schedule_transfers.h"

#include <algorithm>
#include <map>
#include <tuple>

#include "ir/error.h"
#include "strategies/schedule_cells.h"

namespace skirl {
namespace {

/// A transfer, by the stage that receives it.
struct Transfer {
  bool forward;
  std::int64_t stage;
  std::int64_t microbatch;
  auto operator<=>(const Transfer&) const = default;
};

Transfer transfer_of(const TransferSide& side) {
  return {side.forward, side.sends ? (side.forward ? side.stage + 1 : side.stage - 1) : side.stage, side.microbatch};
}
std::int64_t sending_stage(const Transfer& transfer) { return transfer.forward ? transfer.stage - 1 : transfer.stage + 1; }
TransferSide side(const Transfer& transfer, bool sends) {
  return {sends, transfer.forward, sends ? sending_stage(transfer) : transfer.stage, transfer.microbatch};
}

std::int64_t rank_of(const ScheduleCells& cells, std::int64_t stage, std::int64_t microbatch) {
  return cells.rank({stage, Work::F, microbatch});
}

/// The transfer that brings a cell what it reads, if that comes from another rank.
std::vector<Transfer> reads(const ScheduleTable& table, const ScheduleCells& cells, const Cell& cell) {
  if (cell.work == Work::W) return {};
  const Transfer transfer{cell.work == Work::F, cell.stage, cell.microbatch};
  const std::int64_t from = sending_stage(transfer);
  if (from < 0 || from >= table.stages) return {};
  if (rank_of(cells, from, cell.microbatch) == rank_of(cells, cell.stage, cell.microbatch)) return {};
  return {transfer};
}

/// The transfer that carries away what a cell makes.
std::vector<Transfer> sends(const ScheduleTable& table, const ScheduleCells& cells, const Cell& cell) {
  if (cell.work == Work::W) return {};
  const std::int64_t to = cell.work == Work::F ? cell.stage + 1 : cell.stage - 1;
  if (to < 0 || to >= table.stages) return {};
  return reads(table, cells, {to, cell.work == Work::F ? Work::F : Work::I, cell.microbatch});
}

class TransferChecker {
 public:
  TransferChecker(const ScheduleActions& actions, const ScheduleTable& table, std::string_view name)
      : a_(actions), t_(table), cells_(table), name_("schedule '" + std::string(name) + "': ") {}

  void run() {
    for (std::size_t rank = 0; rank < a_.size(); ++rank) walk(rank);
    same_order();
    no_circle();
  }

 private:
  [[noreturn]] void fail(std::size_t rank, const ScheduleAction& action, const std::string& complaint) const {
    throw Error(name_ + "rank " + std::to_string(rank) + " column " + std::to_string(action.column) + ": " + complaint);
  }

  void walk(std::size_t rank) {
    std::vector<bool> done(cells_.bound(), false);
    std::map<Transfer, std::size_t> received;  // where, until it is read
    std::map<Transfer, bool> sent;
    for (std::size_t i = 0; i < a_[rank].size(); ++i) {
      const ScheduleAction& action = a_[rank][i];
      for (const Cell& cell : action.slot)
        for (const Transfer& transfer : reads(t_, cells_, cell))
          if (received.erase(transfer) == 0)
            fail(rank, action, to_string(cell) + " stands before " + to_string(side(transfer, false)) + ", which it reads");
      for (const Cell& cell : action.slot) done[cells_.index(cell)] = true;
      for (const TransferSide& one : action.transfers) post(rank, action, one, done, received, sent, i);
    }
    for (const auto& [transfer, at] : received)
      fail(rank, a_[rank][at], to_string(side(transfer, false)) + " is read by no cell behind it");
    for (const Slot& slot : t_.ranks[rank])
      for (const Cell& cell : slot)
        for (const Transfer& transfer : sends(t_, cells_, cell))
          if (!sent[transfer])
            throw Error(name_ + "rank " + std::to_string(rank) + ": " + to_string(side(transfer, true)) + " is missing: " +
                        to_string(cell) + " makes what stage " + std::to_string(transfer.stage) + " reads on another rank");
  }

  void post(std::size_t rank, const ScheduleAction& action, const TransferSide& one, const std::vector<bool>& done,
            std::map<Transfer, std::size_t>& received, std::map<Transfer, bool>& sent, std::size_t at) {
    const Transfer transfer = transfer_of(one);
    const bool inside = transfer.stage >= 0 && transfer.stage < t_.stages && one.stage >= 0 && one.stage < t_.stages &&
                        sending_stage(transfer) >= 0 && sending_stage(transfer) < t_.stages && one.microbatch < t_.microbatches;
    if (!inside) fail(rank, action, to_string(one) + " has no other side: there are " + std::to_string(t_.stages) + " stages");
    const std::int64_t here = rank_of(cells_, one.stage, one.microbatch);
    if (here != static_cast<std::int64_t>(rank)) fail(rank, action, to_string(one) + " belongs on rank " + std::to_string(here));
    const std::int64_t from = rank_of(cells_, sending_stage(transfer), one.microbatch),
                       to = rank_of(cells_, transfer.stage, one.microbatch);
    if (from == to) fail(rank, action, to_string(one) + " joins two stages of one rank: nothing is to be sent");
    if (one.sends) {
      const Cell source = transfer.forward ? Cell{one.stage, Work::F, one.microbatch} : cells_.backward(one.stage, one.microbatch);
      if (!done[cells_.index(source)]) fail(rank, action, to_string(one) + " stands before " + to_string(source) + ", which makes it");
      if (sent[transfer]) fail(rank, action, to_string(one) + " occurs twice");
      sent[transfer] = true;
      order_[{from, to}].first.push_back({transfer, rank, at});
    } else {
      if (!received.emplace(transfer, at).second) fail(rank, action, to_string(one) + " occurs twice");
      order_[{from, to}].second.push_back({transfer, rank, at});
    }
  }

  struct Posted {
    Transfer transfer;
    std::size_t rank;
    std::size_t action;
  };

  void same_order() const {
    for (const auto& [ranks, lists] : order_) {
      const auto& [sent, received] = lists;
      for (std::size_t i = 0; i < std::min(sent.size(), received.size()); ++i)
        if (sent[i].transfer != received[i].transfer)
          fail(received[i].rank, a_[received[i].rank][received[i].action],
               "receives " + to_string(side(received[i].transfer, false)) + " where rank " + std::to_string(ranks.first) + " sends " +
                   to_string(side(sent[i].transfer, true)) + " (number " + std::to_string(i) + " between them)");
    }
  }

  /// Both sides of a transfer are one event: it happens when both ranks have come to it.
  void no_circle() const {
    std::map<std::pair<Transfer, bool>, std::size_t> reached;  // side → the rank that stands at it or is past it
    std::vector<std::size_t> next(a_.size(), 0);
    const auto waits_for = [&](const ScheduleAction& action) -> const TransferSide* {
      for (const TransferSide& one : action.transfers)
        if (reached.count({transfer_of(one), !one.sends}) == 0) return &one;
      return nullptr;
    };
    for (bool moved = true; moved;) {
      moved = false;
      for (std::size_t rank = 0; rank < a_.size(); ++rank)
        while (next[rank] < a_[rank].size()) {
          const ScheduleAction& action = a_[rank][next[rank]];
          for (const TransferSide& one : action.transfers)
            moved = reached.emplace(std::pair{transfer_of(one), one.sends}, rank).second || moved;
          if (waits_for(action) != nullptr) break;
          ++next[rank];
          moved = true;
        }
    }
    // Each rank that has not come to its end waits for one other: follow them until one comes again.
    std::vector<std::size_t> path;
    std::size_t rank = 0;
    while (rank < a_.size() && next[rank] == a_[rank].size()) ++rank;
    if (rank == a_.size()) return;
    while (std::find(path.begin(), path.end(), rank) == path.end()) {
      path.push_back(rank);
      const Transfer transfer = transfer_of(*waits_for(a_[rank][next[rank]]));
      const bool sends = waits_for(a_[rank][next[rank]])->sends;
      rank = static_cast<std::size_t>(rank_of(cells_, sends ? transfer.stage : sending_stage(transfer), transfer.microbatch));
    }
    std::string circle;
    for (auto it = std::find(path.begin(), path.end(), rank); it != path.end(); ++it) {
      const ScheduleAction& action = a_[*it][next[*it]];
      circle += "rank " + std::to_string(*it) + " column " + std::to_string(action.column) + " waits at " + to_string(*waits_for(action)) +
                " -> ";
    }
    throw Error(name_ + "deadlock when sends block: " + circle + "rank " + std::to_string(rank));
  }

  const ScheduleActions& a_;
  const ScheduleTable& t_;
  ScheduleCells cells_;
  std::string name_;
  std::map<std::pair<std::int64_t, std::int64_t>, std::pair<std::vector<Posted>, std::vector<Posted>>> order_;  // sends, receives
};

}  // namespace

std::string to_string(const TransferSide& side) {
  return std::to_string(side.stage) + (side.sends ? "SEND_" : "RECV_") + (side.forward ? "F" : "B") + std::to_string(side.microbatch);
}

ScheduleActions with_transfers(const ScheduleTable& table) {
  const ScheduleCells cells(table);
  ScheduleActions actions(table.ranks.size());
  std::vector<bool> done(cells.bound(), false);
  std::vector<std::size_t> next(table.ranks.size(), 0);
  const auto push = [&](std::size_t rank, Slot slot, std::vector<TransferSide> transfers) {
    actions[rank].push_back({std::move(slot), std::move(transfers), static_cast<std::int64_t>(actions[rank].size())});
  };
  const auto ready = [&](const Slot& slot) {
    bool all = true;
    for (const Cell& cell : slot) cells.for_each_need(cell, [&](const Cell& need) { all = all && done[cells.index(need)]; });
    return all;
  };
  for (bool moved = true; moved;) {
    moved = false;
    for (std::size_t rank = 0; rank < table.ranks.size(); ++rank) {
      if (next[rank] == table.ranks[rank].size() || !ready(table.ranks[rank][next[rank]])) continue;
      const Slot& slot = table.ranks[rank][next[rank]++];
      moved = true;
      push(rank, slot, {});
      for (const Cell& cell : slot) {
        done[cells.index(cell)] = true;
        for (const Transfer& transfer : sends(table, cells, cell)) {
          push(rank, {}, {side(transfer, true)});
          push(static_cast<std::size_t>(rank_of(cells, transfer.stage, transfer.microbatch)), {}, {side(transfer, false)});
        }
      }
    }
  }
  return actions;
}

void check_transfers(const ScheduleActions& actions, const ScheduleTable& table, std::string_view name) {
  TransferChecker(actions, table, name).run();
}

}  // namespace skirl
