/// Checks law 1 for every composition of up to four kinds of parallelism on up to 16 devices: `scripts/check_all [N [OF]]` runs part N of
/// OF.
#include <charconv>
#include <cstdio>
#include <cstring>

#include "tests/products/products.h"
#include "tests/support/law1.h"

using namespace skirl;
using namespace skirl::test;

namespace {

std::size_t number(const char* text) {
  std::size_t value = 0;
  const char* end = text + std::strlen(text);
  if (std::from_chars(text, end, value).ptr != end || value == 0) {
    std::fprintf(stderr, "check_all: found '%s', expected a whole number of at least 1\n", text);
    std::exit(2);
  }
  return value;
}

}  // namespace

int main(int argc, char** argv) {
  const std::size_t part = argc > 1 ? number(argv[1]) : 1;
  const std::size_t parts = argc > 2 ? number(argv[2]) : 1;
  if (argc > 3 || part > parts) {
    std::fprintf(stderr, "usage: check_all [PART [OF_PARTS]], PART at most OF_PARTS\n");
    return 2;
  }
  const Registry registry;
  double worst = 0;
  std::size_t passed = 0;
  std::size_t failed = 0;
  std::size_t at = 0;
  for (const std::string& family : small_models()) {
    const std::string model = small_model(family);
    for (std::size_t items = 1; items <= 4; ++items)
      for (const std::string& strategy : products(items)) {
        if (at++ % parts != part - 1) continue;
        Case c;
        c.model = model;
        c.strategy = strategy;
        c.optimizer.lr = 0.05;
        c.optimizer.weight_decay = 0.01;
        c.optimizer.clip = 0.7;
        const std::string complaint = broken(c, registry, worst);
        complaint.empty() ? ++passed : ++failed;
        if (!complaint.empty()) std::printf("%s-tiny, %s: %s\n", family.c_str(), strategy.c_str(), complaint.c_str());
        std::fflush(stdout);
      }
  }
  std::printf("worst deviation %.3g, allowed 1e-10\n%zu passed, %zu failed\n", worst, passed, failed);
  return failed == 0 ? 0 : 1;
}
