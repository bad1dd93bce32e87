#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#
# Documentation/trust.rst: what makes a network safe beneath carries these packets as any. With
# IPsec between two hosts, over MACsec and over WireGuard every byte arrives, and none of it is
# seen in clear; what IPsec's policy wants sealed is not taken when it comes in clear.
# lab: timeout 900
# lab: one-cpu

. "$(dirname "$0")/../lib.sh"

need nft
need_bin xfer
load_module
hosts_up

# --- what crosses the wire, by what v0 and v1 receive -------------------------------

probe nf_tables
in_ns b nft add table netdev t 2>"$TMP/nft" ||
	skip_all "no nf_tables in this kernel: $(cat "$TMP/nft")"

# After hosts_up, which has made the netdevs anew
watch_wire() {
	local e

	for e in "a v0" "b v1"; do
		# shellcheck disable=SC2086 # two words
		set -- $e
		in_ns "$1" nft -f - <<-EOT || bail "nft"
		table netdev t {
			counter by_esp { }
			counter by_macsec { }
			counter by_wireguard { }
			counter in_clear { }
			chain in {
				type filter hook ingress device $2 priority 0;
				meta l4proto 50 counter name by_esp
				ether type 0x88e5 counter name by_macsec
				udp dport 51820 counter name by_wireguard
				udp dport 4791 counter name in_clear
			}
		}
		EOT
	done
}

crossed() { # NAMESPACE by_esp|by_macsec|by_wireguard|in_clear packets|bytes
	in_ns "$1" nft list counter netdev t "$2" | sed -n "s/.*$3 \([0-9]*\).*/\1/p"
}

many() { # NAMESPACE by_esp|in_clear
	[ "$(crossed "$1" "$2" packets)" -gt 100 ]
}

count_anew() {
	in_ns a nft reset counters >/dev/null
	in_ns b nft reset counters >/dev/null
}

# Both ways of every kind: half of 60 messages are of many packets
sealed() { # NAME esp|macsec|wireguard NET-OF-IPv4 NET-OF-IPv6
	local name=$1 by=$2 net ns

	for net in "${@:3}"; do
		count_anew
		run "$name: every byte between ${net}1 and ${net}2" xfer -b -n 30 -s 40000,0-64K \
			-o send,write,read -g "${net}1" -G "${net}2"
		# one at a time: what seals in the background (cryptd) keeps no order, nor does UD ask for it
		run "$name: datagrams" xfer -t ud -b -w 1 -r 1 -n 200 -s 0-1024 -g "${net}1" -G "${net}2"
		for ns in a b; do
			between "$(crossed $ns "by_$by" bytes)" 100000 100000000 "$name: bytes that $ns got by $by"
			is "$(crossed $ns in_clear packets)" 0 "$name: no packet that $ns got is in clear"
		done
	done
}

# --- IPsec --------------------------------------------------------------------------

key=0x$(od -An -tx1 -N 20 /dev/urandom | tr -d ' \n')

