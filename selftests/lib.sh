# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# shellcheck shell=bash
#
# What the shell tests share: TAP, two hosts made of network namespaces, links
# on them, and tidying up. A test begins with
#
#	. "$(dirname "$0")/../lib.sh"
#
# and ends with done_testing. Everything it made through these functions is
# removed when it ends, however it ends.
#
# SROCE_LINK_TYPE=rxe tests another driver's device, to tell a fault of sroce
# from a fault of the test. LONG=1 runs the longer variants.

set -u
# the end of a pipe may set variables
shopt -s lastpipe

SELFTESTS=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
REPO=$(cd "$SELFTESTS/.." && pwd)
BIN=$REPO/build/selftests
TYPE=${SROCE_LINK_TYPE:-sroce}
LONG=${LONG:-}
export LC_ALL=C
export PATH=$PATH:/usr/sbin:/sbin

# --- TAP --------------------------------------------------------------------

tap_n=0
tap_failed=0

diag() {
	printf '%s\n' "$*" | sed 's/^/# /'
}

ok() { # NAME
	tap_n=$((tap_n + 1))
	echo "ok $tap_n - $*"
}

not_ok() { # NAME
	tap_n=$((tap_n + 1))
	tap_failed=$((tap_failed + 1))
	echo "not ok $tap_n - $*"
}

skip() { # NAME REASON
	tap_n=$((tap_n + 1))
	echo "ok $tap_n - $1 # SKIP $2"
}

skip_all() { # REASON
	echo "1..0 # SKIP $*"
	exit 4
}

# What a build leaves, and the lab's kernels have: there nothing excuses that it is missing.
lacks() { # REASON
	[ -z "${LAB_REPO:-}" ] || bail "$*"
	skip_all "$*"
}

# For what is not the subject of the test but has to work.
bail() {
	echo "Bail out! $*"
	exit 1
}

is() { # GOT WANT NAME
	if [ "$1" = "$2" ]; then
		ok "$3"
	else
		not_ok "$3"
		diag "got:  $1"
		diag "want: $2"
		return 1
	fi
}

like() { # GOT REGEX NAME
	if [[ $1 =~ $2 ]]; then
		ok "$3"
	else
		not_ok "$3"
		diag "got:  $1"
		diag "want: /$2/"
		return 1
	fi
}

between() { # GOT LOW HIGH NAME
	if [ "$1" -ge "$2" ] 2>/dev/null && [ "$1" -le "$3" ]; then
		ok "$4 ($1)"
	else
		not_ok "$4"
		diag "got:  $1"
		diag "want: $2 to $3"
		return 1
	fi
}

# The command succeeds; shown with its output if it does not.
run() { # NAME COMMAND...
	local name=$1 rc

	shift
	"$@" >"$TMP/run" 2>&1 </dev/null
	rc=$?
	if [ $rc = 0 ]; then
		ok "$name"
	else
		not_ok "$name"
		diag "status $rc: $*"
		tail -n 30 "$TMP/run" | sed 's/^/#   /'
	fi
	return $rc
}

# The command fails, and its output matches: a refusal with its reason.
refused() { # NAME REGEX COMMAND...
	local name=$1 regex=$2 out rc

	shift 2
	out=$("$@" 2>&1 </dev/null)
	rc=$?
	if [ $rc != 0 ] && [[ $out =~ $regex ]]; then
		ok "$name"
	else
		not_ok "$name"
		diag "status $rc: $*"
		diag "got:  $out"
		diag "want: a failure, /$regex/"
		return 1
	fi
}

# Results of a program that speaks TAP become results of this test, as they come.
tap_from() { # NAME COMMAND...
	local name=$1 line rc='' plan='' seen=0

	shift
	{ "$@" 2>&1 </dev/null; echo "status $?"; } | while IFS= read -r line; do
		case $line in
		"ok "*" - "*) ok "$name: ${line#*" - "}"; seen=$((seen + 1)) ;;
		"not ok "*" - "*) not_ok "$name: ${line#*" - "}"; seen=$((seen + 1)) ;;
		"status "*) rc=${line#status } ;;
		"1.."*) line=${line%% *} plan=$((plan + ${line#1..})) ;;
		"#"*) echo "$line" ;;
		*) echo "# $line" ;;
		esac
	done
	# one that ends early has not said how many there are; what its children say does not count there
	[ -n "$plan" ] && [ $seen -ge $plan ] || rc+=", $seen results of ${plan:-an unknown number}"
	is "$rc" 0 "$name ends well" || diag "$*"
}

done_testing() {
	check_dmesg
	[ $tap_n -gt 0 ] || not_ok "something was tested"
	echo "1..$tap_n"
	[ $tap_failed = 0 ]
	exit
}

