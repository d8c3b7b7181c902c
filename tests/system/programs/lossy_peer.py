# A peer that answers each line with a line, on loopback. Told "drop" on its standard input, its sockets let no packet in
# any more, as if it were lost (a socket filter that takes nothing); told "pass", they do again.
# SPDX-License-Identifier: Apache-2.0
import ctypes, selectors, socket, struct, sys

ATTACH_FILTER, DETACH_FILTER = 26, 27
nothing = ctypes.create_string_buffer(struct.pack('HBBI', 0x06, 0, 0, 0))  # BPF_RET | BPF_K: 0 bytes
program = struct.pack('HL', 1, ctypes.addressof(nothing))
sockets = selectors.DefaultSelector()


def sockets_of_peer():
    return [key.fileobj for key in sockets.get_map().values() if key.fileobj is not sys.stdin]


def command(line):
    for s in sockets_of_peer():
        if line == 'drop':
            s.setsockopt(socket.SOL_SOCKET, ATTACH_FILTER, program)
        else:
            s.setsockopt(socket.SOL_SOCKET, DETACH_FILTER, 0)
    print(f'done {line}', flush=True)


listener = socket.create_server(('127.0.0.1', 0))
sockets.register(listener, selectors.EVENT_READ)
sockets.register(sys.stdin, selectors.EVENT_READ)
print(f'listening {listener.getsockname()[1]}', flush=True)
while True:
    for key, _ in sockets.select():
        if key.fileobj is listener:
            sockets.register(listener.accept()[0], selectors.EVENT_READ)
        elif key.fileobj is sys.stdin:
            line = sys.stdin.readline()
            if not line:
                sys.exit()
            command(line.strip())
        else:
            data = key.fileobj.recv(4096)
            if data:
                key.fileobj.sendall(b'answer\n' * data.count(b'\n'))
            else:
                sockets.unregister(key.fileobj)
                key.fileobj.close()
