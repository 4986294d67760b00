// Package cases plays the files of testdata on the evictd that is shipped: each is a node's files, the
// objects of an API server, a kubelet's Summary and a configuration, what then happens, and what evictd
// must do or say. README.md says how to write one.
package cases
