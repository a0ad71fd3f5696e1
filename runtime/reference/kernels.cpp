#include "runtime/reference/kernels.h"

#include "ir/error.h"

namespace skirl::reference {
namespace {

using Kernel = void (*)(const KernelCall&);

Kernel kernel_of(Op op) {
  switch (op) {
    case Op::Einsum: return einsum;
    case Op::Add: return add;
    case Op::Mul: return mul;
    case Op::Scale: return scale;
    case Op::Tanh: return tanh;
    case Op::TanhGrad: return tanh_grad;
    case Op::Gelu: return gelu;
    case Op::GeluGrad: return gelu_grad;
    case Op::Silu: return silu;
    case Op::SiluGrad: return silu_grad;
    case Op::Swiglu: return swiglu;
    case Op::SwigluGrad: return swiglu_grad;
    case Op::SumTo: return sum_to;
    case Op::LayerNorm: return layer_norm;
    case Op::LayerNormBI: return layer_norm_bi;
    case Op::LayerNormBW: return layer_norm_bw;
    case Op::RmsNorm: return rms_norm;
    case Op::RmsNormBI: return rms_norm_bi;
    case Op::RmsNormBW: return rms_norm_bw;
    case Op::RowSum: return row_sum;
    case Op::RowSumSq: return row_sum_sq;
    case Op::NormApply: return norm_apply;
    case Op::NormDots: return norm_dots;
    case Op::NormBIApply: return norm_bi_apply;
    case Op::Rope: return rope;
    case Op::Attention: return attention;
    case Op::AttentionBI: return attention_bi;
    case Op::AttentionPiece: return attention;
    case Op::AttentionPieceBI: return attention_bi;
    case Op::AttentionMerge: return attention_merge;
    case Op::Embedding: return embedding;
    case Op::EmbeddingBW: return embedding_bw;
    case Op::SoftmaxXent: return softmax_xent;
    case Op::SoftmaxXentBI: return softmax_xent_bi;
    case Op::CountValid: return count_valid;
    case Op::RowMax: return row_max;
    case Op::SumExp: return sum_exp;
    case Op::Pick: return pick;
    case Op::XentMerge: return xent_merge;
    case Op::SqError: return sq_error;
    case Op::SqErrorBI: return sq_error_bi;
    case Op::Loss: return loss;
    case Op::LossScale: return loss_scale;
    case Op::Dropout: return dropout;
    case Op::Sum: return sum;
    case Op::Slice: return slice;
    case Op::Pad: return pad;
    case Op::Concat: return concat;
    case Op::Cast: return cast;
    case Op::Fill: return fill;
    case Op::Iota: return iota;
    case Op::SumSq: return sum_sq;
    case Op::ClipCoef: return clip_coef;
    case Op::Sgd: return sgd;
    case Op::AdamW: return adamw;
    default: return nullptr;
  }
}

}  // namespace

void run_kernel(const KernelCall& call) {
  const Kernel kernel = kernel_of(call.op);
  SKIRL_CHECK(kernel, "an operator without a kernel");
  kernel(call);
}

}  // namespace skirl::reference
