#include "runtime/executor.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <random>
#include <set>
#include <thread>

#include "ir/error.h"

namespace skirl {

Executor::Executor(const Plan& plan, Backend& backend, std::uint64_t seed, const ExecutorOptions& options)
    : backend_(backend), options_(options), loaded_(load(plan, backend, seed)) {
  if (options_.poison) count_touches();
  check_progress();
}

void Executor::run(std::int64_t step) {
  if (!failure_.empty()) throw RunError("a step has failed before: " + failure_);
  step_ = step;
  reset();
  if (backend_.workers() == 0)
    run_rounds();
  else
    backend_.run_workers([this] { worker(); });
  if (!failure_.empty()) throw RunError(failure_);
  if (left_ > 0) report_standstill();
}

void Executor::reset() {
  const std::vector<Event>& events = loaded_->events;
  const std::size_t count = events.size() - 1;
  waiting_.resize(count);
  happened_.assign(count, false);
  ready_.clear();
  left_ = count;
  running_ = 0;
  touches_left_ = touches_;
  for (EventId e = 0; e < count; ++e) waiting_[e] = events[e].before;
  for (EventId e = 0; e < count; ++e)
    if (events[e].before == 0) free_.push_back(e);
  settle();
}

/// Goes through all events once without doing anything.
void Executor::check_progress() {
  dry_ = true;
  reset();
  run_rounds();
  dry_ = false;
  if (left_ > 0) report_standstill();
}

// ---- events; all but work() under the mutex while workers run

/// Events that all others before them have let go happen at once, or wait in the queue for a worker.
void Executor::settle() {
  while (!free_.empty()) {
    const EventId event = free_.back();
    free_.pop_back();
    if (loaded_->events[event].works && !dry_) {
      ready_.push_back(event);
    } else {
      begin(event);
      happen(event);
    }
  }
}

void Executor::begin(EventId event) {
  const Event& e = loaded_->events[event];
  if (!dry_ && (e.part == Event::Part::Whole || e.part == Event::Part::Arrives))
    backend_.started(loaded_->instructions[e.instruction].call);
}

void Executor::happen(EventId event) {
  const Event& e = loaded_->events[event];
  happened_[event] = true;
  --left_;
  if (e.part == Event::Part::Whole || e.part == Event::Part::Ended) {
    const LoadedInstruction& instruction = loaded_->instructions[e.instruction];
    if (!dry_) backend_.ended(instruction.call);
    if (!dry_ && options_.poison) poison_after(instruction.call);
  }
  for (const EventId next : loaded_->next_of(event))
    if (--waiting_[next] == 0) free_.push_back(next);
}

void Executor::work(EventId event) {
  const LoadedInstruction& i = loaded_->instructions[loaded_->events[event].instruction];
  if (i.fills)
    for (const TensorView& result : loaded_->results(i)) backend_.fill(i.call, result, i.fill);
  if (i.kernel != LoadedInstruction::kNoKernel) {
    KernelCall call = loaded_->kernels[i.kernel];
    call.step = step_;
    backend_.kernel(i.call, call);
  }
  const std::vector<TensorView>& views = loaded_->views;
  for (const LoadedMove& m : loaded_->moves_of(i))
    backend_.move(i.call, *m.move, std::span(views).subspan(m.first_source, m.source_count), views[m.target]);
}

void Executor::fail(EventId event, const std::string& cause) {
  if (failure_.empty()) failure_ = describe(*loaded_, loaded_->instructions[loaded_->events[event].instruction].call) + " " + cause;
}

// ---- who runs them

void Executor::run_rounds() {
  std::vector<EventId> round;
  while (!ready_.empty() && failure_.empty()) {
    round.assign(ready_.begin(), ready_.end());
    ready_.clear();
    for (const EventId event : round) begin(event);
    for (const EventId event : round) {
      try {
        work(event);
      } catch (const std::exception& error) {
        fail(event, std::string("failed: ") + error.what());
      }
    }
    for (const EventId event : round) happen(event);
    settle();
  }
}

void Executor::worker() {
  std::unique_lock lock(mutex_);
  std::mt19937_64 random(options_.delay_seed + 7919 * workers_++);
  while (true) {
    changed_.wait(lock, [&] { return !ready_.empty() || running_ == 0 || !failure_.empty(); });
    if (ready_.empty() || !failure_.empty()) break;
    if (options_.delay_us > 0) std::swap(ready_.front(), ready_[random() % ready_.size()]);
    const EventId event = ready_.front();
    ready_.pop_front();
    ++running_;
    begin(event);
    lock.unlock();
    std::string cause;
    try {
      if (options_.delay_us > 0)
        std::this_thread::sleep_for(std::chrono::microseconds(random() % static_cast<std::uint64_t>(options_.delay_us + 1)));
      work(event);
    } catch (const std::exception& error) {
      cause = std::string("failed: ") + error.what();
    }
    lock.lock();
    --running_;
    if (cause.empty()) {
      happen(event);
      settle();
    } else {
      fail(event, cause);
    }
    if (ready_.size() > 1 || running_ == 0 || !failure_.empty()) changed_.notify_all();  // one that is ready is taken by this worker
  }
  changed_.notify_all();
}

// ---- poison

namespace {

void fill_with_nan(const LoadedPlan& loaded, std::size_t device, std::uint32_t buffer) {
  const PlanBuffer& place = loaded.plan.devices[device].buffers[buffer];
  if (loaded.arenas[device] && place.size_bytes > 0)  // all bits set: a NaN in every float, −1 in every integer
    std::memset(loaded.arenas[device] + place.offset_bytes, 0xFF, static_cast<std::size_t>(place.size_bytes));
}

std::span<const std::uint32_t> refs_of(const DeviceProgram& program, std::uint32_t position) {
  const std::size_t end = position + 1 < program.instructions.size() ? program.instructions[position + 1].first_ref : program.refs.size();
  return std::span(program.refs).subspan(program.instructions[position].first_ref, end - program.instructions[position].first_ref);
}

}  // namespace

void Executor::count_touches() {
  const Plan& plan = loaded_->plan;
  touches_.resize(plan.devices.size());
  for (std::size_t d = 0; d < plan.devices.size(); ++d) {
    const DeviceProgram& program = plan.devices[d];
    touches_[d].assign(program.buffers.size(), 0);
    std::vector<bool> kept(program.buffers.size(), false);
    for (const auto& [node, buffer] : program.entries) kept[buffer] = true;
    for (std::uint32_t position = 0; position < program.instructions.size(); ++position) {
      const std::span<const std::uint32_t> refs = refs_of(program, position);
      for (const std::uint32_t buffer : refs) ++touches_[d][buffer];
      if (plan.graph[program.instructions[position].node].op == Op::Output) kept[refs.back()] = true;
    }
    for (std::uint32_t buffer = 0; buffer < kept.size(); ++buffer) {
      if (kept[buffer]) touches_[d][buffer] = 0;
      fill_with_nan(*loaded_, d, buffer);
    }
  }
}

void Executor::poison_after(const Call& call) {
  for (const std::uint32_t buffer : refs_of(loaded_->plan.devices[call.device], call.position)) {
    std::uint32_t& left = touches_left_[call.device][buffer];
    if (left > 0 && --left == 0) fill_with_nan(*loaded_, call.device, buffer);
  }
}

// ---- standstill

/// What keeps an event from happening: the events before it that have not.
std::string Executor::reasons(EventId event) const {
  std::string text;
  for (EventId before = 0; before < happened_.size(); ++before) {
    if (happened_[before]) continue;
    const auto next = loaded_->next_of(before);
    if (std::find(next.begin(), next.end(), event) == next.end()) continue;
    const Event& e = loaded_->events[before];
    const LoadedInstruction& other = loaded_->instructions[e.instruction];
    const std::string device = std::to_string(loaded_->plan.devices[other.call.device].device);
    text += text.empty() ? "" : ", ";
    if (e.part == Event::Part::Whole || e.part == Event::Part::Ended)
      text += describe(loaded_->plan.graph, other.call.node);
    else  // a peer: it has not come yet, or has not done its moves
      text += "device " + device + (happened_[other.first_event] ? " to be done with it" : " to arrive");
  }
  return text;
}

void Executor::report_standstill() const {
  constexpr std::size_t kMostLines = 64;
  const Graph& graph = loaded_->plan.graph;
  std::size_t instructions = 0;
  std::size_t lines = 0;
  std::string text;
  for (std::size_t d = 0; d + 1 < loaded_->first_instruction.size(); ++d) {
    std::set<StreamId> seen;
    for (std::uint32_t i = loaded_->first_instruction[d]; i < loaded_->first_instruction[d + 1]; ++i) {
      const LoadedInstruction& instruction = loaded_->instructions[i];
      EventId event = instruction.first_event;
      const EventId end = loaded_->events[event].part == Event::Part::Whole ? event + 1 : event + 3;
      while (event < end && happened_[event]) ++event;
      if (event == end) continue;
      ++instructions;
      if (!seen.insert(instruction.call.stream).second || ++lines > kMostLines) continue;
      text += "\n  " + describe(*loaded_, instruction.call) + " on stream " + graph.stream_name(instruction.call.stream) + " waits for " +
              reasons(event);
    }
  }
  if (lines > kMostLines) text += "\n  … and " + std::to_string(lines - kMostLines) + " more streams";
  throw RunError("deadlock: nothing can go on, and " + std::to_string(instructions) + " instructions are left" + text);
}

}  // namespace skirl
