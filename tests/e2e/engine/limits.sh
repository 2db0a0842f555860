# What a shell or a service manager limits (ulimit): clean errors with the right exit code, or work as usual; never a signal.
. tests/lib.sh
cfg=configs/demo.cfg
build=$(dirname "$stator")

# under LIMIT VALUE COMMAND...: runs it under `ulimit LIMIT VALUE`; its code in $rc, output in $tmp/out and $tmp/err.
under() {
    local limit=$1 value=$2
    shift 2
    # Through pipes: files of the shell would be limited too.
    {
        (ulimit "$limit" "$value" && exec "$@") 2>&3 3>&- </dev/null | cat >"$tmp/out"
        echo "${PIPESTATUS[0]}" >"$tmp/rc"
    } 3>&1 | cat >"$tmp/err"
    rc=$(cat "$tmp/rc")
}
# clean WHAT CODE...: the exit code is one of these, and an error has a line.
clean() {
    local what=$1 code
    shift
    for code in "$@"; do
        [ "$rc" = "$code" ] || continue
        case $rc in [1-4]) said '^stator' ;; esac
        return 0
    done
    fail "$what: exit $rc | $(tail -c 400 "$tmp/err" | tr '\n' ' ')"
}

test_stack() {
    local size
    for size in 64 100 128 256 1000; do
        under -s $size "$stator" plan $cfg
        clean "plan -s $size" 0
        under -s $size "$stator" run $cfg -p "Once upon a time" -n 4 --temp 0
        clean "run -s $size" 0
        cp "$tmp/out" "$tmp/text.$size"
        under -s $size "$stator" doctor
        clean "doctor -s $size" 0 5
        printf 'id,lower,upper,size\na,0,2,5\nb,1,3,7\nc,2,4,5\n' >"$tmp/x.csv"
        under -s $size "$stator" pack "$tmp/x.csv" --time-limit 0.2
        clean "pack -s $size" 0
        under -s $size "$stator" plan "$tmp/absent.gguf"
        clean "absent -s $size" 2
    done
    cmp "$tmp/text.64" "$tmp/text.1000" || fail "the text depends on the stack"
}

# From below what the binary itself needs (then the kernel or the dynamic loader ends it, which is not ours to mend) upwards.
test_address_space() {
    sanitized && skip "sanitizers need address space"
    local size first
    first=$(($(stat -L -c %s "$stator") / 1024 + 4000))
    for size in $(seq $first 1500 $((first + 60000))) 150000 400000; do
        under -v "$size" "$stator" plan $cfg
        clean "plan -v $size" 0 1 3
        under -v "$size" "$stator" devices
        clean "devices -v $size" 0 1 3
        under -v "$size" "$stator" run $cfg --tokens "1 2" -n 1
        clean "run -v $size" 0 1 3
    done
    under -v 400000 "$stator" run $cfg --tokens "1 2" -n 1
    clean "run -v 400000" 0
}

test_data() {
    sanitized && skip "sanitizers need address space"
    local size # below 1000 the loader of the C library already fails: the binary has 0.4 MB of data
    for size in $(seq 1000 3000 40000); do
        under -d "$size" "$stator" plan $cfg
        clean "plan -d $size" 0 1 3
        under -d "$size" "$stator" run $cfg --tokens "1 2" -n 1
        clean "run -d $size" 0 1 3
    done
}

# A loader or driver that ends its process, as with an exception that nobody catches: where memory is limited it is tried
# in a child.
test_loader_that_aborts() {
    [ -e "$build/abort/libze_loader.so.1" ] || skip "built without GPU kernels"
    sanitized && skip "sanitizers need address space"
    under -v 2000000 env "LD_LIBRARY_PATH=$build/abort" "$stator" plan $cfg
    clean "auto" 0
    said 'no GPU here can be used'
    under -v 2000000 env "LD_LIBRARY_PATH=$build/abort" "$stator" plan $cfg --set devices.use=level_zero:0
    clean "named" 5
    said 'tried in a child process, .* signal 6; .*\(ulimit -v\)'
    under -v 200000 env "LD_LIBRARY_PATH=$build/abort" "$stator" plan $cfg --set devices.use=level_zero:0
    clean "no room" 5
    said 'not loaded: .*\(ulimit -v\) leaves .* raise the limit'
    under -d 200000 env "LD_LIBRARY_PATH=$build/abort" "$stator" doctor
    clean "doctor" 5
    printed 'loader: .*\(ulimit -d\)'
}

