#include <algorithm>

#include "strategies/list_scheduler.h"
#include "strategies/schedules/generators.h"
#include "strategies/schedules/shape.h"

namespace skirl {
namespace {

void check_v(const char* name, const ScheduleParams& params) {
  ScheduleTakes takes;
  takes.fewest_stages = takes.most_stages = takes.stages = 2;
  checked_stages_per_rank(name, params, takes);
}

ScheduleTable v_within(const ScheduleParams& params, std::int64_t memory) {
  return list_schedule(
      {v_placement(params.ranks), params.microbatches, {}, std::vector<std::int64_t>(static_cast<std::size_t>(params.ranks), memory)});
}

/// The order of one rank of "zbv", for at least 2p−1 microbatches. The stage on the way down is `down`, on the way up `up`.
class VRank {
 public:
  VRank(std::int64_t down, std::int64_t up, std::vector<Slot>& slots) : stages_{down, up}, slots_(slots) {}

  void fill(std::int64_t ranks, std::int64_t rank, std::int64_t microbatches) {
    for (std::int64_t i = 0; i < 2 * (ranks - rank) - 1; ++i) push(kDown, Work::F);
    for (std::int64_t i = 0; i < rank; ++i) {
      push(kUp, Work::F);
      push(kDown, Work::F);
    }
    for (std::int64_t i = 0; i < ranks - rank; ++i) turn();
    while (done(kUp, Work::F) < microbatches) {
      if (done(kDown, Work::F) < microbatches) push(kDown, Work::F);
      push(kDown, Work::I);
      push(kDown, Work::W);
      turn();
    }
    for (std::int64_t i = 0; i < rank; ++i) {
      push(kDown, Work::I);
      push(kUp, Work::I);
    }
    for (std::int64_t i = 0; i < ranks - rank; ++i) {
      push(kDown, Work::I);
      push(kDown, Work::W);
    }
    for (const Way way : {kUp, kDown})
      while (done(way, Work::W) < microbatches) push(way, Work::W);
  }

 private:
  enum Way : std::size_t { kDown, kUp };

  void turn() {
    push(kUp, Work::F);
    push(kUp, Work::I);
    push(kUp, Work::W);
  }
  std::int64_t& done(Way way, Work work) { return done_[way][static_cast<std::size_t>(work)]; }
  void push(Way way, Work work) { slots_.push_back({{stages_[way], work, done(way, work)++}}); }

  std::int64_t stages_[2];
  std::vector<Slot>& slots_;
  std::int64_t done_[2][4] = {};
};

}  // namespace

ScheduleTable zbv_closed(const ScheduleParams& params) {
  const std::int64_t p = params.ranks;
  const std::int64_t microbatches = std::max(params.microbatches, 2 * p - 1);
  ScheduleTable table = empty_table(p, microbatches, v_placement(p));
  for (std::int64_t rank = 0; rank < p; ++rank)
    VRank(rank, 2 * p - 1 - rank, table.ranks[static_cast<std::size_t>(rank)]).fill(p, rank, microbatches);
  return first_microbatches(std::move(table), params.microbatches);
}

ScheduleTable zbv(const ScheduleParams& params) {
  check_v("zbv", params);
  if (params.microbatches >= 2 * params.ranks - 1) return zbv_closed(params);
  return v_within(params, 2 * params.ranks);
}

ScheduleTable vhalf(const ScheduleParams& params) {
  check_v("vhalf", params);
  return v_within(params, (params.ranks + 2) / 2 * 2);
}

ScheduleTable vmin(const ScheduleParams& params) {
  check_v("vmin", params);
  return v_within(params, (2 * params.ranks + 3) / 6 * 2 + 2);  // 2p/3, to the nearest even number, and 2
}

}  // namespace skirl
