package pressure

import (
	"os"
	"testing"
)

func TestParseZoneinfo(t *testing.T) {
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
			if got, err := parseZoneinfo([]byte(test.text)); got != test.want || (err == nil) != test.ok {
				t.Errorf("got %d, %v; want %d, known: %t", got, err, test.want, test.ok)
			}
		})
	}
}

func TestFreeOnCPULists(t *testing.T) {
	t.Parallel()
	node := procTree()
	node["proc/zoneinfo"] = "  pagesets\n    cpu: 0\n              count:    3\n"
	if got, err := FreeOnCPULists(node.Plant(t)); err != nil || got != 3*int64(os.Getpagesize()) {
		t.Errorf("got %d, %v; want three pages", got, err)
	}
	if got, err := FreeOnCPULists(t.TempDir()); err == nil {
		t.Errorf("a file that is not there reads as %d", got)
	}
	if _, err := FreeOnCPULists("/"); err != nil {
		t.Errorf("this machine's: %v", err)
	}
}

func FuzzZoneinfo(f *testing.F) {
	f.Add([]byte("  pagesets\n    cpu: 0\n              count:    32\n"))
	f.Add([]byte("count: -1\n"))
	f.Fuzz(func(t *testing.T, content []byte) {
		if pages, err := parseZoneinfo(content); pages < 0 || err != nil && pages != 0 {
			t.Errorf("%d pages, %v", pages, err)
		}
	})
}
