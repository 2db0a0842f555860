# What end-to-end tests on zesim, the software driver, share; after tests/lib.sh.
driver=$PWD/build/libzesim.so
cfg=configs/demo-gpu.cfg
prompt=' autumn, a wise old toad gave Bibi a tiny seed.'
# A small GPU: few hardware threads, so few groups to run in software.
small=slices=1,subslices=1,eus=8,threads=8

need_driver() {
    if grep -qE '__(asan|tsan)_init' "$stator"; then # tests/unit/device/test_level_zero.c runs there
        echo "the loader opens drivers with RTLD_DEEPBIND, which sanitizers refuse" >"$tmp/.skip"
        exit 0
    fi
    [ -e "$driver" ] || skip "the software driver is not built (make setup-test)"
    [ -e /usr/lib/x86_64-linux-gnu/libze_loader.so.1 ] || skip "libze1 is missing (make setup-test)"
}

# gpu ZESIM COMMAND...: with the software driver.
gpu() {
    local config=$1
    shift
    env ZE_ENABLE_ALT_DRIVERS="$driver" ZE_ENABLE_VALIDATION_LAYER=1 ZE_ENABLE_PARAMETER_VALIDATION=1 \
        ZESIM="$small,log=$tmp/log.json${config:+,$config}" timeout -k 5 600 "$@"
}
expect_gpu() { # CODE ZESIM COMMAND...
    local code=$1
    shift
    expect "$code" gpu "$@"
}

# total NAME: a counter of the whole run, 0 when there is none. since NAME: in the section after the mark "sealed".
total() { sed -n '/^ "total"/,/^ "sections"/p' "$tmp/log.json" | sed -n "s/^ *\"$1\": \([0-9]*\).*/\1/p" | grep . || echo 0; }
since() { sed -n '/"mark": "sealed"/,/}/p' "$tmp/log.json" | sed -n "s/^ *\"$1\": \([0-9]*\).*/\1/p" | grep . || echo 0; }
clean() { [ "$(total violations)" = 0 ] || fail "zesim saw violations: $(grep -o '"violation.*' "$tmp/log.json" | head -3)"; }
# of DEVICE NAME: a number of a device in the report.
of() { sed -n "/\"name\": \"$1\"/,/host_bytes/p" "$tmp/report" | sed -n "s/^ *\"$2\": \([0-9]*\),*/\1/p"; }

cpu_text() { "$stator" run configs/demo.cfg --set devices.use=cpu:0 "$@" >"$tmp/cpu" 2>/dev/null || fail "the CPU can't run"; }
