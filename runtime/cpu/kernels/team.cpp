#include "runtime/cpu/kernels/team.h"

#include <condition_variable>
#include <exception>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

namespace skirl::cpu {
namespace {

class Helper {
 public:
  Helper() : thread_([this] { loop(); }) {}
  ~Helper() {
    {
      const std::lock_guard lock(mutex_);
      stops_ = true;
    }
    wake_.notify_all();
    thread_.join();
  }
  Helper(const Helper&) = delete;
  Helper& operator=(const Helper&) = delete;

  void start(const std::function<void(int)>& f, int part) {
    {
      const std::lock_guard lock(mutex_);
      work_ = &f;
      part_ = part;
      failed_ = nullptr;
    }
    wake_.notify_all();
  }
  /// Waits for the end of what was started; gives its exception, if any.
  std::exception_ptr finish() {
    std::unique_lock lock(mutex_);
    wake_.wait(lock, [this] { return !work_; });
    return failed_;
  }

 private:
  void loop() {
    std::unique_lock lock(mutex_);
    while (true) {
      wake_.wait(lock, [this] { return work_ || stops_; });
      if (stops_) return;
      lock.unlock();
      std::exception_ptr failed;
      try {
        (*work_)(part_);
      } catch (...) {
        failed = std::current_exception();
      }
      lock.lock();
      failed_ = failed;
      work_ = nullptr;
      wake_.notify_all();
    }
  }

  std::mutex mutex_;
  std::condition_variable wake_;
  const std::function<void(int)>* work_ = nullptr;
  int part_ = 0;
  bool stops_ = false;
  std::exception_ptr failed_;
  std::thread thread_;  // last: it starts when all else is there
};

}  // namespace

void in_parallel(int parts, const std::function<void(int)>& f) {
  static thread_local std::vector<std::unique_ptr<Helper>> helpers;
  while (static_cast<int>(helpers.size()) + 1 < parts) helpers.push_back(std::make_unique<Helper>());
  for (int part = 1; part < parts; ++part) helpers[static_cast<std::size_t>(part - 1)]->start(f, part);
  std::exception_ptr failed;
  try {
    f(0);
  } catch (...) {
    failed = std::current_exception();
  }
  for (int part = 1; part < parts; ++part) {
    const std::exception_ptr other = helpers[static_cast<std::size_t>(part - 1)]->finish();
    if (!failed) failed = other;
  }
  if (failed) std::rethrow_exception(failed);
}

}  // namespace skirl::cpu
