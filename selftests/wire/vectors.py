#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#
# Writes vectors.txt: packets from their IP header on, and the ICRC that
# others than sroce give them. Sources, in the file's second column:
#
# scapy		scapy's contrib.roce computed it, when this was run.
# reference	reference_icrc() below, written from the specification's text for
#		IPv6, which scapy 2.5.0 cannot do. It is checked here, each time:
#		against scapy on every IPv4 packet, against the captures and the
#		published values, and against scapy's own IPv6 where that is there
#		(2.6 and later).
# scapy-test	a value that scapy's regression test (test/contrib/roce.uts)
#		publishes; the packet is built here from the fields given there.
# capture	a packet of other people's hardware or driver as they published
#		it, with the ICRC that it carried. Which one is in the comment
#		above it. The "roce1" ones are RoCE v1: no UDP, a GRH in the place of
#		IPv6. A GRH is masked as IPv6 is, so they are hardware's word on that.

import logging
import struct
import sys

logging.getLogger('scapy').setLevel(logging.CRITICAL)

from scapy.contrib.roce import BTH, cnp
from scapy.layers.inet import IP, UDP
from scapy.layers.inet6 import IPv6
from scapy.packet import Raw

PORT = 4791
out = []


def crc32(data):
	'''Ethernet's CRC a bit at a time: scapy and the test have their own.'''
	crc = 0xffffffff
	for byte in data:
		crc ^= byte
		for _ in range(8):
			crc = crc >> 1 ^ (0xedb88320 if crc & 1 else 0)
	return crc ^ 0xffffffff


def reference_icrc(packet, udp=True):
	'''IBTA Annex A17.3.3: the fields that may change on the way count as ones,
	behind 64 ones in the place of the LRH. Sent low byte first.'''
	p = bytearray(packet)
	if p[0] >> 4 == 4:
		masked = [(1, 0xff),			# DSCP, ECN
			  (8, 0xff),			# TTL
			  (10, 0xff), (11, 0xff)]	# header checksum
		at = 20
	else:
		masked = [(0, 0x0f), (1, 0xff), (2, 0xff), (3, 0xff),	# class, flow label
			  (7, 0xff)]					# hop limit
		at = 40
	if udp:
		masked += [(at + 6, 0xff), (at + 7, 0xff)]		# checksum
		at += 8
	masked += [(at + 4, 0xff)]					# BTH resv8a
	for byte, bits in masked:
		p[byte] |= bits
	return struct.pack('<I', crc32(b'\xff' * 8 + bytes(p)))


def add(name, source, packet, icrc):
	packet = bytes(packet)
	check(packet[-4:] == icrc, name, 'the packet carries another ICRC')
	out.append(f'{name}\t{source}\t{icrc.hex()}\t{packet.hex()}')


def note(text):
	out.append(f'# {text}')


def check(good, name, what):
	if not good:
		sys.exit(f'vectors.py: {name}: {what}')


def udp4(**ip):
	udp = {k[4:]: ip.pop(k) for k in list(ip) if k.startswith('udp_')}
	udp.setdefault('sport', 0xc123)
	ip.setdefault('src', '192.0.2.1')
	ip.setdefault('dst', '198.51.100.2')
	ip.setdefault('id', 0x1234)
	ip.setdefault('flags', 'DF')
	return IP(**ip) / UDP(dport=PORT, **udp)


def udp6(**ip):
	udp = {k[4:]: ip.pop(k) for k in list(ip) if k.startswith('udp_')}
	udp.setdefault('sport', 0xc123)
	ip.setdefault('src', '2001:db8::1')
	ip.setdefault('dst', '2001:db8:77::2')
	return IPv6(**ip) / UDP(dport=PORT, **udp)


def add4(name, ip, bth, rest):
	packet = bytes(ip / bth / Raw(rest))
	icrc = packet[-4:]
	check(reference_icrc(packet[:-4]) == icrc, name, 'scapy and the reference differ')
	add(name, 'scapy', packet, icrc)


def scapy_has_ipv6():
	packet = bytes(udp6() / BTH(opcode=0x04) / Raw(bytes(8)))
	return packet[-4:] != bytes(4)


def add6(name, ip, bth, rest):
	bth.icrc = 0
	packet = bytes(ip / bth / Raw(rest))
	icrc = reference_icrc(packet[:-4])
	bth.icrc = int.from_bytes(icrc, 'big')
	packet = bytes(ip / bth / Raw(rest))		# the UDP checksum covers it
	check(reference_icrc(packet[:-4]) == icrc, name, 'the ICRC depends on itself')
	if ipv6:
		bth.icrc = None
		check(bytes(ip / bth / Raw(rest)) == packet, name, 'scapy and the reference differ')
	add(name, 'reference', packet, icrc)


def data(n, start=0):
	return bytes((start + 7 * i) & 0xff for i in range(n))


def both(name, bth, rest):
	'''bth: fields, made anew for each'''
	add4(f'ip4-{name}', udp4(), BTH(**bth), rest)
	add6(f'ip6-{name}', udp6(), BTH(**bth), rest)


