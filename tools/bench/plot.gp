# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#
# gnuplot -e "data='...'; where='native'; to='DIRECTORY/'" plot.gp
#
# data is what summary.awk makes with form=plot: where, line, MTU, contender,
# median, least, most.

set terminal svg size 800,480 font "sans,12" background "white"
set datafile separator "\t"
set datafile missing NaN
set grid
set key outside right
set yrange [0:*]

# The size of a line such as write/64k, if it is of this operation, contender and MTU.
# The 0 is for where there is nothing to plot.
unit(s) = strstrt("km", s[strlen(s):strlen(s)])
bytes(s) = unit(s) ? s[1:strlen(s) - 1] * 1024.0 ** unit(s) : real(s)
size(op, who, mtu) = (strcol(1) eq where && strcol(4) eq who && column(3) == mtu && \
	strcol(2)[1:strlen(op) + 1] eq op."/" && strstrt(strcol(2), "/cpu") == 0) ? \
	bytes(strcol(2)[strlen(op) + 2:*]) : NaN

set logscale x 2
set xrange [32:2097152]
set xtics ("64" 64, "256" 256, "1k" 1024, "4k" 4096, "16k" 16384, "64k" 65536, "256k" 262144, "1m" 1048576)
set xlabel "bytes a message"
set ylabel "MB/s"
do for [op in "write read send"] {
	set output to."performance-".op.".svg"
	set title "RC ".op.", ".where
	plot 0 notitle, for [who in "sroce rxe"] for [mtu in "1500 4200 9000"] data \
		using (size(op, who, mtu + 0)):5 with linespoints title who." ".mtu
}

# Many queue pairs, with as much under way.
queues(who) = (strcol(1) eq where && strcol(4) eq who && strcol(2)[1:10] eq "write-4k-q" && \
	strstrt(strcol(2), "/cpu") == 0) ? real(strcol(2)[11:*]) : NaN
set xtics auto
set xlabel "queue pairs"
set xrange [0.5:8192]
set output to."performance-queues.svg"
set title "4 KiB WRITEs by many queue pairs, ".where
plot 0 notitle, for [who in "sroce rxe"] data using (queues(who)):5 with linespoints title who
