# Every output on a full disk ends with an error that names it and a non-zero code; every input has a limit; a path that
# can't be one is exit 2.
. tests/lib.sh
cfg=configs/demo.cfg
few="--tokens 1,2,3"
printf -v long '%0256d' 7

csv() { printf 'id,lower,upper,size\na,0,2,5\nb,1,3,7\n' >"$tmp/x.csv"; }

# full COMMAND...: with its standard output on a full disk.
full() {
    local got=0
    "$@" >/dev/full 2>"$tmp/err" || got=$?
    [ $got != 0 ] && [ $got -lt 126 ] || fail "exit $got: $* >/dev/full"
    grep -q "can't write to standard output" "$tmp/err" || fail "no error for: $* >/dev/full | $(tail -c 300 "$tmp/err")"
}

test_standard_output() {
    csv
    local json
    for json in '' --json; do
        # shellcheck disable=SC2086
        {
            full "$stator" plan $cfg $json
            full "$stator" config $cfg $json
            full "$stator" inspect configs/demo.gguf $json
            full "$stator" tokenize configs/demo.gguf "a b c" $json
            full "$stator" tokenize configs/demo.gguf "1 2 3" --decode $json
            full "$stator" run $cfg -p "Once upon a time" -n 8 $json
            full "$stator" pack "$tmp/x.csv" $json
            full "$stator" devices $json
            full "$stator" doctor $json
            full "$stator" version $json
            full "$stator" help config $json
        }
    done
    # shellcheck disable=SC2086
    full "$stator" logits $cfg $few --output -
    full "$stator" plan $cfg --svg -
    full "$stator" plan $cfg --ascii
    full "$stator" devices --save -
    full "$stator" help
    full "$stator" run --help
    full "$stator" bench $cfg -p 4 -n 2 -r 1 -o csv
}

# names FILE COMMAND...: exit 1, with an error that names the file.
names() {
    local file=$1
    shift
    expect 1 "$@"
    said "$file"
}

test_files() {
    csv
    # shellcheck disable=SC2086
    {
        names /dev/full "$stator" logits $cfg $few --output /dev/full
        names /dev/full "$stator" logits $cfg $few --output "$tmp/o" --report /dev/full
        names /dev/full "$stator" run $cfg $few -n 1 --report /dev/full
        names /dev/full "$stator" run $cfg $few -n 1 --trace /dev/full
        names /dev/full "$stator" run $cfg $few -n 1 --set log.file=/dev/full
        names /dev/full "$stator" logits $cfg $few --output "$tmp/o" --set log.file=/dev/full
    }
    names /dev/full "$stator" bench $cfg -p 4 -n 2 -r 1 --report /dev/full
    names /dev/full "$stator" bench $cfg -p 4 -n 2 -r 1 --set log.file=/dev/full
    names /dev/full "$stator" plan $cfg --set log.file=/dev/full
    names /dev/full "$stator" plan $cfg --set log.file=/dev/full --set log.format=json
    names /dev/full "$stator" plan $cfg --svg /dev/full
    names /dev/full "$stator" devices --save /dev/full
    names /dev/full "$stator" pack "$tmp/x.csv" --output /dev/full
}

# too_long COMMAND...: exit 2 and an error.
too_long() {
    expect 2 "$@"
    said '^stator'
}

test_long_names() {
    csv
    # shellcheck disable=SC2086
    {
        too_long "$stator" plan "$tmp/$long"
        too_long "$stator" plan "$tmp/$long.gguf"
        too_long "$stator" inspect "$tmp/$long.gguf"
        too_long "$stator" plan $cfg --set model.path=$long.gguf
        too_long "$stator" plan $cfg --set log.file="$tmp/$long"
        too_long "$stator" plan $cfg --svg "$tmp/$long"
        too_long "$stator" plan $cfg --diff "$tmp/$long"
        too_long "$stator" run $cfg -f "$tmp/$long"
        too_long "$stator" run $cfg $few -n 1 --trace "$tmp/$long"
        too_long "$stator" run $cfg $few -n 1 --report "$tmp/$long"
        too_long "$stator" logits $cfg $few --output "$tmp/$long"
        too_long "$stator" logits $cfg --tokens-file "$tmp/$long" --output "$tmp/o"
        too_long "$stator" tokenize configs/demo.gguf -f "$tmp/$long"
        too_long "$stator" pack "$tmp/$long"
        too_long "$stator" pack "$tmp/x.csv" --output "$tmp/$long"
        too_long "$stator" devices --save "$tmp/$long"
        too_long "$stator" doctor --root "$tmp/$long"
        too_long "$stator" doctor --root "$tmp/x.csv"
    }
}

# endless COMMAND...: exit 2 after the limit, without more memory than that takes.
endless() {
    rc=0
    (sanitized || ulimit -v 1600000; exec timeout 120 "$@") </dev/zero >"$tmp/out" 2>"$tmp/err" || rc=$?
    [ $rc = 2 ] || fail "exit $rc: $* | $(tail -c 300 "$tmp/err")"
}

test_endless_input() {
    local limit='longer than [0-9.]+ MiB, the most|larger than 1 MiB|not a regular file'
    endless "$stator" pack /dev/zero
    said "$limit"
    endless "$stator" pack -
    said "stdin is longer than 256.00 MiB"
    endless "$stator" tokenize configs/demo.gguf
    said "stdin is longer than 256.00 MiB"
    endless "$stator" tokenize configs/demo.gguf -f /dev/zero
    said "$limit"
    # All files together.
    head -c 200M /dev/zero >"$tmp/half"
    endless "$stator" tokenize configs/demo.gguf -f "$tmp/half" -f "$tmp/half"
    said "$limit"
    rm "$tmp/half"
    endless "$stator" tokenize configs/demo.gguf --decode
    said "$limit"
    endless "$stator" run $cfg -f /dev/zero -n 1
    said "$limit"
    endless "$stator" run $cfg -n 1
    said "$limit"
    endless "$stator" logits $cfg --tokens-file /dev/zero --output "$tmp/o"
    said "$limit"
    endless "$stator" plan $cfg --diff /dev/zero
    said "$limit"
    endless "$stator" plan /dev/zero
    said "$limit"
    endless "$stator" inspect /dev/zero
    said "$limit"
    endless "$stator" plan $cfg --set model.path=/dev/zero
    said "$limit"
}

run_tests
