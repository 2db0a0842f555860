#!/bin/bash
# Stages over several ranks with GPUs among them, each rank with a software driver of its own: the bits of one process on the
# CPU, whatever is where.
. tests/lib.sh
. tests/lib_gpu.sh
. tests/lib_mpi.sh
facts='devices.facts=a/level_zero:0=1GiB; a/level_zero:1=1GiB; b/level_zero:0=1GiB; b/level_zero:1=1GiB; c/level_zero:0=1GiB'
ids="1 5 9 30 44 17 22 100 200 3 7 11 1 5 9 30 44 17 22 100 200 3 7 11 1 5 9 30 44 17 22"

need_both() {
    need_driver
    need_mpi
}

# ranks STAGES COMMAND...: a rank for each stage; the driver of rank r writes $tmp/log.r. $faults: of rank $at.
ranks() {
    local stages=$1 n=0 job=() part
    shift
    IFS=';' read -ra part <<<"$stages"
    for ((n = 0; n < ${#part[@]}; n++)); do
        [ $n = 0 ] || job+=(:)
        job+=(-n 1 env "ZESIM=$small,devices=2,log=$tmp/log.$n$([ $n != "${at:--1}" ] || echo ",$faults")" "$mpi" "$@" --set "cluster.stages=$stages" --set "${described:-$facts}" --set "devices.split=${split:-auto}")
    done
    ZE_ENABLE_ALT_DRIVERS="$driver" ZE_ENABLE_VALIDATION_LAYER=1 ZE_ENABLE_PARAMETER_VALIDATION=1 \
        mpi_exec "${job[@]}"
}
# Of a rank's driver, over the run.
count() { sed -n '/^ "total"/,/^ "sections"/p' "$tmp/log.$1" | sed -n "s/^ *\"$2\": \([0-9]*\).*/\1/p" | grep . || echo 0; }

# same MODEL STAGES...
same() {
    local model=$1 stages r
    shift
    expect 0 "$stator" logits "$model" --tokens "$ids" --output "$tmp/one" --set devices.use=cpu
    for stages in "$@"; do
        rm -f "$tmp"/log.* "$tmp/many"
        expect 0 ranks "$stages" logits "$model" --tokens "$ids" --output "$tmp/many" --set memory.batch=8
        cmp "$tmp/one" "$tmp/many" || fail "$model over $stages: other logits"
        for r in "$tmp"/log.*; do
            [ "$(count "${r##*.}" violations)" = 0 ] || fail "$stages, rank ${r##*.}: $(grep -o '"violation.*' "$r" | head -3)"
            # What goes to and comes from other hosts is pinned: all that a host with a GPU stages is one allocation of its driver.
            [ "$(count "${r##*.}" alloc.host.host.count)" = 1 ] || fail "$stages, rank ${r##*.}: $(count "${r##*.}" alloc.host.host.count) pinned pieces"
            [ "$(count "${r##*.}" exec.kernel)" -gt 20 ] || fail "$stages, rank ${r##*.}: hardly any kernel ran"
        done
        [ -e "$tmp/log.$(grep -o '[a-c] = level_zero' <<<"$stages" | head -1 | cut -c1 | tr abc 012)" ] || fail "$stages: no driver's log"
    done
}
test_gpus_of_a_host_divide_its_layers() {
    need_both
    local split=tensor
    same configs/demo.gguf 'a = level_zero:0, level_zero:1; b = level_zero:0, level_zero:1' 'a = level_zero:0; b = level_zero:0, level_zero:1' \
        'a = level_zero:0, level_zero:1; b = cpu:0, cpu:1'
}
# Its peer waits for it, so the step ends on neither.
test_a_gpu_of_a_group_that_fails_in_a_step() {
    need_both
    local at=1 faults=fault=exec.kernel@200:lost split=tensor
    expect 5 ranks 'a = level_zero:0; b = level_zero:0, level_zero:1' run configs/demo.gguf -p Once -n 100 --ignore-eos --set devices.deadline=5
    said 'b/level_zero:[01] \(rank 1\)'
}
test_two_ranks() { need_both; same configs/demo.gguf 'a = level_zero:0; b = level_zero:0' 'a = cpu:0; b = level_zero:0' 'a = level_zero:0; b = cpu:0'; }
test_three_ranks() { need_both; same configs/demo.gguf 'a = level_zero:0; b = level_zero:0, level_zero:1; c = level_zero:0' 'a = level_zero:1; b = cpu:0; c = level_zero:0'; }
test_hybrid_with_experts() {
    need_both
    need_shared oracles/models/qwen35moe.gguf
    same "$shared/oracles/models/qwen35moe.gguf" 'a = level_zero:0; b = level_zero:0' 'a = cpu:0; b = level_zero:0; c = level_zero:0'
}
test_experts() { need_both; need_shared oracles/models/mixtral.gguf; same "$shared/oracles/models/mixtral.gguf" 'a = level_zero:0; b = cpu:0, level_zero:0'; }

test_a_described_gpu_that_is_smaller_here() {
    need_both
    local described='devices.facts=b/level_zero:0=900GiB'
    expect 2 ranks 'a = cpu:0; b = level_zero:0' run configs/demo.gguf -p x -n 2
    said 'more than'
}

# The others have the plan, so it is not made again; all end.
test_a_gpu_that_refuses_memory() {
    need_both
    local at=1 faults=memory=1100MiB,taken_later=1099MiB@1
    expect 3 ranks 'a = cpu:0; b = level_zero:0' run configs/demo.gguf -p x -n 2
    said 'stator run: rank 1: level_zero:0.*has no memory left'
}

test_a_gpu_that_fails_in_a_step() {
    need_both
    local at=1 faults=fault=exec.kernel@200:lost
    expect 5 ranks 'a = cpu:0; b = level_zero:0' run configs/demo.gguf -p Once -n 100 --ignore-eos --set devices.deadline=5
    said 'b/level_zero:0 \(rank 1\)'
}
run_tests
