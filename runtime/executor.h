#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "runtime/backend.h"
#include "runtime/loaded_plan.h"

namespace skirl {

/// Faults that tests make on purpose, to show that results do not depend on them.
struct ExecutorOptions {
  int delay_us = 0;  // each piece of work starts after a random delay of up to this many microseconds, and out of turn
  std::uint64_t delay_seed = 1;
  bool poison = false;  // a buffer is filled with NaN as soon as nobody reads it any more, and all are at the start
};

/// Walks the programs of all devices of a plan, step after step: instructions of a stream in their order, waits between streams, and
/// meetings of devices (an instruction that meets others starts moving once those that it reads from have arrived, and ends when its
/// tensors are free again). Nobody waits for anything in particular: what is ready stands in one queue that workers take from.
class Executor {
 public:
  /// Loads the plan, which must outlive the executor. Throws RunError for a plan that would come to a standstill, before anything runs.
  Executor(const Plan& plan, Backend& backend, std::uint64_t seed, const ExecutorOptions& options = {});

  /// Runs step number `step`. Throws RunError if a kernel fails (device, instruction, cause) or nothing can go on ("deadlock", with what
  /// each device waits for); after that the executor is of no further use.
  void run(std::int64_t step);

  const LoadedPlan& loaded() const { return *loaded_; }

 private:
  using EventId = std::uint32_t;

  void reset();
  void check_progress();
  void run_rounds();
  void worker();
  void settle();
  void begin(EventId event);
  void happen(EventId event);
  void work(EventId event);
  void fail(EventId event, const std::string& cause);
  void count_touches();
  void poison_after(const Call& call);
  std::string reasons(EventId event) const;
  [[noreturn]] void report_standstill() const;

  Backend& backend_;
  ExecutorOptions options_;
  std::unique_ptr<LoadedPlan> loaded_;
  std::int64_t step_ = 0;
  bool dry_ = false;  // goes through the events without the backend

  std::mutex mutex_;  // guards everything below while workers run
  std::condition_variable changed_;
  std::deque<EventId> ready_;           // work that can be done
  std::vector<EventId> free_;           // events that wait for nothing and have not been looked at
  std::vector<std::uint32_t> waiting_;  // of each event: events before it that have not happened
  std::vector<bool> happened_;
  std::size_t left_ = 0;
  std::size_t running_ = 0;
  std::size_t workers_ = 0;
  std::string failure_;
  std::vector<std::vector<std::uint32_t>> touches_;       // poison: of each device and buffer, how many references; 0 if it is kept
  std::vector<std::vector<std::uint32_t>> touches_left_;  // in this step
};

}  // namespace skirl
