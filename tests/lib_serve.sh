# For tests of `stator serve`: after tests/lib.sh.

# serve ARGUMENT...: starts a server of the demo on a port of the system's choice, with these further arguments. Sets pid and port
# when it listens; its output is in $tmp/serve.out and $tmp/serve.err. With serve_config and the words of serve_under in front of it
# another config, under another program.
serve() {
    local n
    : >"$tmp/serve.out"
    ${serve_under[@]+"${serve_under[@]}"} "$stator" serve "${serve_config:-configs/demo.cfg}" --set server.port=0 --set cpu.threads=2 "$@" >"$tmp/serve.out" 2>"$tmp/serve.err" &
    pid=$!
    trap 'kill -9 $pid 2>/dev/null' EXIT
    for ((n = 0; n < 600; n++)); do
        port=$(sed -n 's/^listening on http:.*:\([0-9]*\)$/\1/p' "$tmp/serve.out")
        [ -z "$port" ] || return 0
        kill -0 $pid 2>/dev/null || break
        sleep 0.1
    done
    fail "it does not listen: $(cat "$tmp/serve.err")"
}

# ready: until /health says so.
ready() {
    local n
    for ((n = 0; n < 600; n++)); do
        get /health
        [ "$status" != 200 ] || return 0
        sleep 0.1
    done
    fail "it does not get ready: $(cat "$tmp/answer" "$tmp/serve.err")"
}

# raw_file FILE: its bytes go to the server as they are; the answer, until the server closes (which a busy machine may take minutes
# for), is in $tmp/answer, and status is that of its first line.
raw_file() {
    exec 3<>"/dev/tcp/${address:-127.0.0.1}/$port" || fail "no connection to port $port"
    cat "$1" >&3
    timeout 300 cat <&3 >"$tmp/answer"
    exec 3<&- 3>&-
    status=$(head -1 "$tmp/answer" | sed -n 's,^HTTP/1\.1 \([0-9]*\) .*,\1,p')
}

# raw FORMAT [ARGUMENT]...: what printf makes of it.
raw() {
    # shellcheck disable=SC2059
    printf "$@" >"$tmp/request"
    raw_file "$tmp/request"
}

# get PATH [HEADER-LINE]...
get() {
    local path=$1
    shift
    raw '%s\r\n' "GET $path HTTP/1.1" "Host: localhost:$port" 'Connection: close' "$@" ''
}

# answered STATUS [PATTERN]: of the last request.
answered() {
    [ "$status" = "$1" ] || fail "status $status, expected $1: $(head -c 600 "$tmp/answer" | tr '\r\n' '  ')"
    [ -z "${2:-}" ] || grep -qE -- "$2" "$tmp/answer" || fail "the answer has no /$2/: $(tail -c 600 "$tmp/answer")"
}

# ends CODE: the server has ended, or does so within 60 s, with that exit code.
ends() {
    local got=0 n
    for ((n = 0; n < 600; n++)); do
        kill -0 $pid 2>/dev/null || break
        sleep 0.1
    done
    [ $n -lt 600 ] || fail "it does not end: $(tail -5 "$tmp/serve.err")"
    wait $pid || got=$?
    [ $got = "$1" ] || fail "exit $got, expected $1: $(tail -5 "$tmp/serve.err")"
}

# count OFFSET N: ids of tokens
count() { seq -s, "$1" "$(($1 + $2 - 1))"; }
# complete IDS N: a completion of N tokens, in $tmp/said; cached is how many tokens of the prompt were there.
complete() {
    local body="{\"prompt\": [$1], \"max_tokens\": $2, \"temperature\": 0, \"ignore_eos\": true}"
    raw '%s\r\n%s\r\n%s\r\n%s\r\n\r\n%s' 'POST /v1/completions HTTP/1.1' 'Host: localhost' 'Connection: close' "Content-Length: ${#body}" "$body"
    answered 200 '"cached_tokens":[0-9]+'
    cached=$(sed -n 's/.*"cached_tokens":\([0-9]*\).*/\1/p' "$tmp/answer")
    sed -n 's/.*"text":"\(\([^"\\]\|\\.\)*\)".*/\1/p' "$tmp/answer" >"$tmp/said"
}
