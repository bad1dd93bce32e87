#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#
# The burst path: a message of 64 KiB crosses the wire in a handful of skbs. Cut
# into packets by the stack, it still arrives, and every packet's ICRC is right.
# lab: timeout 1500

. "$(dirname "$0")/../lib.sh"

need tcpdump
[ -x "$PYTHON" ] || skip_all "needs $PYTHON"
two_hosts xfer

# What v1 receives from a
got() { # SNAPLEN COMMAND...
	capture b "-i v1 -Q in -s $1" "${@:2}"
}

# Lengths of the frames, as they were on the device. Acknowledgements go the
# other way: a sends only requests here.
lengths() {
	"$SELFTESTS/icrc.py" -l "$TMP/cap"
}

sum() {
	local s=0 n

	while read -r n; do
		s=$((s + n))
	done
	echo $s
}

# tshark guesses from a message's content who it is for, and calls it malformed when
# it is not: two random bytes and their padding are an EtherType now and then.
no_guesses() {
	tshark -G heuristic-decodes 2>/dev/null | awk '
		$1 == "infiniband.payload" && $2 != "ethertype" { print "--disable-protocol", $2 }'
	# that protocol is Ethernet's, too: this guess has a name of its own
	echo "--disable-heuristic eth_over_ib"
}

for ip in 4 6; do
	gids=$([ $ip = 4 ] && echo "-g 192.168.77.1 -G 192.168.77.2" || echo "-g fd77::1 -G fd77::2")
	for mtu in 1024 256; do
		# shellcheck disable=SC2086 # a list
		got 128 run "IPv$ip, path MTU $mtu: 64 KiB" xfer -n 1 -w 1 -s 64K -m $mtu $gids
		n=$(lengths | wc -l)
		# bursts end at 64 KiB of IP, and with the shorter packet at the end
		between "$n" 1 6 "IPv$ip, path MTU $mtu: crosses in a handful of skbs"
		between "$(lengths | sum)" 65536 $((65536 + 65536 / mtu * 70 + 6 * 100)) \
			"IPv$ip, path MTU $mtu: of so many bytes in all"
		# what a host takes of its VMs: 62 bytes of headers, and 64 times BTH, payload and ICRC
		between "$(lengths | sort -n | tail -n 1)" 1000 $((62 + 64 * (12 + mtu + 4))) \
			"IPv$ip, path MTU $mtu: none has more than 64 packets"
	done
	# small messages of equal length join as well
	# shellcheck disable=SC2086 # a list
	got 128 run "IPv$ip: 512 messages of 64 bytes" xfer -n 512 -w 128 -s 64 -o send --batch 64 --signal 64 $gids
	between "$(lengths | wc -l)" 1 256 "IPv$ip: they cross in fewer skbs than there are messages"
done

segmentation off a v0
segmentation off b v1
for ip in 4 6; do
	gids=$([ $ip = 4 ] && echo "-g 192.168.77.1 -G 192.168.77.2" || echo "-g fd77::1 -G fd77::2")
	# shellcheck disable=SC2086 # a list
	got 2048 run "IPv$ip, segmentation off: messages" xfer -n 12 -w 4 -s 64K,0-5000 -u -k 3 $gids
	n=$(lengths | wc -l)
	between "$n" 384 100000 "IPv$ip, segmentation off: single packets"
	is "$(lengths | awk '$1 > 1514' | wc -l)" 0 "IPv$ip, segmentation off: none longer than the MTU"
	run "IPv$ip, segmentation off: every ICRC is right" "$SELFTESTS/icrc.py" "$TMP/cap"
	diag "$(tail -n 1 "$TMP/run")"
	[ -z "${OUT:-}" ] || cp "$TMP/cap" "$OUT/packets-ipv$ip.pcap"
	cp "$TMP/cap" "$TMP/bad"
	byte=$(od -An -tu1 -j 140 -N 1 "$TMP/bad")
	# shellcheck disable=SC2059 # an escape made of a number
	printf "\\x$(printf %x $((byte ^ 1)))" | dd of="$TMP/bad" bs=1 seek=140 conv=notrunc 2>/dev/null
	refused "IPv$ip: a byte changed in the capture is found" "[1-9][0-9]* wrong" \
		"$SELFTESTS/icrc.py" -z "$TMP/bad"
	if command -v tshark >/dev/null; then
		# shellcheck disable=SC2046 # a list
		is "$(tshark -r "$TMP/cap" $(no_guesses) \
			-Y "infiniband.invariant.crc && !_ws.malformed" 2>/dev/null | wc -l)" "$n" \
			"IPv$ip: tshark takes each for RoCE, whole"
	fi
done
segmentation on a v0
segmentation on b v1
run "segmentation on again" xfer -n 20 -s 64K

# A host that forwards may join packets without taking their headers off: a list of skbs
hosts_up_bridge
links_up
segmentation off a v0
# a veth joins what its peer has cut: what counts is the peer's segmentation of TCP
if in_ns a ethtool -K v0 tso off >/dev/null && in_ns w ethtool -K w0 gro on rx-gro-list on 2>/dev/null; then
	bursts=$(hw_counter roce1 rx_bursts) pkts=$(hw_counter roce1 rx_pkts)
	for net in 192.168.77. fd77::; do
		run "joined as a list on the way: messages from ${net}1" xfer -n 100 -w 8 -s 64K,0-5000 -o send,write \
			-g "${net}1" -G "${net}2"
	done
	bursts=$(($(hw_counter roce1 rx_bursts) - bursts)) pkts=$(($(hw_counter roce1 rx_pkts) - pkts))
	between $((bursts ? pkts * 10 / bursts : 0)) 15 10000 \
		"ten times the packets of an skb, in the mean"
	is "$(hw_counter roce1 rx_malformed) $(hw_counter roce1 rx_icrc_encapsulated)" "0 0" "every packet was right"
else
	skip "joined as a list on the way" "no rx-gro-list in this kernel"
fi
done_testing
