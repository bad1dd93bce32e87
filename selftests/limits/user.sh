#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#
# What the administrator bounds is bound: rdma's and memory's cgroup, RLIMIT_MEMLOCK. And what
# a user may not have, nor one who is root in a container alone.
# lab: timeout 900
# lab: one-cpu

. "$(dirname "$0")/../lib.sh"

need setpriv prlimit unshare
two_hosts limits
probe udmabuf || true

# Another than root, with no capability
user() { # COMMAND...
	setpriv --reuid 65534 --regid 65534 --clear-groups --inh-caps=-all "$@"
}

limits() { # TEST
	"$BIN/limits" -d roce0 -D roce1 "$@"
}

cgroups=/sys/fs/cgroup
cg=$cgroups/sroce.$$

in_cgroup() { # COMMAND...
	CGROUP=$cg sh -c "echo \$\$ >$cg/cgroup.procs; exec \"\$@\"" - "$@"
}

# Of the links that a cgroup's rdma.current names, what is not zero
still_charged() {
	grep -o 'hca_[a-z]*=[1-9][0-9]*' "$cg/rdma.current"
}

for c in rdma memory; do
	[ -e $cgroups/cgroup.controllers ] || mount -t cgroup2 cgroup $cgroups 2>/dev/null
	t=$([ $c = rdma ] && echo quota || echo memory)
	if ! grep -qw $c $cgroups/cgroup.controllers 2>/dev/null ||
		! echo +$c >$cgroups/cgroup.subtree_control || ! mkdir -p $cg; then
		skip "$t" "no cgroup controller for $c"
		continue
	fi
	defer "rmdir $cg"
	if [ $c = rdma ]; then
		echo "roce0 hca_handle=3 hca_object=60" >$cg/rdma.max || bail "rdma.max"
		export QUOTA_HANDLES=3 QUOTA_OBJECTS=60
		wait_for 30 test -s $cg/rdma.max
	fi
	for t in $t $([ $c = rdma ] || echo memory_on_demand memory_numbers); do
		tap_from "$t" in_cgroup "$BIN/limits" -d roce0 -D roce1 "$t"
	done
	if [ $c = rdma ]; then
		is "$(still_charged)" "" "nothing is charged any more"
		echo "roce0 hca_handle=max hca_object=max" >$cg/rdma.max || bail "rdma.max"
	fi
done

tap_from "memlock, a user" user prlimit --memlock=1048576:1048576 "$BIN/limits" -d roce0 memlock
# who may open another driver's buffers, too
tap_from "memlock, root without CAP_IPC_LOCK" \
	setpriv --bounding-set=-ipc_lock --inh-caps=-ipc_lock prlimit --memlock=1048576:1048576 \
	"$BIN/limits" -d roce0 memlock
refused "not a byte is pinned with a limit of 0" "ot permitted|annot allocate" \
	user prlimit --memlock=0:0 "$BIN/xfer" -d roce0 -n 1

tap_from "a user" limits nobody
if user unshare -Urn true 2>"$TMP/unshare"; then
	CONTAINER=1 tap_from "root of a container" limits nobody
else
	skip "root of a container" "$(cat "$TMP/unshare")"
fi

# What a program is using meanwhile has keys.
"$BIN/xfer" -d roce0 -D roce1 -n 0 -e --pause 100 >"$TMP/beside" 2>&1 &
beside=$!
told() { # WORD COMMAND by which rdma runs...
	local word=$1

	shift
	"$@" rdma -d resource show mr 2>&1 | grep "dev roce0" | grep -c "$word"
}
has_regions() {
	[ "$(told mrn env)" -gt 0 ]
}
wait_for 60 has_regions || bail "no regions: $(cat "$TMP/beside"; rdma -d resource show mr 2>&1)"
regions=$(told mrn env)
is "$(told rkey env)" "$regions" "the administrator is told keys"

# rdma's netlink asks for CAP_NET_ADMIN of the initial user namespace (netlink_capable())
for by in "user" "user unshare -Urn" "unshare -Urn"; do
	who=${by:-}
	$by true 2>/dev/null || { skip "$who" "no user namespaces"; continue; }
	for what in "link add roce9 type sroce netdev lo" "link del roce0" \
		"dev set roce0 name roce9" "system set netns exclusive"; do
		# shellcheck disable=SC2086 # lists
		refused "$who: no rdma $what" "ot permitted" $by rdma $what
	done
	# shellcheck disable=SC2086
	is "$(told mrn $by)" "$regions" "$who: is told of all regions"
	# shellcheck disable=SC2086
	is "$(told rkey $by)" 0 "$who: but no key"
done
kill -INT $beside
wait_pid 60 $beside
is $? 0 "a program beside them was not disturbed" || diag "$(tail -n 20 "$TMP/beside")"
run "the links are what they were" limits promised
done_testing
