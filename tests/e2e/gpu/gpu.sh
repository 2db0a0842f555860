# The Level Zero back end on zesim, the software driver, behind the real loader and its validation layer: the same bits
# as on the CPU, allocations that are the plan's to the byte, nothing but submissions after the seal, and an error in
# time for every fault.
. tests/lib.sh
. tests/lib_gpu.sh

test_demo() {
    need_driver
    cpu_text -p "$prompt" --temp 0 -n 40
    expect_gpu 0 '' "$stator" run $cfg -p "$prompt" --temp 0 -n 40 --report "$tmp/report"
    cmp "$tmp/out" "$tmp/cpu" || fail "another text than the CPU's: $(cat "$tmp/out")"
    clean
    [ "$(of level_zero:0 kernels_executed)" = "$(total exec.kernel)" ] || fail "kernels: the report and the driver differ"
    [ "$(of level_zero:0 kernels_executed)" -gt 1000 ] || fail "hardly any kernel ran"
    [ "$(of level_zero:0 submits)" = 41 ] || [ "$(of level_zero:0 submits)" = 40 ] || fail "$(of level_zero:0 submits) submits"
    grep -q '"kind": "gpu"' "$tmp/report" || fail "the report names no GPU"
    cpu_text -p 'Once upon a time' -n 60 --seed 7
    expect_gpu 0 '' "$stator" run $cfg -p 'Once upon a time' -n 60 --seed 7
    cmp "$tmp/out" "$tmp/cpu" || fail "sampling gives another text"
    expect_gpu 0 '' "$stator" bench $cfg -p 8 -n 2 -r 1
    printed '\| Level Zero +\|'
}

# Orders that nobody promised: of work-items, groups, and of what no barrier separates.
test_orders() {
    need_driver
    cpu_text -p "$prompt" --temp 0 -n 8
    local order
    for order in reverse shuffle; do
        expect_gpu 0 order=$order "$stator" run $cfg -p "$prompt" --temp 0 -n 8
        cmp "$tmp/out" "$tmp/cpu" || fail "order $order: another text"
    done
}

# Every position's logits, bit by bit.
oracle() {
    need_driver
    need_shared oracles/models/$1.gguf
    local ids more=(--set memory.logits_rows=20 --set memory.batch=30)
    ids=$(sed -n 's/.*"prompt": *\[\([^]]*\)\].*/\1/p' <(tr -d '\n' <"$shared/oracles/models/$1.json"))
    expect 0 "$stator" logits "$shared/oracles/models/$1.gguf" --set devices.use=cpu:0 --tokens "$ids" -o "$tmp/cpu" "${more[@]}"
    expect_gpu 0 '' "$stator" logits "$shared/oracles/models/$1.gguf" --set devices.use=level_zero:0 --tokens "$ids" -o "$tmp/gpu" \
        "${more[@]}" --report "$tmp/report"
    [ -s "$tmp/gpu" ] || fail "$1: no logits"
    cmp "$tmp/gpu" "$tmp/cpu" || fail "$1: other logits than the CPU's"
    clean
    [ "$(of level_zero:0 kernels_executed)" -gt 0 ] || fail "$1: nothing ran on the GPU"
}
test_oracle_llama() { oracle llama-tied && oracle llama-untied; }
test_oracle_qwen() { oracle qwen2 && oracle qwen3; }
test_oracle_qwen35() { oracle qwen35 && oracle qwen35moe; }
test_oracle_windows() { oracle gemma3 && oracle phi3 && oracle gpt-oss-rope-published; }

# Caches in one piece and split, in steps of other sizes, in other orders of work items.
pieces() {
    need_driver
    need_shared oracles/models/$1.gguf
    local model=$shared/oracles/models/$1.gguf ids kv batch
    ids=$(sed -n 's/.*"prompt": *\[\([^]]*\)\].*/\1/p' <(tr -d '\n' <"$shared/oracles/models/$1.json"))
    for kv in f32 f16; do
        expect 0 "$stator" logits "$model" --set devices.use=cpu:0 --tokens "$ids" -o "$tmp/cpu" --set memory.kv_type=$kv
        for batch in $([ $kv = f32 ] && echo 1 64 || echo 7); do
            expect_gpu 0 'devices=2,order=shuffle' "$stator" logits "$model" --set 'devices.use="level_zero:0,level_zero:1"' \
                --tokens "$ids" -o "$tmp/gpu" --set memory.kv_type=$kv --set memory.batch=$batch
            cmp "$tmp/gpu" "$tmp/cpu" || fail "$1, KV $kv, steps of $batch: other logits than the CPU's"
            clean
        done
    done
}
# guesses MODEL: the tokens with guesses on a GPU are those of the CPU without.
guesses() {
    need_driver
    need_shared oracles/models/$1.gguf
    local model=$shared/oracles/models/$1.gguf
    local text=(--tokens "5 9 7 5 9 7 5 9 7 5 9" -n 40 --temp 0 --repeat-penalty 0.3 --json)
    expect 0 "$stator" run "$model" --set devices.use=cpu:0 "${text[@]}"
    tr -d ' \n' <"$tmp/out" | grep -o '"ids":\[[^]]*\]' >"$tmp/cpu"
    expect_gpu 0 devices=1 "$stator" run "$model" --set devices.use=level_zero:0 --set speculation.mode=ngram --set memory.batch=16 \
        --set speculation.tokens=3 --report "$tmp/report" "${text[@]}"
    tr -d ' \n' <"$tmp/out" | grep -o '"ids":\[[^]]*\]' >"$tmp/gpu"
    cmp "$tmp/cpu" "$tmp/gpu" || fail "$1: guesses change the tokens"
    tr -d ' \n' <"$tmp/report" | grep -qE '"guessed":[1-9][0-9]*,"kept":[1-9]' || fail "no guess was kept: $(grep -A6 '"speculation"' "$tmp/report")"
    clean
}
test_guesses() { guesses llama-untied; }
test_guesses_of_states() { guesses qwen35 && guesses qwen35moe; }
test_guesses_of_windows() { guesses gemma3 && guesses gpt-oss-rope-published; }

