# Mixture of experts in the plan: their matrices, routes and rows are in it, on CPUs and GPUs, and scratch does not grow with the
# context.
. tests/lib.sh

scratch() { # DEVICE CONTEXT
    expect 0 "$stator" plan "$shared/oracles/models/qwen3moe.gguf" $1 --set memory.context=$2 --set memory.batch=64 --json
    grep -o '"name": "scratch"[^}]*' <(tr -d '\n' <"$tmp/out") | grep -oE '"bytes": *[0-9]+' | head -1
}

test_scratch_of_any_context() {
    need_shared oracles/models/qwen3moe.gguf
    local device few many
    for device in '' '--device gpu0=15GiB'; do
        few=$(scratch "$device" 64)
        many=$(scratch "$device" 512)
        [ -n "$few" ] || fail "no scratch in the plan: $(head -c 600 "$tmp/out")"
        [ "$few" = "$many" ] || fail "$device: scratch $few with a context of 64, $many with 512"
        for name in blk.0.ffn_gate_exps.weight blk.0.ffn_gate_inp.weight blk.0.ffn_routes blk.0.ffn_experts_h; do
            grep -q "$name" "$tmp/out" || fail "$device: the plan has no $name"
        done
    done
}

run_tests
