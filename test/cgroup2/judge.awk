# Judges the output of tests that ran with -test.v. The tests whose names begin with prefix are the scenarios: those that
# expected names, and those that start. Each must pass, with all its parts, and there must be some.
BEGIN {
	names = split(expected, name)
	for (i = 1; i <= names; i++) waiting[name[i]]
}
{ sub(/\r$/, "") }
NF < 3 || substr($3, 1, length(prefix)) != prefix { next }
/^ *=== RUN / { waiting[$3] }
/^ *--- (PASS|FAIL|SKIP): / { delete waiting[$3] }
/^ *--- PASS: / { passed++ }
/^ *--- (FAIL|SKIP): / { faults[++count] = $0 }
END {
	for (scenario in waiting) faults[++count] = scenario " is missing or did not end"
	printf "\n%d scenarios and parts passed; everything they printed: %s\n", passed, FILENAME
	if (passed + count == 0) faults[++count] = "no test ran"
	for (i = 1; i <= count; i++) print "not passed: " faults[i]
	exit count > 0
}