def opcodes():
	reth, aeth, imm, ieth = data(16, 0x11), data(4, 0x22), data(4, 0x33), data(4, 0x44)
	atomic, atomicack, deth, feth = data(28, 0x55), data(8, 0x66), data(8, 0x77), data(4, 0x88)
	xrceth = data(4, 0x99)
	connected = {0x00: b'', 0x01: b'', 0x02: b'', 0x03: imm, 0x04: b'', 0x05: imm,
		     0x06: reth, 0x07: b'', 0x08: b'', 0x09: imm, 0x0a: reth, 0x0b: reth + imm}
	requests = {0x0c: reth, 0x13: atomic, 0x14: atomic, 0x16: ieth, 0x17: ieth,
		    0x1c: feth + reth, 0x1d: reth}
	responses = {0x0d: aeth, 0x0e: b'', 0x0f: aeth, 0x10: aeth, 0x11: aeth,
		     0x12: aeth + atomicack}
	bare = (0x0c, 0x11, 0x12, 0x13, 0x14, 0x1c)
	unpadded = (0x00, 0x01, 0x06, 0x07, 0x0d, 0x0e, 0x1d)

	table = {}
	for op, headers in {**connected, **requests}.items():
		table[op] = headers
		table[0xa0 | op] = xrceth + headers
	for op, headers in responses.items():
		table[op] = table[0xa0 | op] = headers
	for op, headers in connected.items():
		table[0x20 | op] = headers
	table[0x64], table[0x65] = deth, deth + imm

	note('every opcode, with its headers; the end of a message with 1 to 3 bytes of padding')
	for n, (op, headers) in enumerate(sorted(table.items())):
		low = op & 0x1f
		pad = 0 if low in bare + unpadded else n % 4
		payload = b'' if low in bare else data(8 if low == 0x1d else 32 - pad, n)
		both(f'op-{op:02x}-pad-{pad}',
		     dict(opcode=op, migreq=1, padcount=pad, dqpn=0x10000 + op, psn=0xfffff0 + n % 32 & 0xffffff,
			  ackreq=n & 1, solicited=n >> 1 & 1),
		     headers + payload + bytes(pad))


def sizes():
	note('SEND Only from 0 to 9 bytes, and longer')
	for n in list(range(10)) + [255, 1024]:
		pad = -n % 4
		both(f'send-{n}', dict(opcode=0x04, migreq=1, padcount=pad, dqpn=0x123456, psn=n),
		     data(n) + bytes(pad))


def variations():
	base = dict(opcode=0x04, migreq=1, dqpn=0xabcdef, psn=0x654321, ackreq=1)
	load = data(12)

	note('what the way may change: the ICRC is that of the base')
	add4('var4-base', udp4(), BTH(**base), load)
	for name, ip in (('tos-02', dict(tos=0x02)), ('tos-03', dict(tos=0x03)), ('tos-b8', dict(tos=0xb8)),
			 ('tos-ff', dict(tos=0xff)), ('ttl-1', dict(ttl=1)), ('ttl-255', dict(ttl=255)),
			 ('udp-checksum-0', dict(udp_chksum=0)), ('udp-checksum-ffff', dict(udp_chksum=0xffff)),
			 ('udp-checksum-1234', dict(udp_chksum=0x1234)), ('ip-checksum-0', dict(chksum=0))):
		add4(f'var4-same-{name}', udp4(**ip), BTH(**base), load)
	add6('var6-base', udp6(), BTH(**base), load)
	for name, ip in (('class-02', dict(tc=0x02)), ('class-03', dict(tc=0x03)), ('class-b8', dict(tc=0xb8)),
			 ('class-ff', dict(tc=0xff)), ('label-1', dict(fl=1)), ('label-fffff', dict(fl=0xfffff)),
			 ('label-c0123', dict(fl=0xc0123)), ('hops-1', dict(hlim=1)), ('hops-255', dict(hlim=255)),
			 ('udp-checksum-0', dict(udp_chksum=0)), ('udp-checksum-1234', dict(udp_chksum=0x1234))):
		add6(f'var6-same-{name}', udp6(**ip), BTH(**base), load)
	for name, bits in (('fecn', dict(fecn=1)), ('becn', dict(becn=1)), ('fecn-becn', dict(fecn=1, becn=1)),
			   ('resv6', dict(resv6=0x3f))):
		add4(f'var4-same-{name}', udp4(), BTH(**base, **bits), load)
		add6(f'var6-same-{name}', udp6(), BTH(**base, **bits), load)

	note('what nobody may change: another ICRC')
	for name, ip in (('id', dict(id=0x1235)), ('id-0', dict(id=0)), ('df', dict(flags=0)),
			 ('src', dict(src='192.0.2.3')), ('dst', dict(dst='198.51.100.3')),
			 ('sport', dict(udp_sport=0xc124))):
		add4(f'var4-other-{name}', udp4(**ip), BTH(**base), load)
	for name, ip in (('src', dict(src='2001:db8::3')), ('dst', dict(dst='2001:db8:77::3')),
			 ('sport', dict(udp_sport=0xc124))):
		add6(f'var6-other-{name}', udp6(**ip), BTH(**base), load)
	for name, bits in (('opcode', dict(opcode=0x24)), ('solicited', dict(solicited=1)),
			   ('migreq', dict(migreq=0)), ('pad', dict(padcount=1)), ('tver', dict(version=1)),
			   ('pkey', dict(pkey=0x7fff)), ('dqpn', dict(dqpn=0xabcdee)),
			   ('ackreq', dict(ackreq=0)), ('resv7', dict(resv7=0x40)), ('psn', dict(psn=0x654320))):
		add4(f'var4-other-{name}', udp4(), BTH(**{**base, **bits}), load)
		add6(f'var6-other-{name}', udp6(), BTH(**{**base, **bits}), load)
	add4('var4-other-payload', udp4(), BTH(**base), load[:-1] + b'\xff')
	add6('var6-other-payload', udp6(), BTH(**base), load[:-1] + b'\xff')


