// Package state keeps what must survive a restart of the container in one small file: open
// incidents, requests in flight and in doubt, limits and back-offs. It knows no rules: the
// memories export plain values with an expiry for each entry, and drop the expired ones
// themselves when they are restored.
//
// The file is replaced as a whole by a rename, so that a reader sees the old one or the new
// one. It is not synced to the disk. A process that is killed loses nothing that it has
// written, whatever the filesystem: the page cache belongs to the kernel. A machine that
// crashes may lose it, but then it has booted anew, and a file of another boot is not used
// at all: on tmpfs, where the shipped manifest puts it, fsync does nothing anyway.
//
// Times are wall-clock times, because a monotonic reading means nothing in another process.
// They are compared within one boot only, and a file that was written in the future is not
// used.
package state
