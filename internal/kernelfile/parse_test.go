package kernelfile

import (
	"math"
	"strconv"
	"strings"
	"testing"

	"github.com/evictd/evictd/internal/testing/kernelfiletest"
)

// parsed is a file and the number that is read from it; with wantErr, which is a part of the error's text, there
// is none.
type parsed struct {
	content string
	want    int64
	wantErr string
}

func checkParser(t *testing.T, tests map[string]parsed, parse func(content []byte) (int64, error)) {
	t.Helper()
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := parse([]byte(tc.content))
			kernelfiletest.CheckNumber(t, got, err, tc.want, tc.wantErr)
		})
	}
}

func TestNumber(t *testing.T) {
	t.Parallel()
	tests := map[string]parsed{
		"number":      {content: "32768\n", want: 32768},
		"zero":        {content: "0\n", want: 0},
		"largest":     {content: "9223372036854775807\n", want: math.MaxInt64},
		"too large":   {content: "9223372036854775808\n", wantErr: "too large"},
		"no end":      {content: "32768", wantErr: "no end"},
		"empty":       {content: "", wantErr: "no end"},
		"negative":    {content: "-1\n", wantErr: "no number"},
		"plus":        {content: "+1\n", wantErr: "no number"},
		"max":         {content: "max\n", wantErr: "no number"},
		"two numbers": {content: "1 2\n", wantErr: "no number"},
		"two lines":   {content: "1\n2\n", wantErr: "no number"},
		"NUL byte":    {content: "1\x00\n", wantErr: "no number"},
	}
	checkParser(t, tests, Number)
}

func TestStat(t *testing.T) {
	t.Parallel()
	tests := map[string]parsed{
		"among others":     {content: "inactive_anon 1\ntotal_inactive_file 2\ninactive_file 94208\nactive_file 3\n", want: 94208},
		"missing":          {content: "total_inactive_file 2\n", wantErr: "no line"},
		"cut off":          {content: "anon 1\ninactive_file 942", wantErr: "no line"},
		"negative":         {content: "inactive_file -1\n", wantErr: "no number"},
		"two":              {content: "inactive_file 1 2\n", wantErr: "no number"},
		"without a number": {content: "inactive_file \n", wantErr: "no number"},
	}
	checkParser(t, tests, func(content []byte) (int64, error) { return Stat(content, "inactive_file ") })
}

const psiText = "some avg10=13.22 avg60=8.96 avg300=2.76 total=14917686\nfull avg10=11.28 avg60=5.15 avg300=1.40 total=8154993\n"

func TestStallTotal(t *testing.T) {
	t.Parallel()
	tests := map[string]parsed{
		"as the kernel writes it":    {content: psiText, want: 8154993},
		"nothing yet":                {content: "full avg10=0.00 avg60=0.00 avg300=0.00 total=0\n"},
		"a field more":               {content: "full avg10=0.00 new=5 total=7\n", want: 7},
		"empty":                      {content: "", wantErr: `no line "full "`},
		"a kernel without full":      {content: "some avg10=0.00 avg60=0.00 avg300=0.00 total=7\n", wantErr: `no line "full "`},
		"no total":                   {content: "full avg10=0.00 avg60=0.00 avg300=0.00\n", wantErr: "no total"},
		"total without a number":     {content: "full avg10=0.00 total=\n", wantErr: "no number"},
		"negative":                   {content: "full avg10=0.00 total=-7\n", wantErr: "no number"},
		"more than int64":            {content: "full avg10=0.00 total=99999999999999999999\n", wantErr: "too large"},
		"cut off in the number":      {content: "full avg10=0.00 total=81549", wantErr: `no line "full "`},
		"something behind":           {content: "full avg10=0.00 total=7 8\n", wantErr: "no number"},
		"NUL bytes":                  {content: "full avg10=0.00 total=\x00\x00\n", wantErr: "no number"},
		"of something else entirely": {content: "fullness total=7\n", wantErr: `no line "full "`},
	}
	checkParser(t, tests, func(content []byte) (int64, error) { return StallTotal(content, "full") })
}

