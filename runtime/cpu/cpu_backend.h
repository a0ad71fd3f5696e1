#pragma once

#include <memory>

#include "ir/plan.h"
#include "runtime/executor.h"
#include "runtime/kernel.h"
#include "runtime/step.h"

namespace skirl {

struct CpuOptions {
  int workers = 0;                     // 0: as many as there are cores, and not more than can be busy
  Kernel (*kernels)(Op) = cpu_kernel;  // where kernels come from; tests give their own
  ExecutorOptions executor;
};

/// All devices of the plan as logical devices of this process: arenas of host memory, worker loops in one TBB arena, cpu_kernel.
/// The plan must outlive the runner. Throws Error for an operator without a kernel.
std::unique_ptr<StepRunner> make_cpu_runner(const Plan& plan, std::uint64_t seed, const CpuOptions& options = {});

}  // namespace skirl
