#include "runtime/cpu/cpu_backend.h"

#include <oneapi/tbb/info.h>
#include <oneapi/tbb/task_arena.h>

#include <algorithm>
#include <array>
#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "ir/error.h"
#include "runtime/backend.h"
#include "runtime/plan_runner.h"

namespace skirl {
namespace {

struct Free {
  void operator()(std::byte* memory) const { std::free(memory); }
};

class CpuBackend : public Backend {
 public:
  CpuBackend(const Plan& plan, const CpuOptions& options)
      : workers_(worker_count(plan, options)), arena_(workers_, static_cast<unsigned>(workers_)) {
    for (int op = 0; op < kOpCount; ++op)
      kernels_[static_cast<std::size_t>(op)] = is_compute(static_cast<Op>(op)) ? options.kernels(static_cast<Op>(op)) : nullptr;
    plan.graph.for_each_node([&](NodeId node) {
      const Op op = plan.graph[node].op;
      if (is_compute(op) && !kernels_[static_cast<std::size_t>(op)])
        throw Error("backend cpu has no kernel for '" + describe(plan.graph, node) + "'");
    });
    for (int i = 1; i < workers_; ++i) threads_.emplace_back([this] { wait_for_loops(); });
  }

  ~CpuBackend() override {
    {
      const std::lock_guard lock(mutex_);
      stopped_ = true;
    }
    changed_.notify_all();
    for (std::thread& thread : threads_) thread.join();
  }

  std::byte* memory(std::size_t, std::int64_t bytes) override {
    constexpr std::size_t kPage = 4096;
    const std::size_t size = (static_cast<std::size_t>(bytes) / kPage + 1) * kPage;  // never empty
    auto* memory = static_cast<std::byte*>(std::aligned_alloc(kPage, size));
    if (!memory) throw RunError("backend cpu: no memory for an arena of " + std::to_string(bytes) + " bytes");
    arenas_.emplace_back(memory);
    return memory;
  }

  void kernel(const Call&, const KernelCall& call) override { kernels_[static_cast<std::size_t>(call.op)](call); }

  void fill(const Call&, const TensorView& target, double value) override {
    const std::int64_t count = elems(target.shape);
    if (value == 0)  // all bits zero in every dtype
      std::memset(target.data, 0, static_cast<std::size_t>(count * size_bytes(target.dtype)));
    else
      for (std::int64_t i = 0; i < count; ++i) store_element(target.dtype, target.data, i, value);
  }

  void move(const Call&, const Move& move, std::span<const TensorView> sources, const TensorView& target) override {
    apply(move, sources, target);
  }

  int workers() const override { return workers_; }

  /// Loops of threads of our own that are guests in one TBB arena (each has its place there), not TBB tasks: what is ready is in the
  /// executor's queue, and a hand-over that ThreadSanitizer cannot see would look like a race to it.
  void run_workers(const std::function<void()>& loop) override {
    {
      const std::lock_guard lock(mutex_);
      loop_ = &loop;
      ++steps_;
      busy_ = threads_.size();
    }
    changed_.notify_all();
    arena_.execute(loop);
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return busy_ == 0; });
  }

 private:
  static int worker_count(const Plan& plan, const CpuOptions& options) {
    if (options.workers > 0) return options.workers;
    std::size_t streams = 0;
    for (const DeviceProgram& program : plan.devices) {
      std::set<StreamId> used;
      for (const Instruction& i : program.instructions) used.insert(i.stream);
      streams += used.size();
    }
    const int cores = std::max(1, oneapi::tbb::info::default_concurrency() / std::max(1, plan.threads_per_kernel));
    return std::max(1, std::min(cores, static_cast<int>(streams)));
  }

  void wait_for_loops() {
    std::size_t seen = 0;
    std::unique_lock lock(mutex_);
    while (true) {
      changed_.wait(lock, [&] { return stopped_ || steps_ != seen; });
      if (stopped_) return;
      seen = steps_;
      const std::function<void()>& loop = *loop_;
      lock.unlock();
      arena_.execute(loop);
      lock.lock();
      if (--busy_ == 0) changed_.notify_all();
    }
  }

  int workers_;
  oneapi::tbb::task_arena arena_;
  std::array<Kernel, kOpCount> kernels_{};
  std::vector<std::unique_ptr<std::byte, Free>> arenas_;
  std::mutex mutex_;
  std::condition_variable changed_;
  const std::function<void()>* loop_ = nullptr;
  std::size_t steps_ = 0;
  std::size_t busy_ = 0;  // threads that are in the loop of this step
  bool stopped_ = false;
  std::vector<std::thread> threads_;  // the other worker is who calls run_workers
};

}  // namespace

std::unique_ptr<StepRunner> make_cpu_runner(const Plan& plan, std::uint64_t seed, const CpuOptions& options) {
  return std::make_unique<PlanRunner>(plan, std::make_unique<CpuBackend>(plan, options), seed, options.executor);
}

}  // namespace skirl
