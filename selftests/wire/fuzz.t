#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#
# The parser and the reader of gap reports under a coverage-guided fuzzer, for
# FUZZ_SECONDS (20), from the packets of vectors.txt and some reports. To know
# that it finds what it looks for, it is then let loose on copies of wire/ with
# a fault in each, and has to find those.
# lab: timeout 600

. "$(dirname "$0")/wire.sh"

SECONDS_MAX=${FUZZ_SECONDS:-20}
# they are found in less than one
PLANTED_MAX=60
CLANG=${CLANG:-clang}
FUZZ="-fsanitize=fuzzer,address,undefined -fno-sanitize-recover=all"
# the longest header, some payload, and the length in front; or BTH, a report
# that is too long by one gap, and that length
MAX_LEN=152

command -v "$CLANG" >/dev/null || skip_all "needs clang with libFuzzer"
# shellcheck disable=SC2086 # lists
need_cc "$CLANG" $FUZZ

DIR=$OUT/fuzz
rm -rf "$DIR"
mkdir -p "$DIR/seeds" "$DIR/corpus" || bail "cannot make $DIR"

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

show() { # FILE
	tail -n 40 "$1" | cut -c1-160 | sed 's/^/# /'
}

# From the BTH on, behind the two bytes of additional length.
make_seeds() {
	local name hex bth num i=0

	while IFS=$'\t' read -r name _ _ hex; do
		case $name in
		"#"* | roce1-*) continue ;;
		esac
		case $hex in
		4*) bth=56 ;;	# hex digits of IPv4 and UDP
		*) bth=96 ;;
		esac
		i=$((i + 1))
		printf '%b' "$(printf '0000%s' "${hex:$bth}" | sed 's/../\\x&/g')" >"$DIR/seeds/$i"
	done <"$HERE/vectors.txt"
	[ $i -gt 100 ] || bail "no seeds"
	for num in 1 2 3 31 32; do
		i=$((i + 1))
		printf '%b' "$(printf '0000%s' "$(report $num)" | sed 's/../\\x&/g')" >"$DIR/seeds/$i"
	done
	echo "# $i seeds"
}

# One gap more than there may be is refused as it is.
report() { # GAPS
	local i

	printf 'd1400000000000000000000073726f63'
	for ((i = 0; i < $1; i++)); do
		printf '%04x0001' $((2 * i))
	done
	printf '%04x0000' $((2 * i))
}

