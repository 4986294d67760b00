package kernelfile

import (
	"math"
	"strconv"
	"strings"
	"testing"

	"github.com/evictd/evictd/internal/testing/kernelfiletest"
)

// gib is what the figures of meminfoText are written in.
const gib int64 = 1 << 30

// The files of a node with 24 GiB, of which the kernel says 22 GiB are available.
const (
	meminfoText = "MemTotal:       25165824 kB\nMemFree:        19099488 kB\nMemAvailable:   23068672 kB\nBuffers:           15240 kB\n"
	loadavgText = "3.45 2.43 1.14 5/1020 15213\n"
	psiText     = "some avg10=13.22 avg60=8.96 avg300=2.76 total=14917686\nfull avg10=11.28 avg60=5.15 avg300=1.40 total=8154993\n"
	// zoneText is of one zone with two CPUs, oldZoneText of one CPU before Linux 6.7.
	zoneText = "Node 0, zone   Normal\n  pages free     12\n        high     99\n  pagesets\n" +
		"    cpu: 0\n              count:    32\n              high:     40\n              batch:    63\n              high_min: 40\n              high_max: 900\n" +
		"    cpu: 1\n              count:    1301\n              high:     1400\n              batch:    63\n              high_min: 40\n              high_max: 900\n"
	oldZoneText = "    cpu: 0\n              count:    41\n              high:     40\n              batch:    63\n"
)

// parser is one with what is particular to it.
type parser struct {
	parse func(content []byte) (int64, error)
	unit  int64  // of what is written
	end   string // of a number in the file
}

func parsers() map[string]parser {
	return map[string]parser{
		"Number":         {Number, 1, "\n"},
		"Stat":           {func(content []byte) (int64, error) { return Stat(content, "inactive_file ") }, 1, "\n"},
		"StallTotal":     {func(content []byte) (int64, error) { return StallTotal(content, "full") }, 1, "\n"},
		"Meminfo":        {func(content []byte) (int64, error) { return Meminfo(content, "MemAvailable:") }, 1024, " kB\n"},
		"Tasks":          {Tasks, 1, " "},
		"FreeOnCPULists": {parse: FreeOnCPULists},
	}
}

