#!/usr/bin/env python3
"""Writes vectors.json. Implements FORMAT.md with nothing but Python's standard library and independently of the
Go code, which is tested against the result:  python3 vectors.py > vectors.json"""

import base64
import hashlib
import json
import struct
import time


def rotl(x, n):
    return ((x << n) | (x >> (32 - n))) & 0xFFFFFFFF


def rounds(state):
    s = list(state)

    def quarter(a, b, c, d):
        s[a] = (s[a] + s[b]) & 0xFFFFFFFF; s[d] = rotl(s[d] ^ s[a], 16)
        s[c] = (s[c] + s[d]) & 0xFFFFFFFF; s[b] = rotl(s[b] ^ s[c], 12)
        s[a] = (s[a] + s[b]) & 0xFFFFFFFF; s[d] = rotl(s[d] ^ s[a], 8)
        s[c] = (s[c] + s[d]) & 0xFFFFFFFF; s[b] = rotl(s[b] ^ s[c], 7)

    for _ in range(10):
        for i in range(4):
            quarter(i, i + 4, i + 8, i + 12)
        for i in range(4):
            quarter(i, 4 + (i + 1) % 4, 8 + (i + 2) % 4, 12 + (i + 3) % 4)
    return s


SIGMA = struct.unpack("<4I", b"expand 32-byte k")


