package nodepods

import (
	"testing"
	"time"
)

// TestTheAPIServerIsAskedAgainSoonAfterAnOutage: however long the API server was unavailable, it is
// contacted soon after it is back, and not too often meanwhile.
func TestTheAPIServerIsAskedAgainSoonAfterAnOutage(t *testing.T) {
	t.Parallel()
	const jitter = 1.2
	delay, first, outage := backoff().DelayFunc(), time.Duration(0), time.Duration(0)
	for i := range 100 {
		wait := delay()
		if i == 0 {
			first = wait
		}
		if longest := time.Duration(jitter * float64(3*time.Second)); wait < time.Second/2 || wait > longest {
			t.Errorf("attempt %d waits %v, want 0.5s to %v", i+1, wait, longest)
		}
		outage += wait
	}
	if first >= time.Second || outage < 4*time.Minute {
		t.Errorf("the first attempt waits %v and a hundred take %v, want less than 1s and more than 4m", first, outage)
	}
}