def cnps():
	note('congestion notification, as scapy makes it')
	packet = bytes(udp4(tos=0x89) / cnp(dqpn=0xd2))
	check(reference_icrc(packet[:-4]) == packet[-4:], 'cnp', 'scapy and the reference differ')
	add('ip4-cnp', 'scapy', packet, packet[-4:])
	add6('ip6-cnp', udp6(), BTH(opcode=0x81, becn=1, dqpn=0xd2), bytes(16))


def published():
	load = bytes.fromhex('4630818be28935d90e9a95505401be885e500000')
	fields = dict(opcode=0x24, migreq=1, padcount=2, pkey=0xffff, dqpn=211, psn=13571856)

	note("scapy's test, \"RoCE layer\": a UC SEND Only over IPv4")
	packet = bytes(IP(tos=1, id=1144, flags='DF', ttl=64, src='192.168.0.7', dst='192.168.0.7', len=64) /
		       UDP(sport=49152, dport=PORT, len=44, chksum=0xaca2) /
		       BTH(**fields, icrc=0x78f353f3) / Raw(load))
	published_one('scapy-uc-ip4', 'scapy-test', packet)

	note("scapy's test since 2.6, \"RoCE over IPv6\": the same over IPv6")
	packet = bytes(IPv6(src='2022::1023', dst='2023::1024', hlim=255, plen=44, fl=0x1face, tc=226) /
		       UDP(sport=49152, dport=PORT, len=44, chksum=0xe7c5) /
		       BTH(**fields, icrc=0x3e5b743b) / Raw(load))
	published_one('scapy-uc-ip6', 'scapy-test', packet)

	note("Mellanox ConnectX-4 Lx, a CNP: scapy's test, \"RoCE CNP captured on ConnectX-4 Lx\"")
	published_one('capture-cnp-ip4', 'capture', bytes.fromhex(
		'45c2003c718c4000401191610a0011010a001201'
		'000012b700280000'
		'8100ffff4000011800000000'
		'00000000000000000000000000000000'
		'82fd002a'))

	note('RC RDMA WRITE Only with a UDP checksum: github.com/Jimx-/ROOM, the tests of')
	note('packet_codec.py, "real_icrc_matches_driver_capture"')
	published_one('capture-write-ip4', 'capture', bytes.fromhex(
		'4500004c000100004011f54cc0a80201c0a80202'
		'01f412b70038ffa6'
		'0a00ffff0000000200000000'
		'00000000000012300000000000000010'
		'000102030405060708090a0b0c0d0e0f'
		'ca47470e'))

	note("RoCE v1 between two of Mellanox's MAC addresses: scapy's test, \"RoCE v1 RC RDMA WRITE ONLY\"")
	published_one('roce1-write', 'capture', bytes.fromhex(
		'6020000000281b40'
		'00000000000000000000ffff0f000002'
		'00000000000000000000ffff0f000002'
		'0a70ffff0000010a80a788bc'
		'000055d4c0726000000047b300000005'
		'0000000001000000'
		'e3d856bb'), udp=False)

	note("and its acknowledgement: scapy's test, \"RoCE v1 RC ACKNOWLEDGE\"")
	published_one('roce1-ack', 'capture', bytes.fromhex(
		'6020000000141b40'
		'00000000000000000000ffff0f000002'
		'00000000000000000000ffff0f000002'
		'1140ffff0000010900a788c0'
		'00000005'
		'25f0c038'), udp=False)


def published_one(name, source, packet, udp=True):
	check(reference_icrc(packet[:-4], udp) == packet[-4:], name, 'the reference gives another ICRC')
	add(name, source, packet, packet[-4:])


ipv6 = scapy_has_ipv6()

published()
cnps()
sizes()
opcodes()
variations()
print('''\
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#
# name, source, ICRC in the order of its bytes on the wire, packet from the IP
# header to the ICRC. Written by vectors.py, which says what the sources are.''')
print('\n'.join(out))
