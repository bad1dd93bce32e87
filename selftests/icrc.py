#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""icrc.py [-l|-z] CAPTURE: check the ICRC of every RoCE v2 packet in a pcap file.

Computed from InfiniBand's annex A17 with zlib's CRC; and for the first hundred
over IPv4 once more by scapy's contrib.roce, where it is installed. Prints the
number of packets of each opcode and of those that are wrong; status 1 if there
are any, or none at all. With -z scapy, which takes long to start, is left out;
with -l only the lengths that the frames had on the device are printed.
"""
import collections
import struct
import sys
import zlib


def by_scapy(frame):
    """(stored, computed anew from the fields, with the ICRC forgotten)"""
    from scapy.layers.l2 import Ether
    from scapy.contrib.roce import BTH
    p = Ether(frame)
    stored = p[BTH].icrc
    p[BTH].icrc = None
    return stored, struct.unpack('!I', bytes(p)[-4:])[0]


def frames(path):
    with open(path, 'rb') as f:
        data = f.read()
    order = '<' if struct.unpack('<I', data[:4])[0] in (0xa1b2c3d4, 0xa1b23c4d) else '>'
    at = 24
    while at + 16 <= len(data):
        _, _, cap, length = struct.unpack(order + 'IIII', data[at:at + 16])
        yield length, data[at + 16:at + 16 + cap]
        at += 16 + cap


def icrc(ip, udp_at):
    """The bytes from the IP header to the end of the packet, less its ICRC."""
    b = bytearray(ip)
    if b[0] >> 4 == 4:
        b[1] = 0xff                     # TOS
        b[8] = 0xff                     # TTL
        b[10:12] = b'\xff\xff'          # checksum
    else:
        b[0] |= 0x0f                    # traffic class, flow label
        b[1:4] = b'\xff\xff\xff'
        b[7] = 0xff                     # hop limit
    b[udp_at + 6:udp_at + 8] = b'\xff\xff'
    b[udp_at + 8 + 4] = 0xff            # BTH's resv8a
    return struct.pack('<I', zlib.crc32(bytes(8 * b'\xff') + bytes(b[:-4])))


def main():
    if sys.argv[1] == '-l':
        for length, _ in frames(sys.argv[2]):
            print(length)
        return 0
    count, wrong, second = collections.Counter(), 0, 0
    scapy = sys.argv[1] != '-z'
    for n, (length, frame) in enumerate(frames(sys.argv[-1]), 1):
        if len(frame) < length:
            sys.exit('frame %d of %d bytes was cut to %d' % (n, length, len(frame)))
        proto, ip = struct.unpack('!H', frame[12:14])[0], frame[14:]
        if proto == 0x0800 and ip[9] == 17:
            udp_at = (ip[0] & 15) * 4
            ip = ip[:struct.unpack('!H', ip[2:4])[0]]
        elif proto == 0x86dd and ip[6] == 17:
            udp_at = 40
            ip = ip[:40 + struct.unpack('!H', ip[4:6])[0]]
        else:
            continue
        if struct.unpack('!H', ip[udp_at + 2:udp_at + 4])[0] != 4791:
            continue
        count[ip[udp_at + 8]] += 1
        bad = []
        if icrc(ip, udp_at) != ip[-4:]:
            bad.append('zlib')
        if struct.unpack('!H', ip[udp_at + 4:udp_at + 6])[0] != len(ip) - udp_at:
            bad.append('UDP length')
        if scapy and proto == 0x0800 and second < 100:
            try:
                stored, computed = by_scapy(frame[:14] + ip)
                second += 1
                if stored != computed:
                    bad.append('scapy')
            except ImportError:
                scapy = False
        if bad:
            wrong += 1
            if wrong <= 5:
                print('packet %d, %d bytes, opcode 0x%02x: %s' % (n, len(ip), ip[udp_at + 8], ', '.join(bad)))
    total = sum(count.values())
    print('%d packets, %d wrong, %d of them by scapy, too; opcodes %s' %
          (total, wrong, second, ' '.join('0x%02x:%d' % c for c in sorted(count.items()))))
    return 1 if wrong or not total else 0


if __name__ == '__main__':
    sys.exit(main())
