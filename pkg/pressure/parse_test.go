package pressure

import (
	"math"
	"strconv"
	"strings"
	"testing"

	"github.com/evictd/evictd/internal/testing/kernelfiletest"
)

func TestParseMeminfo(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		content string
		want    int64
		wantErr string
	}{
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
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := parseMeminfo([]byte(tc.content), "MemAvailable:")
			kernelfiletest.CheckNumber(t, got, err, tc.want, tc.wantErr)
		})
	}
}

func TestParseLoadavg(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		content string
		want    int64
		wantErr string
	}{
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
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := parseLoadavg([]byte(tc.content))
			kernelfiletest.CheckNumber(t, got, err, tc.want, tc.wantErr)
		})
	}
}

func TestAtLeast(t *testing.T) {
	t.Parallel()
	for release, want := range map[string]bool{
		"6.13.9": false, "6.14.0-rc1": true, "6.14": true, "6.18.44-generic": true, "7.0.1": true, "5.15.0-91": false, "4.19": false,
	} {
		if got, err := atLeast(release, 6, 14); err != nil || got != want {
			t.Errorf("atLeast(%q, 6, 14) = %t, %v; want %t", release, got, err, want)
		}
	}
	for _, release := range []string{"", "6", "6.", "linux", "-6.14", "6,14"} {
		if got, err := atLeast(release, 6, 14); err == nil {
			t.Errorf("atLeast(%q, 6, 14) = %t; want an error", release, got)
		}
	}
}

func FuzzMeminfo(f *testing.F) {
	f.Add([]byte(meminfoText))
	f.Add([]byte("MemAvailable: 12 kB"))
	f.Add([]byte("MemAvailable: 99999999999999999999 kB\n"))
	f.Fuzz(func(t *testing.T, content []byte) {
		n, err := parseMeminfo(content, "MemAvailable:")
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

func FuzzLoadavg(f *testing.F) {
	f.Add([]byte(loadavgText))
	f.Add([]byte("0 0 0 1/1 1\n"))
	f.Fuzz(func(t *testing.T, content []byte) {
		n, err := parseLoadavg(content)
		if err != nil {
			return
		}
		if n <= 0 || !strings.Contains(string(content), strconv.FormatInt(n, 10)+" ") {
			t.Errorf("%d tasks are not in %q", n, content)
		}
	})
}
