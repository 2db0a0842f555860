# The order that zecuda gives to lists of two devices (tools/zecuda/events.c), over a driver of CUDA that works in host memory.
. tests/lib.sh

build_driver() {
    [ -e build/spirv/norm.spv ] || skip "no GPU kernels in this build"
    make -s build/libzecuda.so >"$tmp/log" 2>&1 || fail "$(tail -3 "$tmp/log")"
    "${CC:-gcc}" -std=c11 -D_GNU_SOURCE -O1 -fPIC -shared -pthread -fvisibility=hidden -o "$tmp/libcuda.so.1" tests/cuda/cuda_host.c >"$tmp/log" 2>&1 &&
        "${CC:-gcc}" -std=c11 -D_GNU_SOURCE -O1 -o "$tmp/exchanges" tests/cuda/exchanges.c -ldl >"$tmp/log" 2>&1 || fail "$(head -5 "$tmp/log")"
    mkdir -p "$tmp/ptx"
    echo "//kernel count b" >"$tmp/ptx/$(printf none | cksum | tr ' ' -).ptx"
    echo "// as the test's driver has it" >"$tmp/ptx/zecuda_exchange.ptx"
    export LD_LIBRARY_PATH=$tmp ZECUDA=$tmp/ptx
}

test_two_devices_exchange_rows_in_recorded_lists() {
    build_driver
    expect 0 "$tmp/exchanges" build/libzecuda.so 4096 2000   # with the signals in one launch
    expect 0 "$tmp/exchanges" build/libzecuda.so 262144 300  # by a copy of its own
    expect 0 "$tmp/exchanges" build/libzecuda.so 1003 300    # of no whole words
    CUDA_HOST_APART=1 expect 0 "$tmp/exchanges" build/libzecuda.so 4096 300
}

test_times_of_exchanges_are_told() {
    build_driver
    ZECUDA_TIMES=steps expect 0 "$tmp/exchanges" build/libzecuda.so 4096 20
    said '^zecuda: device 1: 20 submits'
    said '^zecuda: device 1: 40 exchanges; .*median 3.8, .* waiting 2.0 each, 4.0 in a step$'
}

run_tests
