package main

import (
	"bytes"
	"context"
	_ "embed" // for the init script
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// modules are what the kernel needs for a disk; their dependencies are added.
const modules = "virtio_pci virtio_blk crc32c_generic ext4"

const diskSize = 2 << 30

//go:embed init
var initScript []byte

// machine is the virtual machine and its files.
type machine struct {
	dir     string // of the project's own files
	qemu    string
	busybox string
	kernel  string
	modules string // the directory lib/modules/<release> of the unpacked kernel
}

// findQemu finds qemu, or installs it where it may.
func (m *machine) findQemu(ctx context.Context) error {
	const name, hint = "qemu-system-x86_64", "apt-get install --yes --no-install-recommends qemu-system-x86"
	var err error
	if m.qemu, err = exec.LookPath(name); err == nil {
		return nil
	}
	if _, err = exec.LookPath("apt-get"); err != nil {
		return fmt.Errorf("%s is missing, and this is not Debian: install it, and see to it that apt-get and dpkg-deb are there for the kernel", name)
	}
	if os.Geteuid() != 0 {
		return fmt.Errorf("%s is missing: run it as root, or before it '%s'", name, hint)
	}
	fmt.Println(hint)
	if err = update(ctx); err != nil {
		return err
	}
	words := append([]string{"DEBIAN_FRONTEND=noninteractive"}, strings.Fields(hint)...)
	if err = command(ctx, "", "env", words...); err != nil {
		return fmt.Errorf("installing qemu: %w", err)
	}
	m.qemu, err = exec.LookPath(name)
	return err
}

// update fetches apt's lists where this user may: a fresh image has none, and old ones list
// packages that no longer exist. A later step reports what is missing without them.
func update(ctx context.Context) error {
	if os.Geteuid() != 0 {
		return nil
	}
	return command(ctx, "", "apt-get", "update")
}

// unpack downloads Debian's kernel and a static busybox and unpacks them, without installing
// either.
func (m *machine) unpack(ctx context.Context) error {
	root := filepath.Join(m.dir, "debian")
	m.busybox = filepath.Join(root, "bin/busybox")
	if !m.unpacked(root) {
		fmt.Println("Downloading Debian's kernel and busybox (70 MB) and unpacking them.")
		if err := update(ctx); err != nil {
			return err
		}
		const script = `rm -rf debian *.deb
kernel=$(apt-cache depends linux-image-amd64 | sed -n 's/.*Depends: \(linux-image-[^ ]*\)$/\1/p' | head -1)
[ -n "$kernel" ] || { echo "apt knows no package linux-image-amd64: this needs Debian, and 'apt-get update' once as root"; exit 1; }
apt-get -q download "$kernel" busybox-static
for package in *.deb; do dpkg-deb -x "$package" debian; done
rm *.deb`
		if err := command(ctx, m.dir, "sh", "-e", "-c", script); err != nil {
			return fmt.Errorf("getting Debian's kernel: %w", err)
		}
		if !m.unpacked(root) {
			return fmt.Errorf("the packages hold no kernel, no modules or no busybox: look into %s", root)
		}
	}
	return nil
}

func (m *machine) unpacked(root string) bool {
	kernels, _ := filepath.Glob(filepath.Join(root, "boot/vmlinuz-*"))
	releases, _ := filepath.Glob(filepath.Join(root, "lib/modules/*"))
	_, err := os.Stat(m.busybox)
	if len(kernels) != 1 || len(releases) != 1 || err != nil {
		return false
	}
	m.kernel, m.modules = kernels[0], releases[0]
	return true
}

// listModules writes modules.dep, which a package creates when it is installed.
func (m *machine) listModules(ctx context.Context) error {
	if _, err := os.Stat(filepath.Join(m.modules, "modules.dep")); err == nil {
		return nil
	}
	return command(ctx, "", m.busybox, "depmod", "-b", filepath.Join(m.dir, "debian"), filepath.Base(m.modules))
}

// stage puts the files of the virtual machine into a directory.
func (m *machine) stage(suites []suite, run string) error {
	root := filepath.Join(m.dir, "root")
	if err := os.RemoveAll(root); err != nil {
		return err
	}
	for _, dir := range []string{"proc", "sys", "dev", "tmp", "data", "root"} {
		if err := os.MkdirAll(filepath.Join(root, dir), 0o750); err != nil {
			return err
		}
	}
	files := map[string]string{"bin/busybox": m.busybox} // target: source
	if err := m.neededModules(files); err != nil {
		return err
	}
	for _, s := range suites {
		files[filepath.Join("tests", s.name, "tests")] = s.binary
		testdata := filepath.Join(s.source, "testdata")
		if _, err := os.Stat(testdata); err == nil {
			if err := os.CopyFS(filepath.Join(root, "tests", s.name, "testdata"), os.DirFS(testdata)); err != nil {
				return err
			}
		}
	}
	for to, from := range files {
		content, err := os.ReadFile(from) //nolint:gosec // the project's own
		if err != nil {
			return err
		}
		if err := write(filepath.Join(root, to), content); err != nil {
			return err
		}
	}
	return errors.Join(write(filepath.Join(root, "init"), initScript), write(filepath.Join(root, "tests/run"), []byte(run)))
}

// neededModules adds the modules' files and the list of their dependencies.
func (m *machine) neededModules(files map[string]string) error {
	dependencies, err := os.ReadFile(filepath.Join(m.modules, "modules.dep"))
	if err != nil {
		return err
	}
	add := func(file string) {
		files[filepath.Join("lib/modules", filepath.Base(m.modules), file)] = filepath.Join(m.modules, file)
	}
	add("modules.dep")
	for line := range strings.Lines(string(dependencies)) {
		file, others, _ := strings.Cut(strings.TrimSpace(line), ":")
		name, _, _ := strings.Cut(filepath.Base(file), ".")
		if !strings.Contains(" "+modules+" ", " "+strings.ReplaceAll(name, "-", "_")+" ") {
			continue
		}
		for _, needed := range append(strings.Fields(others), file) {
			add(needed)
		}
	}
	return nil
}

func write(path string, content []byte) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o750); err != nil {
		return err
	}
	return os.WriteFile(path, content, 0o755) //nolint:gosec // programs, in a directory of the project
}

