package main

import (
	"flag"
	"os"
	"testing"
)

// TestMain gives evictd the environment of its pod's manifest, the same for all tests: then those that
// start it can run at the same time.
func TestMain(m *testing.M) {
	for name, value := range map[string]string{
		"POD_UID": "uid-self", "POD_NAMESPACE": "evictd", "HOST_IP": "",
	} {
		if err := os.Setenv(name, value); err != nil {
			panic(err)
		}
	}
	// They wait for polls and rate limits, and do not compute; -parallel of the command line comes after.
	if err := flag.Set("test.parallel", "16"); err != nil {
		panic(err)
	}
	os.Exit(m.Run())
}
