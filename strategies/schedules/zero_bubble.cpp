#include <algorithm>

#include "strategies/list_scheduler.h"
#include "strategies/schedules/generators.h"
#include "strategies/schedules/shape.h"

namespace skirl {
namespace {

/// Backwards of one rank: inputs in order, each followed by the weights that `weight` asks for. Weights right behind their own inputs are
/// joined with them.
class Backwards {
 public:
  Backwards(std::int64_t rank, std::vector<Slot>& slots) : rank_(rank), slots_(slots) {}

  void input() {
    slots_.push_back({{rank_, Work::I, inputs_}});
    waiting_.push_back(inputs_++);
  }
  void joined() { slots_.push_back({{rank_, Work::B, inputs_++}}); }
  void weight() {
    if (done_ == waiting_.size()) return;
    const std::int64_t microbatch = waiting_[done_++];
    const Cell own{rank_, Work::I, microbatch};
    if (slots_.back() == Slot{own})
      slots_.back() = {{rank_, Work::B, microbatch}};
    else
      slots_.push_back({{rank_, Work::W, microbatch}});
  }
  void weights() {
    while (done_ < waiting_.size()) weight();
  }

 private:
  std::int64_t rank_;
  std::vector<Slot>& slots_;
  std::int64_t inputs_ = 0;
  std::vector<std::int64_t> waiting_;  // microbatches whose weights are to be done, in order
  std::size_t done_ = 0;               // of them
};

}  // namespace

ScheduleTable zbh1(const ScheduleParams& params) {
  checked_stages_per_rank("zbh1", params);
  const std::int64_t p = params.ranks, m = params.microbatches;
  ScheduleTable table = empty_table(p, m, loop_placement(p, 1));
  for (std::int64_t rank = 0; rank < p; ++rank) {
    std::vector<Slot>& slots = table.ranks[static_cast<std::size_t>(rank)];
    Backwards backwards(rank, slots);
    const std::int64_t warm_up = std::min(p - 1 - rank, m);
    for (std::int64_t f = 0; f < warm_up; ++f) slots.push_back({{rank, Work::F, f}});
    for (std::int64_t i = 0; i < m; ++i) {
      if (warm_up + i < m) slots.push_back({{rank, Work::F, warm_up + i}});
      if (i >= rank && i + warm_up + 1 < m) {
        backwards.joined();
        continue;
      }
      backwards.input();
      if (i >= rank) backwards.weight();
    }
    backwards.weights();
  }
  return table;
}

ScheduleTable zb2p(const ScheduleParams& params) {
  checked_stages_per_rank("zb2p", params);
  const std::int64_t p = params.ranks;
  return list_schedule({loop_placement(p, 1), params.microbatches, {}, std::vector<std::int64_t>(static_cast<std::size_t>(p), 2 * p)});
}

}  // namespace skirl
