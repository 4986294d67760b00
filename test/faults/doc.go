// Package faults tests what evictd does when its API server fails, when it is killed, and what a calm
// agent asks of it. It is run on purpose, and is not part of the gate: `make test-faults`.
//
// Two tests have objects of the cluster, are not parallel, and restore them: the stop of etcd, which is every
// test's, and evictd's account with its policies.
package faults
