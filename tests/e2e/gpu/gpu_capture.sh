# The Level Zero back end on Intel's own driver in capture mode: it accepts or refuses every call and compiles every
# kernel for a GPU that is not present, but executes nothing. So what is computed is garbage, and the test only looks at
# what the driver says.
. tests/lib.sh
count=${BUILD:-$(dirname "$stator")}/count
prompt='Once upon a time, there was a little fox named Pip. One day he went out to find the sea. He ran and ran.'

need_driver() {
    if grep -qE '__(asan|tsan)_init' "$stator"; then # tests/unit/device/test_level_zero.c runs there
        echo "the loader opens drivers with RTLD_DEEPBIND, which sanitizers refuse" >"$tmp/.skip"
        exit 0
    fi
    [ -e /usr/lib/x86_64-linux-gnu/libze_intel_gpu.so.1 ] || skip "intel-opencl-icd is missing (make setup-test)"
    [ -e "$count/libze_loader.so.1" ] || skip "libze1 or libze-dev is missing (make setup-test)"
}

# capture GPUS COMMAND...: for the GPU that $product sets.
capture() {
    local gpus=$1
    shift
    # shellcheck disable=SC2086
    env -u ZE_ENABLE_ALT_DRIVERS NEOReadDebugKeys=1 SetCommandStreamReceiver=1 AUBDumpSubCaptureMode=2 \
        CreateMultipleRootDevices="$gpus" $product ZE_ENABLE_VALIDATION_LAYER=1 ZE_ENABLE_PARAMETER_VALIDATION=1 \
        LD_LIBRARY_PATH="$count" COUNT_LOADER="$tmp/counts" timeout -k 5 600 "$@"
}
calls() { sed -n "s/^$1 //p" "$tmp/counts"; }

# A whole start, then three steps of a prompt and the one with logits, which are no numbers.
accepts() {
    need_driver
    local use=$1 gpus=$2 got=0
    shift 2
    capture "$gpus" "$stator" run configs/demo-gpu.cfg -p "$prompt" -n 1 --temp 0 --set memory.batch=8 --set "devices.use=\"$use\"" \
        --report "$tmp/report" "$@" >"$tmp/out" 2>"$tmp/err" || got=$?
    said '^sealed after'
    [ "$got" = 0 ] || { [ "$got" = 1 ] && said 'logits are not finite numbers'; } || fail "exit $got: $(tail -3 "$tmp/err")"
    ! grep -q 'level_zero:[0-9]: ze' "$tmp/err" || fail "the driver refused: $(grep 'level_zero:[0-9]: ze' "$tmp/err")"
    [ "$(calls steps)" -ge 4 ] || fail "only $(calls steps) submits after the last allocation or recording"
    [ "$(calls zeCommandListAppendLaunchKernel)" -gt 300 ] || fail "hardly a kernel was recorded"
    [ "$(calls zeMemAllocDevice)" = $((${slices:-4} * $(echo "$use" | tr ',' '\n' | wc -l))) ] || fail "$(calls zeMemAllocDevice) allocations"
}
dg2='ProductFamilyOverride=dg2 HardwareInfoOverride=8x4x16 ForceDeviceId=0x56a0'

test_dg1() { product=ProductFamilyOverride=dg1 accepts level_zero:0 1; }
# Nothing arrives, so the probe finds the copies damaged and they are staged.
test_dg2() {
    product=$dg2 accepts level_zero:0,level_zero:1 2
    said 'level_zero:0 to level_zero:1: staged'
}
# Direct pushes are taken too, when the probe does not look at the data.
test_pvc() {
    product='ProductFamilyOverride=pvc HardwareInfoOverride=8x8x8' accepts level_zero:0,level_zero:1 2 --set transfer.verify=false \
        --set transfer.mode=direct
    said 'level_zero:0 to level_zero:1: direct'
}

# Kernels with arguments in host memory: all of KV, and half of the weights. The GPU is as small as its reserve leaves it.
test_spill() {
    need_driver
    product=$dg2
    local memory
    memory=$(capture 1 "$stator" devices --json 2>/dev/null | sed -n 's/.*"memory": \([0-9]*\),/\1/p' | head -1)
    slices=3 accepts level_zero:0 1 --set memory.on_oom=spill --set memory.driver_reserve=$((memory - (4 << 20)))B
    said '^level_zero:0 is too small: 4.03 MiB lie in host memory .*KV of its last 8 layers 2.00 MiB, weights 2.03 MiB'
    [ "$(calls zeMemAllocHost)" = 3 ] || fail "$(calls zeMemAllocHost) allocations in the host: one is staging, two are spill"
}

# Intel's driver gives binaries and takes them back.
test_kernel_cache() {
    product=$dg2 accepts level_zero:0 1 --set "cache.dir=\"$tmp/kernels\""
    [ "$(calls zeModuleGetNativeBinary)" = $((2 * $(calls zeModuleCreate))) ] || fail "not every module was asked for its binary"
    product=$dg2 accepts level_zero:0 1 --set "cache.dir=\"$tmp/kernels\""
    [ "$(calls zeModuleGetNativeBinary)" = 0 ] || fail "the second start compiles: $(grep cache.dir "$tmp/err" | head -2)"
    ! grep -q cache.dir "$tmp/err" || fail "$(grep cache.dir "$tmp/err" | head -2)"
}

test_devices() {
    need_driver
    product=$dg2
    expect 0 capture 3 "$stator" devices --probe
    printed '^level_zero:2  Intel\(R\)'
    printed 'free now .* \(the driver.s total less 1/16'
    printed 'level_zero:2 -> level_zero:1'
}

run_tests
