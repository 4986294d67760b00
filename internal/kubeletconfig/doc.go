// Package kubeletconfig reads the configuration of the kubelet beside evictd, and compares
// its thresholds with evictd's: evictd is to act first, and the kubelet to stay the
// backstop.
//
// The comparison says for certain only what follows from the two configurations.
// memory.available is measured by two definitions, unless evictd is told to use the
// kubelet's: then the readings of the moment have to agree with the figures before
// anything is certain.
package kubeletconfig
