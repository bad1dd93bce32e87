#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#
# Where one thing meets another.
# lab: timeout 1500
# lab: one-cpu

. "$(dirname "$0")/../lib.sh"

two_hosts corners
tests_of corners early bind_behind inv_behind read_hole send_hole srq_domain srq_gone srq_short uc_hole begins_anew key_gone \
	endless late_read all_psns read_named ack_far_back last_word
tests_of corners ud_longer
ip -n a link set v0 mtu 1500
ip -n b link set v1 mtu 1500
probe sch_ingress
probe cls_matchall
probe act_gact
if tc -n a qdisc add dev v0 clsact 2>/dev/null &&
	tc -n a filter add dev v0 egress matchall action ok 2>/dev/null; then
	tc -n a qdisc del dev v0 clsact
	tests_of corners ud_denied read_denied group_denied
	tap_from "IPv6" "$BIN/corners" -d roce0 -D roce1 -g fd77::1 -G fd77::2 group_denied
else
	skip "datagrams that tc denies" "no clsact or no matchall in this kernel"
fi
probe sch_tbf
probe sch_prio
probe sch_netem
for t in "answers:tbf rate 5mbit burst 70k limit 4m" "little_room:tbf rate 5mbit burst 70k limit 100k" \
	"little_room_write:tbf rate 5mbit burst 70k limit 100k" "rounded:tbf rate 5mbit burst 70k limit 4m" \
	"read_ended:tbf rate 8mbit burst 100k limit 8m" priority:prio; do
	if tc -n a qdisc add dev v0 root ${t#*:} 2>/dev/null; then
		tc -n a qdisc del dev v0 root
		tests_of corners "${t%%:*}"
		tc -n a qdisc del dev v0 root 2>/dev/null
		tc -n b qdisc del dev v1 root 2>/dev/null
	else
		skip "${t%%:*}" "no qdisc ${t#*:} in this kernel"
	fi
done
# these take host a's way to anywhere, the last one for good
if tc -n a qdisc add dev v0 root netem loss 25% 2>/dev/null; then
	tc -n a qdisc del dev v0 root
	tests_of corners way_gone
else
	skip way_gone "no netem in this kernel"
fi
tests_of corners had_after_all ud_nowhere
done_testing
