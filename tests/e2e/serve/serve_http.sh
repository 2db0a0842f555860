# What a server must not believe: malformed heads, two lengths, foreign hosts and pages, wrong keys, too much and too slow.
. tests/lib.sh
. tests/lib_serve.sh

# refused STATUS WHY HEADER-LINE...: a GET with these lines after the first.
refused() {
    local code=$1 why=$2
    shift 2
    raw '%s\r\n' 'GET /health HTTP/1.1' "$@" ''
    answered "$code" "$why"
    grep -q '"error":{"message":' "$tmp/answer" || fail "no error in OpenAI's form: $(cat "$tmp/answer")"
}

test_heads() {
    local host=Host:\ localhost
    serve
    ready
    refused 400 'is there twice' "$host" 'Content-Length: 2' 'Content-Length: 2'
    refused 400 'are both there' "$host" 'Content-Length: 2' 'Transfer-Encoding: chunked'
    refused 400 'are both there' "$host" 'Transfer-Encoding: chunked' 'content-length: 2'
    refused 400 'is there twice' "$host" 'Transfer-Encoding: chunked' 'Transfer-Encoding: chunked'
    refused 501 'only be chunked' "$host" 'Transfer-Encoding: gzip, chunked'
    refused 400 'is not a number' "$host" 'Content-Length: 2, 2'
    refused 400 'is not a number' "$host" 'Content-Length: -2'
    refused 400 'is not a number' "$host" 'Content-Length: 0x2'
    refused 400 'is not a number' "$host" 'Content-Length: 99999999999999999999'
    refused 400 'NAME: VALUE' "$host" 'Content-Length : 2'
    refused 400 'NAME: VALUE' "$host" 'X: 1' ' folded'
    refused 400 'Host header is missing' 'X: 1'
    refused 400 'is there twice' "$host" "$host"
    refused 417 'Expect' "$host" 'Expect: more'
    refused 413 'server.max_body' "$host" 'Content-Length: 4194305'
    refused 431 'longer than 16 KiB' "$host" "X: $(head -c 17000 /dev/zero | tr '\0' x)"
    refused 431 'more than 64' "$host" $(seq -f 'X%g:1' 70)
    raw 'GET /health HTTP/1.1\nHost: localhost\n\n'
    answered 400 'CR LF'
    raw 'GET /%%00 HTTP/1.1\r\nHost: localhost\r\n\r\n'
    answered 400 'malformed'
    raw 'GET /health HTTP/2.0\r\nHost: localhost\r\n\r\n'
    answered 505
    raw 'GET /%s HTTP/1.1\r\nHost: localhost\r\n\r\n' "$(head -c 5000 /dev/zero | tr '\0' x)"
    answered 414
    raw 'nonsense\r\n\r\n'
    answered 400
    head -c 20000 "$stator" >"$tmp/garbage"
    raw_file "$tmp/garbage"
    answered 400
    # Two requests in one packet, and a body that is not the second of them.
    raw 'GET /health HTTP/1.1\r\nHost: localhost\r\n\r\nGET /none HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n'
    answered 200
    grep -q 'HTTP/1.1 404' "$tmp/answer" || fail "the second request has no answer"
    raw 'GET /health HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n3\r\nabc\r\n0\r\n\r\n'
    answered 200
    raw 'GET /health HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabcd\r\n0\r\n\r\n'
    answered 400 'chunks'
    ready
    kill -TERM $pid
    ends 0
}

# chunks STATUS BODY: a GET whose body is chunked in this way, and a second request behind it, which only a body that is understood
# leaves to be one.
chunks() {
    raw 'GET /health HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n'"$2"'GET /none HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n'
    answered "$1"
    local others=$(grep -o 'HTTP/1.1 404' "$tmp/answer" | wc -l)
    [ "$others" = $(($1 == 200)) ] || fail "$2: $others answers to what is behind it"
}

