// Package faults tests what evictd does when its API server fails, and when it is killed. It is run on purpose,
// and is not part of the gate: `make test-faults`.
//
// The stop of etcd, which is every test's, is not parallel, and starts it again.
package faults
