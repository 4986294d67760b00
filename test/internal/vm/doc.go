// Package vm runs test binaries on cgroup v2 where a machine has none: in a Debian kernel
// under qemu, in software, without network and with only the files that it is given. The
// commands test/cgroup2 and test/cgroup2node use it.
package vm