// TestParsers: each one reads the kernel's file, and takes no fault for a number. What all of them take from Number or
// from Stat is tested there.
func TestParsers(t *testing.T) {
	t.Parallel()
	const count = "              count:    "
	for name, test := range map[string]struct {
		content string
		want    int64
		wantErr string // a part of it
	}{
		"Number, as the kernel writes it": {content: "32768\n", want: 32768},
		"Number, the largest":             {content: "9223372036854775807\n", want: math.MaxInt64},
		"Number, too large":               {content: "9223372036854775808\n", wantErr: "too large"},
		"Number, no end":                  {content: "32768", wantErr: "no end"},
		"Number, empty":                   {content: "", wantErr: "no end"},
		"Number, negative":                {content: "-1\n", wantErr: "no number"},
		"Number, a plus":                  {content: "+1\n", wantErr: "no number"},
		"Number, a float":                 {content: "1.5\n", wantErr: "no number"},
		"Number, hexadecimal":             {content: "0x5\n", wantErr: "no number"},
		"Number, two":                     {content: "1 2\n", wantErr: "no number"},
		"Number, two lines":               {content: "1\n2\n", wantErr: "no number"},
		"Number, a NUL byte":              {content: "1\x00\n", wantErr: "no number"},

		"Stat, among others":        {content: "inactive_anon 1\ntotal_inactive_file 2\ninactive_file 94208\nactive_file 3\n", want: 94208},
		"Stat, the first counts":    {content: "inactive_file 1\ninactive_file 2\n", want: 1},
		"Stat, missing":             {content: "total_inactive_file 2\n", wantErr: "no line"},
		"Stat, cut off":             {content: "anon 1\ninactive_file 942", wantErr: "no line"},
		"Stat, negative":            {content: "inactive_file -1\n", wantErr: "no number"},
		"Stat, more than int64":     {content: "inactive_file 9223372036854775808\n", wantErr: "too large"},
		"Stat, the largest":         {content: "inactive_file 72057594037927936\n", want: 1 << 56},
		"Stat, more than there can": {content: "inactive_file 72057594037927937\n", wantErr: "too large"},

		"StallTotal, as the kernel writes it":    {content: psiText, want: 8154993},
		"StallTotal, a field more":               {content: "full avg10=0.00 new=5 total=7\n", want: 7},
		"StallTotal, a kernel without full":      {content: "some avg10=0.00 avg60=0.00 avg300=0.00 total=7\n", wantErr: `no line "full "`},
		"StallTotal, no total":                   {content: "full avg10=0.00 avg60=0.00 avg300=0.00\n", wantErr: "no total"},
		"StallTotal, negative":                   {content: "full avg10=0.00 total=-7\n", wantErr: "no number"},
		"StallTotal, something behind":           {content: "full avg10=0.00 total=7 8\n", wantErr: "no number"},
		"StallTotal, of something else entirely": {content: "fullness total=7\n", wantErr: `no line "full "`},

		"Meminfo, as the kernel writes it": {content: meminfoText, want: 22 * gib},
		"Meminfo, zero is a number":        {content: "MemAvailable: 0 kB\n"},
		"Meminfo, the largest":             {content: "MemAvailable: 70368744177664 kB\n", want: 1 << 56},
		"Meminfo, more than any machine":   {content: "MemAvailable: 70368744177665 kB\n", wantErr: "too large"},
		"Meminfo, more than int64 bytes":   {content: "MemAvailable: 9223372036854775807 kB\n", wantErr: "too large"},
		"Meminfo, another line":            {content: "XMemAvailable: 1 kB\nMemAvailableX: 1 kB\n", wantErr: "no line"},
		"Meminfo, cut off before its end":  {content: "MemAvailable: 2306 kB", wantErr: "no line"},
		"Meminfo, nothing":                 {content: "MemAvailable:\n", wantErr: "instead of kB"},
		"Meminfo, no number":               {content: "MemAvailable: kB\n", wantErr: "no number"},
		"Meminfo, other unit":              {content: "MemAvailable: 5 MB\n", wantErr: "instead of kB"},
		"Meminfo, negative":                {content: "MemAvailable: -5 kB\n", wantErr: "no number"},

		"Tasks, as the kernel writes it": {content: loadavgText, want: 1020},
		"Tasks, cut off behind it":       {content: "3.45 2.43 1.14 5/1020 ", want: 1020},
		"Tasks, cut off at its end":      {content: "3.45 2.43 1.14 5/1020", wantErr: "instead of five fields"},
		"Tasks, cut off in the number":   {content: "3.45 2.43 1.14 5/10\n", wantErr: "instead of five fields"},
		"Tasks, no slash":                {content: "3.45 2.43 1.14 51020 15213\n", wantErr: "runnable/total"},
		"Tasks, no tasks at all":         {content: "3.45 2.43 1.14 0/0 15213\n", wantErr: "runnable/total"},
		"Tasks, rubbish after the total": {content: "3.45 2.43 1.14 5/10x 15213\n", wantErr: "runnable/total"},
		"Tasks, negative":                {content: "3.45 2.43 1.14 5/-1020 15213\n", wantErr: "runnable/total"},

		"FreeOnCPULists, two CPUs":        {content: zoneText, want: 1261},
		"FreeOnCPULists, two zones":       {content: zoneText + zoneText, want: 2522},
		"FreeOnCPULists, before 6.7":      {content: oldZoneText + oldZoneText, want: 2},
		"FreeOnCPULists, no page sets":    {content: "Node 0, zone   Normal\n  pages free     12\n", wantErr: "no page set"},
		"FreeOnCPULists, more behind it":  {content: count + "3 kB\n", wantErr: "no number"},
		"FreeOnCPULists, cut in a number": {content: zoneText + count + "13", wantErr: "no end"},
		"FreeOnCPULists, kept overflow":   {content: zoneText + "              high_min: 99999999999999999999\n", wantErr: "too large"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			of, _, _ := strings.Cut(name, ",")
			got, err := parsers()[of].parse([]byte(test.content))
			kernelfiletest.CheckNumber(t, got, err, test.want, test.wantErr)
		})
	}
}

// FuzzParsers: what a parser returns is in the file, with what ends it.
func FuzzParsers(f *testing.F) {
	for _, seed := range []string{
		"32768\n", "max\n", "anon 1\ninactive_file 94208\n", psiText, "full total=1", meminfoText, "MemAvailable: 12 kB",
		"MemAvailable: 99999999999999999999 kB\n", loadavgText, "0 0 0 1/1 1\n",
		"  pagesets\n    cpu: 0\n              count:    32\n", "count: -1\n",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, content []byte) {
		for name, parser := range parsers() {
			n, err := parser.parse(content)
			if err != nil && n != 0 || n < 0 {
				t.Errorf("%s: %d, %v of %q", name, n, err, content)
			}
			if parser.unit == 0 || err != nil {
				continue
			}
			if written := strconv.FormatInt(n/parser.unit, 10) + parser.end; n%parser.unit != 0 || !strings.Contains(string(content), written) {
				t.Errorf("%s: %d of %q", name, n, content)
			}
		}
	})
}
