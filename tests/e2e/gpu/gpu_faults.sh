# Faults of GPUs and their drivers on zesim. Whatever fails, there is an error that names device and call, the right
# exit code in time, nothing left alive in the driver, and no partial output that looks complete.
. tests/lib.sh
. tests/lib_gpu.sh

use2='devices.use="level_zero:0,level_zero:1"'

# fault CODE ZESIM SAYS [OPTION...]: a run with that configuration. Its text is a part of the CPU's, and ends early; with --json
# there is none. What the driver made is gone when the process ends.
fault() {
    local code=$1 config=$2 says=$3
    shift 3
    expect_gpu "$code" "$config" "$stator" run $cfg -p "$prompt" --temp 0 -n 12 "$@"
    said "$says"
    [ "$(wc -c <"$tmp/out")" -lt "$(wc -c <"$tmp/cpu")" ] || fail "$config: the whole text in spite of exit $code"
    cmp -n "$(wc -c <"$tmp/out")" "$tmp/out" "$tmp/cpu" || fail "$config: another text than the CPU's"
    clean
    nothing_lives "$config"
}

# nothing_lives WHAT: no live handle, and as much memory freed as allocated.
nothing_lives() {
    local alive a b place
    alive=$(sed -n 's/^ "live": //p' "$tmp/log.json")
    [ -n "$alive" ] || fail "$1: the driver has written no log"
    ! grep -qE '": [1-9]' <<<"$alive" || fail "$1: alive at the end: $alive"
    for place in device.gpu0 device.gpu1 host.host; do
        a=$(total "alloc.$place.bytes") b=$(total "free.$place.bytes")
        [ "$a" = "$b" ] || fail "$1: $a bytes allocated on $place, $b freed"
    done
}

want() {
    need_driver
    cpu_text -p "$prompt" --temp 0 -n 12
}

# Memory that is refused, at every allocation; exit 3.
test_allocations() {
    want
    local i
    for i in 1 2 3 4; do
        fault 3 "fault=zeMemAllocDevice@$i+:ERROR_OUT_OF_DEVICE_MEMORY" \
            'level_zero:0.*arena (weights|kv|scratch|exchange).*zeMemAllocDevice'
    done
    for i in 5 6 8; do
        fault 3 "devices=2,fault=zeMemAllocDevice@$i+:ERROR_OUT_OF_DEVICE_MEMORY" 'level_zero:[01].*arena.*zeMemAllocDevice' --set "$use2"
    done
    fault 3 fault=zeMemAllocHost@1:ERROR_OUT_OF_HOST_MEMORY 'zeMemAllocHost\(staging'
    # Others take the memory between the plan and the allocation.
    for i in 1 2 3; do
        fault 3 "memory=300MiB,taken_later=299MiB@$i" 'level_zero:0: arena.*(the GPU are free now|the device has no memory left)'
    done
}

# Everything that a driver makes at the start, refused once.
test_start() {
    want
    fault 5 fault=zeCommandListAppendMemoryCopy@3:ERROR_UNKNOWN 'level_zero:0: zeCommandListAppendMemoryCopy: '
    fault 5 fault=zeModuleCreate@2:ERROR_MODULE_BUILD_FAILURE 'level_zero:0: zeModuleCreate\([a-z0-9_]+\): the driver.s compiler refused'
    fault 5 fault=zeKernelCreate@1:0x78000011 'level_zero:0: zeKernelCreate'
    fault 5 fault=zeContextCreate@1:ERROR_DEVICE_LOST 'level_zero:0: zeContextCreate: the device is lost'
    fault 5 fault=zeCommandQueueCreate@1:ERROR_UNKNOWN 'level_zero:0: zeCommandQueueCreate'
    fault 5 fault=zeFenceCreate@9:ERROR_UNKNOWN 'level_zero:0: zeFenceCreate'
    fault 5 fault=zeCommandListClose@9:ERROR_UNKNOWN 'level_zero:0: zeCommandListClose'
    fault 5 fault=exec.copy@5:lost 'level_zero:0: ze[A-Za-z]+: the device is lost'
}

# The calls of a run up to its steps, counted, so that faults can be put into them: seal=N closes of lists, and copies per step.
count() {
    expect_gpu 0 "$1" "$stator" run $cfg -p "$prompt" --temp 0 -n 12 "${@:2}"
    seal=fault=zeCommandListClose@$(total zeCommandListClose):mark:sealed
}

