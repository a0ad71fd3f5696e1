#pragma once

#include <vector>

#include "strategies/greedy_list.h"

namespace skirl {

/// Steady states of a placement in one direction in which, each cell taking one unit of time, no rank has two cells at once and no rank
/// holds more than its memory: the building blocks of Qi et al., arXiv:2405.15362. A microbatch takes equal steps from rank to rank within
/// a turn through the ranks, and a step of its own between two turns. At most `most` of them, spread evenly over all there are.
std::vector<ListPattern> list_patterns(const ListProblem& problem, std::size_t most);

/// The pattern with another time for one of its steps, drawn with `random`; the pattern itself where that gives no steady state.
ListPattern varied(const ListProblem& problem, const ListPattern& pattern, std::uint64_t random);

}  // namespace skirl
