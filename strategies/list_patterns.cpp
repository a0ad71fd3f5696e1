#include "strategies/list_patterns.h"

#include <algorithm>

namespace skirl {
namespace {

constexpr std::int64_t kLongestHop = 5;   // steps within a turn
constexpr std::int64_t kLongestTurn = 6;  // steps between turns
constexpr std::size_t kMostTried = 150'000;

/// Steps, as one number in a mixed radix: hops of each turn forwards and backwards, then the steps between turns.
class Steps {
 public:
  explicit Steps(std::int64_t turns) : turns_(static_cast<std::size_t>(turns)), digits_(4 * turns_ - 1, 0) {}

  std::int64_t hop(std::size_t turn) const { return 1 + digits_[turn]; }                   // 0…2·turns−1, backwards last
  std::int64_t between(std::size_t turn) const { return 1 + digits_[2 * turns_ + turn]; }  // 0…2·turns−2

  /// The number of choices, or kMostTried + 1 where there are more.
  std::size_t count() const {
    std::size_t product = 1;
    for (std::size_t d = 0; d < digits_.size() && product <= kMostTried; ++d) product *= static_cast<std::size_t>(radix(d));
    return std::min(product, kMostTried + 1);
  }
  void set(std::size_t choice) {
    for (std::size_t d = 0; d < digits_.size(); ++d) {
      digits_[d] = static_cast<std::int64_t>(choice) % radix(d);
      choice /= static_cast<std::size_t>(radix(d));
    }
  }

 private:
  std::int64_t radix(std::size_t digit) const { return digit < 2 * turns_ ? kLongestHop : kLongestTurn; }

  std::size_t turns_;
  std::vector<std::int64_t> digits_;
};

class Finder {
 public:
  explicit Finder(const ListProblem& problem)
      : p_(problem),
        stages_(static_cast<std::int64_t>(problem.placement.rank.size())),
        ranks_(static_cast<std::int64_t>(problem.memory.size())),
        turns_((stages_ + ranks_ - 1) / ranks_),
        stages_of_(problem.memory.size()) {
    pattern_.forward.resize(static_cast<std::size_t>(stages_));
    pattern_.input.resize(static_cast<std::size_t>(stages_));
    for (std::size_t s = 0; s < problem.placement.rank.size(); ++s)
      stages_of_[static_cast<std::size_t>(problem.placement.rank[s])].push_back(s);
    std::size_t most = 0;
    for (const auto& stages : stages_of_) most = std::max(most, stages.size());
    pattern_.period = static_cast<std::int64_t>(3 * most);
  }

  std::vector<ListPattern> run() {
    std::vector<ListPattern> found;
    Steps steps(turns_);
    const bool all = steps.count() <= kMostTried;
    std::uint64_t random = 1;
    for (std::size_t i = 0; i < std::min(steps.count(), kMostTried); ++i) {
      random = random * 6364136223846793005u + 1442695040888963407u;  // Knuth's MMIX: the same numbers everywhere
      steps.set(all ? i : static_cast<std::size_t>(random >> 16));
      lay_out(steps);
      if (no_two_at_once() && within_memory()) found.push_back(pattern_);
    }
    return found;
  }

  ListPattern vary(const ListPattern& pattern, std::uint64_t random) {
    pattern_ = pattern;
    const std::uint64_t count = 2 * static_cast<std::uint64_t>(stages_) - 1;
    const std::int64_t step = static_cast<std::int64_t>(random % count);  // the first: from stage 0 to stage 1 forwards
    const std::int64_t length = 1 + static_cast<std::int64_t>(random / count % static_cast<std::uint64_t>(kLongestTurn));
    const std::int64_t more = length - (time_at(step + 1) - time_at(step));
    for (std::int64_t i = step + 1; i < 2 * stages_; ++i) time_at(i) += more;
    return no_two_at_once() && within_memory() ? pattern_ : pattern;
  }

 private:
  void lay_out(const Steps& steps) {
    const std::size_t turns = static_cast<std::size_t>(turns_);
    std::int64_t time = 0;
    for (std::int64_t s = 0; s < stages_; ++s) {
      const std::size_t turn = static_cast<std::size_t>(s / ranks_);
      if (s > 0) time += s % ranks_ == 0 ? steps.between(turn - 1) : steps.hop(turn);
      pattern_.forward[static_cast<std::size_t>(s)] = time;
    }
    time += steps.between(turns - 1);
    for (std::int64_t s = stages_; s-- > 0;) {
      const std::size_t turn = static_cast<std::size_t>(s / ranks_);
      pattern_.input[static_cast<std::size_t>(s)] = time;
      if (s > 0) time += s % ranks_ == 0 ? steps.between(2 * turns - 1 - turn) : steps.hop(2 * turns - 1 - turn);
    }
  }

  /// The i-th of a microbatch's cells: forwards up to the last stage, then backwards.
  std::int64_t& time_at(std::int64_t i) {
    return i < stages_ ? pattern_.forward[static_cast<std::size_t>(i)] : pattern_.input[static_cast<std::size_t>(2 * stages_ - 1 - i)];
  }

  bool no_two_at_once() const {
    for (const auto& stages : stages_of_)
      for (std::size_t i = 0; i < stages.size(); ++i) {
        const std::int64_t forward = pattern_.forward[stages[i]] % pattern_.period, input = pattern_.input[stages[i]] % pattern_.period;
        if (forward == input) return false;
        for (std::size_t j = 0; j < i; ++j)
          for (const std::int64_t other : {pattern_.forward[stages[j]], pattern_.input[stages[j]]})
            if (other % pattern_.period == forward || other % pattern_.period == input) return false;
      }
    return true;
  }

  /// An activation lives from its forward to the weights right after the inputs.
  bool within_memory() const {
    for (std::size_t rank = 0; rank < stages_of_.size(); ++rank) {
      std::int64_t alive = 0;
      for (const std::size_t s : stages_of_[rank]) alive += pattern_.input[s] - pattern_.forward[s] + 2;
      if (alive > p_.memory[rank] * pattern_.period) return false;
    }
    return true;
  }

  const ListProblem& p_;
  std::int64_t stages_;
  std::int64_t ranks_;
  std::int64_t turns_;
  std::vector<std::vector<std::size_t>> stages_of_;  // by rank
  ListPattern pattern_;
};

}  // namespace

std::vector<ListPattern> list_patterns(const ListProblem& problem, std::size_t most) {
  std::vector<ListPattern> found = Finder(problem).run();
  if (found.size() <= most) return found;
  std::vector<ListPattern> some;
  for (std::size_t i = 0; i < most; ++i) some.push_back(std::move(found[i * found.size() / most]));
  return some;
}

ListPattern varied(const ListProblem& problem, const ListPattern& pattern, std::uint64_t random) {
  return Finder(problem).vary(pattern, random);
}

}  // namespace skirl