# Where proxies and servers may disagree about a body's end, nothing is guessed.
test_chunks() {
    serve
    ready
    chunks 200 '3\r\nabc\r\n0\r\n\r\n'
    chunks 200 '003;name=value;quoted="x y"\r\nabc\r\n0;last\r\nTrailer: 1\r\nContent-Length: 7\r\n\r\n'
    chunks 200 '3 ;bad=blank\r\nabc\r\n0\r\n\r\n'
    local body
    for body in '3\nabc\r\n0\r\n\r\n' '3\r\nabc\n0\r\n\r\n' '3;x\nabc\r\n0\r\n\r\n' '3;x\ry\r\nabc\r\n0\r\n\r\n' '3 4\r\nabc\r\n0\r\n\r\n' \
        '3 \r\nabc\r\n0\r\n\r\n' '0x3\r\nabc\r\n0\r\n\r\n' '+3\r\nabc\r\n0\r\n\r\n' '-3\r\nabc\r\n0\r\n\r\n' '\r\n\r\n' ';x\r\n\r\n' \
        'fffffffffffffffff\r\nabc\r\n' '3\r\nabcd\r\n0\r\n\r\n' '3\r\nab\r\n0\r\n\r\n' '0\r\nX: 1\n\r\n' '0\r\nX: \r1\r\n\r\n' '0\r\nX: 1\0\r\n\r\n'; do
        chunks 400 "$body"
    done
    raw 'GET /health HTTP/1.0\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n'
    answered 400 'HTTP/1.0'
    raw 'GET /health HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n1;%s\r\nx\r\n0\r\n\r\n' \
        "$(head -c 5000 /dev/zero | tr '\0' x)"
    answered 400
    raw 'GET /health HTTP/1.1\r\nHost: localhost\r\nX: a\rb\r\n\r\n'
    answered 400 'CR LF'
    raw 'GET /health HTTP/1.1\rHost: localhost\r\n\r\n'
    answered 400 'CR LF'
}

test_forms() {
    serve
    ready
    raw 'GET http://localhost/health?x=1 HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n'
    answered 200
    raw 'GET http://localhost/health HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n'
    answered 400 'different hosts'
    local target
    for target in health http://localhost //localhost/health/../none /%%2 '/a#b' '*' localhost:80; do
        raw "GET $target HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
        case $status in 400 | 404) ;; *) fail "$target: $status" ;; esac
    done
    # HTTP/1.0: no Host is needed, and the connection closes unless it is asked to stay.
    raw 'GET /health HTTP/1.0\r\n\r\n'
    answered 200 '^Connection: close'
    raw 'GET /health HTTP/1.0\r\nConnection: keep-alive\r\n\r\nHEAD /health HTTP/1.0\r\n\r\n'
    answered 200 '^Connection: keep-alive'
    [ "$(grep -o 'HTTP/1.1 200' "$tmp/answer" | wc -l)" = 2 ] || fail "no second answer"
    raw 'DELETE /v1/completions HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n'
    answered 405 '^Allow: POST'
    raw 'POST /health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n'
    answered 405 '^Allow: GET, HEAD'
    # A body that nobody reads is not the next request.
    raw 'POST /none HTTP/1.1\r\nHost: localhost\r\nContent-Length: 44\r\n\r\nGET /health HTTP/1.1\r\nHost: localhost\r\n\r\n'
    answered 404
    [ "$(grep -o 'HTTP/1.1' "$tmp/answer" | wc -l)" = 1 ] || fail "a body became a request"
    # 100-continue comes before the body, and not where the body is refused.
    exec 4<>"/dev/tcp/127.0.0.1/$port"
    printf 'POST /tokenize HTTP/1.1\r\nHost: localhost\r\nExpect: 100-continue\r\nContent-Length: 15\r\nConnection: close\r\n\r\n' >&4
    local line
    IFS= read -r -t 60 line <&4
    [ "$line" = $'HTTP/1.1 100 Continue\r' ] || fail "got '$line'"
    printf '{"content":"a"}' >&4
    timeout 60 cat <&4 >"$tmp/answer"
    exec 4>&-
    grep -q '^HTTP/1.1 200' "$tmp/answer" || fail "after 100: $(cat "$tmp/answer")"
    raw 'POST /tokenize HTTP/1.1\r\nHost: localhost\r\nExpect: 100-continue\r\nContent-Length: 99999999\r\n\r\n'
    answered 413
}

