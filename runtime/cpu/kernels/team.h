#pragma once

#include <functional>

namespace skirl::cpu {

/// Calls f(0) … f(parts − 1) at once, f(0) on the calling thread, and returns when all have ended; an exception of any is thrown again. The
/// helpers belong to the calling thread and sleep between calls. (OpenMP's spin, which costs more than it gives where cores are shared.)
void in_parallel(int parts, const std::function<void(int)>& f);

}  // namespace skirl::cpu
