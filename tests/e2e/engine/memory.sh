# Promises 1 and 5: what is allocated is what was planned, arena by arena, and RssAnon + RssShmem of the process stays below the
# host's total of the plan + 8 MiB at every look, from the start through loading to the end.
. tests/lib.sh
slack=$((8 << 20))

# reports PID: the process is no longer the shell, and has the full pipe open.
reports() {
    local file
    [ "/proc/$1/exe" -ef "$stator" ] || return 1
    for file in "/proc/$1/fd/"*; do [ "$file" -ef "$tmp/full" ] && return 0; done
    return 1
}

# watch PID FILE [report]: one line "bytes" per look, until the process is gone, or has been seen once more after it began its
# report. No command is started in between, for many looks.
watch() {
    local kb n name value rest last=0
    while [ $last = 0 ]; do
        [ -z "${3:-}" ] || ! reports "$1" || last=1
        kb=0 n=0
        while read -r name value rest; do
            case $name in
            RssAnon: | RssShmem:) kb=$((kb + value)) n=$((n + 1)) ;;
            State:) [ "$value" != Z ] || break 2 ;;
            esac
        done 2>/dev/null <"/proc/$1/status" || break
        [ $n != 2 ] || echo $((kb * 1024)) # it has none while it becomes another program, and while it ends
        read -rt 0.002 rest <>"$tmp/never"
    done >>"$2"
}

# look ARGUMENT...: one `stator run` under watch. Sets looks and most, of all runs of the test. However busy the machine is,
# it is seen at least once at its end with all its memory: the report goes into a pipe that is full until then.
look() {
    local pid got=0 reader
    [ -p "$tmp/never" ] || mkfifo "$tmp/never" "$tmp/full"
    exec 8<>"$tmp/full"
    timeout 5 head -c 65536 /dev/zero >&8 # more than some pipes hold
    "$stator" run "$@" --report "$tmp/full" >"$tmp/out" 2>"$tmp/err" 8>&- &
    pid=$!
    watch $pid "$tmp/looks" report
    exec 9<"$tmp/full"
    tr -d '\0' <&9 >"$tmp/report" 8>&- &
    reader=$!
    exec 9<&-
    watch $pid "$tmp/looks"
    wait $pid || got=$?
    exec 8>&-
    wait $reader
    [ $got = 0 ] || fail "exit $got: $(tail -3 "$tmp/err")"
    looks=$(wc -l <"$tmp/looks")
    most=$(sort -n "$tmp/looks" | tail -1)
    most=${most:-0}
}

# bounded CONFIG SET...: again until there were ten looks.
bounded() {
    local total most=0 looks=0 runs=0
    total=$("$stator" plan "$@" --json 2>/dev/null | sed -n '/"host"/,$s/.*"total": \([0-9]*\).*/\1/p')
    [ -n "$total" ] || fail "no plan for $*"
    rm -f "$tmp/report" "$tmp/looks"
    while [ $looks -lt 10 ] && [ $runs -lt 30 ]; do
        look "$@" --tokens '0 1 2 3 4 5 6 7 8 9' --temp 0 --ignore-eos -n 60 --json
        runs=$((runs + 1))
    done
    echo "# $*: planned $total, at most $most at $looks looks"
    [ "$looks" -ge 10 ] || fail "only $looks looks"
    sanitized || [ "$most" -le $((total + slack)) ] || fail "$most bytes are more than the plan's $total + 8 MiB"
    # Arena by arena, in the JSON and in the report.
    local n
    n=$(grep -oE '"planned":[0-9]+,"allocated":[0-9]+' "$tmp/out" | tr -dc '0-9,\n' | awk -F, '$1 != $2 || $1 == 0 { exit 1 } END { print NR }') ||
        fail "allocated is not what was planned: $(cat "$tmp/out")"
    [ "$n" = 7 ] || fail "$n rows"
    paste <(sed -n 's/.*"planned": \([0-9]*\).*/\1/p' "$tmp/report") <(sed -n 's/.*"allocated": \([0-9]*\).*/\1/p' "$tmp/report") \
        <(sed -n 's/.*"used": \([0-9]*\).*/\1/p' "$tmp/report") | awk '$1 != $2 || $3 > $2 || NF != 3 { exit 1 } END { exit NR != 7 }' ||
        fail "the report's figures: $(cat "$tmp/report")"
}

test_demo() {
    bounded configs/demo.cfg --set cpu.tier=scalar --set cpu.threads=2
    bounded configs/demo.cfg --set cpu.tier=scalar --set memory.batch=512 --set memory.sequences=4 --set memory.kv_type=f32 --set memory.staging=1MiB
    bounded configs/demo.cfg --set cpu.tier=scalar --set cpu.threads=5
}

# Loading seen closely: a plan that is mostly weights, through the smallest window. A second copy of them would be above the
# plan even without the slack.
test_loading() {
    slack=0
    bounded configs/demo.cfg --set memory.staging=64KiB --set memory.context=192 --set memory.batch=1 --set cpu.threads=1 --set cpu.tier=scalar
}

# Many prompt tokens at once, so that all of scratch and the whole KV cache are written.
test_all_of_it() {
    local total most=0 looks=0 runs=0
    total=$("$stator" plan configs/demo.cfg --set memory.batch=1024 --json 2>/dev/null | sed -n '/"host"/,$s/.*"total": \([0-9]*\).*/\1/p')
    [ -n "$total" ] || fail "no plan"
    # Again until the memory was seen in use.
    while [ "$most" -lt $((total / 4)) ] && [ $runs -lt 30 ]; do
        look configs/demo.cfg --set memory.batch=1024 --tokens "$(seq -s ' ' 0 1000)" --temp 0.9 --seed 1 --ignore-eos
        runs=$((runs + 1))
    done
    echo "# planned $total, at most $most at $looks looks"
    sanitized || [ "$most" -le $((total + slack)) ] || fail "$most bytes are more than the plan's $total + 8 MiB"
    [ "$most" -ge $((total / 4)) ] || fail "only $most bytes were touched: this test would not see a leak"
}

run_tests
