// Package e2e tests the shipped manifest on a real node: real kubelet, containerd and runc, real memory
// and disks. It needs root.
//
// The first line of a file says where its tests run:
//
//	//go:build e2e || e2e_all   seven tests of the way of a decision: `make e2e`, part of the gate
//	//go:build e2e_all          all others: `make e2e-all`, on purpose
//
// All tests share one node, one after the other, because pressure affects the whole node: its incidents,
// images, limits and the kubelet's thresholds are one state, which a test restores at its end. The tests
// run in the order of their files' names: asshipped_test.go comes first, because it looks at evictd as it
// was deployed.
//
// A pod works and ends when the test opens a barrier (worker_test.go); a wait ends when its condition is
// met; what must not happen has not happened after many more of evictd's decisions (scene.wantVictims).
// A test of the first kind must not depend on the machine's speed. A test that races the kubelet, which
// looks every ten seconds, says so and is of the second.
package e2e
