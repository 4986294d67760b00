package cluster

import (
	"cmp"
	"fmt"
	"os"
	"strconv"
	"time"
)

// Patiently returns how long to wait for what takes at most that time on a common machine:
// $EVICTD_PATIENCE times as long, for a slow one. The limit only ends a test that has failed.
func Patiently(atMost time.Duration) time.Duration {
	factor, _ := patience() // the start of the cluster has returned the error
	return time.Duration(factor) * atMost
}

// patience returns $EVICTD_PATIENCE; 1 where it is not set or no whole number from 1 on, which is an error.
func patience() (int, error) {
	text := cmp.Or(os.Getenv("EVICTD_PATIENCE"), "1")
	factor, err := strconv.Atoi(text)
	if err != nil || factor < 1 {
		return 1, fmt.Errorf("$EVICTD_PATIENCE=%q is not a whole number from 1 on", text)
	}
	return factor, nil
}
