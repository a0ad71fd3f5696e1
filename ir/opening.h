#pragma once

#include "ir/graph.h"

namespace skirl {

/// Puts in the place of a node the operators that it opens into: the same values, from operators that can be cut where it is Whole.
/// False, with the graph as it was, where its operator has no opening.
///
///   before   %n, %l = softmax_xent %x %t
///   after    %m = row_max %x
///            %e = sum_exp %x %m
///            %p = pick %x %t
///            %n, %l = xent_merge %m %e %p %t
///
///   before   %y, %m, %r = layer_norm %x %g %b
///   after    %s = row_sum %x
///            %q = row_sum_sq %x %s
///            %y, %m, %r = norm_apply %x %g %b %s %q
///
///   before   %dx = layer_norm_bi %dy %x %g %m %r
///   after    %a, %c = norm_dots %dy %x %g %m %r
///            %dx = norm_bi_apply %dy %x %g %m %r %a %c
///
/// rms_norm and rms_norm_bi are the same without the mean. (What layer_norm_bw and rms_norm_bw do can be cut as it is.)
///
/// Shapes    unchanged; the new values of a row lie like %l and %r.
/// Numerics  the same additions in the same order.
bool open(Graph& graph, NodeId node);

/// Whether `open` takes nodes of this operator.
bool can_open(Op op);

/// Puts attention to pieces of the keys in the place of attention, so that the sequence of queries and keys can be cut alike: device c
/// holds piece c of the queries, and the keys and values go round the devices. Piece i is row i of `pieces`, which may hold several
/// intervals (so that each has as much of what a causal mask leaves as any other). Changes of layout are not made here.
///
///   before   %o, %l = attention %q %k %v
///   after    %o0, %l0 = attention_piece {…, pieces={0..2; 2..4}, turn=0} %q %k %v    # each query to the keys of its own piece
///            %o1, %l1 = attention_piece {…, pieces={0..2; 2..4}, turn=1} %q %k %v    # of the next one
///            %o, %l = attention_merge %o0 %l0 %o1 %l1
///
///   before   %dq, %dk, %dv = attention_bi %q %k %v %o %l %do
///   after    %dq0, %dk0, %dv0 = attention_piece_bi {…, turn=0} %q %k %v %o %l %do
///            %dq1, %dk1, %dv1 = attention_piece_bi {…, turn=1} %q %k %v %o %l %do
///            %dq = sum %dq0 %dq1     %dk = sum %dk0 %dk1     %dv = sum %dv0 %dv1
///
/// Shapes    unchanged; the new values lie like the results.
/// Numerics  reassociates; sums of gradients in f32, of f64 in f64.
/// Errors    throws Error for another operator, for pieces that do not hold every position of the sequence once, and where there are not as
///           many keys as queries.
/// Source    Liu et al., arXiv:2310.01889; two intervals a piece: Brandon et al., arXiv:2311.09431, and Dubey et al., arXiv:2407.21783.
void open_ring_attention(Graph& graph, NodeId node, const IntervalTable& pieces);

}  // namespace skirl