// pack makes the initramfs, and an empty sparse disk.
func (m *machine) pack(ctx context.Context) error {
	const script = `find . | "$0" cpio -o -H newc -R 0:0 >../initramfs; rm -f ../disk; "$0" truncate -s "$1" ../disk`
	if err := command(ctx, filepath.Join(m.dir, "root"), "sh", "-e", "-c", script, m.busybox, fmt.Sprint(diskSize)); err != nil {
		return fmt.Errorf("packing the initramfs: %w", err)
	}
	return nil
}

// boot runs the virtual machine until it powers off. When the context ends, only qemu is
// killed.
func (m *machine) boot(ctx context.Context, r *report) error {
	disk := filepath.Join(m.dir, "disk")
	defer os.Remove(disk)                                //nolint:errcheck // the next run makes a new one anyway
	qemu := exec.CommandContext(ctx, m.qemu, "-machine", //nolint:gosec // the words are all known
		"q35", "-accel", "tcg,thread=multi", "-cpu", "max", "-smp", "2", "-m", "1G",
		"-nodefaults", "-nic", "none", "-display", "none", "-serial", "stdio", "-no-reboot",
		"-kernel", m.kernel, "-initrd", filepath.Join(m.dir, "initramfs"),
		"-append", "console=ttyS0 quiet loglevel=1 panic=-1 psi=1",
		"-drive", "if=virtio,format=raw,cache=unsafe,file="+disk)
	qemu.Stdout, qemu.Stderr = r, os.Stderr
	fmt.Printf("Booting %s under qemu, in software; no network.\n", filepath.Base(m.kernel))
	err := qemu.Run()
	switch {
	case ctx.Err() != nil:
		return fmt.Errorf("the virtual machine was ended before the tests were: %w", ctx.Err())
	case err != nil:
		return fmt.Errorf("qemu: %w", err)
	case r.exit == "":
		return errors.New("the virtual machine ended before the tests did")
	case r.exit != "0":
		return errors.New("the tests failed")
	}
	return nil
}

// command runs a program whose output matters only when it fails.
func command(ctx context.Context, dir, name string, args ...string) error {
	c := exec.CommandContext(ctx, name, args...) //nolint:gosec // this program's own words
	c.Dir = dir
	output, err := c.CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s: %w: %s", filepath.Base(name), err, bytes.TrimSpace(output))
	}
	return nil
}
