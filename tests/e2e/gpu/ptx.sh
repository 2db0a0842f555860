# What clang makes of the portable GPU kernels for NVIDIA's targets (tools/zecuda): it accepts them, nothing is fused
# that is not written fma, nothing is left to ptxas to fuse, subnormals stay, and no operation is an approximation.
# STATOR_TEST_PTX=all looks at all modules, else at some of each family.
. tests/lib.sh

need_clang() {
    local t
    for t in clang-15 llvm-spirv-15; do command -v $t >/dev/null || skip "no $t: run make setup-test"; done
    [ -e build/spirv/norm.spv ] || skip "no GPU kernels in this build"
}

# The file has only float arithmetic that rounds once, to nearest, and keeps subnormals.
exact() {
    local bad
    bad=$(grep -oE '^[[:space:]]*(@!?%p[0-9]+ )?[a-z0-9_]+(\.[a-z0-9_]+)*\.f(16|16x2|32|64|t?z)[^ ]*' "$1" | sed -E 's/^[[:space:]]*(@!?%p[0-9]+ )?//' | sort -u |
        grep -vE '^(add|sub|mul|fma)\.rn\.f32$|^cvt\.rn\.f32\.[su](16|32)$|^cvt\.rn\.f16\.f32$|^cvt\.f32\.f16$' |
        grep -vE '^(ld|st|mov|selp|setp|abs|neg|min|max)\.' | tr '\n' ' ')
    [ -z "$bad" ] || fail "$1 has $bad"
    grep -E 'ftz|approx|\.rz\.f32|\.mad\.' "$1" >"$tmp/bad" && fail "$1 has $(head -1 "$tmp/bad")"
    return 0
}

test_kernels_round_each_operation_once() {
    need_clang
    local modules="norm ends delta attention_f16 attention_any tiles64x16_f16 decode1_q8_0 decode1_any few_q4_k prefill_k prefill_f16" m f n=0
    [ "${STATOR_TEST_PTX:-}" != all ] || modules=$(cd build/spirv && ls ./*.spv | grep -v dpas | sed 's/^..//; s/\.spv$//')
    for m in $modules; do
        f=build/ptx/$m.ptx
        make -s "$f" >"$tmp/log" 2>&1 || fail "$(tail -3 "$tmp/log")"
        exact "$f"
        n=$((n + $(grep -c 'add\.rn\.f32' "$f")))
        case $m in
        decode1_q* | few_q* | prefill_q* | *_k | *_any) grep -q 'dp4a\.s32\.s32' "$f" || fail "$m has no dp4a" ;;
        esac
    done
    [ "$n" -gt 100 ] || fail "only $n sums were seen"
}

# The test above sees fusing and flushing when they happen: the same kernel, compiled with and without leave to fuse.
test_a_fused_operation_would_be_seen() {
    need_clang
    cat >"$tmp/probe.cl" <<'CL'
kernel void apart(global float *x) {
    size_t i = get_local_id(0);
    x[i] = x[i] * x[i + 4096] + x[i + 8192];
}
CL
    local flags contract
    flags=$(make -s print-cl-flags)
    make -s build/ptx/builtins.bc || fail "the built-ins do not compile"
    for contract in off fast; do
        # shellcheck disable=SC2086
        clang-15 -c $flags -ffp-contract=$contract -emit-llvm -o "$tmp/probe.bc" "$tmp/probe.cl" || fail "clang-15 does not take the probe"
        llvm-spirv-15 --spirv-max-version=1.2 -o "$tmp/probe.spv" "$tmp/probe.bc" || fail "llvm-spirv-15 does not take the probe"
        tools/zecuda/ptx_of build/ptx/builtins.bc "$tmp/probe.spv" "$tmp/$contract.ptx" || fail "ptx_of fails"
    done
    exact "$tmp/off.ptx"
    grep -q 'mul\.rn\.f32' "$tmp/off.ptx" && grep -q 'add\.rn\.f32' "$tmp/off.ptx" && ! grep -q 'fma' "$tmp/off.ptx" ||
        fail "with -ffp-contract=off there is no product and sum, each rounded: $(grep f32 "$tmp/off.ptx" | tr '\n' ';')"
    grep -q 'fma\.rn\.f32' "$tmp/fast.ptx" || fail "with leave to fuse nothing is fused, so these tests see nothing"
    sed 's/add\.rn\.f32/add.f32/' "$tmp/off.ptx" >"$tmp/loose.ptx"
    (exact "$tmp/loose.ptx") >/dev/null && fail "a sum that ptxas may fuse is not seen"
    sed 's/add\.rn\.f32/add.rn.ftz.f32/' "$tmp/off.ptx" >"$tmp/flushed.ptx"
    (exact "$tmp/flushed.ptx") >/dev/null && fail "a sum that flushes subnormals is not seen"
    return 0
}

test_a_module_with_an_unknown_built_in_is_refused() {
    need_clang
    echo 'kernel void k(global float *x) { x[0] = exp(x[0]); }' >"$tmp/k.cl"
    # shellcheck disable=SC2046
    clang-15 -c $(make -s print-cl-flags) -emit-llvm -o "$tmp/k.bc" "$tmp/k.cl" && llvm-spirv-15 -o "$tmp/k.spv" "$tmp/k.bc" ||
        fail "the probe does not compile"
    make -s build/ptx/builtins.bc || fail "the built-ins do not compile"
    expect 1 tools/zecuda/ptx_of build/ptx/builtins.bc "$tmp/k.spv" "$tmp/k.ptx"
    said '_Z3expf'
    said 'does not have'
    [ ! -e "$tmp/k.ptx" ] || fail "a file is left"
}

test_the_driver_over_cuda_says_what_it_needs() {
    need_clang
    PATH=$PATH:/sbin:/usr/sbin ldconfig -p | grep -q 'libcuda\.so\.1' && skip "there is a libcuda here"
    make -s build/libzecuda.so >"$tmp/log" 2>&1 || fail "$(tail -3 "$tmp/log")"
    ZE_ENABLE_ALT_DRIVERS=$PWD/build/libzecuda.so expect 5 "$stator" run configs/demo.cfg --set devices.use=level_zero:0 -p a -n 1
    said "zecuda: libcuda.so.1: .*NVIDIA's driver is needed"
}

run_tests
