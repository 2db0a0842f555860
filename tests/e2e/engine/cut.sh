# A model file that is truncated while commands have it open: exit 4 with its name, or 0 when they no longer need it;
# never a signal. (Every place between the calls of the library is in tests/unit/engine/test_cut.c.)
. tests/lib.sh

# cut_under COMMAND...: runs it on $tmp/model.gguf, 40 times, and cuts the file somewhere meanwhile.
cut_under() {
    local i rc size pid seed=$RANDOM
    size=$(stat -c %s configs/demo.gguf)
    echo "# seed $seed: $*"
    RANDOM=$seed
    for i in $(seq 40); do
        cp configs/demo.gguf "$tmp/model.gguf"
        "$@" >"$tmp/out" 2>"$tmp/err" </dev/null &
        pid=$!
        sleep "0.0$((RANDOM % 6))"
        truncate -s $((RANDOM % 2 ? RANDOM : RANDOM * RANDOM % size)) "$tmp/model.gguf"
        rc=0
        wait "$pid" || rc=$?
        case $rc in
        0) ;;
        4) said 'model\.gguf: ' ;;
        *) fail "exit $rc: $* | $(tail -c 600 "$tmp/err" | tr '\n' ' ')" ;;
        esac
    done
}

test_plan() { cut_under "$stator" plan "$tmp/model.gguf"; }
test_run() { cut_under "$stator" run "$tmp/model.gguf" --tokens "1 2 3" -n 2 --set memory.context=64 --set memory.batch=16; }
test_inspect() { cut_under "$stator" inspect "$tmp/model.gguf"; }
test_tokenize() { cut_under "$stator" tokenize "$tmp/model.gguf" "Once upon a time"; }

run_tests
