#include "strategies/schedule_cost.h"

#include <algorithm>

#include "ir/error.h"
#include "strategies/schedule_cells.h"

namespace skirl {
namespace {

double cell_time(const Cell& cell, const ScheduleTimes& times) {
  const StageTimes& stage = times.of(cell.stage);
  switch (cell.work) {
    case Work::F:
      return stage.forward;
    case Work::I:
      return stage.input;
    case Work::W:
      return stage.weight;
    case Work::B:
      return stage.input + stage.weight;
  }
  return 0;
}

void summarize(const ScheduleTable& table, ScheduleCost& cost) {
  double idle = 0;
  for (std::size_t rank = 0; rank < table.ranks.size(); ++rank) {
    if (cost.end[rank].empty()) continue;
    cost.makespan = std::max(cost.makespan, cost.end[rank].back());
    cost.span_bubble = std::max(cost.span_bubble, cost.end[rank].back() - cost.start[rank].front() - cost.busy[rank]);
  }
  cost.bubble = cost.makespan;
  for (const double busy : cost.busy) {
    cost.bubble = std::min(cost.bubble, cost.makespan - busy);
    idle += cost.makespan - busy;
  }
  if (cost.makespan > 0) cost.bubble_fraction = idle / (cost.makespan * static_cast<double>(table.ranks.size()));
}

}  // namespace

ScheduleCost schedule_cost(const ScheduleTable& table, const ScheduleTimes& times) {
  const ScheduleCells cells(table);
  ScheduleCost cost;
  cost.busy.assign(table.ranks.size(), 0);
  cost.start.resize(table.ranks.size());
  cost.end.resize(table.ranks.size());
  std::vector<double> ended(cells.bound(), 0);
  const std::vector<std::size_t> next = run_slots(table, cells, [&](std::size_t rank, std::size_t slot) {
    double start = cost.end[rank].empty() ? 0 : cost.end[rank].back();
    double duration = 0;
    for (const Cell& cell : table.ranks[rank][slot]) {
      duration += cell_time(cell, times);
      cells.for_each_need(cell, [&](const Cell& need) {
        const bool crosses = cells.rank(need) != static_cast<std::int64_t>(rank);
        start = std::max(start, ended[cells.index(need)] + (crosses ? times.transfer : 0));
      });
    }
    if (table.ranks[rank][slot].size() > 1) duration *= times.overlap;
    for (const Cell& cell : table.ranks[rank][slot]) ended[cells.index(cell)] = start + duration;
    cost.start[rank].push_back(start);
    cost.end[rank].push_back(start + duration);
    cost.busy[rank] += duration;
  });
  for (std::size_t rank = 0; rank < next.size(); ++rank)
    if (next[rank] < table.ranks[rank].size())
      throw Error("rank " + std::to_string(rank) + " column " + std::to_string(next[rank]) + ": " +
                  to_string(table.ranks[rank][next[rank]]) + " never starts");
  summarize(table, cost);
  cost.peak_activations = peak_activations(table);
  return cost;
}

std::vector<std::int64_t> peak_activations(const ScheduleTable& table) {
  std::vector<std::int64_t> peaks;
  for (const std::vector<Slot>& slots : table.ranks) {
    std::int64_t now = 0, most = 0;
    for (const Slot& slot : slots)
      for (const Cell& cell : slot) {
        if (cell.work == Work::F) most = std::max(most, ++now);
        if (cell.work == Work::B || cell.work == Work::W) --now;
      }
    peaks.push_back(most);
  }
  return peaks;
}

double makespan_bound(const Placement& placement, std::int64_t microbatches, const ScheduleTimes& times) {
  const std::int64_t stages = static_cast<std::int64_t>(placement.rank.size());
  const std::int64_t reversed = placement.two_ways() ? microbatches - placement.reverse_from : 0;
  std::int64_t ranks = 0;
  for (const std::int64_t rank : placement.rank) ranks = std::max(ranks, rank + 1);
  std::vector<double> work(static_cast<std::size_t>(ranks), 0);
  std::vector<double> head(static_cast<std::size_t>(ranks), -1);
  const auto walk = [&](const std::vector<std::int64_t>& rank_of, std::int64_t count) {
    if (count == 0) return;
    double before = 0;
    for (std::int64_t s = 0; s < stages; ++s) {
      const std::size_t rank = static_cast<std::size_t>(rank_of[static_cast<std::size_t>(s)]);
      const StageTimes& t = times.of(s);
      if (s > 0 && rank_of[static_cast<std::size_t>(s - 1)] != rank_of[static_cast<std::size_t>(s)]) before += times.transfer;
      if (head[rank] < 0 || before < head[rank]) head[rank] = before;
      work[rank] += static_cast<double>(count) * (t.forward + t.input + t.weight);
      before += t.forward;
    }
  };
  walk(placement.rank, microbatches - reversed);
  walk(placement.reverse_rank, reversed);
  double bound = 0;
  for (std::size_t rank = 0; rank < work.size(); ++rank) bound = std::max(bound, std::max(head[rank], 0.0) + work[rank]);
  return bound;
}

}  // namespace skirl
