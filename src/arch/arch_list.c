/* The registry: a row per architecture. */
#include "arch/arch.h"

extern const struct arch arch_llama, arch_qwen2, arch_qwen3, arch_qwen35, arch_qwen35moe, arch_gemma3,
    arch_phi3, arch_qwen3moe, arch_gpt_oss, arch_smollm3, arch_granite, arch_granitemoe, arch_glm4moe,
    arch_qwen3next, arch_mistral3, arch_olmo2, arch_gemma2, arch_seed_oss, arch_exaone4, arch_ernie4_5,
    arch_glm4, arch_gemma, arch_qwen2moe, arch_minimax_m2, arch_qwen3vl, arch_qwen3vlmoe, arch_lfm2,
    arch_lfm2moe, arch_cohere2, arch_ernie4_5_moe, arch_gemma4, arch_hunyuan_dense, arch_granitehybrid,
    arch_nemotron_h, arch_nemotron_h_moe;

const struct arch *const arch_list[] = {
    &arch_llama,         &arch_qwen2,        &arch_qwen3,          &arch_qwen35,
    &arch_qwen35moe,     &arch_gemma3,       &arch_phi3,           &arch_qwen3moe,
    &arch_gpt_oss,       &arch_smollm3,      &arch_granite,        &arch_granitemoe,
    &arch_glm4moe,       &arch_qwen3next,    &arch_mistral3,       &arch_olmo2,
    &arch_gemma2,        &arch_seed_oss,     &arch_exaone4,        &arch_ernie4_5,
    &arch_glm4,          &arch_gemma,        &arch_qwen2moe,       &arch_minimax_m2,
    &arch_qwen3vl,       &arch_qwen3vlmoe,   &arch_lfm2,           &arch_lfm2moe,
    &arch_cohere2,       &arch_ernie4_5_moe, &arch_gemma4,         &arch_hunyuan_dense,
    &arch_granitehybrid, &arch_nemotron_h,   &arch_nemotron_h_moe, NULL};
