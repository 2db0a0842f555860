# What end-to-end tests share. A test is a function test_*; run_tests at the end of the file runs them all and prints TAP.
# Inside a test: `fail TEXT` fails it, `skip TEXT` skips it, $tmp is its own empty folder, $stator the binary.
set -u
stator=${STATOR:-./stator}
shared=${STATOR_SHARED:-../shared}

fail() { echo "# $*"; exit 1; }
skip() {
    if [ -n "${STATOR_TEST_REQUIRE:-}" ]; then echo "# must not be skipped here: $*"; exit 1; fi
    echo "$*" >"$tmp/.skip"
    exit 0
}
need_shared() { [ -e "$shared/$1" ] || skip "reference data ../shared/$1 is absent"; }

# expect CODE COMMAND...: runs it, output in $tmp/out and $tmp/err, fails unless it exits with CODE.
expect() {
    local code=$1 got=0
    shift
    "$@" >"$tmp/out" 2>"$tmp/err" || got=$?
    [ "$got" = "$code" ] || fail "exit $got, expected $code: $* | $(tail -c 600 "$tmp/err" | tr '\n' ' ')"
}
# said PATTERN: stderr has a line that matches; printed PATTERN: stdout has.
said() { grep -qE -- "$1" "$tmp/err" || fail "stderr has no /$1/: $(tail -c 600 "$tmp/err" | tr '\n' ' ')"; }
printed() { grep -qE -- "$1" "$tmp/out" || fail "stdout has no /$1/: $(tail -c 600 "$tmp/out" | tr '\n' ' ')"; }

# catches SIGNAL PID: waits until that process is $stator, with a handler for the signal.
catches() {
    local mask n number
    number=$(kill -l "$1")
    for ((n = 0; n < 3000; n++)); do
        mask=$(sed -n 's/^SigCgt:[[:space:]]*//p' "/proc/$2/status" 2>/dev/null)
        [ "/proc/$2/exe" -ef "$stator" ] && [ $((0x${mask:-0} >> (number - 1) & 1)) = 1 ] && return
        sleep 0.1
    done
    fail "it does not catch $1"
}

# Sanitizers keep memory of their own: what is about bytes of the process is not looked at with them.
sanitized() { grep -qE '__(asan|tsan)_init' "$stator"; }

run_tests() {
    local names n=0 name
    names=$(declare -F | awk '{ print $3 }' | grep '^test_')
    echo "1..$(echo "$names" | wc -l)"
    for name in $names; do
        n=$((n + 1))
        tmp=$(mktemp -d)
        if (set +e; "$name"); then
            if [ -e "$tmp/.skip" ]; then echo "ok $n - $name # SKIP $(cat "$tmp/.skip")"; else echo "ok $n - $name"; fi
        else
            echo "not ok $n - $name"
        fi
        rm -rf "$tmp"
    done
}
