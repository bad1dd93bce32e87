#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#
# The firewall is respected: a rule that drops UDP port 4791 in INPUT stops the
# traffic, a flow that is tracked is confirmed, and what queue pairs send has no user.
# lab: timeout 1500
# lab: one-cpu

. "$(dirname "$0")/../lib.sh"

need nft
two_hosts xfer

in_ns b nft add table inet t 2>"$TMP/nft" || skip_all "no nf_tables in this kernel: $(cat "$TMP/nft")"
in_ns b nft add chain inet t in "{ type filter hook input priority 0; }" || bail "nft"
run "without a rule" xfer -n 20

in_ns b nft add rule inet t in udp dport 4791 counter drop || bail "nft"
for gids in "-g 192.168.77.1 -G 192.168.77.2" "-g fd77::1 -G fd77::2"; do
	# shellcheck disable=SC2086 # a list
	refused "dropped in INPUT: nothing arrives ($gids)" "transport retry counter exceeded" \
		xfer -n 20 --timeout 10 --retry 2 $gids
done
like "$(in_ns b nft list chain inet t in)" "packets [1-9]" "the rule has counted"
in_ns b nft flush chain inet t in
run "the rule removed" xfer -n 20

# a rule for one source only
in_ns b nft add rule inet t in ip6 saddr fd77::1 udp dport 4791 drop
run "IPv6 is dropped, IPv4 passes" xfer -n 20
refused "IPv6 does not" "transport retry counter exceeded" \
	xfer -n 20 --timeout 10 --retry 2 -g fd77::1 -G fd77::2
in_ns b nft flush chain inet t in

# what has been established may go on
if in_ns b nft add rule inet t in ct state new counter accept 2>/dev/null; then
	run "with connection tracking" xfer -n 20
	if [ -e /proc/net/nf_conntrack ]; then
		flows=$(in_ns b cat /proc/net/nf_conntrack)
	else
		need conntrack
		flows=$(in_ns b conntrack -L 2>/dev/null)
	fi
	# an entry that is not confirmed is in no list
	like "$flows" "src=192.168.77.1 dst=192.168.77.2 sport=[0-9]* dport=4791" "the flow is confirmed"
else
	skip "connection tracking" "not in this kernel"
fi
in_ns b nft flush chain inet t in

# Documentation/trust.rst: users do not send to the port by sockets
if in_ns b nft add chain inet t out "{ type filter hook output priority 0; }" &&
	in_ns b nft add rule inet t out udp dport 4791 meta skuid != 0 counter drop; then
	run "what queue pairs send is no user's" xfer -n 20
	like "$(in_ns b nft list chain inet t out)" "packets 0" "and none of it was dropped"
	in_ns b setpriv --reuid 65534 bash -c "echo x >/dev/udp/192.168.77.1/4791" 2>"$TMP/send"
	like "$(in_ns b nft list chain inet t out)" "packets 1" "a user's datagram is"
else
	skip "a rule for users" "not in this kernel"
fi
in_ns b nft delete table inet t
run "after all" xfer -n 20
done_testing