# drafts MODEL DRAFT DEVICES DRAFTS_DEVICE: guesses of a second model, on the same GPU or another device.
drafts() {
    need_driver
    local model=$1 draft=$2
    local text=(--tokens "5 9 7 5 9 7 5 9 7 5 9" -n 40 --temp 0 --json)
    expect 0 "$stator" run "$model" --set devices.use=cpu:0 "${text[@]}"
    tr -d ' \n' <"$tmp/out" | grep -o '"ids":\[[^]]*\]' >"$tmp/cpu"
    expect_gpu 0 devices=2 "$stator" run "$model" --set "devices.use=$3" --set speculation.mode=draft --set memory.batch=16 \
        --set speculation.tokens=3 --set "speculation.model=$draft" --set "speculation.device=$4" --report "$tmp/report" "${text[@]}"
    tr -d ' \n' <"$tmp/out" | grep -o '"ids":\[[^]]*\]' >"$tmp/gpu"
    cmp "$tmp/cpu" "$tmp/gpu" || fail "$model, $draft on $4: guesses change the tokens"
    tr -d ' \n' <"$tmp/report" | grep -qE '"guessed":[1-9][0-9]*,"kept":[0-9]' || fail "nothing was guessed"
    [ "$model" != "$draft" ] || tr -d ' \n' <"$tmp/report" | grep -qE '"guessed":([0-9]+),"kept":\1,' || fail "a model guesses itself wrong"
    clean
}
test_drafts() {
    need_driver
    local m=$shared/oracles/models
    need_shared oracles/models/llama-untied.gguf
    drafts "$m/llama-untied.gguf" "$m/llama-untied.gguf" level_zero:0 ""
    drafts "$m/llama-untied.gguf" "$m/llama-untied.gguf" level_zero:0,cpu:0 level_zero:1
    drafts "$m/llama-untied.gguf" "$m/llama-untied.gguf" level_zero:1 cpu:0
    drafts "$m/gemma3.gguf" "$m/gemma3.gguf" level_zero:0 level_zero:0
}
test_drafts_of_experts() {
    need_driver
    need_shared oracles/models/qwen3moe.gguf
    drafts "$shared/oracles/models/qwen3moe.gguf" "$shared/oracles/models/qwen3moe.gguf" cpu:0 level_zero:0
}
test_drafts_for_states() {
    need_driver
    need_shared oracles/models/qwen35.gguf
    drafts "$shared/oracles/models/qwen35.gguf" "$shared/oracles/models/qwen3.gguf" level_zero:0 ""
    drafts "$shared/oracles/models/qwen35.gguf" "$shared/oracles/models/qwen35.gguf" level_zero:0 ""
    drafts "$shared/oracles/models/qwen35.gguf" "$shared/oracles/models/qwen35.gguf" cpu:0 level_zero:1
}

test_pieces_of_states() { pieces qwen35 && pieces qwen35moe; }
test_pieces_of_windows() {
    pieces gemma3
    pieces phi3
    pieces gpt-oss-rope-published
    expect_gpu 0 devices=1 "$stator" selftest --only 'q8_0, a window, GELU, norms behind, KV f16'
    expect_gpu 0 devices=1 "$stator" selftest --only 'q8_0, windows, sinks, experts, KV f16'
}
test_oracle_experts() { oracle qwen3moe && oracle mixtral; }
test_oracle_latent() { oracle deepseek-v2-lite && oracle deepseek-v3; }
test_pieces_of_latent() { pieces deepseek-v3; }
test_pieces_of_experts() {
    pieces qwen3moe
    pieces mixtral
    expect_gpu 0 devices=1 "$stator" selftest --only 'q8_0, experts, KV f16'
}
test_shared_experts() {
    need_driver
    expect_gpu 0 devices=1 "$stator" selftest --only 'q8_0, experts by sigmoids, a shared one, KV f16'
    expect_gpu 0 devices=1 "$stator" selftest --only 'q8_0, states, experts, a gated one, KV f16'
}
# Experts are what goes to host memory first; the few are then copied to the GPU for each step of a prompt.
test_spilled_experts() {
    need_driver
    expect_gpu 0 devices=1 "$stator" selftest --only 'q8_0, few experts, KV q8_0, spilled'
    [ "$(total zeCommandListAppendEventReset)" -gt 8 ] || fail "no experts were copied"
    clean
    expect_gpu 0 devices=1 "$stator" selftest --only 'q4_k, experts, KV f16, spilled'
}
test_oracle_blocks() { for t in q4_0 q4_1 q5_0 q5_1 q8_0 iq4_nl; do oracle quant-$t; done; }
test_oracle_k_blocks() { for t in q2_k q3_k q4_k q5_k q6_k iq3_s iq4_xs; do oracle quant-$t; done; }