// The files of a node with 24 GiB, of which the kernel says 22 GiB are available.
const (
	meminfoText = "MemTotal:       25165824 kB\nMemFree:        19099488 kB\nMemAvailable:   23068672 kB\nBuffers:           15240 kB\n"
	loadavgText = "3.45 2.43 1.14 5/1020 15213\n"

	gib int64 = 1 << 30
)

func TestMeminfo(t *testing.T) {
	t.Parallel()
	tests := map[string]parsed{
		"as the kernel writes it": {content: meminfoText, want: 22 * gib},
		"the only line":           {content: "MemAvailable: 1 kB\n", want: 1024},
		"zero is a number":        {content: "MemAvailable: 0 kB\n", want: 0},
		"largest":                 {content: "MemAvailable: 70368744177664 kB\n", want: 1 << 56},
		"empty":                   {content: "", wantErr: "no line"},
		"missing line":            {content: "MemTotal: 1 kB\n", wantErr: "no line"},
		"another line":            {content: "XMemAvailable: 1 kB\nMemAvailableX: 1 kB\n", wantErr: "no line"},
		"cut off after a digit":   {content: "MemTotal: 9 kB\nMemAvailable: 2306", wantErr: "no line"},
		"cut off before its end":  {content: "MemAvailable: 2306 kB", wantErr: "no line"},
		"no number":               {content: "MemAvailable: kB\n", wantErr: "no number"},
		"nothing":                 {content: "MemAvailable:\n", wantErr: "instead of kB"},
		"negative":                {content: "MemAvailable: -5 kB\n", wantErr: "no number"},
		"other unit":              {content: "MemAvailable: 5 MB\n", wantErr: "instead of kB"},
		"no unit":                 {content: "MemAvailable: 5\n", wantErr: "instead of kB"},
		"float":                   {content: "MemAvailable: 5.5 kB\n", wantErr: "no number"},
		"hexadecimal":             {content: "MemAvailable: 0x5 kB\n", wantErr: "no number"},
		"more than int64":         {content: "MemAvailable: 9223372036854775808 kB\n", wantErr: "too large"},
		"more than int64 bytes":   {content: "MemAvailable: 9223372036854775807 kB\n", wantErr: "too large"},
		"more than any machine":   {content: "MemAvailable: 70368744177665 kB\n", wantErr: "too large"},
		"NUL bytes":               {content: "MemAvailable: \x00\x00\x00 kB\n", wantErr: "no number"},
		"NUL bytes in front":      {content: "\x00\x00MemAvailable: 5 kB\n", wantErr: "no line"},
		"carriage return":         {content: "MemAvailable: 5 kB\r\n", wantErr: "instead of kB"},
	}
	checkParser(t, tests, func(content []byte) (int64, error) { return Meminfo(content, "MemAvailable:") })
}

func TestTasks(t *testing.T) {
	t.Parallel()
	tests := map[string]parsed{
		"as the kernel writes it": {content: loadavgText, want: 1020},
		"cut off behind it":       {content: "3.45 2.43 1.14 5/1020 ", want: 1020},
		"cut off at its end":      {content: "3.45 2.43 1.14 5/1020", wantErr: "instead of five fields"},
		"empty":                   {content: "", wantErr: "instead of five fields"},
		"only an end":             {content: "\n", wantErr: "instead of five fields"},
		"cut off in the number":   {content: "3.45 2.43 1.14 5/10\n", wantErr: "instead of five fields"},
		"no slash":                {content: "3.45 2.43 1.14 51020 15213\n", wantErr: "runnable/total"},
		"no total":                {content: "3.45 2.43 1.14 5/ 15213\n", wantErr: "runnable/total"},
		"no tasks at all":         {content: "3.45 2.43 1.14 0/0 15213\n", wantErr: "runnable/total"},
		"negative":                {content: "3.45 2.43 1.14 5/-1020 15213\n", wantErr: "runnable/total"},
		"rubbish after the total": {content: "3.45 2.43 1.14 5/10x 15213\n", wantErr: "runnable/total"},
		"overflow":                {content: "3.45 2.43 1.14 5/99999999999999999999 1\n", wantErr: "runnable/total"},
		"NUL bytes":               {content: "3.45 2.43 1.14 \x00/\x00 15213\n", wantErr: "runnable/total"},
	}
	checkParser(t, tests, Tasks)
}

