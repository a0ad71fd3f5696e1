#include <catch2/catch.hpp>

#include "ir/text.h"
#include "tests/support/check_error.h"

using namespace skirl;

TEST_CASE("a model file is expanded: dims, repeats, nested expressions and reassigned values") {
  const Graph g = parse(R"(
dim B = 8
dim H = 2*(1 + 1)
input %x "x" : f32[B,H] cut 0            # cut 0: this is the batch dimension
input %y "y" : f32[B,H] cut 0
repeat i in 0..2 {
  param %w "l{i}.w" : f32[H,H] normal(0.5) frozen
  %x = tanh (einsum "bi,ij->bj" %x %w)   LAYER=i+1
}
loss "mse" = mse %x %y weight 0.5  HEAD
)",
                        "m.txt", {{"B", 16}});
  CHECK(print(g) == R"(%0 = input "x" {cut=0} : f32[16,4] F
%1 = input "y" {cut=0} : f32[16,4] F
%2 = param "l0.w" {init=normal, scale=0.5, trainable=false} : f32[4,4] F
%3 = einsum "bi,ij->bj" %0 %2 : f32[16,4] F LAYER=1
%4 = tanh %3 : f32[16,4] F LAYER=1
%5 = param "l1.w" {init=normal, scale=0.5, trainable=false} : f32[4,4] F
%6 = einsum "bi,ij->bj" %4 %5 : f32[16,4] F LAYER=2
%7 = tanh %6 : f32[16,4] F LAYER=2
%8 = sq_error %7 %1 : f32[] "mse.sum" F HEAD
%9 = loss {weight=0.5, count=64} %8 : f32[] "mse" F HEAD
output "mse" {kind=loss} %9 U HEAD
)");
}
