#!/bin/bash
# The software Level Zero driver under `make`: what it says when packages are missing, and that the product sees its GPUs.
. tests/lib.sh

test_missing_packages_are_named() {
    expect 2 make zesim ZESIM_NEEDS="some-package:/nowhere"
    said 'zesim needs the package\(s\) some-package'
}

test_exports_are_the_loader_tables_and_four_more() {
    [ -e build/libzesim.so ] || skip "build/libzesim.so is absent (make zesim)"
    nm -D --defined-only build/libzesim.so | awk '{ print $3 }' | grep -vE '^ze[st]?Get[A-Za-z]+ProcAddrTable$' | sort >"$tmp/others"
    printf '%s\n' zesim_count zesim_count_since zesim_mark zesim_write_log >"$tmp/expected"
    cmp "$tmp/others" "$tmp/expected" || fail "other exports: $(tr '\n' ' ' <"$tmp/others")"
}

run_tests