func TestFreeOnCPULists(t *testing.T) {
	t.Parallel()
	const zone = "Node 0, zone   Normal\n  pages free     12\n        high     99\n  pagesets\n" +
		"    cpu: 0\n              count:    32\n              high:     40\n              batch:    63\n              high_min: 40\n              high_max: 900\n" +
		"    cpu: 1\n              count:    1301\n              high:     1400\n              batch:    63\n              high_min: 40\n              high_max: 900\n"
	const old = "    cpu: 0\n              count:    41\n              high:     40\n              batch:    63\n"
	for name, test := range map[string]struct {
		text string
		want int64
		ok   bool
	}{
		"two CPUs":        {zone, 1261, true},
		"two zones":       {zone + zone, 2522, true},
		"before 6.7":      {old + old, 2, true},
		"no page sets":    {"Node 0, zone   Normal\n  pages free     12\n", 0, false},
		"an empty file":   {"", 0, false},
		"no number":       {"              count:    x\n", 0, false},
		"more behind it":  {"              count:    3 kB\n", 0, false},
		"cut in a number": {zone + "              count:    13", 0, false},
		"an overflow":     {"              count:    99999999999999999999\n", 0, false},
		"a kept overflow": {zone + "              high_min: 99999999999999999999\n", 0, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got, err := FreeOnCPULists([]byte(test.text)); got != test.want || (err == nil) != test.ok {
				t.Errorf("got %d, %v; want %d, known: %t", got, err, test.want, test.ok)
			}
		})
	}
}

// FuzzParsers: what a parser returns is in the file, with what ends it.
func FuzzParsers(f *testing.F) {
	for _, seed := range []string{
		"32768\n", "max\n", "anon 1\ninactive_file 94208\n", psiText, "full total=1", meminfoText, "MemAvailable: 12 kB",
		"MemAvailable: 99999999999999999999 kB\n", loadavgText, "0 0 0 1/1 1\n",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, content []byte) {
		for name, parser := range map[string]struct {
			parse func([]byte) (int64, error)
			unit  int64
			end   string
		}{
			"Number":     {Number, 1, "\n"},
			"Stat":       {func(content []byte) (int64, error) { return Stat(content, "inactive_file ") }, 1, "\n"},
			"StallTotal": {func(content []byte) (int64, error) { return StallTotal(content, "full") }, 1, "\n"},
			"Meminfo":    {func(content []byte) (int64, error) { return Meminfo(content, "MemAvailable:") }, 1024, " kB\n"},
			"Tasks":      {Tasks, 1, " "},
		} {
			n, err := parser.parse(content)
			written := strconv.FormatInt(n/parser.unit, 10) + parser.end
			if err == nil && (n < 0 || n%parser.unit != 0 || !strings.Contains(string(content), written)) || err != nil && n != 0 {
				t.Errorf("%s: %d, %v of %q", name, n, err, content)
			}
		}
	})
}

func FuzzFreeOnCPULists(f *testing.F) {
	f.Add([]byte("  pagesets\n    cpu: 0\n              count:    32\n"))
	f.Add([]byte("count: -1\n"))
	f.Fuzz(func(t *testing.T, content []byte) {
		if pages, err := FreeOnCPULists(content); pages < 0 || err != nil && pages != 0 {
			t.Errorf("%d pages, %v", pages, err)
		}
	})
}
