package wording_test

import (
	"bytes"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/evictd/evictd/internal/wording"
)

// The last cell is wrapped below where it begins, or below its row where little is left for it; no other cell is
// broken, and no text of others breaks a line.
func TestTable(t *testing.T) {
	t.Parallel()
	rows := func() [][]string {
		return [][]string{
			{"A", "B", "TEXT"},
			{"é", "two", "some words that\nare wrapped"},
			{"x", "", "aVeryLongWordThatIsBroken"},
			nil,
			{"aNameThatIsLong", "LINE"},
			{"n", "below the row as it is long"},
			{"n", ""},
		}
	}
	for columns, want := range map[int]string{
		0: `A  B    TEXT
é  two  some words that\nare wrapped
x       aVeryLongWordThatIsBroken

aNameThatIsLong  LINE
n                below the row as it is long
n
`,
		20: `A  B    TEXT
é  two  some words
        that\nare
        wrapped
x       aVeryLongWor
        dThatIsBroke
        n

aNameThatIsLong
      LINE
n
      below the row
      as it is long
n
`,
	} {
		var printed bytes.Buffer
		if err := wording.Table(&printed, columns, rows()); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, printed.String()); diff != "" {
			t.Errorf("%d columns (-want +got):\n%s", columns, diff)
		}
	}
}
