/* The registry: a row per architecture. */
#include "arch/arch.h"

extern const struct arch arch_llama, arch_qwen2, arch_qwen3, arch_qwen35, arch_qwen35moe, arch_gemma3,
    arch_phi3, arch_qwen3moe, arch_gpt_oss;

const struct arch *const arch_list[] = {&arch_llama,     &arch_qwen2,  &arch_qwen3, &arch_qwen35,
                                        &arch_qwen35moe, &arch_gemma3, &arch_phi3,  &arch_qwen3moe,
                                        &arch_gpt_oss,   NULL};
