package vm

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// Debian unpacks packages of Debian into a directory, without installing them. They stay
// there for the next run.
type Debian struct {
	dir string
}

// newDebian returns the packages that are kept in a directory, which is created if missing.
func newDebian(dir string) (Debian, error) {
	absolute, err := filepath.Abs(dir)
	if err == nil {
		err = os.MkdirAll(absolute, 0o750)
	}
	if err != nil {
		return Debian{}, fmt.Errorf("making the directory of the packages: %w", err)
	}
	return Debian{dir: absolute}, nil
}

// Kernel is a kernel with its modules, and a static busybox.
type Kernel struct {
	image, busybox string
	modules        string // the directory lib/modules/<release>
}

// kernel downloads the kernel that Debian's linux-image-amd64 depends on, and busybox-static,
// unless an earlier run has.
func (d Debian) kernel(ctx context.Context) (Kernel, error) {
	const name = "kernel"
	k, complete := d.findKernel(name)
	if !complete {
		const words = `$(apt-cache depends linux-image-amd64 | sed -n 's/.*Depends: \(linux-image-[^ ]*\)$/\1/p' | head -1) busybox-static`
		if err := d.download(ctx, name, "Debian's kernel and busybox (70 MB)", words); err != nil {
			return k, err
		}
		if k, complete = d.findKernel(name); !complete {
			return k, fmt.Errorf("the packages hold no kernel, no modules or no busybox: look into %s", filepath.Join(d.dir, name))
		}
	}
	if _, err := os.Stat(filepath.Join(k.modules, "modules.dep")); err == nil {
		return k, nil
	}
	// A package creates modules.dep when it is installed.
	return k, command(ctx, "", k.busybox, "depmod", "-b", filepath.Join(d.dir, name), filepath.Base(k.modules))
}

func (d Debian) findKernel(name string) (Kernel, bool) {
	root := filepath.Join(d.dir, name)
	k := Kernel{busybox: filepath.Join(root, "bin/busybox")}
	if _, err := os.Stat(k.busybox); err != nil {
		k.busybox = filepath.Join(root, "usr/bin/busybox") // from Debian 13 on
	}
	kernels, _ := filepath.Glob(filepath.Join(root, "boot/vmlinuz-*"))
	for _, pattern := range []string{"lib/modules/*", "usr/lib/modules/*"} {
		if releases, _ := filepath.Glob(filepath.Join(root, pattern)); len(releases) == 1 {
			k.modules = releases[0]
		}
	}
	_, err := os.Stat(k.busybox)
	if len(kernels) != 1 || k.modules == "" || err != nil {
		return k, false
	}
	k.image = kernels[0]
	return k, true
}

// Userland is an unpacked root directory with the programs of some packages.
type Userland struct{ root string }

// Userland downloads packages with all that they depend on, unless an earlier run has. The
// name is that of their directory.
func (d Debian) Userland(ctx context.Context, name string, packages ...string) (Userland, error) {
	u := Userland{root: filepath.Join(d.dir, name)}
	if _, err := os.Stat(filepath.Join(u.root, "etc/unpacked")); err == nil {
		return u, nil
	}
	// A package without a version of its own is a name in angle brackets.
	words := "$(apt-cache depends --recurse --no-recommends --no-suggests --no-conflicts --no-breaks --no-replaces --no-enhances " +
		strings.Join(packages, " ") + ` | grep '^[a-z0-9]' | sort -u)`
	if err := d.download(ctx, name, "Debian's "+strings.Join(packages, " and ")+" (10 MB)", words); err != nil {
		return u, err
	}
	for _, dir := range []string{"bin", "sbin", "lib", "lib64"} {
		// Where the packages have them only below /usr, the base system has these links.
		if err := os.Symlink("usr/"+dir, filepath.Join(u.root, dir)); err != nil && !errors.Is(err, os.ErrExist) {
			return u, fmt.Errorf("completing the programs of %s: %w", name, err)
		}
	}
	return u, os.WriteFile(filepath.Join(u.root, "etc/unpacked"), []byte(strings.Join(packages, "\n")), 0o600)
}

// Command runs one of the unpacked programs on this machine, by the libraries beside it. Its
// output matters only when it fails.
func (u Userland) Command(ctx context.Context, program string, args ...string) error {
	libraries := filepath.Join(u.root, "lib/x86_64-linux-gnu")
	words := []string{"--library-path", libraries + ":" + filepath.Join(u.root, "usr/lib/x86_64-linux-gnu"), filepath.Join(u.root, program)}
	return command(ctx, "", filepath.Join(libraries, "ld-linux-x86-64.so.2"), append(words, args...)...)
}

// download replaces the directory of that name with the unpacked packages that the words of
// the shell name.
func (d Debian) download(ctx context.Context, name, what, words string) error {
	for _, program := range []string{"apt-get", "dpkg-deb"} {
		if _, err := exec.LookPath(program); err != nil {
			return fmt.Errorf("%s is missing: getting %s needs it, on Debian", program, what)
		}
	}
	fmt.Printf("Downloading %s and unpacking them.\n", what)
	if err := update(ctx); err != nil {
		return err
	}
	const script = `rm -rf "$1" packages; mkdir packages; cd packages
names="%s"
case "$names" in ""|" "*) echo "apt does not know them: this needs 'apt-get update' once, as root"; exit 1;; esac
apt-get -q download $names
for package in *.deb; do dpkg-deb -x "$package" "../$1"; done
cd ..; rm -r packages`
	if err := command(ctx, d.dir, "sh", "-e", "-c", fmt.Sprintf(script, words), "sh", name); err != nil {
		return fmt.Errorf("getting %s: %w", what, err)
	}
	return nil
}

// update fetches apt's lists where this user may: a fresh image has none, and old ones list
// packages that no longer exist. A later step reports what is missing without them.
func update(ctx context.Context) error {
	if os.Geteuid() != 0 {
		return nil
	}
	return command(ctx, "", "apt-get", "update")
}

// findQemu finds qemu, or installs it where it may.
func findQemu(ctx context.Context) (string, error) {
	const name, hint = "qemu-system-x86_64", "apt-get install --yes --no-install-recommends qemu-system-x86"
	if qemu, err := exec.LookPath(name); err == nil {
		return qemu, nil
	}
	if _, err := exec.LookPath("apt-get"); err != nil {
		return "", fmt.Errorf("%s is missing, and this is not Debian: install it, and see to it that apt-get and dpkg-deb are there for the kernel", name)
	}
	if os.Geteuid() != 0 {
		return "", fmt.Errorf("%s is missing: run it as root, or before it '%s'", name, hint)
	}
	fmt.Println(hint)
	if err := update(ctx); err != nil {
		return "", err
	}
	words := append([]string{"DEBIAN_FRONTEND=noninteractive"}, strings.Fields(hint)...)
	if err := command(ctx, "", "env", words...); err != nil {
		return "", fmt.Errorf("installing qemu: %w", err)
	}
	return exec.LookPath(name)
}

// command runs a program whose output matters only when it fails.
func command(ctx context.Context, dir, name string, args ...string) error {
	c := exec.CommandContext(ctx, name, args...) //nolint:gosec // this package's own words
	c.Dir = dir
	output, err := c.CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s: %w: %s", filepath.Base(name), err, bytes.TrimSpace(output))
	}
	return nil
}
