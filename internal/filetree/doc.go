// Package filetree answers one question: what do the files below a directory take? It is for a
// privileged process that looks at directories in which others write.
//
//	pool := filetree.NewPool(0.2)
//	defer pool.Rest()
//	err := pool.Do(ctx, dir, func(t *filetree.Turn) error {
//		fd, err := open(dir)
//		if err == nil {
//			count = t.Count(fd)
//		}
//		return err
//	})
//
// It counts the allocated blocks and inodes of the start and of everything below it, and a file
// with several links once. It does not count other mounts and other filesystems, so a bind mount
// that leads back up ends where it begins.
//
// A process that writes in the tree cannot lead the walk out of it. Each directory is opened by one
// name, relative to the directory that holds it and that stays open, and neither through a symbolic link
// nor into a mount (openat2). A mount whose server is dead is never touched.
//
// Nor can such a process make the walk exceed its bounds. File descriptors, the names that are
// remembered and the inodes with several links are bounded. What lies beyond a bound is left out,
// and the count says that it is a lower bound and why. So does a count that ends with its context.
// A task whose filesystem does not respond holds one thread at most. In the steady state nothing is allocated for a file.
//
// [OpenInHost] opens a directory of the host from a container that has the host's root mounted.
//
// The package needs Linux 5.6, and read and search permission for every directory: as root of a
// container, CAP_DAC_READ_SEARCH.
package filetree