# --- tidying up ---------------------------------------------------------------

deferred=()

# Run when the test ends, the last one first.
defer() { # COMMAND
	deferred+=("$1")
}

at_exit() {
	local rc=$? i

	trap '' INT TERM
	# shellcheck disable=SC2046 # a list
	kill -9 $(jobs -p) 2>/dev/null
	for ((i = ${#deferred[@]} - 1; i >= 0; i--)); do
		eval "${deferred[i]}" >/dev/null 2>&1
	done
	rm -rf "$TMP"
	exit $rc
}

TMP=$(mktemp -d)
trap at_exit EXIT
trap 'exit 1' INT TERM HUP

# Until a condition holds. The limit is for the case that it never does: a
# machine may be slow.
wait_for() { # SECONDS COMMAND...
	local end=$((SECONDS + $1))

	shift
	until "$@" >/dev/null 2>&1; do
		[ $SECONDS -lt $end ] || return 1
		sleep 0.1
	done
}

not() {
	! "$@"
}

# --- what is needed -------------------------------------------------------------

need_root() {
	[ "$(id -u)" = 0 ] || skip_all "needs root"
}

need() { # PROGRAM...
	local p

	for p; do
		command -v "$p" >/dev/null || skip_all "needs $p"
	done
}

# Debian's python, which has pyverbs: another one in PATH has not.
PYTHON=/usr/bin/python3

has_pyverbs() {
	[ -x $PYTHON ] && $PYTHON -c 'import pyverbs.device' 2>/dev/null
}

need_bin() { # PROGRAM...
	local p

	for p; do
		[ -x "$BIN/$p" ] || lacks "needs build/selftests/$p: make -C selftests"
	done
}

probe() { # MODULE...
	modprobe ${MODULES:+-d "$MODULES"} -q -a "$@"
}

# The module under test, and the program's side of it.
load_module() {
	local ko

	need_root
	need rdma
	hosts_free
	probe ib_uverbs || lacks "no ib_uverbs in this kernel"
	case $TYPE in
	rxe) probe rdma_rxe || skip_all "no rdma_rxe in this kernel" ;;
	siw) probe siw || skip_all "no siw in this kernel" ;;
	*) load_sroce ;;
	esac
	rdma system set netns shared 2>/dev/null
	provider
}

sroce_ko() {
	local ko=${SROCE_KO:-$REPO/build/$(uname -r)/sroce.ko}

	[ ! -f "$ko" ] || echo "$ko"
}

load_sroce() {
	local ko deps

	[ ! -d /sys/module/sroce ] || return 0
	ko=$(sroce_ko)
	if [ -n "$ko" ]; then
		deps=$(modinfo -F depends "$ko" | tr , ' ')
		# shellcheck disable=SC2086 # a list
		[ -z "$deps" ] || probe $deps
		insmod "$ko" || bail "cannot load $ko: $(dmesg | tail -n 3)"
	else
		modprobe sroce 2>/dev/null ||
			lacks "no sroce.ko for $(uname -r): make modules, or set SROCE_KO"
	fi
}

unload_sroce() {
	[ ! -d /sys/module/sroce ] || rmmod sroce
}

# The one just built goes before an installed one.
provider() {
	local so

	[ "$TYPE" = sroce ] || return 0
	for so in "$REPO"/build/provider/libsroce-rdmav*.so; do
		[ -e "$so" ] || continue
		export RDMAV_DRIVERS=${so%-rdmav*}
		return 0
	done
	ls /etc/libibverbs.d/sroce.driver /usr/etc/libibverbs.d/sroce.driver >/dev/null 2>&1 ||
		lacks "no libsroce: make provider"
}

# --- the kernel's log -----------------------------------------------------------

log_mark="sroce selftest $$ $RANDOM: ${0##*selftests/}"
[ ! -w /dev/kmsg ] || echo "$log_mark" >/dev/kmsg

check_dmesg() {
	[ -r /dev/kmsg ] && [ "$(id -u)" = 0 ] || return 0
	if ! dmesg | awk -v mark="$log_mark" 'seen { print } index($0, mark) { seen = 1 }
		END { exit !seen }' >"$TMP/log"; then
		not_ok "the kernel's log has all since this test began"
	elif "$REPO/tools/lab/splat" "$TMP/log" >"$TMP/splat"; then
		ok "nothing in the kernel's log"
	else
		not_ok "nothing in the kernel's log"
		sed 's/^/# /' "$TMP/splat" | head -n 120
	fi
}

# --- two hosts -------------------------------------------------------------------

