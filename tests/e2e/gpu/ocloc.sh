# Intel's own compiler on the GPU kernels, offline: it accepts them for every device, spills nothing, keeps sums in registers, uses the
# instructions that they are written for, keeps subnormals and fuses nothing. Debian 12's compiler does dg1, acm-g10 and pvc. The present
# one does bmg-g21 and lnl: `make setup-ocloc check-ocloc`, which sets STATOR_OCLOC_REQUIRE. STATOR_TEST_OCLOC=all looks at all modules
# (minutes, then kept in build/spirv/ocloc) and at lnl, else at some of each family.
. tests/lib.sh

modules=build/spirv
need_ocloc() { # DEVICE
    local why
    why=$(tools/ocloc --has "$1" 2>&1) || case $1 in
    bmg* | lnl*) fail "$why" ;; # whoever runs check-ocloc wants this one
    *) skip "$why" ;;
    esac
    [ -e $modules/norm.spv ] || skip "no GPU kernels in this build"
}

# table DEVICE...: of these.
table() {
    local some=(norm ends experts delta rule rule8 router router8 attention_f16 attention_any attention8_f16 attention8_any decode1_q4_k decode1_any wide1_f32 wide1_q4_k wide1_q6_k decode4_q4_0 decode4_k decode4_any prefill_k prefill_any prefill8_k prefill8_mxfp4
        decode1_q3_k decode1_k_all decode4_iq4_xs few_k few_q4_0 few_q2_k dealt16_q4_k dealt16_k dealt16_q4_1 prefill8_q2_k dpas8_k_all dpas16_k_all dpas16_iq2_s
        tower latent latent_f16 latent_q8_0 latent8_f32 latent8_q8_0 both_f16 both8_f16 both8_any each1_q8_0 each1_any each_q8_0 each_any each8_q8_0 each8_q4_k each_dpas8_q4_k each_dpas16_q4_k
        tiles64x8_f16 tiles64x16_f16 tiles32x8_f16 tiles32x16_f16 tiles32x8_q8_0_dpas tiles32x16_q8_0_dpas dpas8_q8_0 dpas8_k dpas16_q4_0 dpas16_k)
    [ "${STATOR_TEST_OCLOC:-}" != all ] || some=()
    STATOR_OCLOC_DEVICES="$*" tools/ocloc_table "${some[@]}" >"$tmp/table" 2>"$tmp/err" || fail "$(cat "$tmp/err")"
    [ "$(wc -l <"$tmp/table")" -ge 25 ] || fail "the table has $(wc -l <"$tmp/table") lines"
}

# Kernels of which CONDITION (awk, on the table's columns) holds.
none() {
    local found
    found=$(awk "$2 { print \$1, \$3 }" "$tmp/table")
    [ -z "$found" ] || fail "$1: $(echo "$found" | tr '\n' ';')"
}

check_table() {
    # One register, under the compiler of 2022, since heads differ by kind of layer (gemma4).
    # Keys that attention_f16 has in flight: 8 registers, under the compiler of 2022.
    # Heads with any K types on an A-series card: four registers, since norms of heads add up eight lanes at a time.
    none "registers are spilled" '$6 > 0 && !($1 == "pvc" && $3 ~ /^(decode4_k_heads|attention_f16)$/ && $6 == 1) &&
        !($1 == "acm-g10" && $3 == "dpas8_k_all_heads" && $6 == 1)'
    # Not yet without: the kernels of all types.
    none "private memory in a loop" '$2 !~ /_any$/ && $16 > 0'
    # What the compiler makes memory of, "no spill" does not tell: bytes of an item. What is left for the matrix engine lies outside the loops.
    none "arrays lie in memory" '$2 ~ /^(dpas|dealt)/ && $6 == 0 && $14 > 128' # with spilled registers these are in it
    none "no dp4a" '$2 ~ /^(decode|wide1|few|prefill)/ && $2 !~ /_(f32|f16|bf16)$/ && $7 == 0'
    none "no dp4a" '$2 ~ /^attention8?_(q|any)/ && $7 == 0'
    none "no dpas" '$2 ~ /^dpas|^dealt|_dpas$|^each_dpas/ && $8 == 0'
    none "dp4a beside dpas" '$2 ~ /^(dpas|dealt)/ && $7 > 0'
    none "a kernel that flushes subnormals" '$3 !~ /^(fill|embed|argmax)$/ && $10 != 1'
}

