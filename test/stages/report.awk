# Reads, for each stage, a line "stage", its name, 1 where it failed, and its seconds, with tabs between; a line "target"
# for each target below it that failed; and the events of its tests. It prints one line for each stage, every failure and
# the slowest tests, or with head, the begin of a line of the page of results, that line with the sums.
BEGIN { FS = "\t" }

/^stage\t/ {
	stages++
	name[stages] = $2
	broken[stages] = $3
	seconds[stages] = $4
	next
}
/^target\t/ {
	fail("make " $2)
	next
}

# A line that is cut off, as of a run that was killed, is not counted. Output has its quotation marks escaped.
/"Action":"(pass|skip|fail)".*\}$/ {
	action = value("Action")
	test = value("Test")
	package = value("Package")
	sub(/^github\.com\/evictd\/evictd\/?/, "", package)
	if (test == "") {
		# It did not compile, or ended outside of a test.
		if (action == "fail" && !((stages, package) in hasFailure)) {
			count["fail", stages]++
			failTest(package)
		}
		next
	}
	count[action, stages]++
	if (action == "fail") {
		hasFailure[stages, package]
		failTest(package "." test)
	}
	if (test !~ /\//) { # with its parts
		tests++
		took[tests] = $0
		sub(/.*"Elapsed":/, "", took[tests])
		took[tests] += 0
		of[tests] = package "." test
	}
}

END {
	if (head != "") {
		line()
		exit
	}
	printf "\n%-14s %7s %7s %8s %8s  %s\n", "stage", "tests", "failed", "skipped", "seconds", "result"
	for (s = 1; s <= stages; s++)
		printf "%-14s %7d %7d %8d %8d  %s\n", name[s], count["pass", s] + count["fail", s] + count["skip", s],
			count["fail", s], count["skip", s], seconds[s], broken[s] ? "FAILED" : "passed"
	if (failures) printf "\nfailed:\n%s", failures
	if (tests) print "\nslowest:"
	for (n = 1; n <= 10 && n <= tests; n++) {
		slowest = 0
		for (i = 1; i <= tests; i++)
			if (!(i in told) && (!slowest || took[i] > took[slowest])) slowest = i
		told[slowest]
		printf "%8.1f s  %s\n", took[slowest], of[slowest]
	}
}

# line prints a row of the page. A stage that failed without a failed test, such as a linter, counts as one.
function line(s, sum, all) {
	for (s = 1; s <= stages; s++) {
		if (broken[s] && !count["fail", s]) {
			count["fail", s] = 1
			failed[s] = "make " name[s]
		}
		sum["pass"] += count["pass", s]
		sum["fail"] += count["fail", s]
		sum["skip"] += count["skip", s]
		sum["seconds"] += seconds[s]
		all = all (all != "" && failed[s] != "" ? ", " : "") failed[s]
	}
	printf "| %s | %d | %d | %d | %d | %s | %s |\n", head, sum["pass"], sum["fail"], sum["skip"], sum["seconds"], kernel, all
}

function fail(what) { failures = failures "  " name[stages] ": " what "\n" }

function failTest(what) {
	failed[stages] = failed[stages] (failed[stages] != "" ? ", " : "") what
	fail(what)
}

# value returns a text of the event, without what JSON escapes for HTML.
function value(key, text) {
	if (!match($0, "\"" key "\":\"[^\"]*\"")) return ""
	text = substr($0, RSTART + length(key) + 4, RLENGTH - length(key) - 5)
	gsub(/\\u003c/, "<", text)
	gsub(/\\u003e/, ">", text)
	gsub(/\\u0026/, "\\&", text)
	return text
}