# With enough room the trial passes, and the GPU is used.
test_driver_with_room() {
    . tests/lib_gpu.sh
    need_driver
    expect 0 bash -c "ulimit -v 8000000; exec env ZE_ENABLE_ALT_DRIVERS=$driver ZESIM=$small $stator run $cfg -p x -n 1 --report $tmp/report"
    grep -q '"name": "level_zero:0"' "$tmp/report" || fail "the GPU is not used: $(cat "$tmp/err")"
}

test_open_files() {
    under -n 4 "$stator" plan $cfg
    clean "plan -n 4" 1
    said 'Too many open files.*ulimit -n'
    under -n 5 "$stator" plan $cfg
    clean "plan -n 5" 0 1
    under -n 4 "$stator" plan $cfg --set memory.host_limit=1GiB
    clean "a given limit" 0
    local n
    for n in 4 5 6 7; do
        under -n $n "$stator" run $cfg --tokens "1 2" -n 1 --trace "$tmp/trace" --report "$tmp/report" --set log.file="$tmp/log"
        clean "run -n $n" 0 1 2
        under -n $n "$stator" doctor
        clean "doctor -n $n" 0 5
        under -n $n "$stator" devices --save "$tmp/box.cfg"
        clean "devices -n $n" 0 1
    done
}

# SIGXFSZ is ignored, so that writing fails as on a full disk.
test_file_size() {
    # ThreadSanitizer writes half a megabyte to a temporary file before main.
    under -f 0 "$stator" --version
    ! sanitized || [ "$rc" = 0 ] || skip "this sanitizer writes a file when a program starts"
    under -f 0 "$stator" logits $cfg --tokens "1 2 3" --output "$tmp/logits"
    clean "logits" 1
    said 'output .*logits.*: File too large'
    [ ! -e "$tmp/logits" ] || fail "a part of the logits stays"
    under -f 1 "$stator" run $cfg --tokens "1 2" -n 1 --trace "$tmp/trace"
    clean "trace" 1
    said "File too large"
    under -f 0 "$stator" run $cfg --tokens "1 2" -n 1 --report "$tmp/report"
    clean "report" 1
    under -f 0 "$stator" plan $cfg --set log.file="$tmp/log"
    clean "log.file" 1
    said 'log.file'
    under -f 0 "$stator" plan $cfg --svg "$tmp/plan.svg"
    clean "svg" 1
    under -f 0 "$stator" devices --save "$tmp/box.cfg"
    clean "devices" 1
    printf 'id,lower,upper,size\na,0,2,5\n' >"$tmp/x.csv"
    under -f 0 "$stator" pack "$tmp/x.csv" --output "$tmp/y.csv"
    clean "pack" 1
}

# No thread can be made: as an ordinary user, whom that limit is for.
test_processes() {
    local user=
    chmod 755 "$tmp"
    cp -L "$stator" "$tmp/stator"
    cp configs/demo.gguf "$tmp"
    [ "$(id -u)" != 0 ] || user="setpriv --reuid 65534 --regid 65534 --clear-groups"
    # shellcheck disable=SC2086
    under -u 1 $user "$tmp/stator" run "$tmp/demo.gguf" --tokens "1 2" -n 1
    clean "run -u 1" 1
    said "can't be started: "
}

test_few_open_files() { # A server that has no room for its sockets says so, where libevent would end the process.
    # Descriptors that this test was given by its caller would count too.
    local n close='for ((fd = 3; fd < 64; fd++)); do eval "exec $fd>&-"; done'
    for n in 6 7 8 9 10; do
        expect 1 bash -c "$close; ulimit -n $n; exec $stator serve configs/demo.cfg --set server.port=0"
        said "only [0-9]+ are left \(ulimit -n is $n\): raise it to at least [0-9]+"
        ! grep -qE '^\[(warn|err)\]' "$tmp/err" || fail "libevent speaks to the user: $(cat "$tmp/err")"
    done
}

run_tests
