// Package cgroup2 tests what judges the output of tests on cgroup v2: `make test-cgroup2` and `make e2e-cgroup2` run the
// script run of this folder.
package cgroup2
