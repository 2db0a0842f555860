# The product needs libc and libm at run time, nothing else.
. tests/lib.sh

test_only_libc_and_libm() {
    readelf -d "$stator" >"$tmp/dynamic" || fail "readelf can't read $stator"
    sed -n 's/.*(NEEDED).*\[\(.*\)\].*/\1/p' "$tmp/dynamic" | sort >"$tmp/needed"
    grep -q '^libc\.so\.' "$tmp/needed" || fail "no libc in: $(tr '\n' ' ' <"$tmp/needed")"
    allowed='libc|libm|ld-linux-[a-z0-9-]+'
    # A sanitizer's run-time library and what it needs are part of a test build only.
    if nm -a "$stator" 2>/dev/null | grep -qE '__(asan|ubsan|tsan)_'; then
        allowed="$allowed|lib[aut]b?san|libgcc_s|librt|libdl|libpthread|libresolv|libstdc\+\+"
    fi
    others=$(grep -vE "^($allowed)\.so\." "$tmp/needed")
    [ -z "$others" ] || fail "the binary also needs: $others"
    ! grep -qE '\((RPATH|RUNPATH)\)' "$tmp/dynamic" || fail "the binary has a library path inside"
}

test_ldd_agrees() {
    ldd "$stator" >"$tmp/ldd" || fail "ldd can't load $stator"
    ! grep -q 'not found' "$tmp/ldd" || fail "missing: $(cat "$tmp/ldd")"
    for name in config pcre2 xxhash zstd ck jansson event ze_loader; do
        ! grep -q "lib$name" "$tmp/ldd" || fail "lib$name is linked dynamically"
    done
}

# The GPU kernels are carried compressed.
test_binary_is_small() {
    ! nm -a "$stator" 2>/dev/null | grep -qE '__(asan|ubsan|tsan)_' || return 0 # sanitizers add code
    strip -o "$tmp/stripped" "$stator" || fail "strip fails"
    bytes=$(stat -c %s "$tmp/stripped")
    [ "$bytes" -le 15000000 ] || fail "the stripped binary has $bytes bytes, more than 15,000,000"
}

run_tests
