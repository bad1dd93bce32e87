#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#
# Every byte of messages of every shape: lengths, pieces, addresses, inline,
# immediate data, solicited events, huge pages, many queue pairs, both ways.
# lab: timeout 1500
# lab: one-cpu

. "$(dirname "$0")/../lib.sh"

two_hosts xfer

n=${LONG:+1000}
n=${n:-60}
crossed() {
	carried b v1 bytes
}

plain() {
	xfer -n $n >"$TMP/plain"
}

before=$(crossed)
run "plain" plain
# how long they are, and which of them are READs, is random: every byte, with its headers
bytes=$(sed -n 's/.* \([0-9]*\) bytes verified.*/\1/p' "$TMP/plain")
between $(($(crossed) - before)) "$((${bytes:-1000000000} + 1))" 1000000000 "the messages crossed the veth"
run "over IPv6" xfer -n $n -g fd77::1 -G fd77::2
run "events" xfer -n $n -e
run "events for solicited messages only" xfer -n $n -S 8
run "both ways, 4 queue pairs" xfer -n $n -b -q 4 -s 0-16K
run "64 queue pairs" xfer -n 4 -q 64 -w 4 -s 0-8K
run "lengths about the MTU" xfer -n $n -s 0,1,2,3,1023,1024,1025,2047,2048,2049,65535,65536,65537
run "zero-length messages" xfer -n $n -s 0
run "as many pieces as there may be" xfer -n $n -k max -u -s 0-32K
run "odd pieces, other addresses" xfer -n $n -k 5 -u --iova -b
run "inline" xfer -n $n -i -u -k 3 -s 0-200
run "one completion in 13" xfer -n $n --signal 13 --batch 5
run "sq_sig_all" xfer -n $n --sig-all
run "one request a post" xfer -n $n --batch 1 -w 3
run "few receives for many sends" xfer -n $n -w 32 -r 2 -s 0-4K
run "one at a time" xfer -n $n -w 1 -s 0-20K
for mtu in 256 512 1024; do
	run "path MTU $mtu" xfer -n $n -m $mtu -u -b
done
ip -n a link set v0 mtu 9000
ip -n b link set v1 mtu 9000
run "path MTU 4096" xfer -n $n -m 4096 -u -k 3 -b
run "path MTU 2048" xfer -n $n -m 2048 -u
run "4 MiB messages" xfer -n 3 -w 2 -s 4M -u -k 4

# 2 MiB pages: enough for both sides
if echo 16 2>/dev/null >/proc/sys/vm/nr_hugepages &&
   defer "echo 0 >/proc/sys/vm/nr_hugepages" &&
   [ "$(cat /proc/sys/vm/nr_hugepages)" -ge 16 ]; then
	run "huge pages" xfer -n $n --huge -s 0-300K -u -w 8 -k 3
	run "huge pages at another address" xfer -n $n --huge --iova -s 0-300K -u -w 8
else
	skip "huge pages" "there are none to be had"
fi

if [ -n "$LONG" ] && [ "$(awk '/MemAvailable/ { print $2 }' /proc/meminfo)" -gt 2500000 ]; then
	run "one message of 1 GiB" xfer -n 1 -w 1 -s 1G --patience 600
else
	skip "one message of 1 GiB" "LONG=1 and 2.5 GB of memory"
fi
done_testing