# Namespaces a and b, joined by v0 (192.168.77.1, fd77::1) and v1 (.2, ::2).
hosts_up() {
	need ip
	hosts_down
	defer hosts_down
	host_ns a
	host_ns b
	ip link add v0 netns a mtu 1500 type veth peer name v1 netns b mtu 1500 ||
		bail "cannot make a veth pair"
	host_addr a v0 1
	host_addr b v1 2
	hosts_meet ip netns exec a
}

# Both know each other's link addresses, whatever becomes of packets later: the core
# asks once for what it does not know, and waits a second (ib_resolve_unicast_gid_dmac).
hosts_meet() { # COMMAND, to be in the first host...
	local ip

	for ip in 192.168.77.2 fd77::2; do
		wait_for 60 "$@" ping -c 1 -W 5 $ip || bail "the other host does not answer at $ip"
	done
}

# For good, between v0 and v1: to ask whether the other is still there is a frame, too.
hosts_known() {
	ip -n a neigh replace 192.168.77.2 lladdr "$(in_ns b cat /sys/class/net/v1/address)" nud permanent dev v0
	ip -n b neigh replace 192.168.77.1 lladdr "$(in_ns a cat /sys/class/net/v0/address)" nud permanent dev v1
}

host_ns() { # NAME
	ip netns add "$1" || bail "cannot make namespace $1"
	ip -n "$1" link set lo up
	# where races are looked for, packets are received on another processor than they are sent on
	[ ! -e /sys/kernel/debug/kcsan ] ||
		ip netns exec "$1" sh -c "printf %x $(((1 << $(nproc)) - 1)) >/proc/sys/net/core/rps_default_mask"
}

host_addr() { # NAMESPACE NETDEV NUMBER
	# no duplicate address detection: addresses work at once
	ip netns exec "$1" sh -c "
		echo 0 >/proc/sys/net/ipv6/conf/$2/accept_dad
		echo 0 >/proc/sys/net/ipv6/conf/$2/router_solicitations" 2>/dev/null
	ip -n "$1" link set "$2" up
	ip -n "$1" addr add "192.168.77.$3/24" dev "$2"
	ip -n "$1" addr add "fd77::$3/64" dev "$2" nodad 2>/dev/null
}

# Outside of the lab's VMs, what has such a name before a test makes any is somebody's.
hosts_ours=${LAB_REPO:-}

hosts_free() {
	local found p

	[ -z "$hosts_ours" ] || return 0
	found=$(links_here | tr '\n' ' ')
	for p in /run/netns/{a,b,w} /sys/class/net/{v0,x0}; do
		[ ! -e "$p" ] || found+="$p "
	done
	[ -z "$found" ] || {
		# all of it is hosts_down's
		deferred=()
		bail "tests would remove what is here: $found"
	}
	hosts_ours=1
}

hosts_down() {
	local ns l

	hosts_free
	for ns in a b w; do
		[ -e /run/netns/$ns ] || continue
		# shellcheck disable=SC2046 # a list
		kill -9 $(ip netns pids $ns) 2>/dev/null
	done
	for l in $(links_here); do
		rdma link del "$l" 2>/dev/null
	done
	for ns in a b w; do
		[ ! -e /run/netns/$ns ] || ip netns del $ns
	done
	ip link del v0 2>/dev/null
	true
}

in_ns() { # NAMESPACE COMMAND...
	ip netns exec "$@"
}

# Between a and b a third host w, a bridge of w0 and w1: its queues see single
# packets if v0's and v1's segmentation is off.
hosts_up_bridge() { # [MTU]
	local mtu=${1:-1500} d

	need ip
	hosts_down
	defer hosts_down
	host_ns a
	host_ns b
	host_ns w
	probe bridge
	ip -n w link add br0 mtu "$mtu" type bridge 2>/dev/null || skip_all "no bridge in this kernel"
	ip link add v0 netns a mtu "$mtu" type veth peer name w0 netns w mtu "$mtu" &&
		ip link add v1 netns b mtu "$mtu" type veth peer name w1 netns w mtu "$mtu" ||
		bail "cannot make a veth pair"
	for d in w0 w1 br0; do
		[ $d = br0 ] || ip -n w link set $d master br0
		ip -n w link set $d up
	done
	host_addr a v0 1
	host_addr b v1 2
	hosts_meet ip netns exec a
}

# w's queue towards b, if it is netem's: loss counts as dropped, reordering as requeued
netem_queue() { # dropped|requeues
	tc -n w -s qdisc show dev w1 | sed -n "s/.*[( ]$1 \([0-9]*\).*/\1/p" | head -n 1
}

# For did(): what a has sent comes last, as what is under way is nobody's
netem_counts() {
	echo "$(netem_queue dropped) $(netem_queue requeues)" \
		"$(counter b v1 rx_packets) $(counter a v0 tx_packets)"
}

