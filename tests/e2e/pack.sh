# stator pack: instances in, offsets out; errors with file, line and reason; exit codes; JSON.
. tests/lib.sh

# check FILE CAPACITY: awk's own look at a packing: no two blocks that share a step overlap, none ends above.
check() {
    awk -F, -v capacity="$2" 'NR > 1 { n++; lo[n] = $2; up[n] = $3; size[n] = $4; at[n] = $5
            if ($5 + $4 > capacity) { print "row " NR " ends above"; bad = 1 } }
        END { for (i = 1; i <= n; i++) for (k = 1; k < i; k++)
                if (lo[i] < up[k] && lo[k] < up[i] && at[i] < at[k] + size[k] && at[k] < at[i] + size[i]) {
                    print "rows " k + 1 " and " i + 1 " overlap"; bad = 1 }
            exit bad }' "$1" || fail "$1 is no packing"
}

test_shared_instances() {
    need_shared planner
    local f name
    for f in "$shared"/planner/*.csv; do
        name=$(basename "$f")
        expect 0 "$stator" pack "$f" --capacity 1048576
        said '^[0-9]+ blocks: peak [0-9]+, lower bound [0-9]+.*, [0-9.]+ s$'
        [ "$(head -1 "$tmp/out")" = id,lower,upper,size,offset ] || fail "$name: header"
        cut -d, -f1-4 "$tmp/out" | cmp - "$f" || fail "$name: the input's columns changed"
        check "$tmp/out" 1048576
    done
}

# A rectangle that was cut at random, with two pieces in a hundred left out: small enough for any build, needs no files.
test_tiling() {
    awk 'function below(n) { x = (x * 1103515245 + 12345) % 2147483648; return int(x / 65536) % n }
        BEGIN { x = 4; lo[0] = 0; up[0] = 1000; size[0] = 1024; n = 1
            while (n < 150) {
                i = below(n); j = below(n)
                if ((up[j] - lo[j]) * size[j] > (up[i] - lo[i]) * size[i]) i = j
                lo[n] = lo[i]; up[n] = up[i]; size[n] = size[i]
                if (below(2)) { if (up[i] - lo[i] < 2) continue; up[i] = lo[n] = lo[i] + 1 + below(up[i] - lo[i] - 1) }
                else { if (size[i] < 2) continue; size[i] = 1 + below(size[i] - 1); size[n] -= size[i] }
                n++
            }
            print "id,lower,upper,size"
            for (i = 0; i < n; i++) if (i % 50 != 7) print i "," lo[i] "," up[i] "," size[i] }' >"$tmp/in.csv"
    expect 0 "$stator" pack "$tmp/in.csv" --capacity 1024
    [ "$(wc -l <"$tmp/out")" = 148 ] || fail "$(wc -l <"$tmp/out") lines"
    check "$tmp/out" 1024
    cp "$tmp/out" "$tmp/first"
    expect 0 "$stator" pack "$tmp/in.csv" --capacity 1024 --time-limit 100
    cmp "$tmp/out" "$tmp/first" || fail "the time limit changed a finished result"
}

test_output_and_again() {
    printf 'id,lower,upper,size\na,0,2,10\nb,1,3,6\nc,2,4,10\n' >"$tmp/in.csv"
    expect 0 "$stator" pack "$tmp/in.csv" --output "$tmp/packed.csv"
    [ ! -s "$tmp/out" ] || fail "stdout is not empty"
    said '^3 blocks: peak 16, lower bound 16, optimal,'
    check "$tmp/packed.csv" 16
    expect 0 "$stator" pack - <"$tmp/packed.csv"
    cmp "$tmp/out" "$tmp/packed.csv" || fail "packing a packed file differs"
    expect 1 "$stator" pack "$tmp/in.csv" --output "$tmp/no/such"
    said 'no/such can.t be written: No such file'
    expect 0 "$stator" pack "$tmp/in.csv" --output -
    cmp "$tmp/out" "$tmp/packed.csv" || fail "--output - is not standard output"
    expect 2 "$stator" pack "$tmp/in.csv" --output - --json
    if [ -c /dev/full ]; then
        expect 1 "$stator" pack "$tmp/in.csv" --output /dev/full
        said '--output /dev/full can.t be written: No space left'
    fi
    expect 2 "$stator" pack "$tmp/none.csv"
    said 'none.csv can.t be opened'
}

test_columns() {
    printf '\357\273\277size , id,upper,\tlower\r\n\r\n 10,first block,5,0\r\n10,"x",9,5' >"$tmp/in.csv"
    expect 0 "$stator" pack "$tmp/in.csv"
    printed '^first block,0,5,10,0$'
    printed '^"x",5,9,10,0$'
    printf 'id,lower,upper,size\n' >"$tmp/in.csv"
    expect 0 "$stator" pack "$tmp/in.csv"
    said '^0 blocks: peak 0, lower bound 0, optimal'
    printf 'id,lower,upper,size\n0,7,7,5\n1,0,9,0\n2,0,9223372036854775807,1152921504606846976\n' >"$tmp/in.csv"
    expect 0 "$stator" pack "$tmp/in.csv"
    printed '^0,7,7,5,0$'
    said 'peak 1152921504606846976, lower bound 1152921504606846976, optimal'
}

test_capacity() {
    printf 'id,lower,upper,size\na,0,2,10\nb,1,3,6\n' >"$tmp/in.csv"
    expect 0 "$stator" pack "$tmp/in.csv" --capacity 16
    expect 3 "$stator" pack "$tmp/in.csv" --capacity 15
    said 'the peak exceeds the capacity of 15 by 1; no packing needs less than 16'
    # Every section sums up to 4, but 5 are needed: only a search can tell.
    printf 'id,lower,upper,size\na,0,2,2\nb,0,4,1\nc,0,1,1\nd,1,6,1\ne,2,3,1\nf,2,5,1\ng,3,6,1\nh,4,6,2\ni,5,6,0\n' \
        >"$tmp/in.csv"
    expect 0 "$stator" pack "$tmp/in.csv" --json
    printed '"optimal": true'
    expect 3 "$stator" pack "$tmp/in.csv" --capacity 1 --time-limit 0.5
}

refused() {
    printf '%b' "$1" >"$tmp/in.csv"
    expect 2 "$stator" pack "$tmp/in.csv"
    said "in.csv$2"
    [ ! -s "$tmp/out" ] || fail "stdout is not empty"
}

test_malformed() {
    refused '' ': empty; expected a header'
    refused 'id,lower,upper\n' ":1: no column 'size'"
    refused 'id,lower,upper,size,alignment\n' ":1: unknown column 'alignment'"
    refused 'id,lower,upper,size,size\n' ":1: two columns 'size'"
    refused 'id,lower,upper,size\n0,1,2\n' ':2: 3 fields, the header has 4'
    refused 'id,lower,upper,size\n\n0,1,2,3,4\n' ':3: 5 fields, the header has 4'
    refused 'id,lower,upper,size\n0,1,2,-3\n' ":2: size is '-3', expected a number"
    refused 'id,lower,upper,size\n0,,2,3\n' ":2: lower is '', expected a number"
    refused 'id,lower,upper,size\n0,1,2,0x10\n' ":2: size is '0x10'"
    refused 'id,lower,upper,size\n0,1,2,1e3\n' ":2: size is '1e3'"
    refused 'id,lower,upper,size\r\n0,1,2,9223372036854775808\r\n' ':2: size is 9223372036854775808, expected at most'
    refused 'id,lower,upper,size\n0,1,2,99999999999999999999999\n' ':2: size is 9999'
    refused 'id,lower,upper,size\n0,5,4,1\n' ':2: upper is 4, below lower, 5'
    refused 'id,lower,upper,size\na,1,2,3\n\nb,1,2,3\na,5,6,7\nb,1,2,3\n' ":5: id 'a' is that of line 2 too"
    refused 'size,id,upper,lower\n3,x,2,1\n3, x ,2,1\n3,x,2,1\n' ":3: id 'x' is that of line 2 too"
    refused 'id,lower,upper,size\n0,1,2,3\0\n' ':2: size is'
    printf 'id,lower,upper,size\n' >"$tmp/big.csv"
    for i in 1 2 3 4 5 6 7 8; do echo "$i,0,1,1152921504606846976"; done >>"$tmp/big.csv"
    expect 3 "$stator" pack "$tmp/big.csv"
    said 'add up to 2\^63 bytes or more'
    expect 2 "$stator" pack
    expect 2 "$stator" pack "$tmp/in.csv" --capacity much
}

test_same_again() {
    need_shared planner
    expect 0 "$stator" pack "$shared/planner/C.1048576.csv"
    cp "$tmp/out" "$tmp/first"
    expect 0 "$stator" pack "$shared/planner/C.1048576.csv" --time-limit 100
    cmp "$tmp/out" "$tmp/first" || fail "the time limit changed a finished result"
}

# The first signal ends the search, not the answer.
test_stopped() {
    awk 'function below(n) { x = (x * 1103515245 + 12345) % 2147483648; return int(x / 65536) % n }
        BEGIN { x = 7; print "id,lower,upper,size"
            for (i = 0; i < 400; i++) { lo = below(400); print i "," lo "," lo + 1 + below(200) "," 1 + below(30000) } }' >"$tmp/in.csv"
    for signal in INT TERM; do
        env --default-signal=INT,TERM "$stator" pack "$tmp/in.csv" --time-limit 100 >"$tmp/out" 2>"$tmp/err" &
        local pid=$! code=0
        catches $signal $pid
        kill -$signal $pid
        wait $pid || code=$?
        [ $code = $((128 + $(kill -l $signal))) ] || fail "exit code $code after $signal"
        said '^400 blocks: peak [0-9]+, lower bound [0-9]+ .*not shown to be optimal, [0-9.]+ s [(]stopped[)]$'
        check "$tmp/out" "$(sed -E 's/.* peak ([0-9]+),.*/\1/' "$tmp/err")"
    done
}

# A wrong path is told before a search, not after it.
test_output_first() {
    printf 'id,lower,upper,size\na,0,2,2\n' >"$tmp/in.csv"
    expect 1 "$stator" pack "$tmp/in.csv" --output "$tmp/no/such" --time-limit 100
    said 'no/such can.t be written'
}

run_tests