build() { # OUTPUT WIRE FLAGS...
	local out=$1 wire=$2

	shift 2
	compile "$CLANG" "$out" "$@" -I"$wire" -I"$HERE" "$HERE/fuzz.c" "$wire"/*.c
}

fuzz() { # PROGRAM LOG SECONDS CORPUS...; what it finds is called PROGRAM-crash-...
	local program=$1 log=$2 seconds=$3

	shift 3
	"$program" -max_total_time="$seconds" -max_len=$MAX_LEN -timeout=10 -rss_limit_mb=1024 \
		-print_final_stats=1 -artifact_prefix="$program-" "$@" >"$log" 2>&1
}

# What of both the corpus reached, by line; libFuzzer counts edges of the test's
# own code too.
coverage() {
	local profdata cov lines suffix

	for suffix in "" -14 -13 -15 -16 -17 -18 -19; do
		profdata=llvm-profdata$suffix
		cov=llvm-cov$suffix
		command -v "$profdata" >/dev/null && command -v "$cov" >/dev/null && break
		cov=
	done
	[ -n "$cov" ] || return 0
	build "$DIR/cov" "$WIRE" -fsanitize=fuzzer -fprofile-instr-generate -fcoverage-mapping 2>/dev/null ||
		return 0
	LLVM_PROFILE_FILE=$DIR/profraw "$DIR/cov" -runs=0 "$DIR/corpus" "$DIR/seeds" >/dev/null 2>&1
	"$profdata" merge -o "$DIR/profdata" "$DIR/profraw" 2>/dev/null || return 0
	lines=$("$cov" report "$DIR/cov" -instr-profile="$DIR/profdata" "$WIRE/parse.c" \
		"$WIRE/gaps.c" 2>/dev/null |
		awk '/^TOTAL/ { print $(NF - 3), "lines and", $NF, "branches" }')
	echo "# coverage of parse.c and gaps.c: $lines"
}

fuzz_parser() {
	local log=$DIR/log rc

	# shellcheck disable=SC2086 # lists
	build "$DIR/fuzz" "$WIRE" $FUZZ || bail "cannot build the fuzzer"
	fuzz "$DIR/fuzz" "$log" "$SECONDS_MAX" "$DIR/corpus" "$DIR/seeds"
	rc=$?
	result $rc "wire_parse and wire_gaps_get survive $SECONDS_MAX s of fuzzing, and are right"
	if [ $rc != 0 ]; then
		echo "# to see it again: $DIR/fuzz and the file it names below"
		show "$log"
		return
	fi
	awk '$2 ~ /^(DONE|RELOAD|REDUCE|NEW|pulse|INITED)$/ { last = $0 }
		END { print "# " last }' "$log"
	awk '/^stat::number_of_executed_units|^stat::average_exec_per_sec/ { print "# " $0 }' "$log"
	awk '/^stat::number_of_executed_units/ { n = $2 } END { exit n < 10000 }' "$log"
	result $? "it did run: 10000 packets at least"
	coverage
}

# A copy of wire/ with FILE changed by SED. The fuzzer has to notice, and to
# say what matches REGEX.
plant() { # NAME FILE SED REGEX
	local name=$1 file=$2 sed=$3 regex=$4 dir log rc

	dir=$DIR/planted
	log=$DIR/planted.log
	rm -rf "$dir"
	mkdir "$dir" || bail "cannot make $dir"
	cp "$WIRE"/*.c "$WIRE"/*.h "$dir" || bail "cannot copy wire/"
	sed -i "$sed" "$dir/$file"
	if cmp -s "$dir/$file" "$WIRE/$file"; then
		result 1 "planted: $name"
		echo "# $file has changed: give this fault another sed expression"
		return
	fi
	# shellcheck disable=SC2086 # lists
	if ! build "$DIR/planted.fuzz" "$dir" $FUZZ 2>"$log"; then
		result 1 "planted: $name"
		show "$log"
		return
	fi
	mkdir -p "$DIR/planted.corpus"
	fuzz "$DIR/planted.fuzz" "$log" "$PLANTED_MAX" "$DIR/planted.corpus" "$DIR/seeds"
	rc=$?
	rm -rf "$DIR/planted.corpus"
	# 0: time is up and nothing was found
	if [ $rc != 0 ] && grep -q "$regex" "$log"; then
		result 0 "planted, and found: $name"
		grep -m1 "$regex" "$log" | cut -c1-100 | sed 's/^/# /'
	else
		result 1 "planted, and found: $name"
		show "$log"
	fi
}

make_seeds
fuzz_parser
plant "a byte is read before it is known to be there" parse.c \
	's/if (len < WIRE_BTH_LEN/if ((*(const volatile __u8 *)(hdr + WIRE_BTH_PSN), len) < WIRE_BTH_LEN/' \
	"AddressSanitizer: heap-buffer-overflow"
plant "headers are read before their length is known" parse.c \
	'/len < (__u32)op->hdr_len + WIRE_ICRC_LEN/,+1d' \
	"INVARIANT: v == want\|AddressSanitizer: heap-buffer-overflow"
plant "room for the headers, none for the ICRC" parse.c \
	's/len < (__u32)op->hdr_len + WIRE_ICRC_LEN/len < (__u32)op->hdr_len/' "INVARIANT: v == want"
plant "padding and no payload" parse.c \
	's/rest < pkt->pad/pkt->pad == 1 \&\& rest < pkt->pad/' "INVARIANT: v == want"
plant "half of the version is looked at" roce.h \
	's/\(WIRE_BTH_TVER_MASK.*\)0x0f/\10x07/' "INVARIANT: v == want"
plant "lengths that are not whole words" parse.c 's/ || len % 4)/)/' "INVARIANT: v == want"
plant "a wrong offset behind the RETH" parse.c \
	's/p += WIRE_RETH_LEN/p += WIRE_RETH_LEN - 4/' "INVARIANT: !field"
plant "payload behind a READ request" opcode.c \
	's/\(WIRE_CLASS_READ, (x) | ONLY | WIRE_RETH\)/\1 | WIRE_PAYLOAD/' "INVARIANT: v == want"
plant "a field left from the packet before" parse.c '/\*pkt = empty;/d' "INVARIANT: "
plant "one gap more than there is room for" gaps.c \
	's/len > WIRE_GAPS_MAX_LEN/len > WIRE_GAPS_MAX_LEN + 4/' \
	"INVARIANT: rc ==\|runtime error: index 31\|AddressSanitizer: heap-buffer-overflow"
plant "gaps that touch" gaps.c 's/gap->first <= behind/gap->first < behind/' "INVARIANT: rc =="
plant "a gap that goes on at 0" gaps.c \
	's/behind = (__u32)gap->first + gap->num/behind = (__u16)(gap->first + gap->num)/' \
	"INVARIANT: rc =="
plant "an end at a gap" gaps.c 's/gaps->end <= behind/gaps->end < behind/' "INVARIANT: rc =="
plant "nothing came twice" gaps.c 's/gaps->twice = wire_get16(p + 2)/gaps->twice = 0/' "INVARIANT: "
echo "1..$n"
exit $failed