# shellcheck disable=SC2034 # for the tests
declare -A done_to=([LOSS]=lost [REORDER]=reordered [DUP]=doubled)

# How often netem has done so to a's packets since then; what is both lost and doubled comes once
did() { # LOSS|DUP|REORDER NETEM-COUNTS...
	local then=("${@:2}") now

	read -ra now <<<"$(netem_counts)"
	case $1 in
	LOSS) echo $((now[0] - then[0])) ;;
	REORDER) echo $((now[1] - then[1])) ;;
	DUP) echo $((now[0] - then[0] + now[2] - then[2] - now[3] + then[3])) ;;
	esac
}

# The same without the bridge: what a program of prog/relay.c's does is all that
# connects w0 and w1. What leaves v0 and v1 is single packets with their checksums.
hosts_up_relay() { # [MTU]
	local e

	hosts_up_bridge "$@"
	need ethtool
	for e in "a v0" "b v1"; do
		# shellcheck disable=SC2086 # two words
		ip netns exec ${e% *} ethtool -K ${e#* } tx off >/dev/null 2>&1
		# shellcheck disable=SC2086
		segmentation off $e
	done
	ip -n w link del br0
	relay_wires
}

# What a program in w takes all packets from
relay_wires() {
	local d

	for d in w0 w1; do
		ip -n w link set $d promisc on
		ip -n w link set $d up
	done
}

# Have the stack cut a burst into packets, or let it pass whole.
segmentation() { # on|off NAMESPACE NETDEV...
	local state=$1 ns=$2 d

	shift 2
	need ethtool
	for d; do
		ip netns exec "$ns" ethtool -K "$d" tx-udp-segmentation "$state" >/dev/null ||
			bail "$d: cannot turn UDP segmentation $state"
	done
}

# --- links -------------------------------------------------------------------------

# Links that tests made are called roce0, roce1 ...; others are left alone, as udev's rocep1s0.
links_here() {
	local l

	for l in /sys/class/infiniband/roce[0-9]*; do
		[ ! -e "$l" ] || echo "${l##*/}"
	done
}

links_are() { # LINK...
	[ "$(links_here | tr '\n' ' ')" = "${*:+$* }" ]
}

rdma_add() { # NAMESPACE NAME NETDEV
	if [ -n "$1" ]; then
		ip netns exec "$1" rdma link add "$2" type "$TYPE" netdev "$3" || return
		# in the mode "exclusive", newer kernels have made it in the netdev's namespace
		[ -e "/sys/class/infiniband/$2" ] || ip netns exec "$1" rdma dev set "$2" netns home
	else
		rdma link add "$2" type "$TYPE" netdev "$3"
	fi
}

link_add() { # NAMESPACE NAME NETDEV
	local out

	out=$(rdma_add "$@" 2>&1) || bail "cannot add link $2 on $3: $out; $(dmesg | tail -n 2)"
	wait_for 60 port_active "$2" || bail "port of $2 does not come up"
}

port_active() { # LINK
	grep -q ACTIVE "/sys/class/infiniband/$1/ports/1/state"
}

# Ready for a link of rdma_rxe's in the initial namespace, where it works on every
# kernel, and one of sroce's in b.
rxe_start() {
	[ "$TYPE" = sroce ] || skip_all "the device under test is sroce"
	load_module
	probe rdma_rxe || skip_all "no rdma_rxe in this kernel"
	hosts_down
	defer hosts_down
	host_ns b
}

# rdma_rxe's roce0 in the initial namespace and sroce's roce1 in b, with w between them,
# whose ends of the wires have these names: as in hosts_up_relay.
rxe_relay_up() { # NETDEV towards rdma_rxe, NETDEV towards sroce
	rxe_start
	host_ns w
	ip link add v0 mtu 1500 type veth peer name "$1" netns w mtu 1500 &&
		ip link add v1 netns b mtu 1500 type veth peer name "$2" netns w mtu 1500 ||
		bail "cannot make a veth pair"
	relay_wires
	ip link set v0 up
	ip addr add 192.168.77.1/24 dev v0
	host_addr b v1 2
	rdma link add roce0 type rxe netdev v0 || bail "cannot add an rxe link"
	link_add b roce1 v1
	gid_wait roce0 192.168.77.1
	gid_wait roce1 192.168.77.2
	ethtool -K v0 tx off >/dev/null 2>&1
	ip netns exec b ethtool -K v1 tx off >/dev/null 2>&1
	segmentation off b v1
}

# roce0 is rdma_rxe's; roce1 is sroce's.
rxe_up() {
	local i s

	rxe_start
	ip link add v0 type veth peer name v1 netns b || bail "cannot make a veth pair"
	echo 0 >/proc/sys/net/ipv6/conf/v0/accept_dad
	ip link set v0 up
	ip addr add 192.168.77.1/24 dev v0
	ip addr add fd77::1/64 dev v0 nodad
	host_addr b v1 2
	hosts_meet
	rdma link add roce0 type rxe netdev v0 || bail "cannot add an rxe link"
	link_add b roce1 v1
	for i in 192.168.77 fd77:; do
		s=$([ $i = fd77: ] && echo : || echo .)
		gid_wait roce0 "$i${s}1"
		gid_wait roce1 "$i${s}2"
	done
}

# Both hosts' links: roce0 in a, roce1 in b.
links_up() {
	link_add a roce0 v0
	link_add b roce1 v1
	gid_wait roce0 192.168.77.1
	gid_wait roce1 192.168.77.2
	gid_wait roce0 fd77::1
	gid_wait roce1 fd77::2
}

# One of two machines that are joined by their eth0 (tools/lab/vm -p), each with a link
# there: $me, from $own to $other.
machines_up() {
	case ${LAB_HOST:-} in
	a) me=roce0 own=192.168.77.1 other=192.168.77.2 own6=fd77::1 ;;
	b) me=roce1 own=192.168.77.2 other=192.168.77.1 own6=fd77::2 ;;
	*) skip_all "needs two machines: tools/lab/vm -p -- $0" ;;
	esac
	load_module
	defer "rdma link del $me"
	rdma_add "" $me eth0 || bail "cannot add a link on eth0"
	gid_wait $me $own
	gid_wait $me $own6
	wait_for 60 ping -c 1 -W 5 $other || bail "$other does not answer"
	meet up
}

