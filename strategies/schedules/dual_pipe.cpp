#include <algorithm>

#include "ir/error.h"
#include "strategies/schedules/generators.h"
#include "strategies/schedules/shape.h"

namespace skirl {
namespace {

/// One rank of a bidirectional schedule: it works on two flows of microbatches, each on a stage of its own. Flow 0 enters at the outer
/// rank and reaches this one after `position` others; flow 1 comes back from the inner rank.
class Lane {
 public:
  struct Flow {
    std::int64_t stage;
    std::int64_t first_microbatch;
  };

  Lane(Flow out, Flow back, std::vector<Slot>& slots) : flows_{out, back}, slots_(slots) {}

  /// `lanes` ranks lie between the outer and the inner end; each flow has `microbatches` ≥ 2 · lanes. The steps are those of the source.
  void fill(std::int64_t lanes, std::int64_t position, std::int64_t microbatches) {
    const std::int64_t inner = lanes - 1 - position;
    repeat(2 * inner, [&](std::int64_t) { forward(0); });
    repeat(position + 1, [&](std::int64_t) {
      forward(0);
      forward(1);
    });
    repeat(inner, [&](std::int64_t) {
      input(1);
      weight();
      forward(1);
    });
    repeat(microbatches - 2 * lanes + position + 1, [&](std::int64_t i) {
      if (i == 0 && inner == 0) {  // the first pair of the innermost rank would wait longer than it saves
        forward(0);
        backward(1);
      } else {
        pair(0, 1);
      }
      pair(1, 0);
    });
    repeat(inner, [&](std::int64_t) {
      backward(1);
      pair(1, 0);
    });
    // The second half of these backwards is split: their weights fill the last bubbles.
    const std::int64_t split_from = (position + 1) / 2;
    repeat(position + 1, [&](std::int64_t i) {
      const bool both = i > split_from || (i == split_from && position % 2 == 1);
      either(1, both);
      either(0, both || i == split_from);
    });
    repeat(inner, [&](std::int64_t) {
      weight();
      input(0);
    });
    repeat(position + 1, [&](std::int64_t) { weight(); });
  }

 private:
  template <class Step>
  static void repeat(std::int64_t times, Step&& step) {
    for (std::int64_t i = 0; i < times; ++i) step(i);
  }

  Cell next(std::size_t flow, Work work) {
    std::int64_t& count = work == Work::F ? forwards_[flow] : backwards_[flow];
    return {flows_[flow].stage, work, flows_[flow].first_microbatch + count++};
  }
  void forward(std::size_t flow) { slots_.push_back({next(flow, Work::F)}); }
  void backward(std::size_t flow) { slots_.push_back({next(flow, Work::B)}); }
  void pair(std::size_t forward_flow, std::size_t backward_flow) {
    const Cell forward_cell = next(forward_flow, Work::F);
    slots_.push_back({forward_cell, next(backward_flow, Work::B)});
  }
  void input(std::size_t flow) {
    const Cell cell = next(flow, Work::I);
    slots_.push_back({cell});
    weights_.push_back({cell.stage, Work::W, cell.microbatch});
  }
  void either(std::size_t flow, bool split) { split ? input(flow) : backward(flow); }
  void weight() { slots_.push_back({weights_[weights_done_++]}); }

  Flow flows_[2];
  std::vector<Slot>& slots_;
  std::int64_t forwards_[2] = {0, 0};
  std::int64_t backwards_[2] = {0, 0};
  std::vector<Cell> weights_;  // in the order in which they became ready
  std::size_t weights_done_ = 0;
};

}  // namespace

ScheduleTable dualpipe(const ScheduleParams& params) {
  checked_stages_per_rank("dualpipe", params);
  const std::int64_t p = params.ranks;
  if (p % 2 != 0)
    throw Error(
        "dualpipe: " + std::to_string(p) + " ranks, expected an even number: the two directions meet between two ranks", "",
        "the nearest are " + (p > 1 ? std::to_string(p - 1) + " and " : "") + std::to_string(p + 1) + " ranks; dualpipev takes any");
  const std::int64_t each_way = std::max((params.microbatches + 1) / 2, p);
  ScheduleTable table = empty_table(p, 2 * each_way, two_way_placement(p, each_way));
  for (std::int64_t rank = 0; rank < p; ++rank) {
    const Lane::Flow down{rank, 0}, up{p - 1 - rank, each_way};
    const bool first_half = rank < p / 2;
    Lane lane(first_half ? down : up, first_half ? up : down, table.ranks[static_cast<std::size_t>(rank)]);
    lane.fill(p / 2, std::min(rank, p - 1 - rank), each_way);
  }
  if (params.microbatches == 2 * each_way) return table;

  // The surplus is struck out of both ways, and what is left numbered through.
  const std::int64_t down = (params.microbatches + 1) / 2;
  for (std::vector<Slot>& slots : table.ranks) {
    for (Slot& slot : slots) {
      std::erase_if(slot, [&](const Cell& cell) {
        return cell.microbatch < each_way ? cell.microbatch >= down : cell.microbatch - each_way >= params.microbatches - down;
      });
      for (Cell& cell : slot)
        if (cell.microbatch >= each_way) cell.microbatch += down - each_way;
    }
    std::erase_if(slots, [](const Slot& slot) { return slot.empty(); });
  }
  table.microbatches = params.microbatches;
  table.placement = two_way_placement(p, down);
  return table;
}

ScheduleTable dualpipev(const ScheduleParams& params) {
  ScheduleTakes takes;
  takes.fewest_stages = takes.most_stages = takes.stages = 2;
  checked_stages_per_rank("dualpipev", params, takes);
  const std::int64_t p = params.ranks;
  const std::int64_t microbatches = std::max(params.microbatches, 2 * p);
  ScheduleTable table = empty_table(p, microbatches, v_placement(p));
  for (std::int64_t rank = 0; rank < p; ++rank) {
    Lane lane({rank, 0}, {2 * p - 1 - rank, 0}, table.ranks[static_cast<std::size_t>(rank)]);
    lane.fill(p, rank, microbatches);
  }
  return first_microbatches(std::move(table), params.microbatches);
}

}  // namespace skirl