# The driver was asked for what the plan says, once, and for nothing after the seal. The last list that is closed is the last thing
# that a start does, so a first run counts them and a second one puts the mark there.
test_plan_and_seal() {
    need_driver
    local run=("$stator" run $cfg -p "$prompt" --temp 0 -n 20 --report "$tmp/report")
    expect_gpu 0 '' "${run[@]}"
    local closes sum
    closes=$(total zeCommandListClose)
    expect_gpu 0 "fault=zeCommandListClose@$closes:mark:sealed" "${run[@]}"
    grep -q '"mark": "sealed"' "$tmp/log.json" || fail "no mark: $(head -c 300 "$tmp/log.json")"
    sum=$(sed -n '/"arena_bytes"/,/}/p' "$tmp/report" | grep -v driver | grep -oE '[0-9]+' | awk '{ s += $1 } END { printf "%.0f", s }')
    [ "$(total alloc.device.gpu0.bytes)" = "$sum" ] || fail "$(total alloc.device.gpu0.bytes) bytes allocated, the plan has $sum"
    expect 0 "$stator" plan configs/demo.cfg --device gpu0=15GiB --json
    [ "$(total zeMemAllocDevice)" = 4 ] || fail "$(total zeMemAllocDevice) allocations for 4 slices"
    [ "$(total zeMemAllocHost)" = 1 ] || fail "$(total zeMemAllocHost) host allocations"
    [ "$(total zeMemAllocShared)" = 0 ] && [ "$(total mirror.gpu0.count)" = 0 ] || fail "shared or mirrored memory"
    local entry
    for entry in zeMemAllocDevice zeMemAllocHost zeMemFree zeCommandListCreate zeCommandListReset zeCommandListAppendMemoryCopy \
        zeCommandListAppendMemoryFill zeCommandListAppendLaunchKernel zeCommandListAppendBarrier zeKernelSetArgumentValue \
        zeKernelSetGroupSize zeKernelCreate zeModuleCreate zeEventCreate zeEventPoolCreate zeFenceCreate zeCommandQueueCreate; do
        [ "$entry" = zeMemFree ] || [ "$(since $entry)" = 0 ] || fail "$(since $entry) calls of $entry after the seal"
    done
    [ "$(since zeCommandQueueExecuteCommandLists)" -ge 20 ] || fail "the mark is not at the seal"
    # Only descriptors went to the device: no weights.
    local copied
    copied=$(of level_zero:0 copied_bytes)
    [ $(("$(since 'copy.host>gpu0.bytes')" + "$(since 'copy.gpu0>host.bytes')")) = "$copied" ] ||
        fail "$(since 'copy.host>gpu0.bytes') and $(since 'copy.gpu0>host.bytes') bytes copied, the report says $copied"
    [ "$(since 'copy.host>gpu0.bytes')" -lt 200000 ] || fail "$(since 'copy.host>gpu0.bytes') bytes to the GPU in 20 steps"
    [ "$(total 'free.device.gpu0.bytes')" = "$sum" ] || fail "not everything was given back"
}

# What is free in host memory decides whether a split with a CPU fits, not what it is: one hash, one plan.
test_split_with_cpu() {
    need_driver
    local use limit
    for use in cpu:0,level_zero:0 level_zero:0,cpu:0 cpu:0,cpu:1; do
        rm -f "$tmp/first"
        for limit in 64MiB 1GiB 8GiB; do
            expect_gpu 0 memory=1GiB "$stator" plan $cfg --set "devices.use=\"$use\"" --set memory.host_limit=$limit --json
            grep -vE '"(limit|budget|room_tokens|sequences_fit)":' "$tmp/out" >"$tmp/plan"
            [ -e "$tmp/first" ] || cp "$tmp/plan" "$tmp/first"
            cmp -s "$tmp/plan" "$tmp/first" || fail "$use: another plan under $limit: $(diff "$tmp/first" "$tmp/plan" | head -5)"
        done
    done
}

# Two GPUs, every kind of road between them: the same text, and the report tells the road.
test_peers() {
    need_driver
    cpu_text -p "$prompt" --temp 0 -n 10
    local two=("$stator" run $cfg -p "$prompt" --temp 0 -n 10 --set 'devices.use="level_zero:0,level_zero:1"' --report "$tmp/report")
    local kind
    for kind in ok push slow:100000000; do
        expect_gpu 0 devices=2,peer=$kind "${two[@]}"
        cmp "$tmp/out" "$tmp/cpu" || fail "peer $kind: another text"
        [ "$(of level_zero:0 direct_bytes)" -gt 0 ] && [ "$(of level_zero:0 staged_bytes)" = 0 ] || fail "peer $kind: not direct"
        [ "$(of level_zero:1 kernels_executed)" -gt 100 ] || fail "the second GPU did not work"
        clean
    done
    for kind in none corrupt; do
        expect_gpu 0 devices=2,peer=$kind "${two[@]}"
        cmp "$tmp/out" "$tmp/cpu" || fail "peer $kind: another text"
        [ "$(of level_zero:0 direct_bytes)" = 0 ] && [ "$(of level_zero:0 staged_bytes)" -gt 0 ] || fail "peer $kind: not staged"
        grep -qE '"why": "(the driver says|a pushed copy)' "$tmp/report" || fail "peer $kind: the report does not say why"
        clean
    done
    # Only the way back is closed: that one is not used.
    expect_gpu 0 devices=2,peer=ok,peer.1.0=none "${two[@]}"
    [ "$(of level_zero:0 direct_bytes)" -gt 0 ] || fail "the pair is ordered, but the other direction closed it"
    # A push that takes the device down is a lost device: an error, no hang.
    expect_gpu 5 devices=2,peer=fail "${two[@]}"
    said 'level_zero:[01]'
}

