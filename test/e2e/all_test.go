//go:build e2e_all

package e2e

// volumeStatsPeriod is how often the kubelet measures volumes, times one to two: so seldom that its
// figures are often older than a pressure, as on a real node.
const volumeStatsPeriod = "10s"
