# memory.on_oom = "spill": what a GPU is too small for is placed in host memory, planned and shown, with the same results;
# so is what a driver refuses although the plan fits.
. tests/lib.sh
. tests/lib_gpu.sh
spill=(--set memory.on_oom=spill --set memory.driver_reserve=1MiB)

plans() { grep -oE 'plan [0-9a-f]{32}' "$tmp/err" | uniq | wc -l; }
# spilled DEVICE: bytes of its arena of spill in the report, and that they were allocated.
spilled() {
    awk -v name="\"spill $1\"," '/"arena":/ { is = $2 == name || $2 " " $3 == name } is && /"(planned|allocated)"/ { print $2 + 0 }' "$tmp/report" |
        sort -u
}
demo() { # ZESIM MORE..: the demo's first tokens on zesim, the same as the CPU's
    local config=$1
    shift
    expect_gpu 0 "$config" "$stator" run $cfg -p "$prompt" --temp 0 -n 12 --report "$tmp/report" "${spill[@]}" "$@"
    cmp "$tmp/out" "$tmp/cpu" || fail "$config $*: another text than the CPU's"
    clean
    [ "$(total alloc.host.host.bytes)" = "$(total free.host.host.bytes)" ] || fail "$config: host memory was not given back"
    [ "$(total alloc.device.gpu0.bytes)" = "$(total free.device.gpu0.bytes)" ] || fail "$config: device memory was not given back"
    [ "$(total mirror.gpu0.count)" = 0 ] || fail "$config: mirrored memory"
}

# KV, KV and weights, on one GPU and on two; what the driver gave is what the plan says.
test_same_bytes() {
    need_driver
    cpu_text -p "$prompt" --temp 0 -n 12
    local memory host before=0
    for memory in 9 8 6 4; do
        demo memory=${memory}MiB
        said "^level_zero:0 is too small: [0-9.]+ MiB lie in host memory|[0-9.]+ KiB lie in host memory"
        said '^ +spill level_zero:0 +[0-9.]+ [KM]iB'
        said 'spill, what the GPUs are too small for'
        host=$(spilled level_zero:0)
        [ "$(echo "$host" | wc -w)" = 1 ] || fail "planned and allocated: $host"
        [ "$host" -gt "$before" ] || fail "$memory MiB: spilled $host, with more memory $before"
        before=$host
        [ "$(of level_zero:0 spilled_bytes | sort -u)" = "$host" ] || # the device's and the audit's
            fail "the report's device says $(of level_zero:0 spilled_bytes), its row $host"
        [ $(("$(total alloc.host.host.bytes)" - host)) = "$(sed -n '/"arena": "staging"/,/planned/s/.*"planned": \([0-9]*\).*/\1/p' "$tmp/report")" ] ||
            fail "$memory MiB: host memory is not staging and spill: $(total alloc.host.host.bytes)"
        [ "$(total alloc.device.gpu0.bytes)" -le $(((memory << 20) / 32 * 31 - (1 << 20))) ] || fail "$memory MiB: more than the GPU's memory"
    done
    [ "$(kv_and_weights)" = both ] || fail "with 4 MiB weights and KV are spilled: $(tail -30 "$tmp/err")"
    for memory in 5 4; do
        demo devices=2,memory=${memory}MiB,peer.0.1=ok --set 'devices.use="level_zero:0,level_zero:1"'
        said '^level_zero:0 is too small' && said '^level_zero:1 is too small'
        demo devices=2,memory=${memory}MiB,peer.0.1=none --set 'devices.use="level_zero:0,level_zero:1"'
    done
    # One GPU that is too small beside the CPU, which has nothing to spill.
    demo memory=4MiB --set 'devices.use="level_zero:0,cpu:0"' --set devices.split=6,2
    said '^level_zero:0 is too small'
    # Room for all: nothing is spilled.
    demo memory=1GiB
    ! grep -q 'too small' "$tmp/err" || fail "spilled without need"
}
kv_and_weights() { grep -qE 'KV of its last [0-9]+ layers [0-9.]+ [KM]iB, weights [0-9.]+ [KM]iB' "$tmp/err" && echo both; }

# Small slices, so that what is spilled has several; quantised KV; unordered execution; spans of every kernel.
test_many_slices() {
    need_driver
    local kv order
    for kv in f16 q8_0; do
        expect 0 "$stator" run configs/demo.cfg --set devices.use=cpu:0 --set memory.kv_type=$kv -p "$prompt" --temp 0 -n 12
        cp "$tmp/out" "$tmp/cpu"
        for order in forward shuffle; do
            demo memory=5MiB,max_alloc=1MiB,order=$order --set memory.kv_type=$kv --trace "$tmp/trace.json"
        done
        [ "$(total zeMemAllocHost)" -gt 4 ] || fail "only $(total zeMemAllocHost) allocations in the host"
    done
}