# Both machines are here.
meet() { # NAME [SECONDS]
	"$REPO/tools/lab/meet" "$(basename "$0" .sh)-$1" "${2:-120}" ||
		bail "the other host does not come to $1"
}

# What most tests begin with: the module, and two hosts with a link each.
two_hosts() { # PROGRAM...
	need_bin "$@"
	load_module
	hosts_up
	links_up
}

# Tests of a program between the two, each in a process of its own.
tests_of() { # PROGRAM TEST...
	local prog=$1 t

	shift
	for t; do
		tap_from "$t" "$BIN/$prog" -d roce0 -D roce1 \
			--down "ip -n b link set v1 down" --up "ip -n b link set v1 up" "$t"
	done
}

# UC and UD are as ordered as what carries them: a veth's two ends share the queue of the
# processor that sends, so all of it stays on one.
in_order() { # COMMAND...
	(
		taskset -pc 0 $BASHPID >/dev/null || exit
		"$@"
	)
}

# The index of the RoCE v2 GID of an address; nothing if there is none.
gid_index() { # LINK ADDRESS [COMMAND by which another runs where the link is]
	"${@:3}" "$BIN/xfer" --show -d "$1" -g "$2" 2>/dev/null | sed -n 's/.*gid_index \([0-9]*\).*/\1/p'
}

has_gid() {
	[ -n "$(gid_index "$1" "$2")" ]
}

gid_wait() { # LINK ADDRESS
	wait_for 60 has_gid "$1" "$2" || bail "$1 gets no GID for $2"
}

# The link-local address of a netdev.
link_local() { # NAMESPACE NETDEV
	ip ${1:+-n "$1"} -6 -o addr show dev "$2" scope link | awk '{ sub("/.*", "", $4); print $4; exit }'
}

