package pressure_test

import (
	"encoding/json"
	"testing"

	"github.com/evictd/evictd/pkg/pressure"
)

func TestAmountsTellZeroFromNotKnown(t *testing.T) {
	t.Parallel()
	var a pressure.Amounts
	if _, known := a.Of(pressure.MemoryAvailable); known || a.At(pressure.MemoryAvailable) != 0 {
		t.Error("the zero value knows an amount")
	}
	zero := a.With(pressure.MemoryAvailable, 0)
	if _, known := zero.Of(pressure.MemoryAvailable); !known || zero == a || a.With(pressure.MemoryAvailable, 5).Without(pressure.MemoryAvailable) != a {
		t.Error("zero is taken for not known")
	}
	disk := a.With(pressure.NodeFSAvailable, 500)
	got := disk.With(pressure.MemoryAvailable, 100).Updated(zero.With(pressure.PIDAvailable, 3))
	if got != zero.With(pressure.NodeFSAvailable, 500).With(pressure.PIDAvailable, 3) || got.OnDisk() != disk {
		t.Errorf("updated %+v, on disk %+v", got, got.OnDisk())
	}
}

// The state file of an earlier process keys the amounts by signal name.
func TestAmountsThroughJSON(t *testing.T) {
	t.Parallel()
	const want = `{"memory.available":0,"pid.available":3}`
	before, after := pressure.Amounts{}.With(pressure.PIDAvailable, 3).With(pressure.MemoryAvailable, 0), pressure.Amounts{}.With(pressure.MemoryStall, 7)
	text, err := json.Marshal(before)
	if err != nil || string(text) != want {
		t.Errorf("wrote %s, %v; want %s", text, err, want)
	}
	if err = json.Unmarshal(text, &after); err != nil || after != before {
		t.Errorf("%s came back as %+v, %v", text, after, err)
	}
	for _, text := range []string{`{"memory.avail":1}`, `{"memory.available":"1"}`, `[1]`} {
		if json.Unmarshal([]byte(text), &after) == nil {
			t.Errorf("%s is taken", text)
		}
	}
}