# What goes from one to the other is ESP, and each knows the key.
state() { # NET FROM TO [ALGORITHM...]
	local ns algo=(aead "rfc4106(gcm(aes))" "$key" 128)

	[ $# = 3 ] || algo=("${@:4}")
	for ns in a b; do
		ip -n $ns xfrm state add src "$1$2" dst "$1$3" proto esp spi "0x10$2$3" mode transport \
			"${algo[@]}" || return
	done
}

# Of RoCE alone, or of all
policy() { # add|delete NAMESPACE out|in NET FROM TO
	local tmpl=()

	[ "$1" = delete ] || tmpl=(tmpl src "$4$5" dst "$4$6" proto esp mode transport)
	ip -n "$2" xfrm policy "$1" src "$4$5" dst "$4$6" ${roce:+proto udp dport 4791} \
		dir "$3" "${tmpl[@]}"
}

policies() { # add|delete NET
	policy "$1" a out "$2" 1 2 && policy "$1" b in "$2" 1 2 &&
		policy "$1" b out "$2" 2 1 && policy "$1" a in "$2" 2 1
}

mismatches() {
	in_ns b awk '$1 == "XfrmInTmplMismatch" { print $2 }' /proc/net/xfrm_stat
}

links_up
watch_wire
probe xfrm_user esp4 esp6 gcm seqiv
nets="192.168.77. fd77::"
roce=1
if state fd77:: 1 2 2>"$TMP/xfrm"; then
	state fd77:: 2 1 && state 192.168.77. 1 2 && state 192.168.77. 2 1 || bail "no state of IPsec's"
	run "before there is a policy" xfer -n 20
	[ "$(crossed b in_clear packets)" -gt 0 ]
	is $? 0 "and what is in clear is seen" || in_ns b nft list table netdev t

	# b wants what a does not do: nothing of it is taken
	for net in $nets; do
		policy add b in "$net" 1 2 || bail "no policy of IPsec's"
		taken=$(hw_counter roce1 rx_pkts) dropped=$(mismatches)
		refused "in clear from ${net}1, against the policy: nothing arrives" \
			"transport retry counter exceeded" \
			xfer -n 20 --timeout 10 --retry 2 -g "${net}1" -G "${net}2"
		refused "nor does a datagram" "" \
			xfer -t ud -n 1 -s 512 --patience 2 -g "${net}1" -G "${net}2"
		# the core shows what it read up to 10 ms ago
		sleep 0.2
		is "$(hw_counter roce1 rx_pkts)" "$taken" "and none was taken"
		[ -z "$dropped" ] || [ "$(mismatches)" -gt "$dropped" ]
		is $? 0 "IPsec has counted them"
		policy delete b in "$net" 1 2
	done

	# of UDP port 4791, and of all
	for roce in 1 ''; do
		for net in $nets; do
			policies add "$net" || bail "no policies of IPsec's"
			sealed "IPsec${roce:+ for the port}" esp "$net"
			policies delete "$net"
		done
	done

	# a connection that has its route
	for net in $nets; do
		count_anew
		"$BIN/xfer" -d roce0 -D roce1 -n 0 -e -b -s 0-16K -o send,write,read \
			--timeout 18 --retry 7 -g "${net}1" -G "${net}2" >"$TMP/program" 2>&1 &
		program=$!
		wait_for 60 many a in_clear && wait_for 60 many b in_clear ||
			bail "nothing moves: $(cat "$TMP/program")"
		policies add "$net" || bail "no policies of IPsec's"
		# what is under way
		sleep 1
		count_anew
		wait_for 60 many a by_esp && wait_for 60 many b by_esp
		is $? 0 "a connection from ${net}1 goes on when policies come"
		is "$(crossed a in_clear packets) $(crossed b in_clear packets)" "0 0" \
			"none of it is in clear any more"
		policies delete "$net"
		kill -INT $program
		wait_pid 60 $program
		is $? 0 "and all has arrived" || sed 's/^/#   /' "$TMP/program"
	done
	for ns in a b; do
		ip -n $ns xfrm state flush
	done

	# It cuts a burst in two where a queue has room for a part: nothing is sent twice for that. What
	# seals nothing does not do it in the background, which keeps no order, nor do two processors.
	probe sch_tbf crypto_null authenc
	null=(enc "ecb(cipher_null)" "" auth "hmac(sha256)" "$key")
	if state fd77:: 1 2 "${null[@]}" 2>"$TMP/xfrm" &&
		tc -n a qdisc add dev v0 root tbf rate 50mbit burst 4k limit 20k 2>"$TMP/xfrm"; then
		state fd77:: 2 1 "${null[@]}" && state 192.168.77. 1 2 "${null[@]}" &&
			state 192.168.77. 2 1 "${null[@]}" || bail "no state of IPsec's"
		for net in $nets; do
			policies add "$net" || bail "no policies of IPsec's"
			for t in uc ud; do
				run "$t from ${net}1, through a queue with little room: each message once" \
					in_order xfer -t $t -o send -n 1000 -w 32 -s 1000 -g "${net}1" -G "${net}2"
			done
			policies delete "$net"
		done
		tc -n a qdisc del dev v0 root
	else
		skip "IPsec and a queue with little room" "$(tail -n 1 "$TMP/xfrm")"
	fi
	for ns in a b; do
		ip -n $ns xfrm state flush
	done
else
	skip "IPsec" "$(tail -n 1 "$TMP/xfrm")"
fi

# --- MACsec and WireGuard: netdevs x0 and x1 above v0 and v1 ---------------------------

# Their addresses are for those above.
wires() {
	hosts_up
	watch_wire
	ip -n a addr flush dev v0
	ip -n b addr flush dev v1
}

make_macsec() { # NAMESPACE NETDEV BELOW THE-OTHER'S-NAMESPACE BELOW
	local key=00112233445566778899aabbccddee mac

	mac=$(in_ns "$4" cat "/sys/class/net/$5/address")
	ip -n "$1" link add link "$3" name "$2" type macsec encrypt on &&
		ip -n "$1" macsec add "$2" tx sa 0 pn 1 on key 01 "${key}0$1" &&
		ip -n "$1" macsec add "$2" rx port 1 address "$mac" &&
		ip -n "$1" macsec add "$2" rx port 1 address "$mac" sa 0 pn 1 on key 01 "${key}0$4"
}

make_wireguard() { # NAMESPACE NETDEV NUMBER THE-OTHER'S-NAMESPACE NUMBER
	ip -n "$1" link add "$2" type wireguard &&
		in_ns "$1" wg set "$2" listen-port 51820 private-key "$TMP/key$1" \
			peer "$(wg pubkey <"$TMP/key$4")" endpoint "192.0.2.$5:51820" \
			allowed-ips "192.168.77.$5/32,fd77::$5/128"
}

above() { # x0 and x1 have the addresses
	host_addr a x0 1
	host_addr b x1 2
	hosts_meet ip netns exec a
}

links_on() { # NETDEV in a, NETDEV in b
	local net

	link_add a roce0 "$1"
	link_add b roce1 "$2"
	for net in $nets; do
		gid_wait roce0 "${net}1"
		gid_wait roce1 "${net}2"
	done
}

wires
probe macsec gcm
if make_macsec a x0 v0 b v1 2>"$TMP/macsec"; then
	make_macsec b x1 v1 a v0 || bail "no MACsec in b"
	above
	links_on x0 x1
	# shellcheck disable=SC2086 # a list
	sealed "MACsec" macsec $nets
	rdma link del roce0
	rdma link del roce1
	links_on v0 v1
	# shellcheck disable=SC2086
	sealed "MACsec above the links' netdevs" macsec $nets
else
	skip "MACsec" "$(tail -n 1 "$TMP/macsec")"
fi

wires
probe wireguard
if ! command -v wg >/dev/null; then
	skip "WireGuard" "needs wg"
else
	for ns in a b; do
		(umask 077; wg genkey >"$TMP/key$ns")
	done
	ip -n a addr add 192.0.2.1/24 dev v0
	ip -n b addr add 192.0.2.2/24 dev v1
	if make_wireguard a x0 1 b 2 2>"$TMP/wireguard"; then
		make_wireguard b x1 2 a 1 || bail "no WireGuard in b"
		above
		links_on x0 x1
		# shellcheck disable=SC2086
		sealed "WireGuard" wireguard $nets
	else
		skip "WireGuard" "$(tail -n 1 "$TMP/wireguard")"
	fi
fi
done_testing