test_many() {
    need_driver
    cpu_text -p "$prompt" --temp 0 -n 6
    local use
    for use in level_zero:0,level_zero:1,level_zero:2,level_zero:3 cpu:0,level_zero:0 level_zero:1,cpu:0 level_zero:0,cpu:0,level_zero:1; do
        expect_gpu 0 devices=4,peer.2.3=none "$stator" run $cfg -p "$prompt" --temp 0 -n 6 --set "devices.use=\"$use\"" --report "$tmp/report"
        cmp "$tmp/out" "$tmp/cpu" || fail "$use: another text"
        clean
    done
}

test_memory_that_others_use() {
    need_driver
    expect_gpu 3 memory=300MiB,taken=296MiB "$stator" run $cfg -p x -n 1
    said 'level_zero:0: arena weights.*bytes of the GPU are free now'
    expect_gpu 3 memory=200MiB "$stator" run $cfg -p x -n 1
    said 'does not fit: level_zero:0'
    expect_gpu 0 memory=300MiB,usable_memory=0 "$stator" run $cfg -p x -n 1
}

# Weights in many slices: the largest allocation is small.
test_slices() {
    need_driver
    cpu_text -p "$prompt" --temp 0 -n 5
    expect_gpu 0 max_alloc=1MiB "$stator" run $cfg -p "$prompt" --temp 0 -n 5 --report "$tmp/report"
    cmp "$tmp/out" "$tmp/cpu" || fail "another text"
    [ "$(total zeMemAllocDevice)" -gt 8 ] || fail "not many slices: $(total zeMemAllocDevice)"
    clean
}

# A driver that refuses slices below its own maximum: the plan is made again with smaller ones, and its hash is another one.
test_refused_slices() {
    need_driver
    cpu_text -p "$prompt" --temp 0 -n 5
    expect_gpu 0 fail_above=2MiB "$stator" run $cfg -p "$prompt" --temp 0 -n 5
    cmp "$tmp/out" "$tmp/cpu" || fail "another text"
    said 'level_zero:0: its driver refuses a slice of 5.88 MiB'
    [ "$(grep -oE 'plan [0-9a-f]{32}' "$tmp/err" | sort -u | wc -l)" = 3 ] || fail "not three plans: $(cat "$tmp/err")"
    clean
    local first
    first=$(sed -n 's/^stator .*, plan //p' "$tmp/err" | head -1)
    expect_gpu 3 fail_above=2MiB "$stator" run $cfg -p "$prompt" --temp 0 -n 5 --expect-plan "$first"
    said 'expect-plan'
    expect_gpu 3 fail_above=64KiB "$stator" run $cfg -p "$prompt" --temp 0 -n 5
    said 'level_zero:0: arena weights, slice 0'
}

test_names() {
    need_driver
    local many='devices=2,gpu0.name=Alpha 380,gpu1.name=Beta 770' name
    for name in level_zero:0000:04:00.0 'level_zero:beta 770' level_zero:1; do
        expect_gpu 0 "$many" "$stator" run $cfg -p x -n 1 --set "devices.use=\"$name\"" --report "$tmp/report"
        [ "$(of level_zero:1 submits)" -ge 1 ] || fail "$name: another device ran"
    done
    expect_gpu 5 "$many" "$stator" run $cfg -p x -n 1 --set 'devices.use="level_zero:gamma"'
    said 'no such GPU; this machine has: level_zero:0 = Alpha 380 0000:03:00.0; level_zero:1'
    expect_gpu 5 devices=2 "$stator" run $cfg -p x -n 1 --set 'devices.use="level_zero:simulated"'
    said 'more than one GPU has that name'
    expect_gpu 5 devices=1 "$stator" run $cfg -p x -n 1 --set devices.use=level_zero:3
    said 'no such GPU'
}

