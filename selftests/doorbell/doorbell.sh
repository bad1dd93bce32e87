#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#
# A program whose queue is busy does not enter the kernel: system calls of a
# polling sender, counted, are far fewer than its messages.
# lab: timeout 1500

. "$(dirname "$0")/../lib.sh"

need strace tc
need_bin xfer
load_module
probe sch_netem
hosts_up
links_up

# calls to the kernel by which a request can be posted or a queue be polled
calls() { # FILE
	echo $(($(awk '$NF == "write" || $NF == "ioctl" { n += $4 } END { print n + 0 }' "$1") -
		$(cat "$1.vain")))
}

# Those of a program that has polled for long and found nothing are not for requests.
vain() {
	sleep 0.1 # the core reads them anew after 10 ms
	[ "$TYPE" = sroce ] || { echo 0; return; }
	echo $(($(hw_counter roce0 poll_doorbells) + $(hw_counter roce1 poll_doorbells)))
}

# What setting up and taking down costs, to be subtracted, is a run with one message.
measure() { # FILE ARGS...
	local out=$1 n res

	shift
	n=$(vain)
	strace -f -qq -c -e trace=write,ioctl -o "$out" "$BIN/xfer" -d roce0 -D roce1 "$@"
	res=$?
	echo $(($(vain) - n)) >"$out.vain"
	return $res
}

messages=800
[ "$TYPE" = sroce ] || diag "another driver's device: the limits are sroce's"

# The wire is slower than a program that is traced, and 1 MiB of messages posted is more than
# may be under way, so that the requester always has something to send.
tc -n a qdisc add dev v0 root netem rate 1mbit limit 100000 || skip_all "no netem in this kernel"
defer "tc -n a qdisc del dev v0 root"
args=(-w 256 -s 4000 -o send --signal 64 --batch 1 --timeout 20)
run "a run of one message" measure "$TMP/one" "${args[@]}" -n 1
start=$SECONDS
run "$messages messages through a busy queue" measure "$TMP/busy" "${args[@]}" -n $messages
n=$(($(calls "$TMP/busy") - $(calls "$TMP/one")))
diag "busy queue: $n system calls for $messages messages"
# 32 ms a message are the wire's
if [ $((SECONDS - start)) -le $((messages * 40 / 1000)) ]; then
	between $n 0 $((messages / 4)) "system calls while the queue is busy"
else
	skip "system calls while the queue is busy" "it never is: the program is slower than the wire"
fi

# An idle queue is rung for each message: that is what a doorbell is for.
tc -n a qdisc del dev v0 root
run "100 messages one at a time" measure "$TMP/idle" -w 1 -s 1000 -o send --batch 1 -n 100
n=$(($(calls "$TMP/idle") - $(calls "$TMP/one")))
diag "idle queue: $n system calls for 100 messages"
between $n 90 130 "system calls, about one for each message of an idle queue"
done_testing
