// Package treaty compares evictd's thresholds with those of the kubelet beside it: evictd
// is to act first, and the kubelet to stay the backstop.
//
// It says for certain only what follows from the two configurations. memory.available is
// measured by two definitions, unless evictd is told to use the kubelet's: then the
// readings of the moment have to agree with the figures before anything is certain.
package treaty
