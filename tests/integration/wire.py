# SPDX-License-Identifier: Apache-2.0
"""Links by hand, for tests: whole frames that a stranger may send, and what it hears.

Messages are written as text of schemas/wire.capnp and become bytes by the capnp tool. Frames:
link/frame.h; the proof of a job's secret: link/handshake.h.
"""
import ctypes
import functools
import hashlib
import hmac
import pathlib
import re
import socket
import struct
import subprocess

from cluster import DEADLINE_S

SCHEMA = pathlib.Path(__file__).resolve().parents[2] / "schemas" / "wire.capnp"
VERSION = 1
HEAD = struct.Struct("<4sHHQQQQQIIII")
ROLES = {"coordinator": 0, "agent": 1, "worker": 2, "deviceServer": 3, "parameterServer": 4}


class _Hash128(ctypes.Structure):
    _fields_ = [("low", ctypes.c_uint64), ("high", ctypes.c_uint64)]


@functools.cache
def _xxhash():
    library = ctypes.CDLL("libxxhash.so.0")
    library.XXH3_128bits_withSeed.restype = _Hash128
    library.XXH3_128bits_withSeed.argtypes = [ctypes.c_char_p, ctypes.c_size_t, ctypes.c_uint64]
    return library


@functools.cache
def _crc_table():
    table = []
    for value in range(256):
        for _ in range(8):
            value = (value >> 1) ^ 0x82F63B78 if value & 1 else value >> 1
        table.append(value)
    return table


def crc32c(data):
    table, crc = _crc_table(), 0xFFFFFFFF
    for byte in data:
        crc = table[(crc ^ byte) & 255] ^ (crc >> 8)
    return crc ^ 0xFFFFFFFF


@functools.cache
def _kinds():
    """{name of a message: its number}."""
    union = SCHEMA.read_text().split("union {")[1].split("}")[0]
    return {name: int(number) for name, number in re.findall(r"(\w+) @(\d+)", union)}


def _convert(form, data):
    return subprocess.run(["capnp", "convert", form, str(SCHEMA), "Envelope"], input=data,
                          capture_output=True, check=True, timeout=DEADLINE_S).stdout


def _actor(actor):
    role, index = actor
    return f"(role={role},index={index})"


def seal(kind, header, payload=b"", job="", generation=0, view=0, sequence=0):
    """A frame around an encoded envelope."""
    named = job.encode()
    head = HEAD.pack(b"TRPE", VERSION, kind,
                     _xxhash().XXH3_128bits_withSeed(named, len(named), 0).low, generation, view,
                     sequence, 0, len(header), len(payload), crc32c(payload) if payload else 0, 0)
    head = head[:-4]
    return head + struct.pack("<I", crc32c(head + header)) + header + payload


def frame(name, fields, job="", generation=0, view=0, sequence=0, sender=("coordinator", 0),
          to=("coordinator", 0), payload=b""):
    """The frame of a message; `fields` as the capnp tool reads them."""
    text = (f'(job="{job}",generation={generation},view={view},from={_actor(sender)},'
            f'to={_actor(to)},message=({name}=({fields})))')
    return seal(_kinds()[name], _convert("text:binary", text.encode()), payload, job, generation,
                view, sequence)


def hello(actor, job="", generation=0, name="stranger", token=1, lane=0, lanes=1, resume=False,
          nonce=bytes(16)):
    channel = "control" if lane == 0 else "data"
    return frame("hello",
                 f'protocol={VERSION},job="{job}",generation={generation},actor={_actor(actor)},'
                 f'name="{name}",channel={channel},token={token},lane={lane},lanes={lanes},'
                 f'resume={str(resume).lower()},nonce=0x"{nonce.hex()}"',
                 job, generation, sender=actor)


def proof(secret, challenge, listener, actor, job, generation, name="stranger", token=1,
          nonce=bytes(16)):
    """The dialing end's proof of `secret`, behind a hello() with the same words."""
    def number(value):
        return struct.pack("<Q", value)

    def text(value):
        return number(len(value)) + value.encode()

    def who(named):
        return number(ROLES[named[0]]) + number(named[1])

    said = (text("troupe link proof 1") + number(0) + nonce + challenge + who(listener) +
            number(VERSION) + text(job) + number(generation) + who(actor) + text(name) + number(0) +
            number(token) + number(0) + number(1) + number(0))
    return frame("proof", f'proof=0x"{hmac.new(secret, said, hashlib.sha256).hexdigest()}"')


def receive(peer, count):
    data = b""
    while len(data) < count:
        more = peer.recv(count - len(data))
        if not more:
            raise EOFError(f"closed after {len(data)} of {count} bytes")
        data += more
    return data


def hear(peer):
    """(name of the message, the envelope as text) of the next frame; EOFError when it is closed."""
    head = HEAD.unpack(receive(peer, HEAD.size))
    header, _ = receive(peer, head[8]), receive(peer, head[9])
    names = {number: name for name, number in _kinds().items()}
    if not header:
        return "acknowledgement", ""
    return names[head[2]], _convert("binary:text", header).decode()


def frames_in(data):
    """Names of the messages in bytes that came, and the rest that is no whole frame."""
    names = {number: name for name, number in _kinds().items()}
    found = []
    while len(data) >= HEAD.size:
        head = HEAD.unpack(data[:HEAD.size])
        size = HEAD.size + head[8] + head[9]
        if len(data) < size:
            break
        found.append(names.get(head[2], "acknowledgement"))
        data = data[size:]
    return found, data


def challenge_in(envelope):
    """The nonce of a Challenge's text."""
    shown = re.search(r'nonce = (0x)?"((?:[^"\\]|\\.)*)"', envelope)
    assert shown, envelope
    if shown[1]:
        return bytes.fromhex(shown[2].replace(" ", ""))
    return shown[2].encode("latin1").decode("unicode_escape").encode("latin1")


def connect(port, host="127.0.0.1"):
    """From `host`, an address of the loopback network."""
    return socket.create_connection(("127.0.0.1", port), timeout=DEADLINE_S,
                                    source_address=(host, 0))