# Every position's logits of the oracles, with as little on the GPU as there can be.
oracle() {
    need_driver
    need_shared oracles/models/$1.gguf
    local ids more=(--set memory.logits_rows=20 --set memory.batch=30 --set memory.context=64)
    ids=$(sed -n 's/.*"prompt": *\[\([^]]*\)\].*/\1/p' <(tr -d '\n' <"$shared/oracles/models/$1.json"))
    expect 0 "$stator" logits "$shared/oracles/models/$1.gguf" --set devices.use=cpu:0 --tokens "$ids" -o "$tmp/cpu" "${more[@]}"
    expect 3 "$stator" plan "$shared/oracles/models/$1.gguf" --device g=1MiB "${spill[@]}" "${more[@]}" --json
    local least
    least=$(sed -n '/"name": "g"/,/"layers"/s/.*"total": \([0-9]*\).*/\1/p' "$tmp/out")
    expect_gpu 0 memory=$((least / 31 * 32 + (64 << 10)))B "$stator" logits "$shared/oracles/models/$1.gguf" \
        --set devices.use=level_zero:0 --tokens "$ids" -o "$tmp/gpu" "${spill[@]}" "${more[@]}"
    cmp "$tmp/gpu" "$tmp/cpu" || fail "$1: other logits than the CPU's"
    said 'is too small'
    clean
}
test_oracles() { oracle llama-untied && oracle qwen3 && oracle quant-q4_k && oracle quant-q5_0; }

# The same without a GPU: every form of the plan has the row, the cost is said, and "fail" says what "spill" would take.
test_plan() {
    local gpu=(--device 'gpu0=8MiB,bandwidth=400GB/s,bus=20GB/s')
    expect 0 "$stator" plan configs/demo.cfg "${gpu[@]}" "${spill[@]}" --svg "$tmp/plan.svg"
    printed '^ +spill gpu0 +1310720 +1.25 MiB'
    printed '^spill of gpu0: in host memory lie weights of 0 B, and KV of 1.25 MiB: of the last 5 layers$'
    printed '^spill of gpu0: a token brings 0 B over the bus, 1280 bytes more for each token of its context: 1.25 MiB at the full one'
    printed '^spill: at the full context a token takes about [0-9.]+ times as long'
    grep -q '<title>blk.7.kv$' "$tmp/plan.svg" && grep -q 'host, spill gpu0, slice 0' "$tmp/plan.svg" || fail "the picture does not have it"
    expect 0 "$stator" plan configs/demo.cfg "${gpu[@]}" "${spill[@]}" --ascii
    printed '^host, spill gpu0: 1.25 MiB$'
    printed '^  slice  0 \|K{64}\| 1.25 MiB$'
    expect 0 "$stator" plan configs/demo.cfg "${gpu[@]}" "${spill[@]}" --json
    printed '"on_oom": "spill"'
    printed '"name": "spill gpu0"'
    printed '"kv_layers": 5'
    printed '"bus_bytes_at_full_context": 1310720'
    printed '"spill_slowdown": [0-9.]+'
    cp "$tmp/out" "$tmp/old.json"
    expect 0 "$stator" plan configs/demo.cfg --device gpu0=7MiB "${spill[@]}" --diff "$tmp/old.json"
    printed '^  host +spill gpu0 +1.25 MiB -> +2.31 MiB .*from gpu0.memory'
    expect 0 "$stator" plan configs/demo.cfg --device gpu0=8MiB "${spill[@]}"
    printed '^spill: how much slower that is can.t be said'
    expect 3 "$stator" plan configs/demo.cfg --device gpu0=8MiB --set memory.driver_reserve=1MiB
    said 'too much .* With memory.on_oom = "spill" it fits: that puts 1310720 bytes \(1.25 MiB\) in host memory\.'
    expect 3 "$stator" plan configs/demo.cfg --device gpu0=8MiB "${spill[@]}" --set memory.host_limit=19MiB
    said 'does not fit: host needs .*What the GPUs spill to the host, 1.25 MiB'
    # The CPU has nothing to spill, and its plan does not know the key.
    expect 3 "$stator" plan configs/demo.cfg --set devices.use=cpu:0 --set memory.host_limit=20MiB "${spill[@]}"
    ! grep -q 'memory.on_oom' "$tmp/err" || fail "spill is offered to a CPU: $(cat "$tmp/err")"
}

