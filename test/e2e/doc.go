// Package e2e tests the shipped manifest on a real node: real kubelet, containerd
// and runc, real memory. It needs root and is built with the tag e2e; `make e2e`
// runs it.
package e2e
