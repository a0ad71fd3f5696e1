#include "passes/arena.h"

#include <catch2/catch.hpp>

using namespace skirl;

TEST_CASE("the arena never gets smaller than what it has given out") {
  Arena arena(1 << 20);
  const Frontier known{0};
  Frontier before{0};
  std::vector<std::int64_t> small;
  for (int i = 0; i < 40; ++i) {  // more pieces than an allocation looks at, none touching another
    small.push_back(arena.allocate(128, known, before));
    arena.allocate(64, known, before);
  }
  const std::int64_t last = arena.allocate(512, known, before);
  const std::int64_t bytes = arena.bytes();
  for (const std::int64_t offset : small) arena.release(offset, 128, Frontier{9});
  arena.release(last, 512, Frontier{0});
  CHECK(arena.allocate(128, known, before) == last);  // the only one that needs no wait
  CHECK(arena.bytes() == bytes);
  CHECK(arena.allocate(64, known, before) == last + 128);
}