# What a driver refuses although the plan fits: smaller slices, then less memory and spill; or exit 3.
test_refusals() {
    need_driver
    cpu_text -p "$prompt" --temp 0 -n 12
    # It has free memory for less than it reported.
    demo memory=16MiB,taken=9MiB
    said '^level_zero:0: its driver gives 7.00 MiB where 15.50 MiB were planned with'
    said '^level_zero:0 is too small'
    [ "$(plans)" = 2 ] || fail "$(plans) plans"
    # Refused at the Nth call: halved, then spilled.
    demo memory=16MiB,fail_above=3MiB,fault=zeMemAllocDevice@6:ERROR_OUT_OF_DEVICE_MEMORY
    said '^level_zero:0: its driver refuses a slice of 5.88 MiB .* at most 2.94 MiB'
    said '^level_zero:0: its driver gives [0-9.]+ MiB where 15.50 MiB'
    [ "$(plans)" = 3 ] || fail "$(plans) plans"
    [ "$(spilled level_zero:0)" -gt 0 ] || fail "nothing was spilled"
    # The second GPU refuses: only it spills.
    demo devices=2,gpu0.memory=16MiB,gpu1.memory=16MiB,gpu1.taken=13MiB --set 'devices.use="level_zero:0,level_zero:1"'
    said '^level_zero:1: its driver gives 3.00 MiB'
    ! grep -q '^level_zero:0 is too small' "$tmp/err" || fail "the other GPU spills"
    # With the first plan's hash expected, no other is run.
    local first
    expect_gpu 0 memory=16MiB "$stator" run $cfg -p x -n 1 "${spill[@]}"
    first=$(sed -n 's/^stator .*, plan //p' "$tmp/err")
    expect_gpu 0 memory=16MiB "$stator" run $cfg -p x -n 1 "${spill[@]}" --expect-plan "$first"
    expect_gpu 3 memory=16MiB,taken=9MiB "$stator" run $cfg -p x -n 1 "${spill[@]}" --expect-plan "$first"
    said 'expect-plan'
    # fail: by how much, and what spill would take.
    expect_gpu 3 memory=16MiB,taken=9MiB "$stator" run $cfg -p x -n 1 --set memory.driver_reserve=1MiB
    said 'bytes of the GPU are free now.*memory.on_oom = "spill" would put [0-9]+ bytes in host memory'
    ! grep -q 'is too small' "$tmp/err" || fail "spilled without being asked to"
}

# Every allocation refused once and for good: an end in time, with its reason, and everything given back.
test_faults() {
    need_driver
    cpu_text -p "$prompt" --temp 0 -n 12
    local i
    for i in 2 3; do
        expect_gpu 3 memory=7MiB,fault=zeMemAllocHost@$i:ERROR_OUT_OF_HOST_MEMORY "$stator" run $cfg -p x -n 1 "${spill[@]}" \
            --set memory.context=896
        said "level_zero:0: zeMemAllocHost\(spill of (kv|weights), slice [0-9], [0-9]+ bytes\): .*host memory"
        given_back
    done
    demo memory=4MiB,fault=zeMemAllocHost@3:ERROR_OUT_OF_HOST_MEMORY # and a large one is tried in smaller slices
    said 'its driver refuses a slice of 3.[0-9]+ MiB'
    for i in 1 2 3; do
        expect_gpu 3 memory=6MiB,fault=zeMemAllocDevice@$i+:ERROR_OUT_OF_DEVICE_MEMORY "$stator" run $cfg -p x -n 1 "${spill[@]}"
        said 'level_zero:0: arena (weights|kv|scratch|exchange).*with spill: '
        given_back
    done
    for i in 1 2 3 4; do
        demo memory=9MiB,fault=zeMemAllocDevice@$i:ERROR_OUT_OF_DEVICE_MEMORY
    done
    expect_gpu 5 memory=6MiB,fault=exec.kernel@400:lost "$stator" run $cfg -p "$prompt" -n 12 "${spill[@]}"
    said 'level_zero:0: zeFenceHostSynchronize: the device is lost'
}
given_back() {
    [ "$(total alloc.host.host.bytes)" = "$(total free.host.host.bytes)" ] || fail "host memory was not given back"
    [ "$(total alloc.device.gpu0.bytes)" = "$(total free.device.gpu0.bytes)" ] || fail "device memory was not given back"
    grep -q '"context": 0, "command queue": 0, "command list": 0' "$tmp/log.json" || fail "live objects: $(grep '"live"' "$tmp/log.json")"
}

# What a user attaches to a bug has it too.
test_selftest() {
    need_driver
    expect_gpu 0 devices=1 "$stator" selftest --only 'q8_0, biases, tails of panels, KV q8_0, spilled'
    printed '^ok +q8_0, biases, tails of panels, KV q8_0, spilled'
    [ "$(total zeMemAllocHost)" = 3 ] || fail "$(total zeMemAllocHost) allocations in the host: staging, KV and weights are 3"
    clean
}

# "auto" devices: GPUs that spill rather than the CPU, when the config says so; "auto" context never spills by itself.
test_auto() {
    need_driver
    expect_gpu 0 devices=2,memory=4MiB "$stator" run configs/demo.cfg -p "$prompt" --temp 0 -n 4 "${spill[@]}" --report "$tmp/report"
    grep -q '"name": "level_zero:1"' "$tmp/report" || fail "auto does not take both GPUs: $(cat "$tmp/err")"
    said '^level_zero:1 is too small'
    expect_gpu 0 devices=1,memory=9MiB "$stator" run configs/demo.cfg -p "$prompt" --temp 0 -n 4 "${spill[@]}" --set memory.context=auto
    ! grep -q 'is too small' "$tmp/err" || fail "a context was bought with spill"
}

run_tests