test_hosts_and_origins() {
    serve --set server.hosts=box.local --set server.cors=https://chat.example
    ready
    local host
    for host in localhost 127.0.0.1 "127.0.0.1:$port" '[::1]:80' box.local box.local:1234 a.localhost; do
        raw 'GET /health HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n\r\n' "$host"
        answered 200
    done
    for host in example.org localhost.example.org 'localhost:80@evil' '[::1' box.local.example; do
        raw 'GET /health HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n\r\n' "$host"
        answered 403 'does not answer to the name'
    done
    get /health 'Origin: https://evil.example'
    answered 403 'may not use this server'
    get /health 'Origin: null'
    answered 403
    get /health "Origin: http://localhost:$port" # its own
    answered 200
    get /health 'Origin: https://chat.example'
    answered 200 'Access-Control-Allow-Origin: https://chat.example'
    raw 'OPTIONS /v1/models HTTP/1.1\r\nHost: localhost\r\nOrigin: https://chat.example\r\nAccess-Control-Request-Method: POST\r\nConnection: close\r\n\r\n'
    answered 204 'Access-Control-Allow-Headers: Authorization, Content-Type'
    raw 'OPTIONS /v1/models HTTP/1.1\r\nHost: localhost\r\nOrigin: https://chat.example\r\nAccess-Control-Request-Method: POST\r\nAccess-Control-Request-Headers: x-stainless-os, x-api-key\r\nConnection: close\r\n\r\n'
    answered 204 'Access-Control-Allow-Headers: x-stainless-os, x-api-key'
}

test_keys() {
    printf '# people\nsesame-1\n\n  sesame-2  \n' >"$tmp/keys"
    serve --set server.api_key_file="$tmp/keys"
    ready # needs none
    get /v1/models
    answered 401 'WWW-Authenticate: Bearer'
    answered 401 'a key is needed'
    get /v1/models 'X-Api-Key: sesame'
    answered 401 'the key is wrong'
    local key
    for key in 'Bearer sesame' 'Bearer sesame-11' 'Bearer ' 'Basic sesame-1' sesame-1 'Bearer # people'; do
        get /v1/models "Authorization: $key"
        answered 401
    done
    for key in 'Bearer sesame-1' 'bearer sesame-2'; do
        get /v1/models "Authorization: $key"
        answered 200
    done
    for key in 'X-Api-Key: sesame-1' 'api-key: sesame-2'; do
        get /v1/models "$key"
        answered 200
    done
    ! grep -q sesame "$tmp/serve.err" || fail "a key is in the log"
}

# begins FD: that connection has had an answer, and the beginning of the next request is in the server's hands.
begins() {
    local line
    printf 'GET /health HTTP/1.1\r\nHost: localhost\r\n\r\nGET /health HT' >&"$1"
    IFS= read -r -t 60 line <&"$1"
    [ "$line" = $'HTTP/1.1 200 OK\r' ] || fail "got '$line'"
}

# More connections than there may be are told so; those that only wait make room for others.
test_many() {
    serve --set server.max_connections=2
    ready
    exec 4<>"/dev/tcp/127.0.0.1/$port"
    begins 4
    exec 5<>"/dev/tcp/127.0.0.1/$port"
    begins 5
    get /health
    answered 503 'all connections of the server are in use'
    exec 4>&- 5>&-
    ready
    get /metrics
    answered 200 '^stator_http_refused_total [1-9]'
    exec 4<>"/dev/tcp/127.0.0.1/$port" 5<>"/dev/tcp/127.0.0.1/$port"
    get /health
    answered 200
}

# Slow clients are cut (here after a second), and hold up nobody.
test_slow() {
    serve --set server.max_connections=3 --set server.request_timeout=1
    ready
    exec 4<>"/dev/tcp/127.0.0.1/$port"
    printf 'GET /health HT' >&4
    exec 5<>"/dev/tcp/127.0.0.1/$port"
    printf 'POST /health HTTP/1.1\r\nHost: localhost\r\n' >&5
    get /health
    answered 200
    timeout 60 cat <&4 >"$tmp/slow"
    grep -q '^HTTP/1.1 408' "$tmp/slow" || fail "a slow head: $(cat "$tmp/slow")"
    timeout 60 cat <&5 >"$tmp/slow"
    grep -q '^HTTP/1.1 408' "$tmp/slow" || fail "a slow head: $(cat "$tmp/slow")"
    exec 4>&- 5>&-
    ready
    get /metrics
    answered 200 '^stator_http_clients_cut_total 2'
}

