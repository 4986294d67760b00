// Package vm runs test binaries on cgroup v2 where a machine has none: in a Debian kernel
// under qemu, in software, without network and with only the files that it is given, for the
// command test/cgroup2.
package vm
