#include "runtime/cpu/kernels/kernels.h"

namespace skirl {

Kernel cpu_kernel(Op op) {
  switch (op) {
    case Op::Einsum:
      return cpu::einsum;
    case Op::Add:
      return cpu::add;
    case Op::Mul:
      return cpu::mul;
    case Op::Scale:
      return cpu::scale;
    case Op::Tanh:
      return cpu::tanh;
    case Op::TanhGrad:
      return cpu::tanh_grad;
    case Op::Gelu:
      return cpu::gelu;
    case Op::GeluGrad:
      return cpu::gelu_grad;
    case Op::Silu:
      return cpu::silu;
    case Op::SiluGrad:
      return cpu::silu_grad;
    case Op::SumTo:
      return cpu::sum_to;
    case Op::LayerNorm:
      return cpu::layer_norm;
    case Op::LayerNormBI:
      return cpu::layer_norm_bi;
    case Op::LayerNormBW:
      return cpu::layer_norm_bw;
    case Op::RmsNorm:
      return cpu::rms_norm;
    case Op::RmsNormBI:
      return cpu::rms_norm_bi;
    case Op::RmsNormBW:
      return cpu::rms_norm_bw;
    case Op::Rope:
      return cpu::rope;
    case Op::Attention:
      return cpu::attention;
    case Op::AttentionBI:
      return cpu::attention_bi;
    case Op::Embedding:
      return cpu::embedding;
    case Op::EmbeddingBW:
      return cpu::embedding_bw;
    case Op::SoftmaxXent:
      return cpu::softmax_xent;
    case Op::SoftmaxXentBI:
      return cpu::softmax_xent_bi;
    case Op::CountValid:
      return cpu::count_valid;
    case Op::RowMax:
      return cpu::row_max;
    case Op::SumExp:
      return cpu::sum_exp;
    case Op::Pick:
      return cpu::pick;
    case Op::XentMerge:
      return cpu::xent_merge;
    case Op::SqError:
      return cpu::sq_error;
    case Op::SqErrorBI:
      return cpu::sq_error_bi;
    case Op::Loss:
      return cpu::loss;
    case Op::LossScale:
      return cpu::loss_scale;
    case Op::Dropout:
      return cpu::dropout;
    case Op::Sum:
      return cpu::sum;
    case Op::Slice:
      return cpu::slice;
    case Op::Pad:
      return cpu::pad;
    case Op::Concat:
      return cpu::concat;
    case Op::Cast:
      return cpu::cast;
    case Op::Fill:
      return cpu::fill;
    case Op::SumSq:
      return cpu::sum_sq;
    case Op::ClipCoef:
      return cpu::clip_coef;
    case Op::Sgd:
      return cpu::sgd;
    case Op::AdamW:
      return cpu::adamw;
    default:
      return nullptr;
  }
}

}  // namespace skirl
