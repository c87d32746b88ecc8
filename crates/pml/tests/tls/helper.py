"""A proxy for HTTP, or the end of TLS in front of a server. Prints its port, then one line per connection.

    helper.py proxy                     every host is this machine
    helper.py socks                     the same, as SOCKS 5
    helper.py tls CERTIFICATE KEY PORT
"""
import socket
import ssl
import sys
import threading


def pump(source, sink):
    try:
        while part := source.recv(65536):
            sink.sendall(part)
    except OSError:
        pass
    for end in (source, sink):
        try:
            end.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass


def join(one, other):
    threading.Thread(target=pump, args=(one, other), daemon=True).start()
    pump(other, one)


def proxy(client):
    head = b""
    while b"\r\n\r\n" not in head:
        part = client.recv(65536)
        if not part:
            return
        head += part
    method, target = head.split(b" ", 2)[:2]
    print(method.decode(), target.decode(), flush=True)
    if method == b"CONNECT":
        port = int(target.rsplit(b":", 1)[1])
        client.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
        join(client, socket.create_connection(("127.0.0.1", port)))
    else:
        host = target.split(b"/", 3)[2]
        server = socket.create_connection(("127.0.0.1", int(host.rsplit(b":", 1)[1])))
        server.sendall(head)
        join(client, server)


def exactly(client, size):
    data = b""
    while len(data) < size:
        part = client.recv(size - len(data))
        if not part:
            raise OSError("closed")
        data += part
    return data


def socks(client):
    try:
        exactly(client, exactly(client, 2)[1])
        client.sendall(b"\x05\x00")
        kind = exactly(client, 4)[3]
        size = {1: 4, 4: 16}.get(kind) or exactly(client, 1)[0]
        host, port = exactly(client, size), int.from_bytes(exactly(client, 2), "big")
        print("SOCKS", host.decode() if kind == 3 else host.hex(), port, flush=True)
        client.sendall(b"\x05\x00\x00\x01\x00\x00\x00\x00\x00\x00")
        join(client, socket.create_connection(("127.0.0.1", port)))
    except OSError:
        client.close()


def tls(context, port, client):
    try:
        client = context.wrap_socket(client, server_side=True)
    except (OSError, ssl.SSLError):
        return
    print("TLS", flush=True)
    join(client, socket.create_connection(("127.0.0.1", port)))


def main():
    listener = socket.create_server(("127.0.0.1", 0))
    if sys.argv[1] == "tls":
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(sys.argv[2], sys.argv[3])
        serve = lambda client: tls(context, int(sys.argv[4]), client)
    else:
        serve = {"proxy": proxy, "socks": socks}[sys.argv[1]]
    print(listener.getsockname()[1], flush=True)
    while True:
        client, _ = listener.accept()
        threading.Thread(target=serve, args=(client,), daemon=True).start()


main()
