// Package config is evictd's configuration file: its types, its defaults, a strict reader and a
// validation that names every fault at once.
//
// The vocabulary is that of KubeletConfiguration (k8s.io/kubelet config/v1beta1), so that thresholds
// can be copied from there; what the kubelet accepts and means, evictd accepts and means the same,
// except for the list of differences in docs/configuration.md. That page is generated from the
// comments in types.go.
//
// [Load] and [Parse] return a whole configuration or an error, and [Watch] follows the file. A
// configuration made by hand in Go is neither completed nor checked until
// [EvictdConfiguration.Validate] is called; start from [Default].
package config
