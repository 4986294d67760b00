// Package disk measures the count of the pods' files, and `du -s` on the same tree: `make bench-disk`.
package disk