def chacha20(key, nonce, counter, text):
    out = bytearray()
    for i in range(0, len(text), 64):
        state = SIGMA + struct.unpack("<8I", key) + (counter + i // 64,) + struct.unpack("<3I", nonce)
        stream = struct.pack("<16I", *((a + b) & 0xFFFFFFFF for a, b in zip(rounds(state), state)))
        out += bytes(a ^ b for a, b in zip(text[i:i + 64], stream))
    return bytes(out)


def hchacha20(key, nonce):
    s = rounds(SIGMA + struct.unpack("<8I", key) + struct.unpack("<4I", nonce))
    return struct.pack("<8I", *s[:4], *s[12:])


def poly1305(key, text):
    r = int.from_bytes(key[:16], "little") & 0x0FFFFFFC0FFFFFFC0FFFFFFC0FFFFFFF
    acc = 0
    for i in range(0, len(text), 16):
        acc = (acc + int.from_bytes(text[i:i + 16] + b"\x01", "little")) * r % ((1 << 130) - 5)
    return ((acc + int.from_bytes(key[16:], "little")) & ((1 << 128) - 1)).to_bytes(16, "little")


def xchacha20poly1305(key, nonce, plaintext, associated):
    subkey, n = hchacha20(key, nonce[:16]), bytes(4) + nonce[16:]
    sealed = chacha20(subkey, n, 1, plaintext)
    pad = lambda b: b + bytes(-len(b) % 16)
    mac = pad(associated) + pad(sealed) + struct.pack("<QQ", len(associated), len(sealed))
    return sealed + poly1305(chacha20(subkey, n, 0, bytes(32)), mac)


# draft-irtf-cfrg-xchacha-03, appendix A.3.1
assert xchacha20poly1305(
    bytes(range(0x80, 0xA0)), bytes(range(0x40, 0x58)),
    b"Ladies and Gentlemen of the class of '99: If I could offer you only one tip for the future, sunscreen would be it.",
    bytes.fromhex("50515253c0c1c2c3c4c5c6c7"))[-16:].hex() == "c0875924c1c7987947deafd8780acf49"


def b64(b):
    return base64.urlsafe_b64encode(b).rstrip(b"=").decode()


def uvarint(n):
    out = bytearray()
    while n >= 0x80:
        out.append(n & 0x7F | 0x80)
        n >>= 7
    out.append(n)
    return bytes(out)


class Key:
    def __init__(self, secret, created):
        self.secret, self.created = secret, created
        self.id = base64.b32encode(hashlib.sha256(b"askback key id\n" + secret).digest()).decode().lower()[:8]
        self.text = "askback-key-1_" + time.strftime("%Y%m%dT%H%M%SZ", time.gmtime(created)) + "_" + b64(secret)
        self.associated = f"askback requestState\nab1.{self.id}.".encode()

    def seal(self, nonce, plaintext):
        return f"ab1.{self.id}." + b64(nonce + xchacha20poly1305(self.secret, nonce, plaintext, self.associated))


FIELDS = ["audience", "principal", "method", "target"]


def plaintext(binding, payload, issued, expires):
    text = struct.pack(">QQ", issued, expires) + bytes.fromhex(binding["arguments"])
    for f in FIELDS:
        b = binding[f].encode()
        text += uvarint(len(b)) + b
    return text + payload


keys = {
    "first": Key(bytes(range(32)), 1795172400),
    "second": Key(hashlib.sha256(b"second").digest(), 1795258800),
}
issued, expires = 1795172400000, 1795173000000
binding = {
    "audience": "tracker", "principal": "https://login.example|alice", "method": "tools/call",
    "target": "update_work_item", "arguments": hashlib.sha256(b'{"workItemId":4522}').hexdigest(),
}
nothing = {"audience": "", "principal": "", "method": "", "target": "", "arguments": "00" * 32}
long = {
    "audience": "Größe", "principal": "p" * 127, "method": "resources/read",
    "target": "file:///" + "x" * 300, "arguments": "ff" * 32,
}

tokens = []


def vector(name, key, nonce, binding, payload, issued, expires, valid_at):
    text = plaintext(binding, payload, issued, expires)
    tokens.append({
        "name": name, "key": key, "nonce": nonce.hex(), "binding": binding, "payload": payload.hex(),
        "issued": issued, "expires": expires, "associated": keys[key].associated.hex(), "plaintext": text.hex(),
        "token": keys[key].seal(nonce, text), "valid_at": valid_at,
    })


nonce = bytes(range(100, 124))
vector("ordinary", "first", nonce, binding, b'{"round":1}', issued, expires,
       [issued - 60000, issued, expires - 1])
vector("everything empty", "second", bytes(24), nothing, b"", 0, 1, [0])
vector("lengths of two bytes, text beyond ASCII", "second", b"\xff" * 24, long, bytes(range(256)) * 8,
       issued, 253402300799999, [issued, 253402300799998])

good = tokens[0]["token"]
head, body = good[:13], good[13:]
refused = []


def refuse(name, token, reason, keys=("first", "second"), now=issued, repeat=None, **changed):
    entry = {"name": name, "token": token, "keys": list(keys), "binding": {**binding, **changed}, "now": now, "reason": reason}
    if repeat:
        entry["repeat"] = repeat
    refused.append(entry)


def decode(body):
    return base64.urlsafe_b64decode(body + "=" * (-len(body) % 4))


def flip(i):
    raw = bytearray(decode(body))
    raw[i] ^= 1
    return head + b64(raw)


def sealed(text):
    return keys["first"].seal(nonce, text)


text = plaintext(binding, b"", issued, expires)
alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
assert len(body) % 4, "the last character must have unused bits"
trailing = good[:-1] + alphabet[alphabet.index(good[-1]) + 1]
assert "_" in body or "-" in body
assert len(body) % 4 == 2 or b64(decode(body[:-1])) != body[:-1]

refuse("too large", "A", "too_large", repeat=(1 << 20) + 1)
refuse("largest, but no token", "A", "malformed", repeat=1 << 20)
refuse("empty", "", "malformed")
refuse("another program's state", "eyJhbGciOiJIUzI1NiJ9.e30.c2ln", "malformed")
refuse("version of the future", "ab2" + good[3:], "version")
refuse("version of three digits", "ab123" + good[3:], "version")
refuse("version of four digits", "ab1234" + good[3:], "malformed")
refuse("version in capitals", "AB1" + good[3:], "malformed")
refuse("nothing after the version", "ab1.", "malformed")
refuse("nothing after the key id", head[:-1], "malformed")
refuse("empty body", head, "malformed")
refuse("key id in capitals", head.replace(keys["first"].id, keys["first"].id.upper()) + body, "malformed")
refuse("key id too long", "ab1.a" + good[4:], "malformed")
refuse("key not in the ring", good, "unknown_key", keys=["second"])
refuse("key not in the ring, body not looked at", head + "!", "unknown_key", keys=["second"])
refuse("padding", good + "=" * (-len(body) % 4), "malformed")
refuse("standard alphabet", good.replace("_", "/").replace("-", "+"), "malformed")
refuse("line feed at the end", good + "\n", "malformed")
refuse("line feed inside", good[:40] + "\n" + good[40:], "malformed")
refuse("carriage return inside", good[:40] + "\r" + good[40:], "malformed")
refuse("space at the beginning", " " + good, "malformed")
refuse("unused bits not zero", trailing, "malformed")
refuse("shorter than any token", head + b64(bytes(24 + 52 + 15)), "malformed")
refuse("as short as a token can be", head + b64(bytes(24 + 52 + 16)), "authentication")
refuse("last character missing", good[:-1], "malformed")
refuse("last bytes missing", good[:-(len(body) % 4)], "authentication")
refuse("bit of the nonce flipped", flip(0), "authentication")
refuse("bit of the ciphertext flipped", flip(24), "authentication")
refuse("bit of the tag flipped", flip(-1), "authentication")
refuse("relabelled with the id of another key", good.replace(keys["first"].id, keys["second"].id), "authentication")
refuse("sealed without additional data", head + b64(nonce + xchacha20poly1305(keys["first"].secret, nonce, text, b"")), "authentication")
refuse("authentic, expires when issued", sealed(plaintext(binding, b"", issued, issued)), "malformed")
refuse("authentic, expires after the year 9999", sealed(plaintext(binding, b"", issued, 253402300800000)), "malformed")
refuse("authentic, length not in its shortest form", sealed(text[:48] + b"\x87\x00" + text[49:]), "malformed")
refuse("authentic, length beyond the end", sealed(text[:48] + b"\x7f" + text[49:]), "malformed")
refuse("authentic, length beyond 64 bits", sealed(text[:48] + b"\xff" * 10 + text[49:]), "malformed")
refuse("authentic, ends inside a length", sealed(text[:48] + b"\x00\x00\x00\x80"), "malformed")
refuse("other audience", good, "audience", audience="billing")
refuse("other principal", good, "principal", principal="https://login.example|mallory")
refuse("principal of the same name at another issuer", good, "principal", principal="https://evil.example|alice")
refuse("no principal", good, "principal", principal="")
refuse("other method", good, "method", method="prompts/get")
refuse("other target", good, "target", target="delete_work_item")
refuse("other arguments", good, "arguments", arguments=hashlib.sha256(b'{"workItemId":4523}').hexdigest())
refuse("boundary between fields moved", good, "method", method="tools/callupdate_work_item", target="")
refuse("issued one millisecond too far ahead", good, "future", now=issued - 60001)
refuse("at its expiry", good, "expired", now=expires)
refuse("everything differs: audience first", good, "audience", now=expires, **nothing)
refuse("principal before the rest", good, "principal", now=expires, **{**nothing, "audience": "tracker"})
refuse("binding before times", good, "arguments", now=expires, arguments="00" * 32)

print(json.dumps({
    "keys": {n: {"text": k.text, "secret": k.secret.hex(), "created": k.created, "id": k.id} for n, k in keys.items()},
    "tokens": tokens,
    "refused": refused,
}, indent="\t", ensure_ascii=False))
