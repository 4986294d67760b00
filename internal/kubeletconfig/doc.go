// Package kubeletconfig reads the configuration of the node's kubelet, and compares its thresholds
// with evictd's: evictd should act first, and the kubelet should remain the backstop.
//
// The comparison is certain only about what follows from the two configurations. memory.available
// is measured by two definitions, unless evictd is configured to use the kubelet's. Then the
// current readings have to agree with the figures before anything is certain. [MemoryHeadroom] looks
// at these readings again and again.
package kubeletconfig
