#include <catch2/catch.hpp>
#include <limits>

#include "ir/builder.h"
#include "ir/plan.h"
#include "ir/text.h"
#include "tests/support/check_error.h"

using namespace skirl;

namespace {

/// Text that print gives back as it is.
void check_round_trip(const std::string& text) { CHECK(print(parse(text)) == text); }

}  // namespace

TEST_CASE("a graph of home values prints as it was written") {
  check_round_trip(R"(%0 = input "x" {cut=0} : f64[8,5] F
%1 = input "ids" {cut=0, range=256} : i32[8] F
%2 = param "l0.w" {init=normal, scale=0.02, trainable=true} : f64[5,4] F LAYER=0
%3 = einsum "bh,hf->bf" %0 %2 : f64[8,4] "l0" F BLOCK=attn LAYER=0 RE
%4 = sum_to {shape=[]} %3 : f64[] "total" F
output "loss" {kind=loss} %4 U
)");
}

TEST_CASE("layouts, unions, streams, roles, origins and control edges print as they were written") {
  check_round_trip(R"(streams compute p2p gather
mesh @s0 {dp:2, tp:2} devices 0 1 2 3
mesh @s1 {dp:2, tp:2} devices 4 5 6 7
mesh @u0 = @s0 @s1
mesh @s2 {dp:2} devices 9 8
%0 = input "x" {cut=0} : f64[8,5] @s0 [dp, tp] F origin=[16,0]
%1 = param "w" {init=constant, scale=1, trainable=false} : f64[5,6] @u0 [copy dp, -] F
%2 = view %1 : f64[5,6] @s0 [dp, -] F stream=gather
%3 = einsum "bh,hf->bf" %0 %2 : f64[8,6] @s0 [dp, -] partial(tp) BW role=activation
%4 = all_reduce %3 : f64[8,6] @s0 [dp {0..3 5..6; 3..5 6..8}, -] F stream=gather
%5 = send %4 : f64[8,6] @s0 [dp, -] F stream=p2p
%6 = recv %5 : f64[8,6] @s1 [-, tp dp] F stream=p2p
^0 = fence F mesh=@s1 after=[%6]
%7 = row_max %6 : f64[8] @s1 partial(dp:max tp) F 'a b'='c d' X=-3 after=[^0]
%8 = sum_sq %7 : f64[] U mesh=@s1
%9, %10 = clip_coef {max_norm=1, eps=1e-06} %8 : f64[] @s1, f64[] @s1 U role=[scalar,gradient]
)");
}
