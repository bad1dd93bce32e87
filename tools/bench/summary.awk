# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#
# Results of guest into a table: medians with their spread, ratios, floors.
#
#	awk -f summary.awk lines RESULTS...
#
# A ratio is sroce's figure to another's, and where less is
# better still so. It reaches its floor or misses it; where either was not
# measured, it says why.

BEGIN {
	FS = "\t"
	split("sroce rxe siw tcp ceiling", column, " ")
	columns = 5
}

/^#/ || NF == 0 { next }

# The table of lines has spaces, which are no tabs.
NF == 1 {
	split($0, w, " +")
	key = w[1] SUBSEP w[3]
	floors[key] = w[5]
	unit_of[w[1]] = w[4]
	next
}

{
	key = $1 SUBSEP $3 SUBSEP $4
	if (!(key in seen)) {
		seen[key] = ++figures
		figure[figures] = key
		unit[key] = $7
		kernel[$1] = $2
	}
	k = key SUBSEP $5
	if ($8 == "-")
		reason[k] = $9
	else
		value[k, ++n[k]] = $8
	rounds = rounds > $6 ? rounds : $6
}

# The values of a contender's figure in order; insertion, as there are few.
function sorted(k,    i, j, v)
{
	delete list
	for (i = 1; i <= n[k]; i++) {
		v = value[k, i] + 0
		for (j = i - 1; j > 0 && list[j] > v; j--)
			list[j + 1] = list[j]
		list[j + 1] = v
	}
	return n[k] + 0
}

function median(k,    c)
{
	c = sorted(k)
	if (!c)
		return ""
	return c % 2 ? list[(c + 1) / 2] : (list[c / 2] + list[c / 2 + 1]) / 2
}

# Four digits that matter, and no exponents.
function number(v)
{
	if (v >= 1000)
		return sprintf("%.0f", v)
	if (v >= 100)
		return sprintf("%.1f", v)
	return sprintf(v >= 10 ? "%.2f" : "%.3f", v)
}

# A median, and how far the values lie from each other: half of that.
function cell(k,    m, c)
{
	m = median(k)
	if (m == "")
		return k in reason ? "-" : ""
	c = n[k]
	return number(m) (c > 1 && m > 0 ? sprintf(" %3.0f%%", (list[c] - list[1]) / 2 / m * 100) : "     ")
}

function less_is_better(key)
{
	return unit[key] ~ /^(us|s\/|us\/|KB\/QP|MB\/GB)/
}

# What a ratio has to be: in VMs, the same for every line.
function floor_list(where, name, mtu,    f, key)
{
	key = name SUBSEP mtu
	if (!(key in floors))
		return ""
	f = floors[key]
	if (where ~ /^native/ || f !~ /(^|,)rxe/)
		return f
	return unit_of[name] == "us" ? "rxe:1" : "rxe:2"
}

# One floor: what it says of this figure, and counts it.
function verdict(key, floor,    p, colon, other, need, mine, theirs, ratio, good)
{
	split(key, p, SUBSEP)
	colon = index(floor, ":")
	other = colon ? substr(floor, 1, colon - 1) : floor
	need = colon ? substr(floor, colon + 1) : ""
	mine = median(key SUBSEP "sroce")
	if (other ~ /^=/) {
		other = substr(other, 2)
		theirs = median(p[1] SUBSEP other SUBSEP p[3] SUBSEP "sroce")
	} else {
		theirs = median(key SUBSEP other)
	}
	if (mine == "" || theirs == "" || theirs == 0) {
		if (need == "")
			return ""
		unknown++
		return other " ? of " need
	}
	ratio = mine / theirs
	if (need == "")
		return sprintf("%s %.2f", other, ratio)
	good = less_is_better(key) ? ratio <= need : ratio >= need
	if (good)
		reached++
	else
		missed++
	return sprintf("%s %.2f %s %s %s", other, ratio, less_is_better(key) ? "<=" : ">=", need,
		       good ? "reached" : "MISSED")
}

# All floors of a figure; one without any is compared with rdma_rxe's.
function verdicts(key,    p, list, n, i, v, text)
{
	split(key, p, SUBSEP)
	n = split(floor_list(p[1], p[2], p[3]), list, ",")
	if (!n)
		n = split("rxe", list, ",")
	for (i = 1; i <= n; i++) {
		v = verdict(key, list[i])
		if (v != "")
			text = text (text == "" ? "" : "; ") v
	}
	return text
}

function reasons(key,    i, k, text)
{
	for (i = 1; i <= columns; i++) {
		k = key SUBSEP column[i]
		if ((k in reason) && !n[k])
			text = text (text == "" ? "" : "; ") column[i] ": " reason[k]
	}
	return text
}

function row(name, mtu, what, cells, says,    j, text)
{
	text = sprintf("%-20s %4s %-6s", name, mtu, what)
	for (j = 1; j <= columns; j++)
		text = text sprintf(" %11s", cells[j])
	text = text "   " says
	sub(/ +$/, "", text)
	print text
}

function text_table(    i, j, key, p, where, cells, why)
{
	for (i = 1; i <= figures; i++) {
		key = figure[i]
		split(key, p, SUBSEP)
		if (p[1] != where) {
			where = p[1]
			printf "\n%s, Linux %s, %d rounds: medians, half the spread; ratios of sroce to the others\n\n",
			       where, kernel[where], rounds
			for (j = 1; j <= columns; j++)
				cells[j] = column[j] "     "
			row("", "MTU", "", cells, "")
		}
		for (j = 1; j <= columns; j++)
			cells[j] = cell(key SUBSEP column[j])
		row(p[2], p[3], unit[key], cells, verdicts(key))
		why = reasons(key)
		if (why != "")
			print "    not measured: " why
	}
	printf "\nfloors: %d reached, %d missed, %d unknown\n", reached, missed, unknown
}

END {
	text_table()
}
