package kernelfile

import (
	"math"
	"strconv"
	"strings"
	"testing"
)

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
		"largest":                 {content: "MemAvailable: 9007199254740991 kB\n", want: math.MaxInt64 - 1023},
		"empty":                   {content: "", wantErr: "no line"},
		"missing line":            {content: "MemTotal: 1 kB\n", wantErr: "no line"},
		"another line":            {content: "XMemAvailable: 1 kB\nMemAvailableX: 1 kB\n", wantErr: "no line"},
		"cut off after a digit":   {content: "MemTotal: 9 kB\nMemAvailable: 2306", wantErr: "no line"},
		"cut off before its end":  {content: "MemAvailable: 2306 kB", wantErr: "no line"},
		"no number":               {content: "MemAvailable: kB\n", wantErr: "no number"},
		"nothing":                 {content: "MemAvailable:\n", wantErr: "no number"},
		"negative":                {content: "MemAvailable: -5 kB\n", wantErr: "no number"},
		"other unit":              {content: "MemAvailable: 5 MB\n", wantErr: "instead of kB"},
		"no unit":                 {content: "MemAvailable: 5\n", wantErr: "instead of kB"},
		"float":                   {content: "MemAvailable: 5.5 kB\n", wantErr: "instead of kB"},
		"hexadecimal":             {content: "MemAvailable: 0x5 kB\n", wantErr: "instead of kB"},
		"more than int64":         {content: "MemAvailable: 9223372036854775808 kB\n", wantErr: "too large"},
		"more than int64 bytes":   {content: "MemAvailable: 9007199254740992 kB\n", wantErr: "too large"},
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
		"no end":                  {content: strings.TrimSpace(loadavgText), wantErr: "no end"},
		"empty":                   {content: "", wantErr: "no end"},
		"only an end":             {content: "\n", wantErr: "1 fields"},
		"cut off in the number":   {content: "3.45 2.43 1.14 5/10\n", wantErr: "4 fields"},
		"a field more":            {content: "3.45 2.43 1.14 5/10 7 8\n", wantErr: "6 fields"},
		"no slash":                {content: "3.45 2.43 1.14 51020 15213\n", wantErr: "runnable/total"},
		"no total":                {content: "3.45 2.43 1.14 5/ 15213\n", wantErr: "runnable/total"},
		"no runnable":             {content: "3.45 2.43 1.14 /5 15213\n", wantErr: "runnable/total"},
		"no tasks at all":         {content: "3.45 2.43 1.14 0/0 15213\n", wantErr: "runnable/total"},
		"negative":                {content: "3.45 2.43 1.14 5/-1020 15213\n", wantErr: "runnable/total"},
		"rubbish after the total": {content: "3.45 2.43 1.14 5/10x 15213\n", wantErr: "runnable/total"},
		"overflow":                {content: "3.45 2.43 1.14 5/99999999999999999999 1\n", wantErr: "runnable/total"},
		"NUL bytes":               {content: "3.45 2.43 1.14 \x00/\x00 15213\n", wantErr: "runnable/total"},
	}
	checkParser(t, tests, Tasks)
}

func FuzzMeminfo(f *testing.F) {
	f.Add([]byte(meminfoText))
	f.Add([]byte("MemAvailable: 12 kB"))
	f.Add([]byte("MemAvailable: 99999999999999999999 kB\n"))
	f.Fuzz(func(t *testing.T, content []byte) {
		n, err := Meminfo(content, "MemAvailable:")
		if err != nil {
			return
		}
		if n < 0 || n%1024 != 0 {
			t.Errorf("parsed %d bytes", n)
		}
		if !strings.Contains(string(content), strconv.FormatInt(n/1024, 10)+" kB\n") {
			t.Errorf("%d kB is not in %q", n/1024, content)
		}
	})
}

func FuzzTasks(f *testing.F) {
	f.Add([]byte(loadavgText))
	f.Add([]byte("0 0 0 1/1 1\n"))
	f.Fuzz(func(t *testing.T, content []byte) {
		n, err := Tasks(content)
		if err != nil {
			return
		}
		if n <= 0 || !strings.Contains(string(content), strconv.FormatInt(n, 10)+" ") {
			t.Errorf("%d tasks are not in %q", n, content)
		}
	})
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

func FuzzFreeOnCPULists(f *testing.F) {
	f.Add([]byte("  pagesets\n    cpu: 0\n              count:    32\n"))
	f.Add([]byte("count: -1\n"))
	f.Fuzz(func(t *testing.T, content []byte) {
		if pages, err := FreeOnCPULists(content); pages < 0 || err != nil && pages != 0 {
			t.Errorf("%d pages, %v", pages, err)
		}
	})
}
