#!/usr/bin/python3
"""A host of pictures for tests/e2e/pictures.sh: serves one file and what a hostile host may answer. Writes its port to
PORT_FILE.

    tests/clients/image_host.py FILE PORT_FILE"""
import os, socket, sys, threading, time

data = open(sys.argv[1], 'rb').read()
HEAD = b'HTTP/1.0 200 OK\r\nContent-Type: image/png\r\n'


def answer(path):
    if path.startswith(b'/good'):
        return HEAD + b'Content-Length: %d\r\n\r\n' % len(data) + data
    return {b'/unsized': HEAD + b'\r\n' + data,
            b'/moved': b'HTTP/1.0 302 Found\r\nLocation: http://169.254.169.254/\r\n\r\n',
            b'/chunked': b'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nabcde\r\n0\r\n\r\n',
            b'/gzip': HEAD + b'Content-Encoding: gzip\r\n\r\nxxxx',
            b'/huge': HEAD + b'Content-Length: 99999999999\r\n\r\n',
            b'/endless': HEAD + b'\r\n' + bytes(64 << 20),
            b'/cut': HEAD + b'Content-Length: %d\r\n\r\n' % (2 * len(data)) + data,
            b'/head': b'HTTP/1.0 200 OK\r\n' + b'X: y\r\n' * 4000,
            b'/text': HEAD + b'\r\n<html>',
            b'/nothing': b'',
            b'/ssh': b'SSH-2.0-OpenSSH\r\n'}.get(path, b'HTTP/1.0 404 Not Found\r\n\r\n')


def serve(c):
    request = b''
    while b'\r\n\r\n' not in request:
        more = c.recv(4096)
        if not more:
            return c.close()
        request += more
    path = request.split(b' ')[1]
    if path == b'/slow':
        time.sleep(60)
    try:
        c.sendall(answer(path))
    except OSError:
        pass
    c.close()


listener = socket.socket()
listener.bind(('127.0.0.1', 0))
listener.listen(16)
with open(sys.argv[2] + '.new', 'w') as f:
    f.write('%d\n' % listener.getsockname()[1])
os.rename(sys.argv[2] + '.new', sys.argv[2])
while True:
    threading.Thread(target=serve, args=(listener.accept()[0],), daemon=True).start()