# A client that ends its own side right behind the request gets its answer.
test_half_close() {
    command -v python3 >/dev/null || skip "no python3"
    serve --set memory.context=256
    ready
    local body='{"prompt": "Once", "max_tokens": 8, "temperature": 0}'
    printf 'POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n%s' ${#body} "$body" >"$tmp/request"
    python3 - "$port" "$tmp/request" >"$tmp/answer" <<'END' || fail "no answer"
import socket, sys
s = socket.create_connection(("127.0.0.1", int(sys.argv[1])))
s.sendall(open(sys.argv[2], "rb").read())
s.shutdown(socket.SHUT_WR)
while data := s.recv(65536):
    sys.stdout.buffer.write(data)
END
    grep -q '^HTTP/1.1 200' "$tmp/answer" || fail "it got $(head -c 300 "$tmp/answer")"
    grep -q '"finish_reason":"' "$tmp/answer" || fail "the answer is $(tail -c 300 "$tmp/answer")"
}

# A client that closes its side after the request gets its answer, and that of a second request behind it.
test_half_close_behind_two() {
    command -v python3 >/dev/null || skip 'no python3'
    serve
    ready
    cat >"$tmp/half.py" <<'END'
import json, socket, sys
def ask(*requests):
    s = socket.create_connection(("127.0.0.1", int(sys.argv[1])))
    for path, body in requests:
        s.sendall(f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\n\r\n{body}".encode())
    s.shutdown(socket.SHUT_WR)
    got = b""
    while True:
        piece = s.recv(65536)
        if not piece:
            return got
        got += piece
for stream in (False, True):
    body = json.dumps({"prompt": "a", "max_tokens": 64, "ignore_eos": True, "temperature": 0, "stream": stream})
    got = ask(("/v1/completions", body), ("/tokenize", '{"content": "a"}'))
    if got.count(b"HTTP/1.1 200 OK") != 2 or b'"length"' not in got or b'"tokens"' not in got:
        sys.exit(f"stream {stream}: {got!r}")
END
    python3 "$tmp/half.py" $port 2>"$tmp/err" || fail "$(tail -c 600 "$tmp/err")"
}

# Bodies that are announced and do not come take nothing; bodies that come leave room for small requests.
test_announced() {
    command -v python3 >/dev/null || skip 'no python3'
    serve --set server.max_body=1MiB --set server.request_timeout=600
    ready
    cat >"$tmp/announced.py" <<'END'
import http.client, json, socket, sys
port = int(sys.argv[1])
head = b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1048000\r\n\r\n"
def small():
    c = http.client.HTTPConnection("127.0.0.1", port)
    c.request("POST", "/v1/completions", json.dumps({"prompt": "a", "max_tokens": 2}))
    return c.getresponse().status
for sent in (b"", b" " * 1047000):
    others = []
    for _ in range(18):
        s = socket.create_connection(("127.0.0.1", port))
        try:
            s.sendall(head + sent)
        except OSError:
            pass # refused meanwhile
        others.append(s)
    for _ in range(3):
        if (status := small()) != 200:
            sys.exit(f"{len(sent)} bytes of each have come: a small request gets {status}")
    s = socket.create_connection(("127.0.0.1", port))
    s.sendall(head.replace(b"1048000", b"1048577"))
    if not s.recv(64).startswith(b"HTTP/1.1 413"):
        sys.exit("a body beyond server.max_body is not 413")
END
    python3 "$tmp/announced.py" $port 2>"$tmp/err" || fail "$(tail -c 600 "$tmp/err")"
}

# A pool that is nearly nothing beside its connections: 503, and the server goes on.
test_no_memory() {
    serve --set server.max_connections=2 --set server.max_body=16MiB --set server.memory=7MiB
    ready
    printf 'GET /health HTTP/1.1\r\nHost: localhost\r\nContent-Length: 16000000\r\n\r\n' >"$tmp/request"
    raw_file "$tmp/request"
    answered 413 'all of the server.s memory has 7340032'
    # What is announced takes no memory: 1 of 2 connections waits for its body, and the other is served.
    exec 4<>"/dev/tcp/127.0.0.1/$port"
    printf 'POST /tokenize HTTP/1.1\r\nHost: localhost\r\nContent-Length: 7000000\r\n\r\n' >&4
    get /health
    answered 200
    exec 4>&-
    { printf 'GET /health HTTP/1.1\r\nHost: localhost\r\nContent-Length: 6000000\r\n\r\n'; head -c 6000000 /dev/zero; } >"$tmp/request"
    raw_file "$tmp/request"
    answered 503 'no memory for this request'
    grep -q '^Retry-After: 1' "$tmp/answer" || fail "no Retry-After"
    get /health
    answered 200
    get /metrics
    answered 200 '^stator_http_no_memory_total 1'
}

run_tests
