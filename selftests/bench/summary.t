#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#
# The summary of bench: medians, spread, ratios, floors, and what was not measured.

. "$(dirname "$0")/../lib.sh"

bench=$REPO/tools/bench

cat >"$TMP/lines" <<-EOT
	# NAME SETS MTU UNIT FLOORS COMMAND
	bw     q    1500 MB/s rxe:6,tcp:1.3,siw   x
	bw     q    4200 MB/s rxe:3               x
	lat    q    1500 us   rxe:0.8             x
	many   q    1500 MB/s =bw:0.8             x
	free   q    1500 1/s  siw                 x
	rate   n    1500 MB/s 125:0.7             x
	tail   n    1500 us   /p99.9=lat:20       x
EOT

# WHERE LINE MTU CONTENDER UNIT VALUES..., a round each; - with no reason of ours
results() {
	local where=$1 line=$2 mtu=$3 who=$4 unit=$5 round=0 v

	shift 5
	for v; do
		round=$((round + 1))
		printf '%s\t1.2.3\t%s\t%s\t%s\t%d\t%s\t%s\t%s\n' "$where" "$line" "$mtu" "$who" $round "$unit" "$v" \
			"$([ "$v" != - ] || echo "out of order")" >>"$TMP/results"
	done
}

echo "# date	today" >"$TMP/results"
results native bw 1500 sroce MB/s 700 500 9000
results native bw 1500 rxe MB/s 100 100
results native bw 1500 tcp MB/s 600
results native bw 4200 sroce MB/s 290
results native bw 4200 rxe MB/s 100
results native lat 1500 sroce us 8 10
results native lat 1500 rxe us 10
results native many 1500 sroce MB/s 560
results native free 1500 sroce 1/s 5
results native free 1500 siw 1/s - -
results native free/cpu 1500 sroce us/msg 2
results native free/cpu 1500 rxe us/msg 4
results native two/cpu 1500 sroce us/msg -1 3
results native two/cpu 1500 rxe us/msg 0 -0.004
results native rate 1500 sroce MB/s 80
results native tail 1500 sroce us 9
results native tail/p99.9 1500 sroce us 181
results vm bw 1500 sroce MB/s 1000
results vm bw 1500 rxe MB/s 100
results vm lat 1500 sroce us 11
results vm lat 1500 rxe us 10
results vm many 1500 sroce MB/s - 7
results vm bw 4200 sroce MB/s -

summary() { # FORM
	awk -v form="$1" -f "$bench/summary.awk" "$TMP/lines" "$TMP/results"
}

has() { # REGEX NAME; of one line, which has single spaces
	if grep -Eq "^$1\$" "$TMP/out"; then
		ok "$2"
	else
		not_ok "$2"
		diag "want: $1"
		diag "$(cat "$TMP/out")"
	fi
}

summary text | sed 's/  */ /g' >"$TMP/out"
has 'native, Linux 1.2.3, 3 rounds: .*' "a machine has its heading"
has 'bw 1500 MB/s 700.0 607% 100.0 0% 600.0 rxe 7.00 >= 6 reached; tcp 1.17 >= 1.3 MISSED' \
	"a median, its spread, floors"
has 'bw 4200 MB/s 290.0 100.0 rxe 2.90 >= 3 MISSED' "another MTU has other floors"
has 'lat 1500 us 9.000 11% 10.00 rxe 0.90 <= 0.8 MISSED' "of an even number, the mean; time has to be less"
has 'many 1500 MB/s 560.0 bw 0.80 >= 0.8 reached' "another line as the floor, just reached"
has 'free 1500 1/s 5.000 -' "what was not measured"
has ' not measured: siw: out of order' "and why"
has 'free/cpu 1500 us/msg 2.000 4.000 rxe 0.50' "a figure without floors has a ratio"
has 'two/cpu 1500 us/msg 3.000 -' "none of it is less than nothing"
has ' not measured: rxe: -0.004 is no figure' "and that is said"
has 'rate 1500 MB/s 80.00 125 0.64 >= 0.7 MISSED' "a number as the floor"
has 'tail 1500 us 9.000' "no floor of its own"
has 'tail/p99.9 1500 us 181.0 lat 20.11 <= 20 MISSED' "but of another figure that the line has"
has 'bw 1500 MB/s 1000 100.0 rxe 10.00 >= 2 reached' "in a VM, twice rdma_rxe's: as numbers"
has 'lat 1500 us 11.00 10.00 rxe 1.10 <= 1 MISSED' "and no slower"
has 'many 1500 MB/s 7.000 bw 0.01 >= 0.8 MISSED' "one figure is enough"
has 'bw 4200 MB/s - rxe \? of 2' "a floor of what was not measured"
has 'floors: 3 reached, 7 missed, 1 unknown' "all floors"

summary plot >"$TMP/out"
has $'native\tbw\t1500\tsroce\t700\t500\t9000' "to plot: median, least, most"
is "$(grep -c siw "$TMP/out")" 0 "to plot: nothing that is not there"

summary rst >"$TMP/out"
has 'bw +1500 +MB/s +700.0 \(500.0-9000\) .*' "in reStructuredText, the spread itself"
is "$(awk '/^=+  /{ print length }' "$TMP/out" | sort -u | wc -l)" 2 "its rules are as wide, for two tables"

# the table itself can be read
run "its own table" awk -f "$bench/summary.awk" "$bench/lines" "$TMP/results"
is "$(awk '!/^#/ && NF && (NF < 6 || $2 !~ /^[qfnvp]+$/ || $3 !~ /^[0-9,]+$/)' "$bench/lines")" "" "its lines are whole"
done_testing