test_no_gpu() {
    need_driver
    cpu_text -p "$prompt" --temp 0 -n 5
    expect 5 "$stator" run $cfg -p x -n 1
    said 'devices.use = "level_zero:0": Level Zero: '
    small=devices=0 expect_gpu 5 '' "$stator" run $cfg -p x -n 1
    said 'devices.use = "level_zero:0": Level Zero: '
    expect 0 "$stator" run configs/demo.cfg -p "$prompt" --temp 0 -n 5 --report "$tmp/report"
    cmp "$tmp/out" "$tmp/cpu" || fail "auto without a GPU: another text"
    grep -q '"name": "cpu:0"' "$tmp/report" || fail "auto without a GPU is not the CPU"
    expect_gpu 0 '' "$stator" run configs/demo.cfg -p "$prompt" --temp 0 -n 5 --report "$tmp/report"
    cmp "$tmp/out" "$tmp/cpu" || fail "auto with a GPU: another text"
    grep -q '"name": "level_zero:0"' "$tmp/report" || fail "auto with a GPU does not take it"
    said '^level_zero:0: Simulated GPU 0 0000:03:00.0, driver [0-9.]+, loader 1'
    # One GPU is enough for this; two are when each is too small; none is.
    expect_gpu 0 devices=2 "$stator" plan configs/demo.cfg --json
    ! grep -q level_zero:1 "$tmp/out" || fail "auto takes more GPUs than it needs"
    expect_gpu 0 devices=2,memory=270MiB "$stator" run configs/demo.cfg -p "$prompt" --temp 0 -n 5 --report "$tmp/report"
    cmp "$tmp/out" "$tmp/cpu" || fail "auto with two small GPUs: another text"
    grep -q '"name": "level_zero:1"' "$tmp/report" || fail "auto does not take the second GPU"
    expect_gpu 0 devices=2,memory=200MiB "$stator" run configs/demo.cfg -p "$prompt" --temp 0 -n 5 --report "$tmp/report"
    cmp "$tmp/out" "$tmp/cpu" || fail "auto with GPUs that are too small: another text"
    said 'the 2 GPUs here can.t hold this model'
    grep -q '"name": "cpu:0"' "$tmp/report" || fail "auto does not fall back"
}

# A GPU whose kernels do not take the model is left out by "auto", which says why, and is an error when it is named.
test_refused_shapes() {
    need_driver
    cpu_text -p "$prompt" --temp 0 -n 5
    expect_gpu 0 devices=2,gpu0.local_memory=8KiB "$stator" run configs/demo.cfg -p "$prompt" --temp 0 -n 5 --report "$tmp/report"
    said 'devices.use = "auto": level_zero:0 is left out: a kernel needs [0-9]+ bytes of local memory .*, the device has 8192'
    cmp "$tmp/out" "$tmp/cpu" || fail "the second GPU: another text"
    ! grep -q why_cpu "$tmp/report" || fail "why_cpu without the CPU"
    grep -q '"name": "level_zero:1"' "$tmp/report" || fail "auto does not take the second GPU"
    ! grep -q '"name": "level_zero:0"' "$tmp/report" || fail "the GPU that was left out runs"
    expect_gpu 0 devices=2,gpu0.local_memory=8KiB,gpu1.max_group=128 "$stator" run configs/demo.cfg -p "$prompt" --temp 0 -n 5 \
        --report "$tmp/report"
    said 'level_zero:0 is left out: a kernel needs'
    said 'level_zero:1 is left out: the kernels need groups of 256 work items, the device has 128; no GPU is left, so the model runs'
    [ "$(grep -c 'runs on the CPU' "$tmp/err")" = 1 ] || fail "more than one line about the CPU"
    grep -q '"why_cpu": "level_zero:1 is left out: the kernels need groups of 256' "$tmp/report" || fail "the report does not say why"
    cmp "$tmp/out" "$tmp/cpu" || fail "no GPU left: another text"
    grep -q '"name": "cpu:0"' "$tmp/report" || fail "auto does not fall back"
    expect_gpu 5 local_memory=8KiB "$stator" run $cfg -p x -n 1
    said 'a kernel needs [0-9]+ bytes of local memory'
}

