# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#
# Results of guest into a table: medians with their spread, ratios, floors.
#
#	awk [-v form=rst|plot] -f summary.awk lines RESULTS...
#
# For a terminal; as tables of reStructuredText; or, for plot.gp, a line a
# median: where, line, MTU, contender, median, least, most. A ratio is sroce's figure to another's, and where less is
# better still so. It reaches its floor or misses it; where either was not
# measured, it says why.

BEGIN {
	FS = "\t"
	split("sroce rxe siw tcp ceiling", column, " ")
	columns = 5
}

/^#/ || NF == 0 { next } # both have comments

# The table of lines has spaces, which are no tabs.
NF == 1 {
	split($0, w, " +")
	unit_of[w[1]] = w[4]
	c = split(w[5], f, ",")
	for (i = 1; i <= c; i++) {
		# of the line's own figure, or of another
		name = w[1]
		if (match(f[i], "^/[a-z0-9.]+=")) {
			name = name substr(f[i], 1, RLENGTH - 1)
			f[i] = substr(f[i], RLENGTH)
		}
		key = name SUBSEP w[3]
		floors[key] = floors[key] (key in floors && floors[key] != "" ? "," : "") f[i]
	}
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
	# nothing takes no time, or less
	if ($8 == "-" || $8 + 0 <= 0)
		reason[k] = $8 == "-" ? $9 : $8 " is no figure"
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

# A median, and how far the values lie from each other: half of that, or in rst
# the least and the most.
function cell(k,    m, c)
{
	m = median(k)
	if (m == "")
		return k in reason ? "-" : ""
	c = n[k]
	if (form == "rst")
		return number(m) (c > 1 ? " (" number(list[1]) "-" number(list[c]) ")" : "")
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
	if (other ~ /^[0-9]/) {
		theirs = other
	} else if (other ~ /^=/) {
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
	good = less_is_better(key) ? ratio <= need + 0 : ratio >= need + 0
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
	text = sprintf("%-23s %4s %-6s", name, mtu, what)
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

function times(char, count,    text)
{
	while (count-- > 0)
		text = text char
	return text
}

# The cells that were collected for one table, in columns as wide as they need.
function rst_flush(rows,    i, j, width, rule)
{
	for (j = 1; j <= columns + 4; j++) {
		for (i = 0; i < rows; i++)
			if (length(table[i, j]) > width[j])
				width[j] = length(table[i, j])
		rule = rule (j > 1 ? "  " : "") times("=", width[j])
	}
	print rule
	for (i = 0; i < rows; i++) {
		line = ""
		for (j = 1; j <= columns + 4; j++)
			line = line (j > 1 ? "  " : "") sprintf("%-" width[j] "s", table[i, j])
		sub(/ +$/, "", line)
		print line
		if (i == 0)
			print rule
	}
	print rule
}

function rst_head(where,    text, j)
{
	text = where ", Linux " kernel[where]
	printf "\n%s\n%s\n\n", text, times("~", length(text))
	split("line MTU unit", head, " ")
	for (j = 1; j <= 3; j++)
		table[0, j] = head[j]
	for (j = 1; j <= columns; j++)
		table[0, 3 + j] = column[j]
	table[0, columns + 4] = "ratios"
}

# One table a machine; an empty first cell would join a row to the one above it.
function rst_table(    i, j, key, p, where, rows, why)
{
	for (i = 1; i <= figures; i++) {
		key = figure[i]
		split(key, p, SUBSEP)
		if (p[1] != where) {
			if (where != "")
				rst_flush(rows)
			where = p[1]
			rst_head(where)
			rows = 1
		}
		table[rows, 1] = p[2]
		table[rows, 2] = p[3]
		table[rows, 3] = unit[key]
		for (j = 1; j <= columns; j++)
			table[rows, 3 + j] = cell(key SUBSEP column[j])
		why = reasons(key)
		table[rows++, columns + 4] = verdicts(key) (why == "" ? "" : " (" why ")")
	}
	rst_flush(rows)
	printf "\n%d floors reached, %d missed, %d unknown.\n", reached, missed, unknown
}

function plot_table(    i, j, k, m)
{
	for (i = 1; i <= figures; i++)
		for (j = 1; j <= columns; j++) {
			k = figure[i] SUBSEP column[j]
			m = median(k)
			if (m != "") {
				gsub(SUBSEP, "\t", k)
				printf "%s\t%s\t%s\t%s\n", k, m, list[1], list[n[figure[i] SUBSEP column[j]]]
			}
		}
}

END {
	if (form == "rst")
		rst_table()
	else if (form == "plot")
		plot_table()
	else
		text_table()
}