# Lost in the prompt and while generating, in a kernel and in a copy, and by the driver's word.
test_lost() {
    want
    local lost='zeFenceHostSynchronize: the device is lost' i
    count ''
    for i in 5 600; do fault 5 "$seal,fault=exec.kernel@sealed/$i:lost" "level_zero:0: $lost"; done
    for i in 1 6; do fault 5 "$seal,fault=exec.copy@sealed/$i:lost" "level_zero:0: $lost"; done
    fault 5 "$seal,fault=zeCommandQueueExecuteCommandLists@sealed/6+:ERROR_DEVICE_LOST" \
        'level_zero:0: zeCommandQueueExecuteCommandLists: the device is lost'
    fault 5 "$seal,fault=exec.kernel@sealed/600:lost" "level_zero:0: $lost" --json
    [ ! -s "$tmp/out" ] || fail "--json has printed something"
    count devices=2,peer=ok --set "$use2"
    for i in 5 300 600 601 640; do fault 5 "devices=2,peer=ok,$seal,fault=exec.kernel@sealed/$i:lost" "level_zero:[01]: $lost" --set "$use2"; done
    # Of the three copies of a step on the first GPU the second is the push to the other.
    grep -q '"copy.gpu0>gpu1.count": [1-9]' "$tmp/log.json" || fail "nothing was pushed"
    fault 5 "devices=2,peer=ok,$seal,fault=exec.copy@sealed/2:lost" "level_zero:0: $lost" --set "$use2"
    count devices=2,peer=none --set "$use2"
    fault 5 "devices=2,peer=none,$seal,fault=exec.copy@sealed/2:lost" "level_zero:0: $lost" --set "$use2"
    fault 5 "devices=2,peer=none,$seal,fault=exec.copy@sealed/4:lost" "level_zero:1: $lost" --set "$use2"
}

# hangs ZESIM SAYS [OPTION...]: something that never ends. What it may still touch is left to the end of the process.
hangs() {
    local config=$1 says=$2 began
    shift 2
    began=$(date +%s%N)
    expect_gpu 5 "$config" "$stator" run $cfg -p "$prompt" --temp 0 -n 12 --set devices.deadline=3 "$@"
    took=$((($(date +%s%N) - began) / 1000000))
    said "$says"
    [ $took -ge 3000 ] || fail "it ended after $took ms, before the deadline"
    cmp -n "$(wc -c <"$tmp/out")" "$tmp/out" "$tmp/cpu" || fail "$config: another text than the CPU's"
    clean
}

# A copy or kernel that never ends: devices.deadline, in loading, in the prompt, while generating, in a transfer.
test_hangs() {
    want
    hangs fault=exec.copy@5:hang 'level_zero:0: zeFenceHostSynchronize: a copy has not ended after 3.0 s'
    count ''
    local step='wait: a step of [0-9]+ tokens has not ended after 3.0 s'
    hangs "$seal,fault=exec.copy@sealed/1:hang" "level_zero:0: $step"
    hangs "$seal,fault=exec.kernel@sealed/600:hang" "level_zero:0: $step"
    count devices=2,peer=ok --set "$use2"
    hangs "devices=2,peer=ok,$seal,fault=exec.copy@sealed/2:hang" "level_zero:0: $step" --set "$use2"
}

# Pairs: a push that arrives damaged, fails or never ends, found by the probe. The third copy of a probe is its first push.
test_probe() {
    want
    local probe=fault=zeDeviceCanAccessPeer@1:mark:probe
    expect_gpu 0 "devices=2,peer=ok,$probe,fault=exec.copy@probe/3:hang" "$stator" run $cfg -p "$prompt" --temp 0 -n 12 --set "$use2" \
        --set devices.deadline=8 # what does not hang may take long on a busy machine
    cmp "$tmp/out" "$tmp/cpu" || fail "a push that hangs in the probe: another text"
    said 'level_zero:0 to level_zero:1: staged through the host: .*a copy has not ended after 8.0 s'
    clean
    expect_gpu 0 devices=2,peer=corrupt "$stator" run $cfg -p "$prompt" --temp 0 -n 12 --set "$use2"
    said 'level_zero:0 to level_zero:1: staged through the host: a pushed copy arrived damaged'
    cmp "$tmp/out" "$tmp/cpu" || fail "a damaged push: another text"
    nothing_lives corrupt
    # Demanded and not possible.
    fault 5 devices=2,peer=corrupt 'level_zero:0 to level_zero:1 can.t go directly: a pushed copy arrived damaged' --set "$use2" \
        --set transfer.mode=direct
    fault 5 devices=2,peer=none 'level_zero:0 to level_zero:1 can.t go directly: the driver says' --set "$use2" --set transfer.mode=direct
    # A push that takes the device down is a lost device: an error, no hang.
    fault 5 devices=2,peer=fail 'level_zero:[01]: .*the device is lost' --set "$use2"
}

# Logits that are not all there leave no file.
test_logits() {
    want
    local logits=("$stator" logits $cfg --tokens "$(seq -s ' ' 1 40)" --set memory.logits_rows=4 -o "$tmp/logits")
    expect_gpu 0 '' "${logits[@]}"
    [ "$(stat -c %s "$tmp/logits")" -gt 0 ] || fail "no logits"
    seal=fault=zeCommandListClose@$(total zeCommandListClose):mark:sealed
    expect_gpu 5 "$seal,fault=zeCommandQueueExecuteCommandLists@sealed/6:lost" "${logits[@]}"
    said 'level_zero:0: .*the device is lost'
    [ ! -e "$tmp/logits" ] || fail "$(stat -c %s "$tmp/logits") bytes of logits are left"
    nothing_lives logits
}

run_tests
