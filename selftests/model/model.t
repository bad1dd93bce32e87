#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
# lab: timeout 600
#
# The requester and the responder, as a model, against random loss, doubling,
# reordering and delay: MODEL_SCHEDULES of them (100000; with LONG, 1000000). To
# know that it finds what it looks for, rules are then broken one by one, and
# each has to be missed within PLANTED_MAX schedules.
#
# A schedule that fails is shown again by build/selftests/model/model -s NUMBER -v.

. "$(dirname "$0")/../wire/wire.sh"

HERE=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
OUT=$REPO/build/selftests/model
# shellcheck disable=SC2034 # of wire.sh
FLAGS="-std=gnu11 -g -Wall -Wextra -Wmissing-prototypes -Wstrict-prototypes"
SCHEDULES=${MODEL_SCHEDULES:-${LONG:+1000000}}
SCHEDULES=${SCHEDULES:-100000}
SANITIZED_MAX=10000
PLANTED_MAX=200000

# shellcheck disable=SC2086 # lists
need_cc "$CC" $SAN
n=0
failed=0

result() { # STATUS NAME
	n=$((n + 1))
	if [ "$1" = 0 ]; then
		echo "ok $n - $2"
	else
		echo "not ok $n - $2"
		failed=1
	fi
}

build() { # OUTPUT MODEL WIRE FLAGS...
	local out=$1 model=$2 wire=$3

	shift 3
	compile "$CC" "$out" "$@" -I"$wire" -I"$model" "$model"/*.c "$wire"/*.c
}

# What the schedules were like: each rule was needed, and most ended well.
went_everywhere() { # LOG
	awk '$2 == "ended" { ends[$3] = $4; all += $4 }
		$2 == "seen" { rules++; if (!$4) { print "# never seen: " $3; bad = 1 } }
		END {
			if (ends["success"] < 0.7 * all || !ends["RETRY_EXC_ERR"] ||
			    !ends["RNR_RETRY_EXC_ERR"] || !ends["REM_ACCESS_ERR"])
				bad = 1
			exit bad || rules < 20
		}' "$1"
}

run_model() {
	local log=$OUT/log start=$SECONDS progress=()

	[ -z "${LONG:-}" ] || progress=(-p)
	build "$OUT/model" "$HERE" "$WIRE" -O2 || bail "cannot build the model"
	"$OUT/model" "${progress[@]}" -n "$SCHEDULES" >"$log"
	result $? "each of $SCHEDULES schedules ends as it should"
	echo "# $((SECONDS - start)) s"
	sed 's/^SCHEDULE/# SCHEDULE/' "$log"
	went_everywhere "$log"
	result $? "they went everywhere"
}

run_sanitized() {
	# shellcheck disable=SC2086 # lists
	build "$OUT/model.san" "$HERE" "$WIRE" -O1 $SAN || bail "cannot build the model"
	"$OUT/model.san" -n $SANITIZED_MAX >"$OUT/log.san" 2>&1
	result $? "$SANITIZED_MAX of them under the sanitizers"
	grep -v '^# ' "$OUT/log.san" | head -n 40 | sed 's/^/# /'
}

# A copy of the model or of wire/ with FILE changed by SED, which has to matter.
plant() { # NAME FILES SED
	local name=$1 file=$2 sed=$3 f dir=$OUT/planted log=$OUT/planted.log rc

	rm -rf "$dir"
	mkdir "$dir" || bail "cannot make $dir"
	cp "$HERE"/*.[ch] "$WIRE"/*.[ch] "$dir" || bail "cannot copy the model"
	for f in $file; do
		cp "$dir/$f" "$OUT/before"
		sed -i "$sed" "$dir/$f"
		if cmp -s "$dir/$f" "$OUT/before"; then
			result 1 "planted: $name"
			echo "# $f has changed: give this fault another sed expression"
			return
		fi
	done
	if ! compile "$CC" "$OUT/model.planted" -O1 -w -I"$dir" "$dir"/*.c 2>"$log"; then
		result 1 "planted: $name"
		head -n 20 "$log" | sed 's/^/# /'
		return
	fi
	timeout 100 "$OUT/model.planted" -n $PLANTED_MAX >"$log" 2>&1
	rc=$?
	[ $rc = 1 ] && grep -q '^SCHEDULE' "$log"
	result $? "planted, and found: $name"
	grep '^SCHEDULE' "$log" | cut -c1-120 | sed 's/^/# /'
}

mkdir -p "$OUT" || bail "cannot make $OUT"
run_model
run_sanitized
plant "an ATOMIC that comes again is executed again" responder.c \
	's/^\tgive_again(res, k, end);/&\n\tif (res->class == WIRE_CLASS_ATOMIC)\n\t\tatomic_op(w.mem + (pkt->va - w.va), pkt);/'
plant "its result is what is there by then" responder.c \
	's/^\tgive_again(res, k, end);/&\n\tif (res->class == WIRE_CLASS_ATOMIC)\n\t\tmemcpy(\&res->orig, w.mem + (pkt->va - w.va), 8);/'
plant "a request is taken before its turn" responder.c 's/ahead > 0/ahead > 1/'
plant "a SEND that comes again is delivered again" responder.c 's/ahead < 0/ahead < -1/'
plant "a READ's response is taken before its turn" completer.c \
	's/if (sq->psn_una != psn)$/if (wire_psn_diff(psn, sq->psn_una) > 1)/'
plant "an acknowledgement goes past a READ without its response" completer.c \
	's/if (!sq->num_rd)$/if (1)/'
plant "an acknowledgement that was put off is not asked for" requester.c '/^\task_late(turn);/d'
plant "a probe costs a retry" requester.c 's/^\tr->probes++;/&\n\tsq->retry_left -= !!sq->retry_left;/'
plant "retries are never given back" requester.c '/sq->retry_left = (u8)w.plan.retry_cnt;/s/=/= sq->retry_left ?:/'
plant "RNR for ever has an end" completer.c 's/w.plan.rnr_retry != 7/1/'
plant "what is held back stays so" requester.c '/^void repair_forget/,/^}/s/r->hold = false;//'
plant "a fence holds nothing back" requester.c 's/w.msg\[sq->nxt\].fence && sq->num_rd/0/'
plant "PSNs do not wrap" psn.h 's/(__s32)((a - b) << 8) >> 8/(__s32)(a - b)/'
plant "more is kept than may be" keep.c '/bytes > kept->max_bytes - kept->bytes/,+1d'
plant "the rest of an skb is kept for nothing" keep.c \
	'/^void kept_take/,/^}/s/pass_charge(late, next)/uncharge(kept, late)/'
plant "the ICRC leaves out the PSN" icrc.c 's/return put_bytes(p, bth + WIRE_BTH_DQPN, /return put_ones(p, /'
plant "who asks anew while an answer leaves gets no other" responder.c \
	'/if (done->next == res->num_pkts)/,+1d'
plant "what was acknowledged is in flight, behind a READ" requester.c \
	's/^\tif (sq->flight)$/\tif (sq->flight \&\& sq->nxt == sq->una)/'
# seldom by itself: a gap that is taken for new each time is cut oftener
plant "of a READ that has not arrived, a part is asked for" "requester.c sweep.c" \
	's/if (known) {/if (0) {/; s/} else if (old.num \&\&/} else if (0 \&\&/; s/!sq->sweep.implied && swqe_op/0 \&\& swqe_op/; s/sq->sweep.implied && swqe_op(sq->nxt)->kind == SEND_READ/swqe_op(sq->nxt)->kind == SEND_READ/'
plant "a report of what is missing acknowledges it" completer.c \
	's/^\t\tgaps_report(rx);/\t\tack_advance(wire_psn_add(pkt->psn, 1));/'
plant "a READ ends with what is wrong with the request behind it" completer.c \
	'/^static void nak_fatal/,/^}/s/if (early)/if (0)/'
plant "a request that is missing is sent again as a part of it" requester.c \
	'/^static enum send_result sweep_request/,/^}/s/sweep->implied = false;/sweep->implied = true;/'
plant "what follows a part of a READ is sent as one" requester.c \
	'/^static enum send_result send_missing/,/^}/s/^\tturn->read_len = 0;$//'
plant "a part of a READ is longer than what is missing" requester.c \
	'/^static enum send_result send_missing/,/^}/s/psn) \* MTU/& + MTU/'
plant "of a READ request that may not have come, a part is asked for" requester.c \
	's/if (known && sq->repair.probes/if (sq->repair.probes/'
plant "a READ's next request begins within one" requester.c \
	's/return (u8)(k ? min(part, (u32)__builtin_ctz(k)) : part);/return (u8)part;/'
plant "READs in parts take more than there is" requester.c \
	's/if (!again && sq->num_rd >= w.plan.max_rd)/if (0)/'
plant "a gap that a turn does not end begins where it did" requester.c \
	'/^static void swept_gap/,/^}/s/gap->psn = sq->psn_nxt;//'
plant "what a sweep could not send is nobody's" requester.c \
	'/^static enum send_result send_gaps/,/^}/s/sweep->due |= gap->due;/sweep->due |= gap->due \&\& res == SENT;/'
plant "parts of a READ that a turn did not get to count as sent" requester.c \
	's/if (i < looked)$/if (1)/'
plant "reports that end now here, now there, are news" sweep.c \
	's/if (!implied && wire_psn_diff(end, old.end) > 0)/if (1)/'
plant "NAKs of now this request, now that, are news" sweep.c \
	's/wire_psn_diff(psn, request->psn) <= 0/psn == request->psn/'
plant "what is on its way is taken for overtaken" sweep.c \
	's/return wait && wire_psn_diff(sq->sweep.newest, behind) > OVERTAKEN &&/return 1 ||/'
plant "the newest that has come falls behind" sweep.c \
	'/if (wire_psn_diff(sweep->newest, sq->psn_una) < 0)/,+1d'
# seldom by itself, as few schedules are long enough to learn that
plant "nobody comes for what is held" sweep.c '/^void gaps_await/,/^}/s/if (gap/if (0 \&\& gap/'
plant "what is held next waits for a probe" requester.c \
	'/^static void repair_arm/,/^}/s/gaps_await();//'
plant "a probe comes for what is held" requester.c 's/ || gaps_release(now))/)/'
plant "what is held is so for ever" sweep.c \
	'/^static bool overdue/,/^}/s/return now >= gap->sent.*/return false;/'
echo "1..$n"
exit $failed
