package hostinfo_test

import (
	"strings"
	"testing"

	"github.com/evictd/evictd/internal/hostinfo"
	"github.com/evictd/evictd/internal/testing/kernelfiletest"
)

const arcstats = `9 1 0x01 123 33456 1 2
name                            type data
size                            4    34359738368
c_min                           4    2147483648
mfu_evictable_data              4    16106127360
mru_evictable_data              4    1073741824
`

func TestReclaimableARC(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		text string // "" is a host without ZFS
		want int64
		says string
	}{
		"no ZFS":                  {"", 0, ""},
		"what is evictable":       {arcstats, 17179869184, ""},
		"no more than to c_min":   {strings.Replace(arcstats, "34359738368", "2147483649", 1), 1, ""},
		"it is below c_min":       {strings.Replace(arcstats, "34359738368", "5", 1), 0, ""},
		"a line is missing":       {strings.Replace(arcstats, "c_min ", "x ", 1), 0, `no line "c_min`},
		"a figure that is no one": {strings.Replace(arcstats, "34359738368", "lots", 1), 0, `line "size `},
	} {
		files := kernelfiletest.Tree{}
		if test.text != "" {
			files["proc/spl/kstat/zfs/arcstats"] = test.text
		}
		got, err := hostinfo.ReclaimableARC(files.Plant(t))
		if got != test.want || (err == nil) != (test.says == "") || err != nil && !strings.Contains(err.Error(), test.says) {
			t.Errorf("%s: %d, %v; want %d, %q", name, got, err, test.want, test.says)
		}
	}
}
