#!/bin/bash
# The tiles of AVX-512 keep their sums in registers. That can be seen in the assembler, on any processor.
. tests/lib.sh

object=$BUILD/src/kernels/cpu/avx512/avx512_matmul_batch.o

# Lines "TYPE products stores": integer products in the function of a type, and stores of whole registers on the stack.
counts() {
    objdump -d --no-show-raw-insn "$object" | awk '
        /^[0-9a-f]+ <batch_/ { type = $2; gsub(/[<>:]|batch_/, "", type); products[type] = stores[type] = 0; next }
        /^[0-9a-f]+ </ { type = "" }
        type != "" && /vpdpbusd/ { products[type]++ }
        type != "" && /vmov[a-z0-9]* +%zmm[0-9]+,.*\(%r[sb]p/ { stores[type]++ }
        END { for (t in products) print t, products[t], stores[t] }' >"$tmp/counts"
}

test_sums_stay_in_registers() {
    command -v objdump >/dev/null || skip "no objdump here"
    ! sanitized || skip "a build for sanitizers is not optimised"
    [[ $(basename "$BUILD") == gcc-* ]] || skip "looked at with gcc alone"
    counts
    local type
    for type in Q4_0 Q4_1 Q5_0 Q5_1 Q8_0 IQ4_NL MXFP4; do
        grep -q "^$type " "$tmp/counts" || fail "the tiles of $type are no function of their own: $(tr '\n' ';' <"$tmp/counts")"
        # The loop has all products of a block; a function that enters, or one sum too many, stores a few registers.
        awk -v type="$type" '$1 == type { exit !($2 >= 200 && 8 * $3 <= $2) }' "$tmp/counts" ||
            fail "type, products and stores on the stack: $(grep "^$type " "$tmp/counts")"
    done
}

run_tests