test_kernels_compile_without_spills_and_use_integer_products() {
    local devices=(acm-g10 pvc)
    need_ocloc acm-g10
    # A card of 2020, without dpas, whose kernels are acm-g10's in all but that.
    [ "${STATOR_TEST_OCLOC:-}" != all ] && [ -z "${STATOR_OCLOC_REQUIRE:-}" ] || devices+=(dg1)
    table "${devices[@]}"
    check_table
    awk '$2 ~ /^dpas8/ && $1 == "acm-g10" { a++ } $2 ~ /^dpas16/ && $1 == "pvc" { b++ } END { exit !(a && b) }' "$tmp/table" ||
        fail "no module with dpas was compiled"
}

# The same of the compiler that owners of a B60 or B70 have, in the register mode that the module is shipped with.
if [ -n "${STATOR_OCLOC_REQUIRE:-}" ]; then
    test_kernels_compile_without_spills_for_battlemage() {
        need_ocloc bmg-g21
        local devices=(bmg-g21)
        [ "${STATOR_TEST_OCLOC:-}" != all ] || devices+=(lnl)
        table "${devices[@]}"
        check_table
        awk '$15 == 128 { a++ } $2 ~ /^(dpas|dealt)16/ && $15 == 256 { b++ } END { exit !(a && b) }' "$tmp/table" ||
            fail "no module in one of the two register modes was compiled"
    }
fi

# What clang says (ContractionOff in every module, for every kernel) and what Intel's compiler makes of it.
test_nothing_is_fused() {
    need_ocloc dg1
    command -v spirv-dis >/dev/null || skip "no spirv-dis: run make setup-test"
    local f entries off
    for f in "$modules"/*.spv; do
        spirv-dis "$f" >"$tmp/text" 2>/dev/null || fail "$f is no SPIR-V"
        entries=$(grep -c OpEntryPoint "$tmp/text")
        off=$(grep -c 'OpExecutionMode .* ContractionOff' "$tmp/text")
        # fill, move, keep and the two of argmax have no arithmetic that could be fused, so the mark is left out.
        [ "$f" != "$modules/ends.spv" ] || off=$((off + 5))
        [ "$f" != "$modules/experts.spv" ] || off=$((off + 3)) # nor have group_slots, near_slots and take_expert,
        [ "$f" != "$modules/index.spv" ] || off=$((off + 1))   # choose, which compares scores,
        [ "$f" != "$modules/norm.spv" ] || off=$((off + 1))    # and exchange_int8, which copies
        [ "$entries" -gt 0 ] && [ "$entries" = "$off" ] || fail "$f: $entries kernels, $off with ContractionOff"
    done
    cat >"$tmp/probe.cl" <<'EOF'
kernel void apart(global float *x) {
    size_t i = get_global_id(0);
    x[i] = x[i] * x[i + 4096] + x[i + 8192];
}
kernel void fused(global float *x) {
    size_t i = get_global_id(0);
    x[i] = fma(x[i], x[i + 4096], x[i + 8192]);
}
EOF
    local flags
    flags=$(make -s print-cl-flags)
    # shellcheck disable=SC2086
    clang-15 -c $flags -emit-llvm -o "$tmp/probe.bc" "$tmp/probe.cl" || fail "clang-15 does not take the probe"
    llvm-spirv-15 --spirv-max-version=1.2 -o "$tmp/probe.spv" "$tmp/probe.bc" || fail "llvm-spirv-15 does not take the probe"
    local device
    for device in dg1 acm-g10 pvc bmg-g21 lnl; do
        ! tools/ocloc --has $device 2>/dev/null || fuses_nothing $device
    done
}

fuses_nothing() { # DEVICE: of the probe, fma is fused and nothing else
    local device=$1 fused apart
    tools/ocloc compile -spirv_input -file "$tmp/probe.spv" -device "$device" -output "$device" -out_dir "$tmp/$device" >"$tmp/log" 2>&1 ||
        fail "$device: $(tail -1 "$tmp/log")"
    tools/ocloc disasm -file "$tmp/$device"/*.bin -dump "$tmp/$device/d" -device "$device" >/dev/null 2>&1
    fused=$(cat "$tmp/$device"/d/fused_KernelHeap.asm "$tmp/$device"/d/.text.fused.asm 2>/dev/null)
    apart=$(cat "$tmp/$device"/d/apart_KernelHeap.asm "$tmp/$device"/d/.text.apart.asm 2>/dev/null)
    echo "$fused" | grep -q ' mad .*:f ' || fail "$device: fma is no mad, so this test sees nothing"
    ! echo "$apart" | grep -q ' mad .*:f ' || fail "$device: a product and a sum were fused"
    echo "$apart" | grep -q ' mul .*:f ' || fail "$device: no product"
}

run_tests