# Packets and bytes that a netdev has sent or received: several of one netdev cost one process.
counter() { # NAMESPACE NETDEV tx_packets|tx_bytes|rx_packets|rx_bytes...
	local way all

	all=$(ip -n "$1" -s -j link show dev "$2") || return
	for way in "${@:3}"; do
		[[ $all =~ \"${way%_*}\":\{[^}]*\"${way#*_}\":([0-9]+) ]] || return
		echo "${BASH_REMATCH[1]}"
	done
}

# What a netdev has carried, one way or the other.
carried() { # NAMESPACE NETDEV packets|bytes
	local n

	mapfile -t n < <(counter "$1" "$2" "rx_$3" "tx_$3")
	echo $((n[0] + n[1]))
}

# One of a link's hw_counters; the core shows what it read up to 10 ms ago.
hw_counter() { # LINK COUNTER
	cat "/sys/class/infiniband/$1/ports/1/hw_counters/$2"
}

# Both ends of a transfer in one program, which opens both devices.
xfer() { # ARGS...
	"$BIN/xfer" -d roce0 -D roce1 "$@"
}

# Run a command while tracepoints of sroce are on: what they print, if this kernel can, to a file.
trace_of() { # FILE "TRACEPOINT..." COMMAND...
	local file=$1 points=$2 t=/sys/kernel/tracing p rc

	shift 2
	[ -e $t/trace ] || mount -t tracefs none $t 2>/dev/null
	[ -e "$t/events/sroce/sroce_${points%% *}/enable" ] || return 127
	echo >$t/trace
	for p in $points; do
		echo 1 >"$t/events/sroce/sroce_$p/enable"
	done
	"$@"
	rc=$?
	for p in $points; do
		echo 0 >"$t/events/sroce/sroce_$p/enable"
	done
	cat $t/trace >"$file"
	return $rc
}

# What a netdev has of RoCE while a command runs, in $TMP/cap
capture() { # NAMESPACE TCPDUMP'S-OPTIONS COMMAND...
	local ns=$1 options=$2 pid

	shift 2
	# or the last one's "listening" would do
	rm -f "$TMP/cap" "$TMP/tcpdump"
	# by its own name: a function would be one more process in between
	# shellcheck disable=SC2086 # a list
	ip netns exec "$ns" tcpdump -Z root --immediate-mode -B 16384 $options -U -w "$TMP/cap" \
		udp port 4791 >"$TMP/tcpdump" 2>&1 &
	pid=$!
	wait_for 60 grep -q listening "$TMP/tcpdump" || bail "tcpdump: $(cat "$TMP/tcpdump")"
	"$@"
	wait_for 30 quiet_cap
	# not INT, which a shell's background programs ignore
	kill -TERM $pid
	wait $pid
	! grep "[1-9][0-9]* packets dropped by kernel" "$TMP/tcpdump" || not_ok "tcpdump saw all packets"
}

# There is something in the capture, and nothing was added to it for longer than
# the kernel keeps packets back.
quiet_cap() {
	local n

	n=$(stat -c %s "$TMP/cap")
	sleep 1.2
	[ "$n" -gt 24 ] && [ "$n" = "$(stat -c %s "$TMP/cap")" ]
}

# The path MTU for a netdev's MTU is the port's: 1024 for 1500, 4096 for 9000.
active_mtu() { # LINK
	"$BIN/xfer" --show -d "$1" 2>/dev/null | sed -n 's/.*active_mtu \([0-9]*\).*/\1/p'
}

# ibv_rc_pingpong, or what PINGPONG says, from a to b over the GIDs of two
# addresses; the connection is always made over IPv4. It compares what it
# received, if it can (-c; ibv_xsrq_pingpong's -c is another one).
pingpong() { # ADDRESS_A ADDRESS_B ARGS...
	local prog=${PINGPONG:-ibv_rc_pingpong} ga gb server rc port=$((18515 + RANDOM % 1000))

	ga=$(gid_index roce0 "$1") gb=$(gid_index roce1 "$2")
	[ -n "$ga" ] && [ -n "$gb" ] || { echo "no GID for $1 or $2"; return 1; }
	shift 2
	[ "$prog" = ibv_xsrq_pingpong ] || set -- -c "$@"
	timeout -k 5 120 ip netns exec b "$prog" -d roce1 -g "$gb" -p $port "$@" >"$TMP/server" 2>&1 &
	server=$!
	wait_for 60 server_listens $port $server || { cat "$TMP/server"; return 1; }
	timeout -k 5 120 ip netns exec a "$prog" -d roce0 -g "$ga" -p $port "$@" 192.168.77.2
	rc=$?
	[ $rc = 0 ] || kill $server 2>/dev/null
	wait $server || { rc=$?; echo "server:"; cat "$TMP/server"; }
	if grep -q "invalid data" "$TMP/server"; then
		cat "$TMP/server"
		rc=1
	fi
	return $rc
}

# perftest's PROGRAM from one host to the other, after perf_ends. Both sides'
# output, and whether both were content.
# shellcheck disable=SC2086 # a command and its arguments
perf() { # PROGRAM ARGS...
	local prog=$1 server rc port=$((18515 + RANDOM % 1000))

	shift
	timeout -k 5 120 $perf_server $prog -F -d $perf_server_dev -x $perf_server_gid -p $port "$@" \
		>"$TMP/server" 2>&1 &
	server=$!
	wait_for 60 server_listens $port $server || { cat "$TMP/server"; return 1; }
	timeout -k 5 120 $perf_client $prog -F -d $perf_client_dev -x $perf_client_gid -p $port "$@" \
		$perf_host >"$TMP/client" 2>&1
	rc=$?
	[ $rc = 0 ] || { echo "client: status $rc"; kill $server 2>/dev/null; }
	wait $server || { echo "server: status $?"; rc=1; cat "$TMP/server"; }
	cat "$TMP/client"
	# it prints a line of figures at the end, and complaints without failing
	grep -q '^ *[0-9][0-9]*  *[0-9][0-9]*  ' "$TMP/client" || rc=1
	! grep -i "error\|failed\|couldn't\|unable" "$TMP/server" "$TMP/client" || rc=1
	return $rc
}

# Which host serves: 'NAMESPACE LINK ADDRESS' of server and client, - for no namespace
# shellcheck disable=SC2086 # three words each
perf_ends() { # SERVER CLIENT
	set -- $1 $2
	perf_server=$([ $1 = - ] || echo "ip netns exec $1")
	perf_client=$([ $4 = - ] || echo "ip netns exec $4")
	perf_server_dev=$2 perf_client_dev=$5 perf_host=$3
	perf_server_gid=$(gid_index $2 $3) perf_client_gid=$(gid_index $5 $6)
}

# Whether somebody listens on a TCP port where the child of timeout is, or timeout has ended. Asked
# again and again: no process is begun for it.
server_listens() { # PORT PID
	local child='' port lines=()

	# there is no end of line in it
	read -r child _ 2>/dev/null <"/proc/$2/task/$2/children" || [ -n "$child" ] ||
		child=$(pgrep -o -P "$2")
	kill -0 "$2" 2>/dev/null || return 0
	[ -n "$child" ] || return
	mapfile -t lines 2>/dev/null <"/proc/$child/net/tcp"
	mapfile -t -O ${#lines[@]} lines 2>/dev/null <"/proc/$child/net/tcp6"
	printf -v port :%04X "$1"
	[[ ${lines[*]} =~ $port\ [0-9A-F]+:0000\ 0A ]]
}

# --- RDMA CM -----------------------------------------------------------------------

# Two hosts for its programs.
cm_hosts() {
	need ss
	probe rdma_ucm || skip_all "no rdma_ucm in this kernel"
	load_module
	hosts_up
	links_up
	[ -e /dev/infiniband/rdma_cm ] || skip_all "no /dev/infiniband/rdma_cm"
}

# Where a listener and its callers are; - is the initial namespace
cm_server=b
cm_client=a

# By what a command runs on a host, if by anything
host_by() { # NAMESPACE
	[ "$1" = - ] || echo "ip netns exec $1"
}

server=
# A server, until it listens on that port by RDMA CM, or by TCP to arrange the rest
serve() { # PORT COMMAND...
	local port=$1

	shift
	# shellcheck disable=SC2046 # a command
	timeout -k 5 $((120 * ${RUN_PATIENCE:-1})) $(host_by $cm_server) "$@" >"$TMP/server" 2>&1 </dev/null &
	server=$!
	wait_for 30 listens "$port" || { cat "$TMP/server"; return 1; }
	# rdma_listen() says LISTEN before a call would be let in; but a server that polls never sleeps
	wait_for 2 asleep "$server" || true
}

# shellcheck disable=SC2046 # a command
listens() { # PORT
	# in the mode "exclusive", the device may be where the server is
	{ rdma resource show cm_id; $(host_by $cm_server) rdma resource show cm_id; } 2>/dev/null |
		grep "state LISTEN" | grep -q ":$1 " ||
		ss -Hltn $([ $cm_server = - ] || echo "-N $cm_server") "sport = :$1" | grep -q .
}

asleep() { # PID of timeout
	ps -o stat= --ppid "$1" | grep -q '^S'
}

# A client and its server: both end well.
pair() { # PORT SERVER-COMMAND -- CLIENT-COMMAND
	client_and_server '' "$@"
}

# A client of a server that never ends
call() { # PORT SERVER-COMMAND -- CLIENT-COMMAND
	client_and_server stays "$@"
}

client_and_server() { # [stays] PORT SERVER-COMMAND -- CLIENT-COMMAND
	local stays=$1 port=$2 cmd=() rc

	shift 2
	while [ "$1" != -- ]; do
		cmd+=("$1")
		shift
	done
	shift
	serve "$port" "${cmd[@]}" || return 1
	# shellcheck disable=SC2046 # a command
	timeout -k 5 $((120 * ${RUN_PATIENCE:-1})) $(host_by $cm_client) "$@"
	rc=$?
	if [ "$stays" ]; then
		kill "$server" || { rc=1; cat "$TMP/server"; }
		wait_pid 60 "$server"
		return $rc
	fi
	[ $rc = 0 ] || kill "$server" 2>/dev/null
	wait_pid 60 "$server" || { rc=$?; echo "server: status $rc"; cat "$TMP/server"; }
	return $rc
}

# xfer as two programs
two_programs() { # SERVER'S LINK GID ADDRESS CLIENT'S LINK GID ARGS...
	local port=$((18515 + RANDOM % 1000)) server_link=$1 server_gid=$2 ip=$3 link=$4 gid=$5

	shift 5
	pair $port "$BIN/xfer" -d "$server_link" -g "$server_gid" -p $port -l "$@" -- \
		"$BIN/xfer" -d "$link" -g "$gid" -p $port -c "$ip" "$@"
}

# The one in b, the other in a
two_xfers() { # ARGS...
	two_programs roce1 192.168.77.2 192.168.77.2 roce0 192.168.77.1 "$@"
}

# perftest's TOOL between two links. It arranges things by TCP first, and then its client may
# call before its server listens.
cm_perftest() { # SERVER-LINK CLIENT-LINK SERVER-ADDRESS TOOL ARGS...
	local server_link=$1 client_link=$2 ip=$3 tool=$4 port rc

	shift 4
	for _ in 1 2 3; do
		port=$((18600 + RANDOM % 1000))
		pair $port "$tool" -R -F -d "$server_link" -p $port "$@" -- \
			"$tool" -R -F -d "$client_link" -p $port "$@" "$ip" >"$TMP/perftest" 2>&1
		rc=$?
		grep -q "REJECTED; error: 8" "$TMP/perftest" || break
	done
	cat "$TMP/perftest"
	return $rc
}

# One ping-pong over v0 and v1: it succeeds, and its bytes crossed the veth.
pingpong_test() { # NAME SIZE ITERATIONS ADDRESS_A ADDRESS_B ARGS...
	local name=$1 size=$2 n=$3 a=$4 b=$5 was is

	shift 5
	mapfile -t was < <(counter a v0 tx_bytes rx_bytes)
	run "$name" pingpong "$a" "$b" -s "$size" -n "$n" "$@" || return
	mapfile -t is < <(counter a v0 tx_bytes rx_bytes)
	if [ $((is[0] - was[0])) -lt $((size * n)) ] || [ $((is[1] - was[1])) -lt $((size * n)) ]; then
		not_ok "$name: over the wire"
		diag "$n times $size bytes, but v0 sent $((is[0] - was[0])) and received $((is[1] - was[1]))"
	fi
}

# What the pingpong/ tests do, for one kind of address.
pingpong_suite() { # ADDRESS_A ADDRESS_B
	local a=$1 b=$2 mtu pmtu size n mode sizes

	for mtu in 1500 9000; do
		ip -n a link set v0 mtu $mtu
		ip -n b link set v1 mtu $mtu
		pmtu=$([ $mtu = 1500 ] && echo 1024 || echo 4096)
		is "$(active_mtu roce0)" $pmtu "MTU $mtu: active_mtu"
		sizes="1 64 $((pmtu - 1)) $pmtu $((pmtu + 1)) 65536 1048576"
		# what differs by family are the headers: a packet that they fill, and a burst
		[[ $a != *:* ]] || sizes="1 $pmtu 65536"
		[ -z "$LONG" ] || sizes="$sizes 2 3 4 5 255 257 4096 16384 65535 262144"
		for size in $sizes; do
			n=$((size > 100000 ? 5 : size > 10000 ? 30 : 100))
			[ -z "$LONG" ] || n=$((n * 10))
			for mode in "" -e; do
				# shellcheck disable=SC2086 # a list
				pingpong_test "MTU $mtu, $size bytes, $([ -n "$mode" ] && echo events || echo polling)" \
					$size $n "$a" "$b" -m $pmtu $mode
			done
		done
	done
	# a path MTU less than the ports'
	pingpong_test "path MTU 256, 65536 bytes" 65536 10 "$a" "$b" -m 256
}

# Wait for a child, but not for ever.
wait_pid() { # SECONDS PID; the child's status, or 124
	local end=$((SECONDS + $1))

	while kill -0 "$2" 2>/dev/null; do
		if [ $SECONDS -ge $end ]; then
			return 124
		fi
		sleep 0.1
	done
	wait "$2"
}

# --- multicast -----------------------------------------------------------------------

joined() { # FILE
	grep -q "joined dgid" "$1"
}

# From a sender to a receiver, each bound to its address
multicast() { # SENDER'S-HOST ADDRESS RECEIVER'S-HOST ADDRESS OPTIONS...
	local from=$1 src=$2 to=$3 dst=$4 group=239.77.0.1 receiver

	shift 4
	timeout -k 5 60 ip netns exec "$to" stdbuf -oL mckey -m $group -b "$dst" -C 10 -S 500 \
		>"$TMP/mckey" 2>&1 </dev/null &
	receiver=$!
	wait_for 30 joined "$TMP/mckey" || { cat "$TMP/mckey"; return 1; }
	timeout -k 5 60 ip netns exec "$from" mckey -m $group -b "$src" -C 10 -S 500 -s "$@" || return 1
	wait_pid 60 $receiver || { cat "$TMP/mckey"; return 1; }
}
