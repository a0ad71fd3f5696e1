#pragma once

#include "runtime/kernel.h"

/// The kernels of the reference: plain loops in double, rounded to the result's dtype at the end. The families are in einsum.cpp,
/// elementwise.cpp, norm.cpp, attention.cpp, cross_entropy.cpp, shape.cpp and update.cpp.
namespace skirl::reference {

/// Runs any compute or update operator. Throws RunError for an index outside its range.
void run_kernel(const KernelCall& call);

void einsum(const KernelCall& call);

void add(const KernelCall& call);
void mul(const KernelCall& call);
void scale(const KernelCall& call);
void tanh(const KernelCall& call);
void tanh_grad(const KernelCall& call);
void gelu(const KernelCall& call);
void gelu_grad(const KernelCall& call);
void silu(const KernelCall& call);
void silu_grad(const KernelCall& call);
void swiglu(const KernelCall& call);
void swiglu_grad(const KernelCall& call);
void dropout(const KernelCall& call);
void sum(const KernelCall& call);
void cast(const KernelCall& call);
void fill(const KernelCall& call);
void iota(const KernelCall& call);
void sq_error(const KernelCall& call);
void sq_error_bi(const KernelCall& call);

void layer_norm(const KernelCall& call);
void layer_norm_bi(const KernelCall& call);
void layer_norm_bw(const KernelCall& call);
void rms_norm(const KernelCall& call);
void rms_norm_bi(const KernelCall& call);
void rms_norm_bw(const KernelCall& call);
void row_sum(const KernelCall& call);
void row_sum_sq(const KernelCall& call);
void norm_apply(const KernelCall& call);
void norm_dots(const KernelCall& call);
void norm_bi_apply(const KernelCall& call);

void rope(const KernelCall& call);
void attention(const KernelCall& call);
void attention_bi(const KernelCall& call);
void attention_merge(const KernelCall& call);

void embedding(const KernelCall& call);
void embedding_bw(const KernelCall& call);
void softmax_xent(const KernelCall& call);
void softmax_xent_bi(const KernelCall& call);
void count_valid(const KernelCall& call);
void row_max(const KernelCall& call);
void sum_exp(const KernelCall& call);
void pick(const KernelCall& call);
void xent_merge(const KernelCall& call);
void loss(const KernelCall& call);
void loss_scale(const KernelCall& call);

void sum_to(const KernelCall& call);
void slice(const KernelCall& call);
void pad(const KernelCall& call);
void concat(const KernelCall& call);

void sum_sq(const KernelCall& call);
void clip_coef(const KernelCall& call);
void sgd(const KernelCall& call);
void adamw(const KernelCall& call);

}  // namespace skirl::reference
