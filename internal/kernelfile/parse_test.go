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
		"empty":       {content: "", wantErr: "no number"},
		"negative":    {content: "-1\n", wantErr: "no number"},
		"plus":        {content: "+1\n", wantErr: "no number"},
		"max":         {content: "max\n", wantErr: "no number"},
		"two numbers": {content: "1 2\n", wantErr: "more than a number"},
		"two lines":   {content: "1\n2\n", wantErr: "more than a number"},
		"NUL byte":    {content: "1\x00\n", wantErr: "more than a number"},
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
		"two":              {content: "inactive_file 1 2\n", wantErr: "more than a number"},
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
		"something behind":           {content: "full avg10=0.00 total=7 8\n", wantErr: "more than a number"},
		"NUL bytes":                  {content: "full avg10=0.00 total=\x00\x00\n", wantErr: "no number"},
		"of something else entirely": {content: "fullness total=7\n", wantErr: `no line "full "`},
	}
	checkParser(t, tests, func(content []byte) (int64, error) { return StallTotal(content, "full") })
}

func FuzzStallTotal(f *testing.F) {
	f.Add([]byte(psiText))
	f.Add([]byte("full total=1"))
	f.Fuzz(func(t *testing.T, content []byte) {
		n, err := StallTotal(content, "full")
		if err == nil && (n < 0 || !strings.Contains(string(content), strconv.FormatInt(n, 10)+"\n")) {
			t.Errorf("%d is not in %q", n, content)
		}
	})
}

func FuzzNumber(f *testing.F) {
	f.Add([]byte("32768\n"))
	f.Add([]byte("max\n"))
	f.Fuzz(func(t *testing.T, content []byte) {
		n, err := Number(content)
		if err != nil {
			return
		}
		want, wantErr := strconv.ParseInt(strings.TrimSuffix(string(content), "\n"), 10, 64)
		if wantErr != nil || n != want || n < 0 {
			t.Errorf("parsed %q as %d", content, n)
		}
	})
}

func FuzzStat(f *testing.F) {
	f.Add([]byte("anon 1\ninactive_file 94208\n"))
	f.Fuzz(func(t *testing.T, content []byte) {
		n, err := Stat(content, "inactive_file ")
		if err == nil && !strings.Contains(string(content), strconv.FormatInt(n, 10)+"\n") {
			t.Errorf("%d is not in %q", n, content)
		}
	})
}