# cache.dir: the second start takes the binaries of the first; what is damaged or foreign is not used, is said, and is replaced.
test_kernel_cache() {
    need_driver
    cpu_text -p "$prompt" --temp 0 -n 5
    local kept=$tmp/kernels file files
    cached() { # ZESIM
        expect_gpu 0 "$1" "$stator" run $cfg -p "$prompt" --temp 0 -n 5 --set "cache.dir=\"${2:-$kept}\""
        cmp "$tmp/out" "$tmp/cpu" || fail "${1:-cached}: another text"
        clean
    }
    cached ''
    [ "$(total zeModuleGetNativeBinary)" = $((2 * $(total zeModuleCreate))) ] || fail "not every module was asked for its binary"
    files=("$kept"/*)
    [ ${#files[@]} = "$(total zeModuleCreate)" ] && [ ${#files[@]} -ge 5 ] || fail "${#files[@]} files for $(total zeModuleCreate) modules"
    cached ''
    [ "$(total zeModuleGetNativeBinary)" = 0 ] || fail "the second start compiles"
    ! grep -q cache.dir "$tmp/err" || fail "the second start complains: $(grep cache.dir "$tmp/err" | head -2)"
    cached device_id=22177
    [ "$(total zeModuleGetNativeBinary)" -gt 0 ] || fail "another GPU takes these binaries"
    rm -rf "$kept"
    cached ''
    files=("$kept"/*)
    printf x | dd of="${files[0]}" bs=1 seek=5000 conv=notrunc 2>/dev/null
    truncate -s 1000 "${files[1]}"
    cp "${files[3]}" "${files[2]}"
    : >"${files[4]}"
    cached ''
    for file in 0 1 4; do said "stored binary of $(basename "${files[file]%-*}") for level_zero:0 is not used: it is damaged"; done
    said "stored binary of $(basename "${files[2]%-*}") for level_zero:0 is not used: it was made for another driver, device or version"
    [ "$(total zeModuleGetNativeBinary)" = 8 ] || fail "$(total zeModuleGetNativeBinary) calls for 4 binaries"
    cached ''
    [ "$(total zeModuleGetNativeBinary)" = 0 ] || fail "what was damaged was not replaced"
    # What others can write to, or own, is not used.
    chmod 666 "${files[0]}"
    cached ''
    said "stored binary of .* is not used: other users can write to it"
    [ "$(total zeModuleGetNativeBinary)" = 2 ] || fail "a file that others can write to is used"
    [ "$(stat -c %a "${files[0]}")" = 600 ] || fail "it was not replaced"
    chmod 775 "$kept"
    cached ''
    said "cache.dir: $kept is not used: other users can write to it .*; kernels are compiled"
    [ "$(total zeModuleGetNativeBinary)" = 0 ] && [ "$(total zeModuleCreate)" -ge 5 ] || fail "a folder that others can write to is used"
    chmod 700 "$kept"
    if [ "$(id -u)" = 0 ]; then
        chown 65534 "${files[1]}"
        cached ''
        said "stored binary of .* is not used: it belongs to another user"
        chown 65534 "$kept"
        cached ''
        said "cache.dir: $kept is not used: it belongs to another user"
        chown 0 "$kept"
    fi
    cached fault=zeModuleCreate@1:0x7800000f
    said 'is not used: the driver refuses it'
    cached '' /proc/none
    said "can't be stored in /proc/none: "
}

hash() { sed -n 's/^ *"hash": "\(.*\)",/\1/p' "$tmp/out"; }

test_devices() {
    need_driver
    expect_gpu 0 devices=2,gpu1.memory=8GiB,peer.0.1=corrupt,peer.1.0=ok "$stator" devices --probe --save "$tmp/box.cfg"
    printed '^level_zero:0  Simulated GPU 0'
    printed 'memory 8.00 GiB, plans use at most 7.75 GiB; free now 8.00 GiB \(usable memory'
    printed 'level_zero:0 -> level_zero:1  staged: a pushed copy arrived damaged'
    printed 'level_zero:1 -> level_zero:0  direct, [0-9.]+ GB/s'
    clean
    # What it wrote plans elsewhere, to the same hash as here.
    local model=(--set "model.path=configs/demo.gguf") here
    expect_gpu 0 devices=2,gpu1.memory=8GiB "$stator" plan configs/demo.gguf --set 'devices.use="level_zero:0,level_zero:1"' --json
    here=$(hash)
    [ -n "$here" ] || fail "no hash"
    expect 0 "$stator" plan "$tmp/box.cfg" "${model[@]}" --json
    [ "$here" = "$(hash)" ] || fail "plan here: $here, there: $(hash)"
    # A part of it, another order, and the other way of saying it.
    expect 0 "$stator" plan "$tmp/box.cfg" "${model[@]}" --set devices.use=level_zero:1 --json
    here=$(hash)
    expect 0 "$stator" plan configs/demo.gguf --device "$(sed -n 's/.*"\(level_zero:1=[^";]*\).*/\1/p' "$tmp/box.cfg")" --json
    [ "$here" = "$(hash)" ] || fail "--device: $(hash), devices.facts: $here"
    expect 2 "$stator" plan "$tmp/box.cfg" "${model[@]}" --set devices.use=level_zero:2
    said 'devices.use names level_zero:2, which devices.facts does not describe'
    # What `stator config` makes of it is the same plan; a run takes what is there, and warns where that is another GPU.
    expect 0 "$stator" config "$tmp/box.cfg" "${model[@]}"
    cp "$tmp/out" "$tmp/whole.cfg"
    expect 0 "$stator" plan "$tmp/whole.cfg" --set devices.use=level_zero:1 --json
    [ "$here" = "$(hash)" ] || fail "stator config: $(hash), not $here"
    expect_gpu 0 devices=2,gpu1.memory=8GiB "$stator" run "$tmp/box.cfg" "${model[@]}" --tokens '1 2 3' -n 2
    ! grep -q devices.facts "$tmp/err" || fail "the same devices are said to differ"
    expect_gpu 0 devices=2,gpu1.memory=9GiB "$stator" run "$tmp/box.cfg" "${model[@]}" --tokens '1 2 3' -n 2
    said "level_zero:1: devices.facts says $((8 * 31 * 2**25)) bytes.*; here it has $((9 * 31 * 2**25)), .*are not this run.s"
    ! grep -q 'level_zero:0: devices.facts' "$tmp/err" || fail "both are said to differ"
    expect 5 "$stator" run "$tmp/box.cfg" "${model[@]}" --tokens '1 2 3' -n 2
    expect_gpu 0 usable_memory=0 env ZES_ENABLE_SYSMAN=1 "$stator" devices --json
    printed '"free": [1-9]'
}

# Four GPUs behind two switches on two sockets: direct inside, nothing across, one pair that damages data and one that is slow.
# The matrix in tools/zesim/README.md.
test_probe_matrix() {
    need_driver
    local across=
    for pair in 0.2 0.3 1.2 1.3 2.0 2.1 3.0 3.1; do across=$across,peer.$pair=none; done
    expect_gpu 0 "devices=4$across,peer.2.3=corrupt,peer.3.2=slow:100MB" "$stator" devices --probe
    clean
    local d='[0-9.]+ *' s='[0-9.]+ s *'
    printed "^ *level_zero:0 +- *$d$s$s$"
    printed "^ *level_zero:1 +$d- *$s$s$"
    printed "^ *level_zero:2 +$s$s- *$s$"
    printed "^ *level_zero:3 +$s$s$d- *$"
    [ "$(grep -cE -- 'level_zero:[0-3] -> level_zero:[0-3]  (direct, [0-9.]+ GB/s, [0-9.]+ us|staged: .*)$' "$tmp/out")" = 12 ] || fail "not 12 pairs"
    [ "$(grep -c "staged: the driver says that one cannot reach the memory of the other" "$tmp/out")" = 8 ] || fail "not 8 pairs across"
    # All sizes of each: five figures, or five lines in their place.
    [ "$(grep -cE '^ +staged( +[0-9.]+ us +[0-9.]+ GB/s){5}$' "$tmp/out")" = 12 ] || fail "not 12 staged rows of 5 sizes"
    [ "$(grep -cE '^ +direct( +[0-9.]+ us +[0-9.]+ GB/s){5}$' "$tmp/out")" = 3 ] || fail "not 3 direct rows of 5 sizes"
    [ "$(grep -cE '^ +direct( +-){5}$' "$tmp/out")" = 9 ] || fail "not 9 rows that are not direct"
    printed '^ +4.00 KiB +64.00 KiB +1.00 MiB +16.00 MiB +64.00 MiB$'
    printed '^    level_zero:2 -> level_zero:3  staged: a pushed copy arrived damaged: byte 32 of 64 bytes at offset 0$'
    # That the slow pair is slow is said, if it was: on a loaded machine copies through the host may take as long.
    grep -A3 -- 'level_zero:3 -> level_zero:2' "$tmp/out" >"$tmp/slow"
    awk '$1 == "direct" { direct = $(NF - 3) } $1 == "staged" && $3 == "us" { staged = $(NF - 3) } /staged is faster: 64.00 MiB in/ { said = 1 }
        END { print "# staged", staged, "us, direct", direct, "us"
            exit !(staged > 0 && direct > 670000 && (staged < 0.899 * direct ? said : staged < 0.901 * direct || !said)) }' "$tmp/slow" ||
        fail "what is said of the slow pair does not follow: $(cat "$tmp/slow")"
}

# A row of switches: from one end to the other there are only the host, which is slow, and the GPU in the middle. Large copies that
# damage data are found too, and a GPU with little memory is probed with less. The hints are what follows from the measured times,
# which a loaded machine changes.
test_probe_hints() {
    need_driver
    expect_gpu 0 devices=3,host_rate=400MB,peer.0.2=none,peer.2.0=corrupt:60MiB "$stator" devices --probe --json
    clean
    python3 - "$tmp/out" <<'PY' || fail "the JSON: $(cat "$tmp/out")"
import json, sys
routes = {(r["from"][-1], r["to"][-1]): r for r in json.load(open(sys.argv[1]))["routes"]}
assert len(routes) == 6
for pair, r in routes.items():
    sizes = [c["bytes"] for c in r["copies"]]
    assert sizes == [4096, 65536, 1 << 20, 16 << 20, 64 << 20], sizes
    assert all(c["staged_ns"] > 0 for c in r["copies"])
    assert all((c["direct_ns"] > 0) == r["direct"] for c in r["copies"]), pair
    assert r["direct"] == (pair not in (("0", "2"), ("2", "0"))), pair
    largest = {p: x["copies"][-1]["direct_ns"] for p, x in routes.items()}
    now = r["copies"][-1]["direct_ns" if r["direct"] else "staged_ns"]
    best, hint = now - now // 10, ""
    if r["direct"] and r["copies"][-1]["staged_ns"] < best:
        best, hint = r["copies"][-1]["staged_ns"], "staged is faster: 64.00 MiB"
    via = next(x for x in "012" if x not in pair)
    hops = largest[pair[0], via], largest[via, pair[1]]
    if min(hops) > 0 and sum(hops) < best:
        hint = "two direct copies over level_zero:%s would be faster: 64.00 MiB" % via
    assert r["hint"].startswith(hint) and (hint != "") == (r["hint"] != ""), (hint, r)
assert "arrived damaged: byte %d of %d bytes" % (32 << 20, 64 << 20) in routes["2", "0"]["why"], routes["2", "0"]
PY
    expect_gpu 0 devices=2,gpu1.memory=64MiB,gpu1.taken=20MiB "$stator" devices --probe
    [ "$(grep -cE '^ +direct( +[0-9.]+ us +[0-9.]+ GB/s){4} +-$' "$tmp/out")" = 2 ] || fail "the sizes of a small GPU"
    clean
}

# Free memory by sysman from a loader that has zesInit: its devices are found by their PCI addresses.
test_sysman() {
    need_driver
    local newer=${BUILD:-$(dirname "$stator")}/sysman
    [ -e "$newer/libze_loader.so.1" ] || skip "libze1 or libze-dev is missing (make setup-test)"
    expect_gpu 0 devices=3,usable_memory=0,gpu0.memory=8GiB,gpu0.taken=1GiB,gpu1.memory=8GiB,gpu1.taken=3GiB,gpu2.memory=8GiB,gpu2.taken=5GiB \
        env LD_LIBRARY_PATH="$newer" COUNT_LOADER="$tmp/counts" ZES_ENABLE_SYSMAN=1 "$stator" devices
    [ "$(sed -n 's/.*; free now \([0-9.]* [A-Z]iB (.*sysman\).*/\1/p' "$tmp/out" | cut -d' ' -f1 | tr '\n' ' ')" = '7.00 5.00 3.00 ' ] ||
        fail "free memory: $(grep 'free now' "$tmp/out")"
    [ "$(sed -n 's/^zesDevicePciGetProperties //p' "$tmp/counts")" -ge 6 ] || fail "nobody asked for PCI addresses"
    clean
}

test_doctor() {
    need_driver
    mkdir "$tmp/root"
    expect_gpu 5 '' "$stator" doctor --root "$tmp/root"
    printed '^ok +loader: version [0-9]'
    printed '^(ok|problem) +level_zero:0: Simulated GPU 0, driver '
}

# Matrices of two types in one product; a block that guesses, whose right guesses are counted.
test_selftest_variants() {
    need_driver
    expect_gpu 0 devices=1 "$stator" selftest --only 'q4_0 and f16, even, KV f16'
    printed '^ok +q4_0 and f16, even, KV f16'
    expect_gpu 0 devices=1 "$stator" selftest --only 'q4_k, drafts of an MTP head, KV f32'
    printed '^ok +q4_k, drafts of an MTP head, KV f32'
    clean
    expect_gpu 0 devices=1 "$stator" selftest --only 'q8_0, biases, tails of panels, KV q4_0/f32'
    printed '^ok +q8_0, biases, tails of panels, KV q4_0/f32'
}

# Single ops: their kernels against the scalar ones, without an engine.
test_selftest_ops() {
    need_driver
    for op in attention 'experts, q8_0' delta gate 'output matrix, q4_k' 'matmul, added, iq2_xs'; do
        expect_gpu 0 devices=1 "$stator" selftest --only "op $op"
        printed "^ok +op $op"
        clean
    done
    expect_gpu 5 fault=exec.kernel@5:lost "$stator" selftest --only 'op norm'
    printed '^FAILED op norm .*the device is lost'
}

test_selftest() {
    need_driver
    expect_gpu 0 devices=2,peer=ok "$stator" selftest --only 'q4_k, even' --report "$tmp/report"
    printed '^ok +q4_k, even, KV f16'
    printed '^ok +copies level_zero:0 -> level_zero:1 .*direct'
    grep -q '"failed": 0' "$tmp/report" || fail "$(cat "$tmp/report")"
    clean
    expect_gpu 0 '' "$stator" selftest --only 'f16, states of odd sizes'
    printed '^ok +f16, states of odd sizes, KV f16'
    expect 0 "$stator" selftest --device cpu:0 --only 'q4_k, states, experts, a gated one, KV f32'
    printed '^ok +q4_k, states, experts, a gated one, KV f32'
    expect 0 "$stator" selftest --device cpu:0 --only 'q4_k, grouped states of one tensor, KV f32'
    expect_gpu 5 devices=1 "$stator" selftest --device level_zero:7
    expect 5 "$stator" selftest
    expect_gpu 5 fault=exec.kernel@300:lost "$stator" selftest --only 'q8_0, even'
    printed '^FAILED q8_0, even.*the device is lost'
    expect_gpu 2 '' "$stator" selftest --only nothing-like-this
}

test_trace() {
    need_driver
    expect_gpu 0 devices=2 "$stator" run $cfg -p "$prompt" --temp 0 -n 4 --set 'devices.use="level_zero:0,level_zero:1"' \
        --trace "$tmp/trace.json"
    python3 - "$tmp/trace.json" <<'PY' || fail "the trace is not what Chrome reads"
import json, sys
events = json.load(open(sys.argv[1]))
events = events["traceEvents"] if isinstance(events, dict) else events
spans = [e for e in events if e.get("ph") == "X"]
assert len(spans) > 100, len(spans)
assert len({e["pid"] for e in spans}) == 2
assert all(0 <= e["dur"] < 60e6 for e in spans), "a span of more than a minute"
begin = min(e["ts"] for e in spans); end = max(e["ts"] + e["dur"] for e in spans)
assert end - begin < 120e6, end - begin
PY
    clean
}

# Chunks of a prompt overlap: the first GPU begins chunk i + 1 before the second has ended chunk i. (That it always can is shown
# without a clock in tests/unit/engine/test_async.c, overlap.) And the picture of it in tools/zesim.
test_prefill_overlap() {
    need_driver
    expect_gpu 0 devices=2,peer=ok "$stator" run $cfg --tokens "$(seq -s ' ' 10 89)" --temp 0 -n 1 --set memory.batch=16 \
        --set 'devices.use="level_zero:0,level_zero:1"' --trace "$tmp/trace.json"
    clean
    python3 - "$tmp/trace.json" <<'PY' || fail "no overlap: $(grep '"name":"step' "$tmp/trace.json")"
import json, sys
steps = {}
for e in json.load(open(sys.argv[1]))["traceEvents"]:
    if e["ph"] == "X" and e["tid"] == 0:
        steps[e["pid"], int(e["name"][5:].split(":")[0])] = (e["ts"], e["ts"] + e["dur"])
assert len(steps) == 10, steps
assert all(steps[0, i][1] <= steps[1, i][0] for i in range(5)), "a step is on two GPUs at once"
assert any(steps[0, i + 1][0] < steps[1, i][1] for i in range(4)), "never"
PY
    expect 0 tools/draw_trace "$tmp/trace.json" 0 3
    python3 -c 'import sys, xml.dom.minidom as m; d = m.parse(sys.argv[1]); assert len(d.getElementsByTagName("rect")) == 1 + 2 * 4' "$tmp/out" ||
        fail "the picture is not what it should be: $(head -c 600 "$tmp/out")"
}

run_tests
