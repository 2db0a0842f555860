# Goals of one call of make: made in the order given, each seeing what those before it installed.
. tests/lib.sh

# A copy of the tree in which setup-* "installs" the GPU compilers into the folder bin.
copy_tree() {
    mkdir -p "$tmp/tree/bin"
    cp -r Makefile src tools "$tmp/tree" || fail "can't copy the tree"
    cat >"$tmp/tree/tools/setup" <<'EOF'
#!/bin/sh
cd "$(dirname "$0")/../bin"
for t in clang llvm-spirv; do printf '#!/bin/sh\n' >$t; chmod +x $t; done
EOF
}
in_tree() {
    env -u BUILD -u MAKEFLAGS make --no-print-directory -s -C "$tmp/tree" CLANG_CL="$tmp/tree/bin/clang" \
        LLVM_SPIRV="$tmp/tree/bin/llvm-spirv" "$@" || fail "make $*"
}

test_a_goal_sees_what_the_one_before_it_installed() {
    [ -e /usr/include/level_zero/ze_api.h ] || skip "libze-dev is missing (make setup-test)"
    local goal without after with
    for goal in setup-gpu setup-test; do
        copy_tree
        without=$(in_tree print-build)
        after=$(in_tree "$goal" print-build)
        with=$(in_tree print-build)
        [ -n "$without" ] && [ "$without" != "$with" ] || fail "print-build does not tell the builds apart: \"$without\""
        [ "$after" = "$with" ] || fail "$goal print-build: $after, expected $with"
        rm -rf "$tmp/tree"
    done
}

test_goals_end_at_the_first_failure() {
    expect 2 env -u BUILD -u MAKEFLAGS make -s no-such-goal print-build
    ! grep -q '^build/' "$tmp/out" || fail "print-build was made after a failure"
}

# Without the compilers of GPU kernels the build is for the CPU, and says why.
test_a_build_without_gpu_compilers_says_so() {
    copy_tree
    expect 0 in_tree -n stator
    printed 'GPU kernels are left out \(no .*/bin/clang at build time: run make setup-gpu'
}

# What check-fresh tries is what the README says.
test_the_commands_of_the_readme() {
    expect 0 tools/check_fresh --commands
    printf '%s\n' "make setup demo" "make setup-test test" | cmp - "$tmp/out" || fail "README.md has: $(cat "$tmp/out")"
}

# It is content with skips for want of reference data, and with nothing else.
test_judgement_of_a_test_run() {
    local good='skipped a.sh: test_x: reference data ../shared/y is absent
skipped test_b: one
skipped test_b: two
    skipped: reference data ../shared/z is absent
slowest:
7 passed, 0 failed, 3 skipped'
    expect 0 tools/check_fresh --judge <<<"$good"
    expect 1 tools/check_fresh --judge <<<"${good/0 failed/1 failed}"
    expect 1 tools/check_fresh --judge <<<"${good/7 passed/0 passed}"
    expect 1 tools/check_fresh --judge <<<"${good%7 passed*}"
    for reason in 's/^skipped a.sh: .*/skipped a.sh: test_x: no ocloc: run make setup-test/' \
        's/^skipped a.sh: .*/skipped a.sh: test_x: no ocloc for bmg-g21: run make setup-ocloc/' \
        's/^skipped a.sh: .*/skipped a.sh: test_x: no mpicc: run make setup-mpi/' 's/^    skipped: .*/    skipped: one NUMA node/' '/^    skipped/d'; do
        expect 1 tools/check_fresh --judge <<<"$(sed "$reason" <<<"$good")"
        printed '^not allowed: '
    done
}

# Chromium and MPI are not in the packages of the tests, so their tests would skip on a new machine.
test_what_has_a_goal_of_its_own_is_not_in_the_suite() {
    env -u STATOR_BROWSER_REQUIRE -u STATOR_MPI_REQUIRE tests/run --list >"$tmp/all" || fail "tests/run --list fails"
    grep -qx 'run\.sh' "$tmp/all" || fail "the suite has no run.sh"
    ! grep -E '^(browser|mpi.*)\.sh$' "$tmp/all" || fail "the suite has tests that setup-test installs nothing for"
    [ "$(tests/run --list browser.sh)" = browser.sh ] || fail "browser.sh can't be asked for"
    STATOR_BROWSER_REQUIRE=1 STATOR_MPI_REQUIRE=1 tests/run --list >"$tmp/all"
    [ "$(grep -cE '^(browser|mpi)\.sh$' "$tmp/all")" = 2 ] || fail "required tests are left out"
}

run_tests
