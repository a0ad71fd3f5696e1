#include "passes/table.h"

#include "passes/order.h"
#include "passes/partition.h"
#include "passes/place.h"
#include "passes/replicate.h"
#include "passes/shard_tensor.h"
#include "passes/split.h"

namespace skirl {

std::vector<PassInfo> pass_table() {
  return {partition_pass(), split_pass(), place_pass(), shard_tensor_pass(), replicate_pass(), order_pass()};
}

}  // namespace skirl
