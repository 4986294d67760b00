//go:build e2e && !e2e_all

package e2e

// volumeStatsPeriod is how often the kubelet measures volumes, times one to two: often, because the
// gate waits for its figures.
const volumeStatsPeriod = "1s"
